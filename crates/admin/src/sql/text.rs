//! A statement's text made comparable: no comments at its ends, one space between words, no `;`.

/// A statement without what does not matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text(String);

impl Text {
    /// Takes comments out and presses spaces together, outside of quotes. `/*!NNNNN … */` is a
    /// comment too, as for ProxySQL: what programs hide there is for servers.
    pub fn new(sql: &str) -> Self {
        let mut out = String::with_capacity(sql.len());
        let mut chars = sql.char_indices().peekable();
        let mut quote: Option<char> = None;
        while let Some((at, char)) = chars.next() {
            if let Some(open) = quote {
                out.push(char);
                if char == open {
                    quote = None;
                }
                continue;
            }
            let rest = sql.get(at..).unwrap_or_default();
            match char {
                '\'' | '"' | '`' => {
                    quote = Some(char);
                    out.push(char);
                }
                '/' if rest.starts_with("/*") => {
                    let len = rest.find("*/").map_or(rest.len(), |end| end + 2);
                    skip(&mut chars, at + len);
                    space(&mut out);
                }
                '#' => {
                    let len = rest.find('\n').unwrap_or(rest.len());
                    skip(&mut chars, at + len);
                }
                '-' if is_line_comment(rest) => {
                    let len = rest.find('\n').unwrap_or(rest.len());
                    skip(&mut chars, at + len);
                }
                char if char.is_whitespace() => space(&mut out),
                char => out.push(char),
            }
        }
        let trimmed = out.trim_end_matches([' ', ';']).len();
        out.truncate(trimmed);
        let start = out.len() - out.trim_start_matches([' ', ';']).len();
        Self(out.split_off(start))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its words in upper case; what is in quotes stays as it is.
    pub fn words(&self) -> Vec<String> {
        let words = self.spelled().into_iter();
        words
            .map(|word| match word.starts_with(['\'', '"', '`']) {
                true => word,
                false => word.to_uppercase(),
            })
            .collect()
    }

    /// Its words as they are written; what is in quotes is part of one word.
    pub fn spelled(&self) -> Vec<String> {
        let mut words = Vec::new();
        let mut word = String::new();
        let mut quote: Option<char> = None;
        for char in self.0.chars() {
            match (quote, char) {
                (Some(open), _) => {
                    word.push(char);
                    if char == open {
                        quote = None;
                    }
                }
                (None, ' ') => {
                    if !word.is_empty() {
                        words.push(std::mem::take(&mut word));
                    }
                }
                (None, _) => {
                    if matches!(char, '\'' | '"' | '`') {
                        quote = Some(char);
                    }
                    word.push(char);
                }
            }
        }
        if !word.is_empty() {
            words.push(word);
        }
        words
    }

    /// What follows the first `words` words, as it is written.
    pub fn after(&self, words: usize) -> &str {
        let mut rest = self.0.as_str();
        for _ in 0..words {
            rest = rest.split_once(' ').map_or("", |(_, rest)| rest);
        }
        rest
    }
}

/// The statements of a text, which `;` outside of quotes and comments separates; those that say
/// nothing are left out, unless nothing else is there.
pub fn statements(sql: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut begin = 0;
    let mut chars = sql.char_indices().peekable();
    let mut quote: Option<char> = None;
    while let Some((at, char)) = chars.next() {
        if let Some(open) = quote {
            if char == open {
                quote = None;
            }
            continue;
        }
        let rest = sql.get(at..).unwrap_or_default();
        match char {
            '\'' | '"' | '`' => quote = Some(char),
            '/' if rest.starts_with("/*") => {
                let len = rest.find("*/").map_or(rest.len(), |end| end + 2);
                skip(&mut chars, at + len);
            }
            '#' => skip(&mut chars, at + rest.find('\n').unwrap_or(rest.len())),
            '-' if is_line_comment(rest) => {
                skip(&mut chars, at + rest.find('\n').unwrap_or(rest.len()));
            }
            ';' => {
                found.push(sql.get(begin..at).unwrap_or_default());
                begin = at + 1;
            }
            _ => {}
        }
    }
    found.push(sql.get(begin..).unwrap_or_default());
    found.retain(|statement| !Text::new(statement).as_str().is_empty());
    match found.is_empty() {
        true => vec![sql],
        false => found,
    }
}

/// `--` begins a comment when a space or the end follows.
fn is_line_comment(rest: &str) -> bool {
    let after = rest.strip_prefix("--");
    after.is_some_and(|after| after.chars().next().is_none_or(char::is_whitespace))
}

fn space(out: &mut String) {
    if !out.is_empty() && !out.ends_with(' ') {
        out.push(' ');
    }
}

/// Goes on behind byte `to`.
fn skip(chars: &mut std::iter::Peekable<std::str::CharIndices<'_>>, to: usize) {
    while chars.peek().is_some_and(|(at, _)| *at < to) {
        chars.next();
    }
}

/// A word without the quotes around it; doubled quotes within stay doubled.
pub fn unquoted(word: &str) -> &str {
    for quote in ['\'', '"', '`'] {
        let inner = word.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
        if let Some(inner) = inner {
            return inner;
        }
    }
    word
}

/// A text as a literal of SQL.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
