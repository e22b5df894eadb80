//! What is in `packaging/` for Prometheus and Grafana: alerts fire when they should, and names are
//! those of `/metrics`.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use trunkline_testkit::{find_program, skipped};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The names of metrics in a text. Those of histograms' buckets end as the histogram does.
fn names_in(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let names = words.filter(|word| word.starts_with("trunkline_"));
    names.map(|name| name.strip_suffix("_bucket").unwrap_or(name)).collect()
}

/// The metrics that there are, as the generated page of the manual has them.
fn metrics() -> Result<String> {
    Ok(fs::read_to_string(root().join("docs/manual/metrics.md"))?)
}

#[test]
fn alerts_fire_when_they_should() -> Result<()> {
    let Some(promtool) = find_program("promtool") else {
        skipped("alerts_fire_when_they_should", "there is no promtool");
        return Ok(());
    };
    let folder = root().join("packaging/prometheus");
    for arguments in
        [["check", "rules", "trunkline.rules.yml"], ["test", "rules", "trunkline.test.yml"]]
    {
        let output = Command::new(&promtool).args(arguments).current_dir(&folder).output()?;
        let said = [output.stdout, output.stderr].concat();
        ensure!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&said));
    }
    Ok(())
}

#[test]
fn alerts_name_metrics_and_states_that_there_are() -> Result<()> {
    let rules = fs::read_to_string(root().join("packaging/prometheus/trunkline.rules.yml"))?;
    let metrics = metrics()?;
    let known = names_in(&metrics);
    let named = names_in(&rules);
    ensure!(named.len() > 10, "{named:?}");
    let unknown: Vec<_> = named.difference(&known).collect();
    ensure!(unknown.is_empty(), "{unknown:?}");
    for state in rules.split("state=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
        ensure!(["ONLINE", "SHUNNED"].contains(&state), "{state}");
    }
    Ok(())
}

#[test]
fn the_dashboard_asks_for_metrics_that_there_are() -> Result<()> {
    let text = fs::read_to_string(root().join("packaging/grafana/trunkline.json"))?;
    let dashboard: Value = serde_json::from_str(&text)?;
    let panels = dashboard.get("panels").and_then(Value::as_array).context("no panels")?;
    ensure!(panels.len() > 10);
    let metrics = metrics()?;
    let known = names_in(&metrics);
    for panel in panels {
        let targets = panel.get("targets").and_then(Value::as_array).context("no targets")?;
        for expression in targets.iter().filter_map(|target| target.get("expr")?.as_str()) {
            let named = names_in(expression);
            ensure!(!named.is_empty(), "{expression}");
            let unknown: Vec<_> = named.difference(&known).collect();
            ensure!(unknown.is_empty(), "{unknown:?} in {expression}");
        }
    }
    Ok(())
}
