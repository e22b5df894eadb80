//! From deeds to bytes.

use trunkline_protocol::{
    codec::{frame::put_payload, put_u16, put_u32},
    response::ResponseShape,
};

use crate::statement::{Param, Schema, Tag, Template, put_bulk, put_execute};

/// Bytes of one piece of long data.
const PIECE_LEN: usize = 700;

/// A command as it goes out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Command {
    pub payload: Vec<u8>,
    pub shape: ResponseShape,
    /// Rows come in the binary form.
    pub is_binary: bool,
}

impl Command {
    fn new(payload: Vec<u8>, shape: ResponseShape) -> Self {
        Self { payload, shape, is_binary: false }
    }

    pub(super) fn query(text: &str) -> Self {
        Self::new([&[0x03], text.as_bytes()].concat(), ResponseShape::Query)
    }

    pub(super) fn prepare(text: &str) -> Self {
        Self::new([&[0x16], text.as_bytes()].concat(), ResponseShape::Prepare)
    }

    pub(super) fn execute(stmt_id: u32, cursor: bool, params: &[Param]) -> Self {
        let mut payload = Vec::new();
        put_execute(&mut payload, stmt_id, cursor, params);
        Self { payload, shape: ResponseShape::Query, is_binary: true }
    }

    pub(super) fn bulk(stmt_id: u32, rows: &[Vec<u64>]) -> Self {
        let mut payload = Vec::new();
        put_bulk(&mut payload, stmt_id, rows);
        Self { payload, shape: ResponseShape::Query, is_binary: true }
    }

    pub(super) fn fetch(stmt_id: u32, rows: u32) -> Self {
        let mut payload = of_stmt(0x1C, stmt_id);
        put_u32(&mut payload, rows);
        Self { payload, shape: ResponseShape::Fetch, is_binary: true }
    }

    pub(super) fn reset_stmt(stmt_id: u32) -> Self {
        Self::new(of_stmt(0x1A, stmt_id), ResponseShape::Single)
    }

    pub(super) fn close(stmt_id: u32) -> Self {
        Self::new(of_stmt(0x19, stmt_id), ResponseShape::None)
    }

    pub(super) fn ping() -> Self {
        Self::new(vec![0x0E], ResponseShape::Single)
    }

    pub(super) fn init_db(schema: Schema) -> Self {
        Self::new([&[0x02], schema.name().as_bytes()].concat(), ResponseShape::Single)
    }

    pub(super) fn reset() -> Self {
        Self::new(vec![0x1F], ResponseShape::Single)
    }

    pub(super) fn multi(on: bool) -> Self {
        let mut payload = vec![0x1B];
        put_u16(&mut payload, u16::from(!on));
        Self::new(payload, ResponseShape::Single)
    }

    pub(super) fn statistics() -> Self {
        Self::new(vec![0x09], ResponseShape::Text)
    }

    pub(super) fn nonsense() -> Self {
        Self::new(vec![0x63], ResponseShape::Single)
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        put_payload(out, 0, &self.payload);
    }
}

fn of_stmt(code: u8, stmt_id: u32) -> Vec<u8> {
    let mut payload = vec![code];
    put_u32(&mut payload, stmt_id);
    payload
}

/// Appends `COM_STMT_SEND_LONG_DATA` commands that bring a parameter's text in pieces.
pub(super) fn put_long_data(out: &mut Vec<u8>, stmt_id: u32, parameter: u16, text: &[u8]) {
    for piece in text.chunks(PIECE_LEN) {
        let mut payload = of_stmt(0x18, stmt_id);
        put_u16(&mut payload, parameter);
        payload.extend_from_slice(piece);
        put_payload(out, 0, &payload);
    }
}

/// The parameters of an execution. For [`Template::Length`] the value is the text's length.
pub(super) fn params(template: Template, tag: Tag, value: u64) -> Vec<Param> {
    let tag = Param::Number(tag.0);
    match template {
        Template::Insert
        | Template::Marked
        | Template::RowCount
        | Template::FoundRows
        | Template::LastInsertId
        | Template::ConnectionId
        | Template::Recalled(_) => vec![tag],
        Template::Audited => vec![tag.clone(), tag],
        Template::Put => vec![Param::Number(value), tag],
        Template::Read | Template::ReadForUpdate | Template::Numbers => {
            vec![tag, Param::Number(value)]
        }
        Template::Length => vec![tag, Param::Text(long_text(value))],
    }
}

/// A text of this length.
pub(super) fn long_text(len: u64) -> Vec<u8> {
    vec![b'y'; usize::try_from(len).unwrap_or_default()]
}
