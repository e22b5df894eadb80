//! Servers, spoken to in bytes.

mod upload;

use std::collections::VecDeque;

use trunkline_protocol::{
    Capabilities,
    codec::frame::put_payload,
    packet::{greeting::Flavor, status},
    response::ResponseShape,
};

use super::*;
use crate::{
    client::{
        login::{Identity, Login, LoginStep},
        reply::{Done, Part, Reply, ReplyReader},
    },
    oracle::facts::Effect,
    statement::{
        Act, BeginForm, Param, PreparedSql, Schema, Setting, Statement, Tag, Template, put_execute,
        to_sql,
    },
};

const PRIMARY: HostId = HostId(0);
const REPLICA: HostId = HostId(1);
const LAG_US: Micros = 10_000;

/// A client on a direct connection.
struct Client {
    link: LinkId,
    reader: ReplyReader,
    received: Vec<u8>,
    is_closed: bool,
}

struct Bench {
    cluster: Cluster,
    flavor: Flavor,
    now: Micros,
    clients: Vec<Client>,
    number: u64,
}

impl Bench {
    fn new(flavor: Flavor) -> Self {
        Self::with(flavor, |_| {})
    }

    fn with(flavor: Flavor, change: impl FnOnce(&mut ClusterSpec)) -> Self {
        let host = HostSpec { flavor, lag_us: LAG_US, late_replies: 0, ..HostSpec::default() };
        let account = |user: &str, password: &str| AccountSpec {
            user: user.to_owned(),
            password: password.to_owned(),
            second: None,
        };
        let mut spec = ClusterSpec {
            hosts: vec![host.clone(), host],
            primary: PRIMARY,
            accounts: vec![account("app", "secret"), account("open", "")],
        };
        change(&mut spec);
        let cluster = Cluster::new(&spec, Rng::new(1));
        Self { cluster, flavor, now: 0, clients: Vec::new(), number: 0 }
    }

    fn take_outputs(&mut self) {
        for output in self.cluster.take_outputs() {
            let of = |link: LinkId| usize::try_from(link.0).expect("small");
            match output {
                ServerOutput::Send { link, bytes } => {
                    self.clients[of(link)].received.extend(bytes);
                }
                ServerOutput::Nonsense { .. } => {}
                ServerOutput::Close { link, .. } => self.clients[of(link)].is_closed = true,
            }
        }
    }

    /// Lets so much time pass.
    fn pass(&mut self, us: Micros) {
        let until = self.now + us;
        while let Some(due) = self.cluster.next_due().filter(|due| *due <= until) {
            self.now = due.max(self.now);
            self.cluster.tick(self.now);
        }
        self.now = until;
        self.take_outputs();
    }

    fn open(&mut self, host: HostId) -> (usize, Accept) {
        let at = self.clients.len();
        let link = LinkId(at as u64);
        let reader = ReplyReader::new(Default::default());
        self.clients.push(Client { link, reader, received: Vec::new(), is_closed: false });
        let accept = self.cluster.connect(host, link);
        self.take_outputs();
        (at, accept)
    }

    fn log_in(
        &mut self,
        host: HostId,
        user: &str,
        password: &str,
        wanted: Capabilities,
    ) -> LoginStep {
        let (at, accept) = self.open(host);
        assert_eq!(accept, Accept::Accepted);
        let identity = Identity {
            user: user.to_owned(),
            password: password.to_owned(),
            schema: Some("shop".to_owned()),
            default_schema: None,
        };
        let mut login = Login::new(identity, wanted, false);
        loop {
            let received = std::mem::take(&mut self.clients[at].received);
            self.clients[at].reader.feed(&received);
            let (header, payload) = self.clients[at].reader.packet().expect("a packet");
            let mut out = Vec::new();
            let step = login.on_packet(header, &payload, &mut out).expect("the protocol");
            self.cluster.received(self.clients[at].link, &out, self.now);
            self.take_outputs();
            if step != LoginStep::Continue {
                let rest = self.clients[at].reader.rest().to_vec();
                assert!(rest.is_empty());
                self.clients[at].reader = ReplyReader::new(login.format());
                return step;
            }
        }
    }

