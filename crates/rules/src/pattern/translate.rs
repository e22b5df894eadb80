//! Rewrites a pattern from PCRE's syntax to that of the engine which will run it.
//!
//! The languages agree on most constructs but not on all: PCRE's `$` also matches before a
//! final newline, `\h` and `\Q…\E` exist, `\<` is a plain `<`, `{` may stand for itself, `[[a]`
//! is one class. So every pattern is read as PCRE would read it and written out with nothing
//! but constructs that the engine understands the same way.
//! Source: pcrepattern(3) of PCRE 8, which ProxySQL 2.7.1 is built with.

mod class;
mod escape;

/// Who will run the pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Engine {
    /// The `regex` crate on bytes without Unicode.
    Linear,
    /// `fancy-regex` in its ASCII bytes mode.
    Backtracking,
}

/// Why a pattern was not translated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Only [`Engine::Backtracking`] can run it.
    NeedsBacktracking,
    /// Nothing can, for this reason.
    Unusable(String),
}

type Step = Result<(), Refusal>;

/// Translates `pattern` for `engine`.
pub(super) fn translate(pattern: &str, engine: Engine) -> Result<String, Refusal> {
    let mut translator = Translator {
        rest: pattern.as_bytes(),
        out: Vec::with_capacity(pattern.len() * 2),
        engine,
        modes: Modes::default(),
        groups: Vec::new(),
        captures: 0,
        end: EndState::default(),
    };
    translator.run()?;
    String::from_utf8(translator.out)
        .map_err(|_| unusable("a byte above 0x7F cannot stand beside look-around"))
}

fn unusable(reason: impl Into<String>) -> Refusal {
    Refusal::Unusable(reason.into())
}

struct Translator<'p> {
    rest: &'p [u8],
    out: Vec<u8>,
    engine: Engine,
    modes: Modes,
    groups: Vec<Group>,
    captures: u32,
    end: EndState,
}

/// Options that change how the rest of a group is read; `i`, `s` and `U` are left to the engine.
#[derive(Clone, Copy, Default)]
struct Modes {
    /// `(?x)`: white space and `#` comments mean nothing.
    is_extended: bool,
    /// `(?m)`: `^` and `$` match at every line.
    is_multiline: bool,
}

/// An open group: what holds again when it closes.
struct Group {
    modes: Modes,
    end: EndState,
}

/// Whether a `$` has been passed in the branch being read, or in one before it in this group.
///
/// A linear engine has no `$` that looks at the final newline without eating it. As long as
/// nothing follows the `$`, eating is the same; when something does, look-ahead is needed.
#[derive(Clone, Copy, Default)]
struct EndState {
    in_branch: bool,
    in_group: bool,
}

