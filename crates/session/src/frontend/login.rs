//! One attempt to log in: which plug-in decides, and whether the client's answer is right.

mod check;

use std::sync::Arc;

use trunkline_protocol::{
    Capabilities,
    auth::{Plugin, caching_sha2, clear, ed25519, parsec},
    codec::frame::put_payload,
    packet::{
        auth_switch::{AuthSwitchRequest, put_more_data},
        change_user::ChangeUser,
        handshake_response::HandshakeResponse,
    },
};
use trunkline_topology::{Attempt, LoginWait, Password, Secret, User};

use super::{
    Accounts, Attribute, AwaitSha2Answer, AwaitSwitchResponse, ClientIdentity, Nonce, Refusal,
    State, Step,
    identity::{ProvenHash, keep_attributes},
    state::{AwaitUsers, await_verification},
};
use crate::credential::Credential;

/// What is known of the client while it logs in.
#[derive(Debug)]
pub(super) struct Login {
    name: String,
    /// Of an unknown or inactive user, who goes through the same exchange, the one that stands
    /// in, if there is any.
    user: Option<Arc<User>>,
    /// Whether it is the user that the client names.
    is_known: bool,
    /// Whether a switch request has been sent: clients take one.
    has_switched: bool,
    /// Whether the client was told what its key is derived with.
    has_salt: bool,
    /// Whether the users were looked up for this client.
    has_looked_up: bool,
    schema: Option<Vec<u8>>,
    capabilities: Capabilities,
    zstd_level: u8,
    collation: u16,
    attributes: Vec<Attribute>,
    nonce: Nonce,
    /// Whether the client's last answer was that of a password.
    has_password: bool,
    /// Number of the next packet, whoever sends it.
    pub(super) seq: u8,
}

/// What a client has shown that was not right.
#[derive(Debug)]
pub(super) enum Shown {
    /// An answer by a plug-in.
    Answer(Plugin, Secret<Vec<u8>>),
    /// The password itself, which is none of this hash's.
    Password { clear: Secret<Vec<u8>>, against: Secret<Vec<u8>> },
}

/// What an answer proves.
enum Verdict {
    /// The password; this is what the proxy has learned of it.
    Right(Credential),
    /// Nothing yet: the password itself has to be sent.
    Undecided,
    /// Nothing yet: this password has to be checked against a slow hash.
    Slow(Vec<u8>),
    /// Another password, or none.
    Wrong,
}

impl Login {
    pub(super) fn from_response(
        response: &HandshakeResponse<'_>,
        offered: Capabilities,
        nonce: Nonce,
        seq: u8,
        accounts: &dyn Accounts,
    ) -> Box<Self> {
        let first = ChangeUser {
            user: response.user,
            auth: response.auth,
            schema: response.schema,
            collation: Some(u16::from(response.charset)),
            plugin: response.plugin,
            attributes: response.attributes,
        };
        let capabilities = response.capabilities & offered;
        let mut login = Self::from_change_user(&first, capabilities, nonce, seq, accounts);
        login.zstd_level = response.zstd_level.unwrap_or_default();
        login
    }

    pub(super) fn from_change_user(
        request: &ChangeUser<'_>,
        capabilities: Capabilities,
        nonce: Nonce,
        seq: u8,
        accounts: &dyn Accounts,
    ) -> Box<Self> {
        let (name, user, is_known) = look_up(request.user, accounts);
        Box::new(Self {
            name,
            user,
            is_known,
            has_switched: false,
            has_salt: false,
            has_looked_up: false,
            schema: request.schema.map(<[u8]>::to_vec),
            capabilities,
            zstd_level: 0,
            collation: request.collation.unwrap_or_default(),
            attributes: keep_attributes(request.attributes),
            nonce,
            has_password: !caching_sha2::is_empty_answer(request.auth),
            seq,
        })
    }

