//! The command line.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
};

use clap::{Args, Parser, Subcommand, ValueEnum};

/// A proxy for MySQL and MariaDB: many clients over few connections, each statement to the right
/// server.
#[derive(Debug, Parser)]
#[command(name = "trunkline", version, about, propagate_version = true)]
#[command(
    after_help = "The manual is in docs/manual. Configuration keys: docs/manual/configuration.md"
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve clients until SIGTERM or SIGINT; SIGHUP reads the configuration again
    Serve(ServeArgs),
    /// Say what is wrong with a configuration file; nothing needs to be running
    Check(CheckArgs),
    /// Look at the configuration, its servers and this machine, and say what is dangerous
    Doctor(DoctorArgs),
    /// Make one archive for a bug report, without secrets
    Bundle(BundleArgs),
    /// Say what changed between two times, as one HTML file; nothing needs to be running
    Report(ReportArgs),
    /// Show the numbers of a running proxy
    Status(StatusArgs),
    /// Show the sessions of a running proxy, and what holds them on server connections
    Sessions(SessionsArgs),
    /// Show statements per second, latency, pools and statements, again and again
    Top(TopArgs),
    /// Show servers with their connections and latency
    Servers(ListArgs),
    /// Show statements by digest
    Digests(DigestsArgs),
    /// Show clusters: who writes, who reads, who replicates from whom, and what has happened
    Topology(StatusArgs),
    /// Show what transactions of a cluster change, as they are committed
    Changes(ChangesArgs),
    /// Show how often rules have matched
    Rules(ListArgs),
    /// Show what tenants have used of the servers, and what of theirs waits
    Tenants(ListArgs),
    /// End a client, or its statement
    Kill(KillArgs),
    /// Hold what is new in a hostgroup, while transactions and statements there come to their end
    Pause(PauseArgs),
    /// What is held in a paused hostgroup goes on
    Resume(ResumeArgs),
    /// Have the proxy end after running statements
    Drain(OrderArgs),
    /// Have the proxy read its configuration file and certificates again
    Reload(OrderArgs),
    /// Have another server of a cluster become the writer
    Switchover(SwitchoverArgs),
    /// Have a server of a cluster replicate from the writer again
    Rejoin(RejoinArgs),
    /// Take a server of a cluster out, for work on it, or back
    Maintenance(MaintenanceArgs),
    /// Say what would become of a statement, and why; nothing needs to be running
    Explain(ExplainArgs),
    /// Fill an empty database from proxysql.cnf, proxysql.db or a file of Trunkline's
    Import(ImportArgs),
    /// Write what a database holds as a file; no proxy may be running on it
    Export(ExportArgs),
    /// Write a script that completes this command line in a shell
    Completions(CompletionsArgs),
    /// Write manual pages
    Man(ManArgs),
}

