//! What a proxy makes of a failover, or of a switchover, that the process before it had begun: each
//! way that the servers may be found.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::{
    failover::{numbers, roles_known, stand, start_auto},
    *,
};

/// What the process before had noted.
fn begun(elected: &Server, lost: &Server, position: &str, switchover: Option<u64>) -> Value {
    json!({
        "format": 1,
        "failovers": [],
        "begun": [{
            "cluster": "shop",
            "elected": elected.address(),
            "lost": lost.address(),
            "position": position,
            "switchover": switchover.map(|sec| json!({ "unix_sec": sec, "runs_events": false })),
        }],
    })
}

/// A proxy begins anew with this note; what it makes of it.
fn restart(proxy: &Trunkline, note: &Value) -> Result<()> {
    let file = proxy.data_folder().with_file_name("state.failovers");
    std::fs::write(file, note.to_string())?;
    proxy.kill_and_restart(&[])
}

fn wait_told(proxy: &Trunkline, text: &str) -> Result<()> {
    wait_until(text, SOON, || Ok(proxy.log().contains(text).then_some(())))
        .with_context(|| proxy.log())
}

fn is_read_only(server: &Server) -> Result<bool> {
    Ok(server.value("SELECT @@global.read_only")? != Some("0".to_owned()))
}

#[test]
fn each_way_that_a_failover_was_cut_short_is_mended_or_told() -> Result<()> {
    if !is_available(Flavour::MariaDb, "each_way_that_a_failover_was_cut_short") {
        return Ok(());
    }
    let (_replication, servers) = stand(Flavour::MariaDb, 2)?;
    let [one, two, three] = &servers[..] else { anyhow::bail!("not three servers") };
    let proxy = start_auto("state_file = \"{folder}/state\"\n", "", &servers)?;
    roles_known(&proxy, &servers)?;
    let now_sec = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();

    // It was promoted; or somebody has changed what it replicates from.
    restart(&proxy, &begun(one, two, "", None))?;
    wait_told(&proxy, "a failover was cut short: it takes writes")?;
    restart(&proxy, &begun(two, three, "", None))?;
    wait_told(&proxy, "a failover was cut short: somebody has changed what it replicates from")?;

    // It was stopped, and another process has its lock at first.
    two.sql("STOP SLAVE")?;
    let mut other = two.root()?;
    other.sql("SELECT GET_LOCK('trunkline_switchover', 0)")?;
    restart(&proxy, &begun(two, one, "", None))?;
    wait_role(&proxy, one, "writer")?;
    ensure!(!proxy.log().contains("it was not promoted, and replicates again"));
    other.sql("SELECT RELEASE_LOCK('trunkline_switchover')")?;
    wait_told(&proxy, "a failover was cut short: it was not promoted, and replicates again")?;
    client(&proxy, "")?.sql("INSERT INTO mark.number (client, n) VALUES (1, 1)")?;
    wait_until("it follows", SOON, || Ok(numbers(two)?.contains(&(1, 1)).then_some(())))?;

    // An operator wished it, and the old writer was read-only already.
    two.sql("STOP SLAVE")?;
    one.sql("SET GLOBAL read_only = 1")?;
    restart(&proxy, &begun(two, one, "", Some(now_sec)))?;
    wait_told(&proxy, "it was not promoted, and the old writer takes writes again")?;
    ensure!(!is_read_only(one)?);
    wait_role(&proxy, one, "writer")?;

    // So long ago a person may have decided otherwise.
    one.sql("SET GLOBAL read_only = 1")?;
    restart(&proxy, &begun(two, one, "", Some(now_sec - 3_600)))?;
    wait_told(&proxy, "a switchover was cut short: that is long ago: nobody writes")?;
    ensure!(is_read_only(one)? && is_read_only(two)?);

    // Somebody has decided.
    three.sql("STOP SLAVE; RESET SLAVE ALL; SET GLOBAL read_only = 0")?;
    restart(&proxy, &begun(two, one, "", Some(now_sec)))?;
    wait_told(&proxy, "another server takes writes: the old writer is left as it is")?;
    ensure!(is_read_only(one)?);

    // It was about to be promoted, and has more than the old writer.
    two.sql("STOP SLAVE; SET sql_log_bin = 1; CREATE DATABASE errant")?;
    restart(&proxy, &begun(two, one, "0-1-1", None))?;
    wait_told(&proxy, "a failover was cut short: it was about to be promoted with 0-1-1, has ")?;
    ensure!(is_read_only(two)?);
    let stopped = two.root()?.sql("SHOW SLAVE STATUS")?;
    ensure!(stopped.iter().flatten().flatten().any(|cell| cell == "No"), "{stopped:?}");
    Ok(())
}
