//! The states of a server's handshake and what moves each to the next.

use std::sync::Arc;

use trunkline_protocol::{
    Capabilities, Malformed,
    auth::{Plugin, caching_sha2, clear, parsec},
    codec::frame::put_payload,
    packet::{
        attributes::Attributes,
        auth_switch::{self, AuthSwitchRequest},
        change_user::ChangeUser,
        err,
        greeting::{Greeting, Opening},
        handshake_response::{HandshakeResponse, put_tls_request},
        ok,
    },
};
use trunkline_topology::{PinnedKeys, Secret};

use super::{
    FailureKind, ServerFailure, ServerIdentity, ServerLogin, ServerStep, State, TlsWish,
    login::REQUIRED,
};

/// What the server is told of the longest packet: the most it can be configured to send.
const PACKET_LEN_MAX: u32 = 1 << 30;
/// Servers switch the plug-in once; one that goes on asking is not obeyed.
const SWITCHES_MAX: u8 = 2;

/// The longest first answer, which has one byte for its length.
const CLEAR_ANSWER_LEN_MAX: usize = 250;

type Transition = (State, ServerStep);

fn fail(failure: impl Into<ServerFailure>) -> Transition {
    (State::Finished, ServerStep::Failed(failure.into()))
}

/// What is known of the server while the login goes on.
#[derive(Debug)]
pub(super) struct Exchange {
    login: ServerLogin,
    greeting: Greeting,
    capabilities: Capabilities,
    collation: u16,
    /// Whose answer was sent last.
    plugin: Plugin,
    /// The server's nonce for a signature.
    long_nonce: Vec<u8>,
    switches: u8,
    /// Number of the next packet, whoever sends it.
    pub(super) seq: u8,
}

impl Exchange {
    /// What is known when the first packet of a login was sent, which has the number before `seq`.
    fn begun(
        (login, greeting): (ServerLogin, Greeting),
        (capabilities, collation): (Capabilities, u16),
        plugin: Plugin,
        seq: u8,
    ) -> Box<Self> {
        let long_nonce = Vec::new();
        let switches = 0;
        Box::new(Self {
            login,
            greeting,
            capabilities,
            collation,
            plugin,
            long_nonce,
            switches,
            seq,
        })
    }

    /// Answers a greeting as the packet numbered `seq`.
    fn respond(login: ServerLogin, greeting: Greeting, seq: u8, out: &mut Vec<u8>) -> Box<Self> {
        let capabilities = login.negotiate(greeting.capabilities);
        let is_encrypted = capabilities.contains(Capabilities::SSL);
        let (plugin, answer) = first_answer(&login, &greeting, is_encrypted);
        let raw = login.encoded_attributes();
        let charset = login.charset();
        let response = HandshakeResponse {
            capabilities,
            packet_len_max: PACKET_LEN_MAX,
            charset,
            user: login.user(),
            auth: &answer,
            schema: login.schema(),
            plugin: Some(plugin.name().as_bytes()),
            attributes: Attributes::parse(&raw).unwrap_or_default(),
            zstd_level: Some(login.zstd_level),
        };
        let seq = response.put(out, seq);
        let collation = u16::from(charset);
        Self::begun((login, greeting), (capabilities, collation), plugin, seq)
    }

    pub(super) fn change_user(
        login: ServerLogin,
        identity: ServerIdentity,
        out: &mut Vec<u8>,
    ) -> Box<Self> {
        let ServerIdentity { greeting, capabilities, .. } = identity;
        let is_encrypted = capabilities.contains(Capabilities::SSL);
        let (plugin, answer) = first_answer(&login, &greeting, is_encrypted);
        let raw = login.encoded_attributes();
        let request = ChangeUser {
            user: login.user(),
            auth: &answer,
            schema: login.schema(),
            collation: Some(login.collation),
            plugin: Some(plugin.name().as_bytes()),
            attributes: Attributes::parse(&raw).unwrap_or_default(),
        };
        let seq = request.put(out, 0, capabilities);
        let collation = login.collation;
        Self::begun((login, greeting), (capabilities, collation), plugin, seq)
    }

    /// Other keys of servers are known now.
    pub(super) fn trust(&mut self, keys: Arc<PinnedKeys>) {
        self.login.keys = keys;
    }

    fn put(&mut self, out: &mut Vec<u8>, payload: &[u8]) {
        self.seq = put_payload(out, self.seq, payload);
    }

