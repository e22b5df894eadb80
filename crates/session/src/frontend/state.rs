//! The states of a client's handshake and what moves each to the next.

use trunkline_protocol::{
    Capabilities,
    auth::{Plugin, caching_sha2, clear},
    packet::{
        auth_switch::put_more_data, change_user::ChangeUser, handshake_response::ClientOpening,
    },
};
use trunkline_topology::Secret;

use super::{Accounts, HANDSHAKE_PAYLOAD_MAX, Login, Nonce, Refusal, State, Step, login::Shown};
use crate::credential::Credential;

/// No RSA key in use encrypts to more bytes than this (8,192 bits).
const CIPHERTEXT_LEN_MAX: usize = 1024;
/// What it has at least, in bytes: RSA's keys are no shorter than 2,048 bits.
const CIPHERTEXT_LEN_MIN: usize = 256;

/// The greeting is sent; the client's response is due.
#[derive(Debug)]
pub(super) struct AwaitResponse {
    pub(super) offered: Capabilities,
    pub(super) nonce: Nonce,
    pub(super) default_plugin: Plugin,
    /// Refuse a response in clear.
    pub(super) must_encrypt: bool,
    /// The number that the response must have: 2 within TLS.
    pub(super) seq: u8,
    /// Whether the accounts of the client's name were looked up.
    pub(super) is_current: bool,
}

impl AwaitResponse {
    pub(super) fn on_response(
        self,
        payload: &[u8],
        accounts: &dyn Accounts,
        out: &mut Vec<u8>,
    ) -> (State, Step) {
        let next_seq = self.seq.wrapping_add(1);
        let response = match ClientOpening::parse(payload) {
            Ok(ClientOpening::Response(response)) => response,
            Ok(ClientOpening::TlsRequest(_)) if self.seq > 1 => {
                return (State::Finished, Refusal::BadHandshake.refuse(out, next_seq));
            }
            Ok(ClientOpening::TlsRequest(_)) if self.offered.contains(Capabilities::SSL) => {
                return (State::Tls(AwaitTls { response: self }), Step::StartTls);
            }
            Ok(ClientOpening::TlsRequest(_)) => {
                return (State::Finished, Refusal::TlsNotOffered.refuse(out, next_seq));
            }
            Ok(ClientOpening::Outdated) | Err(_) => {
                return (State::Finished, Refusal::BadHandshake.refuse(out, next_seq));
            }
        };
        if self.must_encrypt && self.seq == 1 {
            return (State::Finished, Refusal::TlsRequired.refuse(out, next_seq));
        }
        if accounts.awaits_host_name() {
            let held = Held::Response(self, Secret::new(payload.to_vec()));
            return (State::Host(AwaitHost { held }), Step::NameHost);
        }
        if let Some(name) = outdated(self.is_current, response.user, accounts) {
            let held = Self { is_current: true, ..self };
            let held = Held::Response(held, Secret::new(payload.to_vec()));
            return (State::User(AwaitUser { held }), Step::LookUpUser(name));
        }
        let login = Login::from_response(&response, self.offered, self.nonce, next_seq, accounts);
        login.begin(response.plugin, response.auth, self.default_plugin, accounts, out)
    }
}

/// The name of a client, where what is known of it has to be looked up.
fn outdated(is_current: bool, name: &[u8], accounts: &dyn Accounts) -> Option<String> {
    let name = std::str::from_utf8(name).ok()?;
    (!is_current && accounts.may_be_outdated(name)).then(|| name.to_owned())
}

/// The client has asked for TLS, which is being begun.
#[derive(Debug)]
pub(super) struct AwaitTls {
    response: AwaitResponse,
}

impl AwaitTls {
    /// The response is due again, through TLS.
    pub(super) fn resume(self) -> AwaitResponse {
        AwaitResponse { seq: self.response.seq.wrapping_add(1), ..self.response }
    }
}

/// A switch request is sent; an answer by `plugin` is due.
#[derive(Debug)]
pub(super) struct AwaitSwitchResponse {
    pub(super) login: Box<Login>,
    pub(super) plugin: Plugin,
}

impl AwaitSwitchResponse {
    pub(super) fn on_answer(
        mut self,
        payload: &[u8],
        accounts: &dyn Accounts,
        out: &mut Vec<u8>,
    ) -> (State, Step) {
        self.login.seq = self.login.seq.wrapping_add(1);
        self.login.decide(self.plugin, payload, accounts, out)
    }
}

/// The password itself is asked for: it is due, or before it a request for the public key.
#[derive(Debug)]
pub(super) struct AwaitSha2Answer {
    pub(super) login: Box<Login>,
    key_sent: bool,
}

