//! One worker whose clients, servers and driver a test plays: no sockets, no clock. A test brings
//! events by the worker's interface, and looks at the bytes and actions that come of them.

mod cache;
mod client;
mod compressed;
mod json;
mod outbox;
mod server;
mod table;

use std::sync::Arc;

use trunkline_config::{Snapshot, parse};
use trunkline_protocol::{
    codec::compressed::{Compressor, Corrupt, Method, Unpacking},
    codec::frame::put_payload,
    packet::greeting::NONCE_LEN,
    response::{Outcome, ResponseShape},
};
use trunkline_sql::{
    analysis::{Analysis, analyse},
    token::Modes,
};

use crate::{
    Action, ClientId, ConnId, KillAnswer, Now, Peer, Shared, Side, Student, Study, Worker,
    WorkerOptions, by_worker,
    clients::client::{Client, Purpose, Session, Statement},
    rooms::{Core, Lender},
};
pub(crate) use client::{CLIENT_CAPABILITIES, Login, local_peer, peer_at};
use client::{TestClient, summaries};
use server::TestServer;
pub(crate) use server::{OK, Reply, greeting};

/// One hostgroup of two servers, and a user of it.
pub(crate) const TWO_SERVERS: &str = r#"
[[server]]
hostgroup = 10
address = "127.0.0.1:3306"
[[server]]
hostgroup = 10
address = "127.0.0.1:3307"
[[user]]
name = "app"
password = "app"
default_hostgroup = 10
"#;

/// A writer, a reader of the same data, and a user whose own hostgroup is the writer's.
pub(crate) const WRITER_AND_READER: &str = r#"
[[server]]
hostgroup = 10
address = "127.0.0.1:3306"
[[server]]
hostgroup = 20
address = "127.0.0.1:3307"
[[replication]]
writer_hostgroup = 10
reader_hostgroup = 20
[[user]]
name = "app"
password = "app"
default_hostgroup = 10
"#;

/// One server that takes one connection, and two users.
pub(crate) const ONE_CONNECTION: &str = r#"
[[server]]
hostgroup = 10
address = "127.0.0.1:3306"
max_connections = 1
[[user]]
name = "app"
password = "app"
default_hostgroup = 10
[[user]]
name = "other"
password = "other"
default_hostgroup = 10
"#;

pub(crate) const MARIADB: &str = "10.11.6-MariaDB";
pub(crate) const MYSQL: &str = "9.7.0";

/// Rounds of exchanges that one event may take before something is wrong.
const ROUNDS_MAX: u32 = 1_000;

/// The configuration of these settings and sections, as a worker gets it. Transactions begin at
/// once, unless it says otherwise.
pub(crate) fn snapshot(config: &str) -> Arc<Snapshot> {
    let no_files = |path: &str| Err::<String, _>(format!("{path} is not there"));
    let config = match config.contains("lazy_transactions") {
        true => config.to_owned(),
        false => format!("lazy_transactions = \"off\"\n{config}"),
    };
    let config = parse(&config, "test.toml", &no_files).expect("the configuration");
    Arc::new(config.snapshot(None))
}

/// What a text is, by the modes that are the default.
pub(crate) fn analysis(text: &str) -> Analysis {
    analyse(text.as_bytes(), &Modes::default())
}

/// What is different about a worker.
pub(crate) struct Setup<'a> {
    /// Settings, and sections behind them.
    pub(crate) config: &'a str,
    /// What clients are greeted with, and servers greet with.
    pub(crate) version: &'a str,
    pub(crate) index: usize,
    pub(crate) workers: usize,
    pub(crate) shared: Arc<Shared>,
}

impl Default for Setup<'_> {
    fn default() -> Self {
        let shared = Arc::new(Shared::new(None, 16));
        Self { config: TWO_SERVERS, version: MARIADB, index: 0, workers: 1, shared }
    }
}

