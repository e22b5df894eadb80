//! What the machines write byte for byte, and what they make of wrong and random bytes.

use proptest::prelude::*;
use trunkline_protocol::{
    auth::Plugin,
    packet::{
        attributes::Attributes, auth_switch::AuthSwitchRequest,
        handshake_response::HandshakeResponse,
    },
};

use super::*;
use crate::{backend::FailureKind, frontend::HANDSHAKE_PAYLOAD_MAX};

pub(super) fn header(seq: u8, payload: &[u8]) -> Header {
    Header { payload_len: payload.len(), seq }
}

/// A client's machine that has got as far as `state`, and the number of the next packet.
pub(super) fn client_in(state: &str, users: &Users) -> (ClientHandshake, u8) {
    let mut out = Vec::new();
    let mut client = ClientHandshake::start(&greeting("caching_sha2_password"), false, &mut out);
    if state == "response" {
        return (client, 1);
    }
    // The client begins with native, the user's hash needs sha2.
    let mut response = Vec::new();
    let mut peer = ServerHandshake::new(login_as("app", Credential::from_clear(b"five2")));
    let native = Greeting { auth_plugin: "mysql_native_password".into(), ..greeting("") };
    let mut native_bytes = Vec::new();
    native.put(&mut native_bytes, 0);
    let (head, payload, _) = split_packet(&native_bytes).expect("greeting");
    peer.on_packet(head, payload, &mut response);
    let (head, payload, _) = split_packet(&response).expect("response");
    assert!(matches!(client.on_packet(head, payload, users, &mut out), Step::Continue));
    if state == "switch" {
        return (client, 3);
    }
    let answer = [1; 32];
    let step = client.on_packet(header(3, &answer), &answer, users, &mut out);
    assert!(matches!(step, Step::Continue));
    if state == "sha2" {
        return (client, 5);
    }
    let step = client.on_packet(header(5, b"text"), b"text", users, &mut out);
    assert!(matches!(step, Step::Decrypt(_)));
    if state == "decryption" {
        return (client, 7);
    }
    let text = caching_sha2::obscure(b"wrong", &NONCE);
    let step = client.on_decrypted(Some(text), users, &mut out);
    assert!(matches!(step, Step::VerifyHash { .. }));
    (client, 7)
}

const CLIENT_STATES: [&str; 5] = ["response", "switch", "sha2", "decryption", "verification"];

/// A server's machine that has got as far as `state`, and the number of the next packet.
fn server_in(state: &str) -> (ServerHandshake, u8) {
    let mut out = Vec::new();
    let login = login_as("app", Credential::from_clear(PASSWORD.as_bytes()));
    let mut server = ServerHandshake::new(login);
    if state == "greeting" {
        return (server, 0);
    }
    let mut bytes = Vec::new();
    greeting("caching_sha2_password").put(&mut bytes, 0);
    let (head, payload, _) = split_packet(&bytes).expect("greeting");
    assert!(matches!(server.on_packet(head, payload, &mut out), ServerStep::Continue));
    if state == "reply" {
        return (server, 2);
    }
    let step = server.on_packet(header(2, b"\x01\x04"), b"\x01\x04", &mut out);
    assert!(matches!(step, ServerStep::Continue));
    if state == "key" {
        return (server, 4);
    }
    let step = server.on_packet(header(4, &sent_key()), &sent_key(), &mut out);
    assert!(matches!(step, ServerStep::Encrypt { .. }));
    (server, 6)
}

/// A packet with the key.
fn sent_key() -> Vec<u8> {
    [b"\x01", KEY.as_bytes()].concat()
}

const SERVER_STATES: [&str; 4] = ["greeting", "reply", "key", "encryption"];

/// Asserts that `out` is one error packet; returns its code.
fn error_code(out: &[u8]) -> u16 {
    let (_, payload, rest) = split_packet(out).expect("one packet");
    assert!(rest.is_empty());
    err::parse(payload).expect("an error packet").code
}

