use trunkline_protocol::response::ServerError;
use trunkline_sql::{analysis::analyse, token::Modes};

use super::*;

/// Session state as a server's OK packet says it: these variables have these values.
fn reported(variables: &[(&str, &str)]) -> Vec<u8> {
    let mut pairs = Vec::new();
    for text in variables.iter().flat_map(|(name, value)| [name, value]) {
        pairs.push(u8::try_from(text.len()).expect("short"));
        pairs.extend_from_slice(text.as_bytes());
    }
    let mut raw = vec![0, u8::try_from(pairs.len()).expect("short")];
    raw.append(&mut pairs);
    raw
}

fn apply(statement: &str, variables: &[(&str, &str)]) -> (SessionState, Pins) {
    let before = SessionState::new(Schema::None, Charset::Collation(45));
    let mut pins = Pins::default();
    let analysis = analyse(statement.as_bytes(), &Modes::default());
    let outcome = Outcome { changes: reported(variables), ..Outcome::default() };
    let applied = apply_outcome(&before, &mut pins, Some(&analysis), &outcome, Trust::Nothing);
    (applied.state.unwrap_or(before), pins)
}

#[test]
fn a_default_character_set_is_the_servers_and_not_the_logins() {
    let statement = "SET SESSION character_set_client = DEFAULT";
    let (state, pins) = apply(statement, &[("character_set_client", "latin1")]);
    assert_eq!(state.variable("character_set_client"), Some(&b"'latin1'"[..]));
    assert!(pins.is_empty());
    let (_, pins) = apply(statement, &[]);
    assert!(pins.has(PinReason::UnknownVariable));
}

#[test]
fn what_servers_report_of_themselves_is_not_the_sessions_state() {
    for name in ["last_gtid", "statement_id", "last_insert_id", "in_transaction"] {
        let (state, pins) = apply("INSERT INTO t VALUES (1)", &[(name, "7")]);
        assert_eq!(state.variables(), &[], "{name}");
        assert!(pins.is_empty(), "{name}");
    }
}

#[test]
fn a_character_set_that_is_named_under_settings_of_names_stays_where_it_is() {
    for (statement, pins_it) in [
        ("SET old_mode = '', NAMES utf8", true),
        ("SET old_mode = CONCAT('', ''), NAMES utf8", true),
        ("SET default_collation_for_utf8mb4 = 255, CHARACTER SET utf8mb4", true),
        ("SET NAMES utf8, old_mode = ''", false),
        ("SET old_mode = DEFAULT, NAMES utf8", false),
    ] {
        let (_, pins) = apply(statement, &[("old_mode", "")]);
        assert_eq!(pins.has(PinReason::UnknownVariable), pins_it, "{statement}");
    }
}

#[test]
fn a_list_of_flags_is_what_the_server_made_of_it() {
    let whole = "index_merge=off,mrr=off";
    let set = "SET optimizer_switch = 'mrr=off'";
    let (state, pins) = apply(set, &[("optimizer_switch", whole)]);
    assert_eq!(state.variable("optimizer_switch"), Some(&b"'index_merge=off,mrr=off'"[..]));
    assert!(pins.is_empty());
    // Without the server's word the session stays where the value is.
    let (state, pins) = apply(set, &[]);
    assert_eq!(state.variables(), &[]);
    assert!(pins.has(PinReason::UnknownVariable));
}

#[test]
fn a_literal_stays_as_it_was_written() {
    let (state, pins) = apply("SET time_zone = '+01:00'", &[("time_zone", "+01:00")]);
    assert_eq!(state.variable("time_zone"), Some(&b"'+01:00'"[..]));
    assert!(pins.is_empty());
}

#[test]
fn of_several_reports_the_last_one_counts() {
    let text = "SET sql_mode = CONCAT('', 'ANSI'); SET sql_mode = CONCAT('', '')";
    let (state, _) = apply(text, &[("sql_mode", "ANSI")]);
    assert_eq!(state.variable("sql_mode"), Some(&b"'ANSI'"[..]));
    let twice = [reported(&[("sql_mode", "ANSI")]), reported(&[("sql_mode", "")])].concat();
    let mut pins = Pins::default();
    let analysis = analyse(text.as_bytes(), &Modes::default());
    let outcome = Outcome { changes: twice, ..Outcome::default() };
    let applied = apply_outcome(&state, &mut pins, Some(&analysis), &outcome, Trust::Nothing);
    let state = applied.state.expect("it changed");
    assert_eq!(state.variable("sql_mode"), Some(&b"''"[..]));
}

