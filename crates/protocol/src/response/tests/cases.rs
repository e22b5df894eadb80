//! Responses of every kind, in every pair of framings, split everywhere.

use super::client::Client;
use super::server::Server;
use super::*;
use crate::codec::frame::{HEADER_LEN, Header, PAYLOAD_MAX, put_payload};
use crate::codec::{Malformed, put_lenenc_int};

fn columns(names: &[&str]) -> Event {
    let definition = |name: &&str| [b"\x03def\x00\x00\x00", name.as_bytes()].concat();
    Event::Columns(names.iter().map(definition).collect())
}

fn row(bytes: &[u8]) -> Event {
    Event::Row(bytes.to_vec())
}

fn error() -> Event {
    Event::Err(1064, b"You have an error".to_vec())
}

fn changed() -> Done {
    Done {
        affected_rows: 300,
        last_insert_id: 70_000,
        status: status::AUTOCOMMIT | status::SESSION_STATE_CHANGED,
        warnings: 2,
        info: b"Records: 3".to_vec(),
        changes: b"\x01\x03\x02db".to_vec(),
    }
}

/// Responses to queries.
fn query_samples() -> Vec<Vec<Event>> {
    let ok = Event::Ok(done(status::AUTOCOMMIT));
    let end = Event::End(done(status::AUTOCOMMIT));
    let more = status::AUTOCOMMIT | status::MORE_RESULTS;
    let a = || columns(&["a"]);
    vec![
        vec![ok.clone()],
        vec![Event::Ok(changed())],
        vec![error()],
        vec![Event::Progress, Event::Progress, ok],
        vec![a(), row(b"\x011"), end.clone()],
        vec![a(), Event::End(changed())],
        // Rows that begin like other packets: NULL, binary, and values of various lengths.
        vec![columns(&["a", "b"]), row(b"\xFB\xFB"), row(b"\0\0\x01"), row(b"\xFC\0\0"), end],
        vec![a(), row(b"\x011"), error()],
        vec![a(), error()],
        vec![a(), Event::Progress, row(b"\x011"), Event::Progress, error()],
        vec![
            columns(&["a", "b"]),
            row(b"\x011"),
            Event::End(done(more | status::PS_OUT_PARAMS)),
            Event::Ok(Done { status: changed().status | status::MORE_RESULTS, ..changed() }),
            columns(&["c"]),
            Event::End(done(more)),
            Event::Ok(changed()),
        ],
        vec![Event::Ok(done(more)), error()],
        vec![a(), Event::End(done(status::AUTOCOMMIT | status::CURSOR_EXISTS))],
        vec![Event::File(b"data.csv".to_vec()), Event::Ok(changed())],
        vec![Event::File(b"data.csv".to_vec()), error()],
    ]
}

/// Each shape with its responses.
fn samples() -> Vec<(ResponseShape, Vec<Event>)> {
    use ResponseShape::{Fetch, FieldList, Prepare, Query, Single, Text};
    let ok = Event::Ok(done(status::AUTOCOMMIT));
    let end = || Event::End(done(status::AUTOCOMMIT));
    let cursor = status::AUTOCOMMIT | status::CURSOR_EXISTS;
    let last = status::AUTOCOMMIT | status::LAST_ROW_SENT;
    let defs = || vec![b"\x03def\x01a".to_vec(), b"\x03def\x01b".to_vec()];
    let mut samples: Vec<_> = query_samples().into_iter().map(|events| (Query, events)).collect();
    samples.extend([
        (Single, vec![ok]),
        (Single, vec![Event::Ok(changed())]),
        (Single, vec![end()]),
        (Single, vec![error()]),
        (Text, vec![Event::Text(b"Uptime: 3".to_vec())]),
        (Text, vec![Event::Text(Vec::new())]),
        (Text, vec![error()]),
        (FieldList, vec![row(b"\x03def\x01a"), row(b"\x03def\x01b"), end()]),
        (FieldList, vec![end()]),
        (FieldList, vec![error()]),
        (Fetch, vec![row(b"\0\0\x01"), row(b"\0\x04"), Event::End(done(cursor))]),
        (Fetch, vec![row(b"\0\0\x01"), Event::End(done(last))]),
        (Fetch, vec![error()]),
        (Prepare, vec![Event::Prepared(7, defs(), defs())]),
        (Prepare, vec![Event::Prepared(0x0102_0304, Vec::new(), defs())]),
        (Prepare, vec![Event::Prepared(7, defs(), Vec::new())]),
        (Prepare, vec![Event::Prepared(7, Vec::new(), Vec::new())]),
        (Prepare, vec![error()]),
    ]);
    samples
}

