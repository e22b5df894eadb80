//! Cases of the decision, each with what is decided of it: the statement, what there is besides,
//! and where it goes for which reason.

mod given;

use trunkline_session::tracker::PinReason as Pin;
use trunkline_topology::HostgroupId;

use super::{Aim, Decided, Follows, GivesUp, Nowhere, Obeyed, Place, Reason, Refusal, Split};
use crate::routing::ruling::{By, Said};
use given::{Given, app, conn, free, of_user};

/// What a case says of the place and the reason.
type Expected = Result<(Place, Reason), Nowhere>;

fn to(hostgroup: u32, why: Reason) -> Expected {
    Ok((Place::Hostgroup(HostgroupId(hostgroup)), why))
}

fn reader(hostgroup: u32, why: Reason) -> Expected {
    Ok((Place::Reader(HostgroupId(hostgroup)), why))
}

fn held(hostgroup: u32, why: Reason) -> Expected {
    Ok((Place::Lease(HostgroupId(hostgroup), conn(hostgroup)), why))
}

fn refused(why: Refusal) -> Expected {
    Err(Nowhere::Refused(why))
}

const READERS: HostgroupId = HostgroupId(20);
const READ: Reason = Reason::Split(Split::Read(READERS));
const MAY_WRITE: Reason = Reason::Split(Split::MayWrite);
const RULE: Reason = Reason::Named(By::Rule, Obeyed::AsSaid);
const HELD: Reason = Reason::Holds(Follows::Held);
const SELECT: &str = "SELECT a FROM t";
const UPDATE: &str = "UPDATE t SET a = 1";

fn check<const N: usize>(cases: [(Given, &str, Expected); N]) {
    for (given, text, expected) in cases {
        assert_eq!(given.decide(text).place, expected, "{text} of {given:?}");
    }
}

/// A rule that sends everything to this hostgroup.
fn rule(hostgroup: u32) -> String {
    format!("[[rule]]\nid = 1\ndestination_hostgroup = {hostgroup}\n")
}

#[test]
fn the_split_decides_where_nothing_else_does() {
    let split = Reason::Split;
    let begin = "START TRANSACTION READ ONLY";
    check([
        (app(), SELECT, reader(20, READ)),
        (app(), UPDATE, to(10, MAY_WRITE)),
        (app(), "SELECT a FROM t FOR UPDATE", to(10, MAY_WRITE)),
        (app(), "SELECT LAST_INSERT_ID()", to(10, MAY_WRITE)),
        (app().proving_nothing(), SELECT, to(10, MAY_WRITE)),
        (app().without_autocommit(), SELECT, to(10, split(Split::AutocommitOff))),
        (app().without_readers(), SELECT, to(10, split(Split::NoReader))),
        (app(), begin, reader(20, split(Split::ReadOnlyTransaction(READERS)))),
        (app().serializable(), begin, to(10, split(Split::Serializable))),
        (of_user("lone"), SELECT, to(30, split(Split::NoGroup))),
        (of_user("ruled"), SELECT, to(40, split(Split::RulesOnly))),
    ]);
    assert_eq!(app().decide_plain().place, to(10, MAY_WRITE));
}

#[test]
fn comments_go_before_rules_and_send_no_write_to_readers() {
    let comment = Reason::Comment;
    let (slave, server) = ("-- maxscale route to slave", "-- maxscale route to server");
    check([
        (app(), "/* hostgroup=30 */ DELETE FROM t", to(30, comment)),
        (app(), "/* hostgroup=20 */ SELECT a FROM t", to(20, comment)),
        (app(), "/* hostgroup=20 */ DELETE FROM t", to(10, Reason::CommentOfReaders)),
        (app().with(rule(30)), "/* hostgroup=20 */ SELECT a FROM t", to(20, comment)),
        (app(), "SELECT a FROM t -- maxscale route to master", to(10, comment)),
        (app(), &format!("{SELECT} {slave}"), to(20, comment)),
        (app().with(rule(30)), &format!("{UPDATE} {slave}"), to(30, RULE)),
        (app(), &format!("{SELECT} {server} db20"), to(20, Reason::Server)),
        (app(), &format!("{UPDATE} {server} db20"), to(10, MAY_WRITE)),
        (app(), &format!("{UPDATE} {server} db30"), to(30, Reason::Server)),
        (app(), &format!("{SELECT} {server} nowhere"), reader(20, READ)),
        (app().without_readers(), &format!("{SELECT} {server} db30"), to(30, Reason::Server)),
    ]);
}

