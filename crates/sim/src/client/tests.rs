use trunkline_protocol::{
    Capabilities,
    codec::frame::{put_payload, split_packet},
    packet::{
        err::put_err,
        greeting::{Flavor, Greeting},
        ok::{OkPacket, ReplyFormat, put_ok, put_result_end},
        status,
    },
    response::ResponseShape,
};

use super::{
    ClientOutput, ClientSpec, Deed, Identity, Leaving, ModelClient, Reading, Step,
    reply::{Part, ReplyReader},
};
use crate::{
    oracle::history::{Answer, EndedBy, LoginOutcome, MismatchKind},
    rng::Rng,
    statement::{Act, BeginForm, Statement, Tag},
};

const FORMAT: ReplyFormat = ReplyFormat { deprecate_eof: true, ..ReplyFormat::PLAIN };

fn spec(acts: Vec<Act>) -> ClientSpec {
    let step = |(number, act)| Step {
        pause_us: 0,
        deed: Deed::Query(vec![Statement::new(Tag::new(0, number), act)]),
    };
    ClientSpec {
        place: 0,
        identity: Identity {
            user: "app".to_owned(),
            password: "app".to_owned(),
            schema: Some("shop".to_owned()),
            default_schema: None,
        },
        refusal: None,
        flavor: Flavor::MariaDb,
        capabilities: Capabilities::DEPRECATE_EOF,
        header: Vec::new(),
        encrypts: false,
        starts_us: 5,
        script: (1..).zip(acts).map(step).collect(),
        ahead_max: 1,
        reading: Reading::Eager,
        leaving: Leaving::Politely,
        is_direct: false,
        reconnects_max: 0,
    }
}

fn greeting() -> Vec<u8> {
    let mut out = Vec::new();
    Greeting {
        protocol_version: 10,
        server_version: "10.11.14-MariaDB".to_owned(),
        connection_id: 1,
        nonce: *b"abcdefghij0123456789",
        capabilities: Capabilities::from_bits(0x81FF_F7FE),
        charset: 45,
        status: status::AUTOCOMMIT,
        auth_plugin: "mysql_native_password".to_owned(),
    }
    .put(&mut out, 0);
    out
}

fn ok(seq: u8, flags: u16) -> Vec<u8> {
    let mut out = Vec::new();
    put_ok(&mut out, seq, &OkPacket { status: flags, ..OkPacket::default() }, FORMAT);
    out
}

fn short<T>(list: &[T]) -> u8 {
    u8::try_from(list.len()).expect("short")
}

fn rows(columns: &[&str], values: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut seq = put_payload(&mut out, 1, &[short(columns)]);
    for name in columns {
        let mut definition = b"\x03def\0\0\0".to_vec();
        definition.push(short(name.as_bytes()));
        definition.extend_from_slice(name.as_bytes());
        definition.extend_from_slice(b"\0\x0C\x2D\0\0\x04\0\0\xFD\0\0\0\0\0");
        seq = put_payload(&mut out, seq, &definition);
    }
    let row: Vec<u8> = values
        .iter()
        .flat_map(|value| [&[short(value.as_bytes())], value.as_bytes()].concat())
        .collect();
    seq = put_payload(&mut out, seq, &row);
    let end = OkPacket { status: status::AUTOCOMMIT, ..OkPacket::default() };
    put_result_end(&mut out, seq, &end, FORMAT);
    out
}

/// A client that has logged in and sent the first of `acts`.
fn logged_in(acts: Vec<Act>) -> ModelClient {
    let mut client = ModelClient::new(spec(acts));
    client.tick(5);
    assert_eq!(client.take_outputs(), [ClientOutput::Connect]);
    client.connected(10);
    client.received(&greeting(), 20);
    assert!(matches!(client.take_outputs().as_slice(), [ClientOutput::Send(_)]));
    client.received(&ok(2, status::AUTOCOMMIT), 30);
    client
}

