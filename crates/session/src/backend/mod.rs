//! The handshake with a server, in the client's role. States are drawn in `LIFECYCLE.md`.

mod failure;
mod login;
mod state;

use std::sync::Arc;

use trunkline_protocol::{
    Capabilities, auth::parsec::Derivation, codec::frame::Header, packet::greeting::Greeting,
};
use trunkline_topology::{PinnedKeys, Secret};

pub use failure::{FailureKind, ServerFailure};
pub use login::{ATTRIBUTES_LEN_MAX, ServerLogin, TlsWish};

use state::{
    AwaitAuthReply, AwaitEncryption, AwaitGreeting, AwaitPublicKey, AwaitSeed, AwaitTls, Exchange,
};

/// What the caller does after feeding the machine.
#[derive(Debug)]
pub enum ServerStep {
    /// Flush what was written and feed the next packet.
    Continue,
    /// Encrypt the text with the server's key (RSA-OAEP, SHA-1), then call
    /// [`ServerHandshake::on_encrypted`].
    Encrypt {
        /// The key: one of [`ServerLogin::keys`], or over a secure transport as the server sent it.
        public_key_pem: Vec<u8>,
        /// The password, combined with the nonce.
        plaintext: Secret<Vec<u8>>,
    },
    /// Derive the seed of the password's key ([`Derivation::seed`]), away from threads that serve
    /// others, then call [`ServerHandshake::on_derived`].
    Derive {
        /// The password.
        password: Secret<Vec<u8>>,
        /// What the server derives it with.
        derivation: Derivation,
    },
    /// Flush what was written, begin TLS in the client's role, then call
    /// [`ServerHandshake::on_tls`]. All bytes that follow belong to TLS.
    StartTls,
    /// Logged in: the connection awaits a command.
    Ready(Box<ServerIdentity>),
    /// Close the connection.
    Failed(ServerFailure),
}

/// A server connection that is logged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerIdentity {
    /// The server's greeting; its nonce is the last one that a switch request gave.
    pub greeting: Greeting,
    /// What both ends can do.
    pub capabilities: Capabilities,
    /// Collation id that the server was told. The handshake has one byte for it: for ids above
    /// 255 it says `utf8mb4_general_ci`, and the session's own is still to be set.
    pub collation: u16,
    /// Status flags after the login.
    pub status: u16,
}

/// One handshake with a server, from the greeting or a `COM_CHANGE_USER` to its end.
#[derive(Debug)]
pub struct ServerHandshake {
    state: State,
}

/// Named for what each awaits.
#[derive(Debug)]
enum State {
    Greeting(AwaitGreeting),
    Tls(AwaitTls),
    AuthReply(AwaitAuthReply),
    PublicKey(AwaitPublicKey),
    Encryption(AwaitEncryption),
    Seed(AwaitSeed),
    Finished,
}

impl ServerHandshake {
    /// Awaits the greeting of a new connection; nothing is written before it.
    pub fn new(login: ServerLogin) -> Self {
        Self { state: State::Greeting(AwaitGreeting { login: Box::new(login) }) }
    }

    /// Becomes another user on a live connection: writes `COM_CHANGE_USER` as packet 0.
    ///
    /// `identity` is the connection's; its capabilities stay, whatever `login` wants.
    pub fn change_user(login: ServerLogin, identity: ServerIdentity, out: &mut Vec<u8>) -> Self {
        let exchange = Exchange::change_user(login, identity, out);
        Self { state: State::AuthReply(AwaitAuthReply { exchange }) }
    }

    /// Feeds one whole packet from the server.
    pub fn on_packet(&mut self, header: Header, payload: &[u8], out: &mut Vec<u8>) -> ServerStep {
        let state = std::mem::replace(&mut self.state, State::Finished);
        if state.expected_seq().is_some_and(|expected| expected != header.seq) {
            return ServerStep::Failed(ServerFailure::protocol("packet number out of order"));
        }
        let (next, step) = match state {
            State::Greeting(state) => state.on_opening(payload, out),
            State::AuthReply(state) => state.on_reply(payload, out),
            State::PublicKey(state) => state.on_key(payload),
            State::Tls(_) | State::Encryption(_) | State::Seed(_) | State::Finished => {
                let failure = ServerFailure::protocol("packet while none was due");
                (State::Finished, ServerStep::Failed(failure))
            }
        };
        self.state = next;
        step
    }

    /// Whether TLS is being begun: what comes is not a packet.
    pub fn awaits_tls(&self) -> bool {
        matches!(self.state, State::Tls(_))
    }

    /// TLS, asked for by [`ServerStep::StartTls`], is up: the login goes on through it.
    pub fn on_tls(&mut self, out: &mut Vec<u8>) {
        self.state = match std::mem::replace(&mut self.state, State::Finished) {
            State::Tls(state) => state.resume(out),
            state => state,
        };
    }

    /// Pins other keys while the login goes on: a client that is told the key on another way, or
    /// takes the first one that it sees.
    pub fn trust(&mut self, keys: Arc<PinnedKeys>) {
        match &mut self.state {
            State::Greeting(AwaitGreeting { login }) => login.keys = keys,
            State::AuthReply(AwaitAuthReply { exchange })
            | State::PublicKey(AwaitPublicKey { exchange }) => exchange.trust(keys),
            State::Tls(_) | State::Encryption(_) | State::Seed(_) | State::Finished => {}
        }
    }

    /// Hands back what [`ServerStep::Derive`] asked for; `None` when it could not be done.
    pub fn on_derived(&mut self, seed: Option<Secret<[u8; 32]>>, out: &mut Vec<u8>) -> ServerStep {
        let state = std::mem::replace(&mut self.state, State::Finished);
        let (State::Seed(state), Some(seed)) = (state, seed) else {
            return ServerStep::Failed(ServerFailure::protocol("no key was derived"));
        };
        let (next, step) = state.on_derived(&seed, out);
        self.state = next;
        step
    }

    /// Hands back what [`ServerStep::Encrypt`] asked for; `None` when the key was no good.
    pub fn on_encrypted(&mut self, ciphertext: Option<Vec<u8>>, out: &mut Vec<u8>) -> ServerStep {
        let state = std::mem::replace(&mut self.state, State::Finished);
        let (State::Encryption(state), Some(ciphertext)) = (state, ciphertext) else {
            return ServerStep::Failed(ServerFailure::protocol("unusable public key"));
        };
        let (next, step) = state.on_encrypted(&ciphertext, out);
        self.state = next;
        step
    }
}

impl State {
    /// The number that the server's next packet must have, where one is awaited.
    fn expected_seq(&self) -> Option<u8> {
        match self {
            Self::Greeting(_) => Some(0),
            Self::AuthReply(state) => Some(state.exchange.seq),
            Self::PublicKey(state) => Some(state.exchange.seq),
            Self::Tls(_) | Self::Encryption(_) | Self::Seed(_) | Self::Finished => None,
        }
    }
}
