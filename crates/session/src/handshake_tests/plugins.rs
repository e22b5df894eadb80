//! Plug-ins beyond the two usual ones, and passwords that are being changed.

use trunkline_protocol::{
    auth::{Plugin, clear, ed25519, parsec, sha256_crypt},
    packet::handshake_response::HandshakeResponse,
};

use super::*;

fn ed25519_key(password: &str) -> Password {
    Password::Ed25519Key(Secret::new(ed25519::public_key(password.as_bytes())))
}

fn knows(password: &str) -> Credential {
    Credential::from_clear(password.as_bytes())
}

/// The users with another password beside `name`'s own.
fn retaining(mut users: Users, name: &str, password: Password) -> Users {
    let user = users.users.get_mut().get_mut(name).map(Arc::make_mut).expect("the user");
    user.retained_password = Some(password);
    users
}

#[test]
fn a_signature_proves_the_password_of_a_public_key() {
    let users = Users::with("app", ed25519_key(PASSWORD));
    for plugin in ["mysql_native_password", "caching_sha2_password"] {
        let ended = Wire::login(&users, plugin, login_as("app", knows(PASSWORD)));
        let identity = ended.client.expect("accepted");
        assert!(ended.server.is_ok());
        // It opens no server.
        assert!(identity.credential.is_unknown());
        let ended = Wire::login(&users, plugin, login_as("app", knows("wrong")));
        assert_eq!(ended.client.err(), Some(Refusal::AccessDenied));
    }
}

#[test]
fn a_change_of_user_is_signed_as_well() {
    let users = Users::with("app", ed25519_key(PASSWORD));
    let login = login_as("app", knows(PASSWORD));
    let first = Wire::login(&users, "mysql_native_password", login.clone());
    let identity = *first.server.expect("logged in");
    assert!(Wire::change_user(&users, identity.clone(), login).client.is_ok());
    let ended = Wire::change_user(&users, identity, login_as("app", knows("wrong")));
    assert!(ended.client.is_err());
}

/// Answers the greeting with this plug-in's answer; what comes of it.
fn answer(users: &Users, plugin: Plugin, auth: &[u8]) -> Step {
    let mut out = Vec::new();
    let mut client = ClientHandshake::start(&greeting("mysql_native_password"), false, &mut out);
    let response = HandshakeResponse {
        capabilities: ORDINARY,
        packet_len_max: 1 << 24,
        charset: 45,
        user: b"app",
        auth,
        schema: None,
        plugin: Some(plugin.name().as_bytes()),
        attributes: Default::default(),
        zstd_level: None,
    };
    let mut bytes = Vec::new();
    response.put(&mut bytes, 1);
    let (header, payload, _) = split_packet(&bytes).expect("a packet");
    out.clear();
    let mut step = client.on_packet(header, payload, users, &mut out);
    while let Step::VerifyHash { clear, hash } = step {
        let is_right = is_stored(clear.expose(), hash.expose());
        step = client.on_verified(is_right, users, &mut out);
    }
    step
}

#[test]
fn the_password_itself_is_checked_against_every_form_where_nobody_can_listen() {
    let stored = [clear_of(PASSWORD), native_hash(PASSWORD), sha2_hash(), ed25519_key(PASSWORD)];
    for password in stored {
        let mut users = Users::with("app", password.clone());
        users.is_secure = true;
        let mut right = Vec::new();
        clear::put(&mut right, PASSWORD.as_bytes());
        let Step::Accepted(identity) = answer(&users, Plugin::Clear, &right) else {
            panic!("{password:?} refused the password");
        };
        assert_eq!(identity.credential, knows(PASSWORD));
        for wrong in [&b"wrong\0"[..], &right[..right.len() - 1], b"\0", b""] {
            let step = answer(&users, Plugin::Clear, wrong);
            // Without an answer the client is asked by the plug-in that it should have used.
            let is_refused = matches!(step, Step::Refused(Refusal::AccessDenied));
            assert!(is_refused || wrong.is_empty(), "{password:?} {wrong:?}: {step:?}");
        }
        // Over a network it is neither asked for nor taken.
        users.is_secure = false;
        let step = answer(&users, Plugin::Clear, &right);
        assert!(matches!(step, Step::Continue), "{step:?}");
    }
}

fn clear_of(password: &str) -> Password {
    super::clear(password)
}

