//! One client of the admin port, from its greeting to its end.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};
use trunkline_protocol::{
    codec::{frame::put_payload, put_u16, put_u32},
    command::{
        Command,
        execute::{Execution, LAST_STMT_ID},
    },
    packet::{
        eof::{EofPacket, put_eof},
        ok::{OkPacket, ReplyFormat, put_ok, put_result_end},
        status,
    },
};
use trunkline_store::{Access, Column, RowSet, Value};

use super::{
    door::Held,
    half_open::Ticket,
    listener::Peer,
    login::{LoggedIn, log_in},
    packet::{Form, STATUS, ok, put_columns, put_head, put_refusal, put_row, told},
    parameter,
    wire::{End, Wire},
};
use crate::{
    figures::Share,
    service::{AdminService, Refused, Reply, Session, class_of},
    sql::text,
};

/// How long a client may take to log in.
const LOGIN_TIME_MAX: Duration = Duration::from_secs(10);
/// How long an administrator may take to read an answer.
const WRITE_TIME_MAX: Duration = Duration::from_secs(60);
/// The longest statement of an administrator.
const COMMAND_BYTES_MAX: usize = 64 << 20;
/// The longest one of a user of statistics.
const STATS_COMMAND_BYTES_MAX: usize = 1 << 20;
/// Answers of at most this many bytes wait to be read without being counted.
const SMALL_ANSWER_BYTES: u64 = 64 << 10;
/// Bytes of a result that are written at once.
const PIECE_LEN: usize = 256 << 10;
/// Prepared statements of one client.
const STMTS_MAX: usize = 1_000;

/// Serves one client.
pub(super) async fn serve<S>(
    stream: S,
    peer: Peer,
    id: u32,
    service: Arc<AdminService>,
    mut ticket: Ticket,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut wire = Wire::new(stream, service.budget());
    let login = tokio::select! {
        login = timeout(LOGIN_TIME_MAX, log_in(&mut wire, peer, id, &service)) => login,
        () = ticket.displaced() => return,
    };
    drop(ticket);
    if let Ok(Ok(LoggedIn { session, format, takes_many, place })) = login {
        if session.access != Access::Stats {
            wire.write_time_max = WRITE_TIME_MAX;
        }
        wire.class = class_of(session.access);
        let unread = Share::none(service.figures(), |figures| &figures.admin.held_bytes);
        let stmts = HashMap::new();
        let mut client = Client {
            wire,
            service,
            session,
            format,
            takes_many,
            stmts,
            last_stmt: 0,
            unread,
            _place: place,
        };
        // It ends with the client.
        let Err(End::Gone) = client.run().await;
    }
}

/// A prepared statement.
struct Stmt {
    text: String,
    params: u16,
    types: Vec<u8>,
    long: Vec<(u16, Vec<u8>)>,
    /// The room of its text and of what was sent as long data.
    held: Held,
    /// Why long data was not kept, if it was not.
    lacks_data: Option<Refused>,
}

impl Stmt {
    /// Forgets long data.
    fn reset(&mut self) {
        self.long.clear();
        self.lacks_data = None;
        self.held.shrink_to(self.text.len());
    }
}

/// A client that is logged in.
struct Client<S> {
    wire: Wire<S>,
    service: Arc<AdminService>,
    session: Session,
    format: ReplyFormat,
    /// Whether one text may hold several statements.
    takes_many: bool,
    stmts: HashMap<u32, Stmt>,
    last_stmt: u32,
    /// The room of a result until it is read.
    unread: Share,
    _place: Share,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    /// Answers commands until the client goes.
    async fn run(&mut self) -> Result<std::convert::Infallible, End> {
        let bytes_max = match self.session.access {
            Access::Stats | Access::Operate => STATS_COMMAND_BYTES_MAX,
            Access::Admin | Access::Internal => COMMAND_BYTES_MAX,
        };
        loop {
            let idle_max = self.service.snapshot().settings.admin_wait_timeout;
            let read = timeout(Duration::from_millis(idle_max), self.wire.read(bytes_max)).await;
            let Ok(read) = read else {
                self.service.figures().admin.idle.add(1);
                put_refusal(&mut self.wire.out, 0, &idle(idle_max));
                self.wire.flush().await?;
                return Err(End::Gone);
            };
            let (_, payload) = read?;
            match Command::decode(&payload) {
                Ok(Command::Quit) => return Err(End::Gone),
                Ok(Command::Query(text)) => self.answer_text(text).await?,
                Ok(command) => self.answer(command).await?,
                Err(_) => self.refuse(&malformed()),
            }
            self.send().await?;
        }
    }

