//! `COM_REGISTER_SLAVE` and the `COM_BINLOG_DUMP`s.

use trunkline_protocol::response::ResponseShape;

use crate::{
    clients::client::{Client, Purpose},
    rooms::Exchange,
};

impl Exchange {
    /// `COM_REGISTER_SLAVE`: the server knows the connection as a replica's from then on.
    pub(super) fn register_replica(&mut self, client: &mut Client, frames: &[u8]) {
        let statement = self.core.statement(frames, ResponseShape::Single, Purpose::Register);
        let route = self.core.route_plain(client);
        self.run_on_route(client, route, statement);
    }

    /// `COM_BINLOG_DUMP` or `COM_BINLOG_DUMP_GTID`.
    pub(super) fn dump_binlog(&mut self, client: &mut Client, frames: &[u8]) {
        let statement = self.core.statement(frames, ResponseShape::None, Purpose::Dump);
        let route = self.core.route_plain(client);
        self.run_on_route(client, route, statement);
    }
}
