//! `cargo xtask servers`: the real servers that tests, demo and benches start.
//!
//! | what | from | without it |
//! |---|---|---|
//! | MariaDB, HAProxy, sysbench | the distribution's packages | nothing works: exit code 1 |
//! | Prometheus | the distribution's packages | one test is skipped, loudly |
//! | a collector of OpenTelemetry | its Go modules (`e2e/collector`), where there is Go | its tests are skipped, loudly |
//! | MySQL, and a later MariaDB with `parsec` | Debian trees in the servers folder (`TRUNKLINE_SERVERS`), made by debootstrap | their tests are skipped, loudly |

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use trunkline_testkit::{
    MariaDbTree, MySqlTree, collector_program, find_program, mysql_available, servers_dir,
};

use crate::run::{first_line, step, succeeds};
use crate::workspace_root;

/// A program and the package that holds it.
const NEEDED: [(&str, &str); 6] = [
    ("mariadbd", "mariadb-server"),
    ("mariadb", "mariadb-client"),
    ("sysbench", "sysbench"),
    ("haproxy", "haproxy"),
    ("redis-server", "redis-server"),
    ("rsync", "rsync"),
];

/// A program that one test needs, and the package that holds it: tests are skipped without it.
const WISHED: [(&str, &str); 1] = [("prometheus", "prometheus")];

/// A tree of a server beside the distribution's packages.
struct Wanted {
    /// What it is called in messages.
    title: &'static str,
    /// Its folder in the servers folder.
    name: &'static str,
    /// What it holds beside a minimal system.
    packages: &'static str,
    suite: &'static str,
    /// The server within it.
    program: &'static str,
    /// Why there is none that runs here.
    is_missing: fn() -> Result<(), String>,
}

const TREES: [Wanted; 2] = [
    Wanted {
        title: "MySQL",
        name: "mysql",
        packages: "mysql-server-core,mysql-client-core,mysql-router",
        // The only suite that has it.
        suite: "sid",
        program: "usr/sbin/mysqld",
        is_missing: || mysql_available().map(drop),
    },
    Wanted {
        title: "a later MariaDB",
        name: "mariadb",
        packages: "mariadb-server,mariadb-client-core,libmariadb3",
        suite: "trixie",
        program: "usr/sbin/mariadbd",
        is_missing: || MariaDbTree::find().map(drop),
    },
];
/// How often a long step shows that it lives.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// Installs packages without starting their services: `policy-rc.d` is Debian's own way to say so,
/// and it is put back as it was. A repository that can't be reached need not be the one we need.
const INSTALL: &str = r#"
set -eu
policy=/usr/sbin/policy-rc.d
code=0
[ ! -x "$policy" ] || "$policy" mariadb start >/dev/null 2>&1 || code=$?
if [ "$code" -ne 101 ]; then
    [ ! -e "$policy" ] || mv "$policy" "$policy.trunkline"
    trap 'rm -f "$policy"; [ ! -e "$policy.trunkline" ] || mv "$policy.trunkline" "$policy"' EXIT
    trap 'exit 130' INT TERM HUP
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi
apt-get -q update || echo "apt-get update failed; going on with the lists there are" >&2
apt-get -q -y -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 --no-install-recommends install "$@"
"#;