#[test]
fn while_a_password_is_changed_both_are_right() {
    let other = "the one before";
    let pairs = [
        (clear_of(PASSWORD), clear_of(other)),
        (native_hash(PASSWORD), native_hash(other)),
        (ed25519_key(PASSWORD), ed25519_key(other)),
    ];
    for (newest, before) in pairs {
        let users = retaining(Users::with("app", newest), "app", before);
        for (password, is_right) in [(PASSWORD, true), (other, true), ("neither", false)] {
            let login = login_as("app", knows(password));
            let ended = Wire::login(&users, "mysql_native_password", login);
            assert_eq!(ended.client.is_ok(), is_right, "{password}");
        }
    }
}

#[test]
fn both_slow_hashes_are_tried() {
    // The stored one is the one before; the newest is of another password.
    let salt_and_sum = "aaaaaaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
    let newest = Password::from_hash(&format!("$A$005${salt_and_sum}")).expect("a hash");
    let users = retaining(Users::with("app", newest), "app", sha2_hash());
    let ended = Wire::login(&users, "caching_sha2_password", login_as("app", knows(PASSWORD)));
    let identity = ended.client.expect("accepted");
    let (hash, _) = identity.proven_sha2.expect("proven");
    assert_eq!(Password::Sha2Hash(hash), sha2_hash());
    let ended = Wire::login(&users, "caching_sha2_password", login_as("app", knows("neither")));
    assert_eq!(ended.client.err(), Some(Refusal::AccessDenied));
}

/// A server's switch request for a plug-in, and what is answered.
fn switched(login: ServerLogin, plugin: Plugin, data: &[u8]) -> (ServerStep, Vec<u8>) {
    let mut server = ServerHandshake::new(login);
    let mut bytes = Vec::new();
    greeting("mysql_native_password").put(&mut bytes, 0);
    let (header, payload, _) = split_packet(&bytes).expect("greeting");
    server.on_packet(header, payload, &mut Vec::new());
    bytes.clear();
    let name = plugin.name().as_bytes();
    trunkline_protocol::packet::auth_switch::AuthSwitchRequest { plugin: name, data }
        .put(&mut bytes, 2);
    let (header, payload, _) = split_packet(&bytes).expect("request");
    let mut out = Vec::new();
    let step = server.on_packet(header, payload, &mut out);
    (step, out)
}

#[test]
fn servers_get_a_signature_of_their_nonce() {
    // One that ends with a NUL is whole nevertheless.
    let mut nonce = [7; ed25519::NONCE_LEN];
    nonce[31] = 0;
    let login = login_as("app", knows(PASSWORD));
    let (step, out) = switched(login, Plugin::Ed25519, &nonce);
    assert!(matches!(step, ServerStep::Continue));
    let (_, payload, _) = split_packet(&out).expect("an answer");
    let key = ed25519::public_key(PASSWORD.as_bytes());
    assert!(ed25519::verify(payload, &key, &nonce));
}

#[test]
fn servers_get_the_password_itself_over_a_unix_socket_only() {
    let login = login_as("app", knows(PASSWORD));
    let (step, out) = switched(login.clone(), Plugin::Clear, &[]);
    assert!(matches!(step, ServerStep::Failed(failure) if failure.code == 2059));
    assert!(out.is_empty());
    let (step, out) = switched(ServerLogin { is_local: true, ..login }, Plugin::Clear, &[]);
    assert!(matches!(step, ServerStep::Continue));
    let (_, payload, _) = split_packet(&out).expect("an answer");
    assert_eq!(clear::read(payload), Some(PASSWORD.as_bytes()));
}

/// What `parsec` stores of a password.
fn parsec_key(password: &str) -> Password {
    // A salt of three bytes: `c2Fs` in base64.
    let derivation = parsec::Derivation { factor: 0, salt: b"sal".to_vec() };
    let key = derivation.public_key(password.as_bytes());
    let stored = format!("P0:c2Fs:{}", base64(&key));
    let read = Password::from_hash(&stored).expect("what a server stores");
    assert!(matches!(read, Password::ParsecKey(_)));
    read
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits: String = bytes.iter().map(|byte| format!("{byte:08b}")).collect();
    let digit = |bits: &[u8]| {
        let value = bits.iter().fold(0, |value, bit| value * 2 + usize::from(bit - b'0'));
        char::from(DIGITS[value << (6 - bits.len())])
    };
    bits.as_bytes().chunks(6).map(digit).collect()
}

/// What `sha256_password` stores of a password.
fn sha256_hash(password: &str) -> Password {
    let stored = sha256_crypt::stored(password.as_bytes(), b"TwentyBytesOfSaltHer");
    let (salt, digest) = stored[7..].split_at(20);
    let text = [b"$5$", salt, b"$", digest].concat();
    let read = Password::from_hash(std::str::from_utf8(&text).expect("text")).expect("a hash");
    assert!(matches!(read, Password::Sha256Hash(_)));
    read
}

