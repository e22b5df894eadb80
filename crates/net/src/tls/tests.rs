//! Two ends against each other, without sockets.

use std::{path::PathBuf, sync::Arc};

use trunkline_config::Config;
use trunkline_topology::{Address, TlsFacts, TlsMode, TlsParams, TlsVersion};

use super::*;

/// A folder that goes with its test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("trunkline-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("folder");
        Self(folder)
    }

    fn folders(&self) -> TlsFolders {
        TlsFolders { base: self.0.clone(), own: self.0.join("own") }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

fn config(more: &str) -> Config {
    let text = format!(
        "{more}\n[[server]]\naddress = \"localhost:3306\"\ntls = \"required\"\n\
         [[user]]\nname = \"app\"\npassword = \"secret\"\n"
    );
    let no_files = |_: &str| Err("no files here".to_owned());
    trunkline_config::parse(&text, "test.toml", &no_files).expect("configuration")
}

/// What came of what one end has sent.
#[derive(Default)]
struct Heard {
    up: Option<TlsFacts>,
    data: Vec<u8>,
    has_failed: bool,
}

/// Takes what one end has to send to the other, in pieces of at most `piece` bytes.
fn carry(from: &mut Tls, to: &mut Tls, piece: usize, heard: &mut Heard) {
    let bytes = from.unsent().to_vec();
    from.sent(bytes.len());
    for piece in bytes.chunks(piece) {
        take(to, piece, heard);
    }
}

fn take(to: &mut Tls, bytes: &[u8], heard: &mut Heard) {
    let mut scratch = vec![0; 64 * 1024];
    let begin = to.waiting_len();
    let end = begin + bytes.len();
    scratch[begin..end].copy_from_slice(bytes);
    let result = to.receive(&mut scratch[..end], &mut |received| match received {
        Received::Up(facts) => heard.up = Some(facts),
        Received::Data(data, _) => {
            assert!(heard.up.is_some(), "bytes before the handshake is over");
            heard.data.extend_from_slice(data);
        }
    });
    heard.has_failed |= result.is_err();
}

/// Both ends, with the handshake over.
fn connected(setup: &TlsSetup, piece: usize) -> (Tls, Tls, TlsFacts) {
    let address: Address = "localhost:3306".parse().expect("address");
    let params = Arc::new(TlsParams::default());
    let connector = setup.connector(&address, TlsMode::Required, &params).expect("connector");
    let mut client = Tls::connect(connector, "localhost").expect("client");
    let mut server = Tls::accept(setup.acceptor().expect("acceptor")).expect("server");
    let (mut at_client, mut at_server) = (Heard::default(), Heard::default());
    take(&mut client, &[], &mut at_client);
    for _ in 0..8 {
        carry(&mut client, &mut server, piece, &mut at_server);
        carry(&mut server, &mut client, piece, &mut at_client);
    }
    assert!(client.is_up() && server.is_up() && !at_client.has_failed && !at_server.has_failed);
    assert!(at_client.up.is_some());
    (client, server, at_server.up.expect("facts"))
}

#[test]
fn what_is_sealed_opens_and_nothing_is_kept() {
    let folder = Folder::new("sealed");
    let setup = TlsSetup::load(&config(""), &folder.folders(), None).expect("setup");
    for piece in [1, 7, 1_000, 65_536] {
        let (mut client, mut server, facts) = connected(&setup, piece);
        assert_eq!(facts.version, TlsVersion::V1_3);
        assert!(facts.own_fingerprint.is_some() && facts.peer.is_none());
        let mut sealed = Sealed::default();
        for len in [1, 100, 16_384, 65_536] {
            let text: Vec<u8> = (0..len).map(|at| u8::try_from(at % 251).expect("small")).collect();
            sealed.clear();
            client.seal(&text, &mut sealed).expect("sealed");
            let mut heard = Heard { up: Some(TlsFacts::default()), ..Heard::default() };
            for piece in sealed.bytes().chunks(piece.max(500)) {
                take(&mut server, piece, &mut heard);
            }
            assert!(heard.data == text, "{len} bytes in pieces of {piece}");
        }
        for end in [&client, &server] {
            assert_eq!((end.unsent.capacity(), end.received.capacity()), (0, 0));
        }
        sealed.clear();
        client.close(&mut sealed);
        take(&mut server, sealed.bytes(), &mut Heard::default());
        assert!(server.has_ended());
    }
}

#[test]
fn sessions_are_resumed_until_files_change() {
    let folder = Folder::new("resumed");
    let first = TlsSetup::load(&config(""), &folder.folders(), None).expect("setup");
    let kinds = |setup: &TlsSetup| [0, 1].map(|_| connected(setup, 65_536).2.is_resumed);
    assert_eq!(kinds(&first), [false, true]);
    let same = TlsSetup::load(&config(""), &folder.folders(), Some(&first)).expect("setup");
    assert!(same.is_same(&first));
    assert_eq!(kinds(&same), [true, true]);
    let changed = config("tls_version_min = \"1.3\"");
    let changed = TlsSetup::load(&changed, &folder.folders(), Some(&first)).expect("setup");
    assert!(!changed.is_same(&first));
    assert_eq!(kinds(&changed), [false, true]);
}

#[test]
fn damaged_bytes_end_in_an_error_and_never_in_a_panic() {
    let folder = Folder::new("damaged");
    let setup = TlsSetup::load(&config(""), &folder.folders(), None).expect("setup");
    let (mut client, _, _) = connected(&setup, 65_536);
    let mut sealed = Sealed::default();
    client.seal(&[7; 100], &mut sealed).expect("sealed");
    let mut seed = 7_u64;
    let mut failed = 0;
    for round in 0..400 {
        // What the client says in its handshake, or after it, damaged in one place.
        let address: Address = "localhost:3306".parse().expect("address");
        let params = Arc::new(TlsParams::default());
        let connector = setup.connector(&address, TlsMode::Required, &params).expect("connector");
        let mut hello = Tls::connect(connector, "localhost").expect("client");
        take(&mut hello, &[], &mut Heard::default());
        let mut bytes = match round % 2 {
            0 => hello.unsent().to_vec(),
            _ => sealed.bytes().to_vec(),
        };
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
        let at = usize::try_from(seed >> 33).expect("small") % bytes.len();
        bytes[at] ^= u8::try_from(seed >> 56).expect("byte") | 1;
        let mut server = match round % 2 {
            0 => Tls::accept(setup.acceptor().expect("acceptor")).expect("server"),
            _ => connected(&setup, 65_536).1,
        };
        let mut heard = Heard { up: Some(TlsFacts::default()), ..Heard::default() };
        for piece in bytes.chunks(1 + round % 97) {
            if !heard.has_failed {
                take(&mut server, piece, &mut heard);
            }
        }
        assert!(heard.data.is_empty(), "damaged bytes were taken for a text");
        failed += usize::from(heard.has_failed);
    }
    assert!(failed > 100, "{failed}");
}

#[test]
fn names_are_read_from_a_certificate() {
    let made = trunkline_crypto::self_signed(1_800_000_000).expect("made");
    let chain = load::certificates(&made.certificate_pem).expect("PEM");
    let read = der::certificate(&chain[0]).expect("a certificate");
    assert_eq!(read.names.subject, "/CN=Trunkline self-signed certificate");
    assert_eq!(read.names.issuer, read.names.subject);
    assert_eq!(read.names.dns_names, ["localhost"]);
    // 1 January of 2037.
    assert_eq!(read.not_after_unix_sec, 2_114_380_800);
    for end in 0..chain[0].len() {
        // Cut anywhere, it is none; and it is no panic.
        assert_eq!(der::certificate(&chain[0][..end]), None);
    }
}

#[test]
fn what_is_wrong_is_named() {
    let folder = Folder::new("named");
    let check = |config: &Config, expected: &str| {
        let errors = TlsSetup::load(config, &folder.folders(), None).expect_err("wrong");
        assert!(errors.iter().any(|error| error.contains(expected)), "{errors:?}");
    };
    check(&config("tls_cert = \"absent.pem\""), "tls_cert absent.pem: No such file");
    std::fs::write(folder.0.join("text.pem"), "text").expect("file");
    check(&config("tls_cert = \"text.pem\""), "tls_cert text.pem: holds no certificate in PEM");
    check(&config("tls_client_ca = \"text.pem\""), "tls_client_ca text.pem: holds no");
    check(&config("ssl_p2s_ca = \"text.pem\""), "TLS to server localhost:3306: ssl_ca text.pem");
    check(&config("ssl_p2s_cipher = \"RC4-MD5\""), "ssl_cipher knows TLS_AES_256_GCM_SHA384");
    check(&config("ssl_p2s_key = \"text.pem\""), "ssl_key needs ssl_cert");
    for cipher in ["ECDHE-RSA-AES128-GCM-SHA256", ""] {
        let config = config(&format!("ssl_p2s_cipher = \"{cipher}\""));
        assert!(TlsSetup::load(&config, &folder.folders(), None).is_ok(), "{cipher}");
    }
}

#[test]
fn keys_that_everybody_may_read_are_refused() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("open");
    let made = trunkline_crypto::self_signed(1_800_000_000).expect("made");
    std::fs::write(folder.0.join("cert.pem"), &made.certificate_pem).expect("file");
    std::fs::write(folder.0.join("key.pem"), &made.key_pem).expect("file");
    let load = |more: &str, mode: u32| {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(folder.0.join("key.pem"), permissions).expect("mode");
        TlsSetup::load(&config(more), &folder.folders(), None)
    };
    for (ours, name) in [
        ("tls_cert = \"cert.pem\"\ntls_key = \"key.pem\"", "tls_key"),
        ("ssl_p2s_cert = \"cert.pem\"\nssl_p2s_key = \"key.pem\"", "ssl_key"),
    ] {
        // A group may read keys, as distributions have it for services.
        for mode in [0o600, 0o400, 0o640, 0o440] {
            assert!(load(ours, mode).is_ok(), "{mode:o}");
        }
        for mode in [0o644, 0o604, 0o660, 0o620, 0o666, 0o601] {
            let errors = load(ours, mode).expect_err("open");
            let expected = format!("{name} key.pem: is open to others (mode {mode:03o})");
            assert!(errors.iter().any(|error| error.contains(&expected)), "{errors:?}");
            let taken = load(&format!("{ours}\nallow_open_files = true"), mode).expect("taken");
            assert!(taken.warnings().iter().any(|line| line.contains("is open to others")));
        }
    }
}

#[test]
fn what_is_no_key_for_passwords_is_refused_by_name() {
    let folder = Folder::new("password-key");
    let name = "caching_sha2_password_private_key_path";
    let told = |path: &str| {
        let config = config(&format!("{name} = \"{path}\""));
        TlsSetup::check(&config, &folder.folders()).expect_err("no key")
    };
    let missing = told("missing.pem");
    assert!(missing[0].starts_with(&format!("{name} missing.pem: No such file")), "{missing:?}");
    let own = trunkline_crypto::self_signed(0).expect("a key");
    crate::private::create(&folder.0.join("elliptic.pem"), &own.key_pem).expect("written");
    let expected = "elliptic.pem: the private key is not an RSA key of 2048 to 8192 bits";
    assert_eq!(told("elliptic.pem"), [format!("{name} {expected}")]);
}
