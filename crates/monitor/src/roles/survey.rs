//! What a server says before a switchover: [`Survey`] for the check, and [`Baggage`], which goes to
//! the new writer.

use std::time::Duration;

use tokio::time::timeout;
use trunkline_catalog::Query;
use trunkline_cluster::{
    HostId,
    facts::{Endpoint, Identity, Source, Thread},
    switchover::check::{Family, GroupSurvey, SourceSurvey, Survey},
};

use super::{
    questions::{Table, Variables, sources_of},
    talk::{Failed, LOCK, Talk, quoted},
};

/// How long a server may take to say everything.
const TIME_MAX: Duration = Duration::from_secs(5);
/// Events that are moved at most.
const EVENTS_MAX: usize = 10_000;
/// What is asked of variables.
const VARIABLES: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'log_bin', \
    'log_slave_updates', 'log_replica_updates', 'gtid_mode', 'gtid_executed', 'gtid_binlog_pos', \
    'event_scheduler', 'server_uuid', 'read_only', 'super_read_only') OR Variable_name LIKE 'rpl_semi_sync_%'";
/// Columns that say what a replica leaves out.
const FILTERS: [&str; 9] = [
    "Replicate_Do_DB",
    "Replicate_Ignore_DB",
    "Replicate_Do_Table",
    "Replicate_Ignore_Table",
    "Replicate_Wild_Do_Table",
    "Replicate_Wild_Ignore_Table",
    "Replicate_Do_Domain_Ids",
    "Replicate_Ignore_Domain_Ids",
    "Replicate_Rewrite_DB",
];

/// Who is a member, as other servers know it.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) host: HostId,
    pub(super) endpoint: Endpoint,
    pub(super) identity: Identity,
}

/// Settings of a server that go with its role.
#[derive(Debug, Clone, Default)]
pub(super) struct Baggage {
    pub(super) family: Family,
    pub(super) version: (u32, u32, u32),
    pub(super) uuid: String,
    pub(super) runs_events: bool,
    /// Events that run there.
    pub(super) events: Vec<ScheduledEvent>,
    /// Events that run on its source.
    pub(super) events_of_source: Vec<ScheduledEvent>,
    /// Variables of semi-synchronous replication.
    pub(super) semi_sync: Vec<(String, String)>,
    /// How it replicates, in words of a statement that makes it.
    pub(super) options: String,
}

/// An event of a server's scheduler.
#[derive(Debug, Clone)]
pub(super) struct ScheduledEvent {
    /// Its schema and name, quoted.
    pub(super) name: String,
    /// Who it runs as, quoted.
    pub(super) definer: String,
    pub(super) sql_mode: String,
    pub(super) charset: String,
    pub(super) collation: String,
}

/// Asks a server. `others` are the positions of servers whose transactions it may lack.
pub(super) async fn survey(
    talk: &mut Talk,
    known: &[Known],
    is_group: bool,
) -> Result<(Survey, Baggage), String> {
    match timeout(TIME_MAX, ask(talk, known, is_group)).await {
        Ok(asked) => asked.map_err(|failed| failed.why),
        Err(_) => {
            talk.forget();
            Err("it does not answer in time".to_owned())
        }
    }
}

async fn ask(
    talk: &mut Talk,
    known: &[Known],
    is_group: bool,
) -> Result<(Survey, Baggage), Failed> {
    let variables = Variables(talk.ask(VARIABLES).await?);
    let family = talk.family().await?;
    let version = version_of(&variables.text("version"));
    let semi_sync = variables.beginning_with("rpl_semi_sync_");
    let mut survey = Survey {
        family,
        version,
        logs: variables.is_on("log_bin"),
        logs_updates: variables.is_on("log_slave_updates")
            || variables.is_on("log_replica_updates"),
        has_gtids: match family {
            Family::MariaDb => true,
            Family::MySql => variables.text("gtid_mode") == "ON",
        },
        position: match family {
            Family::MariaDb => variables.text("gtid_binlog_pos"),
            Family::MySql => variables.text("gtid_executed").replace('\n', ""),
        },
        runs_events: variables.text("event_scheduler") == "ON",
        uuid: variables.text("server_uuid"),
        is_writable: !variables.is_on("read_only"),
        ..Survey::default()
    };
    let mut baggage = Baggage {
        family,
        version,
        uuid: variables.text("server_uuid"),
        runs_events: survey.runs_events,
        semi_sync,
        ..Baggage::default()
    };
    let grants = grants(talk, family).await?;
    survey.missing = missing(&grants, &baggage, is_group);
    let claimed = format!("SELECT IS_USED_LOCK('{LOCK}') IS NOT NULL");
    survey.is_claimed = talk.value(&claimed).await? == "1";
    if is_group {
        survey.group = group(talk).await?;
        return Ok((survey, baggage));
    }
    if survey.missing.is_empty() {
        survey.open_sec = open_sec(talk).await?;
        baggage.events = events(talk, "'ENABLED'").await?;
        let disabled = "'SLAVESIDE_DISABLED', 'REPLICA_SIDE_DISABLED'";
        baggage.events_of_source = events(talk, disabled).await?;
    }
    let status = match family {
        Family::MariaDb => talk.ask("SHOW ALL SLAVES STATUS").await?,
        Family::MySql => talk.ask("SHOW REPLICA STATUS").await?,
    };
    let table = Table(&status);
    let sources = sources_of(&status);
    survey.sources = sources
        .iter()
        .enumerate()
        .map(|(row, source)| source_survey(&table, row, source, known))
        .collect();
    survey.received = received(&table, family);
    baggage.options = options(&table, family);
    Ok((survey, baggage))
}