    fn refused(self: Box<Self>, payload: &[u8]) -> Transition {
        match err::parse(payload).map(|error| ServerFailure::reported(&error)) {
            Ok(failure)
                if failure.kind == FailureKind::AuthenticationDenied
                    && self.login.credential.is_unknown() =>
            {
                self.needs_password(self.plugin)
            }
            Ok(failure) => fail(failure),
            Err(malformed) => fail(malformed),
        }
    }

    fn needs_password(&self, plugin: Plugin) -> Transition {
        fail(ServerFailure::needs_password(&self.login.user, plugin.name()))
    }

    fn ready(self: Box<Self>, payload: &[u8]) -> Result<ServerStep, Malformed> {
        let has_changes = self.capabilities.contains(Capabilities::SESSION_TRACK);
        let status = ok::parse(payload, has_changes)?.status;
        let Self { greeting, capabilities, collation, .. } = *self;
        let identity = ServerIdentity { greeting, capabilities, collation, status };
        Ok(ServerStep::Ready(Box::new(identity)))
    }

    /// Does as a switch request says.
    fn switch(mut self: Box<Self>, payload: &[u8], out: &mut Vec<u8>) -> Transition {
        self.switches += 1;
        if self.switches > SWITCHES_MAX {
            return fail(ServerFailure::protocol("too many switch requests"));
        }
        if payload.len() == 1 {
            return fail(ServerFailure::unsupported_plugin(b"mysql_old_password"));
        }
        let request = match AuthSwitchRequest::parse(payload) {
            Ok(request) => request,
            Err(malformed) => return fail(malformed),
        };
        let is_encrypted = self.capabilities.contains(Capabilities::SSL);
        let plugin = match Plugin::from_name(request.plugin) {
            // The password itself goes where nobody can listen.
            Some(plugin @ (Plugin::Clear | Plugin::Dialog))
                if is_encrypted || self.login.is_local =>
            {
                plugin
            }
            Some(
                plugin @ (Plugin::Native
                | Plugin::CachingSha2
                | Plugin::Sha256
                | Plugin::Ed25519
                | Plugin::Parsec),
            ) => plugin,
            Some(Plugin::Clear | Plugin::Dialog) | None => {
                return fail(ServerFailure::unsupported_plugin(request.plugin));
            }
        };
        self.plugin = plugin;
        let answer = match plugin {
            Plugin::Ed25519 => self.login.credential.ed25519_answer(request.data),
            Plugin::Clear => self.login.credential.clear().map(with_nul),
            Plugin::Dialog => {
                if !asks_for_a_password(request.data) {
                    return fail(ServerFailure::unsupported_plugin(b"dialog"));
                }
                self.login.credential.clear().map(with_nul)
            }
            Plugin::Parsec => {
                self.long_nonce = request.data.to_vec();
                // An empty packet asks for the salt.
                self.login.credential.clear().map(|_| Vec::new())
            }
            Plugin::Native | Plugin::CachingSha2 | Plugin::Sha256 => {
                match request.nonce() {
                    Ok(nonce) => self.greeting.nonce = nonce,
                    Err(malformed) => return fail(malformed),
                }
                answer(&self.login, &self.greeting, plugin, is_encrypted)
            }
        };
        let Some(answer) = answer else {
            return self.needs_password(plugin);
        };
        self.put(out, &answer);
        (State::AuthReply(AwaitAuthReply { exchange: self }), ServerStep::Continue)
    }

    /// Sends the password itself, or asks for the key to encrypt it with.
    fn send_password(mut self: Box<Self>, out: &mut Vec<u8>) -> Transition {
        let Some(password) = self.login.credential.clear() else {
            return self.needs_password(Plugin::CachingSha2);
        };
        if self.login.is_local || self.capabilities.contains(Capabilities::SSL) {
            let text = with_nul(password);
            self.put(out, &text);
            return (State::AuthReply(AwaitAuthReply { exchange: self }), ServerStep::Continue);
        }
        self.put(out, &[caching_sha2::REQUEST_KEY]);
        (State::PublicKey(AwaitPublicKey { exchange: self }), ServerStep::Continue)
    }

    /// Has the key derived that the server checks the answer with.
    fn derive(self: Box<Self>, sent: &[u8]) -> Transition {
        let Some(derivation) = parsec::Derivation::parse(sent) else {
            return fail(ServerFailure::protocol("derivation of a key"));
        };
        let Some(password) = self.login.credential.clear() else {
            return self.needs_password(Plugin::Parsec);
        };
        let step = ServerStep::Derive { password: Secret::new(password.to_vec()), derivation };
        (State::Seed(AwaitSeed { exchange: self }), step)
    }

