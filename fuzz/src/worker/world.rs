//! The driver, the clients and the servers, played; and what must hold.

mod checks;
mod driver;

use std::{
    collections::VecDeque,
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, LazyLock},
};

use trunkline_config::{Config, Snapshot, parse};
use trunkline_protocol::packet::greeting::Greeting;
use trunkline_stats::DigestQuery;
use trunkline_topology::{HostAnswer, ServerHealth, ServerKey, ServerState};
use trunkline_worker::{
    Action, ClientId, ConnId, MovedConn, Now, Peer, Shared, Side, Worker, WorkerOptions, by_worker,
};

use super::{
    client::Client,
    program::{Event, What},
    server::{Server, Stage},
};
use crate::login::greeting;

/// Workers that share the servers.
const WORKERS: usize = 2;
/// What a driver reads at once.
const READ_LEN_MAX: usize = 64 * 1024;
/// `client_buffer_max` of the configurations.
const CLIENT_BUFFER_MAX: usize = 16_384;
/// What may wait for one client: the limit, and what one read beyond it brings.
const OUTBOX_LEN_MAX: usize = CLIENT_BUFFER_MAX + 3 * READ_LEN_MAX;
/// Clients and server connections played at once; more are not accepted.
const CLIENTS_MAX: usize = 24;
/// Rounds that it may take until everything is quiet.
const ROUNDS_MAX: usize = 10_000;

/// Three configurations that differ in servers, users, rules and limits.
static CONFIGS: LazyLock<Vec<Config>> = LazyLock::new(|| {
    let no_files = |path: &str| Err::<String, _>(format!("{path} is not there"));
    let read = |text: &str| match parse(text, "world.toml", &no_files) {
        Ok(config) => config,
        Err(errors) => panic!("the played world is wrong: {errors:?}"),
    };
    let texts = [
        include_str!("world/first.toml"),
        include_str!("world/second.toml"),
        include_str!("world/third.toml"),
    ];
    texts.into_iter().map(read).collect()
});

/// What clients are greeted with: all that any server has.
fn for_clients(is_sha2: bool) -> Greeting {
    let mut own = greeting(is_sha2);
    own.capabilities.insert(greeting(!is_sha2).capabilities);
    own
}

/// A question that only a driver can answer.
#[derive(Debug)]
enum Question {
    Decrypt(usize, ClientId),
    Verify(usize, ClientId),
    Encrypt(usize, ConnId),
}

/// Everything but the workers' insides.
pub(super) struct World {
    workers: Vec<Worker>,
    shared: Arc<Shared>,
    snapshot: Arc<Snapshot>,
    now: Now,
    clients: Vec<Client>,
    servers: Vec<Server>,
    /// Every server that there ever was.
    healths: Vec<(ServerKey, Arc<ServerHealth>)>,
    questions: VecDeque<Question>,
    is_stopped: [bool; WORKERS],
    is_stopping: [bool; WORKERS],
}

impl World {
    pub(super) fn new() -> Self {
        let config = CONFIGS.first().cloned().unwrap_or_else(|| unreachable!("there are three"));
        let snapshot = Arc::new(config.snapshot(None));
        let shared = Arc::new(Shared::new(Some(b"the public key".to_vec()), 16));
        let worker = |index| {
            let options = WorkerOptions { index, workers: WORKERS, seed: 1 };
            let greeting = Arc::new(for_clients(false));
            let libraries = Box::new(trunkline_compression::Libraries::new());
            Worker::new(options, Arc::clone(&snapshot), Arc::clone(&shared), greeting, libraries)
        };
        let mut world = Self {
            workers: (0..WORKERS).map(worker).collect(),
            shared,
            now: Now { us: 1_000_000, unix_sec: 1_700_000_000 },
            clients: Vec::new(),
            servers: Vec::new(),
            healths: Vec::new(),
            questions: VecDeque::new(),
            is_stopped: [false; WORKERS],
            is_stopping: [false; WORKERS],
            snapshot,
        };
        world.note_healths();
        world
    }

    fn note_healths(&mut self) {
        for server in self.snapshot.servers() {
            if !self.healths.iter().any(|(_, health)| Arc::ptr_eq(health, &server.health)) {
                self.healths.push((server.key.clone(), Arc::clone(&server.health)));
            }
        }
    }

    fn worker(&mut self, index: usize) -> &mut Worker {
        let last = self.workers.len() - 1;
        let index = index.min(last);
        self.workers.get_mut(index).unwrap_or_else(|| unreachable!("at least one worker"))
    }

