//! Which transactions are there already: a set of MySQL's or a position of MariaDB's, and the form
//! that sets have on the wire.

use std::fmt;

use trunkline_protocol::{Reader, codec::put_u64};
use trunkline_topology::gtid::{
    GtidError, GtidSet, INTERVALS_MAX, NUMBER_MAX, Origin, Position, Tag,
};

use crate::{BinlogError, event::Gtid, varlen};

/// The two families of servers, which number transactions differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// MySQL, and what is made from it.
    MySql,
    /// MariaDB.
    MariaDb,
}

/// Transactions that are there already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Executed {
    /// A set of MySQL's.
    MySql(GtidSet),
    /// The last one of each domain on MariaDB.
    MariaDb(Position),
}

impl Executed {
    /// Reads a text.
    ///
    /// # Errors
    /// When it is no set or no position.
    pub fn parse(family: Family, text: &str) -> Result<Self, GtidError> {
        match family {
            Family::MySql => GtidSet::parse(text).map(Self::MySql),
            Family::MariaDb => Position::parse(text).map(Self::MariaDb),
        }
    }

    /// Whose it is.
    pub fn family(&self) -> Family {
        match self {
            Self::MySql(_) => Family::MySql,
            Self::MariaDb(_) => Family::MariaDb,
        }
    }

    /// Adds a transaction; one of the other family is none.
    pub fn add(&mut self, gtid: &Gtid) {
        match (self, gtid.origin) {
            (Self::MySql(set), origin @ Origin::Server(..)) => {
                set.add(origin, gtid.number, gtid.number);
            }
            (Self::MariaDb(position), Origin::Domain(domain)) => {
                position.advance(domain, gtid.server, gtid.number);
            }
            (Self::MySql(_), Origin::Domain(_)) | (Self::MariaDb(_), Origin::Server(..)) => {}
        }
    }

    /// Whether a transaction is there.
    pub fn has(&self, gtid: &Gtid) -> bool {
        match (self, gtid.origin) {
            (Self::MySql(set), origin @ Origin::Server(..)) => {
                set.of(&origin).is_some_and(|it| it.has(gtid.number, gtid.number))
            }
            (Self::MariaDb(position), Origin::Domain(domain)) => {
                position.reached(domain).is_some_and(|reached| gtid.number <= reached)
            }
            (Self::MySql(_), Origin::Domain(_)) | (Self::MariaDb(_), Origin::Server(..)) => false,
        }
    }

    /// Whether all that is in `other` is here.
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::MySql(own), Self::MySql(other)) => other.is_subset(own),
            (Self::MariaDb(own), Self::MariaDb(other)) => {
                let has = |domain, number| own.reached(domain).is_some_and(|it| it >= number);
                other.domains().all(|(domain, _, number)| has(domain, number))
            }
            (Self::MySql(_), Self::MariaDb(_)) | (Self::MariaDb(_), Self::MySql(_)) => false,
        }
    }
}

impl fmt::Display for Executed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MySql(set) => set.fmt(f),
            Self::MariaDb(position) => position.fmt(f),
        }
    }
}

/// A set as `COM_BINLOG_DUMP_GTID` and the event of previous GTIDs have it: with tags only where
/// there are any, since older servers don't know that form.
///
/// | | bytes |
/// |---|---|
/// | number of origins; with tags `1 << 56 \| number << 8 \| 1` | 8 |
/// | for each its UUID | 16 |
/// | with tags: twice the tag's length, the tag | 1, … |
/// | number of intervals | 8 |
/// | for each its first number, and the one behind its last | 8, 8 |
pub(crate) fn set_on_wire(set: &GtidSet) -> Vec<u8> {
    let is_tagged = set.origins().any(|(origin, _)| has_tag(&origin));
    let count = u64::try_from(set.origins().count()).unwrap_or(u64::MAX);
    let mut out = Vec::new();
    put_u64(&mut out, if is_tagged { (1 << 56) | (count << 8) | 1 } else { count });
    for (origin, intervals) in set.origins() {
        let Origin::Server(uuid, tag) = origin else { continue };
        out.extend_from_slice(&uuid);
        if is_tagged {
            out.push(varlen::short(u8::try_from(tag.as_str().len()).unwrap_or_default()));
            out.extend_from_slice(tag.as_str().as_bytes());
        }
        put_u64(&mut out, u64::try_from(intervals.iter().count()).unwrap_or(u64::MAX));
        for (first, last) in intervals.iter() {
            put_u64(&mut out, first);
            put_u64(&mut out, last.saturating_add(1));
        }
    }
    out
}

fn has_tag(origin: &Origin) -> bool {
    matches!(origin, Origin::Server(_, tag) if !tag.as_str().is_empty())
}

