//! Target: what a server answers to a login, from behind its greeting.

use std::sync::Arc;

use trunkline_protocol::{
    Capabilities,
    codec::frame::{Header, split_packet},
    packet::greeting::{Greeting, NONCE_LEN},
};
use trunkline_session::{
    Credential,
    backend::{ServerHandshake, ServerLogin, ServerStep, TlsWish},
};
use trunkline_topology::{PinnedKeys, Secret};

use crate::choice;

/// Nobody may read this who does not have to.
const PASSWORD: &[u8] = b"correct horse battery staple";
/// The key that the login trusts.
const PINNED: &str = "-----BEGIN PUBLIC KEY-----
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A
-----END PUBLIC KEY-----
";
/// Bytes that one login may write.
const WRITTEN_MAX: usize = 64 * 1024;
/// Plug-ins that are switched to by a number.
const PLUGINS: [&str; 9] = [
    "mysql_native_password",
    "caching_sha2_password",
    "sha256_password",
    "client_ed25519",
    "parsec",
    "mysql_clear_password",
    "dialog",
    "mysql_old_password",
    "authentication_windows_client",
];

fn greeting(plugin: &str, offers_tls: bool) -> Greeting {
    let mut capabilities = Capabilities::PROTOCOL_41
        | Capabilities::SECURE_CONNECTION
        | Capabilities::PLUGIN_AUTH
        | Capabilities::PLUGIN_AUTH_LENENC_CLIENT_DATA
        | Capabilities::SESSION_TRACK
        | Capabilities::DEPRECATE_EOF;
    if offers_tls {
        capabilities.insert(Capabilities::SSL);
    }
    Greeting {
        protocol_version: 10,
        server_version: "9.7.4".to_owned(),
        connection_id: 1,
        nonce: [b'n'; NONCE_LEN],
        capabilities,
        charset: 45,
        status: 2,
        auth_plugin: plugin.to_owned(),
    }
}

/// What a server sends, as records of a letter, a length and so many bytes:
///
/// | letter | packet |
/// |---|---|
/// | `P` | a switch to one of the plug-ins, with the rest as its data |
/// | `S` | a switch with all that it says |
/// | `M` | more data for the plug-in |
/// | `K` | the public key that is trusted |
/// | `O` | OK with these bytes behind it |
/// | `E` | an error with these bytes behind it |
/// | others | the bytes as they are |
fn packet(letter: u8, bytes: &[u8]) -> Vec<u8> {
    match letter {
        b'P' => {
            let (number, data) = choice(bytes);
            let name = PLUGINS.get(usize::from(number) % PLUGINS.len()).copied();
            [b"\xFE", name.unwrap_or_default().as_bytes(), b"\0", data].concat()
        }
        b'S' => [b"\xFE", bytes].concat(),
        b'M' => [b"\x01", bytes].concat(),
        b'K' => [b"\x01", PINNED.as_bytes()].concat(),
        b'O' => [b"\x00", bytes].concat(),
        b'E' => [b"\xFF", bytes].concat(),
        _ => bytes.to_vec(),
    }
}

/// The number of the last packet that was written.
fn last_seq(mut out: &[u8]) -> u8 {
    let mut seq = 0;
    while let Some((header, _, rest)) = split_packet(out) {
        (seq, out) = (header.seq, rest);
    }
    seq
}

/// A server's side of a login whose packets have the right numbers, so that changed bytes come far.
/// The first byte says what the login trusts, the second how the server greets. Nobody but who
/// holds the trusted key, or is at the other end of a secure transport, gets the password.
pub fn server_login(data: &[u8]) {
    let (how, data) = choice(data);
    let (plugin, mut rest) = choice(data);
    let (is_local, is_pinned, is_tls) = (how & 1 != 0, how & 2 != 0, how & 4 != 0);
    let keys = match is_pinned {
        true => PinnedKeys::parse(PINNED).expect("a key"),
        false => PinnedKeys::default(),
    };
    let login = ServerLogin {
        user: "app".to_owned(),
        credential: Credential::from_clear(PASSWORD),
        schema: (how & 8 != 0).then(|| b"shop".to_vec()),
        collation: 45,
        capabilities: Capabilities::SESSION_TRACK | Capabilities::DEPRECATE_EOF,
        zstd_level: 0,
        attributes: Vec::new(),
        is_local,
        tls: if is_tls { TlsWish::Always } else { TlsWish::Never },
        keys: Arc::new(keys),
    };
    let plugin = PLUGINS.get(usize::from(plugin) % PLUGINS.len()).copied().unwrap_or_default();
    let (mut out, mut greeted) = (Vec::new(), Vec::new());
    greeting(plugin, is_tls).put(&mut greeted, 0);
    let Some((header, payload, _)) = split_packet(&greeted) else { return };
    let mut handshake = ServerHandshake::new(login);
    let mut step = handshake.on_packet(header, payload, &mut out);
    let mut is_secure = is_local;
    let mut has_said_ok = false;
    loop {
        if let ServerStep::StartTls = step {
            assert!(is_tls && handshake.awaits_tls());
            check_secrecy(&out, is_secure);
            is_secure = true;
            handshake.on_tls(&mut out);
        }
        if let ServerStep::Derive { .. } = step {
            step = handshake.on_derived(Some(Secret::new([7; 32])), &mut out);
        }
        if let ServerStep::Encrypt { public_key_pem, .. } = &step {
            let is_trusted = is_pinned && public_key_pem == PINNED.as_bytes();
            assert!(is_secure || is_trusted, "the password goes to whoever brings a key");
            let cipher = (how & 16 != 0).then(|| b"what only the key's owner reads".to_vec());
            step = handshake.on_encrypted(cipher, &mut out);
        }
        check_secrecy(&out, is_secure);
        assert!(out.len() <= WRITTEN_MAX, "a login wrote {} bytes", out.len());
        match step {
            ServerStep::Continue | ServerStep::StartTls => {}
            ServerStep::Encrypt { .. } | ServerStep::Derive { .. } => return,
            ServerStep::Ready(identity) => {
                assert!(has_said_ok, "a server let nobody in");
                assert_eq!(identity.collation, 45);
                return;
            }
            ServerStep::Failed(failure) => {
                assert!(!failure.message.is_empty(), "a failure says why");
                return;
            }
        }
        let [letter, len, behind @ ..] = rest else { return };
        let (bytes, behind) = behind.split_at(usize::from(*len).min(behind.len()));
        rest = behind;
        let payload = packet(*letter, bytes);
        has_said_ok |= payload.first() == Some(&0);
        let seq = last_seq(&out).wrapping_add(1);
        let header = Header { payload_len: payload.len(), seq };
        step = handshake.on_packet(header, &payload, &mut out);
    }
}

/// The password itself is nowhere in what was written, unless nobody can listen.
fn check_secrecy(out: &[u8], is_secure: bool) {
    let is_there = out.windows(PASSWORD.len()).any(|window| window == PASSWORD);
    assert!(is_secure || !is_there, "the password went out in the open");
}
