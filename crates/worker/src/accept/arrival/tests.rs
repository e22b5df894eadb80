use super::*;

#[test]
fn a_wait_is_told_in_seconds_that_are_enough() {
    for (wait_ms, expected) in [(1, "in 1 s"), (1_000, "in 1 s"), (1_001, "in 2 s")] {
        let error = Turned::Blocked(wait_ms).error("192.0.2.1");
        assert!(error.text.ends_with(expected), "{wait_ms}: {}", error.text);
    }
}

#[test]
fn each_refusal_has_servers_code() {
    let codes = [Turned::NotAllowed, Turned::Blocked(1), Turned::Full]
        .map(|turned| turned.error("192.0.2.1").code);
    assert_eq!(codes, [1130, 1129, 1040]);
}

#[test]
fn who_is_refused_for_room_is_not_told_its_address() {
    assert!(!Turned::AddressFull.error("192.0.2.1").text.contains("192.0.2.1"));
    assert!(Turned::NotAllowed.error("192.0.2.1").text.contains("'192.0.2.1'"));
}
