//! Bracketed classes.

use super::{Step, Translator, escape::spaces, unusable};

/// Names that both PCRE and the engines know between `[:` and `:]`.
const NAMES: [&[u8]; 14] = [
    b"alpha", b"lower", b"upper", b"alnum", b"ascii", b"blank", b"cntrl", b"digit", b"graph",
    b"print", b"punct", b"space", b"word", b"xdigit",
];

/// One thing between brackets.
enum Item {
    Byte(u8),
    /// Already in the engine's syntax.
    Class(Vec<u8>),
}

impl Translator<'_> {
    /// A class, from behind its `[`.
    pub(super) fn class(&mut self) -> Step {
        self.atom(b"[")?;
        if self.eat(b"^") {
            self.out.push(b'^');
        }
        let mut is_first = true;
        loop {
            if !is_first && self.eat(b"]") {
                self.out.push(b']');
                return Ok(());
            }
            is_first = false;
            match self.item()? {
                Some(Item::Class(text)) => self.out.extend_from_slice(&text),
                Some(Item::Byte(low)) => self.range(low)?,
                None => {}
            }
        }
    }

    /// A byte, or the range that it begins.
    fn range(&mut self, low: u8) -> Step {
        self.member(low)?;
        let begins_range = matches!(self.rest, [b'-', next, ..] if *next != b']');
        if !begins_range {
            return Ok(());
        }
        self.next();
        match self.item()? {
            Some(Item::Byte(high)) => {
                self.out.push(b'-');
                self.member(high)
            }
            // A class cannot end a range: the hyphen stands for itself.
            Some(Item::Class(text)) => {
                self.member(b'-')?;
                self.out.extend_from_slice(&text);
                Ok(())
            }
            None => self.member(b'-'),
        }
    }

    /// The next item; `None` for an escape that stands for nothing (`\E`).
    fn item(&mut self) -> Result<Option<Item>, super::Refusal> {
        let Some(byte) = self.next() else {
            return Err(unusable("missing ]"));
        };
        match byte {
            b'[' => self.posix().map(Some),
            b'\\' => self.class_escape(),
            _ => Ok(Some(Item::Byte(byte))),
        }
    }

    /// `[:name:]` from behind the bracket; any other bracket stands for itself.
    fn posix(&mut self) -> Result<Item, super::Refusal> {
        let Some(kind @ (b':' | b'.' | b'=')) = self.rest.first().copied() else {
            return Ok(Item::Byte(b'['));
        };
        let inner = self.rest.get(1..).unwrap_or_default();
        let end = inner.windows(2).position(|pair| pair == [kind, b']']);
        let inner = end.and_then(|end| inner.get(..end));
        let Some(inner) = inner.filter(|inner| !inner.contains(&b']')) else {
            return Ok(Item::Byte(b'['));
        };
        let name = inner.strip_prefix(b"^").unwrap_or(inner);
        if kind != b':' || !NAMES.contains(&name) {
            let shown = String::from_utf8_lossy(inner);
            return Err(unusable(format!("unknown class [{0}{shown}{0}]", char::from(kind))));
        }
        let item = Item::Class([b"[:", inner, b":]"].concat());
        self.rest = self.rest.get(inner.len() + 3..).unwrap_or_default();
        Ok(item)
    }

    fn class_escape(&mut self) -> Result<Option<Item>, super::Refusal> {
        let Some(letter) = self.next() else {
            return Err(unusable("missing ]"));
        };
        let item = match letter {
            b'd' | b'D' | b'w' | b'W' | b's' | b'S' => Item::Class(vec![b'\\', letter]),
            b'h' | b'v' => Item::Class(spaces(letter, self.engine).to_vec()),
            b'b' => Item::Byte(0x08),
            b'E' => return Ok(None),
            b'1'..=b'7' => Item::Byte(self.octal_byte(letter - b'0', 2)?),
            b'H' | b'V' | b'Q' | b'N' | b'R' | b'B' => {
                let shown = char::from(letter);
                return Err(unusable(format!(r"\{shown} is not supported in brackets")));
            }
            _ => Item::Byte(self.escaped_byte(letter)?),
        };
        Ok(Some(item))
    }
}
