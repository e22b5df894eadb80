//! Files of clients, names of commits, and a replica that hears nothing.

use super::*;
use crate::{oracle::facts::Gtid, statement::Upload};

const OFFERING: Capabilities = PLAIN.union(Capabilities::LOCAL_FILES);

fn uploader(bench: &mut Bench, wanted: Capabilities) -> usize {
    let step = bench.log_in(PRIMARY, "app", "secret", wanted);
    assert!(matches!(step, LoginStep::Accepted(_)), "{step:?}");
    bench.clients.len() - 1
}

#[test]
fn a_file_is_asked_for_and_its_row_is_there() {
    let mut bench = Bench::new(Flavor::MariaDb);
    let client = uploader(&mut bench, OFFERING);
    let upload = Upload { key: 7, skipped: 2, is_there: true };
    let [tag] = bench.ask(client, &[Act::Load(upload)])[..] else { panic!("one statement") };
    bench.pass(5_000);
    assert!(bench.reply(client, ResponseShape::Query, false).is_none());
    let (name, seq) = bench.clients[client].reader.take_file().expect("it asks");
    assert_eq!((name, seq), (upload.name(tag.0), 2));
    let mut out = Vec::new();
    let seq = put_payload(&mut out, seq, &upload.content(tag));
    let seq = put_payload(&mut out, seq, &[]);
    bench.cluster.received(bench.clients[client].link, &out, bench.now);
    bench.pass(5_000);
    let client_of = &mut bench.clients[client];
    client_of.reader.file_sent(seq);
    client_of.reader.feed(&std::mem::take(&mut client_of.received));
    let reply = client_of.reader.next_reply().expect("the protocol").expect("an answer");
    assert_eq!(done(&reply[0]).affected_rows, 1);
    assert_eq!(bench.value(client, Act::Read { key: 7 }), Some(tag.0.to_string()));
    assert!(bench.cluster.unknown_texts().is_empty());
}

#[test]
fn nobody_is_asked_for_a_file_who_offers_none_or_may_not_write() {
    let upload = Act::Load(Upload { key: 7, skipped: 0, is_there: true });
    for (flavor, code) in [(Flavor::MariaDb, 4166), (Flavor::MySql, 3948)] {
        let mut bench = Bench::new(flavor);
        let client = uploader(&mut bench, PLAIN);
        assert_eq!(bench.code(client, upload.clone()), code);
        let client = uploader(&mut bench, OFFERING);
        bench.run(client, Act::Begin(BeginForm::ReadOnly));
        assert_eq!(bench.code(client, upload.clone()), 1792);
    }
}

#[test]
fn commits_have_names_that_a_crash_may_give_again() {
    let mut bench = Bench::new(Flavor::MySql);
    let tracker = Setting::Tracker("gtids".to_owned(), "OWN_GTID".to_owned());
    let mut client = bench.client(PRIMARY);
    bench.run(client, Act::Set(vec![tracker.clone()]));
    let named = |bench: &mut Bench, client, act| {
        let part = bench.run(client, act);
        Gtid::read(done(&part).gtids.as_deref()?).map(|gtid| gtid.number)
    };
    assert_eq!(named(&mut bench, client, Act::Put { key: 1 }), Some(1));
    assert_eq!(named(&mut bench, client, Act::Read { key: 1 }), None);
    assert_eq!(named(&mut bench, client, Act::Put { key: 2 }), Some(2));
    bench.cluster.fault(ServerFault::Crash { host: PRIMARY, lose_last: 1 }, bench.now);
    bench.cluster.fault(ServerFault::Restart { host: PRIMARY }, bench.now);
    bench.take_outputs();
    client = bench.client(PRIMARY);
    assert_eq!(named(&mut bench, client, Act::Put { key: 3 }), None, "nobody has asked for it");
    bench.run(client, Act::Set(vec![tracker]));
    assert_eq!(named(&mut bench, client, Act::Put { key: 4 }), Some(3));
    let names = bench.cluster.history().iter().filter_map(|ran| ran.gtid);
    assert_eq!(names.map(|gtid| gtid.number).collect::<Vec<_>>(), [1, 2, 2, 3]);
}

#[test]
fn a_replica_that_is_cut_off_catches_up_later() {
    let mut bench = Bench::new(Flavor::MariaDb);
    let (writer, reader) = (bench.client(PRIMARY), bench.client(REPLICA));
    let fault = ServerFault::CutOff { host: REPLICA, for_us: 1_000_000 };
    assert!(bench.cluster.fault(fault, bench.now));
    bench.run(writer, Act::Put { key: 1 });
    bench.pass(2 * LAG_US);
    assert_eq!(bench.value(reader, Act::Read { key: 1 }), None);
    bench.pass(1_000_000);
    assert!(bench.value(reader, Act::Read { key: 1 }).is_some());
}