#[test]
fn both_ends_agree_on_the_later_plug_ins() {
    for stored in [parsec_key(PASSWORD), sha256_hash(PASSWORD)] {
        for plugin in ["mysql_native_password", "caching_sha2_password"] {
            let users = Users::with("app", stored.clone());
            let login =
                |password: &str| login_as("app", Credential::from_clear(password.as_bytes()));
            let ended = Wire::login(&users, plugin, login(PASSWORD));
            assert!(ended.client.is_ok() && ended.server.is_ok(), "{stored:?} {plugin}");
            let sent = String::from_utf8_lossy(&ended.to_proxy).into_owned();
            assert!(!sent.contains(&format!("{PASSWORD}\0")), "the password was sent in clear");
            let again = Wire::change_user(&users, *ended.server.expect("ready"), login(PASSWORD));
            assert!(again.client.is_ok(), "{stored:?} {plugin}");
            for wrong in ["wrong", ""] {
                let ended = Wire::login(&users, plugin, login(wrong));
                assert_eq!(ended.client.err(), Some(Refusal::AccessDenied), "{stored:?} {wrong}");
            }
            // Who is unknown is told what the user would be, but for the salt.
            let mut users = Users::with("app", stored.clone());
            users.stand_in = users.user("app");
            for given in [PASSWORD, "wrong"] {
                let who = ServerLogin { user: "who".to_owned(), ..login(given) };
                let ended = Wire::login(&users, plugin, who);
                assert_eq!(ended.client.err(), Some(Refusal::AccessDenied), "{stored:?}");
                let text = String::from_utf8_lossy(&ended.to_client).into_owned();
                assert!(!text.contains("sal") || !matches!(stored, Password::ParsecKey(_)));
            }
        }
    }
}

#[test]
fn sha256_takes_the_password_itself_through_tls() {
    for stored in [sha256_hash(PASSWORD), clear_of(PASSWORD)] {
        let mut users = Users::with("app", stored);
        users.is_encrypted = true;
        let mut right = Vec::new();
        clear::put(&mut right, PASSWORD.as_bytes());
        assert!(matches!(answer(&users, Plugin::Sha256, &right), Step::Accepted(_)));
        for wrong in [&b"wrong\0"[..], &right[..right.len() - 1]] {
            let step = answer(&users, Plugin::Sha256, wrong);
            assert!(matches!(step, Step::Refused(Refusal::AccessDenied)), "{step:?}");
        }
    }
}

#[test]
fn pams_question_for_the_password_is_answered_where_nobody_can_listen() {
    let local = ServerLogin { is_local: true, ..login_as("app", knows(PASSWORD)) };
    // MariaDB's auth_pam says nothing where the password is what it asks for first.
    for (question, is_answered) in [
        (&b"\x04Password: "[..], true),
        (b"\x05Password: ", true),
        (b"", true),
        (b"\x02Code: ", false),
    ] {
        let (step, out) = switched(local.clone(), Plugin::Dialog, question);
        assert_eq!(matches!(step, ServerStep::Continue), is_answered, "{question:?}");
        let answer = [PASSWORD.as_bytes(), b"\0"].concat();
        assert_eq!(out.ends_with(&answer), is_answered);
    }
    let open = login_as("app", knows(PASSWORD));
    let (step, _) = switched(open, Plugin::Dialog, b"\x04Password: ");
    assert!(matches!(step, ServerStep::Failed(failure) if failure.code == 2059));
}

#[test]
fn a_servers_word_decides_where_nothing_is_known() {
    for plugin in ["mysql_native_password", "caching_sha2_password"] {
        let mut users = Users::with("app", Password::Servers);
        let right = Wire::login(&users, plugin, login_as("app", knows(PASSWORD)));
        assert_eq!(right.client.expect("accepted").credential, knows(PASSWORD));
        let sent = String::from_utf8_lossy(&right.to_proxy).into_owned();
        assert!(sent.contains("encrypted:"), "the password was not asked for");
        for wrong in ["wrong", ""] {
            let ended = Wire::login(&users, plugin, login_as("app", knows(wrong)));
            assert_eq!(ended.client.err(), Some(Refusal::AccessDenied), "{wrong}");
        }
        // The server's word is about whom the client names, and that must be a user here.
        users.stand_in = users.user("app");
        users.users.get_mut().clear();
        let ended = Wire::login(&users, plugin, login_as("app", knows(PASSWORD)));
        assert_eq!(ended.client.err(), Some(Refusal::AccessDenied));
    }
}
