//! The clients that people have.

use std::process::Command;

use super::*;
use trunkline_testkit::{MySqlTree, find_program, skipped};

/// Runs a client with this input; what it printed.
fn run(mut command: Command, proxy: &Trunkline, name: &str, script: &str) -> Result<String> {
    command
        .args(["--host=127.0.0.1", &format!("--port={}", proxy.port())])
        .args([&format!("--user={name}"), &format!("--password={PASSWORD}")])
        .args(["--batch", "--skip-column-names", "--max-allowed-packet=64M"]);
    command.arg(format!("--execute={script}")).arg(name);
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {error}\n{}", proxy.log());
    Ok(String::from_utf8(output.stdout)?)
}

/// Short and long answers, and one of 20 MB; and whether the client says that it compresses.
fn check(program: impl Fn() -> Command, proxy: &Trunkline, name: &str, what: &str) -> Result<()> {
    let script = "SELECT 'first'; SELECT REPEAT('x', 300000); SHOW VARIABLES LIKE 'port%'; \
                  SELECT LENGTH(REPEAT('y', 20000000)), REPEAT('y', 20000000); SELECT 'last'";
    let output = run(program(), proxy, name, script).with_context(|| what.to_owned())?;
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines.first(), Some(&"first"), "{what}");
    assert_eq!(lines.get(1).map(|line| line.len()), Some(300_000), "{what}");
    assert_eq!(lines.last(), Some(&"last"), "{what}");
    assert!(lines.iter().any(|line| line.len() > 20_000_000), "{what}");
    let status = run(program(), proxy, name, "status")?;
    let says = status.lines().any(|line| line.contains("Compress"));
    assert!(says, "{what} does not compress:\n{status}");
    Ok(())
}

#[test]
fn command_line_clients_compress() -> Result<()> {
    let test = "command_line_clients_compress";
    let Some(server) = backends::mariadb(test)? else { return Ok(()) };
    let settings = "max_allowed_packet = 67108864";
    let proxy = proxy_for(server, "programs", settings, "compression = 1\n")?;
    match find_program("mariadb") {
        Some(program) => {
            let with = || {
                let mut command = Command::new(&program);
                command.args(["--no-defaults", "--compress"]);
                command
            };
            check(with, &proxy, "programs", "mariadb --compress")?;
        }
        None => skipped(test, "no mariadb client"),
    }
    let tree = match MySqlTree::find() {
        Ok(tree) => tree,
        Err(reason) => {
            skipped(test, &reason);
            return Ok(());
        }
    };
    for algorithms in ["zlib", "zstd", "zstd,zlib", "zstd,uncompressed"] {
        let with = || {
            let mut command = tree.command("usr/bin/mysql");
            command.arg("--no-defaults");
            command.arg(format!("--compression-algorithms={algorithms}"));
            // Lets `status` be a command of the client.
            command.arg("--commands");
            command.arg("--zstd-compression-level=7").arg("--get-server-public-key");
            command
        };
        check(with, &proxy, "programs", &format!("mysql --compression-algorithms={algorithms}"))?;
    }
    Ok(())
}
