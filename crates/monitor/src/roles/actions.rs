//! What each step of a switchover says to a server.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use trunkline_cluster::switchover::{Action, Done, check::Family};
use trunkline_topology::{Secret, gtid::Position};

use super::{
    questions::{Table, sources_of},
    survey::{Baggage, received},
    talk::{Failed, Talk, quoted},
};

/// How long one wait for transactions takes before it is looked whether they still come.
const WAIT_SEC: &str = "0.5";
/// How often it is looked whether something has come about.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// What is left of the time of a step for its other statements.
const MARGIN: Duration = Duration::from_millis(200);

/// One step, with all that it needs to know.
pub(super) struct Job<'a> {
    pub(super) action: &'a Action,
    /// What the old writer had.
    pub(super) old: &'a Baggage,
    /// What the new one had.
    pub(super) new: &'a Baggage,
    /// Where the new writer is.
    pub(super) source: (&'a str, u16),
    /// As whom servers replicate.
    pub(super) account: (&'a str, &'a Secret<String>),
}

/// Words that the families do not share.
struct Words {
    status: &'static str,
    stop: &'static str,
    stop_receiving: &'static str,
    start: &'static str,
    forget: &'static str,
    read_only: &'static str,
}

const MARIADB: Words = Words {
    status: "SHOW ALL SLAVES STATUS",
    stop: "STOP SLAVE",
    stop_receiving: "STOP SLAVE IO_THREAD",
    start: "START SLAVE",
    forget: "RESET SLAVE ALL",
    read_only: "SET GLOBAL read_only = 1",
};
const MYSQL: Words = Words {
    status: "SHOW REPLICA STATUS",
    stop: "STOP REPLICA",
    stop_receiving: "STOP REPLICA IO_THREAD",
    start: "START REPLICA",
    forget: "RESET REPLICA ALL",
    read_only: "SET GLOBAL super_read_only = 1",
};

/// Sessions that could still write, or hold locks that replication would wait for: those that have
/// changed something in an open transaction.
const WRITING: &str = "SELECT ID FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() \
    AND COMMAND NOT IN ('Daemon', 'Binlog Dump', 'Binlog Dump GTID', 'Slave_IO', 'Slave_SQL', \
    'Slave_worker') AND USER NOT IN ('system user', 'event_scheduler') AND ID IN \
    (SELECT trx_mysql_thread_id FROM information_schema.INNODB_TRX WHERE trx_rows_modified > 0)";
/// Sessions of accounts that `read_only` does not stop, where the account may see whose those are
/// (MariaDB).
const PRIVILEGED: &str = "SELECT ID FROM information_schema.PROCESSLIST WHERE \
    ID <> CONNECTION_ID() AND COMMAND NOT IN ('Daemon', 'Binlog Dump', 'Slave_IO', 'Slave_SQL', \
    'Slave_worker') AND USER NOT IN ('system user', 'event_scheduler') AND \
    USER <> SUBSTRING_INDEX(CURRENT_USER(), '@', 1) AND USER IN (SELECT \
    SUBSTRING_INDEX(SUBSTRING_INDEX(GRANTEE, '''', 2), '''', -1) FROM \
    information_schema.USER_PRIVILEGES WHERE PRIVILEGE_TYPE IN ('READ_ONLY ADMIN', \
    'READ ONLY ADMIN', 'SUPER'))";

impl Words {
    fn of(family: Family) -> &'static Self {
        match family {
            Family::MariaDb => &MARIADB,
            Family::MySql => &MYSQL,
        }
    }
}

fn done(said: impl Into<String>) -> Done {
    Done { said: said.into(), value: String::new() }
}

/// Does a step, which has this much time.
pub(super) async fn perform(
    talk: &mut Talk,
    job: &Job<'_>,
    time_max: Duration,
) -> Result<Done, Failed> {
    if *job.action == Action::Fence {
        return fence(talk).await;
    }
    let family = talk.family().await?;
    let words = Words::of(family);
    match job.action {
        Action::Fence | Action::FenceByScript | Action::Note => {
            Err(Failed::known("that is not said to a server"))
        }
        Action::Finish => finish(talk, family, words).await,
        Action::Demote => demote(talk, job, family, time_max).await,
        Action::Undemote => {
            talk.execute("SET GLOBAL read_only = 0").await?;
            let mut said = "it takes writes again".to_owned();
            if job.old.runs_events
                && let Err(failed) = talk.execute("SET GLOBAL event_scheduler = ON").await
            {
                said.push_str(&format!("; event_scheduler is off: {}", failed.why));
            }
            Ok(done(said))
        }
        Action::CatchUp(position) => {
            catch_up(talk, family, position).await?;
            Ok(done("it has all transactions of the old writer"))
        }
        Action::Promote => {
            talk.execute(words.stop).await?;
            talk.execute("SET GLOBAL read_only = 0").await?;
            Ok(done("it takes writes"))
        }
        Action::LookWhetherWritable => {
            let is_writable = talk.takes_writes().await?;
            let value = if is_writable { "yes".to_owned() } else { String::new() };
            let said = if is_writable { "it takes writes" } else { "it is read-only" };
            Ok(Done { said: said.to_owned(), value })
        }
        Action::Reattach => {
            talk.execute(words.start).await?;
            Ok(done("it replicates again"))
        }
        Action::Settle => settle(talk, job, words).await,
        Action::Follow { had, most, .. } => {
            follow(talk, job, family, (had.as_deref(), most.as_deref())).await
        }
        Action::Appoint => appoint(talk, job, time_max).await,
    }
}

