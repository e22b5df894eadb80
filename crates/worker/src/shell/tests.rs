//! What becomes of reads, writes, clients and connections, over streams that are written down here.

use std::{
    cell::RefCell,
    collections::VecDeque,
    io::{self, ErrorKind},
    ops::Range,
    rc::Rc,
    sync::Arc,
};

use trunkline_config::{Snapshot, parse};
use trunkline_protocol::{
    Capabilities,
    packet::{
        greeting::{Greeting, NONCE_LEN},
        status,
    },
};
use trunkline_topology::{Server, TlsParams};

use super::*;
use crate::{
    ClientId, ConnId, KillAsker, KillRequest, KillScope, Peer, Shared, rooms::Lender,
    tests::NoCompressor,
};

const CONFIG: &str = r#"
[[server]]
hostgroup = 10
address = "127.0.0.1:3306"
[[user]]
name = "app"
password = "app"
default_hostgroup = 10
"#;
/// A login that goes on for 2,000 bytes.
const LONG_LOGIN_LEN: usize = 2_000;

/// A client's end of its connection.
#[derive(Debug, Default)]
struct Client {
    place: Option<Place>,
    /// What reads give, one after the other; then they would block.
    reads: VecDeque<io::Result<Vec<u8>>>,
    /// What writes come to: how many bytes are taken at most, or an error; then all are.
    writes: VecDeque<Result<usize, ErrorKind>>,
    got: Vec<u8>,
    closed: Option<String>,
}

type ClientEnd = Rc<RefCell<Client>>;

#[derive(Debug)]
struct Line(ClientEnd);

impl Stream for Line {
    type Seal = Clear;
}

/// The outside, with a list of what was asked of it.
#[derive(Default)]
struct Script {
    events: VecDeque<Event<Line>>,
    /// What accepting comes to; then it would block.
    accepts: VecDeque<io::Result<ClientEnd>>,
    scratch: Vec<u8>,
    writes_many: bool,
    calls: Vec<&'static str>,
    /// At which listeners clients were asked for.
    listeners: Vec<usize>,
    /// How connecting goes, address by address.
    addresses: Vec<Result<Connecting, &'static str>>,
    is_peer_gone: bool,
}

impl Io for Script {
    type Stream = Line;

    fn next_event(&mut self) -> Option<Event<Line>> {
        self.events.pop_front()
    }

    fn accept(&mut self, listener: usize) -> io::Result<(Line, Peer)> {
        self.calls.push("accept");
        self.listeners.push(listener);
        match self.accepts.pop_front() {
            Some(client) => client.map(|client| (Line(client), Peer::default())),
            None => Err(ErrorKind::WouldBlock.into()),
        }
    }

    fn nonce(&mut self) -> [u8; NONCE_LEN] {
        [b'm'; NONCE_LEN]
    }

    fn register(&mut self, stream: &mut Line, side: Side) -> io::Result<()> {
        stream.0.borrow_mut().place = Some(Place::of(side));
        Ok(())
    }

    fn detach(&mut self, _: &mut Line) -> bool {
        true
    }

    fn close(&mut self, stream: Line, reason: &str) {
        self.calls.push("close");
        stream.0.borrow_mut().closed = Some(reason.to_owned());
    }

    fn scratch(&mut self) -> &mut [u8] {
        &mut self.scratch
    }

