//! Definitions in other forms, and left out.

use super::client::Client;
use super::server::Server;
use super::*;
use crate::codec::frame::put_payload;
use crate::response::metadata::translated;

/// A definition in the form of a server or client.
pub(super) fn in_form(definition: &[u8], from: ReplyFormat, to: ReplyFormat) -> Vec<u8> {
    match from.extended_metadata == to.extended_metadata {
        true => definition.to_vec(),
        false => translated(definition, from, to).expect("a definition"),
    }
}

/// A definition as servers write it.
fn definition(name: &[u8]) -> Vec<u8> {
    let name_len = u8::try_from(name.len()).expect("short");
    let rest = b"\x0C\x3F\0\x01\0\0\0\x03\x81\0\0\0\0";
    [&b"\x03def\0\0\0"[..], &[name_len], name, b"\0", rest].concat()
}

fn formats() -> Vec<ReplyFormat> {
    let mut all = Vec::new();
    for deprecate_eof in [false, true] {
        for (optional_metadata, cached_metadata) in [(false, false), (true, false), (false, true)] {
            for extended_metadata in [false, true] {
                all.push(ReplyFormat {
                    deprecate_eof,
                    optional_metadata,
                    cached_metadata,
                    extended_metadata,
                    ..ReplyFormat::PLAIN
                });
            }
        }
    }
    all
}

fn ends() -> Event {
    Event::End(done(status::AUTOCOMMIT))
}

fn samples() -> Vec<(ResponseShape, Vec<Event>)> {
    let columns = || vec![definition(b"a"), definition(b"b2")];
    let row = || Event::Row(b"\0\0\x01".to_vec());
    let more = Event::End(done(status::AUTOCOMMIT | status::MORE_RESULTS));
    let cursor = Event::End(done(status::AUTOCOMMIT | status::CURSOR_EXISTS));
    vec![
        (ResponseShape::Query, vec![Event::Columns(columns()), row(), row(), ends()]),
        (ResponseShape::Query, vec![Event::Columns(columns()), cursor]),
        (
            ResponseShape::Query,
            vec![Event::Columns(columns()), more, Event::Columns(columns()), row(), ends()],
        ),
        (ResponseShape::Query, vec![Event::Columns(columns()), Event::Err(1, b"no".to_vec())]),
        (ResponseShape::Prepare, vec![Event::Prepared(7, columns(), columns())]),
        (ResponseShape::Prepare, vec![Event::Prepared(7, Vec::new(), columns())]),
        (ResponseShape::Prepare, vec![Event::Prepared(7, columns(), Vec::new())]),
    ]
}

#[test]
fn every_pair_of_forms_means_the_same_however_it_is_split() {
    for (shape, events) in samples() {
        for server in formats() {
            let bytes = Server::encode(&events, server);
            for client in formats() {
                let expected = visible(&events, server, client);
                for first in 1..=bytes.len() {
                    for rest in [bytes.len(), 1] {
                        let relay = Relay::new(shape, server, client, true);
                        let (out, _) = relay_in_chunks(relay, &bytes, &[first, rest]);
                        assert_eq!(Client::decode(shape, client, &out), expected);
                        if server == client {
                            assert_eq!(out, bytes);
                        }
                    }
                }
            }
        }
    }
}

/// What a client knows after a reply, and the reply.
fn relayed(
    shape: ResponseShape,
    server: ReplyFormat,
    client: ReplyFormat,
    bytes: &[u8],
    known: Option<std::rc::Rc<[u8]>>,
    lens: &[usize],
) -> (Vec<u8>, ClientColumns) {
    let mut relay = Relay::new(shape, server, client, true);
    relay.set_known_columns(known);
    let (out, relay) = relay_in_chunks(relay, bytes, lens);
    (out, relay.into_outcome().columns)
}

