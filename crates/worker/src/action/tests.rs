use super::*;

#[test]
fn an_errors_code_and_text_are_read_behind_its_sqlstate() {
    let error = read_error(b"\xFF\x15\x04#28000Access denied");
    assert_eq!(error, Some((1045, "Access denied".to_owned())));
}

#[test]
fn an_error_of_before_the_login_has_no_sqlstate() {
    let error = read_error(b"\xFF\x10\x04Too many connections");
    assert_eq!(error, Some((1040, "Too many connections".to_owned())));
}

#[test]
fn an_error_that_ends_inside_its_sqlstate_is_told_as_it_is() {
    assert_eq!(read_error(b"\xFF\x10\x04#08"), Some((1040, "#08".to_owned())));
}

#[test]
fn what_is_no_error_is_not_read_as_one() {
    assert_eq!(read_error(b"\x00\x00\x00\x02\x00\x00\x00"), None);
    assert_eq!(read_error(b""), None);
}

#[test]
fn an_error_without_a_code_is_none() {
    assert_eq!(read_error(b"\xFF\x10"), None);
}

#[test]
fn a_client_over_a_unix_socket_is_of_localhost() {
    assert_eq!(Peer::default().host(), "localhost");
}

#[test]
fn a_client_over_a_network_is_of_its_address() {
    let client_addr = Some("2001:db8::7".parse().expect("an address"));
    assert_eq!(Peer { client_addr, ..Peer::default() }.host(), "2001:db8::7");
}
