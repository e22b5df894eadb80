//! Step 4: what a statement is. The digest finds an analysis made before.

use std::{collections::HashMap, rc::Rc};

use foldhash::fast::FixedState;
use trunkline_catalog::{Proof, prove_nameless};
use trunkline_config::{Settings, Snapshot};
use trunkline_sql::{
    analysis::{Analysis, Effect, StatementKind, analyse_knowing, may_ask_sequence},
    digest::{self, Digest, Digester, Executed},
    hint::Hints,
    recall::computes_values,
    routine::Routines,
    set::Assignment,
    token::{Encoding, Modes},
    version::ServerVersion,
};

use crate::{
    commands::causal_token::asks_for_token,
    exchange::hidden::looks_at_nothing,
    routing::ruled::Ruled,
    session_past::{FoundRows, may_fail_half_way},
    statement::pace::Pace,
    statement::proof::Proofs,
    statement::study::Found,
};

/// A statement's digest and analysis; one for all statements that differ only in literals.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) digest: u64,
    pub(crate) digest_text: Box<[u8]>,
    /// What servers carry out, as far as the digest does not say it; not looked at where nobody
    /// is refused by digests.
    pub(crate) executed: Executed,
    /// Of which settings and servers' version it is ([`Analyses::edition`]).
    pub(crate) edition: u32,
    /// How the text was read, as far as plain texts differ by it ([`reading_of`]).
    reading: u16,
    /// The digest text that says all of the structure; `None` where `digest_text` does.
    structure: Option<Box<[u8]>>,
    pub(crate) analysis: Analysis,
    /// What is proven of it where it names no table.
    pub(crate) nameless: Proof,
    /// What was proven of it where it names tables.
    pub(super) proofs: Proofs,
    /// How long its statements take; a statement that is not remembered knows of none.
    pub(crate) pace: Pace,
    /// For an `INSERT` or `REPLACE`: a value may be given to an AUTO_INCREMENT column that is not
    /// in the text.
    pub(crate) computes_values: bool,
    /// Neither the proxy itself answers it, nor refuses it.
    pub(crate) is_ordinary: bool,
    /// It may leave a last insert id that its reply does not report.
    pub(crate) may_leave_insert_id: bool,
    /// Its text looks at nothing of its session's past.
    pub(crate) looks_at_nothing: bool,
    /// An error may leave a last insert id of its first rows.
    pub(crate) may_fail_half_way: bool,
    /// What becomes of `FOUND_ROWS()` by it.
    pub(crate) found_rows: FoundRows,
    /// What its comments ask for, if anything.
    pub(crate) hints: Option<Box<Hints>>,
}

/// What rules look at of a statement, beside its text.
#[derive(Debug)]
pub(crate) struct Digested {
    digest: u64,
    text: Box<[u8]>,
    executed: Executed,
}

/// A [`Digested`] whose parts are elsewhere.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DigestedRef<'a> {
    pub(crate) digest: u64,
    pub(crate) text: &'a [u8],
    pub(crate) executed: &'a Executed,
}

impl Digested {
    /// What is known of a text.
    pub(crate) fn of(known: &Known) -> Self {
        let (text, executed) = (known.digest_text.clone(), known.executed.clone());
        Self { digest: known.digest, text, executed }
    }

    pub(crate) fn as_ref(&self) -> DigestedRef<'_> {
        DigestedRef { digest: self.digest, text: &self.text, executed: &self.executed }
    }
}

impl Known {
    /// About how much memory it takes, in bytes, beside what every one has.
    pub(crate) fn held(&self) -> usize {
        let structure = self.structure.as_ref().map_or(0, |text| text.len());
        self.digest_text.len() + structure + self.analysis.held()
    }