#[test]
fn a_packet_out_of_order_ends_a_clients_handshake() {
    let users = Users::with("app", sha2_hash());
    for state in ["response", "switch", "sha2"] {
        for skip in [1, 2, 255] {
            let (mut client, seq) = client_in(state, &users);
            let mut out = Vec::new();
            let head = header(seq.wrapping_add(skip), b"x");
            let step = client.on_packet(head, b"x", &users, &mut out);
            assert!(matches!(step, Step::Refused(Refusal::OutOfOrder)), "{state}");
            assert_eq!(error_code(&out), 1156);
            out.clear();
            let step = client.on_packet(header(seq, b"x"), b"x", &users, &mut out);
            assert!(matches!(step, Step::Refused(Refusal::BadHandshake)), "{state}");
        }
    }
}

#[test]
fn a_packet_while_the_caller_works_is_a_bad_handshake() {
    let users = Users::with("app", sha2_hash());
    for state in ["decryption", "verification"] {
        let (mut client, seq) = client_in(state, &users);
        let mut out = Vec::new();
        let step = client.on_packet(header(seq, b"x"), b"x", &users, &mut out);
        assert!(matches!(step, Step::Refused(Refusal::BadHandshake)));
        assert_eq!(error_code(&out), 1043);
    }
}

#[test]
fn what_no_client_of_today_sends_is_a_bad_handshake() {
    let users = Users::with("app", clear(PASSWORD));
    let check = |payload: &[u8], expected: Refusal| {
        let (mut client, seq) = client_in("response", &users);
        let mut out = Vec::new();
        let step = client.on_packet(header(seq, payload), payload, &users, &mut out);
        assert!(matches!(step, Step::Refused(refusal) if refusal == expected));
        assert_eq!(error_code(&out), 1043);
        assert_eq!(Header::read(&out).map(|head| head.seq), Some(2));
    };
    check(b"", Refusal::BadHandshake);
    check(b"\x85\xa4\x03\0\0\x01app\0", Refusal::BadHandshake);
    check(&vec![0xFF; HANDSHAKE_PAYLOAD_MAX + 1], Refusal::BadHandshake);
    let tls = Capabilities::PROTOCOL_41 | Capabilities::SSL;
    let mut request = [0; 32];
    request[..4].copy_from_slice(&tls.low().to_le_bytes());
    check(&request, Refusal::TlsNotOffered);
}

/// What MySQL 9.7's client does towards a greeting of MariaDB: it has no native plug-in.
#[test]
fn a_client_without_the_greetings_plug_in_is_asked_again() {
    for (password, end) in [(clear(PASSWORD), "accepted"), (sha2_hash(), "full authentication")] {
        let users = Users::with("app", password);
        let (mut bytes, mut out) = (Vec::new(), Vec::new());
        let mut client =
            ClientHandshake::start(&greeting("mysql_native_password"), false, &mut out);
        out.clear();
        HandshakeResponse {
            capabilities: ORDINARY,
            packet_len_max: 1,
            charset: 255,
            user: b"app",
            auth: b"",
            schema: None,
            plugin: Some(b"caching_sha2_password"),
            attributes: Attributes::default(),
            zstd_level: None,
        }
        .put(&mut bytes, 1);
        let (head, payload, _) = split_packet(&bytes).expect("response");
        assert!(matches!(client.on_packet(head, payload, &users, &mut out), Step::Continue));
        let (_, payload, _) = split_packet(&out).expect("request");
        let request = AuthSwitchRequest::parse(payload).expect("request");
        assert_eq!((request.plugin, request.data), (&b"caching_sha2_password"[..], &NONCE[..]));
        let answer = caching_sha2::scramble(&caching_sha2::stage1(PASSWORD.as_bytes()), &NONCE);
        let step = client.on_packet(header(3, &answer), &answer, &users, &mut out);
        assert_eq!(matches!(step, Step::Accepted(_)), end == "accepted");
        assert_eq!(matches!(step, Step::Continue), end == "full authentication");
    }
}

#[test]
fn the_public_key_is_sent_once() {
    let users = Users::with("app", sha2_hash());
    let (mut client, seq) = client_in("sha2", &users);
    let mut out = Vec::new();
    let step = client.on_packet(header(seq, b"\x02"), b"\x02", &users, &mut out);
    assert!(matches!(step, Step::Continue));
    let (head, payload, _) = split_packet(&out).expect("the key");
    assert_eq!((head.seq, payload), (6, &*sent_key()));
    out.clear();
    let step = client.on_packet(header(seq + 2, b"\x02"), b"\x02", &users, &mut out);
    assert!(matches!(step, Step::Refused(Refusal::BadHandshake)));
}