    /// One event and all that the workers ask for because of it.
    pub(super) fn carry_out(&mut self, event: Event<'_>) {
        self.pass(50);
        let client = index(event.a, self.clients.len());
        let server = index(event.a, self.servers.len());
        match event.what {
            What::Accept => self.accept(event.a),
            What::LogIn
            | What::Query
            | What::Command
            | What::LongQuery
            | What::Pings
            | What::Authenticate
            | What::ClientBytes
            | What::ClientSends
            | What::ClientReads
            | What::ClientCloses => self.client_event(client, event),
            What::Connect
            | What::Answer
            | What::LongAnswer
            | What::ServerSends
            | What::ServerBytes
            | What::ServerReads
            | What::ServerCloses => self.server_event(server, event),
            What::Settle => self.settle(),
            What::Wait => self.pass(1_000 << (event.a % 18)),
            What::Reload => self.reload(event.a),
            What::SetState => self.set_state(event.a, event.b),
            What::Password => self.answer_question(event.a & 1 != 0),
            What::Stop => self.stop(event.a, event.b),
            What::Abandon => self.abandon(client, server, event.b),
            What::Report => {
                self.worker(usize::from(event.a & 1)).report(DigestQuery::ALL);
            }
        }
        self.drive();
    }

    /// Time passes, and each worker looks at its deadlines.
    fn pass(&mut self, us: u64) {
        self.now.us += us;
        self.now.unix_sec += us / 1_000_000;
        let now = self.now;
        for worker in &mut self.workers {
            worker.begin_batch(now);
            worker.tick();
            assert!(worker.tick_within_ms() <= 1_000, "a worker sleeps for too long");
        }
    }

    fn accept(&mut self, how: u8) {
        if self.clients.len() >= CLIENTS_MAX {
            return;
        }
        let index = usize::from(how & 1);
        let address = IpAddr::V4(Ipv4Addr::new(192, 0, 2, how));
        let is_local = how & 2 != 0;
        let peer = Arc::new(Peer {
            client_addr: (!is_local).then_some(address),
            proxy_addr: (!is_local).then_some(address),
            proxy_port: (!is_local).then_some(6_033),
            is_local,
            ..Peer::default()
        });
        let has_place = self.shared.clients() < self.snapshot.settings.max_connections;
        let nonce = [b'm'; 20];
        let id = self.worker(index).accept(peer, nonce);
        let is_stopping = self.is_stopping.get(index).is_some_and(|stopping| *stopping);
        assert_eq!(id.is_none(), is_stopping, "a client is turned away only at a stop");
        if let Some(id) = id {
            self.clients.push(Client::new(index, id, nonce, has_place));
        }
    }

    fn client_event(&mut self, at: usize, event: Event<'_>) {
        let Some(client) = self.clients.get_mut(at) else {
            return;
        };
        match event.what {
            What::LogIn => client.log_in(event.b),
            What::Query => client.query(event.b),
            What::Command => client.command(event.b),
            What::LongQuery => client.long_query(event.b),
            What::Pings => client.pings(event.b),
            What::Authenticate => client.authenticate(event.b),
            What::ClientBytes => client.unsent.extend_from_slice(event.bytes),
            What::ClientReads => return self.client_reads(at, event.b),
            What::ClientCloses => return self.close_client(at),
            _ => {}
        }
        self.client_sends(at);
    }

    fn client_sends(&mut self, at: usize) -> bool {
        let Some(client) = self.clients.get_mut(at) else {
            return false;
        };
        if client.is_paused || client.is_closing || client.unsent.is_empty() {
            return false;
        }
        let len = client.unsent.len().min(READ_LEN_MAX);
        let bytes: Vec<u8> = client.unsent.drain(..len).collect();
        let (worker, id) = (client.worker, client.id);
        self.worker(worker).client_read(id, &bytes);
        true
    }

    fn client_reads(&mut self, at: usize, amount: u8) {
        let Some(client) = self.clients.get_mut(at) else {
            return;
        };
        if !client.is_slow {
            client.is_slow = true;
            return;
        }
        client.is_slow = amount != 255;
        let (worker, side) = (client.worker, Side::Client(client.id));
        self.write(worker, side, usize::from(amount) * 16_384);
    }

    /// The client's socket ends.
    fn close_client(&mut self, at: usize) {
        if at < self.clients.len() {
            let client = self.clients.swap_remove(at);
            self.worker(client.worker).client_closed(client.id);
        }
    }