    /// A client of the usual sort.
    fn client(&mut self, host: HostId) -> usize {
        let wanted = PLAIN | Capabilities::DEPRECATE_EOF | Capabilities::SESSION_TRACK;
        let step = self.log_in(host, "app", "secret", wanted);
        assert!(matches!(step, LoginStep::Accepted(_)), "{step:?}");
        self.clients.len() - 1
    }

    fn send(&mut self, client: usize, payload: &[u8]) {
        let mut out = Vec::new();
        put_payload(&mut out, 0, payload);
        self.cluster.received(self.clients[client].link, &out, self.now);
        self.take_outputs();
    }

    fn reply(&mut self, client: usize, shape: ResponseShape, is_binary: bool) -> Option<Reply> {
        let client = &mut self.clients[client];
        client.reader.expect(shape, is_binary, 2);
        let received = std::mem::take(&mut client.received);
        client.reader.feed(&received);
        client.reader.next_reply().expect("the protocol")
    }

    fn ask(&mut self, client: usize, acts: &[Act]) -> Vec<Tag> {
        let statements: Vec<_> = acts
            .iter()
            .map(|act| {
                self.number += 1;
                Statement::new(Tag::new(client, self.number), act.clone())
            })
            .collect();
        let text = to_sql(&statements, self.flavor);
        self.send(client, &[b"\x03", text.as_bytes()].concat());
        statements.iter().filter_map(|statement| statement.tag).collect()
    }

    /// Runs one statement and waits for its reply.
    fn run(&mut self, client: usize, act: Act) -> Part {
        self.ask(client, &[act]);
        self.pass(5_000);
        let mut reply = self.reply(client, ResponseShape::Query, false).expect("an answer");
        assert_eq!(reply.len(), 1);
        reply.remove(0)
    }

    fn value(&mut self, client: usize, act: Act) -> Option<String> {
        match self.run(client, act) {
            Part::Rows { rows, .. } => rows.first()?.last()?.clone(),
            other => panic!("{other:?}"),
        }
    }

    fn code(&mut self, client: usize, act: Act) -> u16 {
        match self.run(client, act) {
            Part::Error(error) => error.code,
            other => panic!("{other:?}"),
        }
    }

    fn effects(&self) -> Vec<Effect> {
        self.cluster.history().iter().map(|execution| execution.effect).collect()
    }
}

const PLAIN: Capabilities = Capabilities::LONG_PASSWORD
    .union(Capabilities::PROTOCOL_41)
    .union(Capabilities::SECURE_CONNECTION)
    .union(Capabilities::PLUGIN_AUTH)
    .union(Capabilities::MULTI_STATEMENTS)
    .union(Capabilities::MULTI_RESULTS)
    .union(Capabilities::CONNECT_WITH_DB);

fn done(part: &Part) -> &Done {
    match part {
        Part::Ok(done) | Part::Rows { end: Some(done), .. } => done,
        other => panic!("{other:?}"),
    }
}

#[test]
fn who_knows_the_password_gets_in() {
    for flavor in [Flavor::MariaDb, Flavor::MySql] {
        let mut bench = Bench::new(flavor);
        let mut try_login = |user, password| match bench.log_in(PRIMARY, user, password, PLAIN) {
            LoginStep::Accepted(_) => 0,
            LoginStep::Refused(error) => error.code,
            LoginStep::Continue | LoginStep::Encrypt => panic!("still going on"),
        };
        assert_eq!(try_login("app", "secret"), 0);
        assert_eq!(try_login("open", ""), 0);
        assert_eq!(try_login("app", "wrong"), 1045);
        assert_eq!(try_login("app", ""), 1045);
        assert_eq!(try_login("nobody", "secret"), 1045);
        assert_eq!(bench.cluster.connections(PRIMARY), 2);
    }
}

#[test]
fn a_full_server_refuses_with_1040() {
    let mut bench = Bench::with(Flavor::MariaDb, |spec| spec.hosts[0].max_connections = 1);
    bench.client(PRIMARY);
    let (second, _) = bench.open(PRIMARY);
    assert!(bench.clients[second].is_closed);
    assert_eq!(bench.clients[second].received[4..7], [0xFF, 0x10, 0x04]);
}