    /// Has the password encrypted with the key that the server sent. Whoever has sent it may have
    /// made it himself: it must be one that is known, unless nobody else can be there.
    fn encrypt(self: Box<Self>, plugin: Plugin, public_key_pem: &[u8]) -> Transition {
        let Some(password) = self.login.credential.clear() else {
            return self.needs_password(plugin);
        };
        let keys = &self.login.keys;
        let is_secure = self.login.is_local || self.capabilities.contains(Capabilities::SSL);
        let key = keys.find(public_key_pem).or(is_secure.then(|| public_key_pem.to_vec()));
        let Some(public_key_pem) = key else {
            let (user, has_keys) = (&self.login.user, !keys.is_empty());
            return fail(ServerFailure::unproven(user, plugin.name(), has_keys));
        };
        let plaintext = Secret::new(caching_sha2::obscure(password, &self.greeting.nonce));
        let step = ServerStep::Encrypt { public_key_pem, plaintext };
        (State::Encryption(AwaitEncryption { exchange: self }), step)
    }
}

/// The greeting's plug-in when its answer is known, else one whose answer is: the server then
/// switches, or the user's plug-in was not the default one. With nothing known the answer is
/// native's empty one, which opens only an account without a password.
fn first_answer(login: &ServerLogin, greeting: &Greeting, is_encrypted: bool) -> (Plugin, Vec<u8>) {
    let default = Plugin::from_name(greeting.auth_plugin.as_bytes())
        .filter(|plugin| matches!(plugin, Plugin::Native | Plugin::CachingSha2 | Plugin::Sha256));
    default
        .into_iter()
        .chain([Plugin::Native, Plugin::CachingSha2])
        .find_map(|plugin| Some((plugin, answer(login, greeting, plugin, is_encrypted)?)))
        .unwrap_or((Plugin::Native, Vec::new()))
}

/// The first answer to the greeting's nonce; `None` when too little is known of the password.
fn answer(
    login: &ServerLogin,
    greeting: &Greeting,
    plugin: Plugin,
    is_encrypted: bool,
) -> Option<Vec<u8>> {
    let credential = &login.credential;
    match plugin {
        Plugin::Native => credential.native_answer(&greeting.nonce),
        Plugin::CachingSha2 => credential.sha2_answer(&greeting.nonce),
        Plugin::Sha256 => {
            let password = credential.clear()?;
            if is_encrypted && !password.is_empty() {
                return Some(with_nul(password)).filter(|text| text.len() <= CLEAR_ANSWER_LEN_MAX);
            }
            // Unlike its successor this plug-in takes a Unix socket for an open transport.
            let is_empty = password.is_empty();
            Some(vec![if is_empty { 0 } else { caching_sha2::REQUEST_KEY_SHA256 }])
        }
        // These are asked for by a switch request.
        Plugin::Clear | Plugin::Ed25519 | Plugin::Parsec | Plugin::Dialog => None,
    }
}

/// Whether the question of `dialog` is one whose answer is not shown: 4, or 5 when it is the last.
/// A server that asks nothing wants the client's password, as what it asks for first; so does
/// MariaDB's `auth_pam` (transcript of a 10.11).
fn asks_for_a_password(question: &[u8]) -> bool {
    matches!(question.first(), None | Some(4 | 5))
}

/// A password and the NUL that ends it.
fn with_nul(password: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(password.len() + 1);
    clear::put(&mut text, password);
    text
}

/// Nothing is sent; the greeting is due.
#[derive(Debug)]
pub(super) struct AwaitGreeting {
    pub(super) login: Box<ServerLogin>,
}

impl AwaitGreeting {
    pub(super) fn on_opening(self, payload: &[u8], out: &mut Vec<u8>) -> Transition {
        let greeting = match Opening::parse(payload) {
            Ok(Opening::Greeting(greeting)) => greeting,
            Ok(Opening::Refused(error)) => return fail(ServerFailure::reported(&error)),
            Err(malformed) => return fail(malformed),
        };
        if !greeting.capabilities.contains(REQUIRED) {
            return fail(ServerFailure::protocol("the server is older than protocol 4.1"));
        }
        if self.login.credential.is_unknown() {
            // An attempt without a password could only count against the proxy's address.
            return fail(ServerFailure::needs_password(&self.login.user, &greeting.auth_plugin));
        }
        let tls = AwaitTls { login: self.login, greeting };
        if tls.login.begins_tls(tls.greeting.capabilities) {
            tls.request(out);
            return (State::Tls(tls), ServerStep::StartTls);
        }
        if tls.login.tls == TlsWish::Always {
            return fail(ServerFailure::without_tls());
        }
        let exchange = Exchange::respond(*tls.login, tls.greeting, 1, out);
        (State::AuthReply(AwaitAuthReply { exchange }), ServerStep::Continue)
    }
}

