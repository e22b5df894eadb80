//! Tokens that applications carry from one session to another: what a session has written, as a
//! text.
//!
//! | part | hostgroups, and the numbers of transactions |
//! |---|---|
//! | `t1` | this form |
//! | `.10` | what was written in hostgroup 10; `.x`: wherever that was |
//! | `,3e11fa47-71ca-11e1-9e33-c80aa9429562:blue:5-7` | 5 to 7 of a server, with a tag |
//! | `,0:4-9` | 4 to 9 of a domain |
//! | `,writer` | nobody but the writer is known to have all |
//!
//! Such as `t1.10,0:4-9`. A read needs the last transaction of each; where a server has gaps, all
//! from the first one on.

use std::fmt::{self, Write as _};

use super::{OriginId, Origins, Token, Written};
use crate::{
    HostgroupId,
    gtid::{NUMBER_MAX, Origin, each_interval},
};

/// What each token begins with.
const FORM: &str = "t1";
/// The name of no hostgroup in particular.
const ANYWHERE: &str = "x";
/// What stands for all that has no number.
const WRITER: &str = "writer";
/// The longest token, bytes. Who has written so much that it would be longer reads from the writer.
const LEN_MAX: usize = 16 << 10;

/// What was written in one hostgroup, as a token has it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Carried {
    /// The hostgroup; `None` where it is not known.
    pub hostgroup: Option<HostgroupId>,
    /// Nobody but the writer is known to have all.
    pub needs_writer: bool,
    /// Transactions: whose, the first and the last one.
    pub wants: Vec<(Origin, u64, u64)>,
}

/// A text is no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenError {
    /// It has another form.
    Malformed,
    /// It is longer than any token.
    TooLong,
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => f.write_str("it is not what SHOW CAUSAL TOKEN has returned"),
            Self::TooLong => write!(f, "it is longer than {LEN_MAX} bytes"),
        }
    }
}

impl std::error::Error for TokenError {}

impl Written {
    /// What was written, as a token.
    pub fn to_text(&self, origins: &Origins, now_ms: u64) -> String {
        let mut text = FORM.to_owned();
        let written = self.tokens().filter(|(_, token)| !token.is_empty());
        for (hostgroup, token) in written {
            match hostgroup {
                Some(id) => _ = write!(text, ".{id}"),
                None => _ = write!(text, ".{ANYWHERE}"),
            }
            put(&mut text, token, |id| origins.origin(id));
        }
        if self.may_be_under_way(now_ms) {
            _ = write!(text, ".{ANYWHERE},{WRITER}");
        }
        match text.len() > LEN_MAX {
            true => format!("{FORM}.{ANYWHERE},{WRITER}"),
            false => text,
        }
    }
}

fn put(text: &mut String, token: &Token, origin: impl Fn(OriginId) -> Option<Origin>) {
    let mut needs_writer = token.needs_writer();
    for want in token.wants() {
        match origin(want.origin) {
            Some(origin) => _ = write!(text, ",{origin}:{}-{}", want.first, want.last),
            None => needs_writer = true,
        }
    }
    if needs_writer {
        _ = write!(text, ",{WRITER}");
    }
}

/// Reads a token.
///
/// # Errors
/// When it has another form, or is too long.
pub fn read_token(text: &str) -> Result<Vec<Carried>, TokenError> {
    if text.len() > LEN_MAX {
        return Err(TokenError::TooLong);
    }
    let mut groups = text.split('.');
    if groups.next() != Some(FORM) {
        return Err(TokenError::Malformed);
    }
    groups.map(|group| read_group(group).ok_or(TokenError::Malformed)).collect()
}

fn read_group(group: &str) -> Option<Carried> {
    let mut parts = group.split(',');
    let hostgroup = match parts.next()? {
        ANYWHERE => None,
        id => Some(HostgroupId(digits(id)?.parse().ok()?)),
    };
    let mut carried = Carried { hostgroup, ..Carried::default() };
    for part in parts {
        match part {
            WRITER => carried.needs_writer = true,
            part => carried.wants.push(read_want(part)?),
        }
    }
    Some(carried)
}

