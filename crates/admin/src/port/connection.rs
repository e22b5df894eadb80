//! One client of the admin port, from its greeting to its end.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};
use trunkline_protocol::{
    Capabilities,
    codec::{frame::put_payload, put_u16, put_u32},
    command::{
        Command,
        execute::{Execution, LAST_STMT_ID},
    },
    packet::{
        eof::{EofPacket, put_eof},
        err::put_err,
        greeting::Greeting,
        ok::{OkPacket, ReplyFormat, put_ok},
        status,
    },
};
use trunkline_session::frontend::{self, ClientHandshake, HANDSHAKE_PAYLOAD_MAX, Step};
use trunkline_store::{Access, Value};
use trunkline_topology::User;

use super::{
    Accounts,
    listener::Peer,
    packet::{Form, STATUS, put_columns, put_result},
    parameter,
    wire::{End, Wire},
};
use crate::{
    service::{AdminService, Refused, Reply, Session, VERSION},
    sql::text,
};

/// How long a client may take to log in.
const LOGIN_TIME_MAX: Duration = Duration::from_secs(10);
/// How long a client may be silent.
const IDLE_TIME_MAX: Duration = Duration::from_secs(8 * 3_600);
/// The longest statement.
const COMMAND_BYTES_MAX: usize = 64 << 20;
/// Prepared statements of one client.
const STMTS_MAX: usize = 1_000;

/// What the admin port offers.
const OFFERED: Capabilities = Capabilities::LONG_PASSWORD
    .union(Capabilities::FOUND_ROWS)
    .union(Capabilities::LONG_FLAG)
    .union(Capabilities::CONNECT_WITH_DB)
    .union(Capabilities::PROTOCOL_41)
    .union(Capabilities::IGNORE_SIGPIPE)
    .union(Capabilities::TRANSACTIONS)
    .union(Capabilities::SECURE_CONNECTION)
    .union(Capabilities::MULTI_STATEMENTS)
    .union(Capabilities::MULTI_RESULTS)
    .union(Capabilities::PS_MULTI_RESULTS)
    .union(Capabilities::PLUGIN_AUTH)
    .union(Capabilities::CONNECT_ATTRS)
    .union(Capabilities::PLUGIN_AUTH_LENENC_CLIENT_DATA)
    .union(Capabilities::DEPRECATE_EOF);

/// Serves one client.
pub(super) async fn serve<S>(stream: S, peer: Peer, id: u32, service: Arc<AdminService>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut wire = Wire::new(stream);
    let login = timeout(LOGIN_TIME_MAX, log_in(&mut wire, peer, id, &service)).await;
    if let Ok(Ok(LoggedIn { session, format, takes_many })) = login {
        let stmts = HashMap::new();
        let mut client = Client { wire, service, session, format, takes_many, stmts, last_stmt: 0 };
        // It ends with the client.
        let Err(End::Gone) = client.run().await;
    }
}

/// Accounts as the handshake asks for them.
struct Asked {
    accounts: Accounts,
    host: String,
    is_secure: bool,
}

impl frontend::Accounts for Asked {
    fn user(&self, name: &str) -> Option<Arc<User>> {
        self.accounts.find(name).map(|(user, _)| Arc::clone(user))
    }

    fn stand_in(&self, _: &str) -> Option<Arc<User>> {
        None
    }

    fn verified_sha2(&self, _: &User) -> Option<[u8; 32]> {
        None
    }

    fn can_look_up(&self) -> bool {
        false
    }

    fn public_key_pem(&self) -> Option<&[u8]> {
        None
    }

    fn client_host(&self) -> &str {
        &self.host
    }

    fn is_secure(&self) -> bool {
        self.is_secure
    }

    fn is_own_process(&self, _: &User) -> bool {
        false
    }

    fn is_encrypted(&self) -> bool {
        false
    }
}

/// What came of a login.
struct LoggedIn {
    session: Session,
    format: ReplyFormat,
    takes_many: bool,
}

