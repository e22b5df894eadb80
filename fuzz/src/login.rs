//! Targets: the handshakes with clients and with servers.

use std::{cell::Cell, sync::Arc};

use trunkline_protocol::{
    Capabilities,
    codec::frame::split_packet,
    packet::greeting::{Greeting, NONCE_LEN},
};
use trunkline_session::{
    Credential,
    backend::{ServerHandshake, ServerLogin, ServerStep, TlsWish},
    frontend::{Accounts, ClientHandshake, Step},
};
use trunkline_topology::{Attempt, HostgroupId, LoginWait, Password, Secret, User, Waiting};

use crate::choice;

/// Bytes that one exchange may write, attributes and all.
const WRITTEN_MAX: usize = 16 * 1024;

/// One user, whose password is stored as the input says.
struct OneUser {
    user: Arc<User>,
    is_secure: bool,
    is_verified: bool,
    /// Whether the name of the client's host is still to be asked for.
    awaits_host: Cell<bool>,
    /// Whether what is known of the user may be out of date.
    is_outdated: bool,
    /// How long everybody has to wait, if anybody does.
    waits: Option<LoginWait>,
}

impl OneUser {
    fn new(how: u8) -> Self {
        let password = match how & 3 {
            0 => Password::Clear(Secret::new("app".to_owned())),
            1 => Password::Clear(Secret::new(String::new())),
            2 => Password::NativeHash(Secret::new([7; 20])),
            _ => {
                let text = format!("$A$005${}{}", "s".repeat(20), "d".repeat(43));
                Password::Sha2Hash(Secret::new(text.into_bytes()))
            }
        };
        let user = User {
            name: "app".to_owned(),
            password,
            default_hostgroup: HostgroupId(10),
            default_schema: None,
            max_connections: 10,
            transaction_persistent: true,
            transaction_replay: None,
            commit_outcome: None,
            fast_forward: false,
            active: how & 4 == 0,
            require: Default::default(),
            allow_from: Default::default(),
            unix_uid: None,
            causal_reads: None,
            trace_sample: None,
            lazy_transactions: None,
            host: None,
            retained_password: None,
            backend: None,
        };
        Self {
            user: Arc::new(user),
            is_secure: how & 8 != 0,
            is_verified: how & 16 != 0,
            awaits_host: Cell::new(how & 32 != 0),
            is_outdated: how & 64 != 0,
            waits: (how & 128 != 0).then_some(LoginWait { ms: 1, whose: Waiting::Origin }),
        }
    }
}

impl Accounts for OneUser {
    fn user(&self, name: &str) -> Option<Arc<User>> {
        (name == "app").then(|| Arc::clone(&self.user))
    }

    fn stand_in(&self, name: &str) -> Option<Arc<User>> {
        name.starts_with('a').then(|| Arc::clone(&self.user))
    }

    fn verified_sha2(&self, _user: &User) -> Option<[u8; 32]> {
        self.is_verified.then_some([9; 32])
    }

    fn can_look_up(&self) -> bool {
        self.is_secure
    }

    fn awaits_host_name(&self) -> bool {
        self.awaits_host.get()
    }

    fn may_be_outdated(&self, _: &str) -> bool {
        self.is_outdated
    }

    fn wait(&self, _: &str, attempt: Attempt) -> Option<LoginWait> {
        self.waits.filter(|_| attempt != Attempt::Begins)
    }

    fn public_key_pem(&self) -> Option<&[u8]> {
        Some(b"the public key")
    }

    fn client_host(&self) -> &str {
        "192.0.2.1"
    }

    fn is_secure(&self) -> bool {
        self.is_secure
    }

    fn is_own_process(&self, _: &User) -> bool {
        false
    }

    fn is_encrypted(&self) -> bool {
        self.is_secure
    }
}

/// What a proxy or a server greets with, everything offered.
fn greeting(is_sha2: bool) -> Greeting {
    let family = match is_sha2 {
        true => {
            Capabilities::LONG_PASSWORD
                | Capabilities::QUERY_ATTRIBUTES
                | Capabilities::OPTIONAL_RESULTSET_METADATA
        }
        false => {
            Capabilities::PROGRESS
                | Capabilities::STMT_BULK_OPERATIONS
                | Capabilities::EXTENDED_METADATA
                | Capabilities::CACHE_METADATA
        }
    };
    let capabilities = family
        | Capabilities::FOUND_ROWS
        | Capabilities::CONNECT_WITH_DB
        | Capabilities::PROTOCOL_41
        | Capabilities::TRANSACTIONS
        | Capabilities::SECURE_CONNECTION
        | Capabilities::MULTI_STATEMENTS
        | Capabilities::MULTI_RESULTS
        | Capabilities::PLUGIN_AUTH
        | Capabilities::CONNECT_ATTRS
        | Capabilities::PLUGIN_AUTH_LENENC_CLIENT_DATA
        | Capabilities::SESSION_TRACK
        | Capabilities::DEPRECATE_EOF;
    let (version, plugin) = match is_sha2 {
        true => ("9.7.4", "caching_sha2_password"),
        false => ("10.11.6-MariaDB", "mysql_native_password"),
    };
    Greeting {
        protocol_version: 10,
        server_version: version.to_owned(),
        connection_id: 1,
        nonce: [b'n'; NONCE_LEN],
        capabilities,
        charset: 45,
        status: trunkline_protocol::packet::status::AUTOCOMMIT,
        auth_plugin: plugin.to_owned(),
    }
}