    /// What is known of the text, without what was observed of its statements.
    pub(crate) fn copy(&self) -> Self {
        Self {
            digest: self.digest,
            digest_text: self.digest_text.clone(),
            executed: self.executed.clone(),
            edition: self.edition,
            reading: self.reading,
            structure: self.structure.clone(),
            analysis: self.analysis.clone(),
            nameless: self.nameless,
            proofs: Proofs::default(),
            pace: Pace::default(),
            computes_values: self.computes_values,
            is_ordinary: self.is_ordinary,
            may_leave_insert_id: self.may_leave_insert_id,
            looks_at_nothing: self.looks_at_nothing,
            may_fail_half_way: self.may_fail_half_way,
            found_rows: self.found_rows,
            hints: self.hints.clone(),
        }
    }

    /// Whether a server may ask for a file of the client's: behind `LOAD DATA` or `LOAD XML` with
    /// `LOCAL`, or behind what may run such a statement out of sight (`EXECUTE`, a block).
    /// Behind anything else it could have whatever its clients can read.
    pub(crate) fn may_ask_for_file(&self) -> bool {
        self.analysis.effects.iter().any(|effect| {
            matches!(
                effect,
                Effect::LoadData { local: true }
                    | Effect::ExecuteStatement(_)
                    | Effect::OtherSession(_)
            )
        })
    }

    /// Whether it is the analysis of every plain text with this structure that is read so.
    fn is_of(&self, structure: &[u8], reading: u16) -> bool {
        let known = self.structure.as_deref().unwrap_or(&self.digest_text);
        self.reading == reading && *known == *structure
    }

    /// Whether a server that reads the text as `other` says may do what is known here, and nothing
    /// else: it only reads or writes what both name.
    pub(crate) fn is_as(&self, other: &Self) -> bool {
        self.is_ordinary && self.analysis == other.analysis
    }

    /// What is known of a text that a server may read as is known here, or as `other` says.
    pub(crate) fn or_otherwise(&self, other: &Self) -> Self {
        let analysis = self.analysis.clone().or_otherwise(other.analysis.clone());
        Self {
            digest: self.digest,
            digest_text: self.digest_text.clone(),
            executed: self.executed.or(&other.executed),
            edition: self.edition,
            reading: self.reading,
            structure: self.structure.clone(),
            nameless: prove_nameless(&analysis),
            proofs: Proofs::default(),
            pace: Pace::default(),
            computes_values: true,
            is_ordinary: false,
            may_leave_insert_id: true,
            looks_at_nothing: false,
            may_fail_half_way: true,
            found_rows: FoundRows::Untold,
            hints: self.hints.clone(),
            analysis,
        }
    }
}

/// Two generations of analyses: when the young one is full it becomes the old one, and what is not
/// asked for again goes with the next turn.
#[derive(Debug, Default)]
struct Generations {
    young: HashMap<u64, Rc<Known>, FixedState>,
    old: HashMap<u64, Rc<Known>, FixedState>,
}

impl Generations {
    #[inline]
    fn find(&mut self, key: u64, structure: &[u8], reading: u16) -> Option<Rc<Known>> {
        if let Some(known) = self.young.get(&key)
            && known.is_of(structure, reading)
        {
            return Some(Rc::clone(known));
        }
        let known = self.old.remove(&key).filter(|known| known.is_of(structure, reading))?;
        self.young.insert(key, Rc::clone(&known));
        Some(known)
    }

    fn insert(&mut self, key: u64, known: &Rc<Known>) {
        if self.young.len() >= GENERATION_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, Rc::clone(known));
    }

    fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
    }
}

/// Analyses by digest.
pub(crate) struct Analyses {
    digester: Digester,
    settings: digest::Settings,
    /// Whether somebody may be refused by a digest: by the firewall, or a rule that protects.
    judges: bool,
    /// Makes digests that keep what the settings leave out, where they leave something out.
    exact: Option<(Digester, digest::Settings)>,
    /// What is declared to read only.
    routines: Routines,
    /// The version of all servers, as far as they have one in common.
    version: ServerVersion,
    /// Counts the changes of settings and version that make other analyses.
    edition: u32,
    remembered: Generations,
    /// What the command under way is, where that was found out elsewhere.
    studied: Option<Box<Found>>,
}

