//! What a session has to do with causal reads.

use std::sync::Arc;

use trunkline_config::CausalReaders;
use trunkline_topology::{
    HostgroupId, User,
    causal::{CausalBoard, CausalReads, Need, OriginId, SharedPosition, Ticket, Written},
};

/// The longest that reads of a session don't wait again for what others write, after one has
/// waited in vain, ms.
const VAIN_MS: u64 = 5_000;
/// The most hostgroups whose positions a session remembers.
const REMEMBERED_MAX: usize = 16;

/// What a session has written, and what its read under way has to see.
#[derive(Debug, Default)]
pub(crate) struct SessionCausal {
    /// What it has written.
    pub(crate) written: Written,
    /// What its read under way has to see, if that is causal.
    pub(crate) need: Need,
    /// Whose writes these are.
    pub(crate) scope: CausalReads,
    /// Until when its reads don't wait, ms: one has waited in vain.
    vain_until_ms: u64,
    /// Where what it writes is told to others.
    cells: Vec<(HostgroupId, Cells)>,
}

/// Where what a session writes in a hostgroup is told to others. `None` where there are too many.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cells {
    pub(super) of_user: Option<Arc<SharedPosition>>,
    pub(super) of_all: Option<Arc<SharedPosition>>,
}

impl SessionCausal {
    /// With what another worker knew.
    pub(crate) fn moved(written: Written) -> Self {
        Self { written, ..Self::default() }
    }

    /// Where what this session writes in a hostgroup is told. `user`: its user's name.
    pub(crate) fn cells(
        &mut self,
        board: &CausalBoard,
        user: &str,
        hostgroup: HostgroupId,
    ) -> Cells {
        if let Some((_, cells)) = self.cells.iter().find(|(known, _)| *known == hostgroup) {
            return cells.clone();
        }
        let positions = &board.positions;
        let cells = Cells {
            of_user: positions.of(Some(user), hostgroup),
            of_all: positions.of(None, hostgroup),
        };
        if self.cells.len() < REMEMBERED_MAX {
            self.cells.push((hostgroup, cells.clone()));
        }
        cells
    }

    /// It has written these transactions in a hostgroup.
    pub(super) fn raise(
        &mut self,
        (hostgroup, cells): (HostgroupId, &Cells),
        origin: OriginId,
        first: u64,
        last: u64,
    ) {
        self.vain_until_ms = 0;
        self.written.raise(hostgroup, origin, first, last);
        cells.each().for_each(|cell| cell.raise(origin, last));
    }

    /// It may have written something there whose number it was not told. True where that was not
    /// so before.
    pub(crate) fn doubt(
        &mut self,
        board: &CausalBoard,
        user: &str,
        hostgroup: HostgroupId,
    ) -> bool {
        let cells = self.cells(board, user, hostgroup);
        let ticket = board.positions.doubt_ticket();
        cells.each().for_each(|cell| cell.doubt(ticket));
        let token = self.written.token_mut(hostgroup);
        let is_new = !token.needs_writer();
        token.doubt();
        is_new
    }

    /// It has written something there that no number will tell of.
    pub(super) fn lose_track(&mut self, hostgroup: HostgroupId, cells: &Cells) {
        self.written.token_mut(hostgroup).lose_track();
        cells.each().for_each(|cell| cell.lose_track());
    }

