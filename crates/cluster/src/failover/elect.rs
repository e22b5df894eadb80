//! Who takes the place of a lost writer: the server with the most transactions.

use std::collections::BTreeMap;

use trunkline_topology::gtid::{GtidSet, Position};

use crate::{
    HostId,
    switchover::check::{Family, SourceSurvey, Survey, Surveyed, unfit_to_follow},
};

/// What an election goes by.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Election {
    /// The lost writer.
    pub old: HostId,
    /// The transactions that it had when it was asked last, in its own notation.
    pub known: String,
    /// Who was known to write last, also by an earlier process; `None` if nobody is.
    pub last_writer: Option<HostId>,
    /// Who is preferred among those that have equally much, the first one most.
    pub candidates: Vec<HostId>,
    /// Members that an operator works on.
    pub away: Vec<HostId>,
    /// What members are called in messages.
    pub names: BTreeMap<HostId, String>,
}

impl Election {
    /// What a member is called.
    pub fn name(&self, host: HostId) -> String {
        self.names.get(&host).cloned().unwrap_or_else(|| format!("server {}", host.0))
    }
}

/// Who becomes the writer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elected {
    /// The server.
    pub new: HostId,
    /// The transactions that it has, received ones too.
    pub position: String,
    /// The transactions that the lost writer had when it was asked last, and this one lacks.
    pub missing: String,
    /// Replicas of the lost writer that shall replicate from it.
    pub others: Vec<HostId>,
    /// Why others were not taken: the server, and the reason.
    pub passed_over: Vec<(HostId, String)>,
}

/// Why nobody was elected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotElected {
    /// In words.
    pub why: String,
    /// Whether a person has to decide; otherwise it may be tried again.
    pub is_stuck: bool,
}

/// The transactions of a server, received ones too.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Has {
    MariaDb(Position),
    MySql(GtidSet),
}

impl Has {
    fn of(survey: &Survey) -> Option<Self> {
        Some(match survey.family {
            Family::MariaDb => {
                let received = Position::parse(&survey.received).ok()?;
                Self::MariaDb(Position::parse(&survey.position).ok()?.union(&received))
            }
            Family::MySql => {
                let received = GtidSet::parse(&survey.received).ok()?;
                Self::MySql(GtidSet::parse(&survey.position).ok()?.union(&received))
            }
        })
    }

    /// What another one has and this one lacks; empty if nothing.
    fn lacks(&self, other: &Self) -> String {
        match (self, other) {
            (Self::MariaDb(own), Self::MariaDb(other)) => other.beyond(own).join(","),
            (Self::MySql(own), Self::MySql(other)) => other.clone().subtract(own).to_string(),
            (Self::MariaDb(_), Self::MySql(_)) | (Self::MySql(_), Self::MariaDb(_)) => {
                "those of the other family".to_owned()
            }
        }
    }

    fn text(&self) -> String {
        match self {
            Self::MariaDb(position) => position.to_string(),
            Self::MySql(set) => set.to_string(),
        }
    }
}

/// A member that has said everything.
struct Runner<'a> {
    host: HostId,
    survey: &'a Survey,
    has: Has,
    is_near: bool,
    /// Why it can't be the writer.
    unfit: Vec<String>,
}

/// Elects the writer's successor among members that were asked.
///
/// # Errors
/// Somebody else is at it already, nobody can be elected, or the one that could lacks transactions
/// which another one has.
// long: one election, whose parts each go on with what the one before has found.
pub fn elect(election: &Election, members: &[Surveyed]) -> Result<Elected, NotElected> {
    let stuck = |why: String| NotElected { why, is_stuck: true };
    let wait = |why: String| NotElected { why, is_stuck: false };
    let below: Vec<(HostId, &Survey)> = members
        .iter()
        .filter_map(|member| Some((member.host, member.survey.as_ref().ok()?)))
        .filter(|(_, survey)| is_below(election, survey))
        .collect();
    // One that replicates from the lost one is compared like any other.
    let is_unheard = |last: &HostId| below.iter().all(|(host, _)| host != last);
    let last = election.last_writer.filter(|last| *last != election.old);
    if let Some(last) = last.filter(is_unheard) {
        return Err(stuck(format!(
            "{} wrote last, and the replicas have not followed it: bring it back, or promote a \
             server yourself",
            election.name(last)
        )));
    }
    let mut passed_over = Vec::new();
    let mut runners = Vec::new();
    for member in members.iter().filter(|member| member.host != election.old) {
        let survey = match &member.survey {
            Ok(survey) => survey,
            Err(why) => {
                passed_over.push((member.host, format!("it can't be asked: {why}")));
                continue;
            }
        };
        if survey.is_writable && survey.sources.iter().all(|source| !source.runs) {
            return Err(wait(format!("{} takes writes already", election.name(member.host))));
        }
        let Some(has) = Has::of(survey) else {
            let why = "its transactions can't be read".to_owned();
            passed_over.push((member.host, why));
            continue;
        };
        let others = below.iter().filter(|(host, _)| *host != member.host);
        let unfit = unfit(election, member.host, survey, others.map(|(_, survey)| *survey));
        let is_near = member.is_near;
        runners.push(Runner { host: member.host, survey, has, is_near, unfit });
    }
    let below = |runner: &&Runner<'_>| is_below(election, runner.survey);
    let replicas: Vec<&Runner<'_>> = runners.iter().filter(below).collect();
    let oldest = replicas.iter().map(|it| series(it.survey.version)).min().unwrap_or_default();
    let mut fit: Vec<&Runner<'_>> = Vec::new();
    for runner in &replicas {
        let is_newer = series(runner.survey.version) > oldest;
        let mut reasons = runner.unfit.clone();
        if is_newer {
            reasons.push("its version is newer than that of other replicas".to_owned());
        }
        match reasons.is_empty() {
            true => fit.push(runner),
            false => passed_over.push((runner.host, reasons.join("; "))),
        }
    }
    let Some(best) = best(election, &fit) else {
        let reasons: Vec<String> = passed_over
            .iter()
            .map(|(host, why)| format!("{}: {why}", election.name(*host)))
            .collect();
        return Err(stuck(format!("no server can become the writer ({})", reasons.join("; "))));
    };
    for other in &replicas {
        let lacks = best.has.lacks(&other.has);
        if lacks.is_empty() {
            continue;
        }
        let (leader, rival) = (election.name(best.host), election.name(other.host));
        let is_fit = fit.iter().any(|it| it.host == other.host);
        return Err(stuck(match (is_fit, other.has.lacks(&best.has).is_empty()) {
            (true, false) => format!(
                "{leader} and {rival} each have transactions that the other lacks ({lacks}): decide \
                 which one is right, and promote it"
            ),
            (_, _) => format!(
                "{rival} has transactions that no server has which can become the writer ({lacks}): \
                 mend it, or promote a server yourself"
            ),
        }));
    }
    let others = replicas.iter().filter(|it| unfit_to_follow(it.survey).is_none());
    let others = others.map(|it| it.host).filter(|host| *host != best.host).collect();
    let missing = match best.survey.family {
        Family::MariaDb => Position::parse(&election.known).ok().map(Has::MariaDb),
        Family::MySql => GtidSet::parse(&election.known).ok().map(Has::MySql),
    };
    let missing = missing.map(|known| best.has.lacks(&known)).unwrap_or_default();
    Ok(Elected { new: best.host, position: best.has.text(), missing, others, passed_over })
}