fn first_mismatch(client: &ModelClient) -> Option<MismatchKind> {
    let session = client.history().sessions.last().expect("a session");
    let mut exchanges = session.exchanges.iter();
    exchanges.find_map(|exchange| exchange.mismatch.as_ref().map(|mismatch| mismatch.kind))
}

#[test]
fn a_client_logs_in_does_its_script_and_leaves() {
    let mut client = logged_in(vec![Act::Database]);
    let outputs = client.take_outputs();
    let [ClientOutput::Send(command)] = outputs.as_slice() else { panic!("{outputs:?}") };
    let (_, payload, _) = split_packet(command).expect("whole");
    assert_eq!(payload, b"\x03SELECT 1000001 AS tag, DATABASE() AS v");
    client.received(&rows(&["tag", "v"], &["1000001", "shop"]), 40);
    let quit = ClientOutput::Send(vec![1, 0, 0, 0, 1]);
    assert_eq!(client.take_outputs(), [quit, ClientOutput::Close { reset: false }]);
    assert!(client.is_gone());
    let session = &client.history().sessions[0];
    assert_eq!(session.login, LoginOutcome::Accepted(30));
    assert_eq!(session.ending.as_ref().map(|ending| ending.how), Some(EndedBy::Client));
    assert_eq!(first_mismatch(&client), None);
}

#[test]
fn a_reply_is_compared_with_a_direct_connections() {
    use MismatchKind::{Data, Foreign, Nonsense, Shape, State};
    let tag_and_v = &["tag", "v"];
    let cases = [
        (Act::Database, rows(tag_and_v, &["2000001", "shop"]), Some(Foreign)),
        (Act::Database, rows(tag_and_v, &["1000001", "depot"]), Some(State)),
        (Act::Database, rows(&["a", "b"], &["1000001", "shop"]), Some(Shape)),
        (Act::Database, ok(1, status::AUTOCOMMIT), Some(Shape)),
        (Act::Database, ok(2, status::AUTOCOMMIT), Some(Nonsense)),
        (Act::Read { key: 100 }, rows(tag_and_v, &["1000001", "77"]), Some(Data)),
        (Act::Read { key: 1 }, rows(tag_and_v, &["1000001", "77"]), None),
        (Act::Begin(BeginForm::Begin), ok(1, status::AUTOCOMMIT), Some(State)),
        (Act::Begin(BeginForm::Begin), ok(1, status::AUTOCOMMIT | status::IN_TRANS), None),
        (Act::LastInsertId, rows(tag_and_v, &["1000001", "8"]), Some(State)),
    ];
    for (act, reply, expected) in cases {
        let mut client = logged_in(vec![act.clone()]);
        client.received(&reply, 40);
        assert_eq!(first_mismatch(&client), expected, "{act:?}");
        assert_eq!(client.has_mismatch(), expected.is_some());
    }
}

#[test]
fn bytes_that_nobody_asked_for_are_nonsense() {
    let mut client = logged_in(vec![Act::Database, Act::Database]);
    let reply = rows(&["tag", "v"], &["1000001", "shop"]);
    client.received(&[reply.clone(), reply].concat(), 40);
    assert_eq!(first_mismatch(&client), Some(MismatchKind::Nonsense));
    assert!(client.take_outputs().contains(&ClientOutput::Close { reset: true }));
}

#[test]
fn a_row_that_was_rolled_back_is_not_seen_again() {
    let key = super::rows::own_key(0, 1);
    let acts =
        vec![Act::Begin(BeginForm::Begin), Act::Put { key }, Act::Rollback, Act::Read { key }];
    let in_transaction = status::AUTOCOMMIT | status::IN_TRANS;
    let mut client = logged_in(acts);
    client.received(&ok(1, in_transaction), 40);
    let mut written = Vec::new();
    let put = OkPacket { affected_rows: 1, status: in_transaction, ..OkPacket::default() };
    put_ok(&mut written, 1, &put, FORMAT);
    client.received(&written, 50);
    client.received(&ok(1, status::AUTOCOMMIT), 60);
    client.received(&rows(&["tag", "v"], &["1000004", "1000002"]), 70);
    assert_eq!(first_mismatch(&client), Some(MismatchKind::Data));
    let units: Vec<_> = client.history().sessions[0]
        .exchanges
        .iter()
        .flat_map(|exchange| &exchange.statements)
        .map(|said| (said.unit, said.begins.is_some(), said.ends.is_some()))
        .collect();
    let expected = [
        (Some(1), true, false),
        (Some(1), false, false),
        (Some(1), false, true),
        (None, false, false),
    ];
    assert_eq!(units, expected);
}