#[test]
fn what_the_server_says_counts_where_the_text_does_not_tell() {
    let check = |statement, reported: &[(&str, &str)], name, value: &str| {
        let (state, pins) = apply(statement, reported);
        assert_eq!(state.variable(name), Some(value.as_bytes()), "{statement}");
        assert!(pins.is_empty(), "{statement}: {pins:?}");
    };
    // The server's default is not the handshake's character set.
    let client = "character_set_client";
    check("SET character_set_client = DEFAULT", &[(client, "latin1")], client, "'latin1'");
    check("SET autocommit = DEFAULT", &[("autocommit", "OFF")], "autocommit", "'OFF'");
    let (state, pins) = apply("SET autocommit = DEFAULT", &[("autocommit", "ON")]);
    assert!(state.variables().is_empty() && pins.is_empty(), "{pins:?}");
    let (_, pins) = apply("SET autocommit = DEFAULT", &[]);
    assert!(pins.has(PinReason::UnknownVariable));
    // The last value of a variable is what counts.
    let mode = "sql_mode";
    let text = "SET sql_mode = 'ANSI', sql_mode = CONCAT('', 'TRADITIONAL')";
    check(text, &[(mode, "TRADITIONAL")], mode, "'TRADITIONAL'");
    // One of these changes the other.
    let both = [("character_set_connection", "ascii"), ("collation_connection", "ascii_bin")];
    let text = "SET character_set_connection = 'utf8mb4', collation_connection = 'ascii_bin'";
    check(text, &both, "character_set_connection", "'ascii'");
}

#[test]
fn a_variable_that_is_assigned_without_a_name_may_be_any() {
    let mut before = SessionState::new(Schema::None, Charset::Collation(45));
    before.set_user_variable(b"n", b"1");
    before.set_user_variable(b"v", b"'select 1'");
    for (text, error, stays) in [
        ("SELECT CONCAT('a', 'b') INTO @v", None, false),
        ("SELECT id INTO @v FROM two", Some(1172), false),
        ("GET DIAGNOSTICS @v = NUMBER", None, false),
        ("LOAD DATA INFILE 'f' INTO TABLE t (a, @v)", None, false),
        ("CALL p(@v)", None, false),
        ("SELECT 1 FROM nowhere INTO @v", Some(1146), true),
        ("SELECT @v, @n", None, true),
    ] {
        let mut pins = Pins::default();
        let analysis = analyse(text.as_bytes(), &Modes::default());
        let error =
            error.map(|code| ServerError { code, sqlstate: *b"HY000", message: (*b"no").into() });
        let outcome = Outcome { error, ..Outcome::default() };
        let applied = apply_outcome(&before, &mut pins, Some(&analysis), &outcome, Trust::Reports);
        let state = applied.state.unwrap_or_else(|| before.clone());
        assert_eq!(state.user_variables().is_empty(), !stays, "{text}");
        assert_eq!(pins.has(PinReason::UserVariable), !stays, "{text}");
        let mut names: Vec<_> = pins.names(PinReason::UserVariable).collect();
        names.sort();
        assert_eq!(names, if stays { vec![] } else { vec![&b"n"[..], b"v"] }, "{text}");
    }
}

#[test]
fn a_long_value_of_a_variable_stays_where_it_is() {
    for (len, stays) in [(100, false), (5_000, true)] {
        let text = format!("SET sql_mode='{}'", "x".repeat(len));
        let before = SessionState::new(Schema::None, Charset::Collation(45));
        let mut pins = Pins::default();
        let analysis = analyse(text.as_bytes(), &Modes::default());
        let outcome = Outcome::default();
        let applied = apply_outcome(&before, &mut pins, Some(&analysis), &outcome, Trust::Reports);
        assert_eq!(pins.has(PinReason::UnknownVariable), stays, "{len}");
        let is_carried = applied.state.is_some_and(|it| it.variable("sql_mode").is_some());
        assert_eq!(is_carried, !stays, "{len}");
    }
}

