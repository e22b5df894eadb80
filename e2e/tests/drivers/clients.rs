//! The servers' own command-line clients and dump programs, directly and through the proxy.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{Flavour, MySqlTree, Server, find_program, skipped};

use crate::servers::{self, PASSWORD, USER};
use crate::{Tls, compare, is_encrypted, known, tree};

/// Whose programs. MySQL's know MariaDB's default authentication no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Programs {
    MariaDb,
    MySql,
}

impl Programs {
    /// The name of its rows in `KNOWN.md`.
    fn name(self) -> &'static str {
        match self {
            Programs::MariaDb => "client_mariadb",
            Programs::MySql => "client_mysql",
        }
    }

    /// The client (`mariadb`, `mysql`) or the dump program; the reason when it isn't there.
    fn command(self, dumps: bool) -> Result<Command, String> {
        match self {
            Programs::MariaDb => {
                let name = if dumps { "mariadb-dump" } else { "mariadb" };
                let program = find_program(name).ok_or(format!("{name} is not installed"))?;
                Ok(Command::new(program))
            }
            Programs::MySql => {
                let name = if dumps { "usr/bin/mysqldump" } else { "usr/bin/mysql" };
                MySqlTree::find().map(|tree| tree.command(name))
            }
        }
    }

    /// How to say whether it encrypts its connection. Certificates are not its business here.
    fn tls_options(self, tls: Tls) -> &'static [&'static str] {
        match (self, tls) {
            (Programs::MariaDb, Tls::Off) => &["--skip-ssl"],
            (Programs::MariaDb, Tls::On) => &["--ssl"],
            (Programs::MySql, Tls::Off) => &["--ssl-mode=DISABLED", "--get-server-public-key"],
            (Programs::MySql, Tls::On) => &["--ssl-mode=REQUIRED"],
        }
    }
}

/// Whom a program connects to, and how.
#[derive(Clone, Copy)]
struct Way {
    port: u16,
    tls: Tls,
}

/// What a program printed.
struct Output {
    out: String,
    errors: String,
}

/// Runs the client, or the dump program, against a server or proxy, with a file as its input.
fn run(
    (programs, dumps): (Programs, bool),
    way: Way,
    args: &[&str],
    input: Option<&Path>,
) -> Result<Output> {
    let mut command = programs.command(dumps).map_err(anyhow::Error::msg)?;
    let input = match input {
        Some(file) => Stdio::from(std::fs::File::open(file)?),
        None => Stdio::null(),
    };
    command.args(["--no-defaults", "--host=127.0.0.1", "--default-character-set=utf8mb4"]);
    command.arg(format!("--port={}", way.port)).arg(format!("--user={USER}"));
    command.args(programs.tls_options(way.tls));
    command.args(args).env("MYSQL_PWD", PASSWORD).stdin(input);
    let output = command.output().context("cannot run the client")?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Output { out: text(&output.stdout), errors: text(&output.stderr) })
}

/// The server, in clear, and a proxy before it, in clear and with TLS, unless the test is skipped.
fn check(
    programs: Programs,
    flavour: Flavour,
    what: impl Fn(&Server, Way, Way) -> Result<()>,
) -> Result<()> {
    let test = format!("drivers {} on {}", programs.name(), flavour.name());
    if let Err(reason) = programs.command(true).and(programs.command(false)) {
        skipped(&test, &reason);
        return Ok(());
    }
    let Some(server) = servers::shared(flavour, &test)? else {
        return Ok(());
    };
    for tls in [Tls::Off, Tls::On] {
        let proxy = servers::before(server, false)?;
        let direct = Way { port: server.port(), tls: Tls::Off };
        what(server, direct, Way { port: proxy.port(), tls })
            .with_context(|| format!("TLS {tls:?}"))?;
        ensure!(is_encrypted(&proxy)? == (tls == Tls::On), "TLS {tls:?} was not as asked for");
    }
    Ok(())
}

