//! The client's side of a handshake, and of `COM_CHANGE_USER`.

use trunkline_protocol::{
    Capabilities, Malformed,
    auth::{Plugin, caching_sha2, native},
    codec::frame::{HEADER_LEN, Header, put_payload},
    packet::{
        auth_switch::{AuthSwitchRequest, MORE_DATA, SWITCH, parse_more_data},
        change_user::ChangeUser,
        err,
        greeting::{Greeting, NONCE_LEN},
        handshake_response::HandshakeResponse,
        ok::{self, ReplyFormat},
    },
};

use super::reply::{Done, Refused, read_error};

/// The collation of clients' handshakes: `utf8mb4_general_ci`.
pub const COLLATION: u8 = 45;

/// As much of a response asks for TLS when it comes alone.
const TLS_REQUEST_LEN: usize = 32;
/// How hard clients ask for zstd to work.
const ZSTD_LEVEL: u8 = 3;

/// Who logs in, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// User name.
    pub user: String,
    /// What the client takes for the password.
    pub password: String,
    /// The schema asked for.
    pub schema: Option<String>,
    /// What the proxy gives to clients that ask for none.
    pub default_schema: Option<String>,
}

impl Identity {
    /// The schema that the session begins in.
    pub fn first_schema(&self) -> Option<&str> {
        self.schema.as_deref().or(self.default_schema.as_deref())
    }
}

/// How one step of a login went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoginStep {
    /// Another packet follows.
    Continue,
    /// The connection is encrypted from here on; [`Login::response`] is what is said then.
    Encrypt,
    /// The session begins.
    Accepted(Done),
    /// The other end said no.
    Refused(Refused),
}

/// A login under way.
#[derive(Debug, Clone)]
pub struct Login {
    identity: Identity,
    wanted: Capabilities,
    encrypts: bool,
    /// What is said when the connection is encrypted.
    response: Vec<u8>,
    agreed: Capabilities,
    nonce: [u8; NONCE_LEN],
    greeted: bool,
    number: u32,
    seq: u8,
}

impl Login {
    /// Awaits a greeting; of what that offers, `wanted` is used.
    pub fn new(identity: Identity, wanted: Capabilities, encrypts: bool) -> Self {
        Self {
            identity,
            wanted,
            encrypts,
            response: Vec::new(),
            agreed: Capabilities::EMPTY,
            nonce: [0; NONCE_LEN],
            greeted: false,
            number: 0,
            seq: 0,
        }
    }

    /// Becomes somebody else on the connection that this login made; appends the command.
    pub fn change_user(&mut self, identity: Identity, out: &mut Vec<u8>) {
        self.identity = identity;
        let auth = self.answer(Plugin::Native);
        let command = ChangeUser {
            user: self.identity.user.as_bytes(),
            auth: &auth,
            schema: self.identity.schema.as_deref().map(str::as_bytes),
            collation: Some(u16::from(COLLATION)),
            plugin: Some(Plugin::Native.name().as_bytes()),
            attributes: Default::default(),
        };
        self.seq = command.put(out, 0, self.agreed);
    }

