//! `COM_CHANGE_USER`: authentication anew on a live connection.
//!
//! | bytes | meaning |
//! |---|---|
//! | 1 | 0x11 |
//! | n, NUL | user |
//! | 1, n | authentication data; NUL-terminated without `SECURE_CONNECTION` |
//! | n, NUL | schema, may be empty |
//! | 2 | collation id |
//! | n, NUL | plug-in that made the authentication data, with `PLUGIN_AUTH` |
//! | lenenc, n | attributes, with `CONNECT_ATTRS` |
//!
//! Old clients leave out everything from the collation or the plug-in on.
//! Source: MySQL internals "COM_CHANGE_USER".

use crate::{
    capability::Capabilities,
    codec::{Malformed, Reader, frame, put_lenenc_bytes, put_nul_str, put_u16},
    packet::attributes::Attributes,
};

/// The command's code.
pub const COM_CHANGE_USER: u8 = 0x11;

/// A request to become another user, borrowed from the packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeUser<'a> {
    /// User name.
    pub user: &'a [u8],
    /// What the plug-in has to say first; many clients leave it empty and wait for a switch
    /// request, whatever the password.
    pub auth: &'a [u8],
    /// Schema to begin in, never empty.
    pub schema: Option<&'a [u8]>,
    /// Collation id; `None` when the client left it out.
    pub collation: Option<u16>,
    /// Plug-in that made [`auth`](Self::auth).
    pub plugin: Option<&'a [u8]>,
    /// Connection attributes.
    pub attributes: Attributes<'a>,
}

impl<'a> ChangeUser<'a> {
    /// Reads what follows the command's code, on a connection with `capabilities`.
    pub fn parse(body: &'a [u8], capabilities: Capabilities) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        let user = reader.nul_str("user")?;
        let auth = match capabilities.contains(Capabilities::SECURE_CONNECTION) {
            true => {
                let len = reader.u8("authentication data")?;
                reader.bytes(usize::from(len), "authentication data")?
            }
            false => reader.nul_str("authentication data")?,
        };
        let schema = Some(reader.nul_str("schema")?).filter(|schema| !schema.is_empty());
        let collation = match reader.is_empty() {
            true => None,
            false => Some(reader.u16("collation")?),
        };
        let plugin = match reader.is_empty() || !capabilities.contains(Capabilities::PLUGIN_AUTH) {
            true => None,
            false => Some(reader.nul_str("auth plug-in")?),
        };
        let has_attributes = capabilities.contains(Capabilities::CONNECT_ATTRS);
        let attributes = match reader.is_empty() || !has_attributes {
            true => Attributes::default(),
            false => Attributes::read(&mut reader)?,
        };
        Ok(Self { user, auth, schema, collation, plugin, attributes })
    }

    /// Appends the command, code included, as the packet numbered `seq`, for a connection with
    /// `capabilities`; returns the number that follows.
    ///
    /// Fields are written up to the first that is `None`. Authentication data must be shorter
    /// than 251 bytes.
    pub fn put(&self, out: &mut Vec<u8>, seq: u8, capabilities: Capabilities) -> u8 {
        let start = frame::begin_packet(out, seq);
        self.put_fields(out, capabilities);
        frame::end_packet(out, start);
        seq.wrapping_add(1)
    }

    fn put_fields(&self, out: &mut Vec<u8>, capabilities: Capabilities) {
        debug_assert!(self.auth.len() < 251);
        out.push(COM_CHANGE_USER);
        put_nul_str(out, self.user);
        match capabilities.contains(Capabilities::SECURE_CONNECTION) {
            true => put_lenenc_bytes(out, self.auth),
            false => put_nul_str(out, self.auth),
        }
        put_nul_str(out, self.schema.unwrap_or_default());
        let Some(collation) = self.collation else {
            return;
        };
        put_u16(out, collation);
        if capabilities.contains(Capabilities::PLUGIN_AUTH) {
            let Some(plugin) = self.plugin else { return };
            put_nul_str(out, plugin);
        }
        if capabilities.contains(Capabilities::CONNECT_ATTRS) {
            self.attributes.put(out);
        }
    }
}
