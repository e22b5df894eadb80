//! Where a transaction goes of which no server knows yet.

use crate::{
    exchange::begun::{Begun, BegunAccess},
    routing::{
        decide::{Case, Held, Place},
        read_only::leaves_before,
    },
};
use trunkline_topology::HostgroupId;

impl Case<'_> {
    /// Where the transaction is to be that begins with this statement: where its `BEGIN` was sent
    /// to, or, if it only reads and was sent to readers, on the writer with what may not run there.
    #[cold]
    pub(super) fn begun_place(
        &self,
        session: &Held<'_>,
        begun: Begun,
        named: Option<HostgroupId>,
    ) -> Place {
        let home = self.user.default_hostgroup;
        let readers = begun.hostgroup;
        let is_read_there = begun.access == BegunAccess::ReadOnly && readers != home;
        let leaves = is_read_there
            && named != Some(readers)
            && self.known.is_some_and(|known| {
                leaves_before(&known.analysis, self.proof, self.aim, session.flavor)
            });
        let is_gone = begun.may_leave_reader && !self.is_online(readers);
        match leaves || is_gone {
            true => Place::Hostgroup(home),
            false => Place::Hostgroup(readers),
        }
    }
}
