use super::*;

const SPEC: PipeSpec = PipeSpec {
    latency_us: 100,
    jitter_us: 0,
    bytes_per_ms: 1_000_000,
    window: 1_000,
    chop: Chop::Pieces(3),
};

/// Lets everything arrive and returns what `end` reads.
fn drain(wire: &mut Wire, id: LinkId, end: End, now: &mut Micros) -> (Vec<u8>, ReadBytes) {
    let mut bytes = Vec::new();
    loop {
        let events = wire.take_events();
        let is_quiet = events.is_empty();
        for (at, event) in events {
            *now = (*now).max(at);
            match event {
                WireEvent::Arrival(id, end) => _ = wire.arrive(id, end, *now),
                WireEvent::Room(id, end) => _ = wire.room(id, end, *now),
            }
        }
        match wire.read(id, end, 7, *now) {
            ReadBytes::Some(some) => bytes.extend(some),
            other if is_quiet => return (bytes, other),
            _ => {}
        }
    }
}

#[test]
fn bytes_arrive_in_order_however_they_fall_apart() {
    let mut wire = Wire::new(Rng::new(1));
    let id = wire.link(Far::Client(0), &SPEC);
    let (text, mut now) = (b"the quick brown fox jumps over the lazy dog".repeat(3), 0);
    assert_eq!(wire.write(id, End::Far, &text, 0), Ok(text.len()));
    wire.finish(id, End::Far, 0);
    assert_eq!(drain(&mut wire, id, End::Proxy, &mut now), (text, ReadBytes::End));
    assert!(now >= 100);
}

#[test]
fn a_full_window_takes_no_more_until_the_reader_reads() {
    let mut wire = Wire::new(Rng::new(1));
    let id = wire.link(Far::Client(0), &SPEC);
    assert_eq!(wire.write(id, End::Proxy, &[b'x'; 1_500], 0), Ok(1_000));
    assert_eq!(wire.write(id, End::Proxy, b"x", 0), Ok(0));
    let mut now = 0;
    assert_eq!(drain(&mut wire, id, End::Far, &mut now).0.len(), 1_000);
    assert_eq!(wire.write(id, End::Proxy, &[b'x'; 500], now), Ok(500));
}

#[test]
fn what_waits_for_room_comes_before_the_end() {
    let mut wire = Wire::new(Rng::new(1));
    let id = wire.link(Far::Host(HostId(0)), &SPEC);
    wire.write_all(id, End::Far, &[b'x'; 5_000], 0);
    wire.finish(id, End::Far, 0);
    let (bytes, end) = drain(&mut wire, id, End::Proxy, &mut 0);
    assert_eq!((bytes.len(), end), (5_000, ReadBytes::End));
}

#[test]
fn bytes_for_an_end_that_has_closed_are_answered_with_a_reset() {
    let mut wire = Wire::new(Rng::new(1));
    let id = wire.link(Far::Client(0), &SPEC);
    let mut now = 0;
    wire.close(id, End::Far, 0);
    assert_eq!(drain(&mut wire, id, End::Proxy, &mut now).1, ReadBytes::End);
    assert_eq!(wire.write(id, End::Proxy, b"late", now), Ok(4));
    drain(&mut wire, id, End::Far, &mut now);
    // The reset is on its way back.
    let _ = drain(&mut wire, id, End::Proxy, &mut now);
    assert_eq!(wire.write(id, End::Proxy, b"later", now), Err(Broken));
}

#[test]
fn closing_with_unread_bytes_resets_behind_the_last_words() {
    let mut wire = Wire::new(Rng::new(1));
    let id = wire.link(Far::Client(0), &SPEC);
    wire.write(id, End::Far, b"unread", 0).expect("room");
    for (at, event) in wire.take_events() {
        if let WireEvent::Arrival(id, end) = event {
            wire.arrive(id, end, at);
        }
    }
    wire.arrive(id, End::Proxy, 1_000);
    wire.write(id, End::Proxy, b"last words", 1_000).expect("room");
    wire.close(id, End::Proxy, 1_000);
    let (bytes, end) = drain(&mut wire, id, End::Far, &mut 1_000);
    assert_eq!((bytes.as_slice(), end), (&b"last words"[..], ReadBytes::Reset));
}

#[test]
fn a_stalled_link_holds_bytes_back_and_a_cut_one_loses_them() {
    let mut wire = Wire::new(Rng::new(1));
    let id = wire.link(Far::Client(0), &SPEC);
    wire.write(id, End::Far, b"abc", 0).expect("room");
    wire.stall(id, 9_000);
    assert!(!wire.arrive(id, End::Proxy, 8_999));
    wire.cut(id, 8_999);
    let mut now = 8_999;
    let (bytes, end) = drain(&mut wire, id, End::Proxy, &mut now);
    assert_eq!((bytes.as_slice(), end), (&b""[..], ReadBytes::Reset));
    assert!(now >= 9_000);
}

#[test]
fn links_that_both_ends_have_closed_are_forgotten() {
    let mut wire = Wire::new(Rng::new(1));
    let id = wire.link(Far::Client(3), &SPEC);
    wire.close(id, End::Far, 0);
    wire.close(id, End::Proxy, 0);
    for (at, event) in wire.take_events() {
        if let WireEvent::Arrival(id, end) = event {
            wire.arrive(id, end, at);
        }
    }
    assert_eq!(wire.links_of(Far::Client(3)), []);
}
