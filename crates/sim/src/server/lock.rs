//! Who has what locked on one host.

use std::collections::BTreeMap;

use crate::{
    LinkId,
    session::{Claim, Mode, Resource},
};

/// The locks of one host.
#[derive(Debug, Default)]
pub(super) struct Locks {
    held: BTreeMap<Resource, Vec<(LinkId, Mode)>>,
}

impl Locks {
    /// Who keeps `link` from having this.
    pub(super) fn blockers(&self, link: LinkId, claim: Claim) -> impl Iterator<Item = LinkId> + '_ {
        let holders = self.held.get(&claim.resource).into_iter().flatten();
        holders
            .filter(move |(holder, mode)| *holder != link && !mode.goes_with(claim.mode))
            .map(|(holder, _)| *holder)
    }

    /// Whether nobody keeps `link` from having all of these.
    pub(super) fn are_free(&self, link: LinkId, claims: &[Claim]) -> bool {
        claims.iter().all(|claim| self.blockers(link, *claim).next().is_none())
    }

    /// Whether nobody else has this.
    pub(super) fn is_free_for(&self, link: LinkId, resource: Resource) -> bool {
        let held = self.held.get(&resource);
        held.is_none_or(|holders| holders.iter().all(|(holder, _)| *holder == link))
    }

    /// Whether anybody has this.
    pub(super) fn is_held(&self, resource: Resource) -> bool {
        self.held.contains_key(&resource)
    }

    pub(super) fn take(&mut self, link: LinkId, claim: Claim) {
        let holders = self.held.entry(claim.resource).or_default();
        if !holders.contains(&(link, claim.mode)) {
            holders.push((link, claim.mode));
        }
    }

    pub(super) fn give_back(&mut self, link: LinkId, claim: Claim) {
        if let Some(holders) = self.held.get_mut(&claim.resource) {
            holders.retain(|holder| *holder != (link, claim.mode));
            if holders.is_empty() {
                self.held.remove(&claim.resource);
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}
