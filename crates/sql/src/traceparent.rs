//! `traceparent`: which span of an application's a statement belongs to, as W3C's Trace Context
//! writes it, in a comment of sqlcommenter or in a query attribute.
//!
//! | part | of `00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01` |
//! |---|---|
//! | version | `00`; `ff` is none, a later one may have more behind its flags |
//! | trace | 32 hex digits in lower case, not all zero |
//! | parent | 16 hex digits in lower case, not all zero |
//! | flags | 2 hex digits; the lowest bit says that the trace is sampled |
//!
//! Sources: W3C "Trace Context", level 1; sqlcommenter's specification.

/// A span of somebody else's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    /// The trace.
    pub trace: [u8; 16],
    /// The span.
    pub span: [u8; 8],
    /// Whether whoever began the trace keeps it.
    pub is_sampled: bool,
}

/// What a statement says of its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    None,
    /// Something that is no parent.
    Wrong,
    /// This one.
    Parent(TraceParent),
}

/// The longest comment that is looked at, bytes.
pub const COMMENT_LEN_MAX: usize = 2_048;

/// The length of a value of version `00`.
const LEN: usize = 55;

const NAME: &[u8] = b"traceparent";

impl TraceParent {
    /// Reads a value; `None` for anything that is none of version `00`.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let value: &[u8; LEN] = value.try_into().ok()?;
        let (version, rest) = value.split_at(3);
        let (trace, rest) = rest.split_at(32);
        let (dash, rest) = rest.split_at(1);
        let (span, rest) = rest.split_at(16);
        let (other_dash, flags) = rest.split_at(1);
        if version != b"00-" || dash != b"-" || other_dash != b"-" {
            return None;
        }
        let (trace, span): ([u8; 16], [u8; 8]) = (hex(trace)?, hex(span)?);
        let [flags]: [u8; 1] = hex(flags)?;
        if trace == [0; 16] || span == [0; 8] {
            return None;
        }
        Some(Self { trace, span, is_sampled: flags & 1 != 0 })
    }

    /// Looks for sqlcommenter's comment at the end of a text, or at its beginning. One that is
    /// longer than [`COMMENT_LEN_MAX`] is not looked at. Takes no more time for a longer text.
    pub fn find(text: &[u8]) -> Found {
        let at_end = last_comment(text).map_or(Found::None, in_comment);
        match at_end {
            Found::None => first_comment(text).map_or(Found::None, in_comment),
            found => found,
        }
    }
}

/// What is between the `/*` and the `*/` with which a text ends, spaces and `;` behind it aside.
fn last_comment(text: &[u8]) -> Option<&[u8]> {
    let tail = text.get(text.len().saturating_sub(COMMENT_LEN_MAX)..)?;
    let is_rest = |byte: &u8| byte.is_ascii_whitespace() || *byte == b';';
    let end = tail.len() - tail.iter().rev().take_while(|byte| is_rest(byte)).count();
    let inside = tail.get(..end)?.strip_suffix(b"*/")?;
    let begin = inside.windows(2).rposition(|pair| pair == b"/*")?;
    inside.get(begin + 2..)
}

/// What is between the `/*` with which a text begins and its `*/`.
fn first_comment(text: &[u8]) -> Option<&[u8]> {
    let head = text.get(..text.len().min(COMMENT_LEN_MAX))?;
    let inside = head.trim_ascii_start().strip_prefix(b"/*")?;
    let end = inside.windows(2).position(|pair| pair == b"*/")?;
    inside.get(..end)
}

/// The pair `traceparent='…'` of a comment; values are URL-encoded, which changes none of this
/// one's characters.
fn in_comment(comment: &[u8]) -> Found {
    for pair in comment.split(|byte| *byte == b',') {
        let Some(value) = pair.trim_ascii().strip_prefix(NAME) else { continue };
        let Some(value) = value.trim_ascii_start().strip_prefix(b"=") else { continue };
        let value = value.trim_ascii();
        let quoted = value.strip_prefix(b"'").and_then(|value| value.strip_suffix(b"'"));
        return match quoted.and_then(TraceParent::parse) {
            Some(parent) => Found::Parent(parent),
            None => Found::Wrong,
        };
    }
    Found::None
}

/// So many bytes of hex digits in lower case.
fn hex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let (pairs, rest) = digits.as_chunks::<2>();
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn parent(is_sampled: bool) -> TraceParent {
        TraceParent {
            trace: 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c_u128.to_be_bytes(),
            span: 0xb7ad_6b71_6920_3331_u64.to_be_bytes(),
            is_sampled,
        }
    }

    #[test]
    fn a_value_is_read_strictly() {
        let read = |text: &str| TraceParent::parse(text.as_bytes());
        assert_eq!(read(VALUE), Some(parent(true)));
        assert_eq!(read(&VALUE.replace("-01", "-00")), Some(parent(false)));
        // Only the lowest bit means something.
        assert_eq!(read(&VALUE.replace("-01", "-fe")), Some(parent(false)));
        for wrong in [
            "",
            "00",
            &VALUE.replace("00-0a", "01-0a"),
            &VALUE.replace("00-0a", "ff-0a"),
            &VALUE.to_uppercase(),
            &VALUE.replace("0af7", "0ag7"),
            &format!("{VALUE}-"),
            &format!("{VALUE} "),
            &format!(" {VALUE}"),
            &VALUE.replace("-b7", "_b7"),
            &VALUE.replace("-01", "-0"),
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn comments_at_the_end_or_the_beginning_name_a_parent() {
        let found = Found::Parent(parent(true));
        for text in [
            format!("SELECT 1 /*traceparent='{VALUE}'*/"),
            format!("SELECT 1 /* action='%2Fa',traceparent='{VALUE}',x='y' */ ;\n"),
            format!("/*traceparent='{VALUE}'*/ SELECT 1"),
            format!("  /* traceparent = '{VALUE}' */ SELECT 1 /* x='y' */"),
        ] {
            assert_eq!(TraceParent::find(text.as_bytes()), found, "{text}");
        }
        for text in [
            "SELECT 1".to_owned(),
            "SELECT 1 */".to_owned(),
            "/*".to_owned(),
            "*/".to_owned(),
            "/*/".to_owned(),
            String::new(),
            format!("SELECT '/*traceparent=''{VALUE}''*/'"),
            format!("SELECT 1 /*traceparent='{VALUE}'*/, 2"),
            format!("SELECT 1 /*xtraceparent='{VALUE}'*/"),
            format!("SELECT 1 /*{}traceparent='{VALUE}'*/", " ".repeat(COMMENT_LEN_MAX)),
        ] {
            assert_eq!(TraceParent::find(text.as_bytes()), Found::None, "{text}");
        }
        for text in [
            format!("SELECT 1 /*traceparent={VALUE}*/"),
            format!("SELECT 1 /*traceparent='{VALUE}*/"),
            "SELECT 1 /*traceparent=''*/".to_owned(),
            format!("SELECT 1 /*traceparent='{}'*/", "f".repeat(1_000)),
        ] {
            assert_eq!(TraceParent::find(text.as_bytes()), Found::Wrong, "{text}");
        }
    }

    #[test]
    fn any_bytes_are_taken() {
        let whole = format!("/*traceparent='{VALUE}'*/ SELECT 1 /*traceparent='{VALUE}'*/");
        for at in 0..whole.len() {
            let mut bytes = whole.clone().into_bytes();
            bytes[at] = 0xFF;
            TraceParent::find(&bytes);
            TraceParent::find(&whole.as_bytes()[at..]);
            TraceParent::find(&whole.as_bytes()[..at]);
        }
    }
}