#[test]
fn what_cannot_be_decrypted_is_denied() {
    let users = Users::with("app", sha2_hash());
    for text in [None, Some(Vec::new()), Some(b"no nonce, no nul".to_vec())] {
        let (mut client, _) = client_in("decryption", &users);
        let mut out = Vec::new();
        let step = client.on_decrypted(text, &users, &mut out);
        assert!(matches!(step, Step::Refused(Refusal::AccessDenied)));
        assert_eq!(error_code(&out), 1045);
    }
}

#[test]
fn answers_that_were_not_asked_for_are_refused() {
    let users = Users::with("app", sha2_hash());
    for state in CLIENT_STATES {
        let mut out = Vec::new();
        if state != "decryption" {
            let (mut client, _) = client_in(state, &users);
            let step = client.on_decrypted(Some(Vec::new()), &users, &mut out);
            assert!(matches!(step, Step::Refused(Refusal::BadHandshake)));
        }
        if state != "verification" {
            let (mut client, _) = client_in(state, &users);
            let step = client.on_verified(true, &users, &mut out);
            assert!(matches!(step, Step::Refused(Refusal::BadHandshake)));
        }
    }
}

#[test]
fn a_long_name_in_the_error_is_cut_at_a_character() {
    let users = Users::with("app", clear(PASSWORD));
    let name = "ä".repeat(300);
    let login = login_as(&name, Credential::from_clear(b"x"));
    let failure =
        Wire::login(&users, "mysql_native_password", login).server.expect_err("unknown user");
    let shown = "ä".repeat(48);
    let expected = format!("Access denied for user '{shown}'@'10.0.0.9' (using password: YES)");
    assert_eq!(failure.message, expected);
}

#[test]
fn attributes_beyond_the_limit_are_left_out() {
    let users = Users::with("app", clear(PASSWORD));
    let mut login = login_as("app", Credential::from_clear(PASSWORD.as_bytes()));
    login.attributes =
        (0..300).map(|n| (format!("{n:03}").into_bytes(), vec![b'v'; 200])).collect();
    let identity =
        Wire::login(&users, "mysql_native_password", login.clone()).client.expect("accepted");
    assert_eq!(identity.attributes.len(), 300);
    login.attributes.extend(vec![(b"more".to_vec(), vec![b'v'; 6000])]);
    let identity = Wire::login(&users, "mysql_native_password", login).client.expect("accepted");
    assert_eq!(identity.attributes.len(), 0);
}

#[test]
fn a_refusal_in_place_of_the_greeting_is_reported() {
    let check = |payload: &[u8], code: u16, kind: FailureKind| {
        let (mut server, seq) = server_in("greeting");
        let step = server.on_packet(header(seq, payload), payload, &mut Vec::new());
        let ServerStep::Failed(failure) = step else { panic!("a refusal") };
        assert_eq!((failure.code, failure.kind), (code, kind));
    };
    check(b"\xFF\x10\x04Too many connections", 1040, FailureKind::TooManyConnections);
    check(b"\xFF\x6A\x04Host 'h' is not allowed", 1130, FailureKind::AuthenticationDenied);
    check(b"\xFF\x69\x04#HY000Host 'h' is blocked", 1129, FailureKind::Other);
    check(b"\xFF", 2012, FailureKind::Protocol);
    check(b"\x09old", 2012, FailureKind::Protocol);
}

#[test]
fn a_server_that_asks_for_the_clear_password_does_not_get_it() {
    for name in ["mysql_clear_password", "dialog", "auth_gssapi_client"] {
        let (mut server, seq) = server_in("reply");
        let mut bytes = Vec::new();
        AuthSwitchRequest { plugin: name.as_bytes(), data: &NONCE }.put(&mut bytes, seq);
        let (head, payload, _) = split_packet(&bytes).expect("request");
        let mut out = Vec::new();
        let step = server.on_packet(head, payload, &mut out);
        let ServerStep::Failed(failure) = step else { panic!("{name} is not spoken") };
        assert_eq!((failure.code, failure.kind), (2059, FailureKind::AuthenticationDenied));
        assert!(out.is_empty());
    }
    let (mut server, seq) = server_in("reply");
    let step = server.on_packet(header(seq, b"\xFE"), b"\xFE", &mut Vec::new());
    assert!(matches!(step, ServerStep::Failed(failure) if failure.code == 2059));
}

