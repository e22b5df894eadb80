//! What is proven of a statement, in words.

use trunkline_catalog::{
    Catalog, Found, Hidden, Kind, Name, Place, Proof, bases_of, prove, prove_nameless,
};
use trunkline_config::Snapshot;
use trunkline_sql::analysis::{Analysis, Depends, TableAccess, built_in_functions};
use trunkline_topology::{HostgroupId, Tables};

use super::{Explaining, group_of};
use crate::cache::until::{self, Unkept, versions_of};

/// What is proven of a statement on the servers of `group`, and why, or why not. `text` is as it is
/// sent.
pub(crate) fn proof(
    analysis: &Analysis,
    asking: &Explaining<'_>,
    text: &[u8],
    group: HostgroupId,
) -> (Proof, String) {
    let schema = asking.asker.schema;
    let schema = (!schema.is_empty()).then_some(schema);
    let place = Place { group, schema };
    let (proof, mut names) = match asking.catalog {
        None => (prove_nameless(analysis), taken_for_tables(analysis)),
        Some(catalog) => {
            let judged = prove(analysis, place, catalog, asking.now_ms);
            (judged.proof, names(analysis, place, catalog, asking.now_ms))
        }
    };
    let functions = built_in_functions(text, &asking.modes);
    if !functions.is_empty() {
        names.push(format!("built-in {}", functions.join(", ")));
    }
    (proof, said(analysis, proof, &names))
}

/// The tables that an answer of these servers depends on that is kept until one of them changes.
pub(super) fn tables(
    analysis: &Analysis,
    asking: &Explaining<'_>,
    snapshot: &Snapshot,
    hostgroup: HostgroupId,
) -> Result<Tables, Unkept> {
    let versions = versions_of(snapshot, hostgroup).ok_or(Unkept::NoStream)?;
    let schema = asking.asker.schema;
    let schema = (!schema.is_empty()).then_some(schema);
    let place = Place { group: group_of(snapshot, hostgroup), schema };
    let catalog = asking.catalog.ok_or(Unkept::Text)?;
    let bases = bases_of(analysis, place, catalog, asking.now_ms)?;
    match versions.trouble() {
        Some(why) => Err(Unkept::Stream(why)),
        None => Ok(until::tables(&bases)),
    }
}

fn said(analysis: &Analysis, proof: Proof, names: &[String]) -> String {
    let mut parts = Vec::new();
    if !analysis.references.is_whole {
        parts.push("its form is not one whose names are all found".to_owned());
    }
    if analysis.depends.contains(Depends::UNKNOWN_FUNCTION) {
        parts.push("a function of it is not built in".to_owned());
    }
    parts.extend(names.iter().cloned());
    let because = match parts.is_empty() {
        true => String::new(),
        false => format!(": {}", parts.join("; ")),
    };
    let harms = [Hidden::WRITES, Hidden::LEAVES, Hidden::STAYS];
    let is_clean = !harms.iter().any(|harm| proof.hidden.may(*harm));
    match (proof.reads, is_clean) {
        (true, _) => format!("proven to read{because}"),
        (false, true) => format!("proven to leave nothing but what its text says{because}"),
        (false, false) => format!("nothing is proven{because}"),
    }
}

fn taken_for_tables(analysis: &Analysis) -> Vec<String> {
    let names = analysis.references.tables.iter();
    let names: Vec<_> = names.map(|used| String::from_utf8_lossy(&used.name.table)).collect();
    match names.is_empty() {
        true => Vec::new(),
        false => vec![format!("taking {} for base tables", names.join(", "))],
    }
}

/// What the names stand for: those of which there is nothing else to say together, by kind.
fn names(analysis: &Analysis, place: Place<'_>, catalog: &Catalog, now_ms: u64) -> Vec<String> {
    let mut plain: Vec<(Kind, Vec<String>)> = Vec::new();
    let mut others = Vec::new();
    for used in &analysis.references.tables {
        let shown = String::from_utf8_lossy(&used.name.table).into_owned();
        let Some(schema) = used.name.schema.as_deref().or(place.schema) else {
            others.push(format!("{shown} is in no schema"));
            continue;
        };
        let name =
            Name { group: place.group, schema: schema.into(), table: used.name.table[..].into() };
        match catalog.look_up(&name, now_ms) {
            Found::Object { object, settled_ms, .. } => {
                let mut hidden = match used.access {
                    TableAccess::Read => object.reading,
                    TableAccess::Write => object.reading | object.writing,
                };
                if settled_ms > now_ms {
                    hidden.insert(Hidden::CHANGED);
                }
                let may = may(hidden);
                match plain.iter_mut().find(|(kind, _)| *kind == object.kind) {
                    _ if !may.is_empty() => {
                        others.push(format!("{} {shown}{may}", kind_of(object.kind, 1)));
                    }
                    Some((_, names)) if names.contains(&shown) => {}
                    Some((_, names)) => names.push(shown),
                    None => plain.push((object.kind, vec![shown])),
                }
            }
            Found::Absent(_) | Found::Untold(_) => {
                others.push(format!("the servers did not say what {shown} is"))
            }
            Found::Unknown => {
                others.push(format!("nobody has asked the servers yet what {shown} is"));
            }
        }
    }
    let plain = plain.into_iter();
    let plain =
        plain.map(|(kind, names)| format!("{} {}", kind_of(kind, names.len()), names.join(", ")));
    plain.chain(others).collect()
}

fn kind_of(kind: Kind, count: usize) -> &'static str {
    match (kind, count) {
        (Kind::Table, 1) => "base table",
        (Kind::Table, _) => "base tables",
        (Kind::View, 1) => "view",
        (Kind::View, _) => "views",
        (Kind::Sequence, 1) => "sequence",
        (Kind::Sequence, _) => "sequences",
        (Kind::Other, 1) => "other object",
        (Kind::Other, _) => "other objects",
    }
}

/// What may happen behind a name.
fn may(hidden: Hidden) -> String {
    let words = [
        (Hidden::UNKNOWN, "do what can't be seen"),
        (Hidden::WRITES, "write"),
        (Hidden::LEAVES, "leave something in the session"),
        (Hidden::STAYS, "leave what a reset does not take back"),
        (Hidden::READS_SESSION, "look at the session's past"),
        (Hidden::VARIES, "answer otherwise each time"),
        (Hidden::CHANGED, "still be on readers what it was a moment ago"),
    ];
    let words: Vec<_> =
        words.iter().filter(|(flag, _)| hidden.has(*flag)).map(|(_, word)| *word).collect();
    let source = match hidden.has(Hidden::SEEN_ON_READER) {
        true => ", as only a reader could say, which proves nothing on the writer",
        false => "",
    };
    match words.is_empty() {
        true => source.to_owned(),
        false => format!("{source}, which may {}", words.join(", ")),
    }
}

#[cfg(test)]
mod tests;
