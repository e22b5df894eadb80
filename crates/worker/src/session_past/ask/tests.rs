use super::*;
use crate::tests::TestWorker;

#[test]
fn a_number_is_read_with_white_space_around_it() {
    assert_eq!(parsed(b" 12 "), Some(12));
    assert_eq!(parsed(b"-1"), None);
    assert_eq!(parsed(b"12x"), None);
    assert_eq!(parsed(b"\xFF"), None);
}

fn packet(payload: &[u8]) -> Vec<u8> {
    let mut frames = Vec::new();
    put_payload(&mut frames, 0, payload);
    frames
}

#[test]
fn a_text_is_the_end_of_its_packet() {
    let frames = packet(b"\x03SELECT 1");
    assert_eq!(text_of(&frames, 8), Some(&b"SELECT 1"[..]));
    assert_eq!(text_of(&frames, 1), Some(&b"1"[..]));
    assert_eq!(text_of(&frames, 99), None);
}

#[test]
fn a_text_in_several_packets_is_in_none() {
    assert_eq!(text_of(&[0xFF, 0xFF, 0xFF, 0, b'x'], 1), None);
    assert_eq!(text_of(&[], 0), None);
}

#[test]
fn a_text_is_replaced_and_what_is_before_it_stays() {
    let mut frames = packet(b"\x03\0\x01SELECT 1");
    put_text(&mut frames, 8, b"DO 2");
    assert_eq!(frames, packet(b"\x03\0\x01DO 2"));
}

#[test]
fn a_statement_that_names_its_sessions_past_reads_it() {
    let mut world = TestWorker::new();
    for (text, expected) in [
        ("SELECT LAST_INSERT_ID()", true),
        ("SELECT ROW_COUNT()", true),
        ("SHOW WARNINGS", true),
        ("SELECT CONNECTION_ID()", true),
        ("INSERT INTO t VALUES (1)", true),
        ("SELECT 1", false),
        ("SET NAMES latin1", false),
    ] {
        let mut statement = world.statement(text);
        statement.meaning.proof.hidden = Hidden::empty();
        assert_eq!(reads_past(&statement), expected, "{text}");
    }
}

#[test]
fn what_is_behind_a_name_may_run_code() {
    let mut world = TestWorker::new();
    let mut statement = world.statement("SELECT a FROM t");
    statement.meaning.proof.hidden = Hidden::empty();
    assert!(!runs_code(&statement));
    statement.meaning.proof.hidden = Hidden::READS_SESSION;
    assert!(runs_code(&statement));
}

#[test]
fn what_was_left_is_asked_for_where_all_of_it_is() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    let session = world.session(client);
    let (last, found) =
        ((ConnId { index: 1, generation: 1 }, 1), (ConnId { index: 2, generation: 1 }, 1));
    (session.last_conn, session.past.found_conn) = (Some(last), Some(found));
    assert_eq!(asked_place(session, Depends::DIAGNOSTICS), Some(last));
    assert_eq!(asked_place(session, Depends::FOUND_ROWS), Some(found));
    assert_eq!(asked_place(session, Depends::FOUND_ROWS | Depends::ROW_COUNT), None);
    session.past.found_conn = Some(last);
    assert_eq!(asked_place(session, Depends::FOUND_ROWS | Depends::ROW_COUNT), Some(last));
}

#[test]
fn a_row_count_that_is_apart_is_on_no_connection() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    let session = world.session(client);
    session.last_conn = Some((ConnId { index: 1, generation: 1 }, 1));
    session.past.counts_rows_apart(5);
    assert_eq!(asked_place(session, Depends::ROW_COUNT), None);
    assert_eq!(asked_place(session, Depends::DIAGNOSTICS), session.last_conn);
}