/// How texts are read: what settings and servers say of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Method {
    settings: digest::Settings,
    judges: bool,
    routines: Routines,
    version: ServerVersion,
    edition: u32,
}

/// Analyses in one generation.
const GENERATION_MAX: usize = 8_192;

impl Analyses {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            digester: Digester::new(),
            settings: digest_settings(settings),
            judges: settings.firewall_whitelist_enabled,
            exact: exact(&digest_settings(settings)),
            routines: settings.reading_routines.clone(),
            version: ServerVersion::UNKNOWN,
            edition: 0,
            remembered: Generations::default(),
            studied: None,
        }
    }

    /// Those of somebody who reads texts as this configuration says.
    pub(crate) fn of_snapshot(snapshot: &Snapshot) -> Self {
        let mut analyses = Self::new(&snapshot.settings);
        analyses.configure(snapshot);
        analyses
    }

    /// Those of somebody who reads texts for a worker.
    pub(crate) fn of(method: Method) -> Self {
        let Method { settings, judges, routines, version, edition } = method;
        Self {
            digester: Digester::new(),
            exact: exact(&settings),
            settings,
            judges,
            routines,
            version,
            edition,
            remembered: Generations::default(),
            studied: None,
        }
    }

    /// How this worker reads texts now.
    pub(crate) fn method(&self) -> Method {
        Method {
            settings: self.settings.clone(),
            judges: self.judges,
            routines: self.routines.clone(),
            version: self.version,
            edition: self.edition,
        }
    }

    /// Reads texts so from now on.
    pub(crate) fn follow(&mut self, method: Method) {
        if self.method() != method {
            *self = Self::of(method);
        }
    }

    /// What the command that is looked at next is, where that was found out elsewhere.
    pub(crate) fn set_studied(&mut self, studied: Box<Found>) {
        self.studied = Some(studied);
    }

    /// What was found out elsewhere of the command that is looked at, if it was.
    pub(crate) fn studied(&mut self) -> Option<&mut Found> {
        self.studied.as_deref_mut()
    }

    /// The command is over, or waits: what is left of what was found out.
    pub(crate) fn take_studied(&mut self) -> Option<Box<Found>> {
        self.studied.take()
    }

    /// What rules said of a text elsewhere.
    #[inline]
    pub(crate) fn take_ruled(&mut self, text: &[u8]) -> Option<Box<Ruled>> {
        self.studied.as_mut()?.take_ruled(text)
    }

    /// Takes over changed settings; digests made under other settings are not comparable, and
    /// other routines make other analyses.
    pub(crate) fn configure(&mut self, snapshot: &Snapshot) {
        let settings = &snapshot.settings;
        let routines = &settings.reading_routines;
        let digests = digest_settings(settings);
        let judges = settings.firewall_whitelist_enabled || snapshot.rules.protects_by_digest();
        if digests != self.settings || *routines != self.routines || judges != self.judges {
            self.judges = judges;
            self.routines.clone_from(routines);
            self.exact = exact(&digests);
            self.settings = digests;
            self.renew();
        }
    }

    fn renew(&mut self) {
        self.edition = self.edition.wrapping_add(1);
        self.remembered.clear();
    }

    /// Which analyses are those of now: others were made under other settings, or for another
    /// version of the servers.
    pub(crate) fn edition(&self) -> u32 {
        self.edition
    }

    /// The version of all servers; functions belong to versions.
    pub(crate) fn version(&self) -> ServerVersion {
        self.version
    }

    /// Takes over the version that all servers have in common.
    pub(crate) fn learn_version(&mut self, version: ServerVersion) {
        if version != self.version {
            self.version = version;
            self.renew();
        }
    }

    /// The digest and analysis of a text under a session's SQL modes.
    ///
    /// An analysis is remembered only for a text whose digest says all of its structure, under
    /// the modes that the digest assumes, and found again only by the whole digest text and for
    /// the same modes.
    pub(crate) fn know(&mut self, text: &[u8], modes: &Modes) -> Rc<Known> {
        if let Some(studied) = &self.studied
            && let Some(known) = studied.known(text, modes, self.edition)
        {
            return known;
        }
        let digest = self.digester.digest(text, &self.settings);
        let exact = self.exact.as_mut().map(|(digester, settings)| digester.digest(text, settings));
        let whole = exact.as_ref().unwrap_or(&digest);
        let is_plain = is_plain(whole, text, modes);
        let reading = reading_of(modes);
        let key = whole.hash ^ u64::from(reading).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        if is_plain && let Some(known) = self.remembered.find(key, whole.text, reading) {
            return known;
        }
        let mut modes = Modes { version: self.version, ..*modes };
        if is_plain {
            // What is open has no part in it.
            (modes.guesses_quotes, modes.guesses_escapes) = (false, false);
        }
        let modes = &modes;
        let analysis = analyse_knowing(text, modes, &self.routines);
        let hints = hints_of(&digest, text, modes);
        // Effects carry names and values, which a digest leaves out.
        let is_remembered = is_plain && !analysis.depends_on_literals();
        let gives_values = matches!(analysis.kind, StatementKind::Insert | StatementKind::Replace);
        let whole = (digest.text.len() < self.settings.max_digest_length
            && text.len() <= self.settings.max_query_length
            && ends_strings_alike(text, digest.has_double_quotes, modes))
        .then_some(digest.text);
        // What a digest takes for a literal may be a column.
        let names_columns = digest.has_double_quotes && may_quote_names(modes);
        let computes_values = !gives_values || names_columns || whole.is_none_or(computes_values);
        let may_leave_insert_id = may_leave_insert_id(&analysis, whole);
        let found_rows = FoundRows::of(&analysis, whole);
        let may_fail_half_way = may_fail_half_way(&analysis, whole);
        let is_ordinary = is_ordinary(&analysis, [digest.text, text]);
        let (digest_hash, digest_text) = (digest.hash, Box::from(digest.text));
        let is_as_digested = is_plain && !digest::has_other_spaces(text, modes);
        let executed = match self.judges && !is_as_digested {
            true => self.digester.executed(text, &self.settings, modes),
            false => Executed::AsDigested,
        };
        let known = Rc::new(Known {
            digest: digest_hash,
            digest_text,
            executed,
            edition: self.edition,
            reading,
            structure: exact.map(|exact| exact.text.into()),
            is_ordinary,
            may_leave_insert_id,
            looks_at_nothing: looks_at_nothing(&analysis, may_leave_insert_id, found_rows),
            nameless: prove_nameless(&analysis),
            proofs: Proofs::default(),
            may_fail_half_way,
            found_rows,
            analysis,
            computes_values,
            pace: Pace::default(),
            hints: (!hints.is_empty()).then(|| Box::new(hints)),
        });
        if is_remembered {
            self.remembered.insert(key, &known);
        }
        known
    }
}

