//! What is known of one client of the admin port.

use std::sync::Arc;

use trunkline_store::Access;

use super::Room;
use crate::sql::select;

pub use trunkline_config::variable::VERSION;

/// One client.
#[derive(Debug, Clone)]
pub struct Session {
    /// Its user.
    pub user: String,
    /// Its address, for the history.
    pub peer: String,
    /// The number of its connection.
    pub id: u32,
    /// What it may do.
    pub access: Access,
    /// The schema that it has chosen.
    pub schema: String,
    /// What the last statement warned of.
    pub(crate) warnings: Vec<String>,
    /// The memory of its answer's rows, until they are read.
    pub(crate) room: Arc<Room>,
}

impl Session {
    /// `user@address`.
    pub fn author(&self) -> String {
        format!("{}@{}", self.user, self.peer)
    }
}

/// Values of MySQL's variables that drivers ask for at connect.
const KNOWN: [(&str, &str); 36] = [
    ("auto_increment_increment", "1"),
    ("auto_increment_offset", "1"),
    ("autocommit", "1"),
    ("character_set_client", "utf8mb4"),
    ("character_set_connection", "utf8mb4"),
    ("character_set_results", "utf8mb4"),
    ("character_set_server", "utf8mb4"),
    ("character_set_database", "utf8mb4"),
    ("character_set_system", "utf8mb3"),
    ("collation_server", "utf8mb4_general_ci"),
    ("collation_connection", "utf8mb4_general_ci"),
    ("collation_database", "utf8mb4_general_ci"),
    ("init_connect", ""),
    ("net_write_timeout", "60"),
    ("net_read_timeout", "60"),
    ("net_buffer_length", "16384"),
    ("license", "Apache-2.0"),
    ("lower_case_table_names", "0"),
    ("performance_schema", "0"),
    ("query_cache_size", "0"),
    ("query_cache_type", "OFF"),
    ("sql_mode", "NO_BACKSLASH_ESCAPES"),
    ("system_time_zone", "UTC"),
    ("time_zone", "SYSTEM"),
    ("transaction_isolation", "SERIALIZABLE"),
    ("tx_isolation", "SERIALIZABLE"),
    ("transaction_read_only", "0"),
    ("tx_read_only", "0"),
    ("version_comment", "(ProxySQL Admin Module)"),
    ("version_compile_os", "Linux"),
    ("have_ssl", "DISABLED"),
    ("have_openssl", "DISABLED"),
    ("hostname", "localhost"),
    ("max_allowed_packet", "67108864"),
    ("socket", ""),
    ("default_storage_engine", "SQLite"),
];

/// A session with the variables of the proxy.
pub struct Asked<'a> {
    /// Who asks.
    pub session: &'a Session,
    /// Variables that run.
    pub variables: &'a [(String, String)],
    /// Numbers of `stats_mysql_global`, for who asks for one as for a variable.
    pub figures: &'a [(String, String)],
}

/// Variables of MySQL that drivers ask for at connect, beside [`KNOWN`].
const DERIVED: [&str; 5] =
    ["version", "read_only", "wait_timeout", "interactive_timeout", "language"];

impl Asked<'_> {
    /// What a server would say of its variables, as far as drivers ask.
    pub(super) fn of_servers(&self) -> Vec<(String, String)> {
        let names = KNOWN.iter().map(|(name, _)| *name).chain(DERIVED);
        let found = names.filter_map(|name| {
            let value = select::Session::variable(self, name)?;
            let is_flag = matches!(name, "autocommit" | "read_only");
            let value = match (is_flag, value.as_str()) {
                (true, "1") => "ON".to_owned(),
                (true, "0") => "OFF".to_owned(),
                _ => value,
            };
            Some((name.to_owned(), value))
        });
        found.collect()
    }
}

impl Asked<'_> {
    fn running(&self, name: &str) -> Option<&str> {
        let found = self.variables.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

impl select::Session for Asked<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        let name = name.replace('`', "");
        let value = match name.to_ascii_lowercase().as_str() {
            "version" => VERSION.to_owned(),
            "language" => "english".to_owned(),
            "read_only" => match self.running("admin-read_only") {
                Some("true" | "1") => "1".to_owned(),
                _ => "0".to_owned(),
            },
            "wait_timeout" | "interactive_timeout" => {
                let idle_ms = self.running("trunkline-admin_wait_timeout");
                let idle_ms = idle_ms.and_then(|ms| ms.parse::<u64>().ok()).unwrap_or_default();
                (idle_ms / 1_000).to_string()
            }
            lower => {
                let known = KNOWN.iter().find(|(known, _)| *known == lower);
                let figures = self.figures.iter();
                let figure = || {
                    let mut figures =
                        figures.filter(|(known, _)| known.eq_ignore_ascii_case(lower));
                    figures.next().map(|(_, value)| value.as_str())
                };
                let prefixed = || self.running(&format!("mysql-{lower}"));
                let running = self.running(&name).or_else(|| match known {
                    Some((_, value)) => Some(*value),
                    None => prefixed().or_else(figure),
                });
                return running.map(str::to_owned);
            }
        };
        Some(value)
    }

    fn function(&self, name: &str) -> Option<String> {
        match name {
            "VERSION" => Some(VERSION.to_owned()),
            "DATABASE" | "SCHEMA" => Some(self.session.schema.clone()),
            "CONNECTION_ID" => Some(self.session.id.to_string()),
            _ => Some(self.session.user.clone()),
        }
    }
}
