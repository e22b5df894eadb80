//! `trunkline doctor` looks at real servers, and says what is dangerous.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use trunkline_testkit::{Flavour, Replication, TempFolder, mysql_public_key, trunkline_binary};

use crate::stage::{FLAVOURS, USER, is_available, replication, user};

/// What the command found of a configuration, a line for each finding, and whether it was content.
fn examine(config: &str) -> Result<(bool, Vec<String>)> {
    let folder = TempFolder::new("doctor")?;
    let file = folder.path().join("t.toml");
    std::fs::write(&file, config)?;
    let output =
        Command::new(trunkline_binary()?).args(["doctor", "--json"]).arg(&file).output()?;
    let said: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    let found = said.get("findings").and_then(Value::as_array).context("no findings")?;
    let line = |it: &Value| {
        let [danger, about, what] =
            ["danger", "about", "what"].map(|key| it.get(key).and_then(Value::as_str));
        Some(format!("{} {}: {}", danger?, about?, what?))
    };
    Ok((output.status.success(), found.iter().filter_map(line).collect()))
}

fn cluster(replication: &Replication) -> String {
    let key = mysql_public_key().map(|key| format!("server_public_key = \"{}\"\n", key.display()));
    format!(
        "{}listen = [\"127.0.0.1:6033\"]\n[[cluster]]\nname = \"shop\"\nkind = \"replication\"\n\
         writer_hostgroup = 10\nreader_hostgroup = 20\nfailover = \"auto\"\nseeds = [{}]\n{}",
        key.unwrap_or_default(),
        [replication.primary()]
            .into_iter()
            .chain(replication.replicas())
            .map(|server| format!("\"{}\"", server.address()))
            .collect::<Vec<_>>()
            .join(", "),
        user(10)
    )
}

fn has(found: &[String], danger: &str, words: &str) -> bool {
    found.iter().any(|line| line.starts_with(danger) && line.contains(words))
}

fn look(flavour: Flavour) -> Result<()> {
    let replication = replication(flavour, 1)?;
    let (primary, replica) = (replication.primary(), &replication.replicas()[0]);
    let config = cluster(&replication);

    primary.sql("SET GLOBAL sync_binlog = 1, GLOBAL innodb_flush_log_at_trx_commit = 1")?;
    let (_, found) = examine(&config)?;
    ensure!(!found.iter().any(|line| line.starts_with("danger")), "{found:#?}");
    let semi_sync = "it replicates without waiting for anybody";
    ensure!(has(&found, "warning", semi_sync), "{found:#?}");

    primary.sql("SET GLOBAL sync_binlog = 0")?;
    let (stop, start) = match flavour {
        Flavour::MariaDb => ("STOP SLAVE", "START SLAVE"),
        Flavour::MySql => ("STOP REPLICA", "START REPLICA"),
    };
    replica.sql(&format!("{stop}; SET GLOBAL read_only = 0"))?;
    let (is_content, found) = examine(&config)?;
    ensure!(!is_content, "{found:#?}");
    ensure!(has(&found, "danger", "does not run"), "{found:#?}");
    ensure!(has(&found, "danger", "it replicates, and read_only is OFF"), "{found:#?}");
    ensure!(has(&found, "danger cluster shop", "take writes"), "{found:#?}");
    ensure!(has(&found, "warning", "sync_binlog is 0"), "{found:#?}");
    replica.sql(&format!("{start}; SET GLOBAL read_only = 1"))?;

    let privilege = match flavour {
        Flavour::MariaDb => "BINLOG REPLAY, SUPER",
        Flavour::MySql => "TRANSACTION_GTID_TAG",
    };
    let marking = format!("commit_outcome = \"auto\"\n{config}");
    let lacking = "may not mark its connections (error ";
    let (_, found) = examine(&marking)?;
    ensure!(!has(&found, "warning", lacking), "{found:#?}");
    primary.sql(&format!("REVOKE {privilege} ON *.* FROM {USER}"))?;
    let (_, found) = examine(&marking)?;
    ensure!(has(&found, &format!("warning {}", primary.address()), lacking), "{found:#?}");

    let gone = replica.address();
    let strange = config.replace("password = \"", "password = \"not ");
    let (is_content, found) = examine(&strange)?;
    ensure!(
        !is_content && has(&found, &format!("danger {gone}"), "could not be asked"),
        "{found:#?}"
    );
    Ok(())
}

#[test]
fn what_is_dangerous_of_a_cluster_is_told() -> Result<()> {
    for flavour in FLAVOURS {
        if is_available(flavour, "what_is_dangerous_of_a_cluster_is_told") {
            look(flavour).with_context(|| format!("{flavour:?}"))?;
        }
    }
    Ok(())
}