    /// Decides on the answer in a handshake response, or asks for one with another plug-in.
    pub(super) fn begin(
        self: Box<Self>,
        named: Option<&[u8]>,
        answer: &[u8],
        default_plugin: Plugin,
        accounts: &dyn Accounts,
        out: &mut Vec<u8>,
    ) -> (State, Step) {
        let named = self.named_plugin(named);
        if self.is_own_process(accounts) {
            return self.admit(named, answer, accounts, out);
        }
        if let Some(wait) = accounts.wait(&self.name, Attempt::Begins) {
            return self.put_off(wait, accounts, out);
        }
        let plugin = self.required_plugin(named, default_plugin, accounts);
        if named != Some(plugin) || needs_question(plugin) {
            return self.switch(plugin, out);
        }
        // A client that lacks the greeting's plug-in (MySQL 9 has no native one) names its own,
        // sends nothing for an answer and waits for a switch request.
        let is_placeholder = plugin != default_plugin && answer.is_empty();
        self.decide_first(plugin, answer, is_placeholder, accounts, out)
    }

    /// Decides on the answer in a `COM_CHANGE_USER`; a wrong one gets a second chance.
    pub(super) fn begin_again(
        self: Box<Self>,
        named: Option<&[u8]>,
        answer: &[u8],
        accounts: &dyn Accounts,
        out: &mut Vec<u8>,
    ) -> (State, Step) {
        let named = self.named_plugin(named);
        if self.is_own_process(accounts) {
            return self.admit(named, answer, accounts, out);
        }
        if let Some(wait) = accounts.wait(&self.name, Attempt::Begins) {
            return self.put_off(wait, accounts, out);
        }
        let plugin = self.required_plugin(named, Plugin::Native, accounts);
        if named != Some(plugin) || needs_question(plugin) {
            return self.switch(plugin, out);
        }
        self.decide_first(plugin, answer, true, accounts, out)
    }

    fn is_own_process(&self, accounts: &dyn Accounts) -> bool {
        self.is_known && self.user.as_ref().is_some_and(|user| accounts.is_own_process(user))
    }

    /// Lets a client in whatever it has answered.
    fn admit(
        mut self,
        named: Option<Plugin>,
        answer: &[u8],
        accounts: &dyn Accounts,
        out: &mut Vec<u8>,
    ) -> (State, Step) {
        // This plug-in awaits a word of its own where it has answered with a password.
        if named == Some(Plugin::CachingSha2) && !caching_sha2::is_empty_answer(answer) {
            self.seq = put_more_data(out, self.seq, &[caching_sha2::FAST_OK]);
        }
        self.accept(Credential::default(), None, None, accounts, out)
    }

    /// Decides on a first answer; a wrong one that `may_repeat` is asked for once more, of clients
    /// that can be asked.
    fn decide_first(
        self: Box<Self>,
        plugin: Plugin,
        answer: &[u8],
        may_repeat: bool,
        accounts: &dyn Accounts,
        out: &mut Vec<u8>,
    ) -> (State, Step) {
        let can_switch = self.capabilities.contains(Capabilities::PLUGIN_AUTH);
        if plugin == Plugin::Sha256 && !caching_sha2::is_empty_answer(answer) {
            return self.decide_sha256(answer, accounts, out);
        }
        match self.check(plugin, answer, accounts) {
            Verdict::Wrong if may_repeat && can_switch => self.switch(plugin, out),
            verdict @ (Verdict::Wrong
            | Verdict::Right(_)
            | Verdict::Undecided
            | Verdict::Slow(_)) => self.conclude(plugin, answer, verdict, accounts, out),
        }
    }

    /// Decides on an answer to a switch request for `plugin`.
    pub(super) fn decide(
        mut self: Box<Self>,
        plugin: Plugin,
        answer: &[u8],
        accounts: &dyn Accounts,
        out: &mut Vec<u8>,
    ) -> (State, Step) {
        self.find_again(accounts);
        if plugin == Plugin::Parsec && answer.is_empty() && !self.has_salt {
            return self.send_salt(accounts, out);
        }
        self.has_password = !caching_sha2::is_empty_answer(answer);
        if plugin == Plugin::Sha256 && self.has_password {
            return self.decide_sha256(answer, accounts, out);
        }
        if plugin == Plugin::Dialog {
            let password = clear::read(answer).map(<[u8]>::to_vec);
            return await_verification(self, password, accounts, out);
        }
        let verdict = self.check(plugin, answer, accounts);
        self.conclude(plugin, answer, verdict, accounts, out)
    }

