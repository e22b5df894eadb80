//! The handshake with a client: step 2 of a statement's way. States are drawn in `LIFECYCLE.md`.
//!
//! The machine reads and writes bytes only; the two things it cannot do itself, RSA and the slow
//! hash of a stored password, it asks of its caller as a [`Step`].

mod identity;
mod login;
mod refusal;
mod state;

use trunkline_protocol::{
    Capabilities, auth::Plugin, codec::frame::Header, packet::greeting::Greeting,
};
use trunkline_topology::{Attempt, LoginWait, Secret, User};

use std::sync::Arc;

pub use identity::{ATTRIBUTES_LEN_MAX, Attribute, ClientIdentity, ProvenHash};
pub use refusal::Refusal;

use crate::credential::Nonce;
use login::Login;
use state::{
    AwaitDecryption, AwaitHost, AwaitResponse, AwaitSha2Answer, AwaitSwitchResponse, AwaitTls,
    AwaitUser, AwaitUsers, AwaitVerification, HeldChange,
};

/// The longest payload, in bytes, that a client may send before it is authenticated: attributes
/// of 64 KiB and room for the rest. Callers need not buffer more than this for a handshake.
pub const HANDSHAKE_PAYLOAD_MAX: usize = 128 * 1024;

/// What a handshake may ask about the users and the connection.
pub trait Accounts {
    /// The user of that name, whether active or not.
    fn user(&self, name: &str) -> Option<Arc<User>>;
    /// A user whose way a client goes whose name is unknown, so that the packets and the time are
    /// those of a wrong password. Always the same one for a name.
    fn stand_in(&self, name: &str) -> Option<Arc<User>>;
    /// `SHA256(SHA256(password))` of a user whose password a full authentication has proven
    /// against the hash that is configured now; see [`ClientIdentity::proven_sha2`].
    fn verified_sha2(&self, user: &User) -> Option<[u8; 32]>;
    /// Whether who is not known, or not by this password, may have become so: the caller can ask
    /// for [`Step::LookUp`].
    fn can_look_up(&self) -> bool;
    /// Whether what is known of this name may be out of date: the caller is asked for it with
    /// [`Step::LookUpUser`] before anything is judged.
    fn may_be_outdated(&self, name: &str) -> bool {
        let _ = name;
        false
    }
    /// Whether the name of the client's host has to be known before its user is looked for: the
    /// caller is asked for it with [`Step::NameHost`].
    fn awaits_host_name(&self) -> bool {
        false
    }
    /// The key that clients encrypt passwords with; `None` refuses those that ask for it.
    fn public_key_pem(&self) -> Option<&[u8]>;
    /// The client's address, for the text of errors.
    fn client_host(&self) -> &str;
    /// Whether nobody can listen on the transport (a Unix socket, the loopback network): some
    /// clients then send passwords in clear where they would encrypt them otherwise.
    fn is_secure(&self) -> bool;
    /// Whether the client's process is one of the user's own on this machine, so that it need not
    /// prove anything else.
    fn is_own_process(&self, user: &User) -> bool;
    /// Whether the connection goes through TLS.
    fn is_encrypted(&self) -> bool;
    /// How long clients that call themselves so have to wait, where logins have failed. Asked for
    /// before the first answer is judged, and again before the client is told what came of it.
    fn wait(&self, name: &str, attempt: Attempt) -> Option<LoginWait> {
        let _ = (name, attempt);
        None
    }
}

/// What the caller does after feeding the machine.
#[derive(Debug)]
pub enum Step {
    /// Flush what was written and feed the next packet.
    Continue,
    /// Decrypt these bytes with the private key (RSA-OAEP, SHA-1), then call
    /// [`ClientHandshake::on_decrypted`].
    Decrypt(Vec<u8>),
    /// Begin TLS in the server's role, then call [`ClientHandshake::on_tls`]. All bytes that came
    /// behind this packet belong to TLS, and no packet may be fed meanwhile.
    StartTls,
    /// Check the password against the hash with
    /// [`is_stored`](trunkline_protocol::auth::is_stored), away from threads
    /// that serve others, then call [`ClientHandshake::on_verified`].
    VerifyHash {
        /// The password that the client sent.
        clear: Secret<Vec<u8>>,
        /// The user's stored hash.
        hash: Secret<Vec<u8>>,
    },
    /// Try the password on a server, then call [`ClientHandshake::on_verified`].
    AskServer {
        /// Whose password, as the client says.
        name: String,
        /// The user that it is, or would be.
        user: Arc<User>,
        /// The password that the client sent.
        clear: Secret<Vec<u8>>,
    },
    /// Find out what users there are now, then call [`ClientHandshake::on_looked_up`]; asked for
    /// once in a handshake, before a client is refused.
    LookUp,
    /// Find out what accounts of this name there are now, then call
    /// [`ClientHandshake::on_user_looked_up`]; asked for once in a handshake.
    LookUpUser(String),
    /// Find out what the client's host is called, then call
    /// [`ClientHandshake::on_host_named`]; from then on [`Accounts::awaits_host_name`] says no.
    NameHost,
    /// The client is who it says. OK is *not* written: the caller checks limits and schema
    /// first, then writes OK or ERR numbered [`ClientIdentity::next_seq`].
    Accepted(Box<ClientIdentity>),
    /// An error packet is written; flush it and close.
    Refused(Refusal),
}