    /// Sends what waits.
    async fn send(&mut self) -> Result<(), End> {
        let sent = self.wire.flush().await;
        self.session.room.clear();
        self.unread.shrink_to(0);
        sent
    }

    async fn answer(&mut self, command: Command<'_>) -> Result<(), End> {
        match command {
            Command::InitDb(name) => {
                self.session.schema = String::from_utf8_lossy(name).into_owned();
                self.put_ok();
            }
            // The two options: several statements in a text, or one.
            Command::SetOption(option) => {
                self.takes_many = option == 0;
                self.put_ok();
            }
            Command::Ping | Command::Refresh(_) | Command::Debug => self.put_ok(),
            Command::ResetConnection => {
                self.stmts.clear();
                self.put_ok();
            }
            Command::Statistics => {
                let text = format!("Trunkline {}", env!("CARGO_PKG_VERSION"));
                put_payload(&mut self.wire.out, 1, text.as_bytes());
            }
            Command::FieldList { table, .. } => self.list_fields(table).await,
            Command::StmtPrepare(text) => self.prepare(text).await,
            Command::StmtExecute { stmt_id, raw } => self.execute(stmt_id, raw).await?,
            Command::StmtSendLongData { stmt_id, parameter, data } => {
                self.long_data(stmt_id, parameter, data);
            }
            Command::StmtClose { stmt_id } => drop(self.stmts.remove(&stmt_id)),
            Command::StmtReset { stmt_id } => match self.stmts.get_mut(&stmt_id) {
                Some(stmt) => {
                    stmt.reset();
                    self.put_ok();
                }
                None => self.refuse(&unknown_stmt(stmt_id)),
            },
            Command::Quit
            | Command::Query(_)
            | Command::CreateDb(_)
            | Command::DropDb(_)
            | Command::Shutdown
            | Command::ProcessInfo
            | Command::ProcessKill(_)
            | Command::ChangeUser(_)
            | Command::BinlogDump(_)
            | Command::BinlogDumpGtid(_)
            | Command::TableDump(_)
            | Command::RegisterSlave(_)
            | Command::StmtFetch { .. }
            | Command::StmtBulkExecute { .. }
            | Command::Unknown(_) => self.refuse(&Refused {
                code: 1047,
                state: b"08S01",
                message: format!("{} is not supported on the admin port", command.name()),
            }),
        }
        Ok(())
    }

    /// `COM_QUERY`: each statement of the text after the other, up to one that fails.
    async fn answer_text(&mut self, text: &[u8]) -> Result<(), End> {
        let text = String::from_utf8_lossy(text).into_owned();
        let statements = match self.takes_many {
            true => text::statements(&text),
            false => vec![text.as_str()],
        };
        let last = statements.len().saturating_sub(1);
        let mut seq = 1;
        for (at, statement) in statements.into_iter().enumerate() {
            let reply = self.service.answer(&mut self.session, statement, &[]).await;
            let has_failed = matches!(reply, Reply::Error(_));
            let more = if at < last { status::MORE_RESULTS } else { 0 };
            seq = self.put(seq, reply, Form::Text, STATUS | more).await?;
            // Answers do not wait for each other.
            self.send().await?;
            if has_failed {
                break;
            }
        }
        Ok(())
    }

    /// Appends an OK with nothing to say.
    fn put_ok(&mut self) {
        put_ok(&mut self.wire.out, 1, &ok(0, ""), self.format);
    }