#[test]
fn a_locks_name_comes_into_the_character_set_of_the_connection() {
    let collation = ("collation_connection", "swe7_bin");
    for (text, set, ends) in [
        ("SELECT RELEASE_LOCK('[')", None, true),
        ("SELECT RELEASE_LOCK('[')", Some(collation), false),
        ("SELECT RELEASE_LOCK('a')", Some(collation), true),
        ("SELECT RELEASE_LOCK('a')", Some(("collation_connection", "'UCS2_bin'")), false),
    ] {
        let mut state = SessionState::new(Schema::None, Charset::Collation(45));
        let mut pins = Pins::default();
        let mut run = |text: &str, state: &SessionState| {
            let analysis = analyse(text.as_bytes(), &Modes::default());
            let outcome = Outcome { rows: 1, ..Outcome::default() };
            apply_outcome(state, &mut pins, Some(&analysis), &outcome, Trust::Nothing);
        };
        run(&text.replace("RELEASE_LOCK(", "GET_LOCK(").replace("')", "', 0)"), &state);
        if let Some((name, value)) = set {
            state.set_variable(name, value.as_bytes());
        }
        run(text, &state);
        assert_eq!(!pins.has(PinReason::NamedLock), ends, "{text} {set:?}");
    }
}

#[test]
fn a_session_that_sets_its_trackers_is_held_only_until_the_rest_is_known() {
    let apply = |statement: &str, changes: &[(&str, &str)], error: bool| {
        let before = SessionState::new(Schema::None, Charset::Collation(45));
        let mut pins = Pins::default();
        let analysis = analyse(statement.as_bytes(), &Modes::default());
        let error = error.then(|| ServerError {
            code: 1231,
            sqlstate: *b"42000",
            message: (*b"no").into(),
        });
        let outcome = Outcome { changes: reported(changes), error, ..Outcome::default() };
        let applied = apply_outcome(&before, &mut pins, Some(&analysis), &outcome, Trust::Reports);
        (applied, pins)
    };
    let own = "SET autocommit=1,sql_mode=CONCAT(@@sql_mode,',ANSI'),session_track_schema=1,\
               session_track_system_variables=CONCAT('time_zone','')";
    let (applied, mut pins) = apply(own, &[], false);
    assert_eq!(applied.trackers_set.as_deref(), Some(&["sql_mode".to_owned()][..]));
    assert_eq!(pins.reasons().collect::<Vec<_>>(), [PinReason::UnknownVariable]);
    let state = applied.state.unwrap_or_else(|| SessionState::new(Schema::None, Charset::Unknown));
    assert_eq!(state.variable("session_track_schema"), None);
    // The server says it when it is asked.
    let outcome = Outcome { changes: reported(&[("sql_mode", "ANSI")]), ..Outcome::default() };
    let state = apply_report(&state, &mut pins, &outcome).expect("a new state");
    assert_eq!(state.variable("sql_mode"), Some(&b"'ANSI'"[..]));
    assert!(pins.is_empty(), "{pins:?}");
    // What it has reported, it need not be asked for.
    let (applied, pins) = apply(own, &[("sql_mode", "ANSI")], false);
    assert_eq!(applied.trackers_set, Some(Vec::new()));
    assert!(pins.is_empty(), "{pins:?}");
    // What may have changed unseen meanwhile holds the session, and so does what can't be asked.
    for (statement, error, reason) in [
        ("SET session_track_system_variables=''; SET NAMES latin1", false, PinReason::Other),
        ("SET session_track_system_variables='', @a = f()", false, PinReason::Other),
        ("SET session_track_system_variables='x'", true, PinReason::Other),
        ("SET session_track_schema=0, timestamp=1+1", false, PinReason::UnknownVariable),
    ] {
        let (_, pins) = apply(statement, &[], error);
        assert!(pins.has(reason), "{statement}: {pins:?}");
    }
    let (applied, pins) = apply("SET GLOBAL session_track_schema=0", &[], false);
    assert!(applied.trackers_set.is_none() && pins.is_empty());
}

#[test]
fn what_is_set_for_one_statement_is_not_the_sessions() {
    let text = "SET STATEMENT time_zone = '+01:00', `Max_Statement_Time`=7 FOR SELECT 1";
    let (state, pins) = apply(text, &[("time_zone", "+01:00"), ("max_statement_time", "7")]);
    assert_eq!(state.variables(), &[]);
    assert!(pins.is_empty(), "{pins:?}");
    // Another statement of the same text may have set it for good.
    let both = [text, "SET time_zone = CONCAT('+', '02:00')"].join(";");
    let (_, pins) = apply(&both, &[("time_zone", "+02:00")]);
    assert!(pins.has(PinReason::UnknownVariable));
}