/// What the comments of a text ask for: a clean one has none.
fn hints_of(digest: &Digest<'_>, text: &[u8], modes: &Modes) -> Hints {
    match digest.is_clean {
        true => Hints::default(),
        false => Hints::find(text, digest.first_comment, modes),
    }
}

/// Whether a digest says all of a text's structure, read so.
#[inline]
fn is_plain(whole: &Digest<'_>, text: &[u8], modes: &Modes) -> bool {
    // What the modes leave open must not be in what the digest leaves out.
    let is_open = modes.guesses_quotes
        && (whole.has_double_quotes || modes.flavor_mariadb && may_ask_sequence(whole.text))
        || modes.guesses_escapes && text.contains(&b'\\');
    let is_known_text = match modes.encoding {
        Encoding::Utf8 => true,
        Encoding::Unknown => text.is_ascii(),
        encoding => encoding.is_plain() && whole.text.is_ascii(),
    };
    whole.is_clean
        && is_known_text
        && !(is_open || modes.ansi_quotes || modes.no_backslash_escapes || modes.oracle)
}

/// A number that tells the ways apart in which a plain text is read: what is open has no part in
/// one, and the version is everybody's. Analyses of different ones are remembered side by side.
fn reading_of(modes: &Modes) -> u16 {
    let flags = u16::from(modes.flavor_mariadb) | u16::from(modes.ignore_space) << 1;
    flags << 8 | modes.encoding as u16
}