#[test]
fn only_what_goes_to_the_named_server_is_for_it_alone() {
    let is_for_server = |given: Given, text: &str| {
        given.decide(&format!("{text} -- maxscale route to server db30")).is_for_server
    };
    assert!(is_for_server(app(), SELECT));
    assert!(is_for_server(free().holding(10, &[Pin::Transaction]), SELECT));
    assert!(!is_for_server(app().holding(10, &[Pin::Transaction]), SELECT), "it stays there");
    assert!(!app().decide(SELECT).is_for_server);
}

#[test]
fn rules_name_hostgroups_and_fast_routing_goes_before_them() {
    let fast = "[[fast_routing]]\nusername = \"app\"\nschemaname = \"shop\"\n\
                destination_hostgroup = 40\n";
    let fast_to_readers = fast.replace("40", "20");
    let applied = |hostgroup| format!("{}apply = true\n", rule(hostgroup));
    let both = |rule: String| app().with(rule + fast);
    let by_fast = |obeyed| Reason::Named(By::FastRouting, obeyed);
    let by_rule = |obeyed| Reason::Named(By::Rule, obeyed);
    let lock = "SELECT GET_LOCK('a', 1)";
    check([
        (app().with(rule(30)), UPDATE, to(30, RULE)),
        (app().with(rule(20)), SELECT, to(20, RULE)),
        (app().with(rule(20)), UPDATE, to(20, RULE)),
        (app().with(rule(20)), lock, to(10, by_rule(Obeyed::UnlessItLocks))),
        (
            app().with(rule(20)).without_autocommit(),
            SELECT,
            to(10, by_rule(Obeyed::UnlessItBegins)),
        ),
        (app().with(rule(30)).without_autocommit(), SELECT, to(30, RULE)),
        (both(rule(30)), SELECT, to(40, by_fast(Obeyed::AsSaid))),
        (both(applied(30)), SELECT, to(30, RULE)),
        (app().with(fast_to_readers.clone()), SELECT, to(20, by_fast(Obeyed::AsSaid))),
        (app().with(fast_to_readers), lock, to(10, by_fast(Obeyed::UnlessItLocks))),
    ]);
    // In a transaction that is open it begins none.
    let given = free().with(rule(20)).without_autocommit().holding(10, &[Pin::Transaction]);
    assert_eq!(given.decide(SELECT).place, to(20, RULE));
}

#[test]
fn answers_go_before_everything() {
    let ok = "[[rule]]\nid = 1\nOK_msg = \"done\"\ndestination_hostgroup = 30\n";
    let error = "[[rule]]\nid = 1\nerror_msg = \"no\"\n";
    let denying = "[[firewall_user]]\nusername = \"app\"\nmode = \"PROTECTING\"\n";
    let detecting = denying.replace("PROTECTING", "DETECTING");
    let in_transaction = || app().holding(10, &[Pin::Transaction]);
    let comment = "/* hostgroup=30 */ SELECT a FROM t";
    check([
        (in_transaction().with(ok), SELECT, Err(Nowhere::Answered)),
        (app().with(ok).refused_by_limit(0), SELECT, Err(Nowhere::Answered)),
        (app().with(error), comment, Err(Nowhere::Answered)),
        (in_transaction().with(denying).guarded(), SELECT, Err(Nowhere::Answered)),
        (app().with(rule(30) + denying).guarded(), comment, Err(Nowhere::Answered)),
        (app().with(denying), SELECT, reader(20, READ)),
        (app().with(detecting).guarded(), SELECT, reader(20, READ)),
        (in_transaction().refused_by_limit(3), SELECT, Err(Nowhere::Limited(3))),
        (app().with(rule(30)).refused_by_limit(0), comment, Err(Nowhere::Limited(0))),
    ]);
    let answer = |rows: &str| app().with(rows).guarded().ruling(SELECT).answer;
    assert_eq!(answer(&format!("{error}{denying}")), Some(Said::Error("no".into())));
    assert_eq!(answer(&format!("{ok}{denying}")), Some(Said::Ok("done".into())));
    assert_eq!(answer(denying), Some(Said::Denied));
}

