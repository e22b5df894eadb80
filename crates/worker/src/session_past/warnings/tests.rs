use super::*;

const ALL: ShowDiagnostics =
    ShowDiagnostics { errors_only: false, counts: false, offset: 0, limit: u64::MAX };

/// An answer to `SHOW WARNINGS` with these rows.
fn answer(rows: &[[&str; 3]]) -> Vec<u8> {
    let text = |text: &&str| Some(text.as_bytes().to_vec());
    let rows: Vec<_> = rows.iter().map(|row| row.iter().map(text).collect()).collect();
    let mut bytes = Vec::new();
    put_text_result(&mut bytes, 1, ReplyFormat::PLAIN, 0, &["Level", "Code", "Message"], &rows);
    bytes
}

const ROWS: [[&str; 3]; 3] = [
    ["Warning", "1265", "Data truncated"],
    ["Error", "1062", "Duplicate entry"],
    ["Note", "1051", "Unknown table"],
];

fn read(rows: &[[&str; 3]]) -> Warnings {
    Warnings::read(&answer(rows)).expect("an answer")
}

/// The rows that are shown, by their codes.
fn shown(warnings: &Warnings, show: ShowDiagnostics) -> Vec<u64> {
    let mut out = Vec::new();
    warnings.put(&mut out, show, ReplyFormat::PLAIN, 0);
    let read = Warnings::read(&out).expect("an answer");
    (0..read.rows.len())
        .map(|at| {
            let one = Warnings { rows: vec![read.rows[at].clone()], ..Warnings::default() };
            one.number(1).expect("a code")
        })
        .collect()
}

#[test]
fn warnings_are_counted_with_the_errors_among_them() {
    assert_eq!(read(&ROWS).counts(), (3, 1));
    assert_eq!(read(&[]).counts(), (0, 0));
}

#[test]
fn what_was_read_is_written_again_byte_for_byte() {
    let mut out = Vec::new();
    read(&ROWS).put(&mut out, ALL, ReplyFormat::PLAIN, 0);
    assert_eq!(out, answer(&ROWS));
}

#[test]
fn only_errors_are_shown_where_they_are_asked_for() {
    assert_eq!(shown(&read(&ROWS), ShowDiagnostics { errors_only: true, ..ALL }), [1062]);
}

#[test]
fn a_limit_leaves_rows_out_at_both_ends() {
    assert_eq!(shown(&read(&ROWS), ShowDiagnostics { offset: 1, limit: 1, ..ALL }), [1062]);
    assert!(shown(&read(&ROWS), ShowDiagnostics { offset: 9, ..ALL }).is_empty());
}

#[test]
fn an_answer_that_was_cut_off_has_the_rows_that_came() {
    let bytes = answer(&ROWS);
    let end = bytes.len() - 30;
    assert_eq!(Warnings::read(&bytes[..end]).map(|it| it.counts().0), Some(2));
}

#[test]
fn what_is_no_answer_with_rows_is_not_read() {
    assert_eq!(Warnings::read(b""), None);
    assert_eq!(Warnings::read(b"\x07\0\0\x01\0\0\0\x02\0\0\0"), None, "an OK");
}

#[test]
fn a_number_is_read_from_its_place() {
    let numbers = read(&[["1", "22", "333"]]);
    let found = [0, 1, 2, 3].map(|place| numbers.number(place));
    assert_eq!(found, [Some(1), Some(22), Some(333), None]);
    assert_eq!(read(&ROWS).number(0), None, "a word");
    assert_eq!(read(&[]).number(0), None);
}

#[test]
fn a_prepared_statements_row_has_its_code_as_a_number() {
    let row = binary_row(b"\x05Error\x041062\x01x").expect("a row");
    assert_eq!(row, b"\0\0\x05Error\x26\x04\0\0\x01x");
    assert_eq!(binary_row(b"\x05Error\x03abc\x01x"), None);
}

fn error() -> ServerError {
    ServerError { code: 1064, sqlstate: *b"42000", message: b"syntax"[..].into() }
}

#[test]
fn an_error_outlasts_its_connection() {
    let error = error();
    let rows = remembered((0, Some(&error)), false).expect("rows");
    assert_eq!((rows.counts(), rows.number(1)), ((1, 1), Some(1064)));
}

#[test]
fn lost_warnings_are_told_by_their_number() {
    let rows = remembered((3, None), false).expect("rows");
    assert_eq!(rows.counts(), (1, 0));
    let text = String::from_utf8_lossy(&rows.rows[0]).into_owned();
    assert!(text.contains("3 warnings were lost with their connection"), "{text}");
    assert_eq!(remembered((3, None), true).expect("rows").counts(), (0, 0));
}

#[test]
fn an_answer_is_kept_in_the_plain_form_but_for_left_out_definitions() {
    let server = ReplyFormat { deprecate_eof: true, session_track: true, ..ReplyFormat::PLAIN };
    assert_eq!(captured_format(server), ReplyFormat::PLAIN);
    let server = ReplyFormat { optional_metadata: true, ..server };
    assert!(captured_format(server).optional_metadata);
}