/// Of those that nobody is ahead of, the one that is preferred.
fn best<'a>(election: &Election, fit: &[&'a Runner<'a>]) -> Option<&'a Runner<'a>> {
    let is_behind = |one: &Runner<'_>, other: &Runner<'_>| {
        !one.has.lacks(&other.has).is_empty() && other.has.lacks(&one.has).is_empty()
    };
    let leaders = fit.iter().filter(|it| !fit.iter().any(|other| is_behind(it, other)));
    let rank = |host: HostId| {
        let place = election.candidates.iter().position(|it| *it == host);
        place.unwrap_or(usize::MAX)
    };
    let key = |it: &&&Runner<'_>| (rank(it.host), !it.is_near, it.host);
    leaders.min_by_key(key).copied()
}

/// Whether a server replicates from the lost writer.
fn is_below(election: &Election, survey: &Survey) -> bool {
    survey.sources.iter().any(|source| source.host == Some(election.old))
}

/// Why a server can't become the writer, whatever it has.
fn unfit<'a>(
    election: &Election,
    host: HostId,
    survey: &Survey,
    others: impl Iterator<Item = &'a Survey>,
) -> Vec<String> {
    let mut reasons = Vec::new();
    if election.away.contains(&host) {
        reasons.push("it is in maintenance".to_owned());
    }
    if !survey.missing.is_empty() {
        let missing = survey.missing.join(", ");
        reasons.push(format!("the account for switchovers lacks {missing} there"));
    }
    if !survey.logs || !survey.logs_updates {
        reasons.push("it does not log what it replicates".to_owned());
    }
    if !survey.has_gtids {
        reasons.push("its gtid_mode is not ON".to_owned());
    }
    if survey.is_writable {
        reasons.push("its read_only is off".to_owned());
    }
    match survey.sources.as_slice() {
        [source] => reasons.extend(of_source(source)),
        [] => reasons.push("it replicates from nobody".to_owned()),
        [..] => reasons.push("it replicates from several servers".to_owned()),
    }
    let own = own_transactions(election, survey, others);
    if !own.is_empty() {
        reasons.push(format!("it has transactions of its own: {own}"));
    }
    reasons
}

fn of_source(source: &SourceSurvey) -> Vec<String> {
    let mut reasons = Vec::new();
    if !source.applies {
        reasons.push(match source.error.as_str() {
            "" => "it applies nothing".to_owned(),
            error => format!("it applies nothing: {error}"),
        });
    }
    if !source.by_gtid {
        reasons.push("it does not replicate by GTID".to_owned());
    }
    if source.delay_sec > 0 {
        reasons.push(format!("it is delayed on purpose, by {} s", source.delay_sec));
    }
    if !source.filters.is_empty() {
        reasons.push(format!("it does not replicate everything: {}", source.filters.join(", ")));
    }
    if !source.channel.is_empty() {
        reasons.push(format!("its replication has a name (`{}`)", source.channel));
    }
    reasons
}

/// What a replica has committed itself while the lost writer wrote. It may have been a writer
/// before: what the lost one or other replicas of it have, too, is none of that.
fn own_transactions<'a>(
    election: &Election,
    survey: &Survey,
    others: impl Iterator<Item = &'a Survey>,
) -> String {
    match survey.family {
        Family::MariaDb => {
            let read = |text: &str| Position::parse(text).ok().filter(|_| !text.is_empty());
            match (read(&survey.position), read(&survey.received)) {
                (Some(own), Some(received)) => own.beyond(&received).join(","),
                (_, _) => String::new(),
            }
        }
        Family::MySql => {
            let read = |text: &str| GtidSet::parse(text).unwrap_or_default();
            let known = read(&election.known).union(&read(&survey.received));
            let known = others.fold(known, |known, other| known.union(&read(&other.position)));
            read(&survey.position).of_server(&survey.uuid).subtract(&known).to_string()
        }
    }
}

/// What replication cares for of a version.
fn series(version: (u32, u32, u32)) -> (u32, u32) {
    (version.0, version.1)
}