/// The transactions of each of these that the server lacks; for MySQL.
pub(super) async fn lacking(talk: &mut Talk, positions: &[String]) -> Result<Vec<String>, Failed> {
    let mut lacking = Vec::new();
    for position in positions {
        let position = quoted(position);
        let sql = format!("SELECT GTID_SUBTRACT({position}, @@global.gtid_executed)");
        lacking.push(talk.value(&sql).await?.replace('\n', ""));
    }
    Ok(lacking)
}

/// The transactions that a replica has received from all of its sources.
pub(super) fn received(status: &Table<'_>, family: Family) -> String {
    let column = match family {
        Family::MariaDb => "Gtid_IO_Pos",
        Family::MySql => "Retrieved_Gtid_Set",
    };
    let of_sources = status.rows().filter_map(|row| status.text(row, &[column]));
    let texts: Vec<String> = of_sources.filter(|text| !text.is_empty()).collect();
    texts.join(",").replace('\n', "")
}

fn source_survey(table: &Table<'_>, row: usize, source: &Source, known: &[Known]) -> SourceSurvey {
    let text = |names: &[&str]| table.text(row, names).unwrap_or_default();
    let is_there = |it: &&Known| it.endpoint == source.endpoint;
    let found = known.iter().find(is_there);
    let found = found.or_else(|| known.iter().find(|it| it.identity.is_same(&source.identity)));
    let by_gtid = match text(&["Using_Gtid"]).as_str() {
        "" => text(&["Auto_Position"]) == "1",
        using => using != "No",
    };
    let filters = FILTERS.iter().filter(|name| !text(&[name]).is_empty());
    SourceSurvey {
        host: found.map(|it| it.host),
        runs: source.receives == Thread::Connected && source.applies,
        applies: source.applies,
        lag_sec: source.lag_sec,
        delay_sec: text(&["SQL_Delay"]).parse().unwrap_or_default(),
        filters: filters.map(|name| (*name).to_owned()).collect(),
        error: source.error.clone(),
        by_gtid,
        channel: text(&["Channel_Name", "Connection_name"]),
    }
}

/// How a replica reaches its source, for another one that shall do it in the same way.
fn options(table: &Table<'_>, family: Family) -> String {
    let text = |names: &[&str]| table.text(0, names).unwrap_or_default();
    let retry_sec: u64 = text(&["Connect_Retry"]).parse().unwrap_or(60);
    let is_encrypted = text(&["Source_SSL_Allowed", "Master_SSL_Allowed"]) == "Yes";
    let ca = text(&["Source_SSL_CA_File", "Master_SSL_CA_File"]);
    let word = match family {
        Family::MariaDb => "MASTER",
        Family::MySql => "SOURCE",
    };
    let mut options = format!(", {word}_CONNECT_RETRY={retry_sec}");
    if is_encrypted {
        options.push_str(&format!(", {word}_SSL=1"));
    }
    if is_encrypted && !ca.is_empty() {
        options.push_str(&format!(", {word}_SSL_CA={}", quoted(&ca)));
    }
    if text(&["Get_Source_public_key", "Get_master_public_key"]) == "1" {
        options.push_str(", GET_SOURCE_PUBLIC_KEY=1");
    }
    options
}

