//! What is in the way of a switchover, and who is promoted.

use crate::HostId;
use trunkline_topology::gtid::Position;

/// Seconds that a candidate may be behind.
const LAG_MAX_SEC: u64 = 10;
/// A transaction that is open for so long is worth a word, s.
const LONG_SEC: u64 = 5;

/// A family of servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Family {
    /// MariaDB.
    #[default]
    MariaDb,
    /// MySQL.
    MySql,
}

/// What a server says before a switchover.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Survey {
    /// Its family.
    pub family: Family,
    /// Its version.
    pub version: (u32, u32, u32),
    /// Whether it writes a binary log.
    pub logs: bool,
    /// Whether it logs what it applies.
    pub logs_updates: bool,
    /// Whether it has GTIDs.
    pub has_gtids: bool,
    /// The transactions that it has, as its binary log has them.
    pub position: String,
    /// The transactions that it has received from its sources, applied or not.
    pub received: String,
    /// MySQL's `server_uuid`.
    pub uuid: String,
    /// Whether it takes writes.
    pub is_writable: bool,
    /// Transactions that the writer lacks, where the writer was asked.
    pub errant: String,
    /// Privileges that the account lacks.
    pub missing: Vec<String>,
    /// Whom it replicates from.
    pub sources: Vec<SourceSurvey>,
    /// Whether events are run.
    pub runs_events: bool,
    /// How long transactions have been open that have changed something, s.
    pub open_sec: Vec<u64>,
    /// Whether another switchover has been noted on it.
    pub is_claimed: bool,
    /// What it is in a group; `None` for one that is in none.
    pub group: Option<GroupSurvey>,
}

/// How a server replicates.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SourceSurvey {
    /// The member that it replicates from; `None` for a server that is no member.
    pub host: Option<HostId>,
    /// Whether both of its threads run.
    pub runs: bool,
    /// Whether the thread runs that applies what was received.
    pub applies: bool,
    /// How far behind it is, s.
    pub lag_sec: Option<u64>,
    /// How far behind it has to be, s.
    pub delay_sec: u64,
    /// What it does not replicate.
    pub filters: Vec<String>,
    /// Its last error.
    pub error: String,
    /// Whether it replicates by GTID.
    pub by_gtid: bool,
    /// The name of its channel or connection.
    pub channel: String,
}

/// What a server is in its group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupSurvey {
    /// Whether it is online.
    pub is_online: bool,
    /// Whether the group has one primary.
    pub has_one_primary: bool,
}

/// A member, and what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Surveyed {
    /// The member.
    pub host: HostId,
    /// What it says, or why it says nothing.
    pub survey: Result<Survey, String>,
    /// Whether it is in the proxy's zone, or none is known.
    pub is_near: bool,
}

/// What is in the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The server that it is about; `None` for the cluster.
    pub host: Option<HostId>,
    /// Whether nothing is done because of it.
    pub blocks: bool,
    /// What it is, in words.
    pub what: String,
}

/// What a check came to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Checked {
    /// What was found: first what concerns everybody, then of each server.
    pub findings: Vec<Finding>,
    /// Who is promoted; `None` if nobody can be.
    pub candidate: Option<HostId>,
    /// Replicas of the writer that shall replicate from another one.
    pub others: Vec<HostId>,
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// Who writes.
    pub writer: HostId,
    /// Who shall; `None` for the one that fits best.
    pub to: Option<HostId>,
    /// Why nobody could replicate as the account for that, if so.
    pub account: Result<(), String>,
    /// Whether the servers are a group.
    pub is_group: bool,
}