async fn demote(
    talk: &mut Talk,
    job: &Job<'_>,
    family: Family,
    time_max: Duration,
) -> Result<Done, Failed> {
    if job.old.runs_events {
        talk.execute("SET GLOBAL event_scheduler = OFF").await?;
    }
    // What has had its time to end must not keep it from becoming read-only.
    let mut ended = end_sessions(talk, WRITING).await?;
    // It waits for commits and for locks of tables, here no longer than this.
    let wait = time_max.saturating_sub(MARGIN);
    match family {
        Family::MariaDb => {
            let wait_sec = wait.as_secs_f64().max(0.1);
            let read_only = MARIADB.read_only;
            talk.execute(&format!(
                "SET STATEMENT max_statement_time={wait_sec:.3} FOR {read_only}"
            ))
            .await?;
        }
        Family::MySql => {
            let wait_sec = wait.as_secs().max(1);
            talk.execute(&format!("SET SESSION lock_wait_timeout = {wait_sec}")).await?;
            talk.execute(MYSQL.read_only).await?;
        }
    }
    ended += end_sessions(talk, WRITING).await?;
    if family == Family::MariaDb {
        ended += end_sessions(talk, PRIVILEGED).await?;
    }
    let position = talk.value(position_of(family)).await?.replace('\n', "");
    let said = match ended {
        0 => format!("it is read-only at {position}"),
        ended => format!("it is read-only at {position}; sessions that were ended: {ended}"),
    };
    Ok(Done { said, value: position })
}

fn position_of(family: Family) -> &'static str {
    match family {
        Family::MariaDb => "SELECT @@global.gtid_binlog_pos",
        Family::MySql => "SELECT @@global.gtid_executed",
    }
}

/// The transactions of a replica, which may not log what it replicates.
fn position_of_replica(family: Family) -> &'static str {
    match family {
        Family::MariaDb => {
            "SELECT IF(@@global.log_slave_updates, @@global.gtid_binlog_pos, \
             @@global.gtid_current_pos)"
        }
        Family::MySql => position_of(family),
    }
}

async fn end_sessions(talk: &mut Talk, which: &str) -> Result<u32, Failed> {
    let found = talk.ask(which).await?;
    let mut ended = 0;
    for row in &found.rows {
        let Some(id) = row.first().and_then(Option::as_deref) else { continue };
        let id = String::from_utf8_lossy(id).into_owned();
        match talk.execute(&format!("KILL {id}")).await {
            Ok(()) => ended += 1,
            Err(failed) if failed.is_unknown => return Err(failed),
            // It may have gone by itself.
            Err(failed) if failed.why.starts_with("error 1094") => {}
            Err(failed) => return Err(failed),
        }
    }
    Ok(ended)
}

/// Waits until the server has these transactions, and no longer than it goes on applying.
async fn catch_up(talk: &mut Talk, family: Family, position: &str) -> Result<(), Failed> {
    let position = quoted(position);
    let wait = match family {
        Family::MariaDb => format!("SELECT MASTER_GTID_WAIT({position}, {WAIT_SEC})"),
        Family::MySql => format!("SELECT WAIT_FOR_EXECUTED_GTID_SET({position}, {WAIT_SEC})"),
    };
    while talk.value(&wait).await? != "0" {
        let status = talk.ask(Words::of(family).status).await?;
        let stopped = sources_of(&status).into_iter().find(|source| !source.applies);
        if let Some(source) = stopped {
            return Err(Failed::known(format!("it applies nothing any more: {}", source.error)));
        }
    }
    Ok(())
}

/// A server receives nothing more, and applies what it has received.
async fn finish(talk: &mut Talk, family: Family, words: &Words) -> Result<Done, Failed> {
    stop_receiving(talk, words).await?;
    let status = talk.ask(words.status).await?;
    let received = received(&Table(&status), family);
    if !received.is_empty() {
        catch_up(talk, family, &received).await?;
    }
    let value = talk.value(position_of(family)).await?.replace('\n', "");
    Ok(Done { said: "it has applied what it had received".to_owned(), value })
}

