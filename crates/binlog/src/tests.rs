//! Whole events, as servers write them.

use std::fmt;

use trunkline_protocol::codec::{
    compressed::{Compressor, Corrupt, Method, Unpacking},
    put_u16, put_u32, put_u64,
};

use crate::{BinlogError, Change, Changes, Decoder, Kind, crc::crc32, frames::Framed};

/// Stands for the libraries: "compressed" is as it was.
struct Plain;

impl Compressor for Plain {
    fn compress(&mut self, _: Method, _: &[u8], _: &mut Vec<u8>) -> bool {
        false
    }

    fn decompress(
        &mut self,
        _: Method,
        packed: &[u8],
        plain_max: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Corrupt> {
        out.extend_from_slice(packed);
        if packed.len() > plain_max { Err(Corrupt) } else { Ok(()) }
    }

    fn unpacking(&mut self, _: Method) -> Result<Box<dyn Unpacking>, Corrupt> {
        Err(Corrupt)
    }
}

impl fmt::Debug for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Plain")
    }
}

/// An event, with a checksum if that is wanted.
fn event(code: u8, body: &[u8], has_checksum: bool) -> Vec<u8> {
    let checksum = if has_checksum { 4 } else { 0 };
    let mut out = Vec::new();
    put_u32(&mut out, 1_700_000_000);
    out.push(code);
    put_u32(&mut out, 7);
    put_u32(&mut out, u32::try_from(19 + body.len() + checksum).expect("short"));
    put_u32(&mut out, 0);
    put_u16(&mut out, 0);
    out.extend_from_slice(body);
    if has_checksum {
        let crc = crc32(&out);
        put_u32(&mut out, crc);
    }
    out
}

fn format(method: u8) -> Vec<u8> {
    let mut body = vec![4, 0];
    body.extend([b'1'; 50]);
    body.extend([0, 0, 0, 0, 19]);
    body.extend([0; 40]);
    body.push(method);
    event(15, &body, true)
}

fn query(schema: &str, statement: &str) -> Vec<u8> {
    let mut body = vec![0; 8];
    body.push(u8::try_from(schema.len()).expect("short"));
    body.extend([0; 4]);
    body.extend(schema.as_bytes());
    body.push(0);
    body.extend(statement.as_bytes());
    body
}

/// A table `s.t` with a number and a text.
fn table_map(id: u8) -> Vec<u8> {
    let mut body = vec![id, 0, 0, 0, 0, 0, 1, 0];
    body.extend(b"\x01s\0\x01t\0");
    body.extend([2, 3, 15, 2, 20, 0, 0]);
    body
}

/// Rows of it: `count` of them.
fn rows(id: u8, flags: u8, count: usize) -> Vec<u8> {
    let mut body = vec![id, 0, 0, 0, 0, 0, flags, 0, 2, 0, 2, 3];
    body.extend([0, 1, 0, 0, 0, 2, b'h', b'i'].repeat(count));
    body
}

fn gtid_of_mariadb(number: u64, flags: u8) -> Vec<u8> {
    let mut body = Vec::new();
    put_u64(&mut body, number);
    put_u32(&mut body, 0);
    body.push(flags);
    body
}

fn gtid_of_mysql(number: u64) -> Vec<u8> {
    let mut body = vec![1];
    body.extend([0xAB; 16]);
    put_u64(&mut body, number);
    body.push(2);
    body.extend([0; 16]);
    body.extend([1, 0, 0, 0, 0, 0, 0]);
    body
}

/// What comes of events.
fn changes(events: &[Vec<u8>]) -> Result<Vec<Change>, BinlogError> {
    let (mut decoder, mut changes) = (Decoder::new(), Changes::new());
    let mut all = Vec::new();
    for bytes in events {
        decoder.read(Framed { bytes, is_whole: true }, &mut Plain, &mut |event| {
            all.extend(changes.take(&event));
            Ok(())
        })?;
    }
    Ok(all)
}

/// A change in few words.
fn told(change: &Change) -> String {
    let mut text = format!("{} {}", change.gtid, change.at_us);
    for table in &change.tables {
        let counts = format!("+{} ~{} -{}", table.inserted, table.updated, table.deleted);
        text.push_str(&format!(" {}.{} {counts}", table.name.schema, table.name.table));
        text.push_str(if table.is_counted { "" } else { " uncounted" });
    }
    for statement in &change.statements {
        text.push_str(&format!(" [{}: {}]", statement.schema, statement.words));
    }
    text.push_str(if change.is_complete { "" } else { " incomplete" });
    text
}

fn all_told(events: &[Vec<u8>]) -> Vec<String> {
    changes(events).expect("events").iter().map(told).collect()
}

#[test]
fn transactions_of_mariadb_are_told_at_their_ends() {
    let on = |code, body: &[u8]| event(code, body, true);
    let told = all_told(&[
        format(1),
        on(162, &gtid_of_mariadb(1, 1)),
        on(2, &query("s", "CREATE TABLE t (a INT)")),
        on(162, &gtid_of_mariadb(2, 0)),
        on(19, &table_map(5)),
        on(30, &rows(5, 0, 2)),
        on(30, &rows(5, 1, 3)),
        on(19, &table_map(5)),
        on(32, &rows(5, 1, 1)),
        on(2, &query("s", "SAVEPOINT a")),
        on(2, &query("s", "ROLLBACK TO `a`")),
        on(16, &[0; 8]),
        on(162, &gtid_of_mariadb(3, 0)),
        on(2, &query("s", "UPDATE t SET a = 1")),
        on(2, &query("s", "COMMIT")),
    ]);
    let at = "1700000000000000";
    let expected = [
        format!("0-7-1 {at} [s: CREATE TABLE]"),
        format!("0-7-2 {at} s.t +5 ~0 -1"),
        format!("0-7-3 {at} [s: UPDATE]"),
    ];
    assert_eq!(told, expected);
}