/// Judges what all members have said.
pub fn check(wish: &Wish, members: &[Surveyed]) -> Checked {
    let mut checked = Checked::default();
    let Some(writer) = members.iter().find(|member| member.host == wish.writer) else {
        return checked;
    };
    of_writer(wish, writer, &mut checked);
    if writer.survey.as_ref().is_ok_and(|survey| survey.is_claimed) {
        checked.findings.push(claimed(wish.writer));
    }
    let mut good: Vec<(&Surveyed, &Survey)> = Vec::new();
    for member in members.iter().filter(|member| member.host != wish.writer) {
        let reasons = match (&member.survey, &writer.survey) {
            (Err(why), _) => vec![format!("it can't be asked: {why}")],
            (Ok(survey), Ok(writer)) => of_candidate(wish, survey, writer),
            (Ok(_), Err(_)) => Vec::new(),
        };
        if let (true, Ok(survey)) = (reasons.is_empty(), &member.survey) {
            good.push((member, survey));
        }
        if member.survey.as_ref().is_ok_and(|survey| survey.is_claimed) {
            checked.findings.push(claimed(member.host));
        }
        let blocks = wish.to == Some(member.host);
        let host = Some(member.host);
        checked.findings.extend(reasons.into_iter().map(|what| Finding { host, blocks, what }));
        let is_below = |source: &SourceSurvey| source.host == Some(wish.writer);
        if let Ok(survey) = &member.survey
            && survey.sources.iter().any(is_below)
        {
            checked.others.push(member.host);
            if let Some(what) = unfit_to_follow(survey) {
                let host = Some(member.host);
                checked.findings.push(Finding { host, blocks: true, what });
            }
        }
    }
    let version = writer.survey.as_ref().map_or((0, 0, 0), |writer| writer.version);
    let wanted = good.iter().filter(|(member, _)| wish.to.is_none_or(|to| to == member.host));
    let best = wanted.min_by_key(|(member, survey)| {
        let lag = survey.sources.iter().filter_map(|source| source.lag_sec).max();
        (survey.version != version, !member.is_near, lag, member.host)
    });
    let candidate = best.map(|(member, _)| member.host);
    if candidate.is_none() && wish.to.is_none() {
        let what = "no server can become the writer".to_owned();
        checked.findings.push(Finding { host: None, blocks: true, what });
    }
    checked.others.retain(|host| Some(*host) != candidate);
    let newest = good.iter().find(|(member, _)| Some(member.host) == candidate);
    let newer = newest.map(|(_, survey)| survey.version).unwrap_or_default();
    for member in members.iter().filter(|it| Some(it.host) != candidate) {
        if let Ok(survey) = &member.survey
            && series(survey.version) < series(newer)
        {
            let what = "its version is older than the new writer's: it may be unable to replicate \
                        from it";
            let host = Some(member.host);
            checked.findings.push(Finding { host, blocks: true, what: what.to_owned() });
        }
    }
    if !checked.findings.iter().any(|finding| finding.blocks) {
        checked.candidate = candidate;
    }
    checked
}

fn claimed(host: HostId) -> Finding {
    let what = "another proxy is changing roles: it has its lock there".to_owned();
    Finding { host: Some(host), blocks: true, what }
}

/// Why a replica can't be made to replicate from another server.
pub(crate) fn unfit_to_follow(survey: &Survey) -> Option<String> {
    match survey.sources.as_slice() {
        [source] if !source.channel.is_empty() => Some(format!(
            "its replication has a name (`{}`): it can't be repointed",
            source.channel
        )),
        [_, _, ..] => Some("it replicates from several servers: it can't be repointed".to_owned()),
        [] | [_] => None,
    }
}

/// What is said of the writer, and of the cluster.
fn of_writer(wish: &Wish, writer: &Surveyed, checked: &mut Checked) {
    let mut add = |blocks, what: String| {
        checked.findings.push(Finding { host: Some(wish.writer), blocks, what });
    };
    let survey = match &writer.survey {
        Ok(survey) => survey,
        Err(why) => return add(true, format!("the writer can't be asked: {why}")),
    };
    if wish.to == Some(wish.writer) {
        add(true, "it is the writer already".to_owned());
    }
    for what in basics(wish, survey) {
        add(true, what);
    }
    if !survey.sources.is_empty() {
        add(true, "the writer replicates from another server itself".to_owned());
    }
    let long = survey.open_sec.iter().filter(|open_sec| **open_sec >= LONG_SEC);
    let (count, most) = (long.clone().count(), long.max());
    if let Some(most) = most {
        add(
            false,
            format!("{count} transactions are open for long, up to {most} s: they may be ended"),
        );
    }
    if let (Err(why), false) = (&wish.account, wish.is_group) {
        checked.findings.push(Finding { host: None, blocks: true, what: why.clone() });
    }
}

