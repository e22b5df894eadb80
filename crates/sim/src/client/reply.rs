//! Reads replies as a strict client does: packets numbered from 1, each where it may stand.
//!
//! It is written apart from the proxy's relay on purpose, so that one does not repeat the
//! other's mistakes.

use trunkline_protocol::{
    codec::{
        Malformed, Reader,
        frame::{HEADER_LEN, Header},
    },
    error::ErrorKind,
    packet::{
        eof, err,
        ok::{self, OkPacket, ReplyFormat},
        status,
        track::{Change, Changes},
    },
    response::ResponseShape,
};

/// What an OK packet or the end of rows said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Done {
    /// Rows changed.
    pub affected_rows: u64,
    /// The first generated id; 0 for none.
    pub last_insert_id: u64,
    /// Status flags.
    pub status: u16,
    /// Number of warnings.
    pub warnings: u16,
    /// Text for people.
    pub info: String,
    /// Variables that the session trackers reported.
    pub variables: Vec<(String, String)>,
    /// The schema that they reported.
    pub schema: Option<String>,
    /// The commits that they reported.
    pub gtids: Option<String>,
}

/// One value of a row, as text; `None` for NULL.
pub type Value = Option<String>;

/// What an error packet said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// MySQL's number.
    pub code: u16,
    /// Five characters.
    pub sqlstate: String,
    /// The text.
    pub message: String,
}

/// How the proxy begins to say that a transaction was lost with its connection.
pub const LOST_TRANSACTION: &str = "the transaction was rolled back, as its connection to";

/// How it says what became of a write in autocommit whose answer was lost.
const SAYS_UNDONE: &str = "; the statement was not carried out";
const SAYS_DONE: &str = "; the statement was carried out";

impl Refused {
    /// Whether the proxy says by it that a transaction was lost with its connection.
    pub fn is_lost_transaction(&self) -> bool {
        self.code == 1213 && self.message.starts_with(LOST_TRANSACTION)
    }

    /// Whether the proxy says by it that a write in autocommit whose answer was lost has not been
    /// done.
    pub fn says_undone(&self) -> bool {
        self.code == 1213 && self.message.contains(SAYS_UNDONE)
    }

    /// Whether the proxy says by it that a write in autocommit whose answer was lost has been done.
    pub fn says_done(&self) -> bool {
        self.code == 2013 && self.message.contains(SAYS_DONE)
    }
}

/// One part of a reply. Most replies have one; those of multi-statements have more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// OK.
    Ok(Done),
    /// Rows and their end.
    Rows {
        /// Names of the columns.
        columns: Vec<String>,
        /// The rows.
        rows: Vec<Vec<Value>>,
        /// The end; `None` when an error took its place, which is the next part.
        end: Option<Done>,
    },
    /// A prepared statement.
    Prepared {
        /// Its number on this connection.
        stmt_id: u32,
        /// Parameters.
        params: u16,
        /// Columns.
        columns: u16,
    },
    /// Plain text.
    Text(String),
    /// An error; the last part of its reply.
    Error(Refused),
}

/// The whole answer to one command.
pub type Reply = Vec<Part>;

/// The error that a reply ended with.
pub fn error_of(reply: &[Part]) -> Option<&Refused> {
    match reply.last() {
        Some(Part::Error(error)) => Some(error),
        Some(Part::Ok(_) | Part::Rows { .. } | Part::Prepared { .. } | Part::Text(_)) | None => {
            None
        }
    }
}

/// The status flags that a reply ended with.
pub fn status_of(reply: &[Part]) -> Option<u16> {
    reply.iter().rev().find_map(|part| match part {
        Part::Ok(done) => Some(done.status),
        Part::Rows { end, .. } => end.as_ref().map(|end| end.status),
        Part::Prepared { .. } | Part::Text(_) | Part::Error(_) => None,
    })
}

