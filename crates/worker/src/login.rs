//! Steps 1 and 2: a client connects, authenticates, and becomes a session.

pub(crate) mod change_user;
pub(crate) mod current_user;
mod named_host;
mod schema;

use std::sync::Arc;

use trunkline_protocol::{
    capability::Capabilities,
    codec::frame,
    codec::frame::{HEADER_LEN, PAYLOAD_MAX},
    error::ErrorKind,
    packet::greeting::{Flavor, Greeting},
    packet::ok::ReplyFormat,
    packet::status,
};
use trunkline_session::{
    Credential,
    frontend::{Accounts, Attribute, ClientHandshake, ClientIdentity, Refusal, Step},
    tracker::{Charset, Schema, SessionState, is_plain_name},
};
use trunkline_stats::ClientRefusal;
use trunkline_topology::{Attempt, LoginWait, Password, User, Waiting, wipe_front};

use crate::{
    Action, ClientId,
    accept::arrival::Arrival,
    accept::host_names::needs_name,
    action::Peer,
    clients::client::{
        Client, Frontend, LoggedIn, Origin, Phase, Purpose, Session, SessionSettings,
    },
    clients::session::{AnyClient, ClientEntry},
    effects::Wake,
    env::Env,
    outbox::Outbox,
    rooms::{Core, Exchange, Lender},
    servers::conn::AccountKey,
};

/// Capabilities that make a server behave differently: connections that differ in them are not
/// interchangeable.
pub(crate) const BEHAVIOUR: Capabilities = Capabilities::FOUND_ROWS
    .union(Capabilities::MULTI_STATEMENTS)
    .union(Capabilities::MULTI_RESULTS)
    .union(Capabilities::OPTIONAL_RESULTSET_METADATA)
    .union(Capabilities::EXTENDED_METADATA);

/// What `IGNORE_SPACE` in a handshake makes of the SQL mode. Server connections are opened without
/// it, so that it is state like any other.
pub(crate) const SPACES_IGNORED: &[u8] = b"CONCAT(@@GLOBAL.sql_mode,',IGNORE_SPACE')";

/// The most bytes that a client may send before it is authenticated: attributes are at most
/// 64 KiB, the rest is short.
const LOGIN_BYTES_MAX: usize = 96 * 1024;
/// A schema that a server confirmed for an account is believed this long, ms.
const SCHEMA_BELIEVED_MS: u64 = 10_000;
/// Remembered schemas; more than that and all are asked again.
pub(crate) const SCHEMAS_MAX: usize = 4_096;

impl Env {
    /// What the configuration knows, completed by what this login and earlier ones proved.
    fn server_credential(&self, user: &Arc<User>, proven: &Credential) -> Credential {
        let mut credential = Credential::from_password(&user.password);
        credential.learn(&self.shared.learn_credential(user, proven));
        credential
    }
}

impl Core {
    /// See [`Worker::accept`](crate::Worker::accept).
    pub(crate) fn on_accept(&mut self, peer: Arc<Peer>, nonce: [u8; 20]) -> Option<ClientId> {
        if self.env.stopping.is_some() {
            return None;
        }
        self.fx.stats.counters.clients_accepted += 1;
        let is_full = self.env.shared.is_full(self.env.snapshot.settings.max_connections);
        let number = self.next_number();
        let mut greeting =
            Greeting { connection_id: number, nonce, ..(*self.env.greeting).clone() };
        let must_encrypt = self.env.must_encrypt(&peer);
        if self.env.may_encrypt(&peer) {
            greeting.capabilities.insert(Capabilities::SSL);
        }
        greeting.status = self.begin_status();
        if !self.greets_with_autocommit() {
            greeting.status &= !status::AUTOCOMMIT;
        }
        let (arrival, refusal) = self.arrive(&peer, is_full);
        let counted_at = peer.client_addr.filter(|_| arrival != Arrival::AwaitHeader);
        let mut outbox = Outbox::default();
        let out = outbox.buf(&mut self.fx.buffers);
        let phase = match refusal {
            None => Phase::Login(Box::new(ClientHandshake::start(&greeting, must_encrypt, out))),
            Some((cause, turned)) => {
                turned.error(&peer.host()).put(out, 0);
                self.fx.stats.counters.client_refused(cause);
                Phase::Closing
            }
        };
        let is_greeted = matches!(phase, Phase::Login(_));
        let active_ms = self.env.now.ms();
        let origin = Origin {
            peer,
            number,
            nonce,
            arrival,
            half_open: None,
            _address_place: None,
            tls: None,
            proof: None,
            has_place: false,
        };
        let id = self.clients.table.insert_with(|id| {
            let mut front = Frontend::new(id, origin, phase, active_ms);
            front.io.outbox = outbox;
            ClientEntry::Anonymous(front)
        });
        self.clients.numbers.insert(number, id);
        self.with_entry(id, |core, client| core.touch_client(client));
        match is_greeted {
            true => {
                let deadline = active_ms + self.env.snapshot.settings.connect_timeout_client;
                self.clients.logins.logging_in.push_back((deadline, id));
                self.with_entry(id, |core, client| core.enter_half_open(client, counted_at));
            }
            false => self.fx.act(Action::CloseClient { client: id, now: false }),
        }
        Some(id)
    }
}

