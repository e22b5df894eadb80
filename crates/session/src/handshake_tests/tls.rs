//! TLS within the handshake.

use trunkline_protocol::packet::{attributes::Attributes, handshake_response::HandshakeResponse};

use super::{bytes::header, *};
use crate::backend::{FailureKind, TlsWish};

const ENCRYPTED: Capabilities = ORDINARY.union(Capabilities::SSL);

fn log_in(users: &Users, plugin: &str, offers_tls: bool, tls: TlsWish) -> Ended {
    let mut greeting = greeting(plugin);
    if offers_tls {
        greeting.capabilities = ENCRYPTED;
    }
    let mut to_client = Vec::new();
    let client = ClientHandshake::start(&greeting, false, &mut to_client);
    let login = ServerLogin { tls, ..login_as("app", Credential::from_clear(PASSWORD.as_bytes())) };
    Wire::between(users, client, login, to_client)
}

#[test]
fn every_password_is_proven_through_tls() {
    for plugin in ["mysql_native_password", "caching_sha2_password"] {
        for password in [clear(PASSWORD), native_hash(PASSWORD), sha2_hash()] {
            let users = Users { is_secure: true, ..Users::with("app", password.clone()) };
            let ended = log_in(&users, plugin, true, TlsWish::Always);
            assert!(ended.is_encrypted);
            assert!(ended.client.is_ok() && ended.server.is_ok(), "{plugin}, {password:?}");
            let identity = ended.server.expect("logged in");
            assert!(identity.capabilities.contains(Capabilities::SSL));
            let holds = |part: &[u8]| ended.to_proxy.windows(part.len()).any(|it| it == part);
            assert!(!holds(CIPHER_MARK), "a password is encrypted once more within TLS");
        }
    }
}

#[test]
fn tls_begins_where_both_want_it() {
    let users = Users::with("app", clear(PASSWORD));
    let check = |offers_tls: bool, wish: TlsWish, expected: bool| {
        let ended = log_in(&users, "mysql_native_password", offers_tls, wish);
        assert!(ended.client.is_ok() && ended.server.is_ok());
        assert_eq!(ended.is_encrypted, expected, "{offers_tls}, {wish:?}");
    };
    check(true, TlsWish::Never, false);
    check(true, TlsWish::Offered, true);
    check(true, TlsWish::Always, true);
    check(false, TlsWish::Never, false);
    check(false, TlsWish::Offered, false);
}

#[test]
fn a_server_that_no_longer_offers_tls_gets_no_login() {
    let users = Users::with("app", clear(PASSWORD));
    let ended = log_in(&users, "mysql_native_password", false, TlsWish::Always);
    let failure = ended.server.expect_err("a downgrade");
    assert_eq!((failure.code, failure.kind), (2026, FailureKind::Protocol));
    assert!(ended.to_proxy.is_empty(), "nothing is told to a server in clear");
}

/// A client's machine that was asked to begin TLS.
fn asked(must_encrypt: bool) -> ClientHandshake {
    let greeting = Greeting { capabilities: ENCRYPTED, ..greeting("mysql_native_password") };
    ClientHandshake::start(&greeting, must_encrypt, &mut Vec::new())
}

fn request() -> [u8; 32] {
    let mut request = [0; 32];
    let tls = Capabilities::PROTOCOL_41 | Capabilities::SSL;
    request[..4].copy_from_slice(&tls.low().to_le_bytes());
    request
}

fn response() -> Vec<u8> {
    let mut out = Vec::new();
    let response = HandshakeResponse {
        capabilities: ENCRYPTED,
        packet_len_max: 1,
        charset: 45,
        user: b"app",
        auth: &native::scramble(&native::stage1(PASSWORD.as_bytes()), &NONCE),
        schema: None,
        plugin: Some(b"mysql_native_password"),
        attributes: Attributes::default(),
        zstd_level: None,
    };
    response.put(&mut out, 1);
    out.split_off(4)
}

#[test]
fn who_must_encrypt_and_does_not_is_refused() {
    let users = Users::with("app", clear(PASSWORD));
    let mut out = Vec::new();
    let step = asked(true).on_packet(header(1, &response()), &response(), &users, &mut out);
    assert!(matches!(step, Step::Refused(Refusal::TlsRequired)));
    let (_, payload, _) = split_packet(&out).expect("an error");
    assert_eq!(err::parse(payload).expect("an error").code, 3159);
    let mut client = asked(true);
    let step = client.on_packet(header(1, &request()), &request(), &users, &mut out);
    assert!(matches!(step, Step::StartTls));
    client.on_tls();
    let step = client.on_packet(header(2, &response()), &response(), &users, &mut out);
    assert!(matches!(step, Step::Accepted(_)));
}

#[test]
fn nothing_is_a_packet_while_tls_begins() {
    let users = Users::with("app", clear(PASSWORD));
    let mut out = Vec::new();
    let mut client = asked(false);
    client.on_packet(header(1, &request()), &request(), &users, &mut out);
    assert!(client.awaits_tls() && out.is_empty());
    let step = client.on_packet(header(2, &response()), &response(), &users, &mut out);
    assert!(matches!(step, Step::Refused(Refusal::BadHandshake)));
}

#[test]
fn tls_is_asked_for_once() {
    let users = Users::with("app", clear(PASSWORD));
    let mut out = Vec::new();
    let mut client = asked(false);
    client.on_packet(header(1, &request()), &request(), &users, &mut out);
    client.on_tls();
    let step = client.on_packet(header(2, &request()), &request(), &users, &mut out);
    assert!(matches!(step, Step::Refused(Refusal::BadHandshake)));
}

#[test]
fn a_native_login_can_be_shown_a_proof_of_the_certificate() {
    let stage2 = native::stage2(&native::stage1(PASSWORD.as_bytes()));
    for password in [clear(PASSWORD), native_hash(PASSWORD)] {
        let users = Users::with("app", password);
        let ended = log_in(&users, "mysql_native_password", true, TlsWish::Always);
        let identity = ended.client.expect("logged in");
        assert_eq!((identity.native_stage2, identity.nonce), (Some(stage2), NONCE));
    }
    let users = Users { is_secure: true, ..Users::with("app", sha2_hash()) };
    let ended = log_in(&users, "caching_sha2_password", true, TlsWish::Always);
    assert_eq!(ended.client.expect("logged in").native_stage2, None);
}
