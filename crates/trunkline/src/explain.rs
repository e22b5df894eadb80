//! `trunkline explain`: the way of one statement, without sending it.

use std::{
    net::{IpAddr, SocketAddr},
    process::ExitCode,
};

use anyhow::{Context, Result, anyhow};
use serde_json::{Value, json};
use trunkline_config::{ListenAddress, Settings, Snapshot};
use trunkline_sql::token::Modes;
use trunkline_topology::User;
use trunkline_worker::{Asker, ExplainRow, Explaining};

use crate::{cli::ExplainArgs, config_file::ConfigFile, import::read_any, show};

#[cfg(test)]
mod tests;

/// Shows what a new session's statement would meet.
pub fn run(args: &ExplainArgs) -> Result<ExitCode> {
    let file = ConfigFile::new(&args.config);
    let read = read_any(&file).map_err(|errors| anyhow!(errors.join("\n")))?;
    let snapshot = read.config.snapshot(None);
    let user = snapshot
        .user(&args.user)
        .with_context(|| format!("user `{}` is not in {}", args.user, file.path().display()))?;
    match args.json {
        true => {
            let rows = rows_of(args, &snapshot, user);
            let steps = rows.into_iter().map(|(step, detail)| json!([step, detail]));
            show(&format!("{}\n", Value::Array(steps.collect())));
        }
        false => show(&explanation(args, &snapshot, user)),
    }
    Ok(ExitCode::SUCCESS)
}

fn explanation(args: &ExplainArgs, snapshot: &Snapshot, user: &User) -> String {
    let rows = rows_of(args, snapshot, user);
    rows.into_iter().map(|(name, value)| format!("{name:<12}{value}\n")).collect()
}

/// By MySQL's rules: nothing is known of the servers here.
fn rows_of(args: &ExplainArgs, snapshot: &Snapshot, user: &User) -> Vec<ExplainRow> {
    let (schema, modes) = (args.schema.as_deref(), Modes::default());
    rows(snapshot, user, schema, args.client_addr, args.listener, modes, &args.sql)
}

/// What a new session's statement would meet, step by step, its text read in these modes. Without a
/// schema it is the user's own, without a listener the first one.
pub fn rows(
    snapshot: &Snapshot,
    user: &User,
    schema: Option<&str>,
    client_addr: Option<IpAddr>,
    listener: Option<SocketAddr>,
    modes: Modes,
    sql: &str,
) -> Vec<ExplainRow> {
    let schema = schema.or(user.default_schema.as_deref()).unwrap_or_default();
    let listener = listener.or_else(|| first_listener(&snapshot.settings));
    let asking = Explaining {
        asker: Asker {
            user,
            schema: schema.as_bytes(),
            flag: 0,
            client_addr,
            proxy_addr: listener.map(|addr| addr.ip()).filter(|ip| !ip.is_unspecified()),
            proxy_port: listener.map(|addr| addr.port()),
        },
        modes,
        sql: sql.as_bytes(),
        now_ms: 0,
        catalog: None,
    };
    trunkline_worker::explain(snapshot, &asking)
}

fn first_listener(settings: &Settings) -> Option<SocketAddr> {
    settings.listen.iter().find_map(|listen| match listen {
        ListenAddress::Tcp(addr) => Some(*addr),
        ListenAddress::Unix(_) => None,
    })
}
