//! The server's side of authentication: a greeting with a nonce, a scramble, perhaps a switch to
//! another plug-in. MariaDB's accounts have `mysql_native_password`, MySQL's
//! `caching_sha2_password` with a warm cache.

use std::collections::BTreeMap;

use trunkline_protocol::{
    auth::{Plugin, caching_sha2, native},
    capability::Capabilities,
    packet::{
        auth_switch::{AuthSwitchRequest, put_more_data},
        change_user::ChangeUser,
        greeting::{Flavor, Greeting, NONCE_LEN},
        handshake_response::ClientOpening,
        ok::{OkPacket, ReplyFormat, put_ok},
        status,
    },
};

use super::{
    conn::{Conn, Login, Phase},
    reply::put_failure,
    spec::AccountSpec,
};
use crate::{
    sealing::Seal,
    session::ModelSession,
    statement::{Failure, Schema},
};

/// What all model servers can do. No TLS.
const OFFERED: Capabilities = Capabilities::FOUND_ROWS
    .union(Capabilities::LONG_FLAG)
    .union(Capabilities::CONNECT_WITH_DB)
    .union(Capabilities::PROTOCOL_41)
    .union(Capabilities::TRANSACTIONS)
    .union(Capabilities::SECURE_CONNECTION)
    .union(Capabilities::MULTI_STATEMENTS)
    .union(Capabilities::MULTI_RESULTS)
    .union(Capabilities::PS_MULTI_RESULTS)
    .union(Capabilities::PLUGIN_AUTH)
    .union(Capabilities::CONNECT_ATTRS)
    .union(Capabilities::PLUGIN_AUTH_LENENC_CLIENT_DATA)
    .union(Capabilities::SESSION_TRACK)
    .union(Capabilities::COMPRESS)
    .union(Capabilities::LOCAL_FILES)
    .union(Capabilities::DEPRECATE_EOF);

/// What the model servers of a flavor can do: MariaDB knows no zstd, and of its own extensions it
/// has bulk executions here.
pub fn offered(flavor: Flavor) -> Capabilities {
    match flavor {
        Flavor::MariaDb => OFFERED | Capabilities::STMT_BULK_OPERATIONS,
        Flavor::MySql => {
            OFFERED | Capabilities::LONG_PASSWORD | Capabilities::ZSTD_COMPRESSION_ALGORITHM
        }
    }
}

/// The greeting of a server of this flavor; the plan greets the proxy's clients with the same.
pub fn greeting(flavor: Flavor, number: u64, nonce: [u8; NONCE_LEN]) -> Greeting {
    let (version, charset) = match flavor {
        Flavor::MariaDb => ("10.11.19-MariaDB", 8),
        Flavor::MySql => ("9.7.4", 255),
    };
    Greeting {
        protocol_version: 10,
        server_version: version.to_owned(),
        connection_id: u32::try_from(number).unwrap_or(u32::MAX),
        nonce,
        capabilities: offered(flavor),
        charset,
        status: status::AUTOCOMMIT,
        auth_plugin: plugin_of(flavor).name().to_owned(),
    }
}

fn plugin_of(flavor: Flavor) -> Plugin {
    match flavor {
        Flavor::MariaDb => Plugin::Native,
        Flavor::MySql => Plugin::CachingSha2,
    }
}

/// What a login packet comes to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LoggedIn {
    /// It goes on, or is over.
    Yes,
    /// It was refused; the connection ends.
    No,
}

impl Conn {
    /// A packet of a client that logs in.
    pub(super) fn login_packet(
        &mut self,
        seq: u8,
        payload: &[u8],
        flavor: Flavor,
        accounts: &BTreeMap<String, AccountSpec>,
        out: &mut Vec<u8>,
    ) -> LoggedIn {
        let seq = seq.wrapping_add(1);
        if let Phase::Switched(login) = &self.phase {
            let login = login.clone();
            return self.authenticate(login, payload, seq, flavor, accounts, out);
        }
        let response = match ClientOpening::parse(payload) {
            Ok(ClientOpening::Response(response)) => response,
            Ok(ClientOpening::TlsRequest(_)) if self.seal.is_none() => {
                self.seal = Some(Seal::accept());
                return LoggedIn::Yes;
            }
            Ok(ClientOpening::TlsRequest(_) | ClientOpening::Outdated) | Err(_) => {
                return refuse(out, seq, &Failure::new(1043, b"08S01", "Bad handshake"));
            }
        };
        self.capabilities = response.capabilities;
        self.format = ReplyFormat::of(self.capabilities);
        let login = Login {
            user: String::from_utf8_lossy(response.user).into_owned(),
            schema: response.schema.map(<[u8]>::to_vec),
            collation: u16::from(response.charset),
        };
        let plugin = response.plugin.and_then(Plugin::from_name);
        self.first_answer(login, plugin, response.auth, seq, flavor, accounts, out)
    }