/// One client's handshake, from the greeting or a `COM_CHANGE_USER` to its end.
#[derive(Debug)]
pub struct ClientHandshake {
    state: State,
}

/// Named for what each awaits.
#[derive(Debug)]
enum State {
    Response(AwaitResponse),
    Tls(AwaitTls),
    SwitchResponse(AwaitSwitchResponse),
    Sha2Answer(AwaitSha2Answer),
    Decryption(AwaitDecryption),
    Verification(AwaitVerification),
    Users(AwaitUsers),
    User(AwaitUser),
    Host(AwaitHost),
    /// Over: the client did not prove to be this one, or has to wait.
    Denied(String),
    /// Over.
    Finished,
}

impl ClientHandshake {
    /// Writes the greeting as packet 0. What it offers is what the client gets: its capabilities,
    /// its nonce, and its plug-in as the default. A client that `must_encrypt` is refused when it
    /// does not begin TLS.
    pub fn start(greeting: &Greeting, must_encrypt: bool, out: &mut Vec<u8>) -> Self {
        greeting.put(out, 0);
        let default_plugin = match Plugin::from_name(greeting.auth_plugin.as_bytes()) {
            Some(Plugin::CachingSha2) => Plugin::CachingSha2,
            Some(
                Plugin::Native
                | Plugin::Sha256
                | Plugin::Clear
                | Plugin::Ed25519
                | Plugin::Parsec
                | Plugin::Dialog,
            )
            | None => Plugin::Native,
        };
        Self {
            state: State::Response(AwaitResponse {
                offered: greeting.capabilities,
                nonce: greeting.nonce,
                default_plugin,
                must_encrypt,
                seq: 1,
                is_current: false,
            }),
        }
    }

    /// Whether TLS is being begun: what comes is not a packet.
    pub fn awaits_tls(&self) -> bool {
        matches!(self.state, State::Tls(_))
    }

    /// TLS, asked for by [`Step::StartTls`], is up: what comes from now on came through it.
    pub fn on_tls(&mut self) {
        self.state = match std::mem::replace(&mut self.state, State::Finished) {
            State::Tls(state) => State::Response(state.resume()),
            state => state,
        };
    }

    /// Begins again on a live connection: `body` is what follows the code of a
    /// `COM_CHANGE_USER` that came in the packet numbered `seq`, `capabilities` and `nonce` are
    /// those of the connection (the nonce stays the greeting's for as long as it lives).
    ///
    /// A client whose first answer cannot be verified is asked once more with a switch request,
    /// since many send none and wait for it.
    pub fn change_user(
        capabilities: Capabilities,
        nonce: [u8; 20],
        body: &[u8],
        seq: u8,
        accounts: &dyn Accounts,
        out: &mut Vec<u8>,
    ) -> (Self, Step) {
        let seq = seq.wrapping_add(1);
        let change = HeldChange { capabilities, nonce, seq, is_current: false };
        let (state, step) = change.on_request(body, accounts, out);
        (Self { state }, step)
    }

    /// Feeds one whole packet from the client.
    pub fn on_packet(
        &mut self,
        header: Header,
        payload: &[u8],
        accounts: &dyn Accounts,
        out: &mut Vec<u8>,
    ) -> Step {
        let state = std::mem::replace(&mut self.state, State::Finished);
        let answer_seq = header.seq.wrapping_add(1);
        if state.expected_seq().is_some_and(|expected| expected != header.seq) {
            return Refusal::OutOfOrder.refuse(out, answer_seq);
        }
        if payload.len() > HANDSHAKE_PAYLOAD_MAX {
            return Refusal::BadHandshake.refuse(out, answer_seq);
        }
        let (next, step) = match state {
            State::Response(state) => state.on_response(payload, accounts, out),
            State::SwitchResponse(state) => state.on_answer(payload, accounts, out),
            State::Sha2Answer(state) => state.on_answer(payload, accounts, out),
            // The client has to wait here: a packet now was sent without regard to the protocol.
            State::Tls(_)
            | State::Decryption(_)
            | State::Verification(_)
            | State::Users(_)
            | State::User(_)
            | State::Host(_)
            | State::Denied(_)
            | State::Finished => (State::Finished, Refusal::BadHandshake.refuse(out, answer_seq)),
        };
        self.state = next;
        step
    }

