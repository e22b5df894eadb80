//! Commands that are neither `LOAD`, `SAVE` nor `SHOW`.

use std::time::Duration;

use trunkline_store::Module;
use trunkline_topology::Address;

use super::{
    Statement,
    text::{Text, unquoted},
};
use crate::source::{Ending, HostgroupTraffic, OfCluster, Traffic};

/// A command of the admin port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// What there is; only what has this word, if there is one.
    Help(Option<String>),
    /// Ends the process.
    End(Ending),
    /// Accepts clients, or not.
    Traffic(Traffic),
    /// Lets administrators change things, or not (`admin-read_only`).
    SetReadOnly(bool),
    /// Reads the database of the layer DISK anew.
    FlushConfigDb,
    /// Waits until the configuration has another version.
    PullVersion {
        /// A version above this one.
        above: u64,
        /// How long it may take, ms.
        within_ms: u64,
    },
    /// Forgets the digests counted so far.
    TruncateDigests,
    /// Forgets failed logins by address.
    FlushHosts,
    /// Opens the files of logs anew.
    FlushLogs,
    /// Empties the result cache.
    FlushCache,
    /// Moves the digests into the history.
    SaveDigests,
    /// Writes what runs as a configuration file.
    SaveConfig(String),
    /// Shows what runs as a configuration file.
    SelectConfig,
    /// One checksum over what runs.
    GlobalChecksum,
    /// The checksum of a module in MEMORY or DISK.
    Checksum {
        /// What was asked for, in upper case.
        name: String,
        /// Whose.
        module: Module,
        /// Of this table alone.
        table: Option<&'static str>,
        /// In DISK, else in MEMORY.
        is_disk: bool,
    },
    /// Ends a session or its statement.
    Kill {
        /// The number of its connection.
        id: u32,
        /// Only the statement.
        is_query: bool,
    },
    /// Pauses a hostgroup, or ends that.
    Hostgroup(u32, HostgroupTraffic),
    /// Reads certificates and keys anew.
    ReloadTls,
    /// Does what SIGHUP does.
    ReloadConfig,
    /// Says how a statement would be routed.
    ExplainRoute {
        /// Who would send it; needed when there are several.
        user: Option<String>,
        /// In this schema; the user's own unless it is given.
        schema: Option<String>,
        /// The statement.
        sql: String,
    },
    /// Makes another server of a cluster the writer.
    Switchover {
        /// The cluster.
        cluster: String,
        /// Who shall write; the server that fits best unless it is given.
        to: Option<Address>,
        /// Only says what is in the way.
        is_check: bool,
    },
    /// Does something with a cluster.
    OfCluster(OfCluster),
    /// Writes a line to the log.
    LogEntry(String),
    /// A command of ProxySQL without a meaning here; it is answered with OK.
    Accepted(&'static str),
    /// A command of ProxySQL that is not there yet; its name.
    Missing(String),
}

impl Command {
    /// Whether who operates the proxy may have it done: it changes no configuration, tells
    /// nothing of one but a route, and ends the process only when its statements have ended.
    pub fn operates(&self) -> bool {
        match self {
            Self::Kill { .. }
            | Self::Hostgroup(..)
            | Self::Traffic(_)
            | Self::End(Ending::Slow)
            | Self::Switchover { .. }
            | Self::OfCluster(_)
            | Self::ExplainRoute { .. }
            | Self::FlushCache
            | Self::Help(_) => true,
            Self::End(Ending::Now | Ending::Restart)
            | Self::SetReadOnly(_)
            | Self::FlushConfigDb
            | Self::PullVersion { .. }
            | Self::TruncateDigests
            | Self::FlushHosts
            | Self::FlushLogs
            | Self::SaveDigests
            | Self::SaveConfig(_)
            | Self::SelectConfig
            | Self::GlobalChecksum
            | Self::Checksum { .. }
            | Self::ReloadTls
            | Self::ReloadConfig
            | Self::LogEntry(_)
            | Self::Accepted(_)
            | Self::Missing(_) => false,
        }
    }
}

