use super::*;

#[test]
fn each_refusal_has_servers_code() {
    let codes = [Turned::NotAllowed, Turned::Full].map(|turned| turned.error("192.0.2.1").code);
    assert_eq!(codes, [1130, 1040]);
}

#[test]
fn who_is_refused_for_room_is_not_told_its_address() {
    assert!(!Turned::AddressFull.error("192.0.2.1").text.contains("192.0.2.1"));
    assert!(Turned::NotAllowed.error("192.0.2.1").text.contains("'192.0.2.1'"));
}