/// A worker and everybody around it.
pub(crate) struct TestWorker {
    pub(crate) worker: Worker,
    now: Now,
    version: String,
    /// What the worker has asked of its driver.
    actions: Vec<Action>,
    /// Clients whose sockets are to be closed when all is written.
    closing: Vec<ClientId>,
    clients: Vec<TestClient>,
    servers: Vec<TestServer>,
    /// Servers accept connections and logins, and answer the proxy's own commands, by themselves.
    pub(crate) is_automatic: bool,
    /// Long texts are read as soon as they are to be.
    pub(crate) is_studious: bool,
    /// Names are told as soon as they are asked for.
    pub(crate) tells_names: bool,
    studies: Vec<Study>,
}

impl TestWorker {
    /// A worker with [`TWO_SERVERS`].
    pub(crate) fn new() -> Self {
        Self::of(Setup::default())
    }

    /// A worker with this configuration.
    pub(crate) fn with(config: &str) -> Self {
        Self::of(Setup { config, ..Setup::default() })
    }

    pub(crate) fn of(setup: Setup<'_>) -> Self {
        let Setup { config, version, index, workers, shared } = setup;
        let worker = Worker::new(
            WorkerOptions { index, workers, seed: 1 },
            snapshot(config),
            shared,
            Arc::new(greeting(version, 1)),
            Box::new(NoCompressor),
        );
        let now = Now { us: 1_000_000, unix_sec: 1_700_000_000 };
        let (actions, closing, clients, servers) = Default::default();
        let version = version.to_owned();
        Self {
            worker,
            now,
            version,
            actions,
            closing,
            clients,
            servers,
            is_automatic: true,
            is_studious: true,
            tells_names: true,
            studies: Vec::new(),
        }
    }

    pub(crate) fn core(&mut self) -> &mut Core {
        &mut self.worker.commands.exchange.core
    }

    /// Lends a client, who is there.
    pub(crate) fn lend<R>(
        &mut self,
        id: ClientId,
        work: impl FnOnce(&mut Core, &mut Client) -> R,
    ) -> R {
        self.core().with_client(id, work).expect("the client is there")
    }

    /// What an operator sees a client do.
    pub(crate) fn doing(&mut self, id: ClientId) -> String {
        let core = self.core();
        core.session_row(core.clients.table.get(id).expect("a client")).doing
    }

    /// What the worker knows of a client that has logged in.
    pub(crate) fn session(&mut self, id: ClientId) -> &mut Session {
        let client = self.core().clients.get_mut(id).expect("a client");
        &mut client.session
    }

    /// A statement of this text, understood and not sent.
    pub(crate) fn statement(&mut self, text: &str) -> Box<Statement> {
        let mut frames = Vec::new();
        put_payload(&mut frames, 0, &[b"\x03", text.as_bytes()].concat());
        let analyses = &mut self.worker.commands.exchange.statements.analyses;
        let known = analyses.know(text.as_bytes(), &Modes::default());
        let mut statement = self.core().statement(&frames, ResponseShape::Query, Purpose::Query);
        statement.meaning.known = Some(known);
        statement
    }

    /// Something happens, one µs after what was before; and then whatever comes of it.
    pub(crate) fn happens<T>(&mut self, event: impl FnOnce(&mut Worker) -> T) -> T {
        self.now.us += 1;
        self.worker.begin_batch(self.now);
        let result = event(&mut self.worker);
        self.settle();
        result
    }

    /// Time goes by.
    pub(crate) fn pass_ms(&mut self, ms: u64) {
        self.now.us += ms * 1_000;
        self.happens(|_| {});
    }

    /// What the worker has asked of its driver since it was looked at last.
    pub(crate) fn actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// The lines that were logged since it was looked at last.
    pub(crate) fn logged(&mut self) -> Vec<String> {
        let lines = self.actions().into_iter().filter_map(|action| match action {
            Action::Log(line) => Some(line.text),
            _ => None,
        });
        lines.collect()
    }

    /// What an administrator was told.
    pub(crate) fn administrator_told(&mut self) -> Option<KillAnswer> {
        self.actions().into_iter().find_map(|action| match action {
            Action::TellAdministrator { answer, .. } => Some(answer),
            _ => None,
        })
    }

    /// A client connects from this host; it is greeted.
    pub(crate) fn connect(&mut self) -> ClientId {
        self.connect_from(local_peer()).expect("the client is let in")
    }