/// Whether double quotes may be around names.
fn may_quote_names(modes: &Modes) -> bool {
    modes.ansi_quotes || modes.guesses_quotes
}

/// Whether a server ends the strings and quoted names of a text where its digest does, for which a
/// backslash escapes what follows, and each byte is a character.
fn ends_strings_alike(text: &[u8], has_double_quotes: bool, modes: &Modes) -> bool {
    let has_no_escapes = modes.no_backslash_escapes
        || modes.guesses_escapes
        || has_double_quotes && may_quote_names(modes);
    let has_tails = !modes.encoding.is_plain() && !text.is_ascii();
    // Of the bytes that a character may end with, these two are read as something else.
    !(has_no_escapes && text.contains(&b'\\')
        || has_tails && text.iter().any(|byte| matches!(byte, b'\\' | b'`')))
}

/// Whether a statement is certainly for a server: no `KILL`, no question to the proxy, no file of
/// its client's, nothing that is not understood.
fn is_ordinary(analysis: &Analysis, texts: [&[u8]; 2]) -> bool {
    analysis.is_without_effects()
        && !texts.iter().any(|text| asks_for_token(analysis, text))
        && !matches!(analysis.kind, StatementKind::Explain | StatementKind::Unknown)
}

/// A digester for what these settings leave out of a digest, but for literals.
fn exact(settings: &digest::Settings) -> Option<(Digester, digest::Settings)> {
    let leaves_out = settings.lowercase || settings.replace_null || settings.no_digits;
    leaves_out.then(|| {
        let settings = digest::Settings {
            lowercase: false,
            replace_null: false,
            no_digits: false,
            ..settings.clone()
        };
        (Digester::new(), settings)
    })
}

/// Stored routines, `LAST_INSERT_ID(expression)`, a variable that is set, a file that is loaded, an
/// `INSERT` that answers with rows, and one of several statements. `digest_text` is `None` when it
/// is not the whole text.
fn may_leave_insert_id(analysis: &Analysis, digest_text: Option<&[u8]>) -> bool {
    let leaves = |effect: &Effect| match effect {
        Effect::LastInsertIdAssigned | Effect::Call | Effect::ExecuteStatement(_) => true,
        Effect::OtherSession(_) => true,
        Effect::Set(assignments) => assignments.iter().any(|assignment| {
            matches!(assignment, Assignment::Variable { name, .. }
                if matches!(&**name, b"last_insert_id" | b"identity"))
        }),
        _ => false,
    };
    let gives_values = matches!(analysis.kind, StatementKind::Insert | StatementKind::Replace);
    let returns = |text: &[u8]| text.windows(9).any(|it| it.eq_ignore_ascii_case(b"RETURNING"));
    analysis.statements > 1
        || analysis.kind == StatementKind::Load
        || analysis.effects.iter().any(leaves)
        || gives_values && digest_text.is_none_or(returns)
}

/// How the settings want digests to be made.
pub fn digest_settings(settings: &Settings) -> digest::Settings {
    digest::Settings {
        lowercase: settings.query_digests_lowercase,
        replace_null: settings.query_digests_replace_null,
        no_digits: settings.query_digests_no_digits,
        keep_comment: settings.query_digests_keep_comment,
        grouping_limit: limit(settings.query_digests_grouping_limit),
        groups_grouping_limit: limit(settings.query_digests_groups_grouping_limit),
        max_digest_length: settings.query_digests_max_digest_length,
        max_query_length: settings.query_digests_max_query_length,
    }
}

fn limit(value: u32) -> u16 {
    u16::try_from(value).unwrap_or(u16::MAX)
}