    /// What is said once the connection is encrypted.
    pub fn response(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.response)
    }

    /// The number that it was greeted with; 0 before.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Who logs in.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// What both ends understand.
    pub fn capabilities(&self) -> Capabilities {
        self.agreed
    }

    /// The framing that follows from it.
    pub fn format(&self) -> ReplyFormat {
        ReplyFormat::of(self.agreed)
    }

    /// Takes a packet, and appends the answer to it.
    ///
    /// # Errors
    /// [`Malformed`] for what no server may send here.
    pub fn on_packet(
        &mut self,
        header: Header,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<LoginStep, Malformed> {
        if header.seq != self.seq {
            return Err(Malformed("sequence number of a login"));
        }
        let first = *payload.first().ok_or(Malformed("empty packet"))?;
        if first == err::HEADER {
            return Ok(LoginStep::Refused(read_error(payload)?));
        }
        if !self.greeted {
            self.greeted = true;
            self.on_greeting(payload, out)?;
            if !self.agreed.contains(Capabilities::SSL) {
                return Ok(LoginStep::Continue);
            }
            let request = out.get(HEADER_LEN..HEADER_LEN + TLS_REQUEST_LEN);
            let request = request.unwrap_or_default().to_vec();
            let mut response = Vec::new();
            let payload = out.get(HEADER_LEN..).unwrap_or_default();
            self.seq = put_payload(&mut response, 2, payload);
            self.response = response;
            out.clear();
            put_payload(out, 1, &request);
            return Ok(LoginStep::Encrypt);
        }
        match first {
            ok::HEADER => {
                let ok = ok::parse(payload, self.format().session_track)?;
                Ok(LoginStep::Accepted(Done { status: ok.status, ..Done::default() }))
            }
            SWITCH => {
                let switch = AuthSwitchRequest::parse(payload)?;
                self.nonce = switch.nonce()?;
                let plugin = Plugin::from_name(switch.plugin).ok_or(Malformed("plug-in"))?;
                let answer = self.answer(plugin);
                self.seq = put_payload(out, header.seq.wrapping_add(1), &answer);
                Ok(LoginStep::Continue)
            }
            MORE_DATA => {
                self.on_more_data(header, parse_more_data(payload)?, out)?;
                Ok(LoginStep::Continue)
            }
            _ => Err(Malformed("login")),
        }
    }

    fn on_greeting(&mut self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
        let greeting = Greeting::parse(payload)?;
        self.nonce = greeting.nonce;
        self.number = greeting.connection_id;
        let mut wanted = self.wanted
            | Capabilities::PROTOCOL_41
            | Capabilities::SECURE_CONNECTION
            | Capabilities::PLUGIN_AUTH
            | Capabilities::MULTI_RESULTS
            | Capabilities::PS_MULTI_RESULTS
            | Capabilities::TRANSACTIONS;
        // Who speaks MariaDB's extensions leaves out what is called CLIENT_MYSQL there.
        if self.wanted & Capabilities::EXTENDED == Capabilities::EMPTY {
            wanted.insert(Capabilities::LONG_PASSWORD);
        }
        if self.identity.schema.is_some() {
            wanted.insert(Capabilities::CONNECT_WITH_DB);
        }
        if self.encrypts {
            wanted.insert(Capabilities::SSL);
        }
        // MariaDB leaves this flag out of its greeting, and clients send it all the same.
        self.agreed = wanted & (greeting.capabilities | Capabilities::LONG_PASSWORD);
        let plugin = Plugin::from_name(greeting.auth_plugin.as_bytes()).unwrap_or(Plugin::Native);
        let answer = self.answer(plugin);
        let zstd = self.agreed.contains(Capabilities::ZSTD_COMPRESSION_ALGORITHM);
        let response = HandshakeResponse {
            capabilities: self.agreed,
            packet_len_max: 1 << 24,
            charset: COLLATION,
            user: self.identity.user.as_bytes(),
            auth: &answer,
            schema: self.identity.schema.as_deref().map(str::as_bytes),
            plugin: Some(plugin.name().as_bytes()),
            attributes: Default::default(),
            zstd_level: zstd.then_some(ZSTD_LEVEL),
        };
        self.seq = response.put(out, 1);
        Ok(())
    }

    /// What the caching plug-in says after the scramble.
    fn on_more_data(
        &mut self,
        header: Header,
        data: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        self.seq = header.seq.wrapping_add(1);
        match data {
            [caching_sha2::FAST_OK] => {}
            // Over loopback the password itself may travel.
            [caching_sha2::FULL_AUTH] => {
                let mut clear = self.identity.password.clone().into_bytes();
                clear.push(0);
                self.seq = put_payload(out, self.seq, &clear);
            }
            _ => return Err(Malformed("auth data")),
        }
        Ok(())
    }

    fn answer(&self, plugin: Plugin) -> Vec<u8> {
        let password = self.identity.password.as_bytes();
        if password.is_empty() {
            return Vec::new();
        }
        match plugin {
            Plugin::Native => native::scramble(&native::stage1(password), &self.nonce).to_vec(),
            Plugin::CachingSha2 => {
                caching_sha2::scramble(&caching_sha2::stage1(password), &self.nonce).to_vec()
            }
            // No server of the simulator asks for these.
            Plugin::Sha256 | Plugin::Clear | Plugin::Ed25519 | Plugin::Parsec | Plugin::Dialog => {
                [password, &[0]].concat()
            }
        }
    }
}