/// What a request for a file begins with.
const FILE_REQUEST: u8 = 0xFB;
/// The type of a text column.
const VAR_STRING: u8 = 0xFD;

/// What the next packet may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Await {
    /// OK, EOF or ERR.
    Acknowledgement,
    /// Text or ERR.
    Text,
    /// OK, ERR or a column count.
    Answer,
    /// Nothing before the client has sent its file.
    File,
    /// Column definitions.
    Columns(u64),
    /// EOF after them.
    ColumnsEnd,
    /// Rows or their end.
    Rows,
    /// A prepared statement or ERR.
    Prepared,
    /// Definitions of parameters, then of columns.
    Params(u16, u16),
    /// EOF after the parameters' definitions.
    ParamsEnd(u16),
    /// Definitions of a prepared statement's columns.
    PreparedColumns(u16),
    /// EOF after them.
    PreparedColumnsEnd,
    /// Nothing: the reply is whole.
    Nothing,
}

/// Errors that may come without a command, whatever their number: the last that a session hears.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Farewells {
    /// None.
    None,
    /// That it has rested for too long, as MySQL says.
    OfInactivity,
    /// Whatever a server says.
    Any,
}

/// Reads one reply after the other.
#[derive(Debug)]
pub struct ReplyReader {
    format: ReplyFormat,
    inbox: Vec<u8>,
    /// Bytes of the inbox that were read.
    consumed: usize,
    seq: u8,
    awaited: Await,
    is_binary: bool,
    types: Vec<u8>,
    columns: Vec<String>,
    rows: Vec<Vec<Value>>,
    reply: Reply,
    has_begun: bool,
    farewells: Farewells,
    /// The file that the other end asks for.
    file: Option<String>,
}

impl ReplyReader {
    /// A reader for a connection that negotiated `format`.
    pub fn new(format: ReplyFormat) -> Self {
        Self {
            format,
            inbox: Vec::new(),
            consumed: 0,
            seq: 1,
            awaited: Await::Nothing,
            is_binary: false,
            types: Vec::new(),
            columns: Vec::new(),
            rows: Vec::new(),
            reply: Vec::new(),
            has_begun: false,
            farewells: Farewells::None,
            file: None,
        }
    }

