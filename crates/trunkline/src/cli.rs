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
    /// Show the numbers of a running proxy
    Status(StatusArgs),
    /// Show the sessions of a running proxy, and what holds them on server connections
    Sessions(SessionsArgs),
    /// Say what would become of a statement, and why; nothing needs to be running
    Explain(ExplainArgs),
    /// Fill an empty database from proxysql.cnf, proxysql.db or a file of Trunkline's
    Import(ImportArgs),
    /// Write what a database holds as a file; no proxy may be running on it
    Export(ExportArgs),
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
    /// The configuration file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
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