    fn read(&mut self, stream: &mut Line, room: Range<usize>) -> io::Result<usize> {
        self.calls.push("read");
        let reads = &mut stream.0.borrow_mut().reads;
        let mut bytes = reads.pop_front().unwrap_or(Err(ErrorKind::WouldBlock.into()))?;
        if bytes.len() > room.len() {
            reads.push_front(Ok(bytes.split_off(room.len())));
        }
        self.scratch[room][..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    fn write(&mut self, stream: &mut Line, bytes: &[u8]) -> io::Result<usize> {
        self.calls.push("write");
        stream.0.borrow_mut().take(bytes)
    }

    fn writes_many(&self) -> bool {
        self.writes_many
    }

    fn write_many<'a>(&mut self, fill: impl Fill<'a, Line>, results: &mut Vec<io::Result<usize>>)
    where
        Line: 'a,
    {
        self.calls.push("write many");
        fill.fill(|line: &Line, bytes| {
            results.push(line.0.borrow_mut().take(bytes));
            true
        });
    }

    fn connect(&mut self, _: Side, _: &Server, attempt: usize) -> Option<Result<Line, NotBegun>> {
        self.calls.push("connect");
        let address = self.addresses.get(attempt)?;
        Some(
            address
                .clone()
                .map(|_| Line(ClientEnd::default()))
                .map_err(|error| error.to_owned().into()),
        )
    }

    fn connecting(&mut self, _: &mut Line, _: Place) -> Connecting {
        let attempts = self.calls.iter().filter(|call| **call == "connect").count();
        self.addresses[attempts - 1].clone().expect("it was begun")
    }

    fn accept_tls(&mut self, _: &mut Line) -> Result<Clear, String> {
        Err("none".to_owned())
    }

    fn connect_tls(
        &mut self,
        _: &mut Line,
        _: &Server,
        _: &Arc<TlsParams>,
    ) -> Result<Clear, String> {
        Err("none".to_owned())
    }

    fn post(&mut self, _: usize, mail: Mail<Line>) -> Option<Mail<Line>> {
        self.calls.push("post");
        self.is_peer_gone.then_some(mail)
    }

    fn ask(&mut self, _: &mut Worker, _: Request) {}
}

impl Client {
    fn take(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = self.writes.pop_front().unwrap_or(Ok(usize::MAX))?.min(bytes.len());
        self.got.extend_from_slice(&bytes[..len]);
        Ok(len)
    }
}

/// One worker in its shell, and the time.
struct Stage {
    shell: Shell<Line>,
    io: Script,
    now: Now,
}

impl Stage {
    fn new(scratch_len: usize) -> Self {
        let options = WorkerOptions { index: 0, workers: 2, seed: 1 };
        let worker = Worker::new(
            options,
            snapshot(),
            Arc::new(Shared::new(None, 16)),
            Arc::new(greeting()),
            Box::new(NoCompressor),
        );
        let io = Script { scratch: vec![0; scratch_len], ..Script::default() };
        Self { shell: Shell::new(worker, options), io, now: Now { us: 1, unix_sec: 1 } }
    }

    fn batch(&mut self) {
        self.io.calls.clear();
        self.now.us += 1;
        self.shell.batch(&mut self.io, self.now);
    }

    /// A client that has been greeted.
    fn greeted(&mut self) -> ClientEnd {
        let client = ClientEnd::default();
        self.io.accepts.push_back(Ok(Rc::clone(&client)));
        self.io.events.push_back(Event::Knock(0));
        self.batch();
        assert!(!client.borrow().got.is_empty(), "it was not greeted");
        client
    }

    fn ready(&mut self, client: &ClientEnd, readiness: Readiness) {
        let place = client.borrow().place.expect("it is registered");
        self.io.events.push_back(Event::Ready(place, readiness));
    }

    /// The worker has so many bytes for a client.
    fn owes(&mut self, client: &ClientEnd, len: usize) {
        let place = client.borrow().place.expect("it is registered");
        let core = &mut self.shell.worker.commands.exchange.core;
        let is_it = |id: &ClientId| Place::of(Side::Client(*id)) == place;
        let id = core.clients.table.keys().into_iter().find(is_it).expect("a client");
        core.with_entry(id, |core, client| {
            core.write_client(client, |outbox| outbox.resize(outbox.len() + len, b'x'));
        });
        client.borrow_mut().got.clear();
    }