#[test]
fn statements_are_answered_in_all_four_framings() {
    for flavor in [Flavor::MariaDb, Flavor::MySql] {
        for more in [Capabilities::EMPTY, Capabilities::DEPRECATE_EOF, Capabilities::SESSION_TRACK]
        {
            let mut bench = Bench::new(flavor);
            bench.log_in(PRIMARY, "app", "secret", PLAIN | more);
            bench.run(0, Act::Put { key: 7 });
            assert_eq!(bench.value(0, Act::Read { key: 7 }), Some("1000001".to_owned()));
            assert_eq!(bench.value(0, Act::ShowUser(1)), None);
            assert_eq!(done(&bench.run(0, Act::Warn)).warnings, 1);
            assert_eq!(bench.code(0, Act::Broken), 1064);
            let end = bench.run(0, Act::Begin(BeginForm::Begin));
            assert!(done(&end).status & status::IN_TRANS != 0);
            assert!(bench.cluster.unknown_texts().is_empty());
        }
    }
}

#[test]
fn pipelined_commands_are_answered_in_order() {
    let mut bench = Bench::new(Flavor::MariaDb);
    let client = bench.client(PRIMARY);
    let first = bench.ask(client, &[Act::Sleep { ms: 20 }])[0];
    let second = bench.ask(client, &[Act::Database])[0];
    bench.send(client, b"\x0E");
    bench.pass(50_000);
    for tag in [first, second] {
        let reply = bench.reply(client, ResponseShape::Query, false).expect("an answer");
        let Part::Rows { rows, .. } = &reply[0] else { panic!("{reply:?}") };
        assert_eq!(rows[0][0], Some(tag.0.to_string()));
    }
    assert!(bench.reply(client, ResponseShape::Single, false).is_some());
}

#[test]
fn several_statements_stop_at_the_first_that_fails() {
    let mut bench = Bench::new(Flavor::MySql);
    let client = bench.client(PRIMARY);
    bench.ask(client, &[Act::Insert, Act::Read { key: 1 }, Act::Broken, Act::Insert]);
    bench.pass(5_000);
    let reply = bench.reply(client, ResponseShape::Query, false).expect("an answer");
    assert!(matches!(&reply[..], [Part::Ok(_), Part::Rows { .. }, Part::Error(_)]), "{reply:?}");
    assert_eq!(bench.effects(), [Effect::Committed, Effect::None, Effect::None]);
}

#[test]
fn prepared_statements_run_with_cursors_and_long_data() {
    let mut bench = Bench::new(Flavor::MySql);
    let client = bench.client(PRIMARY);
    let prepare = |bench: &mut Bench, template: Template| {
        let text = template.to_sql(Tag::new(client, 900));
        bench.send(client, &[b"\x16", text.as_bytes()].concat());
        match bench.reply(client, ResponseShape::Prepare, false).as_deref() {
            Some([Part::Prepared { stmt_id, .. }]) => *stmt_id,
            other => panic!("{other:?}"),
        }
    };
    let length = prepare(&mut bench, Template::Length);
    for piece in ["abc", "de"] {
        let head = [b"\x18".as_slice(), &length.to_le_bytes(), &[1, 0]].concat();
        bench.send(client, &[&head, piece.as_bytes()].concat());
    }
    let mut payload = Vec::new();
    put_execute(&mut payload, length, false, &[Param::Number(1_000_001), Param::LongData]);
    bench.send(client, &payload);
    bench.pass(5_000);
    let reply = bench.reply(client, ResponseShape::Query, true).expect("an answer");
    let Part::Rows { rows, .. } = &reply[0] else { panic!("{reply:?}") };
    assert_eq!(rows[0], [Some("1000001".to_owned()), Some("5".to_owned())]);

    let read = prepare(&mut bench, Template::Read);
    bench.run(client, Act::Put { key: 7 });
    payload.clear();
    put_execute(&mut payload, read, true, &[Param::Number(1_000_002), Param::Number(7)]);
    bench.send(client, &payload);
    bench.pass(5_000);
    let reply = bench.reply(client, ResponseShape::Query, true).expect("an answer");
    assert!(done(&reply[0]).status & status::CURSOR_EXISTS != 0);
    bench.send(client, &[b"\x1C".as_slice(), &read.to_le_bytes(), &[9, 0, 0, 0]].concat());
    let reply = bench.reply(client, ResponseShape::Fetch, true).expect("an answer");
    let Part::Rows { rows, end: Some(end), .. } = &reply[0] else { panic!("{reply:?}") };
    assert_eq!(rows.len(), 1);
    assert!(end.status & status::LAST_ROW_SENT != 0);
}