#[test]
fn a_transaction_keeps_its_statements_unless_the_user_lets_rules_take_them() {
    let open = |given: Given| given.holding(10, &[Pin::Transaction]);
    let comment = "/* hostgroup=30 */ SELECT a FROM t";
    let transaction = || held(10, Reason::Transaction);
    check([
        (open(app()), SELECT, transaction()),
        (open(app()), UPDATE, transaction()),
        (open(app()).with(rule(30)), SELECT, transaction()),
        (open(app()), comment, transaction()),
        (open(free()), SELECT, transaction()),
        (open(free()).with(rule(30)), SELECT, to(30, RULE)),
        (open(free()), comment, to(30, Reason::Comment)),
        (open(free()).with(rule(10)), SELECT, held(10, RULE)),
    ]);
    assert_eq!(open(app()).with(rule(30)).decide(SELECT).named, Some(HostgroupId(30)));
    assert_eq!(open(app()).decide_plain().place, transaction());
}

#[test]
fn without_autocommit_a_transaction_of_readers_takes_in_nothing_that_may_write() {
    let reading = || free().without_autocommit().holding(20, &[Pin::Transaction]);
    let there = held(20, Reason::Transaction);
    let autocommit_off = Reason::Split(Split::AutocommitOff);
    check([
        (reading(), UPDATE, to(10, MAY_WRITE)),
        (reading(), "CREATE TABLE x (a INT)", to(10, MAY_WRITE)),
        (reading().holding(10, &[Pin::Transaction]), UPDATE, held(10, Reason::Transaction)),
        (reading(), SELECT, there),
        (reading(), "COMMIT", there),
        (reading().reading_only(), SELECT, there),
        // Where it was begun by `BEGIN`, a rule has sent that to the readers.
        (free().holding(20, &[Pin::Transaction]), UPDATE, there),
        (
            free().without_autocommit().holding(30, &[Pin::Transaction]),
            UPDATE,
            held(30, Reason::Transaction),
        ),
    ]);
    // What the session holds on a reader begins no transaction there.
    let variable = || app().without_autocommit().holding_named(20, Pin::UserVariable, b"a");
    let elsewhere = refused(Refusal::VariablesElsewhere(READERS, HostgroupId(10)));
    check([
        (variable().with(rule(20)), "SELECT @a, a FROM t", elsewhere),
        (variable(), "SELECT @a, a FROM t", elsewhere),
        (variable(), SELECT, to(10, autocommit_off)),
    ]);
}

#[test]
fn what_a_session_holds_keeps_it_where_no_rule_speaks() {
    let holds = |why| Reason::Holds(why);
    let table = || app().holding(10, &[Pin::TemporaryTable]);
    let two = |pin| app().holding(30, &[Pin::UserVariable]).holding(10, &[pin]);
    check([
        (table(), SELECT, held(10, HELD)),
        (table(), UPDATE, held(10, HELD)),
        (app().holding(30, &[Pin::UserVariable]), SELECT, held(30, HELD)),
        // Rules may have sent the session to readers; what may write does not follow it there.
        (app().holding(20, &[Pin::UserVariable]), SELECT, held(20, HELD)),
        (app().holding(20, &[Pin::UserVariable]), UPDATE, to(10, MAY_WRITE)),
        (app().holding(20, &[Pin::UserVariable]).without_autocommit(), SELECT, {
            to(10, Reason::Split(Split::AutocommitOff))
        }),
        (app().holding(30, &[Pin::UserVariable]), UPDATE, to(10, MAY_WRITE)),
        (app().holding(30, &[Pin::UserVariable]), "SET @b = 1", held(30, HELD)),
        // What reads left binds nothing that does not read it.
        (app().holding(20, &[Pin::Cursor]), SELECT, held(20, READ)),
        (app().holding(10, &[Pin::Cursor]), SELECT, held(10, HELD)),
        (two(Pin::TableLock), "UNLOCK TABLES", held(10, holds(Follows::GivesBack))),
        (two(Pin::NextTransaction), SELECT, held(10, holds(Follows::NextTransaction))),
        (two(Pin::UserVariable), SELECT, held(10, HELD)),
        (
            two(Pin::UserVariable).last_on(30),
            "SHOW WARNINGS",
            held(30, holds(Follows::LastStatement)),
        ),
    ]);
}