/// What every server must have that takes part.
fn basics(wish: &Wish, survey: &Survey) -> Vec<String> {
    let mut reasons = Vec::new();
    if !survey.missing.is_empty() {
        let missing = survey.missing.join(", ");
        reasons.push(format!("the account for switchovers lacks {missing} there"));
    }
    if wish.is_group {
        return reasons;
    }
    if !survey.logs {
        reasons.push("its log_bin is off".to_owned());
    }
    if !survey.has_gtids {
        reasons.push("its gtid_mode is not ON".to_owned());
    }
    reasons
}

/// Why a server can't become the writer.
fn of_candidate(wish: &Wish, survey: &Survey, writer: &Survey) -> Vec<String> {
    let mut reasons = basics(wish, survey);
    if wish.is_group {
        match &survey.group {
            Some(group) if !group.is_online => reasons.push("it is not ONLINE".to_owned()),
            Some(group) if !group.has_one_primary => {
                reasons.push("the group has several primaries".to_owned());
            }
            None => reasons.push("it is in no group".to_owned()),
            Some(_) => {}
        }
        return reasons;
    }
    if !survey.logs_updates {
        reasons.push("it does not log what it replicates (log_slave_updates)".to_owned());
    }
    let (above, strange): (Vec<_>, Vec<_>) =
        survey.sources.iter().partition(|source| source.host == Some(wish.writer));
    match (above.as_slice(), strange.as_slice()) {
        ([source], []) => reasons.extend(of_source(source)),
        ([], _) => reasons.push("it does not replicate from the writer".to_owned()),
        (_, [_, ..] | []) => {
            reasons.push("it replicates from another server as well".to_owned());
        }
    }
    if survey.family != writer.family {
        reasons.push("it is of the other family".to_owned());
    }
    let errant = match survey.family {
        Family::MySql => survey.errant.clone(),
        Family::MariaDb => {
            match (Position::parse(&survey.position), Position::parse(&writer.position)) {
                (Ok(own), Ok(above)) => own.beyond(&above).join(","),
                (_, _) => {
                    reasons.push("which transactions it has can't be read".to_owned());
                    String::new()
                }
            }
        }
    };
    if !errant.is_empty() {
        reasons.push(format!("it has transactions that the writer has not: {errant}"));
    }
    reasons
}

fn of_source(source: &SourceSurvey) -> Vec<String> {
    let mut reasons = Vec::new();
    if !source.runs {
        let why = match source.error.as_str() {
            "" => String::new(),
            error => format!(": {error}"),
        };
        reasons.push(format!("its replication does not run{why}"));
    }
    if !source.by_gtid {
        reasons.push("it does not replicate by GTID".to_owned());
    }
    if source.delay_sec > 0 {
        reasons.push(format!("it is delayed on purpose, by {} s", source.delay_sec));
    }
    if source.runs && source.lag_sec.is_none_or(|lag_sec| lag_sec > LAG_MAX_SEC) {
        let lag = source.lag_sec.map_or("unknown".to_owned(), |lag_sec| format!("{lag_sec} s"));
        reasons.push(format!("it is too far behind: {lag}"));
    }
    if !source.filters.is_empty() {
        reasons.push(format!("it does not replicate everything: {}", source.filters.join(", ")));
    }
    if !source.channel.is_empty() {
        reasons.push(format!("its replication has a name (`{}`)", source.channel));
    }
    reasons
}

/// What replication cares for of a version.
fn series(version: (u32, u32, u32)) -> (u32, u32) {
    (version.0, version.1)
}
