//! Who a client has proven to be, and what it asked for.

use std::sync::Arc;

use trunkline_protocol::{Capabilities, packet::attributes::Attributes};
use trunkline_topology::{Secret, User};

use crate::credential::Credential;

/// The most bytes of connection attributes that are kept, names and values together; pairs
/// beyond it are left out. MySQL's own limit.
pub const ATTRIBUTES_LEN_MAX: usize = 64 * 1024;

/// A connection attribute: name and value.
pub type Attribute = (Box<[u8]>, Box<[u8]>);

/// A stored hash, and `SHA256(SHA256(password))` of the password that was proven against it.
pub type ProvenHash = (Secret<Vec<u8>>, [u8; 32]);

/// An authenticated client.
#[derive(Debug)]
pub struct ClientIdentity {
    /// The user.
    pub user: Arc<User>,
    /// The schema to begin in: the client's, or the user's default, or none. Not checked.
    pub schema: Option<Vec<u8>>,
    /// What both the greeting and the client can do.
    pub capabilities: Capabilities,
    /// The level that a client with zstd asks to be answered with; 0 without.
    pub zstd_level: u8,
    /// Collation id that the client asked for; 0 when it named none.
    pub collation: u16,
    /// Connection attributes, at most [`ATTRIBUTES_LEN_MAX`] bytes.
    pub attributes: Vec<Attribute>,
    /// What the proxy can now prove itself with to servers.
    pub credential: Credential,
    /// After a full authentication what spares the user's next logins the slow path, until the
    /// hash changes.
    pub proven_sha2: Option<ProvenHash>,
    /// `SHA1(SHA1(password))`, when the client has proven a password by the native plug-in.
    pub native_stage2: Option<[u8; 20]>,
    /// The nonce that it proved it with.
    pub nonce: [u8; 20],
    /// Number of the OK or ERR packet that ends the handshake.
    pub next_seq: u8,
}

/// Copies as many pairs as the limit allows.
pub(super) fn keep_attributes(attributes: Attributes<'_>) -> Vec<Attribute> {
    let mut room = ATTRIBUTES_LEN_MAX;
    let mut kept = Vec::new();
    for (name, value) in attributes.pairs() {
        let Some(left) = room.checked_sub(name.len() + value.len()) else {
            break;
        };
        // A pair of empty strings costs no room: its two bytes on the wire count instead.
        room = left.saturating_sub(2);
        kept.push((name.into(), value.into()));
    }
    kept
}
