//! `cargo xtask suites`: the tests that drivers' authors wrote, directly and through Trunkline.
//!
//! Each suite is got by its ecosystem's own tool into the drivers' folder, runs against a server
//! and through a proxy with few connections before it, and what came of each test is compared.
//! The rows of `docs/manual/drivers.md` are written anew. A difference without a reason in the list
//! is an error.

mod list;
mod outcome;
mod page;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use trunkline_testkit::{
    AuthPlugin, Flavour, MariaDb, MySql, Options, Server, Trunkline, drivers_dir,
};

use crate::run::{cargo, step};
use list::{SUITES, Suite};
use outcome::Outcome;

/// What `cargo xtask suites` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// Parts of suites' names; without any all run
    names: Vec<String>,
    /// Only on this server: mariadb or mysql
    #[arg(long)]
    on: Option<String>,
}

const USER: &str = "suites";
const PASSWORD: &str = "suites";
const SCHEMA: &str = "suite";
/// Fewer than the sessions of most suites at a time.
const CONNECTIONS: u32 = 8;

/// What came of one suite on one server.
pub struct Compared {
    pub suite: &'static Suite,
    pub server: &'static str,
    pub direct: BTreeMap<String, Outcome>,
    pub through: BTreeMap<String, Outcome>,
}

impl Compared {
    /// Tests that did not end the same, each with its two ends.
    pub fn differences(&self) -> Vec<(&str, Option<Outcome>, Option<Outcome>)> {
        let names = self.direct.keys().chain(self.through.keys());
        let mut names: Vec<&str> = names.map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        let ends = |name| (name, self.direct.get(name).copied(), self.through.get(name).copied());
        // Some suites name a skipped test by its reasons, in an order that changes.
        let has_run = |end: &Option<Outcome>| end.filter(|end| *end != Outcome::Skipped);
        let differs = |(_, direct, through): &(&str, _, _)| has_run(direct) != has_run(through);
        names.into_iter().map(ends).filter(differs).collect()
    }

    /// Differences without a reason.
    fn unknown(&self) -> Vec<&str> {
        let is_known = |name: &str| self.suite.differs.iter().any(|(part, _)| name.contains(part));
        let names = self.differences().into_iter().map(|(name, ..)| name);
        names.filter(|name| !is_known(name)).collect()
    }
}

/// Gets and runs the suites, and writes the table.
pub fn run(root: &Path, arguments: &Arguments) -> Result<()> {
    let is_wanted = |suite: &&Suite| {
        let names = &arguments.names;
        names.is_empty() || names.iter().any(|name| suite.name.contains(name.as_str()))
    };
    let suites: Vec<&'static Suite> = SUITES.iter().filter(is_wanted).collect();
    ensure!(!suites.is_empty(), "no suite has such a name");
    step("building", cargo(root).args(["build", "-p", "trunkline"]))?;
    for suite in &suites {
        get(suite)?;
    }
    let mut all = Vec::new();
    let is_asked_for =
        |flavour: &Flavour| arguments.on.as_deref().is_none_or(|name| name == flavour.name());
    for flavour in [Flavour::MariaDb, Flavour::MySql].into_iter().filter(is_asked_for) {
        let server = start(flavour)?;
        for suite in &suites {
            let compared = compare(suite, &server)?;
            println!("== {}", page::row(&compared));
            for name in compared.unknown() {
                let ends = |tests: &BTreeMap<String, Outcome>| format!("{:?}", tests.get(name));
                let (direct, through) = (ends(&compared.direct), ends(&compared.through));
                println!("   {name}: {direct} directly, {through} through Trunkline");
            }
            all.push(compared);
        }
    }
    let file = root.join("docs/manual/drivers.md");
    let old = std::fs::read_to_string(&file).unwrap_or_default();
    std::fs::write(&file, page::page(&all, &old)).context("cannot write the page")?;
    let unknown: usize = all.iter().map(|compared| compared.unknown().len()).sum();
    ensure!(unknown == 0, "{unknown} tests end otherwise through Trunkline");
    Ok(())
}

/// Runs a text of the shell in the suite's folder.
fn shell(suite: &Suite, text: &str) -> Result<Command> {
    let folder = drivers_dir().join("suites").join(format!(
        "{}-{}",
        suite.name.split(' ').next().unwrap_or_default().replace(['/', ':'], "-"),
        suite.version
    ));
    std::fs::create_dir_all(&folder)?;
    let mut command = Command::new("bash");
    command.arg("-euc").arg(text).current_dir(folder).stdin(Stdio::null());
    Ok(command)
}

/// Gets a suite, unless that was done.
fn get(suite: &Suite) -> Result<()> {
    let text = format!("[ ! -e is-there ] || exit 0\n{}\ntouch is-there\n", suite.get);
    step(&format!("getting {} {}", suite.name, suite.version), &mut shell(suite, &text)?)
}

fn start(flavour: Flavour) -> Result<Server> {
    let options =
        Options::default().arg("--log-bin-trust-function-creators=1").arg("--local-infile=1");
    let server = match flavour {
        Flavour::MariaDb => MariaDb::start(options)?,
        Flavour::MySql => MySql::start(options)?,
    };
    server.create_user(USER, PASSWORD, AuthPlugin::ServerDefault)?;
    Ok(server)
}

fn compare(suite: &'static Suite, server: &Server) -> Result<Compared> {
    let flavour = server.flavour().name();
    let proxy = Trunkline::start(&format!(
        "workers = 2\n\
         [[server]]\nhostgroup = 0\naddress = \"{}\"\nmax_connections = {CONNECTIONS}\n\
         tls = \"preferred\"\n\
         [[user]]\nname = \"{USER}\"\npassword = \"{PASSWORD}\"\ndefault_hostgroup = 0\n",
        server.address()
    ))?;
    let mut runs = Vec::new();
    for (way, port) in [("directly", server.port()), ("through Trunkline", proxy.port())] {
        println!("== {} on {flavour}, {way}", suite.name);
        server.sql(&format!(
            "DROP DATABASE IF EXISTS {SCHEMA}; CREATE DATABASE {SCHEMA} CHARACTER SET utf8mb4 \
             COLLATE utf8mb4_unicode_ci"
        ))?;
        let mut command = shell(suite, suite.run)?;
        command.env("HOST", "127.0.0.1").env("PORT", port.to_string()).env("SCHEMA", SCHEMA);
        command.env("DB_USER", USER).env("DB_PASSWORD", PASSWORD);
        let output = command.output().context("cannot run the suite")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let tests = outcome::read(suite.format, &text);
        if tests.is_empty() {
            let errors = String::from_utf8_lossy(&output.stderr);
            bail!("{} ran no test:\n{text}\n{errors}", suite.name);
        }
        runs.push(tests);
    }
    let through = runs.pop().unwrap_or_default();
    let direct = runs.pop().unwrap_or_default();
    Ok(Compared { suite, server: flavour, direct, through })
}