impl Exchange {
    /// Bytes of a client that logs in.
    pub(crate) fn login_read(&mut self, client: &mut ClientEntry, bytes: &[u8]) {
        client.io.inbox.extend_from_slice(bytes);
        let too_long = client.io.inbox.len() > LOGIN_BYTES_MAX;
        if !self.settle_arrival(client) {
            return;
        }
        loop {
            let front: &mut Frontend = client;
            let Phase::Login(handshake) = &mut front.phase else { break };
            if handshake.awaits_tls() {
                // Not a packet: the driver takes it.
                return;
            }
            let Some((header, payload, rest)) = frame::split_packet(&front.io.inbox) else {
                if too_long || is_oversized(&front.io.inbox) {
                    self.refuse_garbage(client);
                }
                return;
            };
            let answer_seq = header.seq.wrapping_add(1);
            if let Arrival::TurnedAway(turned) = front.origin.arrival {
                return self.turn_away(client, turned, answer_seq);
            }
            let consumed = front.io.inbox.len() - rest.len();
            let Origin { peer, tls, .. } = &front.origin;
            let accounts = LoginAccounts::new(&self.core.env, peer, tls.is_some());
            let out = front.io.outbox.buf(&mut self.core.fx.buffers);
            let step = handshake.on_packet(header, payload, &accounts, out);
            wipe_front(&mut front.io.inbox, consumed);
            self.core.touch_client(client);
            self.login_step(client, step);
        }
        self.core.wake_commands(client);
    }

    /// See [`Worker::client_decrypted`](crate::Worker::client_decrypted).
    pub(crate) fn on_client_decrypted(&mut self, client: &mut ClientEntry, clear: Option<Vec<u8>>) {
        self.login_resumed(client, |handshake, accounts, out| {
            handshake.on_decrypted(clear, accounts, out)
        });
    }

    /// See [`Worker::client_verified`](crate::Worker::client_verified).
    pub(crate) fn on_client_verified(&mut self, client: &mut ClientEntry, is_right: bool) {
        self.login_resumed(client, |handshake, accounts, out| {
            handshake.on_verified(is_right, accounts, out)
        });
    }

    /// See [`Worker::users_looked_up`](crate::Worker::users_looked_up).
    pub(crate) fn on_users_looked_up(&mut self) {
        self.core.clients.logins.has_asked_for_users = false;
        for id in std::mem::take(&mut self.core.clients.logins.looking_up) {
            self.with_entry(id, |exchange, client| {
                exchange.login_resumed(client, ClientHandshake::on_looked_up);
            });
        }
    }

    fn login_resumed(
        &mut self,
        client: &mut ClientEntry,
        resume: impl FnOnce(&mut ClientHandshake, &dyn Accounts, &mut Vec<u8>) -> Step,
    ) {
        let front: &mut Frontend = client;
        let Phase::Login(handshake) = &mut front.phase else {
            return;
        };
        let Origin { peer, tls, .. } = &front.origin;
        let accounts = LoginAccounts::new(&self.core.env, peer, tls.is_some());
        let step = resume(handshake, &accounts, front.io.outbox.buf(&mut self.core.fx.buffers));
        self.core.touch_client(client);
        self.login_step(client, step);
        self.login_read(client, &[]);
    }