/// Packets of a client that logs in, or changes its user. The first byte chooses the user's
/// password and the transport, the second the way in.
pub fn client_handshake(data: &[u8]) {
    let (how, data) = choice(data);
    let (way, mut rest) = choice(data);
    let accounts = OneUser::new(how);
    let mut out = Vec::new();
    let mut greeting = greeting(way & 1 != 0);
    if way & 16 != 0 {
        greeting.capabilities.insert(Capabilities::SSL);
    }
    let must_encrypt = way & 32 != 0;
    let mut is_encrypted = false;
    let mut handshake = match way & 2 != 0 {
        false => ClientHandshake::start(&greeting, must_encrypt, &mut out),
        true => {
            let Some((_, body, after)) = split_packet(rest) else {
                return;
            };
            rest = after;
            let (mut handshake, mut step) = ClientHandshake::change_user(
                greeting.capabilities,
                greeting.nonce,
                body,
                0,
                &accounts,
                &mut out,
            );
            look_up(&mut handshake, &mut step, &accounts, &mut out);
            if !client_step(step) {
                return;
            }
            handshake
        }
    };
    while let Some((header, payload, after)) = split_packet(rest) {
        rest = after;
        let mut step = handshake.on_packet(header, payload, &accounts, &mut out);
        look_up(&mut handshake, &mut step, &accounts, &mut out);
        if let Step::Decrypt(cipher) = step {
            let clear = (way & 4 != 0).then_some(cipher);
            step = handshake.on_decrypted(clear, &accounts, &mut out);
        }
        if let Step::VerifyHash { .. } | Step::AskServer { .. } = step {
            step = handshake.on_verified(way & 8 != 0, &accounts, &mut out);
        }
        if let Step::LookUp = step {
            step = handshake.on_looked_up(&accounts, &mut out);
        }
        assert!(out.len() <= WRITTEN_MAX, "a handshake wrote {} bytes", out.len());
        if let Step::StartTls = step {
            assert!(way & 16 != 0 && !is_encrypted && handshake.awaits_tls());
            is_encrypted = true;
            handshake.on_tls();
        }
        if let (Step::Accepted(_), true, 0) = (&step, must_encrypt, way & 2) {
            assert!(is_encrypted, "a client in clear was let in where it must encrypt");
        }
        if !client_step(step) {
            return;
        }
    }
}

/// Knows what the client's host is called, and what its user is now, if that is asked for.
fn look_up(
    handshake: &mut ClientHandshake,
    step: &mut Step,
    accounts: &OneUser,
    out: &mut Vec<u8>,
) {
    if let Step::NameHost = step {
        assert!(handshake.host_answer_seq().is_some(), "nobody waits for a name");
        accounts.awaits_host.set(false);
        *step = handshake.on_host_named(accounts, out);
    }
    if let Step::LookUpUser(_) = step {
        *step = handshake.on_user_looked_up(accounts, out);
        assert!(!matches!(step, Step::LookUpUser(_)), "a user is looked up once");
    }
}

/// Whether the handshake goes on.
fn client_step(step: Step) -> bool {
    match step {
        Step::Continue
        | Step::StartTls
        | Step::Decrypt(_)
        | Step::VerifyHash { .. }
        | Step::AskServer { .. }
        | Step::LookUp
        | Step::LookUpUser(_)
        | Step::NameHost => true,
        Step::Accepted(identity) => {
            assert!(identity.user.active, "an inactive user was let in");
            false
        }
        Step::Refused(_) => false,
    }
}

/// Packets of a server that is logged in to. The first byte chooses the credential and what is
/// asked of the server.
pub fn server_handshake(data: &[u8]) {
    let (how, mut rest) = choice(data);
    let credential = match how & 3 {
        0 => Credential::from_clear(b"app"),
        1 => Credential::from_clear(b""),
        2 => Credential::from_password(&Password::NativeHash(Secret::new([7; 20]))),
        _ => Credential::default(),
    };
    let login = ServerLogin {
        user: "app".to_owned(),
        credential,
        schema: (how & 4 != 0).then(|| b"shop".to_vec()),
        collation: 45,
        capabilities: greeting(false).capabilities,
        zstd_level: 0,
        attributes: vec![(b"program_name".to_vec(), b"trunkline".to_vec())],
        is_local: how & 8 != 0,
        tls: match how & 96 {
            0 => TlsWish::Never,
            32 => TlsWish::Offered,
            _ => TlsWish::Always,
        },
        keys: Default::default(),
    };
    let mut out = Vec::new();
    let mut handshake = ServerHandshake::new(login.clone());
    while let Some((header, payload, after)) = split_packet(rest) {
        rest = after;
        let mut step = handshake.on_packet(header, payload, &mut out);
        if let ServerStep::Derive { .. } = step {
            step = handshake.on_derived(Some(Secret::new([7; 32])), &mut out);
        }
        if let ServerStep::Encrypt { plaintext, .. } = step {
            let cipher = (how & 16 != 0).then(|| plaintext.expose().clone());
            step = handshake.on_encrypted(cipher, &mut out);
        }
        assert!(out.len() <= WRITTEN_MAX, "a login wrote {} bytes", out.len());
        match step {
            ServerStep::Continue | ServerStep::Encrypt { .. } | ServerStep::Derive { .. } => {}
            ServerStep::StartTls => {
                assert!(how & 96 != 0 && handshake.awaits_tls());
                handshake.on_tls(&mut out);
            }
            // The connection is lent to another user.
            ServerStep::Ready(identity) => {
                handshake = ServerHandshake::change_user(login.clone(), *identity, &mut out);
                out.clear();
            }
            ServerStep::Failed(failure) => {
                assert!(!failure.message.is_empty(), "a failure says why");
                return;
            }
        }
    }
}
