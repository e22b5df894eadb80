//! A session that asks for the names of its commits is told those, and nobody else's.

use std::collections::BTreeSet;

use super::{Breach, Violation, index::Index};

pub(super) fn check(index: &Index<'_>, found: &mut Vec<Violation>) {
    let named = index.facts().executions.iter().filter_map(|ran| Some((ran.tag?, ran.gtid?)));
    let own: BTreeSet<_> = named.filter_map(|(tag, gtid)| Some((tag.client()?, gtid))).collect();
    for place in index.statements() {
        let Some(gtid) = place.said.gtid else { continue };
        if !own.contains(&(place.client.client, gtid)) {
            let evidence = format!("told of {gtid:?}, which is no commit of this client's");
            found.push(place.breach(Breach::ForeignState, place.at_us(), evidence));
        }
    }
}
