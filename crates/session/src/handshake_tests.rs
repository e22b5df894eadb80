//! The two handshakes against each other, and against bytes that no peer should send.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    sync::Arc,
};

use trunkline_protocol::{
    Capabilities,
    auth::{caching_sha2, is_stored, native},
    codec::frame::{Header, split_packet},
    packet::{
        err,
        greeting::{Greeting, PROTOCOL_VERSION},
        ok::{OkPacket, ReplyFormat, put_ok},
        status,
    },
};
use trunkline_topology::{Password, PinnedKeys, Secret, User};

use crate::{
    Credential,
    backend::{ServerFailure, ServerHandshake, ServerIdentity, ServerLogin, ServerStep},
    frontend::{Accounts, ClientHandshake, ClientIdentity, Refusal, Step},
};

mod bytes;
mod current;
mod login;
mod plugins;
mod tls;

const NONCE: [u8; 20] = *b"abcdefghij0123456789";
const PASSWORD: &str = "five2";
/// A MySQL 9.7.4 server's hash of [`PASSWORD`].
const STORED: &str = "2441243030352451762A115B7C6606433D29343F0964050661717E6D5937652F33\
                      705A4A56533053796C4D647574463630584B4632644C6D48484D4F38616D323843494D2F2E";
/// A public key, as far as these machines look at it.
const KEY: &str = "-----BEGIN PUBLIC KEY-----\n\
    MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAMIIBIjANBgkqhkiG9w0B\n\
    MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAMIIBIjANBgkqhkiG9w0B\n\
    -----END PUBLIC KEY-----\n";
/// Stands for RSA: what the tests' "encryption" puts before a text.
const CIPHER_MARK: &[u8] = b"encrypted:";

/// What a test client or server offers.
const ORDINARY: Capabilities = Capabilities::LONG_PASSWORD
    .union(Capabilities::PROTOCOL_41)
    .union(Capabilities::TRANSACTIONS)
    .union(Capabilities::SECURE_CONNECTION)
    .union(Capabilities::CONNECT_WITH_DB)
    .union(Capabilities::PLUGIN_AUTH)
    .union(Capabilities::PLUGIN_AUTH_LENENC_CLIENT_DATA)
    .union(Capabilities::CONNECT_ATTRS)
    .union(Capabilities::SESSION_TRACK)
    .union(Capabilities::DEPRECATE_EOF);

/// Users and what has been proven of them.
struct Users {
    users: RefCell<HashMap<String, Arc<User>>>,
    /// What a look-up finds.
    later: Option<Arc<User>>,
    /// Whose way an unknown user goes.
    stand_in: Option<Arc<User>>,
    proven: RefCell<HashMap<String, [u8; 32]>>,
    key: Option<Vec<u8>>,
    /// Whether the name of the client's host is still to be asked for.
    awaits_host: Cell<bool>,
    /// Whether that is so from a look-up on.
    names_hosts_later: bool,
    /// How often it was.
    hosts_asked: Cell<usize>,
    /// Whether what is known of names is out of date, the names that were looked up, and what that
    /// finds.
    may_be_outdated: bool,
    looked_up: RefCell<Vec<String>>,
    told: RefCell<Option<Arc<User>>>,
    is_secure: bool,
    is_encrypted: bool,
}

impl Users {
    fn with(name: &str, password: Password) -> Self {
        let user = User {
            default_schema: Some("usual".to_owned()),
            ..User::new(name.to_owned(), password)
        };
        Self {
            users: RefCell::new(HashMap::from([(name.to_owned(), Arc::new(user))])),
            later: None,
            stand_in: None,
            proven: RefCell::default(),
            key: Some(KEY.as_bytes().to_vec()),
            awaits_host: Cell::new(false),
            names_hosts_later: false,
            may_be_outdated: false,
            looked_up: RefCell::default(),
            told: RefCell::default(),
            hosts_asked: Cell::new(0),
            is_secure: false,
            is_encrypted: false,
        }
    }
}

impl Accounts for Users {
    fn user(&self, name: &str) -> Option<Arc<User>> {
        self.users.borrow().get(name).cloned()
    }

    fn stand_in(&self, _name: &str) -> Option<Arc<User>> {
        self.stand_in.clone()
    }

    fn verified_sha2(&self, user: &User) -> Option<[u8; 32]> {
        self.proven.borrow().get(&user.name).copied()
    }

    fn can_look_up(&self) -> bool {
        self.later.is_some()
    }