impl AwaitSha2Answer {
    pub(super) fn new(login: Box<Login>) -> Self {
        Self { login, key_sent: false }
    }

    pub(super) fn on_answer(
        mut self,
        payload: &[u8],
        accounts: &dyn Accounts,
        out: &mut Vec<u8>,
    ) -> (State, Step) {
        self.login.seq = self.login.seq.wrapping_add(1);
        if payload == [caching_sha2::REQUEST_KEY] {
            return self.send_key(accounts, out);
        }
        // A client that asked for the key encrypts, whatever the transport; so does one over the
        // loopback network that has pinned it.
        if accounts.is_secure() && !self.key_sent && !looks_encrypted(payload) {
            let password = clear::read(payload).map(<[u8]>::to_vec);
            return await_verification(self.login, password, accounts, out);
        }
        self.decrypt(payload, accounts, out)
    }

    /// Has the password decrypted.
    pub(super) fn decrypt(
        self,
        ciphertext: &[u8],
        accounts: &dyn Accounts,
        out: &mut Vec<u8>,
    ) -> (State, Step) {
        if ciphertext.is_empty() || ciphertext.len() > CIPHERTEXT_LEN_MAX {
            return self.login.deny(accounts, out);
        }
        let step = Step::Decrypt(ciphertext.to_vec());
        (State::Decryption(AwaitDecryption { login: self.login }), step)
    }

    /// Sends the key to encrypt the password with.
    pub(super) fn send_key(mut self, accounts: &dyn Accounts, out: &mut Vec<u8>) -> (State, Step) {
        if self.key_sent {
            return (State::Finished, Refusal::BadHandshake.refuse(out, self.login.seq));
        }
        let Some(key) = accounts.public_key_pem() else {
            return self.login.deny(accounts, out);
        };
        self.login.seq = put_more_data(out, self.login.seq, key);
        self.key_sent = true;
        (State::Sha2Answer(self), Step::Continue)
    }
}

/// Whether this is a password that was encrypted with RSA, and none in clear: it is as long as a
/// key of 2,048 bits or more, and no text.
fn looks_encrypted(payload: &[u8]) -> bool {
    payload.len() >= CIPHERTEXT_LEN_MIN && std::str::from_utf8(payload).is_err()
}

/// The caller decrypts what the client sent.
#[derive(Debug)]
pub(super) struct AwaitDecryption {
    pub(super) login: Box<Login>,
}

impl AwaitDecryption {
    pub(super) fn on_decrypted(
        self,
        plaintext: Option<Vec<u8>>,
        accounts: &dyn Accounts,
        out: &mut Vec<u8>,
    ) -> (State, Step) {
        let password = plaintext.and_then(|text| caching_sha2::reveal(text, self.login.nonce()));
        await_verification(self.login, password, accounts, out)
    }
}

/// The caller checks the password against the user's stored hash.
#[derive(Debug)]
pub(super) struct AwaitVerification {
    pub(super) login: Box<Login>,
    password: Secret<Vec<u8>>,
    /// The hash that it is checked against.
    hash: Secret<Vec<u8>>,
    /// The hash of the password before, where that is right as well.
    older: Option<Secret<Vec<u8>>>,
}

impl AwaitVerification {
    pub(super) fn on_verified(
        mut self,
        is_right: bool,
        accounts: &dyn Accounts,
        out: &mut Vec<u8>,
    ) -> (State, Step) {
        self.login.find_again(accounts);
        if is_right && !self.login.is_stored(&self.hash) {
            // The user has changed, or gone, while the password was checked.
            let shown = Shown::Password { clear: self.password, against: self.hash };
            return self.login.look_again(shown, accounts, out);
        }
        match (is_right, self.older) {
            (false, None) => {
                let shown = Shown::Password { clear: self.password, against: self.hash };
                self.login.turn_down(shown, accounts, out)
            }
            (false, Some(older)) => {
                let step = Step::VerifyHash { clear: self.password.clone(), hash: older.clone() };
                let next = Self { hash: older, older: None, ..self };
                (State::Verification(next), step)
            }
            (true, _) => {
                let password = self.password.expose();
                let proof = caching_sha2::stage2(&caching_sha2::stage1(password));
                let credential = Credential::from_clear(password);
                // Only this plug-in has a quick way.
                let is_remembered = self.hash.expose().starts_with(b"$A$");
                let proven = is_remembered.then_some((self.hash, proof));
                self.login.let_in(credential, proven, None, accounts, out)
            }
        }
    }
}

/// A client that could not be let in awaits whether the users are others by now.
#[derive(Debug)]
pub(super) struct AwaitUsers {
    pub(super) login: Box<Login>,
    /// What it showed.
    pub(super) shown: Shown,
}