#[test]
fn what_failed_holds_its_session_unless_nothing_of_it_ran() {
    let pins_of = |text: &str, code: u16| {
        let before = SessionState::new(Schema::None, Charset::Collation(45));
        let mut pins = Pins::default();
        let analysis = analyse(text.as_bytes(), &Modes::default());
        let error = ServerError { code, sqlstate: *b"42000", message: (*b"no").into() };
        let outcome = Outcome { error: Some(error), ..Outcome::default() };
        apply_outcome(&before, &mut pins, Some(&analysis), &outcome, Trust::Nothing);
        pins.reasons().collect::<Vec<_>>()
    };
    for (text, code, expected) in [
        ("SELECT id INTO @a FROM two", 1172, &[PinReason::UserVariable][..]),
        ("INSERT INTO uq SELECT @u:=7", 1062, &[PinReason::UserVariable]),
        ("SELECT GET_LOCK('l', 0), (SELECT id FROM two)", 1242, &[PinReason::NamedLock]),
        ("SET @s = 'a', @t = \"b\"", 1054, &[PinReason::UserVariable]),
        ("SET time_zone = '+01:00', sql_mode = 'no'", 1231, &[]),
        ("SET time_zone = '+01:00', autocommit = 1", 1180, &[PinReason::UnknownVariable]),
        (
            "SET time_zone = CONCAT('+', '01:00'), sql_mode = 'no'",
            1231,
            &[PinReason::UnknownVariable],
        ),
        ("SET sql_mode = 'no'", 1231, &[]),
        ("SET @a = ", 1064, &[]),
        ("SELECT id INTO @a FROM missing", 1146, &[]),
        ("CREATE TEMPORARY TABLE t (a INT)", 1050, &[]),
        ("USE missing", 1049, &[]),
        ("SET ROLE r; SELECT 1", 1146, &[PinReason::Connection]),
        ("CALL p()", 1644, &[PinReason::Routine]),
        // It may be the error of a trigger's statement.
        ("INSERT INTO t VALUES (GET_LOCK('l', 0))", 1054, &[PinReason::NamedLock]),
        ("INSERT INTO t VALUES (@a := 5)", 1142, &[PinReason::UserVariable]),
        ("UPDATE t SET a = @a := 5", 1146, &[PinReason::UserVariable]),
        ("DELETE FROM t WHERE a = (@a := 5)", 1064, &[PinReason::UserVariable]),
        ("SELECT @a := b FROM t", 1054, &[]),
    ] {
        assert_eq!(pins_of(text, code), expected, "{text} {code}");
    }
}

#[test]
fn issue_16_a_text_with_a_result_before_its_error_was_more_than_one_statement() {
    for (status, expected) in [(None, &[][..]), (Some(2), &[PinReason::Routine])] {
        let before = SessionState::new(Schema::None, Charset::Collation(45));
        let mut pins = Pins::default();
        let analysis = analyse(b"CREATE PROCEDURE p() BEGIN SELECT 1; END", &Modes::default());
        let error = ServerError { code: 1064, sqlstate: *b"42000", message: (*b"no").into() };
        let outcome = Outcome { error: Some(error), status, ..Outcome::default() };
        apply_outcome(&before, &mut pins, Some(&analysis), &outcome, Trust::Reports);
        assert_eq!(pins.reasons().collect::<Vec<_>>(), expected, "{status:?}");
    }
}

#[test]
fn issue_16_only_literals_that_mean_the_same_everywhere_follow_their_session() {
    for (text, follows) in [
        ("SET @a = _latin1'x'", true),
        ("SET @a = N'x'", true),
        ("SET @a = x'41', @b = b'01'", true),
        ("SET @a = TIMESTAMP'2020-01-01 12:00:00+05:00'", false),
        ("SET @a = DATE '2020-01-01'", false),
        ("SET @a = SYSDATE", false),
        ("SET @a = NULL, @b = true, @c = False", true),
    ] {
        let (state, pins) = apply(text, &[]);
        assert_eq!(pins.has(PinReason::UserVariable), !follows, "{text}");
        assert_eq!(state.user_variables().is_empty(), !follows, "{text}");
    }
    // What a character set is called, and which collation it comes with, may be something else.
    for name in ["old_mode", "character_set_collations", "default_collation_for_utf8mb4"] {
        let mut before = SessionState::new(Schema::None, Charset::Collation(45));
        before.set_user_variable(b"a", b"_utf8'x'");
        let mut after = before.clone();
        after.set_variable(name, b"'x'");
        assert!(!after.reads_strings_as(&before), "{name}");
    }
}