    fn awaits_host_name(&self) -> bool {
        self.awaits_host.get()
    }

    fn may_be_outdated(&self, _: &str) -> bool {
        self.may_be_outdated
    }

    fn public_key_pem(&self) -> Option<&[u8]> {
        self.key.as_deref()
    }

    fn client_host(&self) -> &str {
        "10.0.0.9"
    }

    fn is_secure(&self) -> bool {
        self.is_secure
    }

    fn is_own_process(&self, user: &User) -> bool {
        user.unix_uid.is_some()
    }

    fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }
}

fn clear(password: &str) -> Password {
    Password::Clear(Secret::new(password.to_owned()))
}

fn native_hash(password: &str) -> Password {
    Password::NativeHash(Secret::new(native::stage2(&native::stage1(password.as_bytes()))))
}

/// The stored form of [`PASSWORD`].
fn sha2_hash() -> Password {
    Password::from_hash(STORED).expect("a server's own hash")
}

fn greeting(plugin: &str) -> Greeting {
    Greeting {
        protocol_version: PROTOCOL_VERSION,
        server_version: "9.7.4".to_owned(),
        connection_id: 7,
        nonce: NONCE,
        capabilities: ORDINARY,
        charset: 255,
        status: status::AUTOCOMMIT,
        auth_plugin: plugin.to_owned(),
    }
}

fn login_as(user: &str, credential: Credential) -> ServerLogin {
    ServerLogin {
        user: user.to_owned(),
        credential,
        schema: Some(b"shop".to_vec()),
        collation: 45,
        capabilities: ORDINARY,
        zstd_level: 0,
        attributes: vec![(b"program_name".to_vec(), b"test".to_vec())],
        is_local: false,
        tls: Default::default(),
        keys: Arc::new(PinnedKeys::parse(KEY).expect("a key")),
    }
}

/// How a handshake ended on both sides.
struct Ended {
    client: Result<Box<ClientIdentity>, Refusal>,
    server: Result<Box<ServerIdentity>, ServerFailure>,
    /// All that the client was sent.
    to_client: Vec<u8>,
    /// All that the proxy was sent.
    to_proxy: Vec<u8>,
    is_encrypted: bool,
}

/// Both machines and the bytes between them.
struct Wire<'a> {
    users: &'a Users,
    client: ClientHandshake,
    server: ServerHandshake,
    to_client: Vec<u8>,
    to_proxy: Vec<u8>,
    /// Whether TLS has begun between the two.
    is_encrypted: bool,
}