async fn group(talk: &mut Talk) -> Result<Option<GroupSurvey>, Failed> {
    let members = talk
        .ask(
            "SELECT MEMBER_STATE, MEMBER_ROLE, MEMBER_ID = @@server_uuid AS IS_OWN \
             FROM performance_schema.replication_group_members",
        )
        .await?;
    let table = Table(&members);
    let text = |row, name: &str| table.text(row, &[name]).unwrap_or_default();
    let own = table.rows().find(|row| text(*row, "IS_OWN") == "1");
    let primaries = table.rows().filter(|row| text(*row, "MEMBER_ROLE") == "PRIMARY").count();
    Ok(own.map(|own| GroupSurvey {
        is_online: text(own, "MEMBER_STATE") == "ONLINE",
        has_one_primary: primaries == 1,
    }))
}

/// How long transactions have been open that have changed something, s.
async fn open_sec(talk: &mut Talk) -> Result<Vec<u64>, Failed> {
    let open = talk
        .ask(
            "SELECT TIMESTAMPDIFF(SECOND, trx_started, NOW()) FROM information_schema.INNODB_TRX \
             WHERE trx_rows_modified > 0 LIMIT 1000",
        )
        .await?;
    let value =
        |row: &Vec<Option<Vec<u8>>>| String::from_utf8_lossy(row.first()?.as_deref()?).parse().ok();
    Ok(open.rows.iter().filter_map(value).collect())
}

/// Events with one of these states, as far as the account sees them.
async fn events(talk: &mut Talk, states: &str) -> Result<Vec<ScheduledEvent>, Failed> {
    let found = talk
        .ask(&format!(
            "SELECT EVENT_SCHEMA, EVENT_NAME, DEFINER, SQL_MODE, CHARACTER_SET_CLIENT, \
             COLLATION_CONNECTION FROM information_schema.EVENTS WHERE STATUS IN ({states}) \
             LIMIT {EVENTS_MAX}"
        ))
        .await?;
    let event = |row: &Vec<Option<Vec<u8>>>| {
        let text = |at: usize| {
            let value = row.get(at)?.as_deref()?;
            Some(String::from_utf8_lossy(value).into_owned())
        };
        let name = |text: &str| format!("`{}`", text.replace('`', "``"));
        let definer = text(2)?;
        let (user, host) = definer.rsplit_once('@')?;
        Some(ScheduledEvent {
            name: format!("{}.{}", name(&text(0)?), name(&text(1)?)),
            definer: format!("{}@{}", name(user), name(host)),
            sql_mode: text(3)?,
            charset: text(4)?,
            collation: text(5)?,
        })
    };
    Ok(found.rows.iter().filter_map(event).collect())
}