/// Makes a tree in `$1` (a folder that doesn't exist yet) by way of `$1.partial`.
const MAKE_TREE: &str = r#"
set -eu
tree=$1 suite=$2 packages=$3 program=$4 mirror=$5
rm -rf --one-file-system "$tree.partial"
mkdir -p "$tree.partial"
debootstrap --variant=minbase --include="$packages" "$suite" "$tree.partial" $mirror
rm -rf "$tree.partial"/var/cache/apt/archives/*.deb "$tree.partial"/var/lib/apt/lists/*
rm -rf "$tree.partial"/var/lib/mysql
test -x "$tree.partial/$program"
mv "$tree.partial" "$tree"
"#;

/// How root is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Privilege {
    Root,
    Sudo,
    None,
}

/// Gets the packages that are missing, without MySQL: what the demo and the benches need.
pub fn ensure_mariadb() -> Result<()> {
    ensure_packages(privilege())
}

/// Gets what is missing, and says what it finds and does.
pub fn ensure() -> Result<()> {
    let privilege = privilege();
    ensure_packages(privilege)?;
    let wished = missing_of(&WISHED);
    if !wished.is_empty()
        && let Err(reason) = install(privilege, &wished)
    {
        println!("servers: {reason:#}");
        println!("servers: going on without; tests that need it say SKIPPED");
    }
    for wanted in &TREES {
        if let Err(reason) = ensure_tree(wanted, privilege) {
            println!("servers: {}: {reason:#}", wanted.title);
            println!("servers: going on without; tests that need it say SKIPPED");
        }
    }
    if let Err(reason) = ensure_collector() {
        println!("servers: a collector of OpenTelemetry: {reason:#}");
        println!("servers: going on without; tests that need it say SKIPPED");
    }
    report();
    Ok(())
}

/// Builds the collector from its Go modules, whose checksums are in `go.sum`.
fn ensure_collector() -> Result<()> {
    let Err(reason) = collector_program() else { return Ok(()) };
    let Some(go) = find_program("go") else { bail!("{reason}; there is no Go") };
    let folder = servers_dir().join("otelcol");
    std::fs::create_dir_all(&folder)?;
    let folder = std::path::absolute(folder)?;
    let partial = folder.join("collector.partial");
    let mut command = Command::new(go);
    command.args(["build", "-trimpath", "-ldflags", "-s -w", "-o"]).arg(&partial).arg(".");
    command.current_dir(workspace_root().join("e2e").join("collector"));
    // What is built must be what its sums say; nothing is resolved anew.
    command.env("GOFLAGS", "-mod=readonly").env("CGO_ENABLED", "0");
    step("building a collector of OpenTelemetry (some minutes)", &mut command)?;
    std::fs::rename(&partial, folder.join("collector"))?;
    Ok(())
}

fn ensure_packages(privilege: Privilege) -> Result<()> {
    let missing = missing_packages();
    if missing.is_empty() {
        return Ok(());
    }
    install(privilege, &missing)?;
    let still = missing_packages();
    if !still.is_empty() {
        bail!("still missing after the installation: {}", still.join(" "));
    }
    Ok(())
}

fn missing_packages() -> Vec<&'static str> {
    missing_of(&NEEDED)
}

fn missing_of(programs: &[(&str, &'static str)]) -> Vec<&'static str> {
    let missing = programs.iter().filter(|(program, _)| find_program(program).is_none());
    missing.map(|(_, package)| *package).collect()
}

/// Installs packages of the distribution.
pub(crate) fn install(privilege: Privilege, packages: &[&str]) -> Result<()> {
    let list = packages.join(" ");
    let by_hand = format!(
        "these packages are missing: {list}\nrun this, then try again:\n\n    \
         sudo apt-get update && sudo apt-get install --no-install-recommends -y {list}\n"
    );
    if find_program("apt-get").is_none() {
        bail!("{by_hand}\n(this system has no apt-get: install the like of them its own way)");
    }
    let Some(mut command) = shell_as_root(privilege, INSTALL) else { bail!(by_hand) };
    println!("servers: packages: their services are not started; those that run are left alone");
    if Path::new("/run/systemd/system").exists() {
        println!("servers: packages: systemd starts new ones at the next boot;");
        println!("servers: packages: `systemctl disable mariadb haproxy` prevents that");
    }
    command.args(packages);
    step(&format!("installing {list}"), &mut command)
}

fn ensure_tree(wanted: &Wanted, privilege: Privilege) -> Result<()> {
    let Err(reason) = (wanted.is_missing)() else {
        return Ok(());
    };
    if privilege == Privilege::None {
        bail!("{reason}; neither root nor a sudo that asks no password is at hand");
    }
    if find_program("debootstrap").is_none() {
        install(privilege, &["debootstrap"])?;
    }
    let tree = servers_dir().join(wanted.name);
    if tree.exists() {
        bail!("{} has none that runs here; remove it to have it made anew", tree.display());
    }
    let mirror = std::env::var("TRUNKLINE_DEBIAN_MIRROR").unwrap_or_default();
    let mut command = shell_as_root(privilege, MAKE_TREE).context("no way to be root")?;
    command.arg(std::path::absolute(&tree)?);
    command.args([wanted.suite, wanted.packages, wanted.program, &mirror]);
    std::fs::create_dir_all(servers_dir())?;
    println!("== making {} in {} (two or three minutes)", wanted.title, tree.display());
    let start = Instant::now();
    with_progress(&mut command)?;
    println!("== making {}: done in {:.0} s", wanted.title, start.elapsed().as_secs_f64());
    (wanted.is_missing)().map_err(anyhow::Error::msg)
}

/// Runs a talkative command: now and then one line of it is shown, and all of them when it fails.
fn with_progress(command: &mut Command) -> Result<()> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let output = child.stdout.take().context("no output")?;
    let mut lines = Vec::new();
    let mut shown = Instant::now();
    for line in BufReader::new(output).lines() {
        let line = line?;
        if shown.elapsed() >= PROGRESS_INTERVAL {
            println!("   … {line}");
            shown = Instant::now();
        }
        lines.push(line);
    }
    let status = child.wait()?;
    if !status.success() {
        let from = lines.len().saturating_sub(40);
        let tail = lines.get(from..).unwrap_or_default().join("\n");
        bail!("debootstrap failed ({status}); its last words:\n{tail}");
    }
    Ok(())
}

/// Which versions there are now.
fn report() {
    for (program, package) in NEEDED {
        let Some(path) = find_program(program) else {
            continue;
        };
        // HAProxy alone knows only the short form.
        let flag = if program == "haproxy" { "-v" } else { "--version" };
        let version = first_line(Command::new(&path).arg(flag)).unwrap_or_default();
        println!("servers: {package}: {version}");
    }
    if let Ok(tree) = MySqlTree::find() {
        let version = first_line(tree.command("usr/sbin/mysqld").arg("--version"));
        println!("servers: MySQL tree: {}", version.unwrap_or_default());
    }
    if let Ok(tree) = MariaDbTree::find() {
        let version = first_line(tree.command("usr/sbin/mariadbd").arg("--version"));
        println!("servers: MariaDB tree: {}", version.unwrap_or_default());
    }
}

/// How root is reached here.
pub(crate) fn privilege() -> Privilege {
    if first_line(Command::new("id").arg("-u")).as_deref() == Some("0") {
        Privilege::Root
    } else if succeeds(Command::new("sudo").args(["-n", "true"])) {
        Privilege::Sudo
    } else {
        Privilege::None
    }
}

/// A shell that runs `script` as root; arguments added later are `$1`, `$2`, …
fn shell_as_root(privilege: Privilege, script: &str) -> Option<Command> {
    let mut command = match privilege {
        Privilege::Root => Command::new("env"),
        Privilege::Sudo => {
            let mut command = Command::new("sudo");
            command.args(["-n", "env"]);
            command
        }
        Privilege::None => return None,
    };
    // debootstrap and service scripts lie where a user's PATH doesn't look.
    let path = std::env::var("PATH").unwrap_or_default();
    command.arg(format!("PATH={path}:/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"));
    command.args(["DEBIAN_FRONTEND=noninteractive", "sh", "-c", script, "xtask"]);
    Some(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_valid_shell() {
        for script in [INSTALL, MAKE_TREE] {
            assert!(succeeds(Command::new("sh").args(["-n", "-c", script])));
        }
    }

    #[test]
    fn without_privilege_nothing_is_run() {
        assert!(shell_as_root(Privilege::None, "exit 0").is_none());
    }
}