    /// What its read that begins has to see: what was written in this scope on the servers of these
    /// readers, or in one hostgroup only.
    pub(crate) fn take_need(
        &mut self,
        board: &CausalBoard,
        user: &User,
        scope: CausalReads,
        (readers, from): (&CausalReaders, Option<HostgroupId>),
        (now_ms, workers): (u64, usize),
    ) {
        self.need.clear();
        self.scope = scope;
        if let CausalReads::Bounded(age_ms) = scope {
            self.need.bound(age_ms);
        }
        if matches!(scope, CausalReads::Off | CausalReads::Bounded(_)) {
            return;
        }
        if self.written.may_be_under_way(now_ms) {
            self.need.want_writer();
        }
        if let Some(since) = &readers.since {
            match since.moment_ms(workers) {
                Some(at_ms) => self.need.want_all_until(at_ms),
                None => self.need.want_writer(),
            }
        }
        for (hostgroup, token) in self.written.tokens() {
            if !hostgroup.is_some_and(|it| is_elsewhere(readers, from, it)) {
                self.need.take_token(token);
            }
        }
        let of_writer = || from.or(readers.writer);
        match scope {
            CausalReads::User => {
                let kin = from.as_ref().map_or(&*readers.kin, std::slice::from_ref);
                kin.iter().for_each(|it| self.take_shared(board, user, *it, |it| &it.of_user));
            }
            CausalReads::Global if from.is_none() => {
                readers
                    .kin
                    .iter()
                    .for_each(|it| self.take_shared(board, user, *it, |it| &it.of_all));
            }
            CausalReads::Hostgroup | CausalReads::Global => {
                let writer = of_writer();
                writer
                    .into_iter()
                    .for_each(|it| self.take_shared(board, user, it, |it| &it.of_all));
            }
            CausalReads::Off | CausalReads::Session | CausalReads::Bounded(_) => {}
        }
    }

    fn take_shared(
        &mut self,
        board: &CausalBoard,
        user: &User,
        hostgroup: HostgroupId,
        cell: impl FnOnce(&Cells) -> &Option<Arc<SharedPosition>>,
    ) {
        let is_here = |(known, _): &&(HostgroupId, Cells)| *known == hostgroup;
        if let Some((_, cells)) = self.cells.iter().find(is_here) {
            return take(&mut self.need, cell(cells));
        }
        let cells = self.cells(board, &user.name, hostgroup);
        take(&mut self.need, cell(&cells));
    }

    /// Whether its read under way may wait for a replica.
    /// `is_missing_everywhere`: not even the writer is known to have it.
    pub(crate) fn may_wait(&self, now_ms: u64, is_missing_everywhere: bool) -> bool {
        self.need.may_wait() && (now_ms >= self.vain_until_ms || is_missing_everywhere)
    }

    /// Its read has waited until its time was over: the next ones don't, until it writes again or
    /// a replica has caught up; where others write on, for a while.
    pub(crate) fn waited_in_vain(&mut self, now_ms: u64) {
        self.vain_until_ms = match self.scope {
            CausalReads::Off | CausalReads::Session => u64::MAX,
            _ => now_ms + VAIN_MS,
        };
    }

    /// A replica could answer its read at once.
    pub(crate) fn was_reached(&mut self) {
        self.vain_until_ms = 0;
    }
}

impl Cells {
    /// Where these are told.
    pub(super) fn positions(self) -> [Option<Arc<SharedPosition>>; 2] {
        [self.of_user, self.of_all]
    }

    fn each(&self) -> impl Iterator<Item = &SharedPosition> {
        [&self.of_user, &self.of_all].into_iter().flatten().map(|cell| &**cell)
    }

    /// A write has told its number that was sent with this ticket.
    pub(super) fn end_doubt(&self, ticket: Ticket) {
        self.each().for_each(|cell| cell.end_doubt(ticket));
    }
}

/// Whether what was written in a hostgroup has nothing to do with a read of these readers, which
/// sees what was written in this hostgroup, if a rule names one.
pub(crate) fn is_elsewhere(
    readers: &CausalReaders,
    from: Option<HostgroupId>,
    hostgroup: HostgroupId,
) -> bool {
    match from {
        Some(from) => hostgroup != from,
        None => readers.foreign.contains(&hostgroup),
    }
}

fn take(need: &mut Need, position: &Option<Arc<SharedPosition>>) {
    match position {
        Some(position) => need.take_position(position),
        None => need.want_writer(),
    }
}