#[test]
fn what_a_session_holds_is_seen_whoever_names_another_place() {
    let mine = || app().holding_named(10, Pin::TemporaryTable, b"shop\0mine");
    let variable = || app().holding(20, &[Pin::UserVariable]);
    check([
        // The same servers' readers have not what the session has on the writer.
        (mine().with(rule(20)), SELECT, held(10, Reason::Stays)),
        (mine(), "/* hostgroup=20 */ SELECT a FROM t", held(10, Reason::Stays)),
        (mine().with(rule(30)), SELECT, to(30, RULE)),
        (mine().with(rule(30)), "SELECT a FROM mine", held(10, Reason::Stays)),
        (mine().with(rule(30)), "INSERT INTO mine VALUES (1)", held(10, Reason::Stays)),
        (variable().with(rule(30)), "SELECT @a", held(20, Reason::Stays)),
        (variable().with(rule(10)), "UPDATE t SET a = 1", to(10, RULE)),
        (app().holding(10, &[Pin::Warnings]).with(rule(20)), SELECT, to(20, RULE)),
    ]);
}

#[test]
fn what_would_find_null_for_a_variable_is_refused() {
    let variable = || app().holding(20, &[Pin::UserVariable]);
    let (here, there) = (HostgroupId(20), HostgroupId(10));
    let computes = |computes| variable().aim(Aim::Prepare { computes });
    let reads = "UPDATE t SET b = @a";
    check([
        (variable(), reads, refused(Refusal::VariablesElsewhere(here, there))),
        (variable().with(rule(10)), reads, { refused(Refusal::VariablesElsewhere(here, there)) }),
        (computes(false), reads, to(10, MAY_WRITE)),
        (computes(true), reads, to(10, MAY_WRITE)),
        (variable().holding(10, &[Pin::UserVariable]), reads, held(10, HELD)),
    ]);
}

#[test]
fn of_two_places_with_variables_each_is_asked_for_its_own() {
    let given = || {
        let one = app().holding_named(20, Pin::UserVariable, b"a");
        one.holding_named(10, Pin::UserVariable, b"b").with(rule(20))
    };
    let (writer, reader) = (HostgroupId(10), HostgroupId(20));
    check([
        (given(), "SELECT @A", held(20, RULE)),
        (given(), "SELECT @b", held(10, Reason::Stays)),
        (given(), "SELECT @c", held(20, RULE)),
        (given(), "SELECT @a, @b", refused(Refusal::VariablesElsewhere(writer, reader))),
        (given(), "SELECT @b := @a", held(20, RULE)),
        (given(), "SET @c = @a", held(20, RULE)),
    ]);
}

