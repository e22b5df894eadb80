//! What to log in with.

use std::sync::Arc;

use trunkline_protocol::{Capabilities, collation, packet::attributes};
use trunkline_topology::PinnedKeys;

use crate::credential::Credential;

/// The most bytes of connection attributes that servers take; more are not sent at all.
pub const ATTRIBUTES_LEN_MAX: usize = 64 * 1024;

/// Flags that this machine cannot do, or decides on itself.
const NEVER: Capabilities = Capabilities::SSL
    .union(Capabilities::MULTI_FACTOR_AUTHENTICATION)
    .union(Capabilities::CONNECT_WITH_DB)
    .union(Capabilities::CONNECT_ATTRS)
    .union(Capabilities::NO_SCHEMA);

/// Flags without which this machine does not log in.
pub(super) const REQUIRED: Capabilities =
    Capabilities::PROTOCOL_41.union(Capabilities::SECURE_CONNECTION);

/// Flags that every login asks for.
const ALWAYS: Capabilities = REQUIRED
    .union(Capabilities::LONG_PASSWORD)
    .union(Capabilities::PLUGIN_AUTH)
    .union(Capabilities::PLUGIN_AUTH_LENENC_CLIENT_DATA);

/// A login to a server.
#[derive(Debug, Clone)]
pub struct ServerLogin {
    /// User name; must not hold a NUL.
    pub user: String,
    /// What is known of the password.
    pub credential: Credential,
    /// Schema to begin in; must not hold a NUL.
    pub schema: Option<Vec<u8>>,
    /// Collation id to begin with.
    pub collation: u16,
    /// What is wanted of the server; what it does not offer is left out. Of two compressions
    /// zstd is taken where it is offered; the caller compresses from the OK on.
    pub capabilities: Capabilities,
    /// The level that the server is to compress with, where that is zstd: 1 to 22.
    pub zstd_level: u8,
    /// Connection attributes; none are sent when they exceed [`ATTRIBUTES_LEN_MAX`] bytes.
    pub attributes: Vec<(Vec<u8>, Vec<u8>)>,
    /// Whether nobody can listen on the transport (a Unix socket), so that the password itself
    /// may be sent. It is sent over TLS too.
    pub is_local: bool,
    /// Whether TLS is begun on a new connection.
    pub tls: TlsWish,
    /// Whom the password is encrypted for where nothing else protects it: nobody else gets it.
    pub keys: Arc<PinnedKeys>,
}

/// Whether a new connection is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsWish {
    /// It is not.
    #[default]
    Never,
    /// Where the server offers it.
    Offered,
    /// Always; a server that does not offer it is left.
    Always,
}

impl ServerLogin {
    /// What both ends can do, on a connection to a server that offers `offered`.
    pub(super) fn negotiate(&self, offered: Capabilities) -> Capabilities {
        let mut wanted = self.capabilities.without(NEVER) | ALWAYS;
        if self.schema().is_some() {
            wanted.insert(Capabilities::CONNECT_WITH_DB);
        }
        if !self.attributes.is_empty() {
            wanted.insert(Capabilities::CONNECT_ATTRS);
        }
        let mut agreed = wanted & offered;
        if self.begins_tls(offered) {
            agreed.insert(Capabilities::SSL);
        }
        if agreed.contains(Capabilities::ZSTD_COMPRESSION_ALGORITHM) {
            // Servers take zlib where both are set.
            agreed.remove(Capabilities::COMPRESS);
        }
        agreed
    }

    /// Whether TLS is begun with a server that offers `offered`.
    pub(super) fn begins_tls(&self, offered: Capabilities) -> bool {
        self.tls != TlsWish::Never && offered.contains(Capabilities::SSL)
    }

    /// The user name; empty, hence refused, when a NUL would end it early.
    pub(super) fn user(&self) -> &[u8] {
        without_nul(self.user.as_bytes()).unwrap_or_default()
    }

    /// The schema; none when a NUL would end it early and so name another one.
    pub(super) fn schema(&self) -> Option<&[u8]> {
        self.schema.as_deref().and_then(without_nul).filter(|schema| !schema.is_empty())
    }

    /// The pairs as they travel.
    pub(super) fn encoded_attributes(&self) -> Vec<u8> {
        let pairs = self.attributes.iter().map(|(name, value)| (&name[..], &value[..]));
        let raw = attributes::encode(pairs);
        if raw.len() <= ATTRIBUTES_LEN_MAX { raw } else { Vec::new() }
    }

    /// The collation as far as one byte can name it.
    pub(super) fn charset(&self) -> u8 {
        u8::try_from(self.collation).unwrap_or(UTF8MB4)
    }
}

/// [`collation::UTF8MB4_GENERAL_CI`] as a byte.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the assertion below is checked at compile time"
)]
const UTF8MB4: u8 = collation::UTF8MB4_GENERAL_CI as u8;
const _: () = assert!(UTF8MB4 as u16 == collation::UTF8MB4_GENERAL_CI);

fn without_nul(text: &[u8]) -> Option<&[u8]> {
    (!text.contains(&0)).then_some(text)
}
