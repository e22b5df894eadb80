//! What is proven of a statement: from its text, and from what its names mean.

use trunkline_sql::analysis::{Access, Analysis, Depends, TableAccess};

use crate::{Catalog, Found, Hidden, Name, Place, Version};

/// What is proven of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proof {
    /// It has no effects on data or session: it may go to a reader, share a connection, be sent
    /// twice.
    pub reads: bool,
    /// What may happen behind its names.
    pub hidden: Hidden,
}

impl Default for Proof {
    fn default() -> Self {
        Self::NOTHING
    }
}

impl Proof {
    /// Of a text of which nothing is known.
    pub const NOTHING: Self = Self { reads: false, hidden: Hidden::UNKNOWN };

    /// What of it is proven on the writer: nothing that only a reader has said.
    #[must_use]
    pub fn on_writer(self) -> Self {
        match self.hidden.has(Hidden::SEEN_ON_READER) {
            true => Self { reads: false, hidden: self.hidden | UNSEEN },
            false => self,
        }
    }
}

/// A proof, and how long it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// What is proven.
    pub proof: Proof,
    /// The catalog's version that it is of.
    pub version: Version,
    /// When it is to be made anew, ms on the workers' clock.
    pub until_ms: u64,
    /// Until when the catalog believes what it is made of, ms; not before `until_ms`.
    pub valid_ms: u64,
    /// Names that nothing is known of, and that nobody has asked for lately.
    pub missing: Vec<Name>,
    /// Names that are known, and are to be asked for again so that they stay so.
    pub due: Vec<Name>,
}

/// What may not happen behind a statement that is to go to a reader, to share a connection or to
/// be sent twice.
const HARMS: [Hidden; 5] =
    [Hidden::WRITES, Hidden::LEAVES, Hidden::STAYS, Hidden::READS_SESSION, Hidden::CHANGED];

/// Of a name that nobody could ask the server for which runs the statement.
const UNSEEN: Hidden = Hidden::UNKNOWN.with(Hidden::UNASKED);
/// Of a name that no server has said anything of.
const UNASKED: Hidden = UNSEEN.with(Hidden::UNTOLD);

/// What is proven of a text by itself, whatever its names mean.
fn by_itself(analysis: &Analysis) -> Hidden {
    let is_seen = analysis.references.is_whole
        && !analysis.depends.contains(Depends::UNKNOWN_FUNCTION)
        && analysis.is_complete
        && !analysis.is_cut;
    if is_seen { Hidden::empty() } else { Hidden::UNKNOWN }
}

fn proof_of(analysis: &Analysis, hidden: Hidden) -> Proof {
    let is_harmless = !HARMS.iter().any(|harm| hidden.may(*harm));
    Proof { reads: analysis.access == Access::CertainlyReads && is_harmless, hidden }
}

/// What is proven of a statement that names no table.
pub fn prove_nameless(analysis: &Analysis) -> Proof {
    proof_of(analysis, by_itself(analysis))
}

/// Judges a statement whose names without a schema are `place`'s.
pub fn prove(analysis: &Analysis, place: Place<'_>, catalog: &Catalog, now_ms: u64) -> Judgement {
    let version = catalog.version();
    let mut hidden = by_itself(analysis);
    let (mut until_ms, mut valid_ms) = (u64::MAX, u64::MAX);
    let (mut missing, mut due) = (Vec::new(), Vec::new());
    for used in &analysis.references.tables {
        let Some(schema) = used.name.schema.as_deref().or(place.schema) else {
            hidden.insert(UNSEEN);
            continue;
        };
        let name =
            Name { group: place.group, schema: schema.into(), table: used.name.table[..].into() };
        match catalog.look_up(&name, now_ms) {
            Found::Object { object, due_ms, until_ms: until, settled_ms } => {
                hidden.insert(object.reading);
                if settled_ms > now_ms {
                    hidden.insert(Hidden::CHANGED);
                    until_ms = until_ms.min(settled_ms);
                }
                if used.access == TableAccess::Write {
                    hidden.insert(object.writing);
                }
                until_ms = until_ms.min(until);
                valid_ms = valid_ms.min(until);
                if due_ms <= now_ms {
                    due.push(name);
                } else {
                    until_ms = until_ms.min(due_ms);
                }
            }
            Found::Absent(until) => {
                until_ms = until_ms.min(until);
                hidden.insert(Hidden::UNKNOWN | Hidden::UNTOLD);
            }
            Found::Untold(until) => {
                until_ms = until_ms.min(until);
                hidden.insert(UNASKED);
            }
            Found::Unknown => {
                until_ms = now_ms;
                hidden.insert(UNASKED);
                missing.push(name);
            }
        }
    }
    Judgement { proof: proof_of(analysis, hidden), version, until_ms, valid_ms, missing, due }
}

