//! Tokens, and what comments say of a read.

use trunkline_protocol::packet::{ok::OkPacket, status};
use trunkline_topology::HostgroupId;

use super::{READ, READER, WRITER, domain, shared_world, shows, shows_in, world, writes};
use crate::tests::{OK, Reply, TestWorker, WRITER_AND_READER};

#[test]
fn what_a_session_has_written_another_one_reads_that_gives_its_token() {
    let mut world = world("");
    let client = world.log_in();
    assert_eq!(world.answered(client, "SHOW CAUSAL TOKEN"), "rows t1");
    writes(&mut world, client, "0-1-5");
    assert_eq!(world.answered(client, "show causal token"), "rows t1.10,0:5-5");
    shows(&mut world, 4);
    let other = world.log_in();
    let read = "/* trunkline_token=t1.10,0:5-5 */ SELECT a FROM s.t";
    world.ask(other, read);
    world.pass_ms(500);
    assert_eq!(world.asked(), [""; 0]);
    shows(&mut world, 5);
    world.pass_ms(10);
    assert_eq!(world.address_asked(read), READER);
    world.reply(read, Reply::Rows(&["1"]));
    assert_eq!(world.answer(other), "rows 1");
    world.ask(other, "/* trunkline_token=t1.10,writer */ SELECT a FROM s.t");
    assert_eq!(world.address_asked("/* trunkline_token=t1.10,writer */ SELECT a FROM s.t"), WRITER);
    let mut off = TestWorker::with(WRITER_AND_READER);
    let client = off.log_in();
    assert!(off.answered(client, "SHOW CAUSAL TOKEN").contains("causal_reads is off everywhere"));
}

#[test]
fn a_hint_takes_no_read_out_of_its_transaction() {
    for hint in ["causal_reads=session", "causal_reads=global", "max_lag_ms=20"] {
        let config =
            WRITER_AND_READER.replace("[[user]]\n", "[[user]]\ntransaction_persistent = false\n");
        let mut world = TestWorker::with(&config);
        let client = world.log_in();
        let began = Reply::Says(OkPacket {
            status: status::AUTOCOMMIT | status::IN_TRANS | status::IN_TRANS_READONLY,
            ..OK
        });
        world.ask(client, "START TRANSACTION READ ONLY");
        assert_eq!(world.address_asked("START TRANSACTION READ ONLY"), READER);
        world.reply("START TRANSACTION READ ONLY", began);
        assert_eq!(world.answer(client), "ok");
        let read = format!("/* {hint} */ SELECT a FROM s.t");
        world.ask(client, &read);
        world.pass_ms(50);
        assert_eq!(world.address_asked(&read), READER, "{hint}");
    }
}

#[test]
fn a_token_that_is_fresher_than_what_is_known_of_the_writer_waits_for_that() {
    let mut world = world("causal_wait_ms = 50\n");
    let client = world.log_in();
    shows(&mut world, 4);
    let read = "/* trunkline_token=t1.10,0:5-5 */ SELECT a FROM s.t";
    world.ask(client, read);
    world.pass_ms(200);
    assert_eq!(world.asked(), [""; 0]);
    shows_in(&mut world, HostgroupId(10), 5);
    world.pass_ms(10);
    assert_eq!(world.address_asked(read), WRITER);
    world.reply(read, Reply::Rows(&["1"]));
    assert_eq!(world.answer(client), "rows 1");
    // What nobody comes to have is told after a while.
    world.ask(client, "/* trunkline_token=t1.10,0:6-6 */ SELECT a FROM s.t");
    world.pass_ms(590);
    assert_eq!(world.asked(), [""; 0]);
    world.pass_ms(20);
    assert!(world.answer(client).contains("shows what this read has to see"));
}

#[test]
fn a_read_of_transactions_that_nobody_has_fails_when_its_time_is_over() {
    let mut world = world("causal_wait_ms = 200\n");
    let client = world.log_in();
    domain(&mut world);
    shows(&mut world, 5);
    world.ask(client, "/* min_gtid=0-1-99 */ SELECT a FROM s.t");
    // The writer may be known to have it soon.
    world.pass_ms(590);
    assert_eq!(world.answer(client), "");
    world.pass_ms(20);
    let said = world.answer(client);
    assert!(said.contains("shows what this read has to see"), "{said}");
}

#[test]
fn comments_say_what_a_read_has_to_see() {
    let mut world = shared_world("session", "");
    let client = world.log_in();
    domain(&mut world);
    shows(&mut world, 5);
    let goes = |world: &mut TestWorker, hint: &str| {
        let sql = format!("/* {hint} */ {READ}");
        world.ask(client, &sql);
        match world.asked().contains(&sql) {
            true => {
                let at = world.address_asked(&sql).to_owned();
                world.reply(&sql, Reply::Rows(&["1"]));
                assert_eq!(world.answer(client), "rows 1");
                at
            }
            false => {
                world.pass_ms(1_000);
                world.answer(client)
            }
        }
    };
    assert_eq!(goes(&mut world, "min_gtid=0-1-5"), READER);
    let missing = goes(&mut world, "min_gtid=0-1-6");
    assert!(missing.contains("shows what this read has to see"), "{missing}");
    // The writer says that it has it.
    shows_in(&mut world, HostgroupId(10), 6);
    assert_eq!(goes(&mut world, "min_gtid=0-1-6"), WRITER);
    assert_eq!(goes(&mut world, "max_lag_ms=100"), WRITER, "nobody knows how old it is");
    let now_ms = world.core().env.now.ms();
    for (_, slot) in world.core().servers.pool.slots() {
        slot.server.health.reached.set_fresh(now_ms);
    }
    assert_eq!(goes(&mut world, "max_lag_ms=100"), READER);
    world.pass_ms(200);
    assert_eq!(goes(&mut world, "max_lag_ms=100"), WRITER);
    for (hint, part) in [
        ("min_gtid=0-1", "`0-1` is no GTID set"),
        ("min_gtid=9-1-1", "`9-1-1` names transactions of 9"),
        ("causal_reads=all", "not `all`"),
    ] {
        let error = goes(&mut world, hint);
        assert!(error.contains(part), "{hint}: {error}");
    }
}
