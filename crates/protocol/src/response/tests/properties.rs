//! Random responses, random splits, random bytes.

use proptest::prelude::*;

use super::client::Client;
use super::server::Server;
use super::*;

fn payload() -> impl Strategy<Value = Vec<u8>> {
    // First bytes that could be taken for something else, and lengths around that of EOF.
    let first = prop_oneof![Just(0_u8), Just(0xFB), Just(0xFC), 1..=0xFA_u8];
    (first, prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(first, mut rest)| {
        rest.insert(0, first);
        rest
    })
}

fn end() -> impl Strategy<Value = Done> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..20);
    let flags = any::<u16>()
        .prop_map(|flags| flags & (status::IN_TRANS | status::AUTOCOMMIT | status::PS_OUT_PARAMS));
    (any::<u32>(), any::<u64>(), flags, any::<u16>(), bytes(), bytes()).prop_map(
        |(affected_rows, last_insert_id, flags, warnings, info, changes)| {
            let tracked = if changes.is_empty() { 0 } else { status::SESSION_STATE_CHANGED };
            let affected_rows = affected_rows.into();
            let status = flags | tracked;
            Done { affected_rows, last_insert_id, status, warnings, info, changes }
        },
    )
}

fn error() -> impl Strategy<Value = Event> {
    (0..0xFFFF_u16, prop::collection::vec(any::<u8>(), 0..40))
        .prop_map(|(code, message)| Event::Err(code, message))
}

/// One result, whose last event is OK, an end or an error.
fn result() -> impl Strategy<Value = Vec<Event>> {
    let ok = (0..3_usize, end()).prop_map(|(progress, done)| {
        let mut events = vec![Event::Progress; progress];
        events.push(Event::Ok(done));
        events
    });
    let definitions = prop::collection::vec(payload(), 1..4).prop_map(Event::Columns);
    let rows = prop::collection::vec(payload().prop_map(Event::Row), 0..6);
    let last = prop_oneof![4 => end().prop_map(Event::End), 1 => error()];
    let set = (definitions, rows, last).prop_map(|(definitions, rows, last)| {
        let mut events = vec![definitions];
        events.extend(rows);
        events.push(last);
        events
    });
    prop_oneof![1 => ok, 3 => set, 1 => error().prop_map(|error| vec![error])]
}

/// Results one after the other; each but the last says that more follow, unless it is an error.
fn query() -> impl Strategy<Value = Vec<Event>> {
    prop::collection::vec(result(), 1..4).prop_map(|results| {
        let mut events = Vec::new();
        let last = results.len() - 1;
        for (at, mut result) in results.into_iter().enumerate() {
            match result.last_mut() {
                Some(Event::Ok(done) | Event::End(done)) if at < last => {
                    done.status |= status::MORE_RESULTS;
                }
                _ => {}
            }
            let is_error = matches!(result.last(), Some(Event::Err(..)));
            events.extend(result);
            if is_error {
                break;
            }
        }
        events
    })
}

fn likely_byte() -> impl Strategy<Value = u8> {
    prop_oneof![Just(0_u8), Just(1), Just(0xFE), any::<u8>()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_the_client_reads_is_what_the_server_said(
        events in query(),
        server in 0..4_usize,
        client in 0..4_usize,
        lens in prop::collection::vec(1..50_usize, 1..20),
    ) {
        let (server, client) = (FORMATS[server], FORMATS[client]);
        let bytes = Server::encode(&events, server);
        let relay = Relay::new(ResponseShape::Query, server, client, true);
        let (out, relay) = relay_in_chunks(relay, &bytes, &lens);
        let expected = visible(&events, server, client);
        prop_assert_eq!(Client::decode(ResponseShape::Query, client, &out), expected);
        let count = |f: fn(&Event) -> bool| events.iter().filter(|event| f(event)).count();
        prop_assert_eq!(relay.outcome().rows, count(|e| matches!(e, Event::Row(_))) as u64);
        let sets = count(|e| matches!(e, Event::Columns(_)));
        prop_assert_eq!(relay.outcome().result_sets as usize, sets);
        prop_assert_eq!(relay.outcome().bytes, bytes.len() as u64);
    }

    #[test]
    fn damaged_responses_end_or_are_refused(
        events in query(),
        formats in (0..4_usize, 0..4_usize),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        len in 1..64_usize,
    ) {
        let (server, client) = (FORMATS[formats.0], FORMATS[formats.1]);
        let mut bytes = Server::encode(&events, server);
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        feed_anything(ResponseShape::Query, server, client, &bytes, len);
    }

    #[test]
    fn random_bytes_never_panic(
        bytes in prop::collection::vec(likely_byte(), 0..200),
        shape in 0..6_usize,
        formats in (0..4_usize, 0..4_usize),
        len in 1..64_usize,
    ) {
        let shapes = [
            ResponseShape::Single,
            ResponseShape::Text,
            ResponseShape::Query,
            ResponseShape::FieldList,
            ResponseShape::Prepare,
            ResponseShape::Fetch,
        ];
        feed_anything(shapes[shape], FORMATS[formats.0], FORMATS[formats.1], &bytes, len);
    }
}

fn feed_anything(
    shape: ResponseShape,
    server: ReplyFormat,
    client: ReplyFormat,
    bytes: &[u8],
    len: usize,
) {
    let mut relay = Relay::new(shape, server, client, true);
    let mut out = Vec::new();
    for chunk in bytes.chunks(len) {
        match relay.feed(chunk, &mut out) {
            Ok(fed) if fed.ended => break,
            Ok(fed) => assert_eq!(fed.consumed, chunk.len()),
            Err(_) => break,
        }
        let _ = relay.break_off_seq();
    }
}