/// Why it is not known which base tables an answer depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Untracked {
    /// The text does not tell all names that it reads.
    Text,
    /// Of this name it is not known, or changes of what it stands for are not told by its servers'
    /// logs.
    Name(Name),
}

/// The base tables that the answer to a statement depends on.
///
/// # Errors
/// Why these are not known.
pub fn bases_of(
    analysis: &Analysis,
    place: Place<'_>,
    catalog: &Catalog,
    now_ms: u64,
) -> Result<Vec<Name>, Untracked> {
    if !by_itself(analysis).is_empty() {
        return Err(Untracked::Text);
    }
    let mut bases = Vec::new();
    for used in &analysis.references.tables {
        let schema = used.name.schema.as_deref().or(place.schema).ok_or(Untracked::Text)?;
        let name =
            Name { group: place.group, schema: schema.into(), table: used.name.table[..].into() };
        match catalog.bases(&name, now_ms) {
            Some(known) => bases.extend(known.iter().cloned()),
            None => return Err(Untracked::Name(name)),
        }
    }
    Ok(bases)
}

#[cfg(test)]
mod tests {
    use trunkline_sql::{analysis::analyse, token::Modes};
    use trunkline_topology::HostgroupId;

    use super::*;
    use crate::{Kind, Object, Told};

    const AT: Place<'_> = Place { group: HostgroupId(0), schema: Some(b"shop") };

    fn name(table: &str) -> Name {
        Name { group: HostgroupId(0), schema: (*b"shop").into(), table: table.as_bytes().into() }
    }

    fn judge(text: &str, known: &[(&str, Hidden, Hidden)]) -> Judgement {
        let catalog = Catalog::default();
        for (table, reading, writing) in known {
            let object = Object { kind: Kind::Table, reading: *reading, writing: *writing };
            catalog.store(name(table), Some(object), 100);
        }
        let mut analysis = analyse(text.as_bytes(), &Modes::default());
        analysis.references.is_whole = true;
        prove(&analysis, AT, &catalog, 50)
    }

    #[test]
    fn a_text_without_names_is_proven_by_itself() {
        let judged = judge("SELECT 1", &[]);
        assert!(judged.proof.reads && judged.missing.is_empty());
        assert!(!judge("SELECT f(1)", &[]).proof.reads);
        assert!(!judge("SET @a = 1", &[]).proof.reads);
    }

    #[test]
    fn issue_16_a_name_that_no_server_spoke_of_is_unasked() {
        let catalog = Catalog::default();
        let analysis = analyse(b"SELECT a FROM t", &Modes::default());
        let hidden = |place, told: Option<Told>| {
            if let Some(told) = told {
                catalog.tell(name("t"), told, catalog.moment(50), 50);
            }
            prove(&analysis, place, &catalog, 50).proof.hidden
        };
        assert!(hidden(AT, None).has(Hidden::UNASKED));
        assert!(hidden(AT, Some(Told::NOTHING)).has(Hidden::UNASKED));
        assert!(hidden(Place { schema: None, ..AT }, None).has(Hidden::UNASKED));
        let absent = Told { is_absent: true, ..Told::NOTHING };
        assert!(hidden(AT, Some(Told { is_of_reader: true, ..absent })).has(Hidden::UNASKED));
        let found = hidden(AT, Some(absent));
        assert!(found.has(Hidden::UNTOLD) && !found.has(Hidden::UNASKED));
        let of_reader = Proof { reads: true, hidden: Hidden::SEEN_ON_READER };
        assert!(of_reader.on_writer().hidden.has(Hidden::UNASKED));
    }

    #[test]
    fn what_is_unknown_may_do_anything() {
        let proof = Proof::NOTHING;
        assert!(!proof.reads && proof.hidden.may(Hidden::STAYS));
    }
}
