//! State of a session that no text names: each case is run by sessions through the proxy and, step
//! by step, by twins of theirs on connections of their own. Whatever the proxy does with its
//! connections, both must see the same.

mod insert_ids;
mod lasting;
mod past;
mod reset;
mod sequences;
mod temporary;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{AuthPlugin, Flavour, Row, Server, SqlClient, Trunkline, error_code};

use crate::stage::{PASSWORD, USER, is_available, new_schema, one_server, shared_server};

/// A second account.
const OTHER: &str = "hidden_other";

/// A line of statements of several sessions.
pub struct Case {
    pub name: &'static str,
    /// What the schema holds.
    pub schema: &'static str,
    /// Who says what: the sessions `a`, `b`, … of the account, `o` of another one. An empty text is
    /// the session's end.
    pub steps: &'static [(&'static str, &'static str)],
    /// The one flavour that has it.
    pub only: Option<Flavour>,
    /// How many connections the proxy may have.
    pub connections: u32,
}

/// A case to be changed.
pub const PLAIN: Case = Case { name: "", schema: "", steps: &[], only: None, connections: 8 };

pub const MARIADB: Option<Flavour> = Some(Flavour::MariaDb);
pub const MYSQL: Option<Flavour> = Some(Flavour::MySql);

/// What came of a statement: its rows, or the code of its error.
type Answer = Result<Vec<Row>, Option<u16>>;

fn answer(client: &mut SqlClient, statement: &str) -> Answer {
    client.sql(statement).map_err(|error| error_code(&error))
}

/// A session through the proxy and its direct twin.
struct Twins {
    proxied: SqlClient,
    direct: SqlClient,
}

fn run(server: &Server, proxy: &Trunkline, case: &Case) -> Result<()> {
    let schemas = [new_schema(server, case.schema)?, new_schema(server, case.schema)?];
    let mut sessions: BTreeMap<&str, Twins> = BTreeMap::new();
    for (who, statement) in case.steps {
        if statement.is_empty() {
            sessions.remove(who);
            continue;
        }
        if !sessions.contains_key(who) {
            let user = if *who == "o" { OTHER } else { USER };
            let proxied = proxy.connect(user, PASSWORD, &schemas[0])?;
            let direct = server.connect(user, PASSWORD, &schemas[1])?;
            sessions.insert(who, Twins { proxied, direct });
        }
        let twins = sessions.get_mut(who).context("a session")?;
        let (proxied, direct) =
            (answer(&mut twins.proxied, statement), answer(&mut twins.direct, statement));
        ensure!(proxied == direct, "{who}: {statement}: {proxied:?}, directly {direct:?}");
    }
    Ok(())
}

/// Makes the second account, once on each server.
fn make_other(server: &Server) -> Result<()> {
    static MADE: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if !made.contains(&server.port()) {
        server.create_user(OTHER, PASSWORD, AuthPlugin::ServerDefault)?;
        made.insert(server.port());
    }
    Ok(())
}

/// Runs the cases that this flavour has, and says which of them differ.
pub fn check(flavour: Flavour, test: &str, cases: &[Case]) -> Result<()> {
    if !is_available(flavour, test) {
        return Ok(());
    }
    check_on(shared_server(flavour)?, "", cases)
}

/// Runs the cases on a server of one's own, with `settings` of the proxy, and says which differ.
pub fn check_on(server: &Server, settings: &str, cases: &[Case]) -> Result<()> {
    make_other(server)?;
    let mut wrong = Vec::new();
    for case in cases {
        if case.only.is_some_and(|only| only != server.flavour()) {
            continue;
        }
        let config = one_server(server, 1, case.connections);
        let other = format!(
            "[[user]]\nname = \"{OTHER}\"\npassword = \"{PASSWORD}\"\ndefault_hostgroup = 0\n"
        );
        let proxy = Trunkline::start(&format!("{settings}\n{config}{other}"))?;
        if let Err(error) = run(server, &proxy, case) {
            wrong.push(format!("{}: {error:#}", case.name));
        }
    }
    let flavour = server.flavour();
    ensure!(wrong.is_empty(), "{flavour:?}, {} differ:\n{}", wrong.len(), wrong.join("\n"));
    Ok(())
}