    /// `sha256_password`: the password itself through TLS, else encrypted, with a key that is asked
    /// for or known.
    fn decide_sha256(
        self: Box<Self>,
        answer: &[u8],
        accounts: &dyn Accounts,
        out: &mut Vec<u8>,
    ) -> (State, Step) {
        if accounts.is_encrypted() {
            let password = clear::read(answer).map(<[u8]>::to_vec);
            return await_verification(self, password, accounts, out);
        }
        let awaited = AwaitSha2Answer::new(self);
        match answer {
            [caching_sha2::REQUEST_KEY_SHA256] => awaited.send_key(accounts, out),
            ciphertext => awaited.decrypt(ciphertext, accounts, out),
        }
    }

    /// `parsec`: tells the client what its key is derived with.
    fn send_salt(mut self: Box<Self>, accounts: &dyn Accounts, out: &mut Vec<u8>) -> (State, Step) {
        let stored = match self.user.as_ref().map(|user| &user.password) {
            Some(Password::ParsecKey(stored)) => parsec::Stored::parse(stored.expose()),
            _ => None,
        };
        let Some(stored) = stored else {
            return self.deny(accounts, out);
        };
        let derivation = match self.is_known {
            true => stored.derivation,
            // Salts are never the same, and one that is there twice would tell unknown users.
            false => stored.derivation.of_nobody(self.name.as_bytes()),
        };
        self.seq = put_payload(out, self.seq, &derivation.encode());
        self.has_salt = true;
        let state = AwaitSwitchResponse { login: self, plugin: Plugin::Parsec };
        (State::SwitchResponse(state), Step::Continue)
    }

    /// Refuses a client, unless the users may be others by now: then that is found out first.
    pub(super) fn turn_down(
        mut self: Box<Self>,
        shown: Shown,
        accounts: &dyn Accounts,
        out: &mut Vec<u8>,
    ) -> (State, Step) {
        if self.has_looked_up || !accounts.can_look_up() {
            return self.deny(accounts, out);
        }
        self.has_looked_up = true;
        (State::Users(AwaitUsers { login: self, shown }), Step::LookUp)
    }

    /// Takes the user as it is now: it may have changed, or gone, since the client's last packet.
    pub(super) fn find_again(&mut self, accounts: &dyn Accounts) {
        (self.user, self.is_known) = find(&self.name, accounts);
    }

    /// Decides anew on what a client has shown, by the users as they are now.
    pub(super) fn look_again(
        mut self: Box<Self>,
        shown: Shown,
        accounts: &dyn Accounts,
        out: &mut Vec<u8>,
    ) -> (State, Step) {
        self.find_again(accounts);
        let (plugin, answer) = match shown {
            Shown::Answer(plugin, answer) => (plugin, answer),
            Shown::Password { clear, against } => {
                let is_asked = against.expose().is_empty();
                let is_new = match self.user.as_ref().map(|user| &user.password) {
                    Some(Password::Servers) => !is_asked,
                    _ => !self.stored_hashes().any(|hash| *hash == against),
                };
                let clear = is_new.then(|| clear.expose().clone());
                return await_verification(self, clear, accounts, out);
            }
        };
        let wanted = self.required_plugin(Some(plugin), plugin, accounts);
        if wanted == plugin {
            let verdict = self.check(plugin, answer.expose(), accounts);
            return self.conclude(plugin, answer.expose(), verdict, accounts, out);
        }
        match self.has_switched {
            true => self.deny(accounts, out),
            false => self.switch(wanted, out),
        }
    }

    /// The plug-in that made the client's first answer; before plug-ins had names it was native.
    fn named_plugin(&self, named: Option<&[u8]>) -> Option<Plugin> {
        match self.capabilities.contains(Capabilities::PLUGIN_AUTH) {
            true => named.and_then(Plugin::from_name),
            false => Some(Plugin::Native),
        }
    }