    pub(crate) fn connect_from(&mut self, peer: Peer) -> Option<ClientId> {
        self.now.us += 1;
        self.worker.begin_batch(self.now);
        let id = self.worker.accept(Arc::new(peer), [b'm'; NONCE_LEN])?;
        self.clients.push(TestClient::new(id));
        self.settle();
        Some(id)
    }

    /// A client that has logged in as `app`.
    pub(crate) fn log_in(&mut self) -> ClientId {
        self.log_in_as(&Login::default())
    }

    /// A client that has logged in so.
    pub(crate) fn log_in_as(&mut self, login: &Login<'_>) -> ClientId {
        let id = self.connect();
        let answer = self.try_to_log_in(id, login);
        assert_eq!(answer, "ok", "{login:?}");
        id
    }

    /// What a greeted client is answered that logs in so; nothing as long as it waits.
    pub(crate) fn try_to_log_in(&mut self, id: ClientId, login: &Login<'_>) -> String {
        self.client_mut(id).got.clear();
        self.client_mut(id).capabilities = login.capabilities;
        let bytes = login.bytes();
        self.happens(|worker| worker.client_read(id, &bytes));
        self.answer(id)
    }

    /// A client sends a command.
    pub(crate) fn send(&mut self, id: ClientId, payload: &[u8]) {
        let mut packet = Vec::new();
        put_payload(&mut packet, 0, payload);
        self.happens(|worker| worker.client_read(id, &packet));
    }

    /// A client sends a statement.
    pub(crate) fn ask(&mut self, id: ClientId, text: &str) {
        self.send(id, &[b"\x03", text.as_bytes()].concat());
    }

    /// A client sends a statement, the server that gets it replies, and so the client is answered.
    pub(crate) fn run(&mut self, id: ClientId, text: &str, reply: Reply<'_>) -> String {
        self.ask(id, text);
        self.reply(text, reply);
        self.answer(id)
    }

    /// A client sends a statement, and is answered without a server.
    pub(crate) fn answered(&mut self, id: ClientId, text: &str) -> String {
        let before = self.asked();
        self.ask(id, text);
        assert_eq!(self.asked(), before, "a server was asked");
        self.answer(id)
    }

    /// What a client has been told since it was looked at last, in words; empty for nothing.
    pub(crate) fn answer(&mut self, id: ClientId) -> String {
        let answers = self.answers(id);
        assert!(answers.len() < 2, "more than one answer: {answers:?}");
        answers.into_iter().next().unwrap_or_default()
    }

    /// All that a client has been told since it was looked at last, in words.
    pub(crate) fn answers(&mut self, id: ClientId) -> Vec<String> {
        let client = self.client_mut(id);
        let bytes = std::mem::take(&mut client.got);
        summaries(&bytes, client.capabilities)
    }

    /// The bytes that a client got since it was looked at last.
    pub(crate) fn got(&mut self, id: ClientId) -> Vec<u8> {
        std::mem::take(&mut self.client_mut(id).got)
    }

    /// Whether the worker has ended a client.
    pub(crate) fn is_closed(&mut self, id: ClientId) -> bool {
        self.client_mut(id).is_closed
    }

    /// A client takes no bytes until further notice.
    pub(crate) fn stall(&mut self, id: ClientId) {
        self.client_mut(id).is_stalled = true;
    }

    /// A client that took no bytes takes all that wait.
    pub(crate) fn take_bytes(&mut self, id: ClientId) {
        self.client_mut(id).is_stalled = false;
        self.write(Side::Client(id));
        self.happens(|_| {});
    }

    /// A client goes without a word.
    pub(crate) fn leave(&mut self, id: ClientId) {
        self.client_mut(id).is_closed = true;
        self.happens(|worker| worker.client_closed(id));
    }

    /// What servers were asked and have not answered, in words.
    pub(crate) fn asked(&self) -> Vec<String> {
        let open = self.servers.iter().filter(|server| !server.is_closed);
        open.flat_map(|server| server.asked.iter().cloned()).collect()
    }

    /// The connection whose server has this to answer next.
    pub(crate) fn conn_asked(&self, text: &str) -> ConnId {
        self.server_asked(text).conn
    }

    /// The address of that server.
    pub(crate) fn address_asked(&self, text: &str) -> &str {
        &self.server_asked(text).address
    }

