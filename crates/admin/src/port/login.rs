//! The login of a client of the admin port.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use trunkline_protocol::{
    Capabilities,
    packet::{
        greeting::Greeting,
        ok::{ReplyFormat, put_ok},
    },
};
use trunkline_session::frontend::{
    self, ClientHandshake, ClientIdentity, HANDSHAKE_PAYLOAD_MAX, Refusal, Step,
};
use trunkline_store::Access;
use trunkline_topology::{Attempt, LoginWait, Origin, User};

use super::{
    Accounts,
    listener::Peer,
    packet::{STATUS, ok, put_refusal},
    wire::{End, Wire},
};
use crate::{
    figures::Share,
    service::{AdminService, Refused, Room, Session, VERSION},
};

/// What the admin port offers.
const OFFERED: Capabilities = Capabilities::LONG_PASSWORD
    .union(Capabilities::FOUND_ROWS)
    .union(Capabilities::LONG_FLAG)
    .union(Capabilities::CONNECT_WITH_DB)
    .union(Capabilities::PROTOCOL_41)
    .union(Capabilities::IGNORE_SIGPIPE)
    .union(Capabilities::TRANSACTIONS)
    .union(Capabilities::SECURE_CONNECTION)
    .union(Capabilities::MULTI_STATEMENTS)
    .union(Capabilities::MULTI_RESULTS)
    .union(Capabilities::PS_MULTI_RESULTS)
    .union(Capabilities::PLUGIN_AUTH)
    .union(Capabilities::CONNECT_ATTRS)
    .union(Capabilities::PLUGIN_AUTH_LENENC_CLIENT_DATA)
    .union(Capabilities::DEPRECATE_EOF);

/// Accounts as the handshake asks for them.
struct Asked<'a> {
    accounts: Accounts,
    service: &'a AdminService,
    origin: Origin,
    host: String,
    is_secure: bool,
}

impl frontend::Accounts for Asked<'_> {
    fn user(&self, name: &str) -> Option<Arc<User>> {
        self.accounts.find(name).map(|(user, _)| Arc::clone(user))
    }

    fn stand_in(&self, _: &str) -> Option<Arc<User>> {
        self.accounts.first()
    }

    fn verified_sha2(&self, _: &User) -> Option<[u8; 32]> {
        None
    }

    fn can_look_up(&self) -> bool {
        false
    }

    fn public_key_pem(&self) -> Option<&[u8]> {
        None
    }

    fn client_host(&self) -> &str {
        &self.host
    }

    fn is_secure(&self) -> bool {
        self.is_secure
    }

    fn is_own_process(&self, _: &User) -> bool {
        false
    }

    fn is_encrypted(&self) -> bool {
        false
    }

    fn wait(&self, name: &str, attempt: Attempt) -> Option<LoginWait> {
        let settings = &self.service.snapshot().settings;
        self.service.door().wait(self.origin, name, attempt, settings)
    }
}

/// What came of a login.
pub(super) struct LoggedIn {
    pub(super) session: Session,
    pub(super) format: ReplyFormat,
    /// Whether one text may hold several statements.
    pub(super) takes_many: bool,
    pub(super) place: Share,
}

/// Greets a client, and finds out who it is.
pub(super) async fn log_in<S: AsyncRead + AsyncWrite + Unpin>(
    wire: &mut Wire<S>,
    peer: Peer,
    id: u32,
    service: &AdminService,
) -> Result<LoggedIn, End> {
    let accounts = service.accounts().ok_or(End::Gone)?;
    let (host, is_secure) = (peer.host(), peer.is_local());
    let mut asked = Asked { accounts, service, origin: peer.origin(), host, is_secure };
    let tls = service.tls();
    let greeting = greeting(id, tls.acceptor().is_some());
    let mut handshake = ClientHandshake::start(&greeting, false, &mut wire.out);
    loop {
        wire.flush().await?;
        let (header, payload) = wire.read(HANDSHAKE_PAYLOAD_MAX).await?;
        let step = handshake.on_packet(header, &payload, &asked, &mut wire.out);
        let identity = match step {
            Step::Continue => continue,
            Step::StartTls => {
                // Who may not begin it is one of many that have, and gets no answer.
                let wait = service.door().handshake(peer.origin()).ok_or(End::Gone)?;
                tokio::time::sleep(wait).await;
                wire.start_tls(&tls).await?;
                handshake.on_tls();
                asked.is_secure = true;
                continue;
            }
            Step::Accepted(identity) => identity,
            Step::Refused(Refusal::MustWait(_)) => {
                service.door().blocked();
                wire.flush().await?;
                return Err(End::Gone);
            }
            // Accounts have no hashes that take long, and no key is offered.
            Step::Refused(_)
            | Step::Decrypt(_)
            | Step::VerifyHash { .. }
            | Step::AskServer { .. }
            | Step::LookUp
            | Step::LookUpUser(_)
            | Step::NameHost => {
                let name = handshake.denied_name();
                service.door().failed(asked.origin, name, &service.snapshot().settings);
                tracing::warn!("an administrator at {} was refused", asked.host);
                let name = name.unwrap_or_default();
                service.audit_login(name, &asked.host, wire.is_encrypted(), false);
                wire.flush().await?;
                return Err(End::Gone);
            }
        };
        return admit(wire, *identity, asked, id).await;
    }
}

fn greeting(id: u32, offers_tls: bool) -> Greeting {
    let mut offered = OFFERED;
    if offers_tls {
        offered.insert(Capabilities::SSL);
    }
    Greeting {
        protocol_version: 10,
        server_version: format!("8.0.11-{VERSION}"),
        connection_id: id,
        nonce: trunkline_crypto::nonce(),
        capabilities: offered,
        charset: 45,
        status: STATUS,
        auth_plugin: "mysql_native_password".to_owned(),
    }
}

/// Gives a place to a client that has proven who it is.
async fn admit<S: AsyncRead + AsyncWrite + Unpin>(
    wire: &mut Wire<S>,
    identity: ClientIdentity,
    asked: Asked<'_>,
    id: u32,
) -> Result<LoggedIn, End> {
    let service = asked.service;
    let user = identity.user.name.clone();
    let access = asked.accounts.find(&user).map_or(Access::Stats, |(_, access)| *access);
    let takes_many = identity.capabilities.contains(Capabilities::MULTI_STATEMENTS);
    service.door().succeeded(asked.origin, &user);
    let place = match service.door().place(access, &service.snapshot().settings) {
        Ok(place) => place,
        Err(message) => {
            let refused = Refused { code: 1040, state: b"08004", message };
            put_refusal(&mut wire.out, identity.next_seq, &refused);
            wire.flush().await?;
            return Err(End::Gone);
        }
    };
    service.audit_login(&user, &asked.host, wire.is_encrypted(), true);
    let format = ReplyFormat {
        deprecate_eof: identity.capabilities.contains(Capabilities::DEPRECATE_EOF),
        ..ReplyFormat::default()
    };
    put_ok(&mut wire.out, identity.next_seq, &ok(0, ""), format);
    wire.flush().await?;
    let default = if access.is_reader() { "stats" } else { "main" };
    let schema = identity.schema.map(|name| String::from_utf8_lossy(&name).into_owned());
    let schema = schema.filter(|name| !name.is_empty()).unwrap_or_else(|| default.to_owned());
    let room = Room::of(service.budget(), access);
    let (peer, warnings) = (asked.host, Vec::new());
    let session = Session { user, peer, id, access, schema, warnings, room };
    Ok(LoggedIn { session, format, takes_many, place })
}