async fn log_in<S: AsyncRead + AsyncWrite + Unpin>(
    wire: &mut Wire<S>,
    peer: Peer,
    id: u32,
    service: &AdminService,
) -> Result<LoggedIn, End> {
    let accounts = service.accounts().ok_or(End::Gone)?;
    let mut asked = Asked { accounts, host: peer.host(), is_secure: peer.is_local() };
    let tls = service.tls();
    let mut offered = OFFERED;
    if tls.acceptor().is_some() {
        offered.insert(Capabilities::SSL);
    }
    let greeting = Greeting {
        protocol_version: 10,
        server_version: format!("8.0.11-{VERSION}"),
        connection_id: id,
        nonce: trunkline_crypto::nonce(),
        capabilities: offered,
        charset: 45,
        status: STATUS,
        auth_plugin: "mysql_native_password".to_owned(),
    };
    let mut handshake = ClientHandshake::start(&greeting, false, &mut wire.out);
    loop {
        wire.flush().await?;
        let (header, payload) = wire.read(HANDSHAKE_PAYLOAD_MAX).await?;
        let step = handshake.on_packet(header, &payload, &asked, &mut wire.out);
        let identity = match step {
            Step::Continue => continue,
            Step::StartTls => {
                wire.start_tls(&tls).await?;
                handshake.on_tls();
                asked.is_secure = true;
                continue;
            }
            Step::Accepted(identity) => identity,
            // Accounts have no hashes that take long, and no key is offered.
            Step::Refused(_)
            | Step::Decrypt(_)
            | Step::VerifyHash { .. }
            | Step::AskServer { .. }
            | Step::LookUp
            | Step::NameHost => {
                tracing::warn!("an administrator at {} was refused", asked.host);
                service.audit_login("", &asked.host, wire.is_encrypted(), false);
                wire.flush().await?;
                return Err(End::Gone);
            }
        };
        let user = identity.user.name.clone();
        let access = asked.accounts.find(&user).map_or(Access::Stats, |(_, access)| *access);
        let takes_many = identity.capabilities.contains(Capabilities::MULTI_STATEMENTS);
        service.audit_login(&user, &asked.host, wire.is_encrypted(), true);
        let format = ReplyFormat {
            deprecate_eof: identity.capabilities.contains(Capabilities::DEPRECATE_EOF),
            ..ReplyFormat::default()
        };
        put_ok(&mut wire.out, identity.next_seq, &ok(0, ""), format);
        wire.flush().await?;
        let default = if access == Access::Stats { "stats" } else { "main" };
        let schema = identity.schema.map(|name| String::from_utf8_lossy(&name).into_owned());
        let schema = schema.filter(|name| !name.is_empty()).unwrap_or_else(|| default.to_owned());
        let session = Session { user, peer: asked.host, id, access, schema };
        return Ok(LoggedIn { session, format, takes_many });
    }
}

fn ok(affected_rows: u64, info: &str) -> OkPacket<'_> {
    OkPacket { affected_rows, status: STATUS, info: info.as_bytes(), ..OkPacket::default() }
}

/// A prepared statement.
struct Stmt {
    text: String,
    params: u16,
    types: Vec<u8>,
    long: Vec<(u16, Vec<u8>)>,
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
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    /// Answers commands until the client goes.
    async fn run(&mut self) -> Result<std::convert::Infallible, End> {
        loop {
            let read = timeout(IDLE_TIME_MAX, self.wire.read(COMMAND_BYTES_MAX)).await;
            let Ok(read) = read else { return Err(End::Gone) };
            let (_, payload) = read?;
            match Command::decode(&payload) {
                Ok(Command::Quit) => return Err(End::Gone),
                Ok(Command::Query(text)) => self.answer_text(text).await?,
                Ok(command) => self.answer(command).await,
                Err(_) => self.refuse(&malformed()),
            }
            self.wire.flush().await?;
        }
    }

