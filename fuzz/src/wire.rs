//! Targets: framing, packets, commands and the relay of responses.

use std::rc::Rc;

use trunkline_protocol::{
    Capabilities, Malformed, Reader,
    codec::frame::{HEADER_LEN, Header, put_payload, split_packet},
    command::{
        Command,
        attributes::{PlainExecution, Query, put_query},
        execute::Execution,
    },
    packet::{
        attributes::Attributes,
        auth_switch::{self, AuthSwitchRequest},
        change_user::ChangeUser,
        eof, err,
        greeting::Greeting,
        handshake_response::ClientOpening,
        ok, track,
    },
    response::{Relay, ReplyFormat, ResponseShape},
};

use crate::choice;

/// Packets are found in any bytes, and what was found is written again as it was.
pub fn framing(data: &[u8]) {
    let mut rest = data;
    while let Some((header, payload, after)) = split_packet(rest) {
        assert_eq!(payload.len(), header.payload_len, "a payload is as long as its header says");
        assert_eq!(rest.len(), HEADER_LEN + payload.len() + after.len(), "no byte is lost");
        let mut again = Vec::new();
        put_payload(&mut again, header.seq, payload);
        assert!(rest.starts_with(&again), "a packet reads as it was written");
        read_numbers(payload);
        rest = after;
    }
    assert_eq!(Header::read(rest).is_some(), rest.len() >= HEADER_LEN);
}

/// Numbers and strings, as long as there are any.
fn read_numbers(payload: &[u8]) {
    let mut reader = Reader::new(payload);
    while !reader.is_empty() {
        let before = reader.rest().len();
        let read = reader.lenenc_bytes("bytes").map(<[u8]>::len);
        assert!(reader.rest().len() <= before, "a reader never goes back");
        match read {
            Ok(len) => assert!(len < before, "a string is no longer than what holds it"),
            Err(Malformed(_)) => return,
        }
    }
}

/// Every kind of packet, read from the same bytes; what can be read is written again alike.
pub fn packets(data: &[u8]) {
    let (how, payload) = choice(data);
    let capabilities = capabilities_of(how);
    if let Ok(greeting) = Greeting::parse(payload) {
        let again = payload_of(|out| greeting.put(out, 0));
        assert_eq!(Greeting::parse(&again).as_ref(), Ok(&greeting), "a greeting reads back");
    }
    if let Ok(ClientOpening::Response(response)) = ClientOpening::parse(payload) {
        response.attributes.pairs().for_each(drop);
    }
    if let Ok(request) = ChangeUser::parse(payload, capabilities) {
        request.attributes.pairs().for_each(drop);
    }
    if let Ok(attributes) = Attributes::parse(payload) {
        attributes.pairs().for_each(drop);
    }
    if let Ok(request) = AuthSwitchRequest::parse(payload) {
        let again = payload_of(|out| request.put(out, 0));
        assert_eq!(AuthSwitchRequest::parse(&again).as_ref(), Ok(&request));
    }
    let _ = auth_switch::parse_more_data(payload);
    if let Ok(ok) = ok::parse(payload, capabilities.contains(Capabilities::SESSION_TRACK)) {
        track::Changes::new(ok.changes).for_each(drop);
    }
    let _ = err::parse(payload);
    let _ = eof::parse(payload);
}

fn payload_of(put: impl FnOnce(&mut Vec<u8>) -> u8) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out);
    out.get(HEADER_LEN..).unwrap_or_default().to_vec()
}

fn capabilities_of(how: u8) -> Capabilities {
    let flags = [
        Capabilities::CONNECT_WITH_DB,
        Capabilities::PLUGIN_AUTH,
        Capabilities::PLUGIN_AUTH_LENENC_CLIENT_DATA,
        Capabilities::CONNECT_ATTRS,
        Capabilities::SESSION_TRACK,
        Capabilities::DEPRECATE_EOF,
        Capabilities::MULTI_STATEMENTS,
        Capabilities::FOUND_ROWS,
    ];
    let always = Capabilities::PROTOCOL_41 | Capabilities::SECURE_CONNECTION;
    let chosen = flags.into_iter().enumerate().filter(|(bit, _)| how & (1 << bit) != 0);
    chosen.fold(always, |all, (_, flag)| all | flag)
}

/// Commands of clients.
pub fn commands(data: &[u8]) {
    let _ = Command::decode(data);
    attributes(data);
    let mut rest = data;
    while let Some((_, payload, after)) = split_packet(rest) {
        let _ = Command::decode(payload);
        rest = after;
    }
}