    /// Takes bytes in; [`next_reply`](Self::next_reply) reads them.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.inbox.drain(..self.consumed);
        self.consumed = 0;
        self.inbox.extend_from_slice(bytes);
    }

    /// Takes such errors where they come unasked.
    pub fn allow(&mut self, farewells: Farewells) {
        self.farewells = farewells;
    }

    /// Whether the next packet may come unasked, as far as it is there.
    pub fn has_farewell_next(&self) -> bool {
        let payload = self.rest().get(HEADER_LEN..).unwrap_or_default();
        self.is_farewell(payload)
    }

    /// Whether this payload, or the beginning of one, may come unasked.
    pub fn is_farewell(&self, payload: &[u8]) -> bool {
        let [low, high] = ErrorKind::Inactivity.code().to_le_bytes();
        let inactivity = [err::HEADER, low, high];
        let begin = match self.farewells {
            Farewells::None => return false,
            Farewells::OfInactivity => inactivity.as_slice(),
            Farewells::Any => &[err::HEADER],
        };
        payload.iter().zip(begin).all(|(byte, expected)| byte == expected)
    }

    /// The bytes that nothing has read.
    pub fn rest(&self) -> &[u8] {
        self.inbox.get(self.consumed..).unwrap_or_default()
    }

    /// Whether bytes are there that nothing has read.
    pub fn has_rest(&self) -> bool {
        self.consumed < self.inbox.len()
    }

    /// Whether a part of the awaited reply has come.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// The next whole packet, as a login needs them.
    pub fn packet(&mut self) -> Option<(Header, Vec<u8>)> {
        let bytes = self.inbox.get(self.consumed..)?;
        let header = Header::read(bytes)?;
        let payload = bytes.get(HEADER_LEN..)?.get(..header.payload_len)?.to_vec();
        self.consumed += HEADER_LEN + payload.len();
        Some((header, payload))
    }

    /// Awaits the reply to a command. Rows of prepared statements are `binary`; those that are
    /// fetched come without definitions, and have `fetched` columns.
    pub fn expect(&mut self, shape: ResponseShape, is_binary: bool, fetched: usize) {
        self.awaited = match shape {
            ResponseShape::Single => Await::Acknowledgement,
            ResponseShape::Text => Await::Text,
            ResponseShape::Query => Await::Answer,
            ResponseShape::FieldList | ResponseShape::Fetch => Await::Rows,
            ResponseShape::Prepare => Await::Prepared,
            ResponseShape::None => Await::Nothing,
        };
        self.is_binary = is_binary;
        self.types = vec![VAR_STRING; fetched];
        self.seq = 1;
        self.has_begun = false;
        self.columns.clear();
        self.rows.clear();
        self.reply.clear();
    }

    /// The awaited reply, once it is whole.
    ///
    /// # Errors
    /// [`Malformed`] for bytes that no server may send here.
    pub fn next_reply(&mut self) -> Result<Option<Reply>, Malformed> {
        while !matches!(self.awaited, Await::Nothing | Await::File) {
            let Some((header, payload)) = self.packet() else {
                return Ok(None);
            };
            if header.is_continued() {
                return Err(Malformed("a packet of 16 MiB"));
            }
            let is_farewell = !self.has_begun && self.is_farewell(&payload);
            if header.seq != self.seq && !is_farewell {
                return Err(Malformed("sequence number"));
            }
            self.seq = self.seq.wrapping_add(1);
            self.has_begun = true;
            self.on_packet(&payload)?;
        }
        Ok((self.awaited == Await::Nothing).then(|| std::mem::take(&mut self.reply)))
    }

    /// The name of a file that the other end asks for, and the number of its first packet.
    pub fn take_file(&mut self) -> Option<(String, u8)> {
        self.file.take().map(|name| (name, self.seq))
    }

    /// The file was sent; the packet behind it has this number.
    pub fn file_sent(&mut self, seq: u8) {
        self.seq = seq;
        self.awaited = Await::Answer;
    }

    fn on_packet(&mut self, payload: &[u8]) -> Result<(), Malformed> {
        let first = *payload.first().ok_or(Malformed("empty packet"))?;
        if first == err::HEADER {
            return self.on_error(payload);
        }
        match self.awaited {
            Await::Acknowledgement => self.on_acknowledgement(payload, first),
            Await::Text => {
                self.reply.push(Part::Text(text(payload)));
                self.awaited = Await::Nothing;
                Ok(())
            }
            Await::Answer => self.on_answer(payload, first),
            Await::Columns(left) => self.on_column(payload, left),
            Await::ColumnsEnd => {
                // When a cursor was opened no rows follow here, and this is the end.
                match eof::parse(payload)?.status & status::CURSOR_EXISTS {
                    0 => {
                        self.awaited = Await::Rows;
                        Ok(())
                    }
                    _ => self.on_row(payload, first),
                }
            }
            Await::Rows => self.on_row(payload, first),
            Await::Prepared => self.on_prepared(payload),
            Await::Params(left, columns) => {
                self.awaited = match (left, self.format.deprecate_eof) {
                    (2.., _) => Await::Params(left - 1, columns),
                    (_, false) => Await::ParamsEnd(columns),
                    (_, true) => prepared_columns(columns),
                };
                Ok(())
            }
            Await::ParamsEnd(columns) => {
                eof::parse(payload)?;
                self.awaited = prepared_columns(columns);
                Ok(())
            }
            Await::PreparedColumns(left) => {
                self.awaited = match (left, self.format.deprecate_eof) {
                    (2.., _) => Await::PreparedColumns(left - 1),
                    (_, false) => Await::PreparedColumnsEnd,
                    (_, true) => Await::Nothing,
                };
                Ok(())
            }
            Await::PreparedColumnsEnd => {
                eof::parse(payload)?;
                self.awaited = Await::Nothing;
                Ok(())
            }
            Await::Nothing | Await::File => Err(Malformed("a packet after the reply")),
        }
    }

    fn on_error(&mut self, payload: &[u8]) -> Result<(), Malformed> {
        let error = read_error(payload)?;
        if self.awaited == Await::Rows || !self.columns.is_empty() {
            let columns = std::mem::take(&mut self.columns);
            let rows = std::mem::take(&mut self.rows);
            self.reply.push(Part::Rows { columns, rows, end: None });
        }
        self.reply.push(Part::Error(error));
        self.awaited = Await::Nothing;
        Ok(())
    }

    fn on_acknowledgement(&mut self, payload: &[u8], first: u8) -> Result<(), Malformed> {
        let done = match first {
            ok::HEADER => self.done(payload)?,
            eof::HEADER => self.end(payload)?,
            _ => return Err(Malformed("acknowledgement")),
        };
        self.reply.push(Part::Ok(done));
        self.awaited = Await::Nothing;
        Ok(())
    }

    fn on_answer(&mut self, payload: &[u8], first: u8) -> Result<(), Malformed> {
        if first == ok::HEADER {
            let done = self.done(payload)?;
            self.awaited = after(&done);
            self.reply.push(Part::Ok(done));
            return Ok(());
        }
        if first == FILE_REQUEST {
            self.file = Some(text(payload.get(1..).unwrap_or_default()));
            self.awaited = Await::File;
            return Ok(());
        }
        let mut reader = Reader::new(payload);
        let count = reader.lenenc_int("column count")?;
        if count == 0 || count > 4_096 || !reader.is_empty() {
            return Err(Malformed("column count"));
        }
        self.types.clear();
        self.awaited = Await::Columns(count);
        Ok(())
    }

    fn on_column(&mut self, payload: &[u8], left: u64) -> Result<(), Malformed> {
        let mut reader = Reader::new(payload);
        for field in ["catalog", "schema", "table", "original table"] {
            reader.lenenc_bytes(field)?;
        }
        self.columns.push(text(reader.lenenc_bytes("column name")?));
        reader.lenenc_bytes("original column name")?;
        reader.lenenc_int("length of the fixed fields")?;
        reader.bytes(6, "character set and length")?;
        self.types.push(reader.u8("column type")?);
        self.awaited = match (left, self.format.deprecate_eof) {
            (2.., _) => Await::Columns(left - 1),
            (_, false) => Await::ColumnsEnd,
            (_, true) => Await::Rows,
        };
        Ok(())
    }

    fn on_row(&mut self, payload: &[u8], first: u8) -> Result<(), Malformed> {
        // A row of text that begins so has a first value of 16 MiB; a binary one begins with 0.
        if first == eof::HEADER {
            let end = self.end(payload)?;
            self.awaited = after(&end);
            let columns = std::mem::take(&mut self.columns);
            let rows = std::mem::take(&mut self.rows);
            self.reply.push(Part::Rows { columns, rows, end: Some(end) });
            return Ok(());
        }
        let row = match self.is_binary {
            true => binary_row(payload, &self.types)?,
            false => text_row(payload, self.columns.len())?,
        };
        self.rows.push(row);
        Ok(())
    }

    fn on_prepared(&mut self, payload: &[u8]) -> Result<(), Malformed> {
        let mut reader = Reader::new(payload);
        if reader.u8("prepare header")? != ok::HEADER {
            return Err(Malformed("prepare header"));
        }
        let stmt_id = reader.u32("statement id")?;
        let columns = reader.u16("columns")?;
        let params = reader.u16("parameters")?;
        self.reply.push(Part::Prepared { stmt_id, params, columns });
        self.awaited = match params {
            0 => prepared_columns(columns),
            left => Await::Params(left, columns),
        };
        Ok(())
    }

    /// An OK packet.
    fn done(&self, payload: &[u8]) -> Result<Done, Malformed> {
        let ok = ok::parse(payload, self.format.session_track)?;
        if ok.status & status::SESSION_STATE_CHANGED != 0 && !self.format.session_track {
            return Err(Malformed("session state that nobody asked for"));
        }
        done_of(&ok)
    }

    /// The end of rows in this connection's framing.
    fn end(&self, payload: &[u8]) -> Result<Done, Malformed> {
        if self.format.deprecate_eof {
            return self.done(payload);
        }
        let end = eof::parse(payload)?;
        Ok(Done { status: end.status, warnings: end.warnings, ..Done::default() })
    }
}