#[test]
fn a_lock_is_released_only_by_what_was_computed() {
    let held = |text: &str, rows: u64, limit: Option<&[u8]>| {
        let mut state = SessionState::new(Schema::None, Charset::Collation(45));
        if let Some(limit) = limit {
            state.set_variable("sql_select_limit", limit);
        }
        let mut pins = Pins::default();
        for (text, rows) in [("SELECT GET_LOCK('l', 0)", 1), (text, rows)] {
            let analysis = analyse(text.as_bytes(), &Modes::default());
            let outcome = Outcome { rows, ..Outcome::default() };
            apply_outcome(&state, &mut pins, Some(&analysis), &outcome, Trust::Nothing);
        }
        pins.has(PinReason::NamedLock)
    };
    for (text, rows, limit, expected) in [
        ("SELECT RELEASE_LOCK('l')", 1, None, false),
        ("SELECT RELEASE_ALL_LOCKS()", 1, None, false),
        ("SELECT RELEASE_LOCK('l')", 1, Some(&b"5"[..]), false),
        ("SELECT RELEASE_LOCK('l')", 0, None, true),
        ("SELECT RELEASE_LOCK('l')", 0, Some(b"0"), true),
        ("SELECT RELEASE_ALL_LOCKS()", 0, Some(b"0"), true),
        ("SELECT RELEASE_LOCK('l'); SELECT 1 UNION SELECT 2", 1, None, true),
        ("DO RELEASE_LOCK('l')", 0, None, false),
        ("DO RELEASE_ALL_LOCKS()", 0, None, false),
        ("DO RELEASE_LOCK('l')", 0, Some(b"0"), true),
    ] {
        assert_eq!(held(text, rows, limit), expected, "{text} {rows} {limit:?}");
    }
}

#[test]
fn issue_16_a_value_that_the_server_adjusted_is_the_servers() {
    let set = |warnings, reported_as: &str| {
        let before = SessionState::new(Schema::None, Charset::Collation(45));
        let analysis = analyse(b"SET wait_timeout = 99999999", &Modes::default());
        let changes = reported(&[("wait_timeout", reported_as)]);
        let outcome = Outcome { changes, warnings, ..Outcome::default() };
        let mut pins = Pins::default();
        let applied = apply_outcome(&before, &mut pins, Some(&analysis), &outcome, Trust::Nothing);
        applied.state.and_then(|state| Some(state.variable("wait_timeout")?.to_vec()))
    };
    // Another session's strict sql_mode refuses what this one's has adjusted.
    assert_eq!(set(1, "31536000").as_deref(), Some(&b"31536000"[..]));
    assert_eq!(set(0, "99999999").as_deref(), Some(&b"99999999"[..]));
}

#[test]
fn issue_16_names_of_character_sets_are_the_servers() {
    // What `utf8` means depends on the old_mode of whoever says it.
    for name in ["character_set_server", "collation_server", "character_set_filesystem"] {
        let (state, pins) = apply(&format!("SET {name} = utf8"), &[(name, "utf8mb3")]);
        assert_eq!(state.variable(name), Some(&b"'utf8mb3'"[..]), "{name}");
        assert!(pins.is_empty(), "{name}");
    }
}

#[test]
fn what_is_null_is_not_an_empty_text() {
    let set = "SET enforce_storage_engine = @old";
    let (state, _) = apply(set, &[("enforce_storage_engine", "")]);
    assert_eq!(state.variable("enforce_storage_engine"), Some(&b"NULL"[..]));
}

#[test]
fn an_isolation_level_is_serializable_however_it_is_written() {
    for level in ["'SERIALIZABLE'", "\"serializable\"", "SERIALIZABLE", "3", "+3"] {
        let mut state = SessionState::new(Schema::None, Charset::Collation(45));
        state.set_variable("transaction_isolation", level.as_bytes());
        assert!(state.is_serializable(), "{level}");
    }
    let mut state = SessionState::new(Schema::None, Charset::Collation(45));
    state.set_variable("transaction_isolation", b"2");
    assert!(!state.is_serializable());
}