#[test]
fn a_lost_session_leaves_its_statement_unanswered() {
    let key = super::rows::own_key(0, 1);
    let mut client = logged_in(vec![Act::Put { key }]);
    client.closed(EndedBy::Network, 40);
    let session = &client.history().sessions[0];
    let exchange = &session.exchanges[0];
    assert_eq!(exchange.answer, Answer::Pending);
    assert_eq!(exchange.statements[0].write.map(|write| write.value), Some(Some(1_000_001)));
    assert!(client.is_gone());
}

#[test]
fn replies_are_read_in_any_split() {
    let bytes = rows(&["tag", "v"], &["1", "two"]);
    for chunk in 1..bytes.len() {
        let mut reader = ReplyReader::new(FORMAT);
        reader.expect(ResponseShape::Query, false, 0);
        let mut replies = Vec::new();
        for part in bytes.chunks(chunk) {
            reader.feed(part);
            replies.extend(reader.next_reply().expect("well-formed"));
        }
        let [reply] = replies.as_slice() else { panic!("one reply in chunks of {chunk}") };
        let [Part::Rows { columns, rows, end: Some(_) }] = reply.as_slice() else {
            panic!("rows: {reply:?}")
        };
        assert_eq!(*columns, ["tag", "v"]);
        assert_eq!(*rows, [[Some("1".to_owned()), Some("two".to_owned())]]);
    }
}

#[test]
fn an_error_within_rows_ends_the_reply() {
    let mut bytes = rows(&["a"], &["1"]);
    bytes.truncate(bytes.len() - 11);
    put_err(&mut bytes, 4, 2013, b"HY000", "Lost connection");
    let mut reader = ReplyReader::new(FORMAT);
    reader.expect(ResponseShape::Query, false, 0);
    reader.feed(&bytes);
    let reply = reader.next_reply().expect("well-formed").expect("whole");
    assert!(
        matches!(reply.as_slice(), [Part::Rows { end: None, .. }, Part::Error(_)]),
        "{reply:?}"
    );
}

#[test]
fn scripts_follow_from_the_seed_and_name_every_statement_once() {
    let users = [crate::plan::UserSpec {
        name: "app".to_owned(),
        password: "secret".to_owned(),
        hostgroup: 10,
        schema: None,
        max_connections: 10,
        is_transaction_persistent: true,
        is_fast_forward: false,
        more: String::new(),
    }];
    for seed in 0..200 {
        let draw = super::Draw {
            place: 3,
            flavor: Flavor::MySql,
            users: &users,
            statements: 40,
            starts_us: 0,
        };
        let spec = super::draw(&mut Rng::new(seed), &draw);
        assert_eq!(spec, super::draw(&mut Rng::new(seed), &draw));
        let mut tags: Vec<_> = spec.script.iter().flat_map(|step| tags_of(&step.deed)).collect();
        let count = tags.len();
        tags.sort_unstable();
        tags.dedup();
        assert_eq!(tags.len(), count, "seed {seed}");
        assert!(tags.iter().all(|tag| tag.client() == Some(3)));
        assert!(spec.script.len() >= 40);
    }
}

fn tags_of(deed: &Deed) -> Vec<Tag> {
    match deed {
        Deed::Query(statements) => statements.iter().filter_map(|it| it.tag).collect(),
        Deed::Prepare { tag, .. } | Deed::Execute { tag, .. } => vec![*tag],
        _ => Vec::new(),
    }
}