    /// The plug-in that can verify the user's password. Unknown users are treated like those
    /// whose password is known.
    fn required_plugin(
        &self,
        named: Option<Plugin>,
        default_plugin: Plugin,
        accounts: &dyn Accounts,
    ) -> Plugin {
        // The password itself can be checked against anything, and is never asked for.
        if named == Some(Plugin::Clear) && accounts.is_secure() {
            return Plugin::Clear;
        }
        match self.user.as_ref().map(|user| &user.password) {
            Some(Password::NativeHash(_)) => Plugin::Native,
            Some(Password::Sha2Hash(_)) => Plugin::CachingSha2,
            Some(Password::Sha256Hash(_)) => Plugin::Sha256,
            Some(Password::Ed25519Key(_)) => Plugin::Ed25519,
            Some(Password::ParsecKey(_)) => Plugin::Parsec,
            Some(Password::Servers) => match named {
                Some(Plugin::Sha256) => Plugin::Sha256,
                Some(Plugin::Dialog) if accounts.is_secure() => Plugin::Dialog,
                // All clients have it, and it gives the password itself, encrypted.
                _ => Plugin::CachingSha2,
            },
            Some(Password::Clear(_) | Password::Nobodys) | None => match named {
                Some(
                    plugin @ (Plugin::Native
                    | Plugin::CachingSha2
                    | Plugin::Sha256
                    | Plugin::Ed25519),
                ) => plugin,
                // A key of one's own would have to be derived, which takes its time.
                Some(Plugin::Clear | Plugin::Parsec | Plugin::Dialog) | None => default_plugin,
            },
        }
    }

    fn switch(mut self: Box<Self>, plugin: Plugin, out: &mut Vec<u8>) -> (State, Step) {
        if !self.capabilities.contains(Capabilities::PLUGIN_AUTH) {
            let step = Refusal::OutdatedAuthentication.refuse(out, self.seq);
            return (State::Finished, step);
        }
        self.has_switched = true;
        let data = match plugin {
            Plugin::Ed25519 => ed25519::nonce(&self.nonce).to_vec(),
            Plugin::Parsec => parsec::nonce(&self.nonce).to_vec(),
            Plugin::Native | Plugin::CachingSha2 | Plugin::Sha256 | Plugin::Clear => {
                self.nonce.to_vec()
            }
            Plugin::Dialog => PASSWORD_QUESTION.to_vec(),
        };
        let request = AuthSwitchRequest { plugin: plugin.name().as_bytes(), data: &data };
        self.seq = request.put(out, self.seq);
        (State::SwitchResponse(AwaitSwitchResponse { login: self, plugin }), Step::Continue)
    }

    fn conclude(
        mut self: Box<Self>,
        plugin: Plugin,
        answer: &[u8],
        verdict: Verdict,
        accounts: &dyn Accounts,
        out: &mut Vec<u8>,
    ) -> (State, Step) {
        match verdict {
            Verdict::Right(credential) => {
                // Before anything tells that it is right.
                if let Some(wait) = accounts.wait(&self.name, Attempt::Right) {
                    return self.put_off(wait, accounts, out);
                }
                // Servers skip the fast path's own packet for an empty password.
                if plugin == Plugin::CachingSha2 && !credential.is_empty_password() {
                    self.seq = put_more_data(out, self.seq, &[caching_sha2::FAST_OK]);
                }
                let native_stage2 = self.native_stage2(plugin, &credential);
                self.accept(credential, None, native_stage2, accounts, out)
            }
            Verdict::Undecided => {
                self.seq = put_more_data(out, self.seq, &[caching_sha2::FULL_AUTH]);
                (State::Sha2Answer(AwaitSha2Answer::new(self)), Step::Continue)
            }
            Verdict::Slow(password) => await_verification(self, Some(password), accounts, out),
            Verdict::Wrong => {
                let shown = Shown::Answer(plugin, Secret::new(answer.to_vec()));
                self.turn_down(shown, accounts, out)
            }
        }
    }