fn prepared_columns(columns: u16) -> Await {
    match columns {
        0 => Await::Nothing,
        left => Await::PreparedColumns(left),
    }
}

fn after(done: &Done) -> Await {
    match done.status & status::MORE_RESULTS {
        0 => Await::Nothing,
        _ => Await::Answer,
    }
}

fn done_of(ok: &OkPacket<'_>) -> Result<Done, Malformed> {
    let mut done = Done {
        affected_rows: ok.affected_rows,
        last_insert_id: ok.last_insert_id,
        status: ok.status,
        warnings: ok.warnings,
        info: text(ok.info),
        variables: Vec::new(),
        schema: None,
        gtids: None,
    };
    for change in Changes::new(ok.changes) {
        match change? {
            Change::SystemVariable { name, value } => {
                done.variables.push((text(name), text(value)));
            }
            Change::Schema(name) => done.schema = Some(text(name)),
            Change::Gtids(set) => done.gtids = Some(text(set)),
            Change::State(_)
            | Change::TransactionCharacteristics(_)
            | Change::TransactionState(_) => {}
        }
    }
    Ok(done)
}

/// What an error packet says.
pub(super) fn read_error(payload: &[u8]) -> Result<Refused, Malformed> {
    let error = err::parse(payload)?;
    Ok(Refused { code: error.code, sqlstate: text(&error.sqlstate), message: text(error.message) })
}