    fn server_asked(&self, text: &str) -> &TestServer {
        let is_it = |server: &&TestServer| {
            !server.is_closed && server.asked.front().is_some_and(|front| front == text)
        };
        let found = self.servers.iter().find(is_it);
        found.unwrap_or_else(|| panic!("no server is asked {text:?} but {:?}", self.asked()))
    }

    /// All that was ever sent to servers in commands, in words.
    pub(crate) fn heard(&self) -> Vec<&str> {
        self.servers.iter().flat_map(|server| server.heard.iter().map(String::as_str)).collect()
    }

    /// How often servers were sent a command that begins so.
    pub(crate) fn times_heard(&self, begin: &str) -> usize {
        self.heard().into_iter().filter(|text| text.starts_with(begin)).count()
    }

    /// The server that has this to answer next answers it.
    pub(crate) fn reply(&mut self, text: &str, reply: Reply<'_>) {
        let conn = self.conn_asked(text);
        let bytes = self.server_mut(conn).answer(reply);
        self.say(conn, &bytes);
    }

    /// A server answers after this time, and deadlines are looked at before that is written.
    pub(crate) fn reply_at_a_tick(&mut self, text: &str, reply: Reply<'_>, after_ms: u64) {
        let conn = self.conn_asked(text);
        let bytes = self.server_mut(conn).answer(reply);
        self.now.us += after_ms * 1_000;
        self.happens(|worker| {
            worker.server_read(conn, &bytes);
            worker.tick();
        });
    }

    /// A server asks for a file: what comes behind that is no command.
    pub(crate) fn ask_for_file(&mut self, text: &str, reply: Reply<'_>) {
        let conn = self.conn_asked(text);
        self.server_mut(conn).takes_file = true;
        self.reply(text, reply);
    }

    /// What a server that asked for a file has got since it was looked at last.
    pub(crate) fn uploaded(&mut self, conn: ConnId) -> Vec<u8> {
        std::mem::take(&mut self.server_mut(conn).uploaded)
    }

    /// A server sends these bytes.
    pub(crate) fn say(&mut self, conn: ConnId, bytes: &[u8]) {
        self.happens(|worker| worker.server_read(conn, bytes));
    }

    /// A server can't be connected to.
    pub(crate) fn fail(&mut self, conn: ConnId) {
        self.server_mut(conn).is_closed = true;
        self.happens(|worker| worker.server_failed(conn, "connection refused"));
    }

    /// The machine has nothing left to connect with.
    pub(crate) fn fail_here(&mut self, conn: ConnId) {
        self.server_mut(conn).is_closed = true;
        self.happens(|worker| worker.server_not_tried(conn, "Too many open files"));
    }

    /// A server's connection ends.
    pub(crate) fn lose(&mut self, conn: ConnId) {
        self.server_mut(conn).is_closed = true;
        self.happens(|worker| worker.server_closed(conn, "the connection was closed"));
    }

    /// Connections that stand, in the order of their opening.
    pub(crate) fn conns(&self) -> Vec<ConnId> {
        let open = self.servers.iter().filter(|server| !server.is_closed);
        open.map(|server| server.conn).collect()
    }

    /// Connections that were ever opened.
    pub(crate) fn opened(&self) -> usize {
        self.servers.len()
    }

    /// A server accepts a connection and the login on it.
    pub(crate) fn come_up(&mut self, conn: ConnId) {
        let bytes = self.server_mut(conn).greet();
        self.happens(|worker| {
            worker.server_connected(conn);
            worker.server_read(conn, &bytes);
        });
        let bytes = self.server_mut(conn).accept();
        self.say(conn, &bytes);
    }

    fn client_mut(&mut self, id: ClientId) -> &mut TestClient {
        let client = self.clients.iter_mut().find(|client| client.id == id);
        client.expect("a client")
    }

    fn server_mut(&mut self, conn: ConnId) -> &mut TestServer {
        let server = self.servers.iter_mut().find(|server| server.conn == conn);
        server.expect("a connection")
    }

    /// Long texts that wait to be read.
    pub(crate) fn waiting_studies(&self) -> usize {
        self.studies.len()
    }