/// TLS is being begun.
#[derive(Debug)]
pub(super) struct AwaitTls {
    login: Box<ServerLogin>,
    greeting: Greeting,
}

impl AwaitTls {
    fn request(&self, out: &mut Vec<u8>) {
        let capabilities = self.login.negotiate(self.greeting.capabilities);
        put_tls_request(out, 1, capabilities, PACKET_LEN_MAX, self.login.charset());
    }

    /// Answers the greeting through TLS.
    pub(super) fn resume(self, out: &mut Vec<u8>) -> State {
        let exchange = Exchange::respond(*self.login, self.greeting, 2, out);
        State::AuthReply(AwaitAuthReply { exchange })
    }
}

/// An answer is sent; the server's verdict or its next wish is due.
#[derive(Debug)]
pub(super) struct AwaitAuthReply {
    pub(super) exchange: Box<Exchange>,
}

impl AwaitAuthReply {
    pub(super) fn on_reply(self, payload: &[u8], out: &mut Vec<u8>) -> Transition {
        let mut exchange = self.exchange;
        exchange.seq = exchange.seq.wrapping_add(1);
        match payload.first() {
            Some(&ok::HEADER) => match exchange.ready(payload) {
                Ok(step) => (State::Finished, step),
                Err(malformed) => fail(malformed),
            },
            Some(&err::HEADER) => exchange.refused(payload),
            Some(&auth_switch::SWITCH) => exchange.switch(payload, out),
            Some(&auth_switch::MORE_DATA) => Self { exchange }.on_more_data(payload, out),
            Some(&parsec::DERIVATION) if exchange.plugin == Plugin::Parsec => {
                exchange.derive(payload)
            }
            Some(_) | None => fail(ServerFailure::protocol("reply to authentication")),
        }
    }

    fn on_more_data(self, payload: &[u8], out: &mut Vec<u8>) -> Transition {
        let data = match auth_switch::parse_more_data(payload) {
            Ok(data) => data,
            Err(malformed) => return fail(malformed),
        };
        match (self.exchange.plugin, data) {
            (Plugin::CachingSha2, [caching_sha2::FAST_OK]) => {
                (State::AuthReply(self), ServerStep::Continue)
            }
            (Plugin::CachingSha2, [caching_sha2::FULL_AUTH]) => self.exchange.send_password(out),
            (Plugin::Sha256, key) => self.exchange.encrypt(Plugin::Sha256, key),
            (Plugin::Parsec, derivation) => self.exchange.derive(derivation),
            (
                Plugin::CachingSha2
                | Plugin::Native
                | Plugin::Clear
                | Plugin::Ed25519
                | Plugin::Dialog,
                _,
            ) => fail(ServerFailure::protocol("unexpected authentication data")),
        }
    }
}

/// The server's public key is asked for.
#[derive(Debug)]
pub(super) struct AwaitPublicKey {
    pub(super) exchange: Box<Exchange>,
}

impl AwaitPublicKey {
    pub(super) fn on_key(self, payload: &[u8]) -> Transition {
        let mut exchange = self.exchange;
        exchange.seq = exchange.seq.wrapping_add(1);
        if payload.first() == Some(&err::HEADER) {
            return exchange.refused(payload);
        }
        match auth_switch::parse_more_data(payload) {
            Ok(key) => exchange.encrypt(Plugin::CachingSha2, key),
            Err(malformed) => fail(malformed),
        }
    }
}

/// The caller derives the seed of the password's key.
#[derive(Debug)]
pub(super) struct AwaitSeed {
    exchange: Box<Exchange>,
}

impl AwaitSeed {
    pub(super) fn on_derived(mut self, seed: &Secret<[u8; 32]>, out: &mut Vec<u8>) -> Transition {
        let answer = parsec::answer(seed.expose(), &self.exchange.long_nonce);
        self.exchange.put(out, &answer);
        let state = AwaitAuthReply { exchange: self.exchange };
        (State::AuthReply(state), ServerStep::Continue)
    }
}

/// The caller encrypts the password.
#[derive(Debug)]
pub(super) struct AwaitEncryption {
    pub(super) exchange: Box<Exchange>,
}

impl AwaitEncryption {
    pub(super) fn on_encrypted(mut self, ciphertext: &[u8], out: &mut Vec<u8>) -> Transition {
        self.exchange.put(out, ciphertext);
        let state = AwaitAuthReply { exchange: self.exchange };
        (State::AuthReply(state), ServerStep::Continue)
    }
}