fn read_want(part: &str) -> Option<(Origin, u64, u64)> {
    let (origin, numbers) = part.rsplit_once(':')?;
    let (first, last) = numbers.split_once('-')?;
    let number = |text: &str| digits(text)?.parse().ok().filter(|it| (1..=NUMBER_MAX).contains(it));
    let (first, last): (u64, u64) = (number(first)?, number(last)?);
    if first > last {
        return None;
    }
    if let Some(domain) = digits(origin) {
        return Some((Origin::Domain(domain.parse().ok()?), first, last));
    }
    let mut found = Vec::new();
    each_interval(part, |origin, first, last| found.push((origin, first, last))).ok()?;
    match found.as_slice() {
        [only @ (_, from, to)] if (*from, *to) == (first, last) => Some(*only),
        _ => None,
    }
}

fn digits(text: &str) -> Option<&str> {
    let are_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    are_digits.then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";

    fn server(tag: &str) -> Origin {
        let mut origin = None;
        each_interval(&format!("{UUID}{tag}:1"), |it, _, _| origin = Some(it)).expect("a set");
        origin.expect("an origin")
    }

    #[test]
    fn what_was_written_is_read_back_from_its_token() {
        let origins = Origins::default();
        let id = |origin| origins.id(&origin).expect("a number");
        let mut written = Written::default();
        assert_eq!(written.to_text(&origins, 0), "t1");
        assert_eq!(read_token("t1"), Ok(vec![]));
        let (domain, plain, blue) = (Origin::Domain(7), server(""), server(":blue"));
        written.raise(HostgroupId(10), id(plain), 5, 7);
        written.raise(HostgroupId(10), id(blue), 1, 1);
        written.raise(HostgroupId(20), id(domain), 4, 9);
        written.token_mut(HostgroupId(30)).doubt();
        let text = format!("t1.10,{UUID}:5-7,{UUID}:blue:1-1.20,7:4-9.30,writer");
        assert_eq!(written.to_text(&origins, 0), text);
        let carried = |id, needs_writer, wants: &[_]| Carried {
            hostgroup: Some(HostgroupId(id)),
            needs_writer,
            wants: wants.to_vec(),
        };
        let expected = vec![
            carried(10, false, &[(plain, 5, 7), (blue, 1, 1)]),
            carried(20, false, &[(domain, 4, 9)]),
            carried(30, true, &[]),
        ];
        assert_eq!(read_token(&text), Ok(expected));
    }

    #[test]
    fn what_may_be_under_way_and_what_is_too_long_needs_the_writer() {
        let origins = Origins::default();
        let mut written = Written::default();
        written.lose(100);
        assert_eq!(written.to_text(&origins, 99), "t1.x,writer");
        assert_eq!(written.to_text(&origins, 100), "t1");
        let anywhere = Carried { needs_writer: true, ..Carried::default() };
        assert_eq!(read_token("t1.x,writer"), Ok(vec![anywhere]));
        for domain in 0..16 {
            let id = origins.id(&Origin::Domain(u32::MAX - domain)).expect("a number");
            for hostgroup in 0..64 {
                written.raise(HostgroupId(u32::MAX - hostgroup), id, NUMBER_MAX, NUMBER_MAX);
            }
        }
        assert_eq!(written.to_text(&origins, 100), "t1.x,writer");
        let long = format!("t1{}", ".1".repeat(LEN_MAX));
        assert_eq!(read_token(&long), Err(TokenError::TooLong));
    }

    #[test]
    fn what_is_no_token_is_refused() {
        let uuid = UUID;
        for text in [
            "",
            "t",
            "t2",
            "T1",
            " t1",
            "t1.",
            "t1.a",
            "t1.-1",
            "t1.+1",
            "t1.4294967296",
            "t1.1,",
            "t1.1,0",
            "t1.1,0:5",
            "t1.1,0:5-",
            "t1.1,0:0-5",
            "t1.1,0:6-5",
            "t1.1,0:5-5x",
            "t1.1,4294967296:1-2",
            "t1.1,0:1-9223372036854775808",
            "t1.1,Writer",
            "t1.1,x:1-2",
            "t1.1,:1-2",
            "t1,1",
        ] {
            assert_eq!(read_token(text), Err(TokenError::Malformed), "{text}");
        }
        for part in [format!("{uuid}:1-2:5-6"), format!("{uuid} :1-2"), uuid.to_owned()] {
            let found = read_token(&format!("t1.1,{part}"));
            let is_fine = found.as_ref().is_ok_and(|it| it[0].wants == [(server(""), 1, 2)]);
            assert!(found.is_err() || is_fine, "{part}: {found:?}");
        }
        assert_eq!(read_token(&format!("t1.1,{uuid}:1-2:5-6")), Err(TokenError::Malformed));
    }
}