#[test]
fn what_may_read_a_variable_elsewhere_is_refused_as_well() {
    let (writer, reader) = (HostgroupId(10), HostgroupId(20));
    let given = || {
        let one = app().mariadb().holding_named(20, Pin::UserVariable, b"a");
        one.holding_named(10, Pin::UserVariable, b"b")
    };
    let lacks = || refused(Refusal::VariablesElsewhere(reader, writer));
    check([
        (given(), "INSERT INTO t VALUES (@`a`)", lacks()),
        (given(), "INSERT INTO t VALUES (@'A')", lacks()),
        (given(), "INSERT INTO t VALUES (@á)", lacks()),
        (given(), "INSERT INTO t SELECT EXTRACTVALUE('<a/>', '$@a')", lacks()),
        (given(), "EXECUTE p USING @b, @a", lacks()),
        (given(), "EXECUTE IMMEDIATE 'DO @a'", lacks()),
        (given(), "BEGIN NOT ATOMIC SET @c = @a; END", lacks()),
        (given(), "INSERT INTO t VALUES (@`b`, @c)", held(10, HELD)),
    ]);
    // One whose variables have no names has perhaps this one, and the other has it for certain.
    let into = || {
        let one = app().holding(20, &[Pin::UserVariable]).with(rule(20));
        one.holding_named(10, Pin::UserVariable, b"d")
    };
    check([
        (into(), "SELECT @c", held(20, RULE)),
        (into(), "SELECT @c + @d", refused(Refusal::VariablesElsewhere(writer, reader))),
    ]);
    let accent = app().holding_named(20, Pin::UserVariable, "é".as_bytes());
    check([(accent, "INSERT INTO t VALUES (@e)", lacks())]);
}

/// A transaction that only reads, on a reader.
fn reading(given: Given) -> Given {
    given.holding(20, &[Pin::Transaction]).reading_only()
}

#[test]
fn a_transaction_leaves_its_reader_for_what_may_write() {
    let insert = "INSERT INTO t VALUES (1)";
    let create = "CREATE TABLE x (a INT)";
    let stays = || held(20, Reason::Transaction);
    let other = |given: Given| reading(given).pinning(Pin::UserVariable);
    check([
        (reading(app()), SELECT, stays()),
        (reading(app()), insert, to(10, Reason::LeavesReader)),
        (reading(app()), "SELECT GET_LOCK('a', 1)", to(10, Reason::LeavesReader)),
        (reading(app()).with(rule(30)), insert, to(10, Reason::LeavesReader)),
        (reading(app()).with(rule(20)), insert, stays()),
        (reading(free()).with(rule(30)), insert, to(30, RULE)),
        (other(app()), insert, stays()),
        (reading(app()), create, to(10, Reason::LeavesReader)),
        (reading(app()).with(rule(30)), create, to(30, RULE)),
        (other(app()), create, refused(Refusal::HeldOnReader(Pin::UserVariable))),
        (reading(app()), "START TRANSACTION READ WRITE", to(10, Reason::LeavesReader)),
        (reading(app()), "BEGIN", stays()),
        (reading(app()).mariadb(), "BEGIN", to(10, Reason::LeavesReader)),
        (reading(app()), "COMMIT", stays()),
        (reading(app()).aim(Aim::Prepare { computes: false }), insert, stays()),
        (reading(app()).aim(Aim::Prepare { computes: true }), create, stays()),
    ]);
}

#[test]
fn a_transaction_that_leaves_its_reader_begins_anew_or_ends() {
    let become_of = |given: Given, text: &str| {
        let Decided { begins_read_only, gives_up, .. } = given.decide(text);
        (begins_read_only, gives_up)
    };
    let ends = GivesUp::Reader(conn(20));
    let (insert, nothing) = ("INSERT INTO t VALUES (1)", GivesUp::Nothing);
    assert_eq!(become_of(reading(app()), SELECT), (false, nothing));
    assert_eq!(become_of(reading(app()), insert), (true, nothing));
    // What ends it may have a syntax error, and then it does not.
    for ending in ["CREATE TABLE x (a INT", "LOCK TABLES t WRITER", "START TRANSACTION READ WRITE,"]
    {
        assert_eq!(become_of(reading(app()), ending), (true, nothing), "{ending}");
        assert_eq!(become_of(reading(app()).with(rule(30)), ending), (false, ends), "{ending}");
        let ruled = reading(app()).pinning(Pin::Rule);
        assert_eq!(become_of(ruled, ending), (false, ends), "{ending}");
    }
    assert_eq!(become_of(reading(app()).mariadb(), "BEGIN WORKS"), (true, nothing));
    // Nothing is locked, so nothing is committed, unless the session holds more elsewhere.
    let unlock = "UNLOCK TABLES";
    assert_eq!(become_of(reading(app()), unlock), (false, nothing));
    assert_eq!(reading(app()).decide(unlock).place, held(20, Reason::Transaction));
    let locking = reading(app()).holding(10, &[Pin::TableLock]);
    assert_eq!(become_of(locking, unlock), (false, ends));
    // A statement that runs says anew whether it does; one that is only prepared does not.
    let begun = || reading(app()).beginning_anew();
    assert_eq!(become_of(begun(), SELECT), (false, nothing));
    assert_eq!(become_of(begun().refused_by_limit(0), SELECT), (true, nothing));
    let prepared = begun().aim(Aim::Prepare { computes: false });
    assert_eq!(become_of(prepared.clone(), SELECT), (true, nothing));
    assert_eq!(prepared.decide(SELECT).place, to(10, Reason::LeavesReader));
}

