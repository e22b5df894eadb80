//! `cargo xtask drivers`: drivers of other languages, and the programs on them that tests run.
//!
//! Each is got by its own ecosystem's tool, in the versions that `e2e/drivers` locks, into the
//! drivers folder (`TRUNKLINE_DRIVERS`, else beside the servers'). What was made from the files as
//! they are is not made again. An ecosystem whose tools are missing is said, and its tests are
//! skipped; one that can't be made although its tools are there is an error.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use trunkline_testkit::{Ecosystem, find_program};

use crate::run::{first_line, step, succeeds};
use crate::servers::{Privilege, install, privilege};

/// How long getting or building one may take.
const SECONDS_MAX: &str = "600";

/// Packages of the distribution that an ecosystem needs beside its tools.
struct Distribution {
    ecosystem: Ecosystem,
    /// A shell line that succeeds when they are there.
    probe: &'static str,
    packages: &'static [&'static str],
}

const DISTRIBUTION: [Distribution; 3] = [
    Distribution {
        ecosystem: Ecosystem::Python,
        // mysqlclient is built against a client library.
        probe: "pkg-config --exists libmariadb || pkg-config --exists mysqlclient",
        packages: &["libmariadb-dev", "pkg-config"],
    },
    Distribution {
        ecosystem: Ecosystem::Php,
        probe: "php -m | grep -qx mysqli && php -m | grep -qx pdo_mysql",
        packages: &["php-cli", "php-mysql"],
    },
    Distribution {
        ecosystem: Ecosystem::Ruby,
        probe: "ruby -e 'require %q(mysql2)'",
        packages: &["ruby", "ruby-mysql2"],
    },
];

/// Gets and builds what is missing or has changed, and says what it finds and does.
pub fn ensure(root: &Path) -> Result<()> {
    let tree = root.join("e2e/drivers");
    install_packages();
    let mut failed = Vec::new();
    for ecosystem in Ecosystem::ALL {
        match ensure_one(ecosystem, &tree) {
            Ok(()) => report(ecosystem),
            Err(Trouble::Missing(what)) => {
                println!("drivers: {}: {what} is missing: its tests are SKIPPED", ecosystem.name());
            }
            Err(Trouble::Failed(error)) => {
                println!("drivers: {}: {error:#}", ecosystem.name());
                failed.push(ecosystem.name());
            }
        }
    }
    if !failed.is_empty() {
        bail!("these drivers could not be got or built: {}", failed.join(" "));
    }
    Ok(())
}

/// Why an ecosystem is not to be had.
enum Trouble {
    /// Not on this machine, and nothing we may install.
    Missing(String),
    /// It should have worked.
    Failed(anyhow::Error),
}

fn ensure_one(ecosystem: Ecosystem, tree: &Path) -> Result<(), Trouble> {
    if let Some(tool) = ecosystem.missing_tool() {
        return Err(Trouble::Missing(tool.to_owned()));
    }
    if let Some(packages) = missing_packages(ecosystem) {
        return Err(Trouble::Missing(packages.join(" ")));
    }
    if ecosystem.is_current(tree) {
        return Ok(());
    }
    let made = make(ecosystem, &tree.join(ecosystem.name()))
        .and_then(|()| ecosystem.mark_current(tree).context("cannot write down what was made"));
    made.map_err(Trouble::Failed)
}

/// Installs the distribution's packages where that is possible; what is missing then is said later.
fn install_packages() {
    let needed = DISTRIBUTION.iter().filter_map(|entry| missing_packages(entry.ecosystem));
    let needed: Vec<&str> = needed.flatten().copied().collect();
    if needed.is_empty() {
        return;
    }
    let privilege = privilege();
    if privilege == Privilege::None {
        println!("drivers: without root these are not installed: {}", needed.join(" "));
    } else if let Err(error) = install(privilege, &needed) {
        println!("drivers: {error:#}");
    }
}

fn missing_packages(ecosystem: Ecosystem) -> Option<&'static [&'static str]> {
    let entry = DISTRIBUTION.iter().find(|entry| entry.ecosystem == ecosystem)?;
    let probe = succeeds(Command::new("sh").args(["-c", entry.probe]));
    (!probe).then_some(entry.packages)
}

/// The command with an end: a registry that does not answer is not waited for all day.
fn limited(command: &Command) -> Command {
    let mut limited = Command::new("timeout");
    limited.args(["--kill-after=10", SECONDS_MAX]);
    limited.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    limited
}

/// Gets the packages and builds the program from the files in `source`.
fn make(ecosystem: Ecosystem, source: &Path) -> Result<()> {
    let place = ecosystem.place();
    std::fs::create_dir_all(&place).with_context(|| format!("cannot make {}", place.display()))?;
    let run = |what: &str, command: &mut Command| {
        let mut command = limited(command);
        step(&format!("{}: {what}", ecosystem.name()), command.current_dir(source))
    };
    match ecosystem {
        Ecosystem::Python => {
            let venv = place.join("venv");
            let _ = std::fs::remove_dir_all(&venv);
            run("a virtual environment", Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
            let mut pip = Command::new(venv.join("bin/python"));
            pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
            run("packages", pip.args(["--requirement", "requirements.txt"]))
        }
        Ecosystem::Go => {
            let mut go = Command::new("go");
            run("building", go.args(["build", "-mod=readonly", "-o"]).arg(place.join("program")))
        }
        Ecosystem::Node => {
            for file in ["package.json", "package-lock.json"] {
                std::fs::copy(source.join(file), place.join(file))?;
            }
            let mut npm = Command::new("npm");
            npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix"]);
            run("packages", npm.arg(&place))
        }
        Ecosystem::Java => {
            let mut maven = Command::new("mvn");
            maven.args(["--batch-mode", "--quiet", "process-classes"]);
            maven.arg(format!("-Dplace={}", std::path::absolute(&place)?.display()));
            run("packages, compiling", &mut maven)
        }
        Ecosystem::Rust => {
            let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
            let mut build = Command::new(cargo);
            build.args(["build", "--locked"]).env("CARGO_TARGET_DIR", place.join("target"));
            run("building (a minute or two)", &mut build)
        }
        Ecosystem::Php | Ecosystem::Ruby => Ok(()),
    }
}

/// Which version there is now.
fn report(ecosystem: Ecosystem) {
    let Some(tool) = ecosystem.tools().first().and_then(|tool| find_program(tool)) else {
        return;
    };
    let flag = if ecosystem == Ecosystem::Go { "version" } else { "--version" };
    let version = first_line(Command::new(tool).arg(flag)).unwrap_or_default();
    println!("drivers: {}: ready ({version})", ecosystem.name());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_input_is_in_the_tree() {
        let tree = crate::workspace_root().join("e2e/drivers");
        for ecosystem in Ecosystem::ALL {
            for input in ecosystem.inputs() {
                let file = tree.join(ecosystem.name()).join(input);
                assert!(file.is_file(), "{} is missing", file.display());
            }
        }
    }
}
