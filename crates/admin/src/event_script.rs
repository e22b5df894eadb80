//! The program that is run for every event of a cluster, with what has happened in its arguments.
//!
//! The words for it are MaxScale's. One program runs at a time, in the order of the events; a
//! program that takes longer than `script_time_max` is ended. Events that leave the list of the
//! last 1,000 before their turn are left out, and that is said.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;
use trunkline_config::{Settings, Snapshot};
use trunkline_stats::{
    Topology,
    topology::{EventRow, MemberRow},
};

use crate::scripts::{Account, Ended, run, run_and_tell};

/// Runs the program for each event for as long as somebody may tell one. `told`: the number of
/// events so far; `topology`: clusters and events as they are now.
pub async fn keep_running(
    mut told: watch::Receiver<u64>,
    snapshots: watch::Receiver<Arc<Snapshot>>,
    topology: impl Fn() -> Topology + Send,
) {
    let mut last = *told.borrow_and_update();
    loop {
        let known = topology();
        let next = known.events.iter().find(|event| event.id > last);
        let Some(event) = next else {
            if told.changed().await.is_err() {
                return;
            }
            continue;
        };
        let left_out = event.id - last - 1;
        if left_out > 0 {
            tracing::warn!("cluster_event_script: {left_out} events were left out, as it is slow");
        }
        last = event.id;
        let snapshot = Arc::clone(&snapshots.borrow());
        let settings = &snapshot.settings;
        let mut words = words(&settings.cluster_event_script, event, &known).into_iter();
        let Some(program) = words.next() else { continue };
        let arguments: Vec<String> = words.collect();
        let name = format!("cluster_event_script, {} of {}", event.event, event.cluster);
        run_and_tell(&name, &program, &arguments, settings).await;
    }
}

/// Runs `fence_script` for a lost writer, with the words of `cluster_event_script`.
///
/// # Errors
/// Why it is not certain that the server was fenced: the program did not end with 0.
pub async fn fence(
    cluster: String,
    server: String,
    topology: &Topology,
    settings: &Settings,
) -> Result<(), String> {
    let (event, evidence) = ("fence".to_owned(), "it is lost, and not fenced".to_owned());
    let event = EventRow { event, cluster, server, evidence, ..EventRow::default() };
    let mut words = words(&settings.fence_script, &event, topology).into_iter();
    let program = words.next().ok_or("fence_script is empty")?;
    let arguments: Vec<String> = words.collect();
    let limit = Duration::from_millis(settings.script_time_max);
    let account = Account::of(settings)?;
    match run(&program, &arguments, account, limit).await {
        Ok(Ended { code: Some(0), .. }) => Ok(()),
        Ok(ended) => {
            let code = ended.code.map_or("a signal".to_owned(), |code| code.to_string());
            let said = ended.complaint.lines().next().unwrap_or_default();
            Err(format!("fence_script ended with {code}: {said}"))
        }
        Err(error) => Err(format!("fence_script {error}")),
    }
}

/// The program and its arguments: words are parted by spaces, and what stands for something is
/// replaced within them. No shell sees them.
fn words(line: &str, event: &EventRow, topology: &Topology) -> Vec<String> {
    let cluster = topology.clusters.iter().find(|it| it.name == event.cluster);
    let servers = cluster.map(|it| it.servers.as_slice()).unwrap_or_default();
    let list = |is_in: fn(&MemberRow) -> bool| {
        let listed = servers.iter().filter(|it| is_in(it)).map(|it| it.address.as_str());
        listed.collect::<Vec<_>>().join(",")
    };
    let meanings = [
        ("$EVENT", event.event.clone()),
        ("$INITIATOR", event.server.clone()),
        ("$CLUSTER", event.cluster.clone()),
        ("$EVIDENCE", event.evidence.clone()),
        ("$MASTERLIST", list(|it| it.role == "writer")),
        ("$SLAVELIST", list(|it| it.role == "reader")),
        ("$NODELIST", list(|it| it.reach == "up")),
        ("$LIST", list(|_| true)),
    ];
    line.split_whitespace().map(|word| filled(word, &meanings)).collect()
}

/// A word with the meanings of what stands for something. What a meaning says is taken as it is.
fn filled(word: &str, meanings: &[(&str, String)]) -> String {
    let mut rest = word;
    let mut filled = String::new();
    while let Some(at) = rest.find('$') {
        let (before, from) = rest.split_at(at);
        filled.push_str(before);
        let found = meanings.iter().find_map(|(name, meaning)| {
            from.strip_prefix(name).map(|behind| (meaning.as_str(), behind))
        });
        let (meaning, behind) = found.unwrap_or_else(|| from.split_at(1));
        filled.push_str(meaning);
        rest = behind;
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn words_are_filled_once_and_stay_one() {
        let event = EventRow {
            event: "new_master".to_owned(),
            server: "10.0.0.1:3306".to_owned(),
            cluster: "shop".to_owned(),
            evidence: "it takes writes; $EVENT `rm -rf /`".to_owned(),
            ..EventRow::default()
        };
        let line = "/bin/tell  --what=$EVENT:$INITIATOR $EVIDENCE $MASTERLIST $SLAVELIST $NODELIST \
                    $LIST $CLUSTER $5 $";
        let both = "10.0.0.1:3306,10.0.0.2:3306";
        assert_eq!(
            words(line, &event, &sample::topology()),
            [
                "/bin/tell",
                "--what=new_master:10.0.0.1:3306",
                "it takes writes; $EVENT `rm -rf /`",
                "10.0.0.1:3306",
                "10.0.0.2:3306",
                both,
                both,
                "shop",
                "$5",
                "$"
            ]
        );
        assert!(words(" ", &event, &sample::topology()).is_empty());
    }
}