    /// Hands back what [`Step::Decrypt`] asked for; `None` when it could not be decrypted.
    pub fn on_decrypted(
        &mut self,
        plaintext: Option<Vec<u8>>,
        accounts: &dyn Accounts,
        out: &mut Vec<u8>,
    ) -> Step {
        let state = std::mem::replace(&mut self.state, State::Finished);
        let State::Decryption(state) = state else {
            return Refusal::BadHandshake.refuse(out, 0);
        };
        let (next, step) = state.on_decrypted(plaintext, accounts, out);
        self.state = next;
        step
    }

    /// The users are as they are now, as [`Step::LookUp`] asked for.
    pub fn on_looked_up(&mut self, accounts: &dyn Accounts, out: &mut Vec<u8>) -> Step {
        let state = std::mem::replace(&mut self.state, State::Finished);
        let State::Users(state) = state else {
            return Refusal::BadHandshake.refuse(out, 0);
        };
        let (next, step) = state.on_looked_up(accounts, out);
        self.state = next;
        step
    }

    /// The accounts of the client's name are as they are now, as far as servers have said, as
    /// [`Step::LookUpUser`] asked for.
    pub fn on_user_looked_up(&mut self, accounts: &dyn Accounts, out: &mut Vec<u8>) -> Step {
        let state = std::mem::replace(&mut self.state, State::Finished);
        let State::User(state) = state else {
            return Refusal::BadHandshake.refuse(out, 0);
        };
        let (next, step) = state.held.go_on(accounts, out);
        self.state = next;
        step
    }

    /// The name of the client's host is known as far as it can be, as [`Step::NameHost`] asked for.
    pub fn on_host_named(&mut self, accounts: &dyn Accounts, out: &mut Vec<u8>) -> Step {
        let state = std::mem::replace(&mut self.state, State::Finished);
        let State::Host(state) = state else {
            return Refusal::BadHandshake.refuse(out, 0);
        };
        let (next, step) = state.on_named(accounts, out);
        self.state = next;
        step
    }

    /// The number of an error packet for a client whose host's name was asked for, if it was: who
    /// has the name may refuse the client.
    pub fn host_answer_seq(&self) -> Option<u8> {
        let State::Host(state) = &self.state else { return None };
        Some(state.held.answer_seq())
    }

    /// Whom the client did not prove to be, where it was refused for that or has to wait.
    pub fn denied_name(&self) -> Option<&str> {
        let State::Denied(name) = &self.state else { return None };
        Some(name)
    }

    /// The number of an error packet for a client that is ended in the middle of its handshake:
    /// behind the packet that is due from it, or in place of the one that is due to it. `None`
    /// where an error cannot be told: TLS is being begun, or the handshake is over.
    pub fn error_seq(&self) -> Option<u8> {
        match &self.state {
            State::Response(state) => Some(state.seq.wrapping_add(1)),
            State::SwitchResponse(state) => Some(state.login.seq.wrapping_add(1)),
            State::Sha2Answer(state) => Some(state.login.seq.wrapping_add(1)),
            State::Decryption(state) => Some(state.login.seq),
            State::Verification(state) => Some(state.login.seq),
            State::Users(state) => Some(state.login.seq),
            State::User(state) => Some(state.held.answer_seq()),
            State::Host(state) => Some(state.held.answer_seq()),
            State::Tls(_) | State::Denied(_) | State::Finished => None,
        }
    }

    /// Hands back what [`Step::VerifyHash`] asked for.
    pub fn on_verified(
        &mut self,
        is_right: bool,
        accounts: &dyn Accounts,
        out: &mut Vec<u8>,
    ) -> Step {
        let state = std::mem::replace(&mut self.state, State::Finished);
        let State::Verification(state) = state else {
            return Refusal::BadHandshake.refuse(out, 0);
        };
        let (next, step) = state.on_verified(is_right, accounts, out);
        self.state = next;
        step
    }
}

impl State {
    /// The number that the client's next packet must have, where one is awaited.
    fn expected_seq(&self) -> Option<u8> {
        match self {
            Self::Response(state) => Some(state.seq),
            Self::SwitchResponse(state) => Some(state.login.seq),
            Self::Sha2Answer(state) => Some(state.login.seq),
            Self::Tls(_)
            | Self::Decryption(_)
            | Self::Verification(_)
            | Self::Users(_)
            | Self::User(_)
            | Self::Host(_)
            | Self::Denied(_)
            | Self::Finished => None,
        }
    }
}
