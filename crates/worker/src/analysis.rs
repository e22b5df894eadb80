//! Step 4: what a statement is. The digest finds an analysis made before.

use std::{collections::HashMap, rc::Rc};

use foldhash::fast::FixedState;
use trunkline_config::Settings;
use trunkline_sql::{
    analysis::{Access, Analysis, Effect, StatementKind, analyse_knowing},
    digest::{self, Digester},
    hint::Hints,
    recall::computes_values,
    routine::Routines,
    set::Assignment,
    token::{Encoding, Modes},
};

use crate::pace::Pace;

/// A statement's digest and analysis; one for all statements that differ only in literals.
#[derive(Debug)]
pub(crate) struct Known {
    pub digest: u64,
    pub digest_text: Box<[u8]>,
    pub analysis: Analysis,
    /// How long its statements take; a statement that is not remembered knows of none.
    pub pace: Pace,
    /// For an `INSERT` or `REPLACE`: a value may be given to an AUTO_INCREMENT column that is not
    /// in the text.
    pub computes_values: bool,
    /// It may leave a last insert id that its reply does not report.
    pub may_leave_insert_id: bool,
    /// What its comments ask for, if anything.
    pub hints: Option<Box<Hints>>,
}

impl Known {
    /// Certainly without effects on data or session.
    pub(crate) fn is_read(&self) -> bool {
        self.analysis.access == Access::CertainlyReads
    }
}

/// Analyses by digest. Two generations: when the young one is full it becomes the old one, and
/// what is not asked for again goes with the next turn.
pub(crate) struct Analyses {
    digester: Digester,
    settings: digest::Settings,
    /// What is declared to read only.
    routines: Routines,
    young: HashMap<u64, Rc<Known>, FixedState>,
    old: HashMap<u64, Rc<Known>, FixedState>,
}

/// Analyses in one generation.
const GENERATION_MAX: usize = 8_192;

impl Analyses {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            digester: Digester::new(),
            settings: digest_settings(settings),
            routines: settings.reading_routines.clone(),
            young: HashMap::with_hasher(FixedState::default()),
            old: HashMap::with_hasher(FixedState::default()),
        }
    }

    /// Takes over changed settings; digests made under other settings are not comparable, and
    /// other routines make other analyses.
    pub(crate) fn configure(&mut self, settings: &Settings) {
        let routines = &settings.reading_routines;
        let digests = digest_settings(settings);
        if digests != self.settings || *routines != self.routines {
            self.routines.clone_from(routines);
            self.settings = digests;
            self.young.clear();
            self.old.clear();
        }
    }

    /// The digest and analysis of a text under a session's SQL modes.
    ///
    /// An analysis is remembered only for a text whose digest says all of its structure, under
    /// the modes that the digest assumes, and found again only by the whole digest text.
    pub(crate) fn know(&mut self, text: &[u8], modes: &Modes) -> Rc<Known> {
        let digest = self.digester.digest(text, &self.settings);
        let is_single_bytes = matches!(modes.encoding, Encoding::Utf8 | Encoding::SingleByte);
        let is_plain =
            digest.is_clean && !modes.ansi_quotes && !modes.no_backslash_escapes && is_single_bytes;
        if is_plain {
            if let Some(known) = self.young.get(&digest.hash)
                && *known.digest_text == *digest.text
            {
                return Rc::clone(known);
            }
            if let Some(known) = self.old.remove(&digest.hash)
                && *known.digest_text == *digest.text
            {
                self.young.insert(known.digest, Rc::clone(&known));
                return known;
            }
        }
        let analysis = analyse_knowing(text, modes, &self.routines);
        // A clean text has no comments.
        let hints = match digest.is_clean {
            true => Hints::default(),
            false => Hints::find(text, digest.first_comment, modes),
        };
        // Effects carry names and values, which a digest leaves out.
        let is_remembered = is_plain && !analysis.depends_on_literals();
        let pace = Pace::default();
        let gives_values = matches!(analysis.kind, StatementKind::Insert | StatementKind::Replace);
        let computes_values = !gives_values || computes_values(digest.text);
        let known = Rc::new(Known {
            digest: digest.hash,
            digest_text: digest.text.into(),
            may_leave_insert_id: may_leave_insert_id(&analysis, digest.text),
            analysis,
            computes_values,
            pace,
            hints: (!hints.is_empty()).then(|| Box::new(hints)),
        });
        if is_remembered {
            if self.young.len() >= GENERATION_MAX {
                self.old = std::mem::take(&mut self.young);
            }
            self.young.insert(known.digest, Rc::clone(&known));
        }
        known
    }
}

/// Stored routines, `LAST_INSERT_ID(expression)`, a variable that is set, an `INSERT` that answers
/// with rows, and one of several statements.
fn may_leave_insert_id(analysis: &Analysis, digest_text: &[u8]) -> bool {
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
    let is_returning = |part: &[u8]| part.eq_ignore_ascii_case(b"RETURNING");
    analysis.statements > 1
        || analysis.effects.iter().any(leaves)
        || gives_values && digest_text.windows(9).any(is_returning)
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