/// Bytes as text that people can read.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn text_row(payload: &[u8], columns: usize) -> Result<Vec<Value>, Malformed> {
    let mut reader = Reader::new(payload);
    let mut row = Vec::with_capacity(columns);
    for _ in 0..columns {
        if reader.rest().first() == Some(&0xFB) {
            reader.u8("null")?;
            row.push(None);
        } else {
            row.push(Some(text(reader.lenenc_bytes("value")?)));
        }
    }
    match reader.is_empty() {
        true => Ok(row),
        false => Err(Malformed("bytes behind a row")),
    }
}

/// Types that binary rows give a fixed length: MySQL internals, "Binary Protocol Value".
fn binary_row(payload: &[u8], types: &[u8]) -> Result<Vec<Value>, Malformed> {
    let mut reader = Reader::new(payload);
    reader.u8("row header")?;
    let nulls = reader.bytes((types.len() + 9) / 8, "null bitmap")?;
    let mut row = Vec::with_capacity(types.len());
    for (at, kind) in types.iter().enumerate() {
        let bit = at + 2;
        if nulls.get(bit / 8).is_some_and(|byte| byte & (1 << (bit % 8)) != 0) {
            row.push(None);
            continue;
        }
        row.push(Some(match kind {
            0x01 => reader.u8("tiny")?.to_string(),
            0x02 | 0x0D => reader.u16("short")?.to_string(),
            0x03 | 0x09 => reader.u32("long")?.to_string(),
            0x08 => reader.u64("longlong")?.to_string(),
            _ => text(reader.lenenc_bytes("value")?),
        }));
    }
    match reader.is_empty() {
        true => Ok(row),
        false => Err(Malformed("bytes behind a row")),
    }
}