/// Reads a command; `None` when SQLite shall judge it.
///
/// # Errors
/// What is wrong with it.
pub fn parse(text: &Text, words: &[String]) -> Result<Option<Command>, String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Ok(match words.as_slice() {
        ["HELP" | "?"] => Some(Command::Help(None)),
        ["HELP" | "?", rest @ ..] => Some(Command::Help(Some(rest.join(" ")))),
        ["PULL", "VERSION", "MYSQL", "SERVERS", above, within_ms] => {
            let number = |word: &str| word.parse().map_err(|_| format!("`{word}` is no number"));
            let (above, within_ms) = (number(above)?, number(within_ms)?);
            Some(Command::PullVersion { above, within_ms })
        }
        ["PROXYSQL", rest @ ..] => Some(proxysql(rest)?),
        ["KILL", rest @ ..] => Some(kill(rest)?),
        ["SWITCHOVER", ..] => Some(switchover(text, 1, false)?),
        ["CHECK", "SWITCHOVER", ..] => Some(switchover(text, 2, true)?),
        ["REJOIN", ..] => Some(rejoin(text)?),
        ["MAINTENANCE", ..] => Some(maintenance(text)?),
        ["CLEAR", "FAILOVER", ..] => Some(clear_failover(text)?),
        ["PAUSE" | "RESUME", "HOSTGROUP", rest @ ..] => {
            Some(hostgroup(words.first() == Some(&"PAUSE"), rest)?)
        }
        ["PAUSE" | "RESUME", ..] => {
            return Err("PAUSE and RESUME want HOSTGROUP and its number".to_owned());
        }
        ["CHECKSUM", rest @ ..] => Some(checksum(rest)?),
        ["SIGNAL", "MYSQL", "THREADS"] => Some(Command::Accepted("the workers need no signal")),
        ["LOGENTRY", ..] => Some(Command::LogEntry(text.after(1).to_owned())),
        ["FLUSH", "LOGS"] => Some(Command::FlushLogs),
        _ => None,
    })
}

fn proxysql(words: &[&str]) -> Result<Command, String> {
    Ok(match words {
        ["SHUTDOWN"] | ["KILL"] => Command::End(Ending::Now),
        ["SHUTDOWN", "SLOW"] => Command::End(Ending::Slow),
        ["RESTART"] => Command::End(Ending::Restart),
        ["PAUSE"] => Command::Traffic(Traffic::Pause),
        ["RESUME"] => Command::Traffic(Traffic::Resume),
        ["STOP"] => Command::Traffic(Traffic::Stop),
        ["START"] => Command::Traffic(Traffic::Start),
        ["READONLY"] => Command::SetReadOnly(true),
        ["READWRITE"] => Command::SetReadOnly(false),
        ["FLUSH", "CONFIGDB"] => Command::FlushConfigDb,
        ["FLUSH", "LOGS"] => Command::FlushLogs,
        ["FLUSH", "QUERY", "CACHE"] => Command::FlushCache,
        ["FLUSH", "MYSQL", "CLIENT", "HOSTS"] => Command::FlushHosts,
        ["RELOAD", "TLS"] => Command::ReloadTls,
        ["RELOAD", "CONFIG"] => Command::ReloadConfig,
        ["COREDUMP" | "COMPRESSEDCOREDUMP" | "MEMPROFILE" | "GCOV", ..]
        | ["CLUSTER_NODE_UUID", ..] => Command::Missing(format!("PROXYSQL {}", words.join(" "))),
        _ => return Err(format!("there is no command PROXYSQL {}", words.join(" "))),
    })
}

fn kill(words: &[&str]) -> Result<Command, String> {
    let (is_query, id) = match words {
        ["CONNECTION", id] | [id] => (false, id),
        ["QUERY", id] => (true, id),
        _ => return Err("KILL wants [CONNECTION|QUERY] and a number".to_owned()),
    };
    let id = id.parse().map_err(|_| format!("`{id}` is not the number of a connection"))?;
    Ok(Command::Kill { id, is_query })
}

/// `SWITCHOVER cluster [TO 'host:port']`, whose cluster is the word `at`.
fn switchover(text: &Text, at: usize, is_check: bool) -> Result<Command, String> {
    let spelled = text.spelled();
    let words: Vec<&str> = spelled.iter().skip(at).map(|word| unquoted(word)).collect();
    let (cluster, to) = match words.as_slice() {
        [cluster] => (*cluster, None),
        [cluster, to, server] if to.eq_ignore_ascii_case("TO") => (*cluster, Some(*server)),
        _ => return Err("SWITCHOVER wants a cluster, and perhaps TO 'host:port'".to_owned()),
    };
    let to = to.map(|server| {
        server.parse::<Address>().map_err(|_| format!("`{server}` is not the address of a server"))
    });
    let cluster = cluster.to_owned();
    Ok(Command::Switchover { cluster, to: to.transpose()?, is_check })
}

/// `REJOIN 'host:port'`.
fn rejoin(text: &Text) -> Result<Command, String> {
    match text.spelled().as_slice() {
        [_, server] => Ok(Command::OfCluster(OfCluster::Rejoin(address(server)?))),
        _ => Err("REJOIN wants a server, 'host:port'".to_owned()),
    }
}

