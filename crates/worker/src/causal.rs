//! Causal reads: a read on a replica sees what its session has written.
//!
//! [`collect`] takes the numbers of a session's writes from replies. `acquire::position` sees to it
//! that a read goes to a replica only that shows them, waits for one, or goes to the writer.

pub(crate) mod collect;
pub(crate) mod hints;
pub(crate) mod order;
pub(crate) mod place;
pub(crate) mod session;
#[cfg(test)]
mod tests;
mod unheard;

use trunkline_topology::{
    causal::{CausalBoard, OriginId},
    gtid::Origin,
};

use crate::{ClientId, servers::unheard::LostWrites};

/// Origins whose numbers a worker remembers.
const REMEMBERED_MAX: usize = 32;

/// What a worker keeps for causal reads.
#[derive(Debug, Default)]
pub(crate) struct CausalWaits {
    /// Clients whose read waits for a replica. Some may wait no more.
    pub(crate) waiting: Vec<ClientId>,
    /// Writes that may be under way on servers whose connections have gone.
    pub(crate) lost: LostWrites,
    /// Numbers of origins that were asked for.
    origins: Vec<(Origin, OriginId)>,
}

impl CausalWaits {
    /// Whether some read waits for a replica.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// An origin's number; `None` when there are too many.
    fn id(&mut self, board: &CausalBoard, origin: &Origin) -> Option<OriginId> {
        if let Some((_, id)) = self.origins.iter().find(|(known, _)| known == origin) {
            return Some(*id);
        }
        let id = board.origins.id(origin)?;
        if self.origins.len() < REMEMBERED_MAX {
            self.origins.push((*origin, id));
        }
        Some(id)
    }
}