    fn calls(&self, what: &str) -> usize {
        self.io.calls.iter().filter(|call| **call == what).count()
    }
}

const READABLE: Readiness = Readiness { readable: true, writable: false, ended: false };
const WRITABLE: Readiness = Readiness { readable: false, writable: true, ended: false };
const ENDED: Readiness = Readiness { readable: true, writable: false, ended: true };

/// A login that is not over yet, in reads of so many bytes.
fn long_login(len: usize) -> VecDeque<io::Result<Vec<u8>>> {
    let head = u32::try_from(LONG_LOGIN_LEN).expect("small") | 1 << 24;
    let mut bytes = head.to_le_bytes().to_vec();
    bytes.resize(LONG_LOGIN_LEN, b'x');
    bytes.chunks_exact(len).map(|part| Ok(part.to_vec())).collect()
}

#[test]
fn a_read_that_does_not_fill_the_memory_is_not_repeated() {
    let mut stage = Stage::new(64);
    let client = stage.greeted();
    client.borrow_mut().reads = long_login(10);
    stage.ready(&client, READABLE);
    stage.batch();
    assert_eq!(stage.calls("read"), 1);
}

#[test]
fn a_stream_that_has_ended_is_read_until_it_says_so() {
    let mut stage = Stage::new(64);
    let client = stage.greeted();
    client.borrow_mut().reads = [Ok(vec![9, 0]), Ok(vec![0, 1]), Ok(vec![])].into();
    stage.ready(&client, ENDED);
    for reads in [1 + LONG_READS_MIN, 1] {
        stage.batch();
        assert_eq!(stage.calls("read"), reads);
    }
    assert_eq!(client.borrow().closed.as_deref(), Some("the connection was closed"));
    assert_eq!(stage.shell.worker().clients(), 0);
}

#[test]
fn one_batch_reads_a_socket_so_often_and_the_next_goes_on() {
    let mut stage = Stage::new(10);
    let client = stage.greeted();
    client.borrow_mut().reads = long_login(10);
    stage.ready(&client, READABLE);
    stage.batch();
    assert_eq!(stage.calls("read"), 1 + LONG_READS_MIN);
    assert!(stage.shell.has_more() && stage.shell.wait_within_ms() == 0);
    stage.batch();
    assert_eq!(stage.calls("read"), LONG_READS_MIN);
}

#[test]
fn those_who_send_much_take_turns_and_who_sends_little_is_read_beside_them() {
    let mut stage = Stage::new(10);
    let clients: Vec<_> = (0..5).map(|_| stage.greeted()).collect();
    for client in &clients {
        client.borrow_mut().reads = long_login(10);
        stage.ready(client, READABLE);
    }
    let left = |stage: &Stage| -> Vec<usize> {
        assert!(stage.shell.has_more());
        let mut left: Vec<_> = clients.iter().map(|it| it.borrow().reads.len()).collect();
        left.iter_mut().for_each(|left| *left = LONG_LOGIN_LEN / 10 - *left);
        left
    };
    stage.batch();
    assert_eq!(left(&stage), [2, 1, 1, 1, 1]);
    // Who has been told to be readable again waits for its turn all the same.
    clients.iter().for_each(|client| stage.ready(client, READABLE));
    stage.batch();
    assert_eq!(left(&stage), [2, 2, 1, 1, 1]);
    let newcomer = stage.greeted();
    assert_eq!(left(&stage), [2, 2, 2, 1, 1]);
    newcomer.borrow_mut().reads = [Ok(vec![9, 0, 0])].into();
    stage.ready(&newcomer, READABLE);
    stage.batch();
    assert!(newcomer.borrow().reads.is_empty(), "who sends little has waited");
    assert_eq!(left(&stage), [2, 2, 2, 2, 1]);
}

#[test]
fn the_more_a_batch_reads_from_others_the_more_it_reads_from_those_who_send_much() {
    let mut stage = Stage::new(10);
    let long = stage.greeted();
    long.borrow_mut().reads = long_login(10);
    stage.ready(&long, READABLE);
    stage.batch();
    let others: Vec<_> = (0..3 * READS_PER_LONG_READ).map(|_| stage.greeted()).collect();
    let before = long.borrow().reads.len();
    for other in &others {
        other.borrow_mut().reads = [Ok(vec![9])].into();
        stage.ready(other, READABLE);
    }
    stage.batch();
    assert_eq!(before - long.borrow().reads.len(), LONG_READS_MIN + 3);
}

#[test]
fn of_a_client_that_sends_much_each_turn_reads_less_than_the_memory_holds() {
    let mut stage = Stage::new(2 * LONG_READ_LEN);
    let client = stage.greeted();
    let mut login = vec![0xff, 0xff, 0xff, 1];
    login.resize(5 * LONG_READ_LEN, b'x');
    client.borrow_mut().reads = [Ok(login)].into();
    stage.ready(&client, READABLE);
    stage.batch();
    let left: usize = client.borrow().reads.iter().flatten().map(Vec::len).sum();
    assert_eq!(left, (5 - 2 - LONG_READS_MIN) * LONG_READ_LEN);
}

#[test]
fn who_has_sent_much_and_sends_little_is_read_at_once_from_then_on() {
    let mut stage = Stage::new(10);
    let clients: Vec<_> = (0..LONG_READS_MIN + 2).map(|_| stage.greeted()).collect();
    let (short, long) = clients.split_first().expect("some");
    let first = long_login(10).pop_front().expect("it has parts");
    short.borrow_mut().reads = [first, Ok(vec![b'x'])].into();
    stage.ready(short, READABLE);
    stage.batch();
    assert!(short.borrow().reads.is_empty());
    for client in long {
        client.borrow_mut().reads = long_login(10);
        stage.ready(client, READABLE);
    }
    stage.batch();
    short.borrow_mut().reads = [Ok(vec![b'x'])].into();
    stage.ready(short, READABLE);
    stage.batch();
    assert!(short.borrow().reads.is_empty(), "it has waited for its turn");
}

#[test]
fn one_batch_writes_so_much_of_what_is_long_and_the_next_goes_on() {
    for writes_many in [false, true] {
        let mut stage = Stage::new(64);
        let long: Vec<_> = (0..2).map(|_| stage.greeted()).collect();
        let short = stage.greeted();
        stage.io.writes_many = writes_many;
        long.iter().for_each(|client| stage.owes(client, 7 * WRITE_LEN_MAX));
        stage.owes(&short, 10);
        let got = |client: &ClientEnd| client.borrow().got.len();
        stage.batch();
        let first = WRITE_LEN_MAX;
        assert_eq!((got(&long[0]), got(&long[1]), got(&short)), (first, first, 10));
        assert!(stage.shell.has_more() && stage.shell.wait_within_ms() == 0);
        // Who is told that there is room waits for its turn all the same.
        stage.ready(&long[0], WRITABLE);
        stage.owes(&short, 10);
        stage.batch();
        assert_eq!((got(&long[0]), got(&long[1]), got(&short)), (2 * first, 2 * first, 10));
        (0..5).for_each(|_| stage.batch());
        assert!(long.iter().all(|client| got(client) == 7 * first));
        assert!(!stage.shell.has_more());
    }
}

#[test]
fn those_who_are_written_much_take_turns() {
    let mut stage = Stage::new(64);
    let clients: Vec<_> = (0..6).map(|_| stage.greeted()).collect();
    clients.iter().for_each(|client| stage.owes(client, 3 * WRITE_LEN_MAX));
    let got = |turns: [usize; 6]| {
        let got = clients.iter().map(|client| client.borrow().got.len() / WRITE_LEN_MAX);
        assert_eq!(got.collect::<Vec<_>>(), turns);
    };
    stage.batch();
    got([1, 1, 0, 0, 0, 0]);
    stage.batch();
    got([2, 2, 0, 0, 0, 0]);
    stage.batch();
    got([2, 2, 1, 1, 0, 0]);
}

#[test]
fn an_interrupted_call_is_made_again() {
    let mut stage = Stage::new(64);
    let interrupted = || io::Error::from(ErrorKind::Interrupted);
    let client = ClientEnd::default();
    client.borrow_mut().writes = [Err(ErrorKind::Interrupted)].into();
    client.borrow_mut().reads = [Err(interrupted()), Ok(vec![])].into();
    stage.io.accepts = [Err(interrupted()), Ok(Rc::clone(&client))].into();
    stage.io.events.push_back(Event::Knock(0));
    stage.batch();
    assert!(!client.borrow().got.is_empty(), "it was not greeted");
    stage.ready(&client, READABLE);
    stage.batch();
    assert!(client.borrow().closed.is_some());
}

#[test]
fn newcomers_are_greeted_some_at_a_time_and_behind_those_who_are_connected() {
    let mut stage = Stage::new(64);
    let first = stage.greeted();
    let clients = (0..3 * ACCEPTS_MAX).map(|_| Ok(ClientEnd::default()));
    stage.io.accepts = clients.collect();
    stage.io.events.push_back(Event::Knock(0));
    stage.batch();
    assert_eq!(stage.shell.worker().clients(), 1 + ACCEPTS_MIN);
    assert!(stage.shell.has_more());
    // It was told once that they wait, and goes on; who has sent something is read first.
    first.borrow_mut().reads = long_login(10);
    stage.ready(&first, READABLE);
    stage.batch();
    assert_eq!(stage.shell.worker().clients(), 1 + 2 * ACCEPTS_MIN);
    assert_eq!(stage.io.calls[..2], ["read", "accept"]);
    assert_eq!(stage.calls("accept"), ACCEPTS_MIN);
}

#[test]
fn a_busy_batch_greets_as_many_as_take_about_as_long() {
    for (reads, expected) in [(1, ACCEPTS_MIN), (16, ACCEPTS_MIN + 4), (5_000, ACCEPTS_MAX)] {
        let mut stage = Stage::new(64);
        let newcomers = (0..2 * ACCEPTS_MAX).map(|_| Ok(ClientEnd::default()));
        stage.io.accepts = newcomers.collect();
        stage.io.events.push_back(Event::Knock(0));
        stage.batch();
        for _ in 0..reads {
            stage.io.events.push_back(Event::Ready(Place(0), READABLE));
        }
        stage.batch();
        assert_eq!(stage.calls("accept"), expected, "{reads} reads");
    }
}

#[test]
fn listeners_take_turns() {
    let mut stage = Stage::new(64);
    let newcomers = (0..2 * ACCEPTS_MIN).map(|_| Ok(ClientEnd::default()));
    stage.io.accepts = newcomers.collect();
    stage.io.events.extend([Event::Knock(4), Event::Knock(7), Event::Knock(4)]);
    stage.batch();
    let asked = [4, 7].repeat(ACCEPTS_MIN / 2);
    assert_eq!(stage.io.listeners, asked);
    stage.batch();
    assert_eq!(stage.io.listeners, asked.repeat(2));
}

#[test]
fn an_error_of_a_listener_is_counted_and_ends_its_turn() {
    let mut stage = Stage::new(64);
    stage.io.accepts = [Err(ErrorKind::OutOfMemory.into()), Ok(ClientEnd::default())].into();
    stage.io.events.push_back(Event::Knock(0));
    stage.batch();
    assert_eq!(stage.shell.worker_mut().counters_mut().accept_errors, 1);
    assert_eq!(stage.shell.worker().clients(), 0);
}

#[test]
fn a_full_stream_is_written_to_when_it_has_room_and_not_before() {
    for writes_many in [false, true] {
        let mut stage = Stage::new(64);
        stage.io.writes_many = writes_many;
        let clients = [ClientEnd::default(), ClientEnd::default()];
        for client in &clients {
            client.borrow_mut().writes = [Ok(7), Err(ErrorKind::WouldBlock)].into();
            stage.io.accepts.push_back(Ok(Rc::clone(client)));
        }
        stage.io.events.push_back(Event::Knock(0));
        stage.batch();
        assert_eq!(stage.calls("write many"), usize::from(writes_many));
        assert!(clients.iter().all(|client| client.borrow().got.len() == 7));
        for client in &clients {
            client.borrow_mut().writes.clear();
            stage.ready(client, READABLE);
        }
        stage.batch();
        assert_eq!(stage.calls("write") + stage.calls("write many"), 0);
        stage.ready(&clients[0], WRITABLE);
        stage.batch();
        assert_eq!(stage.calls("write"), 1);
        let got = clients.map(|client| client.borrow().got.len());
        assert!(got[0] > 7 && got[1] == 7, "{got:?}");
    }
}

#[test]
fn a_write_that_fails_has_the_last_words_read_first() {
    let mut stage = Stage::new(64);
    let client = ClientEnd::default();
    client.borrow_mut().writes = [Err(ErrorKind::BrokenPipe)].into();
    client.borrow_mut().reads = [Ok(vec![1, 2]), Ok(vec![3])].into();
    stage.io.accepts.push_back(Ok(Rc::clone(&client)));
    stage.io.events.push_back(Event::Knock(0));
    stage.batch();
    assert_eq!(stage.io.calls, ["accept", "accept", "write", "read", "read", "read", "close"]);
    assert_eq!(client.borrow().closed.as_deref(), Some("broken pipe"));
}

#[test]
fn a_paused_socket_is_not_read_and_one_that_goes_on_is_read_with_the_next_batch() {
    let mut stage = Stage::new(64);
    let client = stage.greeted();
    let (side, _) = stage.shell.streams().next().expect("a socket");
    stage.shell.pause_reading(side);
    client.borrow_mut().reads = long_login(10);
    stage.ready(&client, READABLE);
    stage.batch();
    assert_eq!(stage.calls("read"), 0);
    stage.shell.resume_reading(side);
    stage.batch();
    assert_eq!(stage.calls("read"), 1);
}

#[test]
fn a_socket_that_closes_is_written_to_first() {
    let mut stage = Stage::new(64);
    let client = ClientEnd::default();
    client.borrow_mut().writes = [Ok(7)].into();
    stage.io.accepts.push_back(Ok(Rc::clone(&client)));
    stage.io.events.push_back(Event::Knock(0));
    stage.batch();
    let (side, _) = stage.shell.streams().next().expect("a socket");
    let Side::Client(id) = side else { panic!("it is a client's") };
    stage.shell.close_client(&mut stage.io, id, false);
    assert_eq!(client.borrow().closed, None);
    stage.ready(&client, WRITABLE);
    stage.batch();
    assert_eq!(client.borrow().closed.as_deref(), Some("closed"));
    assert!(client.borrow().got.len() > 7);
}

#[test]
fn the_addresses_of_a_server_are_tried_one_after_the_other() {
    let mut stage = Stage::new(64);
    let failed = Connecting::Failed("refused".to_owned());
    stage.io.addresses = vec![Ok(failed), Err("unreachable"), Ok(Connecting::Pending)];
    let snapshot = snapshot();
    let server = snapshot.servers().next().cloned().expect("a server");
    let conn = ConnId { index: 3, generation: 0 };
    stage.shell.connect(&mut stage.io, conn, server, 0, String::new());
    assert_eq!(stage.io.calls, ["connect", "close", "connect", "connect"]);
    let sides: Vec<_> = stage.shell.streams().map(|(side, _)| side).collect();
    assert_eq!(sides, [Side::Server(conn)]);
}

#[test]
fn mail_that_nobody_will_read_ends_what_it_brings() {
    let mut stage = Stage::new(64);
    let client = stage.greeted();
    let (side, _) = stage.shell.streams().next().expect("a socket");
    stage.io.is_peer_gone = true;
    let travelling = stage.shell.pack(&mut stage.io, side).expect("it can go");
    assert_eq!(stage.shell.streams().count(), 0);
    stage.io.close(travelling.stream, "lost");
    assert_eq!(client.borrow().closed.as_deref(), Some("lost"));
    let asker = KillAsker { worker: 0, client: None, ticket: 1 };
    let request = KillRequest { number: 9, scope: KillScope::Session, user: None, asker };
    stage.shell.post(&mut stage.io, 1, Mail::Kill(Box::new(request)));
    assert_eq!(stage.calls("post"), 1);
}

fn snapshot() -> Arc<Snapshot> {
    let no_files = |path: &str| Err::<String, _>(format!("{path} is not there"));
    let config = parse(CONFIG, "shell.toml", &no_files).expect("the configuration");
    Arc::new(config.snapshot(None))
}

fn greeting() -> Greeting {
    Greeting {
        protocol_version: 10,
        server_version: "10.11.6-MariaDB".into(),
        connection_id: 1,
        nonce: [b'n'; NONCE_LEN],
        capabilities: Capabilities::PROTOCOL_41
            | Capabilities::SECURE_CONNECTION
            | Capabilities::PLUGIN_AUTH,
        charset: 45,
        status: status::AUTOCOMMIT,
        auth_plugin: "mysql_native_password".into(),
    }
}