/// `MAINTENANCE 'host:port' ON|OFF`.
fn maintenance(text: &Text) -> Result<Command, String> {
    let spelled = text.spelled();
    let is_on = match spelled.get(2).map(|word| word.to_ascii_uppercase()).as_deref() {
        Some("ON") => Some(true),
        Some("OFF") => Some(false),
        Some(_) | None => None,
    };
    match (spelled.as_slice(), is_on) {
        ([_, server, _], Some(is_on)) => {
            Ok(Command::OfCluster(OfCluster::Maintenance(address(server)?, is_on)))
        }
        _ => Err("MAINTENANCE wants a server, 'host:port', and ON or OFF".to_owned()),
    }
}

/// `CLEAR FAILOVER cluster`.
fn clear_failover(text: &Text) -> Result<Command, String> {
    match text.spelled().as_slice() {
        [_, _, cluster] => {
            Ok(Command::OfCluster(OfCluster::ClearFailover(unquoted(cluster).to_owned())))
        }
        _ => Err("CLEAR FAILOVER wants a cluster".to_owned()),
    }
}

fn address(word: &str) -> Result<Address, String> {
    let server = unquoted(word);
    server.parse().map_err(|_| format!("`{server}` is not the address of a server"))
}

/// The longest pause, s.
const PAUSE_SEC_MAX: u64 = 3_600;

fn hostgroup(pauses: bool, words: &[&str]) -> Result<Command, String> {
    let (id, seconds) = match words {
        [id] => (id, None),
        [id, "FOR", seconds] | [id, "FOR", seconds, "SECONDS"] if pauses => (id, Some(seconds)),
        _ if pauses => return Err("PAUSE HOSTGROUP wants a number, and may have FOR n".to_owned()),
        _ => return Err("RESUME HOSTGROUP wants a number".to_owned()),
    };
    let id = id.parse().map_err(|_| format!("`{id}` is not the number of a hostgroup"))?;
    let seconds = seconds.map(|seconds| {
        let wanted = seconds.parse().ok().filter(|wanted| (1..=PAUSE_SEC_MAX).contains(wanted));
        wanted.ok_or_else(|| format!("FOR wants 1 to {PAUSE_SEC_MAX} seconds, not `{seconds}`"))
    });
    let length = seconds.transpose()?.map(Duration::from_secs);
    Ok(Command::Hostgroup(
        id,
        match pauses {
            true => HostgroupTraffic::Pause(length),
            false => HostgroupTraffic::Resume,
        },
    ))
}

fn checksum(words: &[&str]) -> Result<Command, String> {
    let (is_disk, name) = match words {
        ["DISK", rest @ ..] => (true, rest),
        ["MEMORY" | "MEM", rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let name = name.join(" ");
    let of_servers = match name.as_str() {
        "MYSQL SERVERS" => Some("mysql_servers"),
        "MYSQL REPLICATION HOSTGROUPS" => Some("mysql_replication_hostgroups"),
        "MYSQL GROUP REPLICATION HOSTGROUPS" => Some("mysql_group_replication_hostgroups"),
        "MYSQL GALERA HOSTGROUPS" => Some("mysql_galera_hostgroups"),
        "MYSQL AURORA HOSTGROUPS" => Some("mysql_aws_aurora_hostgroups"),
        "MYSQL HOSTGROUP ATTRIBUTES" => Some("mysql_hostgroup_attributes"),
        "MYSQL SERVERS SSL PARAMS" => Some("mysql_servers_ssl_params"),
        _ => None,
    };
    if of_servers.is_some() {
        let module = Module::MysqlServers;
        return Ok(Command::Checksum { name, module, table: of_servers, is_disk });
    }
    let module = Module::ALL.into_iter().find(|module| module.name() == name);
    let module = module.ok_or_else(|| format!("there is no checksum of `{name}`"))?;
    let table = (module == Module::MysqlQueryRules).then_some("mysql_query_rules");
    Ok(Command::Checksum { name, module, table, is_disk })
}

/// `EXPLAIN ROUTE [USER name] [SCHEMA name]` and the statement, in quotes or not.
pub fn explain(text: &Text, words: &[String]) -> Option<Statement> {
    match words.get(1).map(String::as_str) {
        Some("ROUTE") => {
            let mut rest = text.after(2);
            let user = option(&mut rest, "USER");
            let schema = option(&mut rest, "SCHEMA");
            let sql = unquoted(rest).to_owned();
            Some(Statement::Command(Command::ExplainRoute { user, schema, sql }))
        }
        _ => None,
    }
}

/// Takes `NAME value` from the front of a text, where it stands there.
fn option(rest: &mut &str, name: &str) -> Option<String> {
    let (word, after) = rest.split_once(char::is_whitespace)?;
    if !word.eq_ignore_ascii_case(name) {
        return None;
    }
    let (value, after) = after.trim_start().split_once(char::is_whitespace)?;
    *rest = after.trim_start();
    Some(unquoted(value).to_owned())
}
