//! A session keeps a connection on which it used names that nobody could say the meaning of: a view
//! may be among them that took a lock or set a variable. It is let go when the servers have said
//! that there is none, or when it has rested for as long as anything said of names is believed.

use trunkline_catalog::{Catalog, Found, Hidden, Name};
use trunkline_session::tracker::{PinReason, Pins, Schema};
use trunkline_sql::analysis::Analysis;
use trunkline_topology::HostgroupId;

use crate::{
    clients::client::Client,
    rooms::{Core, Lender},
};

/// What parts schema and table in the name of a pin.
const PARTS: u8 = 0;

/// Holds a session for the names of a statement that ran.
pub(super) fn hold_names(pins: &mut Pins, analysis: &Analysis, schema: &Schema) {
    let current = match schema {
        Schema::Named(name) => Some(&name[..]),
        Schema::None | Schema::Unknown => None,
    };
    for used in &analysis.references.tables {
        // Where no schema is current, a name without one is an error before anything runs.
        if let Some(schema) = used.name.schema.as_deref().or(current) {
            let name = [schema, &[PARTS], &used.name.table].concat();
            pins.pin_name_once(PinReason::UnknownName, &name);
        }
    }
}

/// Lets go of the names that are known by now, and says which are not. What a view may leave holds
/// the session from then on.
pub(super) fn settle_names(
    pins: &mut Pins,
    group: HostgroupId,
    catalog: &Catalog,
    now_ms: u64,
) -> Vec<Name> {
    let held: Vec<Box<[u8]>> = pins.names(PinReason::UnknownName).map(Box::from).collect();
    let mut unknown = Vec::new();
    for key in held {
        let mut parts = key.splitn(2, |byte| *byte == PARTS).map(Box::from);
        let (schema, table) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let name = Name { group, schema, table };
        match catalog.look_up(&name, now_ms) {
            Found::Object { object, .. } if !object.reading.has(Hidden::SEEN_ON_READER) => {
                let hidden = object.reading | object.writing;
                if hidden.has(Hidden::LEAVES) || hidden.has(Hidden::STAYS) {
                    pins.pin(PinReason::Routine);
                }
                pins.unpin_name(PinReason::UnknownName, &key);
            }
            Found::Absent(_) => pins.unpin_name(PinReason::UnknownName, &key),
            Found::Object { .. } | Found::Untold(_) | Found::Unknown => unknown.push(name),
        }
    }
    unknown
}

impl Core {
    /// Looks again at the unknown names that an idle session is held for. They are asked for again.
    pub(crate) fn settle_unknown_names(&mut self, client: &mut Client) {
        let (now_ms, active_ms) = (self.env.now.ms(), client.active_ms);
        let is_over =
            now_ms.saturating_sub(active_ms) >= self.env.snapshot.settings.catalog_age_max;
        let mut unknown = Vec::new();
        let mut freed = Vec::new();
        for lease in client.session.leases.iter_mut() {
            if !lease.pins.has(PinReason::UnknownName) {
                continue;
            }
            let group = self.env.group_of(lease.hostgroup);
            let catalog = self.env.shared.catalog();
            unknown.extend(settle_names(&mut lease.pins, group, catalog, now_ms));
            if is_over {
                lease.pins.unpin(PinReason::UnknownName);
            }
            if lease.pins.is_empty() {
                freed.push(lease.conn);
            }
        }
        self.ask_names(&client.session, unknown, None);
        for conn in freed {
            self.with_conn(conn, |core, conn| core.settle_lease(client, conn));
        }
    }
}

#[cfg(test)]
mod tests;