#[derive(Debug, Args)]
pub struct ChangesArgs {
    #[command(flatten)]
    pub proxy: ProxyArgs,
    /// The proxy's http_api_token or http_api_stats_token [default: TRUNKLINE_TOKEN, or the file's]
    #[arg(long, value_name = "TOKEN")]
    pub token: Option<String>,
    /// The cluster, where several have a stream
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,
    /// Begin behind these transactions: a GTID set (MySQL) or a position (MariaDB)
    #[arg(long, value_name = "GTID")]
    pub from: Option<String>,
    /// Only transactions that change this table, or may change it
    #[arg(long = "table", value_name = "SCHEMA.TABLE")]
    pub tables: Vec<String>,
    /// End after so many
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
    /// Print each one as JSON on a line
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct TopArgs {
    #[command(flatten)]
    pub proxy: ProxyArgs,
    /// The time between two looks
    #[arg(long = "interval", value_name = "MS", default_value_t = 1_000)]
    pub interval_ms: u64,
    /// End after so many
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
    /// Print a line of JSON for each
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ListArgs {
    #[command(flatten)]
    pub proxy: ProxyArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct DigestsArgs {
    #[command(flatten)]
    pub proxy: ProxyArgs,
    /// The most statements that are shown
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub limit: u32,
    /// What comes first
    #[arg(long, value_name = "COLUMN", default_value = "sum_time")]
    #[arg(value_parser = ["sum_time", "count_star", "max_time", "sum_rows_sent",
        "sum_rows_affected", "errors", "last_seen"])]
    pub order: String,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Which proxy is told to do something.
#[derive(Debug, Args)]
pub struct ReachArgs {
    #[command(flatten)]
    pub proxy: ProxyArgs,
    /// The proxy whose database is in this folder
    #[arg(short = 'D', long = "datadir", value_name = "FOLDER", conflicts_with_all = ["url", "config"])]
    pub data_dir: Option<PathBuf>,
    /// The proxy's control_socket [default: the configuration's, or what answers over HTTP says]
    #[arg(long, value_name = "PATH", conflicts_with = "token")]
    pub socket: Option<PathBuf>,
    /// Ask over HTTP, with the proxy's http_api_token [default: TRUNKLINE_TOKEN; without a control
    /// socket, the file's]
    #[arg(long, value_name = "TOKEN")]
    pub token: Option<String>,
}

#[derive(Debug, Args)]
pub struct OrderArgs {
    #[command(flatten)]
    pub reach: ReachArgs,
    /// Print the answer as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct PauseArgs {
    #[command(flatten)]
    pub reach: ReachArgs,
    /// For at most so long [default: the setting hold_timeout]
    #[arg(long = "for", value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=3_600))]
    pub seconds: Option<u32>,
    /// Print the answer as JSON
    #[arg(long)]
    pub json: bool,
    /// The hostgroup's number
    #[arg(value_name = "HOSTGROUP")]
    pub hostgroup: u32,
}

#[derive(Debug, Args)]
pub struct ResumeArgs {
    #[command(flatten)]
    pub reach: ReachArgs,
    /// Print the answer as JSON
    #[arg(long)]
    pub json: bool,
    /// The hostgroup's number
    #[arg(value_name = "HOSTGROUP")]
    pub hostgroup: u32,
}

#[derive(Debug, Args)]
pub struct KillArgs {
    #[command(flatten)]
    pub reach: ReachArgs,
    /// Only its statement
    #[arg(long)]
    pub query: bool,
    /// Print the answer as JSON
    #[arg(long)]
    pub json: bool,
    /// The client's number, as `trunkline sessions` shows it
    #[arg(value_name = "ID")]
    pub id: u32,
}

#[derive(Debug, Args)]
pub struct SwitchoverArgs {
    #[command(flatten)]
    pub reach: ReachArgs,
    /// Only say what is in the way
    #[arg(long)]
    pub check: bool,
    /// Print the answer as JSON
    #[arg(long)]
    pub json: bool,
    /// The server that shall write [default: the one that fits best]
    #[arg(long, value_name = "HOST:PORT")]
    pub to: Option<String>,
    /// The cluster's name
    #[arg(value_name = "CLUSTER")]
    pub cluster: String,
}

#[derive(Debug, Args)]
pub struct RejoinArgs {
    #[command(flatten)]
    pub reach: ReachArgs,
    /// Print the answer as JSON
    #[arg(long)]
    pub json: bool,
    /// The server
    #[arg(value_name = "HOST:PORT")]
    pub server: String,
}

#[derive(Debug, Args)]
pub struct MaintenanceArgs {
    #[command(flatten)]
    pub reach: ReachArgs,
    /// Print the answer as JSON
    #[arg(long)]
    pub json: bool,
    /// The server
    #[arg(value_name = "HOST:PORT")]
    pub server: String,
    /// Whether it is in maintenance
    #[arg(value_name = "on|off")]
    pub state: OnOff,
}

/// On or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnOff {
    On,
    Off,
}

/// A shell that completes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

#[derive(Debug, Args)]
pub struct ManArgs {
    /// Write one file for each page here, instead of all to standard output
    #[arg(value_name = "FOLDER")]
    pub folder: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct ImportArgs {
    /// The folder of the database
    #[arg(short = 'D', long = "datadir", value_name = "FOLDER")]
    pub data_dir: PathBuf,
    /// Begin with an empty database; what is there is kept under another name
    #[arg(long)]
    pub initial: bool,
    /// proxysql.db, a file whose name ends in .cnf, or a configuration file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The folder of the database
    #[arg(short = 'D', long = "datadir", value_name = "FOLDER")]
    pub data_dir: PathBuf,
    /// What kind of file
    #[arg(long, value_enum, default_value_t = ExportFormat::Toml)]
    pub format: ExportFormat,
}

/// What kind of file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// For file mode
    Toml,
    /// As ProxySQL reads it
    Cnf,
    /// Statements for an admin port
    Sql,
}