    /// `COM_CHANGE_USER`, after the session has ended.
    pub(super) fn change_user(
        &mut self,
        body: &[u8],
        flavor: Flavor,
        accounts: &BTreeMap<String, AccountSpec>,
        out: &mut Vec<u8>,
    ) -> LoggedIn {
        let Ok(request) = ChangeUser::parse(body, self.capabilities) else {
            return refuse(out, 1, &Failure::new(1047, b"08S01", "Unknown command"));
        };
        let login = Login {
            user: String::from_utf8_lossy(request.user).into_owned(),
            schema: request.schema.map(<[u8]>::to_vec),
            collation: request.collation.unwrap_or_default(),
        };
        let plugin = request.plugin.and_then(Plugin::from_name);
        self.first_answer(login, plugin, request.auth, 1, flavor, accounts, out)
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of two packets come together here")]
    fn first_answer(
        &mut self,
        login: Login,
        plugin: Option<Plugin>,
        auth: &[u8],
        seq: u8,
        flavor: Flavor,
        accounts: &BTreeMap<String, AccountSpec>,
        out: &mut Vec<u8>,
    ) -> LoggedIn {
        let wanted = plugin_of(flavor);
        if plugin.unwrap_or(Plugin::Native) != wanted {
            let plugin = wanted.name().as_bytes();
            AuthSwitchRequest { plugin, data: &self.nonce }.put(out, seq);
            self.phase = Phase::Switched(login);
            return LoggedIn::Yes;
        }
        self.authenticate(login, auth, seq, flavor, accounts, out)
    }

    fn authenticate(
        &mut self,
        login: Login,
        auth: &[u8],
        mut seq: u8,
        flavor: Flavor,
        accounts: &BTreeMap<String, AccountSpec>,
        out: &mut Vec<u8>,
    ) -> LoggedIn {
        let account = accounts.get(&login.user);
        let passwords = account
            .into_iter()
            .flat_map(|account| std::iter::once(&account.password).chain(account.second.as_ref()));
        let is_right = passwords.into_iter().any(|it| is_right(it, auth, flavor, &self.nonce));
        if !is_right {
            let using = if auth.is_empty() { "NO" } else { "YES" };
            let text = format!(
                "Access denied for user '{}'@'localhost' (using password: {using})",
                login.user
            );
            return refuse(out, seq, &Failure::new(1045, b"28000", text));
        }
        let schema = login.schema.as_deref().filter(|name| !name.is_empty());
        let schema = schema.map(Schema::from_name);
        if schema == Some(Schema::Missing) {
            let text = format!("Unknown database '{}'", Schema::Missing.name());
            return refuse(out, seq, &Failure::new(1049, b"42000", text));
        }
        if flavor == Flavor::MySql && !matches!(auth, [] | [0]) {
            seq = put_more_data(out, seq, &[caching_sha2::FAST_OK]);
        }
        let mut session = ModelSession::new(flavor, login.collation, schema);
        session.number = self.number;
        session.multi_statements = self.capabilities.contains(Capabilities::MULTI_STATEMENTS);
        session.take_changes(false);
        let ok = OkPacket { status: session.status(), ..OkPacket::default() };
        put_ok(out, seq, &ok, self.format);
        self.phase = Phase::Ready(Box::new(session));
        LoggedIn::Yes
    }
}

fn is_right(password: &str, auth: &[u8], flavor: Flavor, nonce: &[u8; NONCE_LEN]) -> bool {
    let password = password.as_bytes();
    if password.is_empty() {
        return matches!(auth, [] | [0]);
    }
    match plugin_of(flavor) {
        Plugin::CachingSha2 => {
            let stored = caching_sha2::stage2(&caching_sha2::stage1(password));
            caching_sha2::verify(auth, &stored, nonce).is_some()
        }
        Plugin::Native
        | Plugin::Sha256
        | Plugin::Clear
        | Plugin::Ed25519
        | Plugin::Parsec
        | Plugin::Dialog => {
            let stored = native::stage2(&native::stage1(password));
            native::verify(auth, &stored, nonce).is_some()
        }
    }
}

fn refuse(out: &mut Vec<u8>, seq: u8, failure: &Failure) -> LoggedIn {
    put_failure(out, seq, failure);
    LoggedIn::No
}