impl Wire<'_> {
    fn login(users: &Users, plugin: &str, login: ServerLogin) -> Ended {
        let mut to_client = Vec::new();
        let client = ClientHandshake::start(&greeting(plugin), false, &mut to_client);
        Wire::between(users, client, login, to_client)
    }

    fn between(
        users: &Users,
        client: ClientHandshake,
        login: ServerLogin,
        to_client: Vec<u8>,
    ) -> Ended {
        let server = ServerHandshake::new(login);
        let to_proxy = Vec::new();
        Wire { users, client, server, to_client, to_proxy, is_encrypted: false }.run(None)
    }

    fn change_user(users: &Users, mut identity: ServerIdentity, login: ServerLogin) -> Ended {
        identity.greeting.nonce = NONCE;
        let capabilities = identity.capabilities;
        let mut to_proxy = Vec::new();
        let server = ServerHandshake::change_user(login, identity, &mut to_proxy);
        let (header, payload, rest) = split_packet(&to_proxy).expect("the command");
        assert!(rest.is_empty());
        let mut to_client = Vec::new();
        let (client, step) = ClientHandshake::change_user(
            capabilities,
            NONCE,
            &payload[1..],
            header.seq,
            users,
            &mut to_client,
        );
        Wire { users, client, server, to_client, to_proxy, is_encrypted: false }.run(Some(step))
    }

    fn run(mut self, mut first: Option<Step>) -> Ended {
        let mut client_end = None;
        let mut read_by_client = 0;
        let mut read_by_proxy = self.to_proxy.len();
        loop {
            if let Some(step) = first.take() {
                client_end = self.end_of(step);
            }
            let (header, payload, rest) =
                split_packet(&self.to_client[read_by_client..]).expect("a packet for the client");
            let step = self.server.on_packet(header, payload, &mut self.to_proxy);
            read_by_client = self.to_client.len() - rest.len();
            let server = match step {
                ServerStep::Continue | ServerStep::StartTls => None,
                ServerStep::Encrypt { public_key_pem, plaintext } => {
                    assert_eq!(public_key_pem, KEY.as_bytes());
                    let text = [CIPHER_MARK, plaintext.expose()].concat();
                    let step = self.server.on_encrypted(Some(text), &mut self.to_proxy);
                    assert!(matches!(step, ServerStep::Continue));
                    None
                }
                ServerStep::Derive { password, derivation } => {
                    let seed = Secret::new(derivation.seed(password.expose()));
                    let step = self.server.on_derived(Some(seed), &mut self.to_proxy);
                    assert!(matches!(step, ServerStep::Continue));
                    None
                }
                ServerStep::Ready(identity) => Some(Ok(identity)),
                ServerStep::Failed(failure) => Some(Err(failure)),
            };
            if let Some(server) = server {
                let client = client_end.unwrap_or(Err(Refusal::BadHandshake));
                let Wire { to_client, to_proxy, is_encrypted, .. } = self;
                return Ended { client, server, to_client, to_proxy, is_encrypted };
            }
            while read_by_proxy < self.to_proxy.len() {
                let unread = self.to_proxy.split_off(read_by_proxy);
                let (header, payload, rest) =
                    split_packet(&unread).expect("a packet for the proxy");
                assert!(rest.is_empty());
                let step = self.client.on_packet(header, payload, self.users, &mut self.to_client);
                self.to_proxy.extend_from_slice(&unread);
                read_by_proxy = self.to_proxy.len();
                if let Step::StartTls = step {
                    assert!(!self.is_encrypted, "TLS begins twice");
                    assert!(self.client.awaits_tls() && self.server.awaits_tls());
                    self.is_encrypted = true;
                    self.client.on_tls();
                    self.server.on_tls(&mut self.to_proxy);
                    continue;
                }
                client_end = self.end_of(step);
            }
        }
    }

    /// Does what the caller of the client's machine has to do.
    fn end_of(&mut self, mut step: Step) -> Option<Result<Box<ClientIdentity>, Refusal>> {
        loop {
            step = match step {
                Step::Continue => return None,
                Step::StartTls => unreachable!("TLS is begun by who has both ends"),
                Step::Decrypt(ciphertext) => {
                    let text = ciphertext.strip_prefix(CIPHER_MARK).map(<[u8]>::to_vec);
                    self.client.on_decrypted(text, self.users, &mut self.to_client)
                }
                Step::VerifyHash { clear, hash } => {
                    let is_right = is_stored(clear.expose(), hash.expose());
                    self.client.on_verified(is_right, self.users, &mut self.to_client)
                }
                Step::AskServer { name, clear, .. } => {
                    let is_right = name == "app" && clear.expose() == PASSWORD.as_bytes();
                    self.client.on_verified(is_right, self.users, &mut self.to_client)
                }
                Step::LookUp => {
                    if let Some(user) = &self.users.later {
                        let mut users = self.users.users.borrow_mut();
                        users.insert(user.name.clone(), Arc::clone(user));
                        self.users.awaits_host.set(self.users.names_hosts_later);
                    }
                    self.client.on_looked_up(self.users, &mut self.to_client)
                }
                Step::LookUpUser(name) => {
                    self.users.looked_up.borrow_mut().push(name);
                    if let Some(user) = self.users.told.take() {
                        self.users.users.borrow_mut().insert(user.name.clone(), user);
                    }
                    self.client.on_user_looked_up(self.users, &mut self.to_client)
                }
                Step::NameHost => {
                    assert!(self.client.host_answer_seq().is_some());
                    self.users.awaits_host.set(false);
                    self.users.hosts_asked.set(self.users.hosts_asked.get() + 1);
                    self.client.on_host_named(self.users, &mut self.to_client)
                }
                Step::Refused(refusal) => return Some(Err(refusal)),
                Step::Accepted(identity) => {
                    let ok = OkPacket { status: status::AUTOCOMMIT, ..OkPacket::default() };
                    let format = ReplyFormat {
                        deprecate_eof: true,
                        session_track: true,
                        ..ReplyFormat::PLAIN
                    };
                    put_ok(&mut self.to_client, identity.next_seq, &ok, format);
                    let mut proven = self.users.proven.borrow_mut();
                    if let Some(sum) = &identity.proven_sha2 {
                        proven.insert(identity.user.name.clone(), sum.1);
                    }
                    return Some(Ok(identity));
                }
            };
        }
    }
}