impl AwaitUsers {
    pub(super) fn on_looked_up(self, accounts: &dyn Accounts, out: &mut Vec<u8>) -> (State, Step) {
        // Accounts of certain hosts may be new.
        if accounts.awaits_host_name() {
            return (State::Host(AwaitHost { held: Held::Users(self) }), Step::NameHost);
        }
        self.login.look_again(self.shown, accounts, out)
    }
}

/// What the client's host is called is awaited.
#[derive(Debug)]
pub(super) struct AwaitHost {
    pub(super) held: Held,
}

/// What goes on when that is known.
#[derive(Debug)]
pub(super) enum Held {
    /// The response that has come.
    Response(AwaitResponse, Secret<Vec<u8>>),
    /// The change of user that was asked for.
    Change(HeldChange, Secret<Vec<u8>>),
    /// A second look at what was shown.
    Users(AwaitUsers),
}

/// What accounts of the client's name there are is awaited.
#[derive(Debug)]
pub(super) struct AwaitUser {
    pub(super) held: Held,
}

impl AwaitHost {
    pub(super) fn on_named(self, accounts: &dyn Accounts, out: &mut Vec<u8>) -> (State, Step) {
        debug_assert!(!accounts.awaits_host_name(), "it is known now");
        self.held.go_on(accounts, out)
    }
}

impl Held {
    pub(super) fn go_on(self, accounts: &dyn Accounts, out: &mut Vec<u8>) -> (State, Step) {
        match self {
            Held::Response(state, payload) => state.on_response(payload.expose(), accounts, out),
            Held::Change(change, body) => change.on_request(body.expose(), accounts, out),
            Held::Users(state) => state.on_looked_up(accounts, out),
        }
    }

    pub(super) fn answer_seq(&self) -> u8 {
        match self {
            Held::Response(state, _) => state.seq.wrapping_add(1),
            Held::Change(change, _) => change.seq,
            Held::Users(state) => state.login.seq,
        }
    }
}

/// What a change of user begins with.
#[derive(Debug)]
pub(super) struct HeldChange {
    pub(super) capabilities: Capabilities,
    pub(super) nonce: Nonce,
    /// The number of its answer.
    pub(super) seq: u8,
    /// Whether the accounts of the new name were looked up.
    pub(super) is_current: bool,
}

impl HeldChange {
    /// `body` is what follows the code of the command.
    pub(super) fn on_request(
        self,
        body: &[u8],
        accounts: &dyn Accounts,
        out: &mut Vec<u8>,
    ) -> (State, Step) {
        let Self { capabilities, nonce, seq, is_current } = self;
        let request = match body.len() <= HANDSHAKE_PAYLOAD_MAX {
            true => ChangeUser::parse(body, capabilities).ok(),
            false => None,
        };
        let Some(request) = request else {
            return (State::Finished, Refusal::BadHandshake.refuse(out, seq));
        };
        if accounts.awaits_host_name() {
            let held = Held::Change(self, Secret::new(body.to_vec()));
            return (State::Host(AwaitHost { held }), Step::NameHost);
        }
        if let Some(name) = outdated(is_current, request.user, accounts) {
            let held = Self { is_current: true, ..self };
            let held = Held::Change(held, Secret::new(body.to_vec()));
            return (State::User(AwaitUser { held }), Step::LookUpUser(name));
        }
        Login::from_change_user(&request, capabilities, nonce, seq, accounts).begin_again(
            request.plugin,
            request.auth,
            accounts,
            out,
        )
    }
}

pub(super) fn await_verification(
    mut login: Box<Login>,
    password: Option<Vec<u8>>,
    accounts: &dyn Accounts,
    out: &mut Vec<u8>,
) -> (State, Step) {
    login.find_again(accounts);
    let Some(password) = password.map(Secret::new) else {
        return login.deny(accounts, out);
    };
    if let Some(credential) = login.check_quickly(password.expose()) {
        return login.let_in(credential, None, None, accounts, out);
    }
    if let Some(step) = login.servers_question(&password) {
        let hash = Secret::default();
        let state = AwaitVerification { login, password, hash, older: None };
        return (State::Verification(state), step);
    }
    let mut hashes = login.stored_hashes().cloned();
    let (hash, older) = (hashes.next(), hashes.next());
    drop(hashes);
    let Some(hash) = hash else {
        let shown = Shown::Password { clear: password, against: Secret::default() };
        return login.turn_down(shown, accounts, out);
    };
    let step = Step::VerifyHash { clear: password.clone(), hash: hash.clone() };
    (State::Verification(AwaitVerification { login, password, hash, older }), step)
}
