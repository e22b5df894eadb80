//! `trunkline bundle` has what a bug report needs, and no secret.

use std::{
    collections::BTreeSet,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{TempFolder, Trunkline, trunkline_binary};

use crate::backends::{self, Config, PASSWORD};
use crate::wire::Wire;

/// Each is planted once, in another place.
const SECRETS: [(&str, &str); 17] = [
    ("clear password", "planted-clear-pa55"),
    ("password in a file", "planted-in-a-file"),
    ("password before", "planted-retained"),
    ("password of the account on servers", "planted-backend"),
    ("native hash", "*6BB4837EB74329105EE4568DDA7DC67ED2CA2AD9"),
    ("sha256 hash", "$5$plantedsaltplantedsa$"),
    ("ed25519 key", "ZIgUREUg5PVgQ6LskhXmO+eZLS0nC8be6HPjYWR4YJY"),
    ("token", "planted-api-token"),
    ("token of statistics", "planted-stats-token"),
    ("password of the monitor", "planted-monitor"),
    ("comment of the file", "planted-in-the-comment"),
    ("comment of a rule", "planted-of-the-rule"),
    ("text of a rule", "planted-for-the-client"),
    ("value in a pattern", "planted-in-a-pattern"),
    ("value at each connect", "planted-init-connect"),
    ("value in a server's error", "planted-duplicate"),
    ("value of a statement", "planted-value"),
];

const PLANTED: &str = r#"
# planted-in-the-comment
[[user]]
name = "native"
password_hash = "*6BB4837EB74329105EE4568DDA7DC67ED2CA2AD9"
default_hostgroup = 10
[[user]]
name = "ed"
password_hash = "ZIgUREUg5PVgQ6LskhXmO+eZLS0nC8be6HPjYWR4YJY"
backend_user = "bundled"
backend_password = "planted-backend"
default_hostgroup = 10
[[user]]
name = "filed"
password_file = "PASSWORD_FILE"
default_hostgroup = 10
[[user]]
name = "cleartext"
password = "planted-clear-pa55"
retained_password = "planted-retained"
default_hostgroup = 10
[[user]]
name = "sha"
password_hash = "$5$plantedsaltplantedsa$cmNCdHOaeUEIKmU3yBeRLhW4rcDcC3ZLwBaKvHYqfm5"
default_hostgroup = 10
[[rule]]
id = 7
match_pattern = "^SELECT 'planted-in-a-pattern'"
error_msg = "no: planted-for-the-client"
comment = "planted-of-the-rule"
apply = true
"#;

/// The archive of a proxy, unpacked: every byte of it, and the names of its files.
fn bundled(proxy: &Trunkline, arguments: &[&str]) -> Result<(Vec<u8>, BTreeSet<String>, String)> {
    let folder = TempFolder::new("bundle")?;
    let file = folder.path().join("b.tar.gz");
    let output = Command::new(trunkline_binary()?)
        .args(["bundle", "--timeout", "5"])
        .args(arguments)
        .arg("-o")
        .arg(&file)
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&output.stderr),
        proxy.log()
    );
    let archive = unpacked(&file)?;
    let listed = tar("-tzf", &file)?;
    let names = String::from_utf8(listed)?;
    let names = names.lines().filter_map(|line| Some(line.split_once('/')?.1.to_owned()));
    Ok((archive, names.collect(), said))
}

fn unpacked(file: &Path) -> Result<Vec<u8>> {
    let output = Command::new("gzip").arg("-dc").stdin(std::fs::File::open(file)?).output()?;
    ensure!(output.status.success(), "gzip does not read it");
    Ok(output.stdout)
}

fn tar(how: &str, file: &Path) -> Result<Vec<u8>> {
    let output = Command::new("tar").arg(how).arg(file).stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "tar does not read it");
    Ok(output.stdout)
}

fn has(archive: &[u8], text: &str) -> bool {
    archive.windows(text.len()).any(|window| window == text.as_bytes())
}

fn ensure_clean(archive: &[u8]) -> Result<()> {
    let text = || String::from_utf8_lossy(archive).into_owned();
    for (what, secret) in SECRETS {
        if has(archive, secret) {
            let text = text();
            let around = text.lines().filter(|line| line.contains(secret));
            anyhow::bail!("{what}: {:#?}", around.collect::<Vec<_>>());
        }
    }
    ensure!(!has(archive, PASSWORD), "the password of clients");
    Ok(())
}

