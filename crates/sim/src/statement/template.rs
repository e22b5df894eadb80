//! Statements that clients prepare by command.

use super::{Act, Param, Statement, Tag};

/// A text with parameters. The tag of each execution is one of its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Template {
    /// [`Act::Read`]: parameters tag, key.
    Read,
    /// [`Act::Insert`]: parameter tag.
    Insert,
    /// [`Act::Put`]: parameters key, tag.
    Put,
    /// [`Act::Length`]: parameters tag, text; the text may come as long data.
    Length,
    /// [`Act::Numbers`] of width 10: parameters tag, rows; for cursors.
    Numbers,
    /// [`Act::ReadForUpdate`]: parameters tag, key.
    ReadForUpdate,
    /// [`Act::ReadAudited`]: parameters tag, tag.
    Audited,
    /// [`Act::InsertMarked`] of `marked3`: parameter tag.
    Marked,
    /// [`Act::RowCount`]: parameter tag.
    RowCount,
    /// [`Act::FoundRows`]: parameter tag.
    FoundRows,
    /// [`Act::LastInsertId`]: parameter tag.
    LastInsertId,
    /// [`Act::ConnectionId`]: parameter tag.
    ConnectionId,
    /// [`Act::Recalled`]: parameter tag. The proxy's.
    Recalled(i64),
}

/// Bytes of `pad` in the rows of [`Template::Numbers`].
const WIDTH: u64 = 10;

impl Template {
    /// Those about data.
    pub const ALL: [Self; 6] =
        [Self::Read, Self::Insert, Self::Put, Self::Length, Self::Numbers, Self::ReadForUpdate];

    /// Those that do more than their texts show.
    pub const HIDDEN: [Self; 2] = [Self::Audited, Self::Marked];

    /// Those that ask for the session's past.
    pub const PAST: [Self; 4] =
        [Self::RowCount, Self::FoundRows, Self::LastInsertId, Self::ConnectionId];

    /// The text; the tag of the `COM_STMT_PREPARE` is in a comment.
    pub fn to_sql(self, tag: Tag) -> String {
        format!("{} /* {} */", self.text(), tag.0)
    }

    fn text(self) -> &'static str {
        match self {
            Self::Read => "SELECT ? AS tag, v FROM kv WHERE k = ?",
            Self::Insert => "INSERT INTO log (v) VALUES (?)",
            Self::Put => "REPLACE INTO kv (k, v) VALUES (?, ?)",
            Self::Length => "SELECT ? AS tag, LENGTH(?) AS v",
            Self::Numbers => "SELECT ? AS tag, n, REPEAT('x', 10) AS pad FROM numbers WHERE n < ?",
            Self::ReadForUpdate => "SELECT ? AS tag, v FROM kv WHERE k = ? FOR UPDATE",
            Self::Audited => "SELECT ? AS tag, v FROM audited WHERE n = ?",
            Self::Marked => "INSERT INTO marked3 (v) VALUES (?)",
            Self::RowCount => "SELECT ? AS tag, ROW_COUNT() AS v",
            Self::FoundRows => "SELECT ? AS tag, FOUND_ROWS() AS v",
            Self::LastInsertId => "SELECT ? AS tag, LAST_INSERT_ID() AS v",
            Self::ConnectionId => "SELECT ? AS tag, CONNECTION_ID() AS v",
            // Nobody but the proxy says it, with the number in it.
            Self::Recalled(_) => "",
        }
    }

    /// What a `COM_STMT_PREPARE` prepares; `None` for a text that no client prepares.
    pub fn parse(text: &str) -> Option<(Self, Option<Tag>)> {
        let (bare, tag) = match text.rsplit_once(" /* ") {
            Some((bare, comment)) => {
                let number = comment.strip_suffix(" */").and_then(|text| text.parse().ok());
                (bare, number.map(Tag))
            }
            None => (text, None),
        };
        let mut known = Self::ALL.into_iter().chain(Self::HIDDEN).chain(Self::PAST);
        let template = known.find(|template| template.text() == bare);
        Some((template.or_else(|| recalled(bare))?, tag))
    }

    /// Number of its parameters.
    pub fn params(self) -> u16 {
        match self {
            Self::Insert
            | Self::Marked
            | Self::RowCount
            | Self::FoundRows
            | Self::LastInsertId
            | Self::ConnectionId
            | Self::Recalled(_) => 1,
            Self::Read
            | Self::Put
            | Self::Length
            | Self::Numbers
            | Self::ReadForUpdate
            | Self::Audited => 2,
        }
    }

    /// Names of its result's columns; none for a write.
    pub fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Read
            | Self::Length
            | Self::ReadForUpdate
            | Self::Audited
            | Self::RowCount
            | Self::FoundRows
            | Self::LastInsertId
            | Self::ConnectionId
            | Self::Recalled(_) => &["tag", "v"],
            Self::Numbers => &["tag", "n", "pad"],
            Self::Insert | Self::Marked | Self::Put => &[],
        }
    }

    /// The statement with these parameters; `None` if they do not fit.
    pub fn bind(self, params: &[Param]) -> Option<Statement> {
        let (tag, act) = match (self, params) {
            (Self::Read, [Param::Number(tag), Param::Number(key)]) => {
                (*tag, Act::Read { key: *key })
            }
            (Self::ReadForUpdate, [Param::Number(tag), Param::Number(key)]) => {
                (*tag, Act::ReadForUpdate { key: *key })
            }
            (Self::Audited, [Param::Number(tag), Param::Number(_)]) => (*tag, Act::ReadAudited),
            (Self::Marked, [Param::Number(tag)]) => (*tag, Act::InsertMarked(3)),
            (Self::Insert, [Param::Number(tag)]) => (*tag, Act::Insert),
            (Self::RowCount, [Param::Number(tag)]) => (*tag, Act::RowCount),
            (Self::FoundRows, [Param::Number(tag)]) => (*tag, Act::FoundRows),
            (Self::LastInsertId, [Param::Number(tag)]) => (*tag, Act::LastInsertId),
            (Self::ConnectionId, [Param::Number(tag)]) => (*tag, Act::ConnectionId),
            (Self::Recalled(number), [Param::Number(tag)]) => (*tag, Act::Recalled(number)),
            (Self::Put, [Param::Number(key), Param::Number(tag)]) => (*tag, Act::Put { key: *key }),
            (Self::Length, [Param::Number(tag), Param::Text(text)]) => {
                let text = String::from_utf8_lossy(text).into_owned();
                (*tag, Act::Length { text })
            }
            (Self::Numbers, [Param::Number(tag), Param::Number(rows)]) => {
                (*tag, Act::Numbers { rows: *rows, width: WIDTH })
            }
            _ => return None,
        };
        Some(Statement::new(Tag(tag), act))
    }
}

/// What the proxy makes of a statement that asks for the session's past.
fn recalled(text: &str) -> Option<Template> {
    let answer = text.strip_prefix("SELECT ? AS tag, ")?;
    let warned = answer.strip_prefix("IF(0, FOUND_ROWS(), ");
    let warned = warned.and_then(|answer| answer.strip_suffix(") AS v"));
    let answer = warned.map_or_else(|| answer.to_owned(), |answer| format!("{answer} AS v"));
    let number = answer.strip_prefix("CAST(")?;
    let number = number
        .strip_suffix(" AS SIGNED) AS v")
        .or_else(|| number.strip_suffix(" AS UNSIGNED) AS v"))?;
    number.trim_matches('\'').parse().ok().map(Template::Recalled)
}