/// The numbers of a version.
fn version_of(text: &str) -> (u32, u32, u32) {
    // Some MariaDB greets with this before its own version.
    let text = text.strip_prefix("5.5.5-").unwrap_or(text);
    let mut numbers = text.split(|it: char| !it.is_ascii_digit()).map(|it| it.parse().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    (next(), next(), next())
}

/// What the account, and its role, may do, as lines of `SHOW GRANTS`.
async fn grants(talk: &mut Talk, family: Family) -> Result<Vec<String>, Failed> {
    let mut lines = Vec::new();
    let mut next = Some(Query::grants(family == Family::MariaDb));
    while let Some(query) = next {
        let rows = talk.ask(query.sql()).await?.rows;
        next = Query::behind_grants(&rows);
        let texts = rows.iter().filter_map(|row| row.first()?.as_deref());
        lines.extend(texts.map(|text| String::from_utf8_lossy(text).into_owned()));
    }
    Ok(lines)
}

/// Privileges that an account with these grants lacks for a switchover.
fn missing(grants: &[String], baggage: &Baggage, is_group: bool) -> Vec<String> {
    let mut global = Vec::new();
    for grant in grants {
        let Some(rest) = grant.strip_prefix("GRANT ") else { continue };
        let Some((privileges, _)) = rest.split_once(" ON *.* TO ") else { continue };
        global.extend(privileges.split(',').map(|it| it.trim().to_ascii_uppercase()));
    }
    let has = |name: &str| global.iter().any(|it| it == name);
    if has("ALL PRIVILEGES") || has("ALL") {
        return Vec::new();
    }
    let has_semi_sync =
        baggage.semi_sync.iter().any(|(name, value)| name.ends_with("_enabled") && value == "ON");
    // Each may be had by any of these names.
    let mut wanted: Vec<&[&str]> = match (baggage.family, is_group) {
        (Family::MySql, true) => vec![&["GROUP_REPLICATION_ADMIN", "SUPER"]],
        (Family::MySql, false) => vec![
            &["SYSTEM_VARIABLES_ADMIN", "SUPER"],
            &["CONNECTION_ADMIN", "SUPER"],
            &["REPLICATION_SLAVE_ADMIN", "SUPER"],
            &["REPLICATION CLIENT", "SUPER"],
            &["PROCESS"],
            &["RELOAD"],
        ],
        (Family::MariaDb, _) => vec![
            // SUPER is not enough any more from 10.11 on.
            if baggage.version < (10, 11, 0) {
                &["READ_ONLY ADMIN", "READ ONLY ADMIN", "SUPER"]
            } else {
                &["READ_ONLY ADMIN", "READ ONLY ADMIN"]
            },
            &["CONNECTION ADMIN", "SUPER"],
            &["REPLICATION SLAVE ADMIN", "REPLICATION REPLICA ADMIN", "SUPER"],
            &["SLAVE MONITOR", "REPLICA MONITOR"],
            &["PROCESS"],
            &["RELOAD"],
        ],
    };
    if baggage.family == Family::MariaDb && has_semi_sync {
        wanted.push(&["REPLICATION MASTER ADMIN", "SUPER"]);
    }
    if baggage.family == Family::MariaDb && baggage.runs_events {
        wanted.push(&["SUPER"]);
    }
    let lacks = wanted.iter().filter(|names| !names.iter().any(|name| has(name)));
    lacks.filter_map(|names| names.first()).map(|name| (*name).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lacks(grants: &[&str], baggage: &Baggage, is_group: bool) -> String {
        let grants: Vec<String> = grants.iter().map(|it| (*it).to_owned()).collect();
        missing(&grants, baggage, is_group).join(", ")
    }

    #[test]
    fn privileges_that_are_missing_are_named() {
        let mariadb = Baggage { version: (10, 11, 19), ..Baggage::default() };
        let all = "GRANT PROCESS, RELOAD, CONNECTION ADMIN, READ_ONLY ADMIN, \
                   REPLICATION SLAVE ADMIN, SLAVE MONITOR ON *.* TO `sw`@`%` IDENTIFIED BY PASSWORD '*1'";
        assert_eq!(lacks(&[all], &mariadb, false), "");
        assert_eq!(lacks(&["GRANT ALL PRIVILEGES ON *.* TO `a`@`%`"], &mariadb, false), "");
        let in_schema = "GRANT ALL PRIVILEGES ON `shop`.* TO `a`@`%`";
        let few = "GRANT PROCESS, SUPER ON *.* TO `a`@`%`";
        assert_eq!(
            lacks(&[few, in_schema], &mariadb, false),
            "READ_ONLY ADMIN, SLAVE MONITOR, RELOAD"
        );
        let older = Baggage { version: (10, 6, 1), ..Baggage::default() };
        assert_eq!(lacks(&[few], &older, false), "SLAVE MONITOR, RELOAD");
        let events = Baggage { runs_events: true, ..mariadb };
        assert_eq!(lacks(&[all], &events, false), "SUPER");
        let mysql = Baggage { family: Family::MySql, version: (9, 7, 4), ..Baggage::default() };
        let grants = [
            "GRANT RELOAD, PROCESS, REPLICATION CLIENT ON *.* TO `sw`@`%`",
            "GRANT CONNECTION_ADMIN,REPLICATION_SLAVE_ADMIN,SYSTEM_VARIABLES_ADMIN ON *.* TO `sw`@`%`",
        ];
        assert_eq!(lacks(&grants, &mysql, false), "");
        assert_eq!(lacks(&grants, &mysql, true), "GROUP_REPLICATION_ADMIN");
        assert_eq!(lacks(&grants[1..], &mysql, false), "REPLICATION CLIENT, PROCESS, RELOAD");
    }

    #[test]
    fn versions_are_numbers() {
        let check = |text: &str, expected| assert_eq!(version_of(text), expected, "{text}");
        check("10.11.19-MariaDB-0+deb12u1-log", (10, 11, 19));
        check("5.5.5-10.6.4-MariaDB", (10, 6, 4));
        check("9.7.4-2", (9, 7, 4));
        check("", (0, 0, 0));
    }
}
