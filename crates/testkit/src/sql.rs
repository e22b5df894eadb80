//! SQL from tests that are not asynchronous.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder, Value};
use tokio::runtime::Runtime;

/// One row of a result in text; `None` is NULL.
pub type Row = Vec<Option<String>>;

/// Packets up to the protocol's maximum, so that no size test stops at the client. In bytes.
const MAX_ALLOWED_PACKET: usize = 1_024 * 1_024 * 1_024;
/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a statement may take: a test that hangs tells less than one that fails.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(120);
/// Seconds; only makes the client not ask the server for its own value.
const WAIT_TIMEOUT_SEC: usize = 28_800;

/// One connection of a blocking client.
///
/// It sends nothing but what it is given: no statement of its own follows the log-in. It works
/// inside an asynchronous test too, since it waits on a thread of its own.
pub struct SqlClient {
    /// `None` only while being dropped.
    conn: Option<Conn>,
    runtime: Option<Runtime>,
}

impl std::fmt::Debug for SqlClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let id = self.conn.as_ref().map(Conn::id);
        f.debug_struct("SqlClient").field("connection_id", &id).finish_non_exhaustive()
    }
}

impl SqlClient {
    /// Connects to a port on loopback. An empty `schema` means none.
    ///
    /// # Errors
    /// When nothing answers or the log-in fails.
    pub fn tcp(port: u16, user: &str, password: &str, schema: &str) -> Result<SqlClient> {
        let opts =
            OptsBuilder::default().ip_or_hostname(Ipv4Addr::LOCALHOST.to_string()).tcp_port(port);
        connect(opts, user, password, schema)
            .with_context(|| format!("cannot connect to 127.0.0.1:{port} as {user}"))
    }

    /// Connects to a server anywhere, given as `host:port`. An empty `schema` means none.
    ///
    /// # Errors
    /// When the address is none, nothing answers or the log-in fails.
    pub fn address(address: &str, user: &str, password: &str, schema: &str) -> Result<SqlClient> {
        let (host, port) = address.rsplit_once(':').context("an address is host:port")?;
        let opts = OptsBuilder::default().ip_or_hostname(host.to_owned()).tcp_port(port.parse()?);
        connect(opts, user, password, schema)
            .with_context(|| format!("cannot connect to {address} as {user}"))
    }

    /// Connects to a Unix socket. An empty `schema` means none.
    ///
    /// # Errors
    /// When nothing answers or the log-in fails.
    pub fn socket(path: &Path, user: &str, password: &str, schema: &str) -> Result<SqlClient> {
        let opts = OptsBuilder::default().socket(Some(path.to_string_lossy()));
        connect(opts, user, password, schema)
            .with_context(|| format!("cannot connect to {} as {user}", path.display()))
    }

    /// Runs one or more statements as text (`COM_QUERY`) and gives the rows of the last result
    /// set, none if no statement had one.
    ///
    /// # Errors
    /// The server's error, with the statement.
    pub fn sql(&mut self, statements: &str) -> Result<Vec<Row>> {
        Ok(self.run(statements)?.rows)
    }

    /// As [`SqlClient::sql`], each row as a map from column names, for `SHOW … STATUS`.
    ///
    /// # Errors
    /// The server's error, with the statement.
    pub fn named(&mut self, statements: &str) -> Result<Vec<BTreeMap<String, Option<String>>>> {
        let ResultSet { columns, rows } = self.run(statements)?;
        let name = |row: Row| columns.iter().cloned().zip(row).collect();
        Ok(rows.into_iter().map(name).collect())
    }

    /// The first column of the first row; an error when there is no row.
    ///
    /// # Errors
    /// The server's error, or that there is no row.
    pub fn value(&mut self, statement: &str) -> Result<Option<String>> {
        first_value(self.sql(statement)?, statement)
    }

    /// Prepares a statement by command and runs it with these texts; its rows.
    ///
    /// # Errors
    /// The server's error, with the statement.
    pub fn execute(&mut self, statement: &str, params: &[&str]) -> Result<Vec<Row>> {
        let conn = self.conn.as_mut().context("the connection is closed")?;
        let runtime = self.runtime.as_ref().context("the connection is closed")?;
        let params: Vec<Value> = params.iter().map(|text| Value::from(*text)).collect();
        let attempt = async {
            let rows = conn.exec::<mysql_async::Row, _, _>(statement, params);
            tokio::time::timeout(STATEMENT_TIMEOUT, rows).await
        };
        let Ok(outcome) = block_on(runtime, attempt) else {
            self.conn = None;
            bail!("no answer within {} s: {statement:.300}", STATEMENT_TIMEOUT.as_secs());
        };
        let rows = outcome.with_context(|| format!("statement failed: {statement:.300}"))?;
        Ok(rows.into_iter().map(row_text).collect())
    }