/// A server receives nothing more. With semi-synchronous replication it tells its source so first,
/// on another connection: MariaDB waits for that as long as this variable says, 5 s by default, and
/// the source may be silent.
async fn stop_receiving(talk: &mut Talk, words: &Words) -> Result<(), Failed> {
    const PATIENCE: &str = "rpl_semi_sync_slave_kill_conn_timeout";
    let patience = match talk.value(&format!("SELECT @@global.{PATIENCE}")).await {
        Ok(patience) => patience,
        // MySQL has no such variable.
        Err(failed) if !failed.is_unknown => String::new(),
        Err(failed) => return Err(failed),
    };
    let patience_sec: u64 = patience.parse().unwrap_or_default();
    if patience_sec > 1 {
        talk.execute(&format!("SET GLOBAL {PATIENCE} = 1")).await?;
    }
    let stopped = talk.execute(words.stop_receiving).await;
    if patience_sec > 1 {
        talk.execute(&format!("SET GLOBAL {PATIENCE} = {patience_sec}")).await?;
    }
    stopped
}

/// A lost writer is looked at: nobody listens there, or it says whether it takes writes.
async fn fence(talk: &mut Talk) -> Result<Done, Failed> {
    loop {
        let (said, value) = match talk.value("SELECT @@global.read_only").await.as_deref() {
            Ok("0" | "OFF") => ("it answers, and takes writes", "writable"),
            Ok(_) => ("it is read-only", "read-only"),
            Err(failed) if failed.is_refused => ("it refuses connections", "refuses"),
            // It may be ending, or just beginning.
            Err(_) => {
                talk.drop_connection();
                sleep(LOOK_EVERY).await;
                continue;
            }
        };
        return Ok(Done { said: said.to_owned(), value: value.to_owned() });
    }
}

/// The new writer forgets that it was a replica, and gets what the old one had as a writer.
async fn settle(talk: &mut Talk, job: &Job<'_>, words: &Words) -> Result<Done, Failed> {
    talk.execute(words.forget).await?;
    let mut said = "it has forgotten its source".to_owned();
    // What belongs to sources, as the old writer had it.
    let of_sources = |name: &str| name.contains("_master_") || name.contains("_source_");
    let own = |name: &str| job.new.semi_sync.iter().find(|(it, _)| it == name);
    for (name, value) in job.old.semi_sync.iter().filter(|(name, _)| of_sources(name)) {
        if own(name).is_some_and(|(_, own)| own != value) {
            talk.execute(&format!("SET GLOBAL {name} = {}", plain_or_quoted(value))).await?;
            said.push_str(&format!("; {name} = {value}"));
        }
    }
    let mut events = 0;
    for event in &job.old.events {
        let (mode, charset) = (quoted(&event.sql_mode), quoted(&event.charset));
        let collation = quoted(&event.collation);
        talk.execute(&format!(
            "SET SESSION sql_mode = {mode}, character_set_client = {charset}, \
             collation_connection = {collation}"
        ))
        .await?;
        // Its replicas disable it, as they do with each event that they replicate.
        talk.execute(&format!("ALTER DEFINER={} EVENT {} ENABLE", event.definer, event.name))
            .await?;
        events += 1;
    }
    if job.old.runs_events && !job.new.runs_events {
        talk.execute("SET GLOBAL event_scheduler = ON").await?;
    }
    if events > 0 {
        said.push_str(&format!("; events that run there now: {events}"));
    }
    Ok(done(said))
}

fn plain_or_quoted(value: &str) -> String {
    match value.bytes().all(|byte| byte.is_ascii_digit()) && !value.is_empty() {
        true => value.to_owned(),
        false => quoted(value),
    }
}

/// A server replicates from the new writer, if it has no transactions that this one lacks; the old
/// one (`had`) with all that a replica needs.
async fn follow(
    talk: &mut Talk,
    job: &Job<'_>,
    family: Family,
    (had, most): (Option<&str>, Option<&str>),
) -> Result<Done, Failed> {
    let words = Words::of(family);
    let (host, port) = (quoted(job.source.0), job.source.1);
    let mut change = match family {
        Family::MariaDb => format!(
            "CHANGE MASTER TO MASTER_HOST={host}, MASTER_PORT={port}, MASTER_USE_GTID=slave_pos"
        ),
        Family::MySql => format!(
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST={host}, SOURCE_PORT={port}, \
             SOURCE_AUTO_POSITION=1"
        ),
    };
    talk.execute(words.stop).await?;
    if let Some(most) = had.or(most) {
        let own = if had.is_some() { position_of(family) } else { position_of_replica(family) };
        let beyond = beyond(talk, own, family, most).await?;
        if !beyond.is_empty() {
            return Err(Failed::known(format!(
                "it has transactions that the new writer lacks, {beyond}: look at them in its \
                 binary log, then build it anew, or commit empty ones in their place"
            )));
        }
    }
    if had.is_some() {
        change.push_str(&own_options(talk, job, family).await?);
    }
    talk.execute(&change).await?;
    talk.execute(words.start).await?;
    connected(talk, words).await?;
    let mut said = format!("it replicates from {}:{port}", job.source.0);
    if had.is_some() && job.old.runs_events {
        // Its events are enabled here until the new writer's word for them is replicated.
        said.push_str("; its event_scheduler stays off");
    }
    Ok(done(said))
}