#[test]
fn issue_16_of_two_names_of_one_variable_the_one_that_was_said_is_said_again() {
    // MariaDB 11.8 has no `old_alter_table`, others no `alter_algorithm`.
    for (name, other) in PAIRS {
        let mut state = SessionState::new(Schema::None, Charset::Collation(45));
        state.set_variable(other, b"'before'");
        let analysis = analyse(format!("SET {name} = 'now'").as_bytes(), &Modes::default());
        let changes = reported(&[(name, "now")]);
        let outcome = Outcome { changes, ..Outcome::default() };
        let mut pins = Pins::default();
        let applied = apply_outcome(&state, &mut pins, Some(&analysis), &outcome, Trust::Nothing);
        let state = applied.state.expect("it changed");
        assert_eq!(state.variable(name), Some(&b"'now'"[..]), "{name}");
        assert_eq!(state.variable(other), None, "{name}");
    }
}

#[test]
fn issue_16_the_collation_of_a_schema_is_asked_for_once_it_is_taken() {
    let set = |text: &str, warnings| {
        let mut before = SessionState::new(Schema::None, Charset::Collation(45));
        before.set_variable("collation_connection", b"'greek_bin'");
        let analysis = analyse(text.as_bytes(), &Modes::default());
        let outcome = Outcome { warnings, ..Outcome::default() };
        let mut pins = Pins::default();
        let applied = apply_outcome(&before, &mut pins, Some(&analysis), &outcome, Trust::Nothing);
        (applied, pins)
    };
    let (applied, mut pins) = set("SET CHARACTER SET utf8mb4", 0);
    assert_eq!(applied.asks, ["collation_connection"]);
    assert!(pins.has(PinReason::UnknownVariable));
    let changes = reported(&[("collation_connection", "latin1_german1_ci")]);
    let outcome = Outcome { changes, ..Outcome::default() };
    let state = applied.state.expect("another one");
    let state = apply_report(&state, &mut pins, &outcome).expect("another one");
    assert_eq!(state.variable("collation_connection"), Some(&b"'latin1_german1_ci'"[..]));
    assert!(pins.is_empty(), "{pins:?}");
    // With `NAMES` behind it, it is the character set's own.
    let (applied, pins) = set("SET CHARACTER SET utf8mb4, NAMES latin1", 0);
    assert!(applied.asks.is_empty() && pins.is_empty(), "{pins:?}");
    // What could be read of warnings would be lost by the question.
    let (applied, pins) = set("SET CHARACTER SET utf8mb4", 1);
    assert!(applied.asks.is_empty() && pins.has(PinReason::UnknownVariable));
}

#[test]
fn issue_16_the_character_set_of_a_schema_ends_with_it() {
    let mut before = SessionState::new((&b"a"[..]).into(), Charset::Collation(45));
    before.set_variable("collation_database", b"'greek_bin'");
    let apply = |text: &str, changes: &[u8]| {
        let analysis = analyse(text.as_bytes(), &Modes::default());
        let outcome = Outcome { changes: changes.to_vec(), ..Outcome::default() };
        let mut pins = Pins::default();
        let applied = apply_outcome(&before, &mut pins, Some(&analysis), &outcome, Trust::Nothing);
        (applied.state.unwrap_or_else(|| before.clone()), pins)
    };
    for (text, changes) in [("USE b", &b""[..]), ("USE a", b""), ("DROP DATABASE a", b"\x01\x01\0")]
    {
        let (state, pins) = apply(text, changes);
        assert_eq!(state.variables(), &[], "{text}");
        assert!(pins.is_empty(), "{text}: {pins:?}");
    }
    let (_, pins) = apply("ALTER DATABASE a CHARACTER SET latin1", b"");
    assert!(pins.has(PinReason::UnknownVariable));
}

#[test]
fn issue_16_a_moment_holds_its_session_until_there_is_none() {
    let before = SessionState::new(Schema::None, Charset::Collation(45));
    let mut pins = Pins::default();
    for (value, told, holds) in [
        ("'2020-01-01'", "2020-01-01 00:00:00.000000", true),
        ("CONCAT('2020-01-02')", "2020-01-02 00:00:00.000000", true),
        ("DEFAULT", "DEFAULT", false),
        ("@none", "DEFAULT", false),
    ] {
        let text = format!("SET system_versioning_asof = {value}");
        let analysis = analyse(text.as_bytes(), &Modes::default());
        let changes = reported(&[("system_versioning_asof", told)]);
        let outcome = Outcome { changes, ..Outcome::default() };
        let applied = apply_outcome(&before, &mut pins, Some(&analysis), &outcome, Trust::Nothing);
        assert_eq!(pins.has(PinReason::UnknownVariable), holds, "{text}");
        assert!(applied.state.is_none(), "{text}");
    }
}