    fn server_event(&mut self, at: usize, event: Event<'_>) {
        let Some(server) = self.servers.get_mut(at) else {
            return;
        };
        match event.what {
            What::Connect => return self.connect(at, event.b),
            What::Answer => _ = server.answer(event.b),
            What::LongAnswer => server.answer_long(event.b),
            What::ServerSends => return self.server_sends_some(at, event.b),
            What::ServerBytes => {
                server.is_misled = true;
                server.unsent.extend_from_slice(event.bytes);
            }
            What::ServerReads => {
                server.is_slow = !server.is_slow;
                let (worker, side) = (server.worker, Side::Server(server.id));
                if !server.is_slow {
                    self.write(worker, side, usize::MAX);
                }
                return;
            }
            What::ServerCloses => return self.close_server(at),
            _ => {}
        }
        self.server_sends(at, READ_LEN_MAX);
    }

    fn server_sends_some(&mut self, at: usize, len: u8) {
        self.server_sends(at, usize::from(len));
    }

    fn server_sends(&mut self, at: usize, len: usize) -> bool {
        let Some(server) = self.servers.get_mut(at) else {
            return false;
        };
        let is_deaf = server.is_paused || server.stage == Stage::Connecting;
        let len = server.unsent.len().min(len);
        if is_deaf || len == 0 {
            return false;
        }
        let bytes: Vec<u8> = server.unsent.drain(..len).collect();
        let (worker, id) = (server.worker, server.id);
        self.worker(worker).server_read(id, &bytes);
        true
    }

    fn connect(&mut self, at: usize, how: u8) {
        let Some(server) = self.servers.get_mut(at) else {
            return;
        };
        if server.stage != Stage::Connecting {
            return;
        }
        if how & 1 != 0 {
            return self.close_server(at);
        }
        server.greet(how & 2 != 0);
        let (worker, id) = (server.worker, server.id);
        self.worker(worker).server_connected(id);
        let side = Side::Server(id);
        self.write(worker, side, usize::MAX);
    }

    /// The server's socket ends, or does not come up.
    fn close_server(&mut self, at: usize) {
        if at < self.servers.len() {
            let server = self.servers.swap_remove(at);
            let worker = self.worker(server.worker);
            match server.stage {
                Stage::Connecting => worker.server_failed(server.id, "connection refused"),
                Stage::Greeted | Stage::Ready | Stage::File(_) => {
                    worker.server_closed(server.id, "closed")
                }
            }
        }
    }

    fn reload(&mut self, which: u8) {
        let config = CONFIGS.get(usize::from(which) % CONFIGS.len()).cloned();
        let Some(config) = config else { return };
        self.snapshot = Arc::new(config.snapshot(Some(&self.snapshot)));
        self.note_healths();
        for worker in &mut self.workers {
            worker.apply_snapshot(Arc::clone(&self.snapshot));
            worker.apply_greeting(Arc::new(for_clients(which & 4 != 0)));
        }
    }

    fn set_state(&self, which: u8, state: u8) {
        let at = index(which, self.healths.len());
        if let Some((_, health)) = self.healths.get(at) {
            health.set_state(match state % 4 {
                0 => ServerState::Online,
                1 => ServerState::Shunned,
                2 => ServerState::OfflineSoft,
                _ => ServerState::OfflineHard,
            });
        }
    }

    fn answer_question(&mut self, is_right: bool) {
        match self.questions.pop_front() {
            Some(Question::Decrypt(worker, id)) => {
                self.worker(worker).client_decrypted(id, is_right.then(|| b"sha\0".to_vec()));
            }
            Some(Question::Verify(worker, id)) => {
                self.worker(worker).client_verified(id, is_right);
            }
            Some(Question::Encrypt(worker, id)) => {
                self.worker(worker).server_encrypted(id, is_right.then(|| vec![0x11; 256]));
            }
            None => {}
        }
    }

    fn stop(&mut self, which: u8, within: u8) {
        let at = usize::from(which & 1);
        let deadline_ms = self.now.ms() + u64::from(within) * 100;
        if let Some(stopping) = self.is_stopping.get_mut(at) {
            *stopping = true;
        }
        self.worker(at).stop_gracefully(deadline_ms);
    }

    fn abandon(&mut self, client: usize, server: usize, how: u8) {
        let side = match how & 1 != 0 {
            true => self.clients.get(client).map(|it| (it.worker, Side::Client(it.id))),
            false => self.servers.get(server).map(|it| (it.worker, Side::Server(it.id))),
        };
        if let Some((worker, side)) = side {
            self.worker(worker).abandon(side);
        }
    }
}

/// A place among `len`.
fn index(chosen: u8, len: usize) -> usize {
    usize::from(chosen) % len.max(1)
}
