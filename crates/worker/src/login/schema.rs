//! `COM_INIT_DB`, and the schema of a login.

use trunkline_protocol::{codec::frame::HEADER_LEN, response::ResponseShape};

use crate::{
    clients::client::{Client, Purpose},
    rooms::Exchange,
};

impl Exchange {
    /// Chooses a schema on a server, so that a wrong one is refused in the server's words.
    pub(crate) fn run_init_db(&mut self, client: &mut Client, schema: &[u8], purpose: Purpose) {
        let mut frames = Vec::with_capacity(schema.len() + HEADER_LEN + 1);
        crate::exchange::synchronise::put_init_db(&mut frames, schema);
        let statement = self.core.statement(&frames, ResponseShape::Single, purpose);
        let route = self.core.route_plain(client);
        self.run_on_route(client, route, statement);
    }
}