/// Query attributes: what is before a text is sent on as it is, and an execution without them is
/// one that can be sent with them again.
fn attributes(data: &[u8]) {
    if let Ok(Query { attributes, text }) = Query::parse(data) {
        let mut out = Vec::new();
        put_query(&mut out, attributes, text);
        let (_, payload, _) = split_packet(&out).unwrap_or_else(|| unreachable!("a short text"));
        let again = payload.get(1..).map(Query::parse);
        assert_eq!(again, Some(Ok(Query { attributes, text })), "a text reads back");
    }
    let (params, raw) = choice(data);
    let params = u16::from(params % 8);
    if let Ok(plain) = PlainExecution::parse(raw, params, |at| at == 1)
        && let Ok(execution) = Execution::parse(&plain.raw, params)
    {
        let mut out = Vec::new();
        execution.put_counted(&mut out, 7, params, None);
        let counted = out.get(HEADER_LEN + 5..).unwrap_or_default();
        let again = PlainExecution::parse(counted, params, |at| at == 1);
        let again =
            again.map(|again| (again.raw.get(1..).map(<[u8]>::to_vec), again.has_attributes));
        assert_eq!(again, Ok((plain.raw.get(1..).map(<[u8]>::to_vec), false)));
    }
}

const SHAPES: [ResponseShape; 7] = [
    ResponseShape::Query,
    ResponseShape::Single,
    ResponseShape::Text,
    ResponseShape::FieldList,
    ResponseShape::Prepare,
    ResponseShape::Fetch,
    ResponseShape::None,
];

/// A server's response, whole and in pieces: both end at the same byte with the same outcome.
///
/// The first byte chooses the shape, the second the two framings, the third the pieces.
pub fn response_relay(data: &[u8]) {
    let (shape, data) = choice(data);
    let (formats, data) = choice(data);
    let (piece, data) = choice(data);
    let shape = SHAPES.get(usize::from(shape) % SHAPES.len()).copied();
    let bit = |bit: u8| formats & (1 << bit) != 0;
    let server = ReplyFormat {
        deprecate_eof: bit(0),
        session_track: bit(1),
        optional_metadata: bit(6),
        extended_metadata: bit(7) && !bit(0),
        ..ReplyFormat::PLAIN
    };
    let client = ReplyFormat {
        deprecate_eof: bit(2),
        session_track: bit(3),
        optional_metadata: bit(6) && !bit(5),
        cached_metadata: bit(5),
        extended_metadata: bit(7) && !bit(2),
        progress: bit(7),
    };
    // Definitions that some replies have.
    let known = data.windows(2).position(|two| two == b"\x02\x03").and_then(|at| {
        let begin = at.checked_sub(3)?;
        let [len, 0, 0, ..] = data.get(begin..)? else { return None };
        // A relay knows what it has read before, and a definition is never empty.
        if *len == 0 {
            return None;
        }
        Some(Rc::<[u8]>::from(data.get(begin..begin + 4 + usize::from(*len))?))
    });
    let relay = || {
        let mut relay = Relay::new(shape.unwrap_or(ResponseShape::Query), server, client, !bit(4));
        relay.set_known_columns(known.clone());
        relay
    };
    let (whole, whole_len) = relay_pieces(relay(), data, data.len().max(1));
    let (pieces, pieces_len) = relay_pieces(relay(), data, 1 + usize::from(piece));
    assert_eq!(whole, pieces, "a response does not depend on how it is split");
    let len_max = 4 * data.len() + 64;
    assert!(whole_len.max(pieces_len) <= len_max, "{} bytes became {whole_len}", data.len());
    assert!(!bit(4) || whole_len + pieces_len == 0, "nothing is delivered");
}

/// What a relay says of a response: its end, or that it is malformed; and the bytes delivered.
fn relay_pieces(mut relay: Relay, data: &[u8], len: usize) -> (Result<(usize, bool), ()>, usize) {
    let mut out = Vec::new();
    let mut consumed = 0;
    for piece in data.chunks(len) {
        match relay.feed(piece, &mut out) {
            Ok(fed) => {
                assert!(fed.consumed <= piece.len());
                consumed += fed.consumed;
                if fed.ended {
                    break;
                }
                assert_eq!(fed.consumed, piece.len(), "only an end leaves bytes");
            }
            Err(Malformed(_)) => return (Err(()), out.len()),
        }
    }
    let _ = relay.break_off_seq();
    let ended = relay.has_ended();
    drop(relay.into_outcome());
    (Ok((consumed, ended)), out.len())
}