#[test]
fn every_response_means_the_same_in_every_pair_of_framings_however_it_is_split() {
    for (shape, events) in samples() {
        for server in FORMATS {
            let bytes = Server::encode(&events, server);
            for client in FORMATS {
                let expected = visible(&events, server, client);
                for first in 1..=bytes.len() {
                    for rest in [bytes.len(), 1] {
                        let relay = Relay::new(shape, server, client, true);
                        let (out, _) = relay_in_chunks(relay, &bytes, &[first, rest]);
                        assert_eq!(Client::decode(shape, client, &out), expected);
                        if server == client && !events.contains(&Event::Progress) {
                            assert_eq!(out, bytes);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn what_is_let_through_at_a_glance_is_understood_as_byte_by_byte() {
    let told = |relay: &mut Relay, bytes: &[u8], len: usize| {
        let mut out = Vec::new();
        for chunk in bytes.chunks(len) {
            relay.feed(chunk, &mut out).expect("well-formed");
        }
        (out, relay.take_outcome())
    };
    for (shape, events) in samples() {
        for (server, client) in FORMATS.iter().flat_map(|one| FORMATS.map(|other| (*one, other))) {
            // What an EOF says that no server sent depends on how far can be looked ahead.
            if server.deprecate_eof && !client.deprecate_eof {
                continue;
            }
            let bytes = Server::encode(&events, server);
            let mut relay = Relay::new(shape, server, client, true).numbered_from(1);
            let whole = told(&mut relay, &bytes, bytes.len());
            // As it is used for one response after the other.
            relay.renew(shape, server, client, true);
            relay.set_number(1);
            assert_eq!(told(&mut relay, &bytes, 1), whole, "{events:?}");
        }
    }
}

#[test]
fn a_relay_that_is_renewed_is_as_good_as_new() {
    let mut relay = Relay::new(ResponseShape::Query, FORMATS[0], FORMATS[0], false);
    let new = |format| format!("{:?}", Relay::new(ResponseShape::Prepare, format, format, true));
    for (shape, events) in samples() {
        relay.renew(shape, FORMATS[0], FORMATS[3], true);
        relay.renumber_from(7);
        relay.refuse_file_requests();
        relay.set_without_cursor();
        relay.set_status(status::IN_TRANS);
        let bytes = Server::encode(&events, FORMATS[0]);
        for chunk in bytes.get(..bytes.len() - 1).unwrap_or_default().chunks(3) {
            let _ = relay.feed(chunk, &mut Vec::new());
        }
        relay.renew(ResponseShape::Prepare, FORMATS[2], FORMATS[2], true);
        assert_eq!(format!("{relay:?}"), new(FORMATS[2]), "{events:?}");
    }
}

#[test]
fn a_response_never_takes_bytes_of_the_next_and_discarding_writes_nothing() {
    for (shape, events) in samples() {
        for server in FORMATS {
            let bytes = Server::encode(&events, server);
            let two = [&bytes[..], &bytes[..]].concat();
            for deliver in [true, false] {
                let mut relay = Relay::new(shape, server, FORMATS[0], deliver);
                let mut out = Vec::new();
                let fed = relay.feed(&two, &mut out).expect("well-formed");
                assert_eq!(fed, Fed { consumed: bytes.len(), ended: true });
                assert_eq!(relay.feed(&two, &mut out), Ok(Fed { consumed: 0, ended: true }));
                assert_eq!(out.is_empty(), !deliver);
                assert_eq!(relay.outcome().bytes, bytes.len() as u64);
            }
        }
    }
}

/// MariaDB answers a SELECT of 70,000 columns.
#[test]
fn a_result_may_have_more_columns_than_fit_into_two_bytes() {
    let columns = Event::Columns(vec![b"\x03def\x00\x00\x00a".to_vec(); 70_000]);
    let events = [columns, row(b"\x011"), Event::End(done(status::AUTOCOMMIT))];
    for server in FORMATS {
        let bytes = Server::encode(&events, server);
        for client in FORMATS {
            let relay = Relay::new(ResponseShape::Query, server, client, true);
            let (out, _) = relay_in_chunks(relay, &bytes, &[1_000]);
            let decoded = Client::decode(ResponseShape::Query, client, &out);
            assert!(decoded == visible(&events, server, client), "{server:?} {client:?}");
        }
    }
}

#[test]
fn a_client_that_goes_away_gets_no_more_bytes_and_the_response_still_ends() {
    let events = [columns(&["a"]), row(b"\x011"), row(b"\x012"), Event::End(changed())];
    let bytes = Server::encode(&events, FORMATS[3]);
    for cut in 0..bytes.len() {
        let mut relay = Relay::new(ResponseShape::Query, FORMATS[3], FORMATS[0], true);
        let mut out = Vec::new();
        relay.feed(&bytes[..cut], &mut out).expect("well-formed");
        relay.set_discard();
        let len = out.len();
        assert!(relay.feed(&bytes[cut..], &mut out).expect("well-formed").ended);
        assert_eq!((out.len(), relay.outcome().rows), (len, 2));
    }
}

#[test]
fn the_outcome_sums_up_all_results() {
    let more = Done { status: changed().status | status::MORE_RESULTS, ..changed() };
    let events = [
        columns(&["a"]),
        row(b"\x011"),
        row(b"\x012"),
        Event::End(done(status::MORE_RESULTS)),
        Event::Ok(more),
        columns(&["a"]),
        row(b"\x011"),
        Event::End(done(status::MORE_RESULTS)),
        Event::Ok(changed()),
    ];
    for (server, changes) in [(FORMATS[0], ""), (FORMATS[3], "\x01\x03\x02db\x01\x03\x02db")] {
        let bytes = Server::encode(&events, server);
        let relay = Relay::new(ResponseShape::Query, server, FORMATS[0], true);
        let (_, relay) = relay_in_chunks(relay, &bytes, &[3]);
        assert!(relay.has_begun() && relay.has_ended());
        let tracked = if changes.is_empty() { 0 } else { status::SESSION_STATE_CHANGED };
        let expected = Outcome {
            status: Some(status::AUTOCOMMIT | tracked),
            warnings: 2,
            affected_rows: 600,
            row_count: 300,
            matched_rows: 3,
            last_insert_id: 70_000,
            rows: 3,
            result_sets: 2,
            bytes: bytes.len() as u64,
            changes: changes.into(),
            ..Outcome::default()
        };
        assert_eq!(relay.into_outcome(), expected);
    }
}

#[test]
fn the_outcome_holds_the_error_or_the_statement() {
    let long = Event::Err(1105, vec![b'x'; 4000]);
    let events = [Event::Ok(done(status::AUTOCOMMIT | status::MORE_RESULTS)), long];
    let bytes = Server::encode(&events, FORMATS[0]);
    let relay = Relay::new(ResponseShape::Query, FORMATS[0], FORMATS[0], false);
    let (_, relay) = relay_in_chunks(relay, &bytes, &[5]);
    let error = relay.outcome().error.as_ref().expect("an error");
    assert_eq!((error.code, error.sqlstate, error.message.len()), (1105, *b"42000", 512));
    assert_eq!(relay.outcome().status, Some(status::AUTOCOMMIT));

    // As MySQL 9.7 defines parameters.
    let definition = |kind| {
        let name_and_collation = b"\x03def\0\0\0\x01?\0\x0C\x3F\0".as_slice();
        [name_and_collation, b"\0\x01\0\0", &[kind], b"\x80\0\0\0\0"].concat()
    };
    for (params, takes_vector) in [
        (vec![b"\x03def".to_vec()], false),
        (vec![definition(8), definition(252)], false),
        (vec![definition(8), definition(242), definition(8)], true),
    ] {
        let count = u16::try_from(params.len()).expect("few");
        let prepared = Event::Prepared(9, params, vec![definition(242)]);
        let bytes = Server::encode(&[prepared], FORMATS[2]);
        for chunk in [5, 1, bytes.len()] {
            let relay = Relay::new(ResponseShape::Prepare, FORMATS[2], FORMATS[0], false);
            let (_, relay) = relay_in_chunks(relay, &bytes, &[chunk]);
            let expected = Prepared { stmt_id: 9, params: count, columns: 1, takes_vector };
            assert_eq!((relay.outcome().prepared, relay.outcome().status), (Some(expected), None));
        }
    }
}

#[test]
fn a_command_without_a_response_has_ended_before_it_began() {
    let mut relay = Relay::new(ResponseShape::None, FORMATS[0], FORMATS[0], true);
    let mut out = Vec::new();
    assert!(relay.has_ended() && !relay.has_begun());
    assert_eq!(relay.feed(b"\0\0\0", &mut out), Ok(Fed { consumed: 0, ended: true }));
}

#[test]
fn more_rows_than_sequence_numbers_stay_numbered() {
    let mut events = vec![columns(&["a"])];
    events.extend((0..700_u16).map(|i| row(format!("\x03{i:03}").as_bytes())));
    events.push(Event::End(done(status::AUTOCOMMIT)));
    for (server, client) in [(0, 2), (2, 0), (0, 0), (2, 2)] {
        let (server, client) = (FORMATS[server], FORMATS[client]);
        let bytes = Server::encode(&events, server);
        for len in [bytes.len(), 64, 7] {
            let relay = Relay::new(ResponseShape::Query, server, client, true);
            let (out, relay) = relay_in_chunks(relay, &bytes, &[len]);
            assert_eq!(Client::decode(ResponseShape::Query, client, &out), events);
            assert_eq!(relay.outcome().rows, 700);
        }
    }
}

#[test]
fn rows_beyond_16_mib_are_streamed() {
    let mut wide = Vec::new();
    put_lenenc_int(&mut wide, 1 << 24);
    wide.resize(wide.len() + (1 << 24), b'w');
    assert_eq!(wide[0], 0xFE);
    let full = vec![b'f'; PAYLOAD_MAX];
    let events =
        [columns(&["a"]), Event::Row(wide), Event::Row(full), row(b"\x01z"), Event::End(done(2))];
    for (server, client) in [(0, 0), (0, 2), (2, 0), (2, 2)] {
        let (server, client) = (FORMATS[server], FORMATS[client]);
        let bytes = Server::encode(&events, server);
        let relay = Relay::new(ResponseShape::Query, server, client, true);
        let (out, relay) = relay_in_chunks(relay, &bytes, &[57, 1, 65_536]);
        assert!(Client::decode(ResponseShape::Query, client, &out) == events);
        assert!(relay.gathered.capacity() < 64);
        assert_eq!(relay.outcome().rows, 3);
    }
}

#[test]
fn each_file_is_asked_for_once() {
    let more = Done { status: done(2).status | status::MORE_RESULTS, ..done(2) };
    let file = || Event::File(b"x".to_vec());
    let loads = [file(), Event::Progress, Event::Ok(more), file(), Event::Progress];
    let bytes = Server::encode(&[&loads[..], &[Event::Ok(done(2))]].concat(), FORMATS[0]);
    let waits_len = Server::encode(&loads, FORMATS[0]).len();
    // A server says nothing behind its request before it has the file.
    let request_len = Server::encode(&loads[..1], FORMATS[0]).len();
    for chunk_len in 1..=request_len {
        let mut relay = Relay::new(ResponseShape::Query, FORMATS[0], FORMATS[0], true);
        let (mut out, mut asked) = (Vec::new(), Vec::new());
        for part in bytes[..waits_len].chunks(chunk_len) {
            assert!(!relay.feed(part, &mut out).expect("well-formed").ended);
            asked.extend(relay.take_file_request());
        }
        assert_eq!(asked, [2, 7], "in chunks of {chunk_len}");
        assert_eq!(relay.break_off_seq(), None);
        assert!(relay.feed(&bytes[waits_len..], &mut out).expect("well-formed").ended);
        assert_eq!(relay.take_file_request(), None);
    }
    // Behind the file the numbers go on.
    let bytes = Server::encode(&[file(), Event::Ok(done(2))], FORMATS[0]);
    for (next, is_right) in [(4, true), (3, false), (77, false)] {
        let mut relay = Relay::new(ResponseShape::Query, FORMATS[0], FORMATS[0], true);
        let (request, answer) = bytes.split_at(request_len);
        relay.feed(request, &mut Vec::new()).expect("well-formed");
        relay.file_sent(next);
        assert_eq!(relay.feed(answer, &mut Vec::new()).is_ok(), is_right, "{next}");
    }
}

#[test]
fn a_response_can_be_broken_off_between_packets_only() {
    let events = [columns(&["a"]), row(b"\x05hello"), Event::End(done(2))];
    for (server, client) in [(0, 0), (0, 2), (2, 0), (2, 2)] {
        let (server, client) = (FORMATS[server], FORMATS[client]);
        let bytes = Server::encode(&events, server);
        for cut in 0..bytes.len() {
            let mut relay = Relay::new(ResponseShape::Query, server, client, true);
            let mut out = Vec::new();
            relay.feed(&bytes[..cut], &mut out).expect("well-formed");
            let (mut rest, mut next) = (&out[..], 1);
            while let Some(header) = Header::read(rest) {
                let Some(after) = rest.get(HEADER_LEN + header.payload_len..) else {
                    break;
                };
                (rest, next) = (after, next + 1);
            }
            assert_eq!(relay.break_off_seq(), rest.is_empty().then_some(next), "cut at {cut}");
        }
    }
}

#[test]
fn a_response_is_broken_off_before_a_packet_that_is_refused() {
    let events = [columns(&["a"]), row(b"\x01x"), row(b"\x01y")];
    let before = Server::encode(&events, FORMATS[2]);
    let relay = || Relay::new(ResponseShape::Query, FORMATS[2], FORMATS[2], true);
    // Column count, definition and two rows are before it. Its number is wrong, or its content.
    for garbage in [&b"\x01\0\0\x63?"[..], b"\x01\0\0\x05\xFF"] {
        let input = [&before, garbage].concat();
        for chunk in [1, 3, input.len()] {
            let (mut relay, mut out) = (relay(), Vec::new());
            let is_refused = input.chunks(chunk).any(|part| relay.feed(part, &mut out).is_err());
            assert!(is_refused, "chunks of {chunk}");
            assert_eq!(out, before, "chunks of {chunk}");
            assert_eq!(relay.break_off_seq(), Some(5), "chunks of {chunk}");
            assert!(relay.has_begun());
        }
    }
    let mut relay = relay();
    assert!(relay.feed(b"\x02\0\0\x25\xFFx", &mut Vec::new()).is_err());
    assert_eq!((relay.break_off_seq(), relay.has_begun()), (Some(1), false));
}

#[test]
fn an_inserted_eof_announces_no_more_results() {
    let more = status::AUTOCOMMIT | status::MORE_RESULTS | status::IN_TRANS;
    let events = [columns(&["a"]), Event::End(done(more)), columns(&["b"]), Event::End(done(3))];
    let bytes = Server::encode(&events, FORMATS[2]);
    let relay = Relay::new(ResponseShape::Query, FORMATS[2], FORMATS[0], true);
    let (out, _) = relay_in_chunks(relay, &bytes, &[bytes.len()]);
    let eofs: Vec<_> = out.windows(5).filter(|w| w[0] == 0xFE).map(|w| w[3]).collect();
    assert_eq!(eofs, [2, 11, 3, 3]);
}

#[test]
fn an_inserted_eof_has_the_sessions_flags() {
    let query = (ResponseShape::Query, vec![columns(&["a"]), Event::End(done(0))]);
    let prepare =
        (ResponseShape::Prepare, vec![Event::Prepared(7, Vec::new(), vec![b"a".to_vec()])]);
    for (shape, events) in [query, prepare] {
        for flags in [0, status::AUTOCOMMIT, status::IN_TRANS | status::NO_BACKSLASH_ESCAPES] {
            let bytes = Server::encode(&events, FORMATS[2]);
            let mut relay = Relay::new(shape, FORMATS[2], FORMATS[0], true);
            relay.set_status(flags);
            let (out, _) = relay_in_chunks(relay, &bytes, &[bytes.len()]);
            let eof = out.windows(5).find(|w| w[0] == 0xFE).expect("an EOF packet");
            assert_eq!(u16::from_le_bytes([eof[3], eof[4]]), flags, "{shape:?}");
        }
    }
}

#[test]
fn the_proxys_own_result_reads_like_a_servers() {
    let rows = vec![vec![Some(b"one".to_vec()), None], vec![Some(Vec::new()), Some(vec![9; 300])]];
    for format in FORMATS {
        let mut out = Vec::new();
        let next = write::put_text_result(&mut out, 1, format, 2, &["a", "bé"], &rows);
        let events = Client::decode(ResponseShape::Query, format, &out);
        let [Event::Columns(columns), Event::Row(first), Event::Row(second), Event::End(end)] =
            &events[..]
        else {
            panic!("{events:?}")
        };
        assert_eq!((columns.len(), &first[..], end), (2, &b"\x03one\xFB"[..], &done(2)));
        assert_eq!(&second[..4], b"\x00\xFC\x2C\x01");
        assert_eq!(columns[1], b"\x03def\0\0\0\x03b\xC3\xA9\0\x0C\x2D\0\0\x04\0\0\xFD\0\0\x1F\0\0");
        let mut relay = Relay::new(ResponseShape::Query, format, format, true);
        assert!(relay.feed(&out, &mut Vec::new()).expect("well-formed").ended);
        assert_eq!(next, if format.deprecate_eof { 7 } else { 8 });
    }
}

fn check_malformed(shape: ResponseShape, format: ReplyFormat, payloads: &[&[u8]], field: &str) {
    let mut bytes = Vec::new();
    let mut seq = 1;
    for payload in payloads {
        seq = put_payload(&mut bytes, seq, payload);
    }
    for len in [bytes.len(), 1] {
        let mut relay = Relay::new(shape, format, FORMATS[0], true);
        let fault = bytes.chunks(len).find_map(|part| relay.feed(part, &mut Vec::new()).err());
        assert_eq!(fault.map(|Malformed(field)| field), Some(field));
    }
}

#[test]
fn what_cannot_be_a_response_is_refused() {
    use ResponseShape::{Fetch, Prepare, Query, Single};
    let [old, .., new] = FORMATS;
    let megabyte = vec![0; (1 << 20) + 1];
    let cases: &[(ResponseShape, ReplyFormat, &[&[u8]], &str)] = &[
        (Query, old, &[b""], "empty packet"),
        (Query, old, &[&megabyte], "packet length"),
        (Query, old, &[b"\x01\x01"], "column count"),
        // What MySQL 9.7 sent for `SET GLOBAL`, prepared by a user who may not.
        (
            Prepare,
            FORMATS[2],
            &[b"\0\0\0\x02\x40\0\0\0\x12\0\x10\x0Cstatement_id\x0261"],
            "an OK packet in place of a prepared statement",
        ),
        (Query, old, &[b"\x01", b"\xFE\0\0\x02\0"], "column definition"),
        (Query, old, &[b"\x01", b"\x03def", b"\x01a"], "end-of-file header"),
        (Query, new, &[b"\x01", b"\x03def", b""], "row"),
        (Query, new, &[b"\x01", b"\x03def", b"\xFE\0\0"], "ok status"),
        (Query, old, &[b"\0\0\0\x02"], "ok status"),
        (Query, old, &[b"\xFF\x01"], "error code"),
        (Single, old, &[b"\x01"], "acknowledgement"),
        (Prepare, old, &[b"\x01"], "prepare header"),
        (Prepare, old, &[b"\0\x01\0\0\0\0\0"], "prepared parameters"),
        (Fetch, old, &[b"\xFE\0"], "end-of-file warnings"),
    ];
    for (shape, format, payloads, field) in cases {
        check_malformed(*shape, *format, payloads, field);
    }
}

#[test]
fn a_packet_out_of_order_is_refused() {
    let events = [columns(&["a"]), row(b"\x011"), row(b"\x012"), Event::End(done(2))];
    let bytes = Server::encode(&events, FORMATS[2]);
    // The sequence number of the second row.
    let at = bytes.len() - 11 - 3;
    for len in [bytes.len(), 1] {
        let mut wrong = bytes.clone();
        wrong[at] += 1;
        let mut relay = Relay::new(ResponseShape::Query, FORMATS[2], FORMATS[2], true);
        let fault = wrong.chunks(len).find_map(|part| relay.feed(part, &mut Vec::new()).err());
        assert_eq!(fault, Some(Malformed("sequence number")));
    }
}

/// A procedure that has had a cursor leaves its flag in the EOF after the column definitions.
#[test]
fn rows_follow_the_flag_of_a_cursor_that_nobody_asked_for() {
    let flags = status::AUTOCOMMIT | status::CURSOR_EXISTS;
    for client in [FORMATS[0], FORMATS[2]] {
        let mut bytes = Vec::new();
        for (seq, payload) in [
            &b"\x01"[..],
            b"\x03def\0\0\0\x01a\0\x0C\x3F\0\x01\0\0\0\x08\x81\0\0\0\0",
            &[0xFE, 0, 0, flags.to_le_bytes()[0], flags.to_le_bytes()[1]],
            b"\0\0\x01",
            &[0xFE, 0, 0, flags.to_le_bytes()[0], flags.to_le_bytes()[1]],
        ]
        .into_iter()
        .enumerate()
        {
            put_payload(&mut bytes, u8::try_from(seq + 1).expect("few"), payload);
        }
        let mut relay = Relay::new(ResponseShape::Query, FORMATS[0], client, true);
        relay.set_without_cursor();
        let mut out = Vec::new();
        let fed = relay.feed(&bytes, &mut out).expect("well-formed");
        assert_eq!((fed.ended, fed.consumed), (true, bytes.len()), "{client:?}");
        assert!(out.windows(3).any(|row| row == b"\0\0\x01"), "{client:?}");
    }
}
