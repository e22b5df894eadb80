//! Who may do what. SQLite asks for each thing that a statement touches while it is prepared, so
//! that nothing depends on reading the text.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

use rusqlite::{
    Connection,
    hooks::{AuthAction, AuthContext, Authorization},
};

use crate::{SqlError, tables::Schema};

use self::Access::{Admin, Internal, Operate, Stats};

/// Whose statement runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// The store's own.
    Internal,
    /// An administrator's: reads everything, changes rows of what is configured.
    Admin,
    /// A user's who operates the proxy: reads numbers, as a user of the statistics, and may tell
    /// the proxy what changes no configuration.
    Operate,
    /// A user's of the statistics: reads numbers.
    Stats,
}

impl Access {
    /// Whether numbers are all that is read, and nothing is edited.
    pub const fn is_reader(self) -> bool {
        match self {
            Operate | Stats => true,
            Internal | Admin => false,
        }
    }
}

/// Whose statement runs now, as the hook sees it.
#[derive(Clone)]
pub(crate) struct Gate(Arc<AtomicU8>);

impl Gate {
    /// Installs the hook.
    pub(crate) fn install(conn: &mut Connection) -> Result<Self, SqlError> {
        let gate = Self(Arc::new(AtomicU8::new(code(Internal))));
        let asked = gate.clone();
        conn.authorizer(Some(move |context: AuthContext<'_>| match asked.access() {
            Internal => Authorization::Allow,
            Admin if may_administer(&context) => Authorization::Allow,
            Operate | Stats if may_read_stats(&context) => Authorization::Allow,
            Admin | Operate | Stats => Authorization::Deny,
        }))?;
        Ok(gate)
    }

    pub(crate) fn set(&self, access: Access) {
        self.0.store(code(access), Ordering::Relaxed);
    }

    pub(crate) fn access(&self) -> Access {
        match self.0.load(Ordering::Relaxed) {
            0 => Internal,
            1 => Admin,
            2 => Operate,
            _ => Stats,
        }
    }
}

const fn code(access: Access) -> u8 {
    match access {
        Internal => 0,
        Admin => 1,
        Operate => 2,
        Stats => 3,
    }
}

/// Questions about the database that change nothing.
const PRAGMAS: [&str; 12] = [
    "table_info",
    "table_xinfo",
    "table_list",
    "database_list",
    "index_list",
    "index_info",
    "foreign_key_list",
    "quick_check",
    "integrity_check",
    "compile_options",
    "function_list",
    "collation_list",
];

fn may_administer(context: &AuthContext<'_>) -> bool {
    match context.action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive => true,
        AuthAction::Function { function_name } => is_harmless(function_name),
        AuthAction::Pragma { pragma_name, .. } => {
            PRAGMAS.iter().any(|name| pragma_name.eq_ignore_ascii_case(name))
        }
        AuthAction::Insert { table_name }
        | AuthAction::Delete { table_name }
        | AuthAction::Update { table_name, .. } => is_edited(table_name, context.database_name),
        _ => false,
    }
}

/// The schema that describes the others.
const DESCRIBED: &str = "information_schema";

/// Rows that are made from what runs are not edited, and neither are the history and what says that
/// a configuration has begun: without it the next start would take the file for an empty one.
fn is_edited(table: &str, schema: Option<&str>) -> bool {
    let is_in = |wanted: Schema| schema == Some(wanted.name());
    let is_made = table.starts_with("runtime_")
        || table.starts_with("loaded_")
        || matches!(
            table,
            "trunkline_variables" | "config_history" | "mysql_collations" | "global_settings"
        )
        || table.starts_with("sqlite_") && table != "sqlite_sequence";
    !is_made && !is_in(Schema::Stats) && !is_in(Schema::StatsHistory) && schema != Some(DESCRIBED)
}

fn may_read_stats(context: &AuthContext<'_>) -> bool {
    let readable = [Schema::Stats, Schema::StatsHistory, Schema::StatsSaved, Schema::Monitor];
    match context.action {
        AuthAction::Select | AuthAction::Recursive => true,
        AuthAction::Read { .. } => {
            // Without a database it is a row that the statement makes itself.
            context.database_name.is_none_or(|name| {
                name == DESCRIBED || readable.iter().any(|schema| schema.name() == name)
            })
        }
        AuthAction::Function { function_name } => is_harmless(function_name),
        _ => false,
    }
}

/// Functions that reach outside of the database.
fn is_harmless(function: &str) -> bool {
    !["load_extension", "fts3_tokenizer", "readfile", "writefile", "edit"]
        .iter()
        .any(|name| function.eq_ignore_ascii_case(name))
}
