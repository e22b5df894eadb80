//! One client's prepared statements, run directly and through the proxy: the answers must be the
//! same bytes.

use anyhow::{Context, Result, bail, ensure};
use trunkline_protocol::Capabilities;
use trunkline_protocol::codec::put_lenenc_bytes;

use crate::stage::{PASSWORD, USER};
use crate::wire::{Endpoint, Outcome, PLAIN, Shape, Wire, code, login};

/// A parameter of an execution.
#[derive(Clone, Debug)]
pub enum Param {
    Int(i64),
    Double(f64),
    Text(String),
    Blob(Vec<u8>),
    /// NULL, typed as NULL.
    Null,
    /// Sent before as long data.
    Long,
}

impl Param {
    pub fn text(text: &str) -> Param {
        Param::Text(text.to_owned())
    }
}

/// What follows the statement id of `COM_STMT_EXECUTE`.
pub fn block(cursor: u8, params: &[Param], with_types: bool) -> Vec<u8> {
    let mut body = vec![cursor, 1, 0, 0, 0];
    if params.is_empty() {
        return body;
    }
    let mut nulls = vec![0_u8; params.len().div_ceil(8)];
    let (mut types, mut values) = (Vec::new(), Vec::new());
    for (at, param) in params.iter().enumerate() {
        match param {
            Param::Int(value) => {
                types.extend_from_slice(&[0x08, 0]);
                values.extend_from_slice(&value.to_le_bytes());
            }
            Param::Double(value) => {
                types.extend_from_slice(&[0x05, 0]);
                values.extend_from_slice(&value.to_le_bytes());
            }
            Param::Text(value) => {
                types.extend_from_slice(&[0xFD, 0]);
                put_lenenc_bytes(&mut values, value.as_bytes());
            }
            Param::Blob(value) => {
                types.extend_from_slice(&[0xFC, 0]);
                put_lenenc_bytes(&mut values, value);
            }
            Param::Null => {
                types.extend_from_slice(&[0x06, 0]);
                nulls[at / 8] |= 1 << (at % 8);
            }
            Param::Long => types.extend_from_slice(&[0xFC, 0]),
        }
    }
    body.extend_from_slice(&nulls);
    body.push(u8::from(with_types));
    if with_types {
        body.extend_from_slice(&types);
    }
    body.extend_from_slice(&values);
    body
}

/// A statement's ids: the direct server's and the proxy's.
#[derive(Clone, Copy, Debug)]
pub struct Stmt {
    pub direct: u32,
    pub proxied: u32,
}

/// A client that does everything twice.
pub struct Twin {
    pub direct: Wire,
    pub proxied: Wire,
}

impl Twin {
    pub fn new(
        server: impl Into<Endpoint>,
        proxy: impl Into<Endpoint>,
        schema: &str,
    ) -> Result<Twin> {
        Twin::with(server, proxy, schema, PLAIN | Capabilities::DEPRECATE_EOF)
    }

    /// One that wants these of server and proxy.
    pub fn with(
        server: impl Into<Endpoint>,
        proxy: impl Into<Endpoint>,
        schema: &str,
        wanted: Capabilities,
    ) -> Result<Twin> {
        let login = || login(USER, PASSWORD, schema, wanted);
        let direct = Wire::login_with(server, login())?;
        let proxied = Wire::login_with(proxy, login())?;
        Ok(Twin { direct, proxied })
    }

    /// Both answers to one command each, which must be equal but for the statement's id.
    pub fn both(
        &mut self,
        code: u8,
        bodies: [&[u8]; 2],
        shape: Shape,
        what: &str,
    ) -> Result<[Vec<u8>; 2]> {
        let direct = self.direct.exchange(code, bodies[0], shape);
        let direct = direct.with_context(|| format!("direct {what}"))?;
        let proxied = self.proxied.exchange(code, bodies[1], shape);
        let proxied = proxied.with_context(|| format!("proxied {what}"))?;
        let masked = |bytes: &[u8]| masked(code, bytes);
        ensure!(
            masked(&direct) == masked(&proxied),
            "{what}\n  direct  {}\n  proxied {}",
            direct.escape_ascii(),
            proxied.escape_ascii()
        );
        Ok([direct, proxied])
    }

    /// A text statement.
    pub fn query(&mut self, text: &str) -> Result<Vec<Outcome>> {
        let body = text.as_bytes();
        let [_, bytes] = self.both(code::QUERY, [body, body], Shape::Results, text)?;
        self.proxied.outcomes(&bytes)
    }