#[test]
// long: one story, each part of which goes on from the one before.
fn an_archive_for_a_bug_report_has_no_secret() -> Result<()> {
    let Some(server) = backends::mariadb("an_archive_for_a_bug_report")? else { return Ok(()) };
    backends::account(server, "bundled")?;
    let folder = TempFolder::new("bundle-secrets")?;
    let password_file = folder.path().join("password");
    std::fs::write(&password_file, "planted-in-a-file\n")?;
    let settings = "http_api_token = \"planted-api-token\"\n\
                    http_api_stats_token = \"planted-stats-token\"\n\
                    monitor_password = \"planted-monitor\"\n\
                    allow_open_files = true\n";
    let planted = PLANTED.replace("PASSWORD_FILE", &password_file.display().to_string());
    let config = Config::new(settings, server).user("bundled").more(&planted);
    let proxy = Trunkline::start_database(config.text())?;

    let mut client = Wire::login(&proxy, "bundled", PASSWORD, "bundled")?;
    client.one("CREATE TABLE t (a VARCHAR(40) PRIMARY KEY)")?;
    client.one("INSERT INTO t VALUES ('o''planted-duplicate')")?;
    client.fails("INSERT INTO t VALUES ('o''planted-duplicate')")?;
    client.fails("SELECT 'planted-in-a-pattern'")?;
    client.one("SELECT a, 'planted-value' FROM t")?;
    let mut stmt = proxy.connect("bundled", PASSWORD, "bundled")?;
    stmt.sql("SELECT a FROM t WHERE a <> 'planted-value'")?;
    let mut admin = trunkline_testkit::SqlClient::tcp(proxy.admin_port(), "admin", "admin", "")?;
    admin.sql(
        "INSERT INTO scheduler (id, active, interval_ms, filename, arg1) \
         VALUES (1, 0, 100000, '/bin/true', 'planted-value')",
    )?;
    admin.sql("LOAD SCHEDULER TO RUNTIME")?;
    admin.sql("SET admin-stats_credentials = 'stats:stats;look:planted-stats-token'")?;
    admin.sql("LOAD ADMIN VARIABLES TO RUNTIME")?;
    admin.sql(
        "UPDATE global_variables SET variable_value = 'SET @a = ''planted-init-connect''' \
         WHERE variable_name = 'mysql-init_connect'",
    )?;
    admin.sql("LOAD MYSQL VARIABLES TO RUNTIME")?;
    admin.sql("SAVE ADMIN VARIABLES TO DISK")?;

    // On the machine itself: over the control socket, and from the database's file.
    let data = proxy.data_folder();
    let data = data.to_str().context("a path")?;
    let (archive, names, said) = bundled(&proxy, &["-D", data])?;
    ensure_clean(&archive)?;
    ensure!(!said.contains("missing"), "{said}");
    for name in [
        "README.txt",
        "version.txt",
        "machine.txt",
        "kernel.txt",
        "process.txt",
        "configuration.txt",
        "doctor.txt",
        "status.json",
        "digests.json",
        "metrics.txt",
        "sessions.json",
        "topology.json",
        "events.json",
        "log.txt",
        "tables/runtime_mysql_servers.txt",
        "tables/runtime_mysql_users.txt",
        "tables/runtime_mysql_query_rules.txt",
        "tables/runtime_global_variables.txt",
        "tables/runtime_scheduler.txt",
        "tables/stats_mysql_errors.txt",
        "tables/config_history.txt",
    ] {
        ensure!(names.contains(name), "{name} is not in {names:?}");
    }
    // What is left can be worked with.
    for told in [
        "match_pattern = \"^SELECT '?'\"",
        "username = \"bundled\"",
        "? FROM t",
        "Duplicate entry '?'",
        "serving 1 server",
        &server.address(),
        "net.core.somaxconn = ",
        "trunkline_statements_total",
    ] {
        ensure!(has(&archive, told), "{told} is not there");
    }

    // From elsewhere: with the token.
    let url = format!("http://127.0.0.1:{}", proxy.http_port());
    let (archive, names, said) = bundled(&proxy, &["--url", &url, "--token", "planted-api-token"])?;
    ensure_clean(&archive)?;
    ensure!(names.contains("tables/runtime_mysql_users.txt"), "{said} {names:?}");
    ensure!(!names.contains("configuration.txt") && names.contains("errors.txt"), "{names:?}");
    Ok(())
}

#[test]
fn an_archive_is_made_without_a_proxy_and_of_a_wrong_file() -> Result<()> {
    let folder = TempFolder::new("bundle-wrong")?;
    let file = folder.path().join("t.toml");
    std::fs::write(
        &file,
        "http_listen = \"127.0.0.1:1\"\n[[user]]\npassword = \"planted-clear-pa55\n",
    )?;
    let output = folder.path().join("b.tar.gz");
    let made = Command::new(trunkline_binary()?)
        .args(["bundle", "-c"])
        .arg(&file)
        .arg("-o")
        .arg(&output)
        .output()?;
    ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let archive = unpacked(&output)?;
    ensure_clean(&archive)?;
    ensure!(has(&archive, "it is wrong:") && has(&archive, "errors.txt"), "what is wrong is told");
    // An archive that is there is not overwritten.
    let again = Command::new(trunkline_binary()?)
        .args(["bundle", "-c"])
        .arg(&file)
        .arg("-o")
        .arg(&output)
        .output()?;
    ensure!(!again.status.success(), "it was overwritten");
    Ok(())
}
