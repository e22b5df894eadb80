//! What follows a backslash.

use super::{Engine, Refusal, Step, Translator, hex, unusable};

/// A class of bytes by its escape letter, as the inside of brackets. The second form is for
/// the backtracking engine, which takes no bytes above 0x7F in a class.
pub(super) fn spaces(letter: u8, engine: Engine) -> &'static [u8] {
    match (letter.to_ascii_lowercase(), engine) {
        (b'h', Engine::Linear) => br"\t\x20\xA0",
        (b'h', Engine::Backtracking) => br"\t\x20",
        (_, Engine::Linear) => br"\n\x0B\x0C\r\x85",
        (_, Engine::Backtracking) => br"\n\x0B\x0C\r",
    }
}

impl Translator<'_> {
    /// An escape outside brackets, from behind the backslash.
    pub(super) fn escape(&mut self) -> Step {
        let Some(letter) = self.next() else {
            return Err(unusable(r"\ at the end"));
        };
        match letter {
            b'd' | b'D' | b'w' | b'W' | b's' | b'S' | b'b' | b'B' | b'z' => {
                self.atom(&[b'\\', letter])
            }
            b'A' | b'G' => self.atom(br"\A"),
            b'Z' => self.text_end(),
            b'h' | b'v' => {
                let class = [b"[", spaces(letter, self.engine), b"]"].concat();
                self.atom(&class)
            }
            b'H' | b'V' => {
                let class = [b"[^", spaces(letter, self.engine), b"]"].concat();
                self.atom(&class)
            }
            b'N' => self.atom(br"[^\n]"),
            b'R' => {
                let newline = [br"(?:\r\n|[", spaces(b'v', self.engine), b"])"].concat();
                self.atom(&newline)
            }
            b'K' => self.reference(br"\K"),
            b'Q' => self.quoted(),
            b'E' => Ok(()),
            b'1'..=b'9' => self.numbered_reference(letter),
            b'g' => self.braced_reference(),
            b'k' => {
                let closing = match self.next() {
                    Some(b'<') => b'>',
                    Some(b'\'') => b'\'',
                    Some(b'{') => b'}',
                    Some(_) | None => return Err(unusable(r"\k without a name")),
                };
                let name = self.name(closing)?;
                self.named_reference(&name)
            }
            _ => {
                let byte = self.escaped_byte(letter)?;
                self.literal(byte)
            }
        }
    }

    /// The byte that an escape stands for which means the same inside and outside brackets.
    pub(super) fn escaped_byte(&mut self, letter: u8) -> Result<u8, Refusal> {
        match letter {
            b'n' => Ok(b'\n'),
            b'r' => Ok(b'\r'),
            b't' => Ok(b'\t'),
            b'f' => Ok(0x0C),
            b'a' => Ok(0x07),
            b'e' => Ok(0x1B),
            b'c' => match self.next() {
                Some(control) if control.is_ascii() => Ok(control.to_ascii_uppercase() ^ 0x40),
                Some(_) | None => Err(unusable(r"\c without an ASCII character")),
            },
            b'x' => self.hex_byte(),
            b'0' => self.octal_byte(0, 2),
            b'p' | b'P' | b'X' | b'C' | b'L' | b'l' | b'U' | b'u' | b'o' => {
                Err(unusable(format!(r"\{} is not supported", char::from(letter))))
            }
            _ => Ok(letter),
        }
    }

    /// `\xHH` with up to two digits, or `\x{…}`.
    fn hex_byte(&mut self) -> Result<u8, Refusal> {
        let digits = match self.eat(b"{") {
            true => self.take_until(b'}').map(<[u8]>::to_vec),
            false => {
                let is_digit = |byte: &&u8| byte.is_ascii_hexdigit();
                let digits: Vec<u8> =
                    self.rest.iter().take(2).take_while(is_digit).copied().collect();
                self.rest = self.rest.get(digits.len()..).unwrap_or_default();
                Some(digits)
            }
        };
        let digits = digits.and_then(|digits| String::from_utf8(digits).ok());
        match digits.as_deref() {
            Some("") => Ok(0),
            Some(digits) => u8::from_str_radix(digits, 16)
                .map_err(|_| unusable(format!(r"\x{{{digits}}} is not one byte in hex"))),
            None => Err(unusable(r"\x{ without }")),
        }
    }

    /// Up to `digits_max` further octal digits behind a first one.
    pub(super) fn octal_byte(&mut self, first: u8, digits_max: usize) -> Result<u8, Refusal> {
        let mut value = u32::from(first);
        for _ in 0..digits_max {
            let digit = self.rest.first().copied().filter(|byte| matches!(byte, b'0'..=b'7'));
            let Some(digit) = digit else { break };
            self.next();
            value = value << 3 | u32::from(digit - b'0');
        }
        u8::try_from(value).map_err(|_| unusable("an octal escape is above 0xFF"))
    }

    /// `\Q…\E`, from behind the `Q`; without `\E` it goes on to the end.
    fn quoted(&mut self) -> Step {
        while !self.rest.is_empty() && !self.eat(br"\E") {
            let Some(byte) = self.next() else { break };
            self.literal(byte)?;
        }
        Ok(())
    }

    /// `\N`: a back-reference below 10 and up to the number of groups opened so far, else up to
    /// three octal digits.
    fn numbered_reference(&mut self, digit: u8) -> Step {
        let is_digit = |byte: &&u8| byte.is_ascii_digit();
        let more = self.rest.iter().take(2).take_while(is_digit);
        let (number, len) = more.fold((u32::from(digit - b'0'), 0), |(number, len), &byte| {
            (number * 10 + u32::from(byte - b'0'), len + 1)
        });
        if number < 10 || number <= self.captures {
            self.rest = self.rest.get(len..).unwrap_or_default();
            return self.reference(format!(r"(?:\{number})").as_bytes());
        }
        if digit > b'7' {
            return Err(unusable(format!(r"\{number} is neither a group nor an octal number")));
        }
        let byte = self.octal_byte(digit - b'0', 2)?;
        self.literal(byte)
    }

    /// `\g1`, `\g{1}`, `\g{-1}` or `\g{name}`, from behind the `g`.
    fn braced_reference(&mut self) -> Step {
        let text = match self.next() {
            Some(b'{') => self.take_until(b'}').map(<[u8]>::to_vec),
            Some(digit) if digit.is_ascii_digit() => Some(vec![digit]),
            Some(_) | None => None,
        };
        let text = text.and_then(|text| String::from_utf8(text).ok());
        let text = text.ok_or_else(|| unusable(r"\g without a group"))?;
        let Ok(number) = text.parse::<i64>() else {
            let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            return match !text.is_empty() && text.bytes().all(is_word) {
                true => self.named_reference(text.as_bytes()),
                false => Err(unusable(r"\g without a group")),
            };
        };
        let number = match number < 0 {
            true => i64::from(self.captures) + 1 + number,
            false => number,
        };
        match number > 0 {
            true => self.reference(format!(r"(?:\{number})").as_bytes()),
            false => Err(unusable(format!(r"\g{{{text}}} is no group"))),
        }
    }

    /// Writes `byte` for the inside of brackets.
    pub(super) fn member(&mut self, byte: u8) -> Step {
        if !byte.is_ascii() && self.engine == Engine::Backtracking {
            return Err(unusable("a byte above 0x7F in brackets cannot stand beside look-around"));
        }
        self.out.extend_from_slice(&hex(byte));
        Ok(())
    }
}