    pub(super) fn login_step(&mut self, client: &mut ClientEntry, step: Step) {
        if matches!(step, Step::Accepted(_) | Step::Refused(_)) {
            self.core.fx.act(Action::Wipe);
        }
        match step {
            Step::Continue => {}
            Step::StartTls => self.let_encrypt(client),
            Step::Decrypt(ciphertext) => {
                self.core.fx.act(Action::Decrypt { client: client.id, ciphertext })
            }
            Step::VerifyHash { clear, hash } => {
                self.core.fx.act(Action::VerifyHash { client: client.id, clear, hash });
            }
            Step::AskServer { name, user, clear } => {
                let hostgroup = user.default_hostgroup;
                self.core.fx.act(Action::AskServer { client: client.id, name, hostgroup, clear });
            }
            Step::LookUp => self.core.look_up_users(Some(client.id)),
            Step::LookUpUser(name) => self.core.look_up_user(client.id, name),
            Step::NameHost => self.core.fx.wake(Wake::NameHost(client.id)),
            Step::Accepted(identity) => self.authenticated(client, *identity),
            Step::Refused(because) => {
                self.count_denied(client, because);
                self.core
                    .log_session(client, "MySQL_Client_Connect_ERR", || format!("{because:?}"));
                self.core.fx.stats.counters.client_refused(match because {
                    Refusal::AccessDenied | Refusal::OutdatedAuthentication => {
                        ClientRefusal::AccessDenied
                    }
                    Refusal::MustWait(_) => ClientRefusal::AddressBlocked,
                    Refusal::TlsRequired => ClientRefusal::TlsRequired,
                    Refusal::BadHandshake | Refusal::TlsNotOffered | Refusal::OutOfOrder => {
                        ClientRefusal::HandshakeMalformed
                    }
                });
                if !self.core.keeps_after(client, because) {
                    self.close(client);
                }
            }
        }
    }

    /// Counts a login that failed. One that waits for its own name's failures was no guess.
    fn count_denied(&mut self, client: &Frontend, because: Refusal) {
        let is_guess = match because {
            Refusal::AccessDenied => true,
            Refusal::MustWait(wait) => wait.whose == Waiting::Origin,
            Refusal::OutdatedAuthentication
            | Refusal::BadHandshake
            | Refusal::TlsNotOffered
            | Refusal::TlsRequired
            | Refusal::OutOfOrder => false,
        };
        if let Phase::Login(handshake) = &client.phase
            && let Some(name) = handshake.denied_name().filter(|_| is_guess)
        {
            self.core.count_failed_login(client.origin.peer.origin(), name);
        }
    }

    /// The client is who it says; it becomes a session if there is room and its schema exists.
    fn authenticated(&mut self, client: &mut ClientEntry, identity: ClientIdentity) {
        let user = Arc::clone(&identity.user);
        if let Some((hash, proof)) = &identity.proven_sha2 {
            self.core.env.shared.remember_verified(&user, hash.clone(), *proof);
        }
        if let Some(charset) = unfit_charset(self.core.env.greeting.flavor(), identity.collation) {
            let text =
                format!("Variable 'character_set_client' can't be set to the value of '{charset}'");
            return self.refuse_login(client, identity.next_seq, ErrorKind::WrongValue.says(text));
        }
        if !self.is_encrypted_as_required(client, &user, identity.next_seq) {
            return;
        }
        if let Err(turned) = self.core.take_places(client) {
            return self.turn_away(client, turned, identity.next_seq);
        }
        self.core.count_good_login(client, &user.name);
        self.core.prepare_proof(client, &identity);
        let before = client.session();
        let (is_first, stmts) = (before.is_none(), before.map(|it| it.prepared.none_behind()));
        // A change of user gives the old user's place back before it takes the new one.
        self.core.follow_globals(client.client_mut());
        let own_place = self.core.part_from_session(client, &user);
        let Some(place) = self.core.place_of_user(own_place, &user) else {
            return self.refuse_user_connections(client, &user, identity.next_seq);
        };
        let behaviour = identity.capabilities.intersection(BEHAVIOUR);
        let backend = user.backend.as_ref().map(|backend| Arc::from(&*backend.user));
        let key = AccountKey { user: Arc::from(&*user.key()), backend, behaviour };
        let account = self.core.servers.logins.accounts.intern(key);
        let schema = identity.schema.clone().filter(|name| !name.is_empty());
        let schema = schema.or_else(|| user.default_schema.clone().map(String::into_bytes));
        let charset = Charset::Collation(identity.collation);
        let mut state = SessionState::new(Schema::None, charset.clone());
        if is_first || self.core.env.greeting.flavor() == Flavor::MySql {
            ignore_spaces(&mut state, identity.capabilities);
        }
        let modes = self.core.servers.defaults.modes.of_session(
            &state,
            self.core.env.greeting.flavor(),
            None,
        );
        let login = LoggedIn {
            place: Some(place),
            account,
            credential: Arc::new(self.core.env.server_credential(&user, &identity.credential)),
            format: ReplyFormat::of(identity.capabilities),
            capabilities: identity.capabilities,
            attributes: kept(identity.attributes),
            zstd_level: identity.zstd_level,
            handshake_charset: charset,
            user,
        };
        let state = self.core.servers.states.intern(state);
        let mut session =
            Session::new(login, SessionSettings::new(state, modes, self.core.begin_status()));
        session.prepared = stmts.unwrap_or_default();
        if !is_first {
            // What the client wrote as another user may not be told of yet.
            session.settings.own_writes.end(self.core.env.now.us);
        }
        match client {
            ClientEntry::Anonymous(front) => {
                let mut begun = Client::new(front.take(), session);
                self.begin_session(&mut begun, schema, identity.next_seq);
                *client = ClientEntry::LoggedIn(begun);
            }
            ClientEntry::LoggedIn(client) => {
                client.try_session(session);
                self.begin_session(client, schema, identity.next_seq);
            }
        }
    }