impl Translator<'_> {
    fn run(&mut self) -> Step {
        while let Some(byte) = self.next() {
            match byte {
                b'\\' => self.escape()?,
                b'[' => self.class()?,
                b'(' => self.open()?,
                b')' => self.close()?,
                b'|' => self.branch(),
                b'$' if self.modes.is_multiline => self.atom(b"(?m:$)")?,
                b'$' => self.text_end()?,
                b'^' if self.modes.is_multiline => self.atom(b"(?m:^)")?,
                b'^' => self.atom(br"\A")?,
                b'.' => self.atom(b".")?,
                b'*' | b'+' | b'?' => self.quantifier(&[byte])?,
                b'{' => self.brace()?,
                b'#' if self.modes.is_extended => self.skip_past(b'\n'),
                _ if self.modes.is_extended && byte.is_ascii_whitespace() => {}
                _ => self.literal(byte)?,
            }
        }
        match self.groups.is_empty() {
            true => Ok(()),
            false => Err(unusable("missing )")),
        }
    }

    fn next(&mut self) -> Option<u8> {
        let (&byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(byte)
    }

    /// Takes `head` off the rest if the rest begins with it.
    fn eat(&mut self, head: &[u8]) -> bool {
        match self.rest.strip_prefix(head) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Takes the rest up to the first `end`, which is taken too and not returned.
    fn take_until(&mut self, end: u8) -> Option<&[u8]> {
        let at = self.rest.iter().position(|&byte| byte == end)?;
        let (taken, rest) = self.rest.split_at_checked(at)?;
        self.rest = rest.get(1..)?;
        Some(taken)
    }

    fn skip_past(&mut self, end: u8) {
        if self.take_until(end).is_none() {
            self.rest = &[];
        }
    }

    /// Writes what matches or asserts something of its own.
    fn atom(&mut self, text: &[u8]) -> Step {
        self.check_end()?;
        self.out.extend_from_slice(text);
        Ok(())
    }

    /// Something follows in the branch being read.
    fn check_end(&self) -> Step {
        match self.end.in_branch && self.engine == Engine::Linear {
            true => Err(Refusal::NeedsBacktracking),
            false => Ok(()),
        }
    }

    fn literal(&mut self, byte: u8) -> Step {
        self.check_end()?;
        if byte.is_ascii_alphanumeric() || (!byte.is_ascii() && self.engine != Engine::Linear) {
            self.out.push(byte);
        } else {
            self.out.extend_from_slice(&hex(byte));
        }
        Ok(())
    }

    fn text_end(&mut self) -> Step {
        match self.engine {
            Engine::Linear => {
                // A second `$` may follow the first: what that one left is empty.
                self.out.extend_from_slice(br"(?:\n?\z)");
                self.end.in_branch = true;
                Ok(())
            }
            Engine::Backtracking => self.atom(br"(?=\n?\z)"),
        }
    }

    fn branch(&mut self) {
        self.out.push(b'|');
        self.end.in_group |= self.end.in_branch;
        self.end.in_branch = false;
    }

    /// `base` and the `?` or `+` that may follow it.
    fn quantifier(&mut self, base: &[u8]) -> Step {
        if base != b"?" {
            self.check_end()?;
        }
        self.out.extend_from_slice(base);
        if self.eat(b"?") {
            self.out.push(b'?');
        } else if self.eat(b"+") {
            if self.engine == Engine::Linear {
                return Err(Refusal::NeedsBacktracking);
            }
            self.out.push(b'+');
        }
        Ok(())
    }

    /// `{n}`, `{n,}` or `{n,m}`; any other brace stands for itself.
    fn brace(&mut self) -> Step {
        let counts = self.rest.iter().position(|&byte| byte == b'}');
        let counts = counts.and_then(|at| self.rest.get(..at)).filter(|inner| {
            let mut parts = inner.splitn(2, |&byte| byte == b',');
            let is_number = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
            let least = parts.next().is_some_and(is_number);
            least && parts.next().is_none_or(|most| most.is_empty() || is_number(most))
        });
        let Some(counts) = counts else {
            return self.literal(b'{');
        };
        let quantifier = [b"{", counts, b"}"].concat();
        self.rest = self.rest.get(counts.len() + 1..).unwrap_or_default();
        self.quantifier(&quantifier)
    }

    fn open(&mut self) -> Step {
        if self.rest.starts_with(b"*") {
            return Err(unusable("verbs such as (*SKIP) are not supported"));
        }
        if !self.eat(b"?") {
            self.captures += 1;
            return self.group(b"(");
        }
        if self.eat(b"#") {
            self.skip_past(b')');
            return Ok(());
        }
        if self.eat(b":") {
            return self.group(b"(?:");
        }
        for head in [&b"="[..], b"!", b"<=", b"<!", b">"] {
            if self.eat(head) {
                if self.engine == Engine::Linear {
                    return Err(Refusal::NeedsBacktracking);
                }
                return self.group(&[b"(?", head].concat());
            }
        }
        if self.eat(b"P=") {
            let name = self.name(b')')?;
            return self.named_reference(&name);
        }
        let closing = match (self.eat(b"P<") || self.eat(b"<"), self.eat(b"'")) {
            (true, _) => b'>',
            (false, true) => b'\'',
            (false, false) => return self.options(),
        };
        let name = self.name(closing)?;
        self.captures += 1;
        self.group(&[b"(?P<", name.as_slice(), b">"].concat())
    }

    fn group(&mut self, head: &[u8]) -> Step {
        self.atom(head)?;
        self.groups.push(Group { modes: self.modes, end: self.end });
        self.end = EndState::default();
        Ok(())
    }

    fn close(&mut self) -> Step {
        let group = self.groups.pop().ok_or_else(|| unusable("unmatched )"))?;
        let passed_end = self.end.in_branch || self.end.in_group;
        self.out.push(b')');
        self.modes = group.modes;
        self.end = group.end;
        self.end.in_branch |= passed_end;
        Ok(())
    }

    /// `(?i-s)` or `(?i-s:…)`, from behind the `?`.
    fn options(&mut self) -> Step {
        let outside = self.modes;
        let mut inside = self.modes;
        let (mut on, mut off) = (Vec::new(), Vec::new());
        let mut is_on = true;
        loop {
            match self.next() {
                Some(b'x') => inside.is_extended = is_on,
                Some(b'm') => inside.is_multiline = is_on,
                Some(option @ (b'i' | b's' | b'U')) if is_on => on.push(option),
                Some(option @ (b'i' | b's' | b'U')) => off.push(option),
                Some(b'-') if is_on => is_on = false,
                Some(end @ (b')' | b':')) => {
                    if !off.is_empty() {
                        on.push(b'-');
                    }
                    let head = [b"(?".as_slice(), &on, &off].concat();
                    return self.end_options(end, &head, outside, inside);
                }
                Some(byte) => {
                    let shown = char::from(byte);
                    return Err(unusable(format!(
                        "groups that begin with `(?…{shown}` are not supported"
                    )));
                }
                None => return Err(unusable("missing )")),
            }
        }
    }

    fn end_options(&mut self, end: u8, head: &[u8], outside: Modes, inside: Modes) -> Step {
        if end == b')' {
            self.modes = inside;
            if head.len() > 2 {
                self.out.extend_from_slice(head);
                self.out.push(b')');
            }
            return Ok(());
        }
        self.group(&[head, b":"].concat())?;
        if let Some(group) = self.groups.last_mut() {
            group.modes = outside;
        }
        self.modes = inside;
        Ok(())
    }

    /// A group's name and the byte that ends it.
    fn name(&mut self, closing: u8) -> Result<Vec<u8>, Refusal> {
        let name = self.take_until(closing).map(<[u8]>::to_vec);
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let starts_well = |name: &Vec<u8>| name.first().is_some_and(|byte| !byte.is_ascii_digit());
        name.filter(|name| starts_well(name) && name.iter().all(is_word))
            .ok_or_else(|| unusable("a group's name is not a word"))
    }

    fn named_reference(&mut self, name: &[u8]) -> Step {
        self.reference(&[br"(?:\k<", name, b">)"].concat())
    }

    fn reference(&mut self, text: &[u8]) -> Step {
        match self.engine {
            Engine::Linear => Err(Refusal::NeedsBacktracking),
            Engine::Backtracking => self.atom(text),
        }
    }
}

/// `\xHH`, which both engines read as that byte (the backtracking one: below 0x80).
fn hex(byte: u8) -> [u8; 4] {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let digit = |nibble: u8| DIGITS.get(usize::from(nibble)).copied().unwrap_or(b'0');
    [b'\\', b'x', digit(byte >> 4), digit(byte & 0xF)]
}