/// Reads a set from its form on the wire.
pub(crate) fn set_of_wire(reader: &mut Reader<'_>) -> Result<GtidSet, BinlogError> {
    let head = reader.u64("number of origins")?;
    let is_tagged = head >> 56 == 1;
    let count = if is_tagged { (head << 8) >> 16 } else { head };
    let mut set = GtidSet::default();
    let mut intervals_read = 0;
    for _ in 0..count {
        let uuid =
            *reader.bytes(16, "UUID")?.first_chunk().ok_or(BinlogError::Malformed("UUID"))?;
        let mut tag = Tag::NONE;
        if is_tagged {
            let len = varlen::unsigned(reader, "length of a tag")?;
            let len = usize::try_from(len).map_err(|_| BinlogError::Malformed("tag"))?;
            tag = tag_of(reader.bytes(len, "tag")?)?;
        }
        let intervals = reader.u64("number of intervals")?;
        for _ in 0..intervals {
            let (first, behind) = (reader.u64("interval")?, reader.u64("interval")?);
            if first == 0 || first >= behind || behind > NUMBER_MAX + 1 {
                return Err(BinlogError::Malformed("interval"));
            }
            intervals_read += 1;
            if intervals_read > INTERVALS_MAX {
                return Err(BinlogError::Malformed("too many intervals"));
            }
            set.add(Origin::Server(uuid, tag), first, behind - 1);
        }
    }
    Ok(set)
}

/// A tag; no text is no tag.
pub(crate) fn tag_of(text: &[u8]) -> Result<Tag, BinlogError> {
    match text {
        [] => Ok(Tag::NONE),
        text => Tag::parse(text).ok_or(BinlogError::Malformed("tag")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const A: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";

    fn read(bytes: &[u8]) -> Result<GtidSet, BinlogError> {
        let mut reader = Reader::new(bytes);
        let set = set_of_wire(&mut reader)?;
        assert!(reader.is_empty());
        Ok(set)
    }

    proptest! {
        #[test]
        fn sets_are_read_as_they_are_written(
            parts in prop::collection::vec(("", "[a-z_]{0,5}", 1_u64..50, 0_u64..9), 0..20)
        ) {
            let mut set = GtidSet::default();
            for (at, (_, tag, first, more)) in parts.iter().enumerate() {
                let uuid = [u8::try_from(at % 3).expect("small"); 16];
                let tag = tag_of(tag.as_bytes()).expect("a tag");
                set.add(Origin::Server(uuid, tag), *first, first + more);
            }
            prop_assert_eq!(read(&set_on_wire(&set)), Ok(set));
        }
    }

    #[test]
    fn what_is_no_set_is_refused() {
        let set = GtidSet::parse(&format!("{A}:1-5:7,{A}:tag:1-3")).expect("a set");
        let bytes = set_on_wire(&set);
        for len in 0..bytes.len() {
            assert!(set_of_wire(&mut Reader::new(&bytes[..len])).is_err(), "{len}");
        }
        let mut empty = vec![1, 0, 0, 0, 0, 0, 0, 0];
        empty.extend([0; 16]);
        empty.extend([1, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(read(&empty), Err(BinlogError::Malformed("interval")));
    }

    #[test]
    fn what_is_there_is_known_by_family() {
        let gtid = |origin, number| Gtid { origin, server: 1, number };
        let mut set = Executed::parse(Family::MySql, &format!("{A}:1-5:7")).expect("a set");
        let uuid = Origin::Server(
            [
                0x3e, 0x11, 0xfa, 0x47, 0x71, 0xca, 0x11, 0xe1, 0x9e, 0x33, 0xc8, 0x0a, 0xa9, 0x42,
                0x95, 0x62,
            ],
            Tag::NONE,
        );
        assert!(set.has(&gtid(uuid, 7)) && !set.has(&gtid(uuid, 6)));
        let before = set.clone();
        set.add(&gtid(uuid, 6));
        assert_eq!(set.to_string(), format!("{A}:1-7"));
        assert!(set.covers(&before) && !before.covers(&set));
        let mut position = Executed::parse(Family::MariaDb, "0-1-100").expect("a position");
        let before = position.clone();
        let domain = Origin::Domain(0);
        assert!(position.has(&gtid(domain, 100)) && !position.has(&gtid(domain, 101)));
        position.add(&gtid(domain, 101));
        position.add(&gtid(Origin::Domain(7), 1));
        assert_eq!(position.to_string(), "0-1-101,7-1-1");
        assert!(position.covers(&before) && !before.covers(&position));
        assert!(!position.covers(&set) && !position.has(&gtid(uuid, 1)));
    }
}