    /// Appends an answer whose first packet has this number, with this status; gives the number of
    /// the packet that comes next. What does not fit into a piece is sent already.
    async fn put(&mut self, seq: u8, reply: Reply, form: Form, status: u16) -> Result<u8, End> {
        Ok(match reply {
            Reply::Rows(rows) => match self.has_room_unread() {
                Ok(()) => {
                    let within = self.wire.write_time_max;
                    let sent = timeout(within, self.put_rows(seq, rows, form, status)).await;
                    // Who reads it too slowly is closed.
                    sent.unwrap_or(Err(End::Gone))?
                }
                Err(refused) => put_refusal(&mut self.wire.out, seq, &refused),
            },
            Reply::Ok { affected, info, warnings } => {
                let warnings = u16::try_from(warnings.len()).unwrap_or(u16::MAX);
                let packet = OkPacket { warnings, status, ..ok(affected, &info) };
                put_ok(&mut self.wire.out, seq, &packet, self.format)
            }
            Reply::Error(refused) => put_refusal(&mut self.wire.out, seq, &refused),
        })
    }

    /// Appends a result, and sends it a piece after the other: what waits for its reader beside the
    /// rows is no more than a piece.
    async fn put_rows(
        &mut self,
        seq: u8,
        rows: RowSet,
        form: Form,
        status: u16,
    ) -> Result<u8, End> {
        let RowSet { columns, rows } = rows;
        let columns = self.told(columns);
        let mut seq = put_head(&mut self.wire.out, seq, self.format, status, &columns);
        for row in rows {
            seq = put_row(&mut self.wire.out, seq, form, &row, &columns);
            if self.wire.out.len() >= PIECE_LEN {
                self.wire.flush().await?;
            }
        }
        let end = OkPacket { status, ..OkPacket::default() };
        Ok(put_result_end(&mut self.wire.out, seq, &end, self.format))
    }

    /// Whether the rows of an answer may wait to be read: all users of statistics together have a
    /// limit on them.
    fn has_room_unread(&mut self) -> Result<(), Refused> {
        let len = self.session.room.len();
        if self.session.access != Access::Stats || len <= SMALL_ANSWER_BYTES {
            return Ok(());
        }
        let max = self.service.snapshot().settings.admin_stats_bytes_max as u64 * 2;
        match self.unread.grow(len, max) {
            true => Ok(()),
            false => Err(too_much_unread(max)),
        }
    }

    /// Columns with the types that `admin_types` says.
    fn told(&self, columns: Vec<Column>) -> Vec<Column> {
        told(columns, self.service.snapshot().settings.admin_types)
    }

    fn refuse(&mut self, refused: &Refused) {
        put_refusal(&mut self.wire.out, 1, refused);
    }

    /// The columns of a table, as `mysql` asks for them to complete names.
    async fn list_fields(&mut self, table: &[u8]) {
        let name = String::from_utf8_lossy(table).replace('"', "");
        let sql = format!("SELECT * FROM \"{name}\" LIMIT 0");
        match self.service.describe(&self.session, &sql).await {
            Ok(described) => {
                let columns = self.told(described.columns);
                let seq = put_columns(&mut self.wire.out, 1, &columns);
                put_eof(&mut self.wire.out, seq, EofPacket { warnings: 0, status: STATUS });
            }
            Err(refused) => self.refuse(&refused),
        }
    }

    async fn prepare(&mut self, text: &[u8]) {
        let text = String::from_utf8_lossy(text).into_owned();
        if self.stmts.len() >= STMTS_MAX {
            return self.refuse(&Refused {
                code: 1461,
                state: b"42000",
                message: format!("no more than {STMTS_MAX} prepared statements"),
            });
        }
        let mut held = self.service.door().held(self.session.access);
        if let Err(refused) = held.grow(text.len(), self.service.budget()) {
            return self.refuse(&refused);
        }
        let mut described = match self.service.describe(&self.session, &text).await {
            Ok(described) => described,
            Err(refused) => return self.refuse(&refused),
        };
        described.columns = self.told(described.columns);
        let counts = (u16::try_from(described.params), u16::try_from(described.columns.len()));
        let (Ok(params), Ok(columns)) = counts else { return self.refuse(&malformed()) };
        self.last_stmt = self.last_stmt.wrapping_add(1).clamp(1, LAST_STMT_ID - 1);
        let (types, long) = (Vec::new(), Vec::new());
        let stmt = Stmt { text, params, types, long, held, lacks_data: None };
        self.stmts.insert(self.last_stmt, stmt);
        let mut payload = vec![0];
        put_u32(&mut payload, self.last_stmt);
        put_u16(&mut payload, columns);
        put_u16(&mut payload, params);
        payload.push(0);
        put_u16(&mut payload, 0);
        let out = &mut self.wire.out;
        let mut seq = put_payload(out, 1, &payload);
        let eof = EofPacket { warnings: 0, status: STATUS };
        if params > 0 {
            let unknown = trunkline_store::Column {
                name: "?".to_owned(),
                kind: trunkline_store::ColumnKind::Text,
            };
            seq = put_columns(out, seq, &vec![unknown; usize::from(params)]);
            if !self.format.deprecate_eof {
                seq = put_eof(out, seq, eof);
            }
        }
        if columns > 0 {
            seq = put_columns(out, seq, &described.columns);
            if !self.format.deprecate_eof {
                put_eof(out, seq, eof);
            }
        }
    }

