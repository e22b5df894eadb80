//! Servers that replicate, and clusters by themselves.
//!
//! Some of it stands in `monitor::roles`, too (`advice`): there it is told of a running cluster, in
//! few words, beside its roles; here it is judged from answers alone, with what to do about it.

use crate::{
    facts::{Answers, ClusterFacts, Facts, ServerFacts},
    finding::{Danger, Finding},
};

/// Seconds without a word of the source before a replica notices.
const NET_TIMEOUT_MAX_SEC: u64 = 30;

pub(crate) fn judge(facts: &Facts, server: &ServerFacts, found: &mut Vec<Finding>) {
    let Ok(answers) = &server.answers else { return };
    let mut say = |danger, what: String, advice: &str| {
        found.push(Finding::new(danger, &server.address, what, advice));
    };
    let clusters = facts.clusters.iter();
    let cluster = clusters.clone().find(|it| it.servers.contains(&server.address));
    if let Some(cluster) = cluster.filter(|cluster| cluster.is_replication) {
        of_cluster(cluster, answers, &mut say);
    }
    if facts.settings.has_causal_reads && !has_gtids(answers) {
        let what = "gtid_mode is not ON: causal reads can't know what it has, and go to the writer";
        say(Danger::Warning, what.to_owned(), "switch GTIDs on (gtid_mode = ON)");
    }
    for source in answers.sources.iter().flatten() {
        let host = &source.host;
        if !source.runs {
            let why = match source.error.as_str() {
                "" => String::new(),
                error => format!(" ({error})"),
            };
            let what = format!("its replication from {host} does not run{why}: its reads get old");
            say(Danger::Severe, what, "mend it, or take it out: SHOW REPLICA STATUS says more");
        }
    }
    if answers.replicates() {
        of_replica(server, answers, &mut say);
    }
    let superusers = answers.superusers.iter().flatten();
    for name in superusers.filter(|name| facts.settings.applications.contains(name)) {
        let what = format!(
            "account {name} of the application may write in spite of read_only: on a replica that \
             is a difference that nobody sees"
        );
        let advice = "REVOKE SUPER (MySQL: CONNECTION_ADMIN; MariaDB: READ ONLY ADMIN as well)";
        say(Danger::Warning, what, advice);
    }
}

type Say<'a> = &'a mut dyn FnMut(Danger, String, &str);

fn has_gtids(answers: &Answers) -> bool {
    answers.is_mariadb || answers.text("gtid_mode") == Some("ON")
}

fn of_cluster(cluster: &ClusterFacts, answers: &Answers, say: Say<'_>) {
    let name = &cluster.name;
    if answers.sources.is_none() {
        let what = format!(
            "the monitor's account may not see replication there: cluster {name} does not know who \
             follows whom"
        );
        let advice = match answers.is_mariadb {
            true => "GRANT REPLICA MONITOR, BINLOG MONITOR ON *.* to it",
            false => "GRANT REPLICATION CLIENT ON *.* to it",
        };
        say(Danger::Warning, what, advice);
    }
    if !cluster.fails_over {
        return;
    }
    if answers.is_on("log_bin") == Some(false) {
        let what = format!("it writes no binary log: it can't become the writer of {name}");
        say(Danger::Severe, what, "log_bin in its option file, and a restart");
    }
    if answers.is_on("log_slave_updates").or(answers.is_on("log_replica_updates")) == Some(false) {
        let what = format!(
            "it does not log what it replicates: others can't follow it if it becomes the writer of \
             {name}"
        );
        say(Danger::Severe, what, "log_slave_updates (log_replica_updates) in its option file");
    }
    if !has_gtids(answers) {
        let what = format!("gtid_mode is not ON: a lost writer of {name} can't be replaced");
        say(Danger::Severe, what, "switch GTIDs on (gtid_mode = ON)");
    }
    let semi_sync = ["rpl_semi_sync_source_enabled", "rpl_semi_sync_master_enabled"];
    let is_semi_sync = semi_sync.iter().any(|name| answers.is_on(name) == Some(true));
    if !answers.replicates() && !is_semi_sync {
        let what = format!(
            "it replicates without waiting for anybody: what it committed last is lost when {name} \
             fails over"
        );
        say(Danger::Warning, what, "semi-synchronous replication, with AFTER_SYNC");
    }
}

fn of_replica(server: &ServerFacts, answers: &Answers, say: Say<'_>) {
    let serves_reads = server.pools.iter().any(|pool| !pool.is_writer);
    if answers.is_on("read_only") == Some(false) {
        let what = "it replicates, and read_only is OFF: a write that reaches it is on no other \
                    server";
        let danger = if serves_reads { Danger::Severe } else { Danger::Warning };
        say(danger, what.to_owned(), "SET GLOBAL read_only = ON, and the same in its option file");
    }
    let timeout = answers.number("replica_net_timeout").or(answers.number("slave_net_timeout"));
    if let Some(timeout) = timeout.filter(|timeout| *timeout > NET_TIMEOUT_MAX_SEC) {
        let what = format!(
            "it notices a source that has gone silent after {timeout} s, and is stale so long"
        );
        say(Danger::Note, what, "SET GLOBAL replica_net_timeout (slave_net_timeout) = 4");
    }
    if answers.is_on("event_scheduler") == Some(true) {
        let what = "event_scheduler is ON on a replica: events that are not disabled for replicas \
                    write there";
        say(Danger::Note, what.to_owned(), "SET GLOBAL event_scheduler = OFF there");
    }
    if answers.sources.iter().flatten().any(|source| !source.is_by_gtid) {
        let what = "it replicates by positions of files, not by GTID: after a failover nobody can \
                    be sure what it has";
        let advice = match answers.is_mariadb {
            true => "CHANGE MASTER TO MASTER_USE_GTID = slave_pos",
            false => "CHANGE REPLICATION SOURCE TO SOURCE_AUTO_POSITION = 1",
        };
        say(Danger::Warning, what.to_owned(), advice);
    }
}