#[test]
fn known_definitions_are_left_out_and_others_are_learned() {
    let columns = [b"a", b"b"].map(|name| definition(name)).to_vec();
    let others = [b"a", b"c"].map(|name| definition(name)).to_vec();
    let prepared = [Event::Prepared(7, columns.clone(), columns.clone())];
    let row = Event::Row(b"\0\0\x01".to_vec());
    let reply = |columns: &[Vec<u8>]| [Event::Columns(columns.to_vec()), row.clone(), ends()];
    for server in FORMATS {
        for client in FORMATS.map(|client| ReplyFormat { cached_metadata: true, ..client }) {
            let bytes = Server::encode(&prepared, server);
            let (_, learned) =
                relayed(ResponseShape::Prepare, server, client, &bytes, None, &[bytes.len()]);
            let ClientColumns::Sent(known) = learned else { panic!("{learned:?}") };
            let known = std::rc::Rc::<[u8]>::from(known);

            let same = Server::encode(&reply(&columns), server);
            let whole = [same.len()];
            let again = Some(std::rc::Rc::clone(&known));
            let (out, after) = relayed(ResponseShape::Query, server, client, &same, again, &whole);
            assert_eq!(out[..6], [2, 0, 0, 1, 2, 0], "{client:?}");
            assert_eq!(after, ClientColumns::Known(std::rc::Rc::clone(&known)));
            let decode = |out: &[u8]| {
                Client::decode_knowing(ResponseShape::Query, client, out, columns.clone())
            };
            assert_eq!(decode(&out), visible(&reply(&columns), server, client));

            let other = Server::encode(&reply(&others), server);
            for lens in [&[other.len()][..], &[1], &[9, 400]] {
                let before = Some(std::rc::Rc::clone(&known));
                let (out, _) = relayed(ResponseShape::Query, server, client, &other, before, lens);
                assert_eq!(decode(&out), visible(&reply(&others), server, client));
            }
            let before = Some(std::rc::Rc::clone(&known));
            let (_, after) =
                relayed(ResponseShape::Query, server, client, &other, before, &[other.len()]);
            assert!(matches!(after, ClientColumns::Sent(sent) if *sent != *known));
            // Fewer columns than it knows, that begin alike.
            let one = Server::encode(&reply(&columns[..1]), server);
            let before = Some(std::rc::Rc::clone(&known));
            let (out, _) =
                relayed(ResponseShape::Query, server, client, &one, before, &[one.len()]);
            assert_eq!(decode(&out), visible(&reply(&columns[..1]), server, client));
        }
    }
}

#[test]
fn of_several_results_none_is_remembered() {
    let columns = vec![definition(b"a")];
    let more = Event::End(done(status::AUTOCOMMIT | status::MORE_RESULTS));
    let events = [Event::Columns(columns.clone()), more, Event::Columns(columns), ends()];
    let client = ReplyFormat { cached_metadata: true, ..FORMATS[3] };
    let bytes = Server::encode(&events, FORMATS[3]);
    let (_, after) =
        relayed(ResponseShape::Query, FORMATS[3], client, &bytes, None, &[bytes.len()]);
    assert_eq!(after, ClientColumns::Unknown);
}

#[test]
fn definitions_that_a_server_leaves_out_are_not_waited_for() {
    let packets = |payloads: &[&[u8]]| {
        let mut out = Vec::new();
        let mut seq = 1;
        for payload in payloads {
            seq = put_payload(&mut out, seq, payload);
        }
        out
    };
    const EOF: &[u8] = b"\xFE\0\0\x02\0";
    const END: &[u8] = b"\xFE\0\0\x02\0\0\0";
    let ok: &[u8] = b"\0\x03\0\0\0\x02\0\x01\0\0\0\0\0";
    let optional = ReplyFormat { optional_metadata: true, ..ReplyFormat::PLAIN };
    let modern = ReplyFormat { deprecate_eof: true, ..optional };
    let (query, prepare) = (ResponseShape::Query, ResponseShape::Prepare);
    // MySQL 9.7's bytes in both framings, with `resultset_metadata = NONE`.
    let replies = [
        (query, packets(&[b"\x01\0", EOF, b"\x011", EOF]), packets(&[b"\x01\0", b"\x011", END])),
        (prepare, packets(&[ok, EOF, EOF]), packets(&[ok])),
    ];
    for (shape, with_eof, without) in replies {
        for (server, bytes) in [(optional, &with_eof), (modern, &without)] {
            for (client, expected) in [(optional, &with_eof), (modern, &without)] {
                for len in 1..=bytes.len() {
                    let relay = Relay::new(shape, server, client, true);
                    let (out, _) = relay_in_chunks(relay, bytes, &[len]);
                    assert_eq!(&out, expected, "{shape:?} {server:?} {client:?}");
                }
            }
            let mut relay = Relay::new(shape, server, FORMATS[0], true);
            assert!(relay.feed(bytes, &mut Vec::new()).is_err(), "a client can't read that");
        }
    }
}

#[test]
fn progress_is_for_those_who_asked() {
    let ok = Event::Ok(done(status::AUTOCOMMIT));
    let bytes = Server::encode(&[Event::Progress, ok], FORMATS[3]);
    let asked = ReplyFormat { progress: true, ..FORMATS[3] };
    let relay = Relay::new(ResponseShape::Query, asked, asked, true);
    assert_eq!(relay_in_chunks(relay, &bytes, &[3]).0, bytes);
    let relay = Relay::new(ResponseShape::Query, asked, FORMATS[3], true);
    let (out, relay) = relay_in_chunks(relay, &bytes, &[3]);
    assert_eq!((out.get(3), relay.outcome().error.is_none()), (Some(&1), true));
}