    async fn execute(&mut self, stmt_id: u32, raw: &[u8]) -> Result<(), End> {
        let stmt_id = if stmt_id == LAST_STMT_ID { self.last_stmt } else { stmt_id };
        let Some(stmt) = self.stmts.get_mut(&stmt_id) else {
            self.refuse(&unknown_stmt(stmt_id));
            return Ok(());
        };
        if let Some(refused) = stmt.lacks_data.take() {
            stmt.reset();
            self.refuse(&refused);
            return Ok(());
        }
        let read = Execution::parse(raw, stmt.params).and_then(|execution| {
            parameter::read(&execution, stmt.params, &mut stmt.types, &stmt.long)
        });
        stmt.reset();
        let values: Vec<Value> = match read {
            Ok(values) => values,
            Err(_) => {
                self.refuse(&malformed());
                return Ok(());
            }
        };
        let text = stmt.text.clone();
        let reply = self.service.answer(&mut self.session, &text, &values).await;
        self.put(1, reply, Form::Binary, STATUS).await.map(drop)
    }

    /// Nothing answers this: when it can't be kept, the execution is refused.
    fn long_data(&mut self, stmt_id: u32, parameter: u16, data: &[u8]) {
        let Some(stmt) = self.stmts.get_mut(&stmt_id) else { return };
        let held: usize = stmt.long.iter().map(|(_, bytes)| bytes.len()).sum();
        let is_too_long = held.saturating_add(data.len()) > COMMAND_BYTES_MAX;
        let refused = match &stmt.lacks_data {
            Some(_) => return,
            None if is_too_long => Some(too_long_data()),
            None => stmt.held.grow(data.len(), self.service.budget()).err(),
        };
        if let Some(refused) = refused {
            stmt.reset();
            stmt.lacks_data = Some(refused);
            return;
        }
        match stmt.long.iter_mut().find(|(at, _)| *at == parameter) {
            Some((_, bytes)) => bytes.extend_from_slice(data),
            None => stmt.long.push((parameter, data.to_vec())),
        }
    }
}

fn idle(idle_max_ms: u64) -> Refused {
    let message = format!(
        "The client was disconnected because it was idle for {} s (trunkline-admin_wait_timeout)",
        idle_max_ms.div_ceil(1_000)
    );
    Refused { code: 4031, state: b"HY000", message }
}

fn too_long_data() -> Refused {
    let message = format!("long data of more than {COMMAND_BYTES_MAX} bytes for one statement");
    Refused { code: 1153, state: b"08S01", ..Refused::new(message) }
}

fn too_much_unread(max: u64) -> Refused {
    let message = format!(
        "results of {max} bytes wait for users of statistics to read them \
         (twice trunkline-admin_stats_bytes_max)"
    );
    Refused { code: 1153, state: b"08S01", ..Refused::new(message) }
}

fn malformed() -> Refused {
    Refused { code: 1835, state: b"HY000", message: "Malformed communication packet".to_owned() }
}

fn unknown_stmt(stmt_id: u32) -> Refused {
    let message = format!("Unknown prepared statement handler ({stmt_id}) given");
    Refused { code: 1243, state: b"HY000", message }
}