/// A server's machine to which somebody with a key of his own has answered, by either plug-in.
fn asked_for_the_password(login: ServerLogin, plugin: Plugin, key: &str) -> (ServerStep, Vec<u8>) {
    let mut server = ServerHandshake::new(login);
    let (mut out, mut bytes) = (Vec::new(), Vec::new());
    greeting("mysql_native_password").put(&mut bytes, 0);
    let (head, payload, _) = split_packet(&bytes).expect("greeting");
    server.on_packet(head, payload, &mut out);
    bytes.clear();
    AuthSwitchRequest { plugin: plugin.name().as_bytes(), data: &NONCE }.put(&mut bytes, 2);
    let (head, payload, _) = split_packet(&bytes).expect("request");
    server.on_packet(head, payload, &mut out);
    let mut seq = 4;
    if plugin == Plugin::CachingSha2 {
        let step = server.on_packet(header(seq, b"\x01\x04"), b"\x01\x04", &mut out);
        assert!(matches!(step, ServerStep::Continue));
        seq = 6;
    }
    let payload = [b"\x01", key.as_bytes()].concat();
    let step = server.on_packet(header(seq, &payload), &payload, &mut out);
    (step, out)
}

#[test]
fn whoever_sends_a_key_of_his_own_gets_no_password() {
    let hostile = KEY.replace("MIIBIj", "MIIBJj");
    let credential = Credential::from_clear(PASSWORD.as_bytes());
    let pinned = login_as("app", credential);
    let open = ServerLogin { keys: Arc::default(), ..pinned.clone() };
    for plugin in [Plugin::CachingSha2, Plugin::Sha256] {
        for (login, key, why) in [
            (&open, KEY, "no public key of its is known (server_public_key)"),
            (&pinned, &*hostile, "does not have the public key that it sent"),
            (&pinned, "no key at all", "does not have the public key that it sent"),
        ] {
            let (step, out) = asked_for_the_password(login.clone(), plugin, key);
            let ServerStep::Failed(failure) = step else { panic!("{plugin:?} {key}: {step:?}") };
            assert_eq!((failure.code, failure.kind), (2061, FailureKind::Unproven), "{failure}");
            assert!(failure.message.contains(why), "{failure}");
            assert!(failure.message.contains("use TLS, or add the server's public_key.pem"));
            let sent = String::from_utf8_lossy(&out);
            assert!(!sent.contains(PASSWORD));
        }
        let (step, _) = asked_for_the_password(pinned.clone(), plugin, KEY);
        let ServerStep::Encrypt { public_key_pem, .. } = step else { panic!("{step:?}") };
        assert_eq!(public_key_pem, KEY.as_bytes());
    }
    // Nobody else is at the other end of a Unix socket.
    let (step, _) =
        asked_for_the_password(ServerLogin { is_local: true, ..open }, Plugin::Sha256, KEY);
    assert!(matches!(step, ServerStep::Encrypt { .. }), "{step:?}");
}

#[test]
fn sha256_password_gets_the_password_encrypted() {
    let (mut server, seq) = server_in("reply");
    let mut bytes = Vec::new();
    let nonce = *b"zyxwvutsrq9876543210";
    AuthSwitchRequest { plugin: Plugin::Sha256.name().as_bytes(), data: &nonce }
        .put(&mut bytes, seq);
    let (head, payload, _) = split_packet(&bytes).expect("request");
    let mut out = Vec::new();
    assert!(matches!(server.on_packet(head, payload, &mut out), ServerStep::Continue));
    assert_eq!(out, b"\x01\0\0\x03\x01");
    let step = server.on_packet(header(4, &sent_key()), &sent_key(), &mut out);
    let ServerStep::Encrypt { public_key_pem, plaintext } = step else { panic!("a key came") };
    assert_eq!(public_key_pem, KEY.as_bytes());
    let password = caching_sha2::reveal(plaintext.expose().clone(), &nonce);
    assert_eq!(password.as_deref(), Some(PASSWORD.as_bytes()));
    out.clear();
    assert!(matches!(server.on_encrypted(Some(b"c".to_vec()), &mut out), ServerStep::Continue));
    assert_eq!(out, b"\x01\0\0\x05c");
}