    /// `COM_STMT_PREPARE`; `None` for an error.
    pub fn try_prepare(&mut self, text: &str) -> Result<Option<Stmt>> {
        let body = text.as_bytes();
        let both = self.both(code::STMT_PREPARE, [body, body], Shape::Prepare, text)?;
        let ids = both.each_ref().map(|bytes| match bytes.get(4..9) {
            Some([0, id @ ..]) => <[u8; 4]>::try_from(id).ok().map(u32::from_le_bytes),
            _ => None,
        });
        Ok(match ids {
            [Some(direct), Some(proxied)] => Some(Stmt { direct, proxied }),
            _ => None,
        })
    }

    pub fn prepare(&mut self, text: &str) -> Result<Stmt> {
        self.try_prepare(text)?.with_context(|| format!("{text} can't be prepared"))
    }

    /// A command on a statement.
    pub fn on(&mut self, code: u8, stmt: Stmt, rest: &[u8], shape: Shape) -> Result<Vec<u8>> {
        let bodies = [stmt.direct, stmt.proxied].map(|id| [&id.to_le_bytes(), rest].concat());
        let what = format!("command {code:#x} on {stmt:?}: {rest:02x?}");
        let [_, bytes] = self.both(code, [&bodies[0], &bodies[1]], shape, &what)?;
        Ok(bytes)
    }

    pub fn execute(&mut self, stmt: Stmt, params: &[Param]) -> Result<Vec<Outcome>> {
        let bytes = self.on(code::STMT_EXECUTE, stmt, &block(0, params, true), Shape::Results)?;
        self.proxied.outcomes(&bytes)
    }

    /// With the types of the execution before.
    pub fn again(&mut self, stmt: Stmt, params: &[Param]) -> Result<Vec<Outcome>> {
        let bytes = self.on(code::STMT_EXECUTE, stmt, &block(0, params, false), Shape::Results)?;
        self.proxied.outcomes(&bytes)
    }

    pub fn execute_cursor(&mut self, stmt: Stmt, params: &[Param]) -> Result<Vec<u8>> {
        self.on(code::STMT_EXECUTE, stmt, &block(1, params, true), Shape::Results)
    }

    pub fn fetch(&mut self, stmt: Stmt, rows: u32) -> Result<Vec<u8>> {
        self.on(code::STMT_FETCH, stmt, &rows.to_le_bytes(), Shape::UntilEof)
    }

    pub fn long(&mut self, stmt: Stmt, parameter: u16, data: &[u8]) -> Result<()> {
        let rest = [&parameter.to_le_bytes(), data].concat();
        self.on(code::STMT_SEND_LONG_DATA, stmt, &rest, Shape::Nothing)?;
        Ok(())
    }

    pub fn reset(&mut self, stmt: Stmt) -> Result<()> {
        self.on(code::STMT_RESET, stmt, b"", Shape::Single)?;
        Ok(())
    }

    pub fn close(&mut self, stmt: Stmt) -> Result<()> {
        self.on(code::STMT_CLOSE, stmt, b"", Shape::Nothing)?;
        Ok(())
    }
}

/// An answer without what may differ: ids of statements, also in texts of errors, and MariaDB's
/// remark that it prepared a statement again.
fn masked(code: u8, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if code == code::STMT_PREPARE
        && let Some([0, id @ ..]) = bytes.get_mut(4..9)
    {
        id.fill(0);
    }
    if bytes.get(4) == Some(&0xFF) {
        let text = String::from_utf8_lossy(&bytes[7..]).into_owned();
        let shown: String = text.chars().filter(|c| !c.is_ascii_digit()).collect();
        bytes.splice(7.., shown.bytes());
        bytes[0] = 0;
    }
    let end = bytes.len();
    if let Some([0xFE, _, _, _, flags, ..]) = bytes.get_mut(end.saturating_sub(7)..) {
        *flags &= !0x04;
    }
    bytes
}

/// The rows of the only result, as bytes.
pub fn rows(outcomes: &[Outcome]) -> Result<&[Vec<u8>]> {
    match outcomes {
        [Outcome::Rows { rows, .. }] => Ok(rows),
        other => bail!("no rows: {other:?}"),
    }
}

/// The error of the only result.
pub fn error_code(outcomes: &[Outcome]) -> Result<u16> {
    match outcomes {
        [Outcome::Error(error)] => Ok(error.code),
        other => bail!("no error: {other:?}"),
    }
}