#[test]
fn a_transaction_is_seen_by_others_when_it_is_committed() {
    let mut bench = Bench::new(Flavor::MariaDb);
    let (writer, other) = (bench.client(PRIMARY), bench.client(PRIMARY));
    bench.run(writer, Act::Begin(BeginForm::Start));
    bench.run(writer, Act::Put { key: 1 });
    assert!(bench.value(writer, Act::Read { key: 1 }).is_some());
    assert_eq!(bench.value(other, Act::Read { key: 1 }), None);
    assert_eq!(bench.effects()[1], Effect::Open);
    bench.run(writer, Act::Commit);
    assert!(bench.value(other, Act::Read { key: 1 }).is_some());
    assert_eq!(bench.effects()[1], Effect::Committed);
}

#[test]
fn a_locked_row_makes_others_wait_until_the_end() {
    let mut bench = Bench::new(Flavor::MySql);
    let (holder, waiter) = (bench.client(PRIMARY), bench.client(PRIMARY));
    bench.run(holder, Act::Begin(BeginForm::Begin));
    bench.run(holder, Act::Put { key: 1 });
    bench.ask(waiter, &[Act::Update { key: 1 }]);
    bench.pass(100_000);
    assert!(bench.reply(waiter, ResponseShape::Query, false).is_none());
    bench.run(holder, Act::Commit);
    let reply = bench.reply(waiter, ResponseShape::Query, false).expect("an answer");
    assert_eq!(done(&reply[0]).affected_rows, 1);
    // And not for ever.
    bench.run(holder, Act::Begin(BeginForm::Begin));
    bench.run(holder, Act::ReadForUpdate { key: 1 });
    bench.ask(waiter, &[Act::Update { key: 1 }]);
    bench.pass(600_000);
    let reply = bench.reply(waiter, ResponseShape::Query, false).expect("an answer");
    assert!(matches!(&reply[0], Part::Error(error) if error.code == 1205), "{reply:?}");
}

#[test]
fn of_two_that_wait_for_each_other_one_is_undone() {
    let mut bench = Bench::new(Flavor::MySql);
    let (left, right) = (bench.client(PRIMARY), bench.client(PRIMARY));
    for (client, key) in [(left, 1), (right, 2)] {
        bench.run(client, Act::Begin(BeginForm::Begin));
        bench.run(client, Act::Put { key });
    }
    bench.ask(left, &[Act::Put { key: 2 }]);
    bench.pass(5_000);
    assert_eq!(bench.code(right, Act::Put { key: 1 }), 1213);
    let reply = bench.reply(left, ResponseShape::Query, false).expect("an answer");
    assert!(matches!(&reply[0], Part::Ok(_)), "{reply:?}");
    assert_eq!(bench.effects().iter().filter(|effect| **effect == Effect::RolledBack).count(), 1);
}

#[test]
fn named_locks_and_locked_tables_bar_others() {
    let mut bench = Bench::new(Flavor::MariaDb);
    let (holder, other) = (bench.client(PRIMARY), bench.client(PRIMARY));
    let lock = Act::GetLock { lock: 1, seconds: 1 };
    assert_eq!(bench.value(holder, lock.clone()), Some("1".to_owned()));
    bench.ask(other, std::slice::from_ref(&lock));
    bench.pass(2_000_000);
    let reply = bench.reply(other, ResponseShape::Query, false).expect("an answer");
    let Part::Rows { rows, .. } = &reply[0] else { panic!("{reply:?}") };
    assert_eq!(rows[0][1], Some("0".to_owned()));
    assert_eq!(bench.value(other, Act::ReleaseLock(1)), Some("0".to_owned()));
    bench.run(holder, Act::ReleaseLock(1));
    assert_eq!(bench.value(other, lock), Some("1".to_owned()));
    bench.run(holder, Act::LockTables { write: true });
    bench.ask(other, &[Act::Insert]);
    bench.pass(10_000);
    assert!(bench.reply(other, ResponseShape::Query, false).is_none());
    bench.run(holder, Act::UnlockTables);
    assert!(bench.reply(other, ResponseShape::Query, false).is_some());
}