#[test]
fn transactions_of_mysql_are_told_whether_compressed_or_not() {
    let off = |code, body: &[u8]| event(code, body, false);
    let inner = [
        off(2, &query("s", "BEGIN")),
        off(19, &table_map(5)),
        off(30, &rows(5, 1, 2)),
        off(16, &[0; 8]),
    ]
    .concat();
    let mut payload = vec![2, 1, 0, 3, 3, 0xFC];
    put_u16(&mut payload, u16::try_from(inner.len()).expect("short"));
    payload.extend([1, 3, 0xFC]);
    put_u16(&mut payload, u16::try_from(inner.len()).expect("short"));
    payload.push(0);
    payload.extend(inner);
    let told = all_told(&[
        format(0),
        off(33, &gtid_of_mysql(1)),
        off(2, &query("s", "DROP TABLE t")),
        off(33, &gtid_of_mysql(2)),
        off(40, &payload),
        off(33, &gtid_of_mysql(3)),
        off(2, &query("s", "BEGIN")),
        off(19, &table_map(5)),
        off(30, &rows(5, 1, 1)),
        off(16, &[0; 8]),
        off(34, &[0; 25]),
        off(2, &query("s", "DROP TABLE u")),
    ]);
    let uuid = "abababab-abab-abab-abab-abababababab";
    let expected = [
        format!("{uuid}:1 1 [s: DROP TABLE]"),
        format!("{uuid}:2 1 s.t +2 ~0 -0"),
        format!("{uuid}:3 1 s.t +1 ~0 -0"),
    ];
    assert_eq!(told, expected);
}

#[test]
fn what_is_wrong_is_named() {
    let check = |events: &[Vec<u8>], expected: BinlogError| {
        assert_eq!(changes(events), Err(expected));
    };
    let mut wrong = event(16, &[0; 8], true);
    wrong[20] ^= 1;
    check(&[format(1), wrong], BinlogError::Checksum(16));
    check(&[format(1), event(16, &[0; 8], false)], BinlogError::Checksum(16));
    check(&[event(30, &rows(5, 1, 1), false)], BinlogError::UnknownTable(5));
    // A table is described for one statement.
    let again = [event(19, &table_map(5), false), event(30, &rows(5, 1, 1), false)];
    let again = [&again[..], &again[1..]].concat();
    check(&again, BinlogError::UnknownTable(5));
    let mut short = event(16, &[0; 8], false);
    short.pop();
    check(&[short], BinlogError::Malformed("length"));
    check(&[vec![1, 2, 3]], BinlogError::Malformed("time"));
}

#[test]
fn what_is_too_long_leaves_a_transaction_incomplete_or_uncounted() {
    let (mut decoder, mut changes) = (Decoder::new(), Changes::new());
    let mut all = Vec::new();
    let mut take = |bytes: &[u8], is_whole| {
        let read = decoder.read(Framed { bytes, is_whole }, &mut Plain, &mut |event| {
            all.extend(changes.take(&event));
            Ok(())
        });
        assert_eq!(read, Ok(()));
    };
    take(&event(33, &gtid_of_mysql(1), false), true);
    take(&event(40, &[2, 1, 0, 0], false), false);
    take(&event(33, &gtid_of_mysql(2), false), true);
    take(&event(2, &query("s", "BEGIN"), false), true);
    take(&event(19, &table_map(5), false), true);
    take(&event(30, &rows(5, 1, 9), false), false);
    take(&event(16, &[0; 8], false), true);
    let told: Vec<String> = all.iter().map(told).collect();
    let uuid = "abababab-abab-abab-abab-abababababab";
    assert_eq!(
        told,
        [format!("{uuid}:1 1 incomplete"), format!("{uuid}:2 1 s.t +0 ~0 -0 uncounted")]
    );
}

#[test]
fn checksums_are_checked_as_the_format_says() {
    let mut decoder = Decoder::new();
    let mut kinds = Vec::new();
    let mut take = |bytes: &[u8]| {
        decoder.read(Framed { bytes, is_whole: true }, &mut Plain, &mut |event| {
            kinds.push(match event.kind {
                Kind::Rotate { file, position } => {
                    format!("{} {position}", String::from_utf8_lossy(file))
                }
                Kind::Format { has_checksums, .. } => has_checksums.to_string(),
                other => format!("{other:?}"),
            });
            Ok(())
        })
    };
    let rotate = [&4_u64.to_le_bytes()[..], b"log.000001"].concat();
    for has_checksum in [true, false] {
        assert_eq!(take(&event(4, &rotate, has_checksum)), Ok(()));
    }
    assert_eq!(take(&format(1)), Ok(()));
    assert_eq!(take(&event(27, b"log.000001", true)), Ok(()));
    assert_eq!(take(&event(4, &rotate, false)), Ok(()));
    assert_eq!(take(&format(0)), Ok(()));
    assert_eq!(take(&event(27, b"log.000001", false)), Ok(()));
    let file = "log.000001 4";
    assert_eq!(kinds, [file, file, "true", "Heartbeat", file, "false", "Heartbeat"]);
}
