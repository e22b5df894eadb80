//! `COM_REGISTER_SLAVE` and the `COM_BINLOG_DUMP`s.

use trunkline_protocol::response::ResponseShape;

use crate::{ClientId, clients::client::Purpose, rooms::Exchange};

impl Exchange {
    /// `COM_REGISTER_SLAVE`: the server knows the connection as a replica's from then on.
    pub(super) fn register_replica(&mut self, id: ClientId, frames: &[u8]) {
        let statement = self.core.statement(frames, ResponseShape::Single, Purpose::Register);
        let route = self.core.route_plain(id);
        self.run_on_route(id, route, statement);
    }

    /// `COM_BINLOG_DUMP` or `COM_BINLOG_DUMP_GTID`.
    pub(super) fn dump_binlog(&mut self, id: ClientId, frames: &[u8]) {
        let statement = self.core.statement(frames, ResponseShape::None, Purpose::Dump);
        let route = self.core.route_plain(id);
        self.run_on_route(id, route, statement);
    }
}