#[test]
fn replicas_follow_after_their_lag_and_do_not_write() {
    let mut bench = Bench::new(Flavor::MySql);
    let (writer, reader) = (bench.client(PRIMARY), bench.client(REPLICA));
    bench.run(writer, Act::Put { key: 1 });
    assert_eq!(bench.value(reader, Act::Read { key: 1 }), None);
    bench.pass(LAG_US);
    assert!(bench.value(reader, Act::Read { key: 1 }).is_some());
    assert_eq!(bench.code(reader, Act::Insert), 1290);
}

#[test]
fn a_crash_ends_connections_and_undoes_what_is_open() {
    let mut bench = Bench::new(Flavor::MariaDb);
    let client = bench.client(PRIMARY);
    bench.run(client, Act::Put { key: 1 });
    bench.run(client, Act::Begin(BeginForm::Begin));
    bench.run(client, Act::Put { key: 2 });
    assert!(bench.cluster.fault(ServerFault::Crash { host: PRIMARY, lose_last: 0 }, bench.now));
    bench.take_outputs();
    assert!(bench.clients[client].is_closed);
    assert_eq!(bench.effects(), [Effect::Committed, Effect::None, Effect::RolledBack]);
    let (_, accept) = bench.open(PRIMARY);
    assert_eq!(accept, Accept::Refused);
    assert!(bench.cluster.fault(ServerFault::Restart { host: PRIMARY }, bench.now));
    let again = bench.client(PRIMARY);
    assert!(bench.value(again, Act::Read { key: 1 }).is_some());
    assert_eq!(bench.value(again, Act::Read { key: 2 }), None);
}

#[test]
fn commits_that_nobody_else_has_are_lost_by_a_crash_or_a_promotion() {
    let mut bench = Bench::new(Flavor::MySql);
    let client = bench.client(PRIMARY);
    bench.run(client, Act::Insert);
    bench.pass(LAG_US);
    bench.run(client, Act::Insert);
    let promote = ServerFault::Promote { host: REPLICA, catch_up: false };
    assert!(bench.cluster.fault(promote, bench.now));
    assert_eq!(bench.effects(), [Effect::Committed, Effect::Lost]);
    assert_eq!(bench.cluster.store().expect("a primary").log().count(), 1);
    // The old primary follows the new one, without what only it had.
    let writer = bench.client(REPLICA);
    bench.run(writer, Act::Insert);
    bench.pass(2 * LAG_US);
    let old = bench.client(PRIMARY);
    let of = Tag(1_000_002);
    assert_eq!(bench.value(old, Act::CountLog { of }), Some("0".to_owned()));
    assert_eq!(bench.code(old, Act::Insert), 1290);
    let crash = ServerFault::Crash { host: REPLICA, lose_last: 1 };
    assert!(bench.cluster.fault(crash, bench.now));
    assert_eq!(bench.effects()[2], Effect::Lost);
}

#[test]
fn a_promotion_that_catches_up_loses_nothing() {
    let mut bench = Bench::new(Flavor::MySql);
    let client = bench.client(PRIMARY);
    bench.run(client, Act::Insert);
    let promote = ServerFault::Promote { host: REPLICA, catch_up: true };
    assert!(bench.cluster.fault(promote, bench.now));
    assert_eq!(bench.effects(), [Effect::Committed]);
    bench.take_outputs();
    assert!(bench.clients[client].is_closed);
}

#[test]
fn what_was_sent_before_the_end_runs() {
    let mut bench = Bench::new(Flavor::MariaDb);
    let client = bench.client(PRIMARY);
    bench.ask(client, &[Act::Insert]);
    bench.ask(client, &[Act::Insert]);
    bench.cluster.closed(bench.clients[client].link, bench.now);
    bench.pass(5_000);
    assert_eq!(bench.effects(), [Effect::Committed, Effect::Committed]);
    assert_eq!(bench.cluster.connections(PRIMARY), 0);
    assert!(bench.clients[client].received.is_empty());
}

