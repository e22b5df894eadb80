//! `/sd`: Prometheus gets the servers, and sees what becomes of them.

use std::process::Command;

use trunkline_testkit::{find_program, skipped};

use super::*;

fn targets(proxy: &Trunkline) -> Result<Vec<Value>> {
    let (status, body) = proxy.http("/sd")?;
    ensure!(status == 200, "{status}: {body}");
    serde_json::from_str(&body).with_context(|| body)
}

/// The labels of a server's entries.
fn labels(proxy: &Trunkline, server: &Server) -> Result<Vec<Value>> {
    let address = server.address();
    let mut groups = targets(proxy)?;
    groups.retain(|group| group["targets"] == serde_json::json!([address]));
    Ok(groups.iter().map(|group| group["labels"].clone()).collect())
}

/// Waits until some entry of a server has this label.
fn wait_label(proxy: &Trunkline, server: &Server, label: &str, wanted: &str) -> Result<Value> {
    let label = format!("__meta_trunkline_{label}");
    let what = format!("{label} of {} is {wanted}", server.address());
    wait_until(&what, SOON, || {
        let mut entries = labels(proxy, server)?.into_iter();
        Ok(entries.find(|labels| labels[&label] == wanted))
    })
}

#[test]
fn prometheus_gets_servers_and_sees_one_go() -> Result<()> {
    if !is_available(Flavour::MariaDb, "prometheus_gets_servers_and_sees_one_go") {
        return Ok(());
    }
    let replication = replication(Flavour::MariaDb, 1)?;
    let (primary, replica) = (replication.primary(), &replication.replicas()[0]);
    let alone = crate::stage::start(Flavour::MariaDb, Options::default())?;
    let proxy = Trunkline::start(&format!(
        "workers = 2\nmonitor_account = \"{USER}\"\nmonitor_read_only_interval = 200\n\
         monitor_ping_interval = 100\n[[cluster]]\nname = \"shop\"\nkind = \"replication\"\n\
         writer_hostgroup = 10\nreader_hostgroup = 20\nseeds = [\"{}\"]\n\
         [[server]]\nhostgroup = 30\naddress = \"{}\"\n{}",
        primary.address(),
        alone.address(),
        user(10)
    ))?;
    // The replica is in no file: it was discovered.
    let read = wait_label(&proxy, replica, "hostgroup", "20")?;
    ensure!(read["__meta_trunkline_role"] == "reader", "{read}");
    ensure!(read["__meta_trunkline_cluster"] == "shop", "{read}");
    ensure!(labels(&proxy, replica)?.len() == 1, "it stands by for hostgroup 10");
    wait_label(&proxy, replica, "status", "ONLINE")?;
    let write = wait_label(&proxy, primary, "status", "ONLINE")?;
    ensure!(write["__meta_trunkline_hostgroup"] == "10", "{write}");
    ensure!(write["__meta_trunkline_role"] == "writer", "{write}");
    let of_none = wait_label(&proxy, &alone, "status", "ONLINE")?;
    ensure!(of_none["__meta_trunkline_hostgroup"] == "30", "{of_none}");
    ensure!(of_none.get("__meta_trunkline_cluster").is_none(), "{of_none}");
    check_with_promtool(&proxy, &[primary, replica], &alone)?;
    replica.kill_hard()?;
    alone.kill_hard()?;
    let gone = wait_label(&proxy, replica, "reach", "down")?;
    ensure!(gone["__meta_trunkline_cluster"] == "shop", "{gone}");
    wait_label(&proxy, &alone, "status", "SHUNNED")?;
    let stays = wait_label(&proxy, primary, "status", "ONLINE")?;
    ensure!(stays["__meta_trunkline_reach"] == "up", "{stays}");
    Ok(())
}

/// The manual's example makes of them what mysqld_exporter wants.
fn check_with_promtool(proxy: &Trunkline, members: &[&Server], alone: &Server) -> Result<()> {
    let Some(promtool) = find_program("promtool") else {
        skipped("prometheus_gets_servers_and_sees_one_go", "there is no promtool");
        return Ok(());
    };
    let manual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/manual/metrics.md");
    let manual = fs::read_to_string(manual)?;
    let example = manual.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next());
    let address = format!("127.0.0.1:{}/sd", proxy.http_port());
    let example = example.context("no example")?.replace("127.0.0.1:6070/sd", &address);
    ensure!(example.contains(&address), "{example}");
    let folder = TempFolder::new("targets")?;
    let file = folder.path().join("prometheus.yml");
    fs::write(&file, example)?;
    // It looks for as long as it may, so it may for a moment, and again if that was too little.
    let found = wait_until("promtool finds the servers", 3 * SOON, || {
        let found = discovered(&promtool, &file)?;
        Ok((found.len() == members.len() + 1).then_some(found))
    })?;
    let shop = members.iter().map(|member| (member.address(), Value::from("shop")));
    for (address, cluster) in shop.chain([(alone.address(), Value::Null)]) {
        let of = found.iter().find(|it| it["labels"]["__param_target"] == *address);
        let labels = &of.with_context(|| format!("no {address}: {found:?}"))?["labels"];
        ensure!(labels["__address__"] == "127.0.0.1:9104", "{labels}");
        ensure!(labels["cluster"] == cluster && labels["instance"] == *address, "{labels}");
    }
    Ok(())
}

/// The targets of the job `mysql`, before and after relabelling.
fn discovered(promtool: &Path, file: &Path) -> Result<Vec<Value>> {
    let output = Command::new(promtool)
        .args(["check", "service-discovery", "--timeout=2s"])
        .arg(file)
        .arg("mysql")
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    // Without targets it says so, and no JSON.
    Ok(serde_json::from_str(&said).unwrap_or_default())
}