impl From<ExportFormat> for trunkline_admin::import::Format {
    fn from(format: ExportFormat) -> Self {
        match format {
            ExportFormat::Toml => Self::Toml,
            ExportFormat::Cnf => Self::Cnf,
            ExportFormat::Sql => Self::Sql,
        }
    }
}

#[derive(Debug, Args)]
pub struct ServeArgs {
    /// The configuration file; with --datadir it is read into an empty folder only
    #[arg(short, long, value_name = "FILE", required_unless_present = "data_dir")]
    pub config: Option<PathBuf>,
    /// Keep the configuration in a database in this folder, and open the admin port
    #[arg(short = 'D', long = "datadir", value_name = "FOLDER")]
    pub data_dir: Option<PathBuf>,
    /// Begin with an empty database; what is there is kept under another name
    #[arg(long, requires = "data_dir")]
    pub initial: bool,
}

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Print errors and warnings as JSON
    #[arg(long)]
    pub json: bool,
    /// The configuration file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Print what was found as JSON
    #[arg(long)]
    pub json: bool,
    /// How long a server may take to answer, seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5,
        value_parser = clap::value_parser!(u64).range(1..=300))]
    pub timeout: u64,
    /// The configuration file, or a database
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

#[derive(Debug, Args)]
pub struct BundleArgs {
    #[command(flatten)]
    pub reach: ReachArgs,
    /// Ask no servers
    #[arg(long)]
    pub without_servers: bool,
    /// How long a server may take to answer, seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5,
        value_parser = clap::value_parser!(u64).range(1..=300))]
    pub timeout: u64,
    /// The archive [default: trunkline-bundle-UNIXTIME.tar.gz here]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// The configuration file of the proxy
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["data_dir", "history"])]
    pub config: Option<PathBuf>,
    /// The folder of the proxy's database
    #[arg(short = 'D', long = "datadir", value_name = "FOLDER", conflicts_with = "history")]
    pub data_dir: Option<PathBuf>,
    /// The folder of the history itself
    #[arg(long, value_name = "FOLDER")]
    pub history: Option<PathBuf>,
    /// When it begins: `2026-11-28 10:00` (UTC), Unix seconds, or `2h` for two hours ago
    #[arg(long, value_name = "TIME")]
    pub from: String,
    /// When it ends
    #[arg(long, value_name = "TIME", default_value = "now")]
    pub to: String,
    /// When the time of the same length begins that it is compared with [default: right before]
    #[arg(long, value_name = "TIME")]
    pub compare: Option<String>,
    /// The file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Which proxy is asked.
#[derive(Debug, Args)]
pub struct ProxyArgs {
    /// Where the proxy answers over HTTP [default: http://127.0.0.1:6070]
    #[arg(long, value_name = "URL", conflicts_with = "config")]
    pub url: Option<String>,
    /// Ask where this configuration file's `http_listen` says
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct SessionsArgs {
    #[command(flatten)]
    pub proxy: ProxyArgs,
    /// Only sessions that are held on a server connection
    #[arg(long)]
    pub pinned: bool,
    /// The most sessions that are shown; the longest held come first
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub limit: u32,
    /// Print the sessions as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    pub proxy: ProxyArgs,
    /// Print the numbers as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The configuration file
    #[arg(short, long, value_name = "FILE")]
    pub config: PathBuf,
    /// The user who would send the statement
    #[arg(short, long, value_name = "NAME")]
    pub user: String,
    /// The session's schema [default: the user's default_schema]
    #[arg(short, long, value_name = "NAME")]
    pub schema: Option<String>,
    /// The client's address; without one, rules do not test it
    #[arg(long, value_name = "IP")]
    pub client_addr: Option<IpAddr>,
    /// The listener that the client came by [default: the first one of the file]
    #[arg(long, value_name = "IP:PORT")]
    pub listener: Option<SocketAddr>,
    /// Print the steps as JSON
    #[arg(long)]
    pub json: bool,
    /// The statement
    #[arg(value_name = "SQL")]
    pub sql: String,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }
}