#[test]
fn a_server_that_goes_on_switching_is_left() {
    let (mut server, mut seq) = server_in("reply");
    for round in 0..3 {
        let mut bytes = Vec::new();
        AuthSwitchRequest { plugin: b"mysql_native_password", data: &NONCE }.put(&mut bytes, seq);
        let (head, payload, _) = split_packet(&bytes).expect("request");
        let step = server.on_packet(head, payload, &mut Vec::new());
        assert_eq!(matches!(step, ServerStep::Failed(_)), round == 2);
        seq += 2;
    }
}

#[test]
fn a_servers_packet_out_of_order_fails_the_login() {
    for state in SERVER_STATES {
        let (mut server, seq) = server_in(state);
        let ok = b"\0\0\0\x02\0\0\0";
        let step = server.on_packet(header(seq + 1, ok), ok, &mut Vec::new());
        let ServerStep::Failed(failure) = step else { panic!("{state}") };
        assert_eq!(failure.kind, FailureKind::Protocol);
    }
    let (mut server, _) = server_in("encryption");
    let step = server.on_encrypted(None, &mut Vec::new());
    assert!(matches!(step, ServerStep::Failed(failure) if failure.kind == FailureKind::Protocol));
}

#[test]
fn a_long_collation_id_is_not_cut_to_another_one() {
    let (credential, mut out) = (Credential::from_clear(b"x"), Vec::new());
    let login = ServerLogin { collation: 2305, ..login_as("app", credential) };
    let mut server = ServerHandshake::new(login);
    let mut bytes = Vec::new();
    greeting("mysql_native_password").put(&mut bytes, 0);
    let (head, payload, _) = split_packet(&bytes).expect("greeting");
    server.on_packet(head, payload, &mut out);
    assert_eq!(out[12], 45);
    let ok = b"\0\0\0\x02\0\0\0";
    let step = server.on_packet(header(2, ok), ok, &mut out);
    assert!(matches!(step, ServerStep::Ready(identity) if identity.collation == 45));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_packets_end_in_one_error_packet(
        payload in prop::collection::vec(any::<u8>(), 0..120),
        is_secure: bool,
    ) {
        let users = Users { is_secure, ..Users::with("app", sha2_hash()) };
        let plain = Users { is_secure: false, ..Users::with("app", sha2_hash()) };
        for state in CLIENT_STATES {
            let (mut client, seq) = client_in(state, &plain);
            let mut out = Vec::new();
            match client.on_packet(header(seq, &payload), &payload, &users, &mut out) {
                Step::Refused(_) => prop_assert!(error_code(&out) >= 1043),
                Step::Continue => prop_assert!(split_packet(&out).is_some()),
                Step::StartTls
                | Step::Decrypt(_)
                | Step::VerifyHash { .. }
                | Step::AskServer { .. }
                | Step::LookUp
                | Step::LookUpUser(_)
                | Step::NameHost => {
                    prop_assert!(out.is_empty());
                }
                Step::Accepted(_) => prop_assert!(false, "random bytes are no password"),
            }
        }
        let mut out = Vec::new();
        let (_, step) =
            ClientHandshake::change_user(ORDINARY, NONCE, &payload, 0, &users, &mut out);
        prop_assert!(!matches!(step, Step::Accepted(_)));
        prop_assert!(split_packet(&out).is_some());
    }

    #[test]
    fn random_packets_never_log_in(payload in prop::collection::vec(any::<u8>(), 0..120)) {
        for state in SERVER_STATES {
            for first in [None, Some(0xFF), Some(0xFE), Some(1)] {
                let mut payload = payload.clone();
                if let Some(first) = first {
                    payload.insert(0, first);
                }
                let (mut server, seq) = server_in(state);
                let mut out = Vec::new();
                let step = server.on_packet(header(seq, &payload), &payload, &mut out);
                let is_ok = payload.first() == Some(&0) && state == "reply";
                prop_assert!(is_ok || !matches!(step, ServerStep::Ready(_)));
            }
        }
    }
}