#[test]
fn what_ends_transactions_in_several_hostgroups_ends_all() {
    let two = || free().holding(10, &[Pin::Transaction]).holding(30, &[Pin::Transaction]);
    let both = || free().writing(10).writing(30);
    let (ended, commit) = (Reason::EndsTransactions, "COMMIT");
    let refusal = Refusal::TwoHaveWritten(HostgroupId(10), HostgroupId(30));
    let more = free().holding(10, &[Pin::Transaction]);
    let more = more.holding(30, &[Pin::Transaction, Pin::UserVariable]);
    check([
        (two(), commit, held(10, ended)),
        (free().holding(10, &[Pin::Transaction]).writing(30), commit, held(30, ended)),
        (two().with(rule(20)), "SET autocommit = 1", held(10, ended)),
        (both(), commit, refused(refusal)),
        (both(), "ROLLBACK", held(10, ended)),
        (more, commit, refused(Refusal::HeldBeside(HostgroupId(30), Pin::UserVariable))),
        (two().aim(Aim::Prepare { computes: false }), commit, held(10, Reason::Transaction)),
    ]);
    let given_up = two().decide(commit).gives_up;
    assert_eq!(given_up, GivesUp::TransactionsBut(HostgroupId(10)));
    assert_eq!(two().decide(SELECT).gives_up, GivesUp::Nothing);
}

#[test]
fn what_commits_implicitly_goes_nowhere_while_another_hostgroup_has_written() {
    let written = || free().with(rule(10)).writing(30);
    let apart = refused(Refusal::OpenElsewhere(HostgroupId(30), HostgroupId(10)));
    check([
        (written(), "BEGIN", apart),
        (written(), "CREATE TABLE x (a INT)", apart),
        (written(), "LOCK TABLES t READ", apart),
        (written(), UPDATE, to(10, RULE)),
        (free().with(rule(30)).writing(30), "BEGIN", held(30, RULE)),
        (free().with(rule(10)).holding(30, &[Pin::Transaction]), "BEGIN", to(10, RULE)),
        (free().with(rule(10)).writing(30).reading_only(), "BEGIN", to(10, RULE)),
    ]);
}

#[test]
fn a_copy_goes_where_its_rules_or_its_originals_say() {
    let copy = |place: Option<u32>| app().aim(Aim::Copy(place.map(HostgroupId)));
    let denying = "[[firewall_user]]\nusername = \"app\"\nmode = \"PROTECTING\"\n";
    let fast = "[[fast_routing]]\nusername = \"app\"\nschemaname = \"shop\"\n\
                destination_hostgroup = 40\n";
    let ok = "[[rule]]\nid = 1\nOK_msg = \"done\"\n";
    check([
        (copy(Some(30)), SELECT, to(30, Reason::Mirror)),
        (copy(None), SELECT, to(10, Reason::MirrorDefault)),
        (copy(Some(30)).with(rule(40)), SELECT, to(40, RULE)),
        (copy(Some(30)).with(ok), SELECT, Err(Nowhere::Answered)),
        // Neither comments nor fast routing nor the firewall speak of copies.
        (copy(Some(30)), "/* hostgroup=40 */ SELECT a FROM t", to(30, Reason::Mirror)),
        (copy(Some(30)).with(fast), SELECT, to(30, Reason::Mirror)),
        (copy(Some(30)).with(denying).guarded(), SELECT, to(30, Reason::Mirror)),
    ]);
}