#[test]
fn an_open_transaction_ends_with_its_connection() {
    let mut bench = Bench::new(Flavor::MariaDb);
    let client = bench.client(PRIMARY);
    bench.run(client, Act::Begin(BeginForm::Begin));
    bench.run(client, Act::Put { key: 1 });
    bench.send(client, b"\x01");
    assert!(bench.clients[client].is_closed);
    assert_eq!(bench.effects()[1], Effect::RolledBack);
    let other = bench.client(PRIMARY);
    assert!(matches!(bench.run(other, Act::InsertKey { key: 1 }), Part::Ok(_)));
}

#[test]
fn a_reset_gives_everything_back_but_the_schema() {
    let mut bench = Bench::new(Flavor::MySql);
    let (client, other) = (bench.client(PRIMARY), bench.client(PRIMARY));
    bench.run(client, Act::Use(Schema::Depot));
    bench.run(client, Act::GetLock { lock: 1, seconds: 0 });
    bench.run(client, Act::Set(vec![Setting::User { name: 1, value: Some(5) }]));
    bench.run(client, Act::PrepareSql { name: 1, of: PreparedSql::Update { key: 1 } });
    bench.run(client, Act::Begin(BeginForm::Begin));
    bench.run(client, Act::Put { key: 1 });
    bench.send(client, b"\x1F");
    assert!(bench.reply(client, ResponseShape::Single, false).is_some());
    assert_eq!(bench.value(client, Act::ShowUser(1)), None);
    assert_eq!(bench.value(client, Act::Read { key: 1 }), None);
    assert_eq!(bench.value(client, Act::Database), Some("depot".to_owned()));
    assert_eq!(bench.code(client, Act::ExecuteSql { name: 1, using: None }), 1243);
    let lock = Act::GetLock { lock: 1, seconds: 0 };
    assert_eq!(bench.value(other, lock), Some("1".to_owned()));
}

#[test]
fn a_killed_connection_ends_and_its_statement_does_not_run() {
    let mut bench = Bench::new(Flavor::MySql);
    let client = bench.client(PRIMARY);
    bench.ask(client, &[Act::Insert]);
    assert!(bench.cluster.fault(ServerFault::KillConnection { host: PRIMARY, nth: 3 }, bench.now));
    bench.pass(5_000);
    let reply = bench.reply(client, ResponseShape::Query, false).expect("an answer");
    assert!(matches!(&reply[0], Part::Error(error) if error.code == 1317), "{reply:?}");
    assert!(bench.clients[client].is_closed);
    assert_eq!(bench.effects(), [Effect::None]);
}

#[test]
fn a_planned_error_hits_one_statement() {
    let mut bench = Bench::new(Flavor::MySql);
    let client = bench.client(PRIMARY);
    assert!(bench.cluster.fault(ServerFault::ErrorNext { host: PRIMARY, code: 1213 }, bench.now));
    assert_eq!(bench.code(client, Act::Insert), 1213);
    assert!(matches!(bench.run(client, Act::Insert), Part::Ok(_)));
}

#[test]
fn a_late_reply_leaves_time_for_a_crash_behind_the_commit() {
    let mut bench = Bench::with(Flavor::MySql, |spec| spec.hosts[0].late_replies = 100);
    let client = bench.client(PRIMARY);
    bench.ask(client, &[Act::Insert]);
    let due = bench.cluster.next_due().expect("work");
    bench.now = due;
    bench.cluster.tick(due);
    bench.take_outputs();
    assert!(bench.clients[client].received.is_empty());
    assert_eq!(bench.effects(), [Effect::Committed]);
    bench.pass(5_000);
    assert!(bench.reply(client, ResponseShape::Query, false).is_some());
}

#[test]
fn the_same_bytes_at_the_same_times_give_the_same_bytes() {
    let run = || {
        let mut bench = Bench::with(Flavor::MariaDb, |spec| spec.hosts[0].late_replies = 50);
        let client = bench.client(PRIMARY);
        let mut all = VecDeque::new();
        for key in 0..20 {
            bench.ask(client, &[Act::Put { key }, Act::Read { key }]);
            bench.pass(150);
            all.extend(std::mem::take(&mut bench.clients[client].received));
        }
        (all, bench.cluster.history().to_vec())
    };
    assert_eq!(run(), run());
}