    async fn answer(&mut self, command: Command<'_>) {
        match command {
            Command::InitDb(name) => {
                self.session.schema = String::from_utf8_lossy(name).into_owned();
                self.put(Reply::ok(), Form::Text);
            }
            // The two options: several statements in a text, or one.
            Command::SetOption(option) => {
                self.takes_many = option == 0;
                self.put(Reply::ok(), Form::Text);
            }
            Command::Ping | Command::Refresh(_) | Command::Debug => {
                self.put(Reply::ok(), Form::Text);
            }
            Command::ResetConnection => {
                self.stmts.clear();
                self.put(Reply::ok(), Form::Text);
            }
            Command::Statistics => {
                let text = format!("Trunkline {}", env!("CARGO_PKG_VERSION"));
                put_payload(&mut self.wire.out, 1, text.as_bytes());
            }
            Command::FieldList { table, .. } => self.list_fields(table).await,
            Command::StmtPrepare(text) => self.prepare(text).await,
            Command::StmtExecute { stmt_id, raw } => self.execute(stmt_id, raw).await,
            Command::StmtSendLongData { stmt_id, parameter, data } => {
                self.long_data(stmt_id, parameter, data);
            }
            Command::StmtClose { stmt_id } => drop(self.stmts.remove(&stmt_id)),
            Command::StmtReset { stmt_id } => match self.stmts.get_mut(&stmt_id) {
                Some(stmt) => {
                    stmt.long.clear();
                    self.put(Reply::ok(), Form::Text);
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
            seq = self.put_as(seq, reply, Form::Text, STATUS | more);
            // Answers do not wait for each other.
            self.wire.flush().await?;
            if has_failed {
                break;
            }
        }
        Ok(())
    }

    /// Appends an answer as the next packets.
    fn put(&mut self, reply: Reply, form: Form) {
        self.put_as(1, reply, form, STATUS);
    }

    /// Appends an answer whose first packet has this number, with this status; gives the number of
    /// the packet that comes next.
    fn put_as(&mut self, seq: u8, reply: Reply, form: Form, status: u16) -> u8 {
        let out = &mut self.wire.out;
        match reply {
            Reply::Rows(rows) => put_result(out, seq, self.format, form, status, &rows),
            Reply::Ok { affected, info, warnings } => {
                let packet = OkPacket { warnings, status, ..ok(affected, &info) };
                put_ok(out, seq, &packet, self.format)
            }
            Reply::Error(refused) => {
                put_err(out, seq, refused.code, refused.state, &refused.message)
            }
        }
    }

    fn refuse(&mut self, refused: &Refused) {
        put_err(&mut self.wire.out, 1, refused.code, refused.state, &refused.message);
    }

    /// The columns of a table, as `mysql` asks for them to complete names.
    async fn list_fields(&mut self, table: &[u8]) {
        let name = String::from_utf8_lossy(table).replace('"', "");
        let sql = format!("SELECT * FROM \"{name}\" LIMIT 0");
        match self.service.describe(&self.session, &sql).await {
            Ok(described) => {
                let seq = put_columns(&mut self.wire.out, 1, &described.columns);
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
        let described = match self.service.describe(&self.session, &text).await {
            Ok(described) => described,
            Err(refused) => return self.refuse(&refused),
        };
        let counts = (u16::try_from(described.params), u16::try_from(described.columns.len()));
        let (Ok(params), Ok(columns)) = counts else { return self.refuse(&malformed()) };
        self.last_stmt = self.last_stmt.wrapping_add(1).clamp(1, LAST_STMT_ID - 1);
        let stmt = Stmt { text, params, types: Vec::new(), long: Vec::new() };
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

    async fn execute(&mut self, stmt_id: u32, raw: &[u8]) {
        let stmt_id = if stmt_id == LAST_STMT_ID { self.last_stmt } else { stmt_id };
        let Some(stmt) = self.stmts.get_mut(&stmt_id) else {
            return self.refuse(&unknown_stmt(stmt_id));
        };
        let read = Execution::parse(raw, stmt.params).and_then(|execution| {
            parameter::read(&execution, stmt.params, &mut stmt.types, &stmt.long)
        });
        stmt.long.clear();
        let values: Vec<Value> = match read {
            Ok(values) => values,
            Err(_) => return self.refuse(&malformed()),
        };
        let text = stmt.text.clone();
        let reply = self.service.answer(&mut self.session, &text, &values).await;
        self.put(reply, Form::Binary);
    }

    /// Nothing answers this; what can't be kept is noticed at the execution.
    fn long_data(&mut self, stmt_id: u32, parameter: u16, data: &[u8]) {
        let Some(stmt) = self.stmts.get_mut(&stmt_id) else { return };
        let held: usize = stmt.long.iter().map(|(_, bytes)| bytes.len()).sum();
        if held.saturating_add(data.len()) > COMMAND_BYTES_MAX {
            return;
        }
        match stmt.long.iter_mut().find(|(at, _)| *at == parameter) {
            Some((_, bytes)) => bytes.extend_from_slice(data),
            None => stmt.long.push((parameter, data.to_vec())),
        }
    }
}

fn malformed() -> Refused {
    Refused { code: 1835, state: b"HY000", message: "Malformed communication packet".to_owned() }
}

fn unknown_stmt(stmt_id: u32) -> Refused {
    let message = format!("Unknown prepared statement handler ({stmt_id}) given");
    Refused { code: 1243, state: b"HY000", message }
}
