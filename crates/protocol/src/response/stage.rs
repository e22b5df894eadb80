//! Which packet of a response comes next, and how much of it must be seen.

use crate::codec::Malformed;
use crate::codec::frame::{Header, PAYLOAD_MAX};
use crate::packet::{eof, err};

use super::{ReplyFormat, ResponseShape};

/// What the relay awaits from the server. Variants are named for the next packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// OK, EOF or ERR, which is the whole response.
    Acknowledgement,
    /// Text, which is the whole response.
    Text,
    /// The first packet of a query's response, or of its next result.
    Answer,
    /// OK or ERR after the client's file.
    FileAnswer,
    /// `left` more column definitions of a result set, at least one. MariaDB sends more than fit
    /// into 16 bits.
    Columns { left: u32 },
    /// EOF after the column definitions.
    ColumnsEnd,
    /// The first row or terminator, with the client owed an EOF packet before it, if it is not
    /// the one that tells of a cursor.
    RowsAfterEof,
    /// A row or the terminator of a result set.
    Rows,
    /// A row or the terminator of a fetch.
    FetchedRows,
    /// A column definition or the terminator of a field list.
    Listed,
    /// `PREPARE_OK`.
    PrepareAnswer,
    /// `left` more parameter definitions, at least one, then `columns` column definitions.
    Params { left: u16, columns: u16 },
    /// EOF after the parameter definitions; `columns` column definitions follow.
    ParamsEnd { columns: u16 },
    /// `left` more column definitions of a prepared statement, at least one.
    PreparedColumns { left: u16 },
    /// EOF after the column definitions of a prepared statement.
    PreparedColumnsEnd,
    /// Nothing: the response has ended.
    Ended,
}

/// How much of a packet the relay needs at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// All of it: it must be understood.
    Whole,
    /// None of it: its bytes go through as they come.
    Nothing,
}

impl Stage {
    /// Where a response of this shape begins.
    pub(super) fn first(shape: ResponseShape) -> Self {
        match shape {
            ResponseShape::Single => Self::Acknowledgement,
            ResponseShape::Text => Self::Text,
            ResponseShape::Query => Self::Answer,
            ResponseShape::FieldList => Self::Listed,
            ResponseShape::Prepare => Self::PrepareAnswer,
            ResponseShape::Fetch => Self::FetchedRows,
            ResponseShape::None => Self::Ended,
        }
    }

    /// How many packets at most may go through in a run; 0 when the next must be looked at.
    #[inline]
    pub(super) fn run_max(self) -> u64 {
        match self {
            Self::Columns { left } => u64::from(left),
            Self::PreparedColumns { left } => u64::from(left),
            Self::Rows | Self::FetchedRows | Self::Listed => u64::MAX,
            Self::Acknowledgement
            | Self::Text
            | Self::Answer
            | Self::FileAnswer
            | Self::ColumnsEnd
            | Self::RowsAfterEof
            | Self::PrepareAnswer
            | Self::Params { .. }
            | Self::ParamsEnd { .. }
            | Self::PreparedColumnsEnd
            | Self::Ended => 0,
        }
    }

    /// How much of the next packet is needed, given its header and first payload byte.
    #[inline]
    pub(super) fn need(
        self,
        header: Header,
        first: Option<u8>,
        server: ReplyFormat,
    ) -> Result<Need, Malformed> {
        match self {
            Self::Acknowledgement
            | Self::Answer
            | Self::FileAnswer
            | Self::PrepareAnswer
            | Self::ColumnsEnd
            | Self::ParamsEnd { .. }
            | Self::PreparedColumnsEnd
            | Self::Ended => Ok(Need::Whole),
            Self::Text => match first {
                Some(err::HEADER) => Ok(Need::Whole),
                Some(_) | None => Ok(Need::Nothing),
            },
            Self::Columns { .. } | Self::PreparedColumns { .. } => match first {
                Some(err::HEADER) => Ok(Need::Whole),
                Some(eof::HEADER) | None => Err(Malformed("column definition")),
                Some(_) => Ok(Need::Nothing),
            },
            Self::Params { .. } => match first {
                Some(eof::HEADER) | None => Err(Malformed("column definition")),
                Some(_) => Ok(Need::Whole),
            },
            Self::Rows | Self::RowsAfterEof | Self::FetchedRows | Self::Listed => match first {
                Some(err::HEADER) => Ok(Need::Whole),
                Some(eof::HEADER) if is_terminator(header, server) => Ok(Need::Whole),
                Some(_) => Ok(Need::Nothing),
                None => Err(Malformed("row")),
            },
        }
    }

    /// Whether the next packet may be a column definition.
    #[inline]
    pub(super) fn has_definitions(self) -> bool {
        matches!(
            self,
            Self::Columns { .. }
                | Self::Params { .. }
                | Self::PreparedColumns { .. }
                | Self::Listed
        )
    }

    /// Whether a terminator here may announce another result.
    pub(super) fn may_continue(self) -> bool {
        match self {
            Self::Answer
            | Self::FileAnswer
            | Self::ColumnsEnd
            | Self::RowsAfterEof
            | Self::Rows => true,
            Self::Acknowledgement
            | Self::Text
            | Self::Columns { .. }
            | Self::FetchedRows
            | Self::Listed
            | Self::PrepareAnswer
            | Self::Params { .. }
            | Self::ParamsEnd { .. }
            | Self::PreparedColumns { .. }
            | Self::PreparedColumnsEnd
            | Self::Ended => false,
        }
    }
}

/// Whether a packet that begins with 0xFE among rows ends them. A row begins with that byte when
/// its first value has 16 MiB or more, so its first packet is full.
fn is_terminator(header: Header, server: ReplyFormat) -> bool {
    if server.deprecate_eof {
        header.payload_len < PAYLOAD_MAX
    } else {
        header.payload_len < eof::LEN_LIMIT
    }
}
