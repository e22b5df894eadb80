//! The words of a statement. Enough for what clients of the model world and the proxy say.

use super::Tag;

/// One word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A keyword or name, as written.
    Word(&'a str),
    /// A whole number.
    Number(u64),
    /// A number with three digits behind the point, in thousandths.
    Thousandths(u64),
    /// A text without its quotes. Texts have neither quotes nor backslashes inside.
    Text(&'a str),
    /// `@name`.
    User(&'a str),
    /// `@@name`, with the scope if it is written.
    System(&'a str),
    /// Any other character.
    Symbol(u8),
}

/// The words of one statement, and the tag that a comment holds.
pub(super) struct Words<'a> {
    pub(super) tokens: Vec<Token<'a>>,
    pub(super) tag: Option<Tag>,
    /// The text that follows the statement's `;`; `None` at the end.
    pub(super) rest: Option<&'a str>,
}

/// Cuts the first statement off `text`. `None` for a text that ends inside of a quote or a
/// comment.
pub(super) fn words(text: &str) -> Option<Words<'_>> {
    let mut words = Words { tokens: Vec::with_capacity(16), tag: None, rest: None };
    let mut rest = text;
    loop {
        rest = rest.trim_ascii_start();
        let Some(first) = rest.bytes().next() else {
            return Some(words);
        };
        let token;
        (token, rest) = match first {
            b';' => {
                words.rest = rest.get(1..);
                return Some(words);
            }
            b'/' => {
                let (comment, after) = rest.strip_prefix("/*")?.split_once("*/")?;
                words.tag = comment.trim_ascii().parse().ok().map(Tag);
                rest = after;
                continue;
            }
            b'\'' => {
                let (inner, after) = rest.get(1..)?.split_once('\'')?;
                (Token::Text(inner), after)
            }
            b'0'..=b'9' => number(rest)?,
            b'@' => match rest.strip_prefix("@@") {
                Some(after) => {
                    let (name, after) = name(after);
                    (Token::System(name), after)
                }
                None => match rest.strip_prefix("@`") {
                    // As the proxy writes it.
                    Some(after) => {
                        let (name, after) = after.split_once('`')?;
                        (Token::User(name), after)
                    }
                    None => {
                        let (name, after) = name(rest.get(1..)?);
                        (Token::User(name), after)
                    }
                },
            },
            byte if is_name(byte) => {
                let (name, after) = name(rest);
                (Token::Word(name), after)
            }
            byte => (Token::Symbol(byte), rest.get(1..)?),
        };
        words.tokens.push(token);
    }
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.')
}

fn name(text: &str) -> (&str, &str) {
    let end = text.bytes().position(|byte| !is_name(byte)).unwrap_or(text.len());
    text.split_at(end)
}

fn number(text: &str) -> Option<(Token<'_>, &str)> {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    let whole: u64 = digits.parse().ok()?;
    let Some(fraction) = rest.strip_prefix('.') else {
        return Some((Token::Number(whole), rest));
    };
    let (digits, rest) = fraction.split_at_checked(3)?;
    let thousandths: u64 = digits.parse().ok()?;
    Some((Token::Thousandths(whole.checked_mul(1_000)?.checked_add(thousandths)?), rest))
}