    /// Reads the long texts that wait for it.
    pub(crate) fn study(&mut self) {
        for study in std::mem::take(&mut self.studies) {
            self.worker.studied(Student::default().study(study));
        }
    }

    /// Plays the driver until nothing is left to do.
    fn settle(&mut self) {
        for _ in 0..ROUNDS_MAX {
            self.worker.tick();
            let actions = self.worker.take_actions();
            let mut is_quiet = actions.is_empty();
            actions.into_iter().for_each(|action| self.act(action));
            while let Some(side) = self.worker.next_dirty() {
                is_quiet = false;
                self.write(side);
            }
            for id in std::mem::take(&mut self.closing) {
                self.worker.client_closed(id);
            }
            if is_quiet {
                return;
            }
        }
        panic!("the exchange does not come to an end");
    }

    fn act(&mut self, action: Action) {
        match &action {
            Action::Open { conn, server } => {
                let (number, version) = (100 + self.servers.len(), self.version.clone());
                let address = server.key.address.to_string();
                self.servers.push(TestServer::new(*conn, number, address, version));
                if self.is_automatic {
                    let bytes = self.server_mut(*conn).greet();
                    self.worker.server_connected(*conn);
                    self.worker.server_read(*conn, &bytes);
                }
            }
            Action::CloseServer { conn, .. } => self.server_mut(*conn).is_closed = true,
            Action::CloseClient { client, .. } => {
                let known = self.clients.iter_mut().find(|known| known.id == *client);
                known.into_iter().for_each(|known| known.is_closed = true);
                self.closing.push(*client);
            }
            Action::Study(_) => {
                let Action::Study(study) = action else { return };
                self.studies.push(*study);
                return if self.is_studious {
                    self.study()
                };
            }
            Action::AskCatalog(_) if !self.tells_names => {}
            Action::AskCatalog(ask) => {
                let catalog = self.worker.catalog();
                let waiters = catalog.settle_as_tables(&ask.names, ask.asked_ms);
                let clients = by_worker(waiters).into_values().flatten().collect();
                self.worker.catalog_told(clients);
            }
            _ => {}
        }
        self.actions.push(action);
    }

    /// Writes what waits for a socket that takes bytes.
    fn write(&mut self, side: Side) {
        let bytes = self.worker.pending(side).to_vec();
        match side {
            Side::Client(id) => {
                let client = self.clients.iter_mut().find(|client| client.id == id);
                if let Some(client) = client {
                    if client.is_stalled {
                        return;
                    }
                    client.got.extend_from_slice(&bytes);
                }
                self.worker.wrote(side, bytes.len());
            }
            Side::Server(conn) => {
                let mut bytes = bytes;
                self.worker.wrote(side, bytes.len());
                // A long command waits behind what was written.
                loop {
                    let more = self.worker.pending(side).to_vec();
                    if more.is_empty() {
                        break;
                    }
                    self.worker.wrote(side, more.len());
                    bytes.extend(more);
                }
                let is_automatic = self.is_automatic;
                let server = self.server_mut(conn);
                server.hear(&bytes);
                if is_automatic {
                    let bytes = server.answer_own();
                    self.worker.server_read(conn, &bytes);
                }
            }
        }
    }
}

/// What a reply reports that tells this GTID.
pub(crate) fn tells_gtid(gtid: &str) -> Outcome {
    let mut entry = vec![9];
    entry.extend_from_slice(b"last_gtid");
    entry.push(u8::try_from(gtid.len()).expect("short"));
    entry.extend_from_slice(gtid.as_bytes());
    let mut changes = vec![0, u8::try_from(entry.len()).expect("short")];
    changes.extend(entry);
    Outcome { changes, ..Outcome::default() }
}

/// Nothing is compressed.
pub(crate) struct NoCompressor;

impl Compressor for NoCompressor {
    fn compress(&mut self, _: Method, _: &[u8], _: &mut Vec<u8>) -> bool {
        false
    }

    fn decompress(
        &mut self,
        _: Method,
        _: &[u8],
        _: usize,
        _: &mut Vec<u8>,
    ) -> Result<(), Corrupt> {
        Err(Corrupt)
    }

    fn unpacking(&mut self, _: Method) -> Result<Box<dyn Unpacking>, Corrupt> {
        Err(Corrupt)
    }
}