    /// A session has begun, and its client is told unless the schema is to be tried first.
    fn begin_session(&mut self, client: &mut Client, schema: Option<Vec<u8>>, seq: u8) {
        client.phase = Phase::Idle;
        self.core.begin_autocommit(client);
        self.core.fx.stats.counters.clients_authenticated += 1;
        self.core.log_session(client, "MySQL_Client_Connect_OK", String::new);
        match schema {
            None => self.welcome(client, seq),
            Some(schema) => self.log_in_to_schema(client, &schema, seq),
        }
    }

    /// The user has as many connections as it may.
    fn refuse_user_connections(&mut self, client: &mut ClientEntry, user: &User, seq: u8) {
        self.core.fx.stats.counters.client_refused(ClientRefusal::UserConnections);
        let text = format!(
            "User '{}' has exceeded the 'max_user_connections' resource (current value: {})",
            user.name, user.max_connections
        );
        self.refuse_user(client, seq, ErrorKind::LimitReached.says(text));
    }

    /// The login's schema is tried on a server, as a server itself would, unless that was done
    /// a moment ago. Where no connection stands, one is opened by it: the servers may be others by
    /// now, whose sessions begin otherwise.
    fn log_in_to_schema(&mut self, client: &mut Client, schema: &[u8], seq: u8) {
        let session = &*client.session;
        if session.login.user.fast_forward {
            // The dedicated connection names the schema when it logs in.
            self.core.enter_schema(client, schema);
            self.welcome(client, seq);
            return;
        }
        let key = (session.login.account, schema.into());
        let confirmed_ms = self.core.servers.logins.schemas.get(&key).copied();
        let is_fresh = |at: u64| self.core.env.now.ms().saturating_sub(at) < SCHEMA_BELIEVED_MS;
        let servers = self
            .core
            .env
            .snapshot
            .hostgroup(session.login.user.default_hostgroup)
            .map(|it| &it.servers);
        let is_connected = servers.is_some_and(|all| all.iter().any(|it| it.health.is_connected()));
        // What bytes name in one character set they may not in another.
        let is_plain = is_plain_name(schema);
        if is_plain && is_connected && confirmed_ms.is_some_and(is_fresh) {
            self.core.enter_schema(client, schema);
            self.welcome(client, seq);
        } else {
            self.run_init_db(client, schema, Purpose::LoginSchema(schema.into(), seq));
        }
    }
}

/// The character set of a collation, if statements can't be read in it: servers refuse such
/// clients.
fn unfit_charset(flavor: Flavor, collation: u16) -> Option<&'static str> {
    let (charset, _) = trunkline_protocol::collation::lookup(flavor, collation)?;
    ["ucs2", "utf16", "utf16le", "utf32"].contains(&charset).then_some(charset)
}