    /// Accepts a client whose password was right, unless it has to wait.
    pub(super) fn let_in(
        self,
        credential: Credential,
        proven_sha2: Option<ProvenHash>,
        native_stage2: Option<[u8; 20]>,
        accounts: &dyn Accounts,
        out: &mut Vec<u8>,
    ) -> (State, Step) {
        match accounts.wait(&self.name, Attempt::Right).filter(|_| self.is_known) {
            Some(wait) => self.put_off(wait, accounts, out),
            None => self.accept(credential, proven_sha2, native_stage2, accounts, out),
        }
    }

    fn accept(
        self,
        credential: Credential,
        proven_sha2: Option<ProvenHash>,
        native_stage2: Option<[u8; 20]>,
        accounts: &dyn Accounts,
        out: &mut Vec<u8>,
    ) -> (State, Step) {
        let Some(user) = self.user.clone().filter(|_| self.is_known) else {
            return self.deny(accounts, out);
        };
        let default_schema = user.default_schema.as_deref().filter(|schema| !schema.is_empty());
        let schema = self.schema.or_else(|| default_schema.map(|name| name.as_bytes().to_vec()));
        let identity = ClientIdentity {
            schema,
            user,
            capabilities: self.capabilities,
            zstd_level: self.zstd_level,
            collation: self.collation,
            attributes: self.attributes,
            credential,
            proven_sha2,
            native_stage2,
            nonce: self.nonce,
            next_seq: self.seq,
        };
        (State::Finished, Step::Accepted(Box::new(identity)))
    }

    /// Refuses a client that has not proven its password.
    pub(super) fn deny(self, accounts: &dyn Accounts, out: &mut Vec<u8>) -> (State, Step) {
        if let Some(wait) = accounts.wait(&self.name, Attempt::Wrong) {
            return self.put_off(wait, accounts, out);
        }
        let host = accounts.client_host();
        let step = Refusal::deny(out, self.seq, &self.name, host, self.has_password);
        (State::Denied(self.name), step)
    }

    /// Refuses a client until others have been quiet for long enough.
    fn put_off(self, wait: LoginWait, accounts: &dyn Accounts, out: &mut Vec<u8>) -> (State, Step) {
        let step = Refusal::put_off(out, self.seq, &self.name, accounts.client_host(), wait);
        (State::Denied(self.name), step)
    }

    /// What servers are asked, where they check the password.
    pub(super) fn servers_question(&self, clear: &Secret<Vec<u8>>) -> Option<Step> {
        let user = self.user.as_ref().filter(|user| user.password == Password::Servers)?;
        let (name, user, clear) = (self.name.clone(), Arc::clone(user), clear.clone());
        Some(Step::AskServer { name, user, clear })
    }

    pub(super) fn nonce(&self) -> &Nonce {
        &self.nonce
    }
}

/// What `dialog` asks: a question whose answer is not shown.
const PASSWORD_QUESTION: &[u8] = b"\x04Password: ";

/// Whether an answer by this plug-in needs more than the greeting says.
fn needs_question(plugin: Plugin) -> bool {
    matches!(plugin, Plugin::Ed25519 | Plugin::Parsec | Plugin::Dialog)
}

/// The name as text, the user that the client is checked as, and whether it is the named one.
fn look_up(name: &[u8], accounts: &dyn Accounts) -> (String, Option<Arc<User>>, bool) {
    // No user has a name that is no text, or one with the character that stands for what is none.
    let name = String::from_utf8_lossy(name).into_owned();
    let (user, is_known) = find(&name, accounts);
    (name, user, is_known)
}

fn find(name: &str, accounts: &dyn Accounts) -> (Option<Arc<User>>, bool) {
    let is_text = !name.contains(char::REPLACEMENT_CHARACTER);
    let user = accounts.user(name).filter(|user| user.active && is_text);
    match user {
        Some(user) => (Some(user), true),
        None => (accounts.stand_in(name), false),
    }
}