/// What a server has committed beyond these transactions, by what it says of its `own`.
async fn beyond(talk: &mut Talk, own: &str, family: Family, had: &str) -> Result<String, Failed> {
    match family {
        Family::MariaDb => {
            let now = position(talk, own).await?;
            Ok(now.beyond(&read_position(had)?).join(","))
        }
        Family::MySql => {
            let had = quoted(had);
            let sql = format!("SELECT GTID_SUBTRACT(@@global.gtid_executed, {had})");
            Ok(talk.value(&sql).await?.replace('\n', ""))
        }
    }
}

/// What the old writer needs to replicate that it never had to know; it also gets the settings of a
/// replica that the new writer had.
async fn own_options(talk: &mut Talk, job: &Job<'_>, family: Family) -> Result<String, Failed> {
    let of_sources = |name: &str| name.contains("_master_") || name.contains("_source_");
    let own = |name: &str| job.old.semi_sync.iter().find(|(it, _)| it == name);
    for (name, value) in &job.new.semi_sync {
        let moves = !of_sources(name) || name.ends_with("_enabled");
        if moves && own(name).is_some_and(|(_, own)| own != value) {
            talk.execute(&format!("SET GLOBAL {name} = {}", plain_or_quoted(value))).await?;
        }
    }
    let word = match family {
        Family::MariaDb => "MASTER",
        Family::MySql => "SOURCE",
    };
    let (user, password) = (quoted(job.account.0), quoted(job.account.1.expose()));
    let mut options = format!(", {word}_USER={user}, {word}_PASSWORD={password}");
    options.push_str(&job.new.options);
    if family == Family::MariaDb {
        replicate_behind_own(talk).await?;
    }
    Ok(options)
}

/// A server of MariaDB that was a writer begins to replicate behind all that it has itself. What it
/// has committed under a session's `server_id` is not in its `gtid_current_pos`, which is also what
/// `MASTER_DEMOTE_TO_SLAVE` goes by.
async fn replicate_behind_own(talk: &mut Talk) -> Result<(), Failed> {
    let logged = position(talk, "SELECT @@global.gtid_binlog_pos").await?;
    let replicated = position(talk, "SELECT @@global.gtid_slave_pos").await?;
    let own = quoted(&logged.union(&replicated).to_string());
    talk.execute(&format!("SET GLOBAL gtid_slave_pos = {own}")).await
}

/// A position of MariaDB that a server is asked for.
async fn position(talk: &mut Talk, sql: &str) -> Result<Position, Failed> {
    let text = talk.value(sql).await?;
    read_position(&text)
}

fn read_position(text: &str) -> Result<Position, Failed> {
    Position::parse(text).map_err(|_| Failed::known(format!("the position `{text}` can't be read")))
}

/// Waits until the server receives from its source.
async fn connected(talk: &mut Talk, words: &Words) -> Result<(), Failed> {
    let until = Instant::now() + Duration::from_secs(5);
    loop {
        let status = talk.ask(words.status).await?;
        let runs = Table(&status).text(0, &["Replica_IO_Running", "Slave_IO_Running"]);
        if runs.as_deref() == Some("Yes") {
            return Ok(());
        }
        if Instant::now() >= until {
            let error = sources_of(&status).into_iter().map(|source| source.error).next();
            let error = error.unwrap_or_default();
            return Err(Failed::known(format!(
                "it does not reach the new writer ({error}); it goes on trying"
            )));
        }
        sleep(LOOK_EVERY).await;
    }
}

/// The group makes this server its primary.
async fn appoint(talk: &mut Talk, job: &Job<'_>, time_max: Duration) -> Result<Done, Failed> {
    let uuid = quoted(&job.new.uuid);
    // Without a limit of its own it waits for transactions for ever.
    let limit = match job.new.version >= (8, 0, 29) {
        true => format!(", {}", time_max.saturating_sub(MARGIN).as_secs().max(1)),
        false => String::new(),
    };
    talk.value(&format!("SELECT group_replication_set_as_primary({uuid}{limit})")).await?;
    while talk.value("SELECT @@global.super_read_only").await? != "0" {
        sleep(LOOK_EVERY).await;
    }
    Ok(done("it is the group's primary"))
}