/// A client in batch mode says the same for a script full of errors, warnings and state.
fn client_prints_the_same(programs: Programs, flavour: Flavour) -> Result<()> {
    check(programs, flavour, |server, direct, proxied| {
        let schema = format!("drv_{}", programs.name());
        let script = tree().join("clients/script.sql");
        let session = |way: Way| -> Result<Vec<compare::Line>> {
            servers::fresh_schema(server, &schema)?;
            let args = ["--batch", "--force", "--verbose", "--unbuffered", &schema];
            let output = run((programs, false), way, &args, Some(&script))?;
            ensure!(output.out.lines().count() > 60, "it printed little: {}", output.errors);
            let line = |step: &str, text: String| compare::Line {
                step: step.to_owned(),
                result: text.lines().collect(),
            };
            Ok(vec![line("output", output.out), line("errors", output.errors)])
        };
        let differences = compare::differences(&session(direct)?, &session(proxied)?);
        known::judge(programs.name(), flavour, &differences)
    })
}

/// A dump made through the proxy is the dump made directly; what the proxy loads from it is the
/// same again. In clear and with TLS.
fn dump_comes_back(programs: Programs, flavour: Flavour) -> Result<()> {
    check(programs, flavour, |server, direct, proxied| {
        let schema = format!("drv_dump_{}", programs.name());
        let client = (programs, false);
        servers::fresh_schema(server, &schema)?;
        let made = run(client, proxied, &[&schema], Some(&tree().join("clients/schema.sql")))?;
        ensure!(made.errors.is_empty(), "making the schema: {}", made.errors);

        let dump = |way: Way| -> Result<String> {
            let mut args = vec!["--routines", "--triggers", "--single-transaction", "--hex-blob"];
            if programs == Programs::MySql {
                args.extend(["--set-gtid-purged=OFF", "--column-statistics=0", "--no-tablespaces"]);
            }
            args.push(&schema);
            let output = run((programs, true), way, &args, None)?;
            ensure!(output.errors.is_empty(), "the dump says: {}", output.errors);
            ensure!(output.out.contains("CREATE TABLE `kinds`"), "no dump: {}", output.out);
            let comment = |line: &&str| !line.starts_with("-- ");
            Ok(output.out.lines().filter(comment).map(|line| format!("{line}\n")).collect())
        };
        let expected = dump(direct)?;
        ensure!(dump(proxied)? == expected, "the dump through the proxy is another");

        let folder = trunkline_testkit::TempFolder::new("dump")?;
        let file = folder.path().join("dump.sql");
        std::fs::write(&file, &expected)?;
        servers::fresh_schema(server, &schema)?;
        let loaded = run(client, proxied, &[&schema], Some(&file))?;
        ensure!(loaded.errors.is_empty(), "loading it: {}", loaded.errors);
        ensure!(dump(direct)? == expected, "what was loaded through the proxy is another");
        Ok(())
    })
}

mod client_mariadb {
    use super::*;

    #[test]
    fn on_mariadb() -> Result<()> {
        client_prints_the_same(Programs::MariaDb, Flavour::MariaDb)
    }

    #[test]
    fn on_mysql() -> Result<()> {
        client_prints_the_same(Programs::MariaDb, Flavour::MySql)
    }

    #[test]
    fn dump_on_mariadb() -> Result<()> {
        dump_comes_back(Programs::MariaDb, Flavour::MariaDb)
    }
}

mod client_mysql {
    use super::*;

    #[test]
    fn on_mysql() -> Result<()> {
        client_prints_the_same(Programs::MySql, Flavour::MySql)
    }

    #[test]
    fn dump_on_mysql() -> Result<()> {
        dump_comes_back(Programs::MySql, Flavour::MySql)
    }
}

/// The names of the rows that these tests have in `KNOWN.md`.
pub const NAMES: [&str; 2] = ["client_mariadb", "client_mysql"];