/// Attributes that are kept while the client is connected, names and values, bytes. Those beyond
/// it are left out.
const ATTRIBUTES_KEPT_MAX: usize = 4_096;

fn kept(attributes: Vec<Attribute>) -> Box<[Attribute]> {
    let mut room = ATTRIBUTES_KEPT_MAX;
    let fits = |(name, value): &Attribute| {
        let left = room.checked_sub(name.len() + value.len());
        room = left.unwrap_or(0);
        left.is_some()
    };
    attributes.into_iter().take_while(fits).collect()
}

/// Whether the first packet says that it is longer than a login ever is.
fn is_oversized(bytes: &[u8]) -> bool {
    frame::Header::read(bytes).is_some_and(|header| {
        header.payload_len + HEADER_LEN > LOGIN_BYTES_MAX || header.payload_len == PAYLOAD_MAX
    })
}

/// Sets the SQL mode that a handshake with `IGNORE_SPACE` sets. MySQL sets it again with each reset
/// and change of user, MariaDB does not.
pub(crate) fn ignore_spaces(state: &mut SessionState, capabilities: Capabilities) {
    if capabilities.contains(Capabilities::IGNORE_SPACE) {
        state.set_variable("sql_mode", SPACES_IGNORED);
    }
}

/// What a login may ask of users.
struct LoginAccounts<'a> {
    env: &'a Env,
    host: String,
    peer: &'a Peer,
    is_secure: bool,
    is_encrypted: bool,
}

impl<'a> LoginAccounts<'a> {
    fn new(env: &'a Env, peer: &'a Peer, is_encrypted: bool) -> Self {
        let is_secure = peer.is_local || is_encrypted;
        Self { env, host: peer.host(), peer, is_secure, is_encrypted }
    }
}

impl Accounts for LoginAccounts<'_> {
    fn user(&self, name: &str) -> Option<Arc<User>> {
        // From elsewhere a user is as unknown as one that is not there.
        let (addr, host) = (self.peer.client_addr, &self.peer.host_name);
        let may_enter = |user: &Arc<User>| user.active && user.allow_from.allows(addr, host);
        self.env.snapshot.user_from(name, addr, host).filter(|user| may_enter(user)).cloned()
    }

    fn stand_in(&self, name: &str) -> Option<Arc<User>> {
        self.env.snapshot.stand_in(name).cloned()
    }

    fn verified_sha2(&self, user: &User) -> Option<[u8; 32]> {
        let passwords = std::iter::once(&user.password).chain(user.retained_password.as_ref());
        let key = user.key();
        let proof_of = |password: &Password| match password {
            Password::Sha2Hash(hash) => self.env.shared.verified(&key, hash.expose()),
            Password::Clear(_)
            | Password::NativeHash(_)
            | Password::Sha256Hash(_)
            | Password::Ed25519Key(_)
            | Password::ParsecKey(_)
            | Password::Servers
            | Password::Nobodys => None,
        };
        passwords.into_iter().find_map(proof_of)
    }

    fn can_look_up(&self) -> bool {
        !self.env.snapshot.settings.server_users_account.is_empty()
    }

    fn may_be_outdated(&self, name: &str) -> bool {
        self.is_to_be_asked(name)
    }

    fn awaits_host_name(&self) -> bool {
        // Whoever it says it is: known and unknown users wait alike.
        needs_name(&self.env.snapshot, self.peer)
    }

    fn public_key_pem(&self) -> Option<&[u8]> {
        self.env.shared.public_key_pem()
    }

    fn client_host(&self) -> &str {
        &self.host
    }

    fn is_secure(&self) -> bool {
        self.is_secure
    }

    fn is_own_process(&self, user: &User) -> bool {
        self.peer.client_uid.is_some() && user.unix_uid == self.peer.client_uid
    }

    fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    fn wait(&self, name: &str, attempt: Attempt) -> Option<LoginWait> {
        let (origin, limits) = (self.peer.origin()?, self.env.failed_login_limits());
        // Logins ask for no lock where there is no limit.
        let addresses = (limits.per_name > 0).then(|| self.env.shared.addresses())?;
        addresses.wait(origin, name, attempt, self.env.now.ms(), limits)
    }
}

#[cfg(test)]
mod tests;