    fn run(&mut self, statements: &str) -> Result<ResultSet> {
        let conn = self.conn.as_mut().context("the connection is closed")?;
        let runtime = self.runtime.as_ref().context("the connection is closed")?;
        let attempt =
            async { tokio::time::timeout(STATEMENT_TIMEOUT, last_result(conn, statements)).await };
        let Ok(outcome) = block_on(runtime, attempt) else {
            // The answer may still come and must not be taken for that of the next statement.
            self.conn = None;
            bail!("no answer within {} s: {statements:.300}", STATEMENT_TIMEOUT.as_secs());
        };
        outcome.with_context(|| format!("statement failed: {statements:.300}"))
    }

    /// The connection id from the greeting.
    #[must_use]
    pub fn connection_id(&self) -> u32 {
        self.conn.as_ref().map_or(0, Conn::id)
    }
}

impl Drop for SqlClient {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else {
            return;
        };
        if let Some(conn) = self.conn.take() {
            // A polite COM_QUIT, but a frozen server must not hold the test up.
            block_on(&runtime, async {
                let _ = tokio::time::timeout(Duration::from_secs(2), conn.disconnect()).await;
            });
        }
        // An ordinary drop would panic inside an asynchronous test.
        runtime.shutdown_background();
    }
}

/// The server's error number, when that is what went wrong: 1045 for a refused log-in.
#[must_use]
pub fn error_code(error: &anyhow::Error) -> Option<u16> {
    error.chain().find_map(|cause| match cause.downcast_ref::<mysql_async::Error>() {
        Some(mysql_async::Error::Server(server)) => Some(server.code),
        _ => None,
    })
}

/// The first column of the first row.
pub(crate) fn first_value(rows: Vec<Row>, statement: &str) -> Result<Option<String>> {
    let row = rows.into_iter().next().with_context(|| format!("no row from {statement:.300}"))?;
    row.into_iter().next().with_context(|| format!("no column from {statement:.300}"))
}

fn connect(opts: OptsBuilder, user: &str, password: &str, schema: &str) -> Result<SqlClient> {
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let opts: Opts = opts
        .user(some(user))
        .pass(some(password))
        .db_name(some(schema))
        .prefer_socket(false)
        .max_allowed_packet(Some(MAX_ALLOWED_PACKET))
        .wait_timeout(Some(WAIT_TIMEOUT_SEC))
        .into();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let attempt = async { tokio::time::timeout(CONNECT_TIMEOUT, Conn::new(opts)).await };
    match block_on(&runtime, attempt) {
        Ok(Ok(conn)) => Ok(SqlClient { conn: Some(conn), runtime: Some(runtime) }),
        Ok(Err(error)) => {
            runtime.shutdown_background();
            Err(error.into())
        }
        Err(_) => {
            runtime.shutdown_background();
            bail!("no greeting within {} s", CONNECT_TIMEOUT.as_secs())
        }
    }
}

/// On a thread of its own, because a runtime can't wait inside another one's thread.
fn block_on<F>(runtime: &Runtime, future: F) -> F::Output
where
    F: Future + Send,
    F::Output: Send,
{
    std::thread::scope(|scope| match scope.spawn(|| runtime.block_on(future)).join() {
        Ok(output) => output,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

#[derive(Default)]
struct ResultSet {
    columns: Vec<String>,
    rows: Vec<Row>,
}

async fn last_result(conn: &mut Conn, statements: &str) -> Result<ResultSet> {
    let mut result = conn.query_iter(statements).await?;
    let mut last = ResultSet::default();
    // A statement without a result set gives no columns; behind the last one there is no set.
    while let Some(columns) = result.columns() {
        let rows: Vec<mysql_async::Row> = result.collect().await?;
        if !columns.is_empty() {
            let columns = columns.iter().map(|column| column.name_str().into_owned()).collect();
            last = ResultSet { columns, rows: rows.into_iter().map(row_text).collect() };
        }
    }
    Ok(last)
}

fn row_text(row: mysql_async::Row) -> Row {
    row.unwrap().into_iter().map(value_text).collect()
}

fn value_text(value: Value) -> Option<String> {
    match value {
        Value::NULL => None,
        Value::Bytes(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        other @ (Value::Int(_)
        | Value::UInt(_)
        | Value::Float(_)
        | Value::Double(_)
        | Value::Date(..)
        | Value::Time(..)) => Some(other.as_sql(true).trim_matches('\'').to_owned()),
    }
}
