//! `trunkline kill`, `pause`, `resume`, `drain`, `reload` and `switchover`: commands that a running
//! proxy carries out. On the machine itself they go over its control socket; with a token, over its
//! API.

use std::{
    env,
    io::{BufRead, BufReader, Write},
    net::IpAddr,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use trunkline_admin::control::{Order, Outcome, Request};
use trunkline_config::{StateFile, control_path};
use trunkline_stats::{ControlFigures, Report};
use trunkline_store::open::DISK_FILE;

use crate::{
    cli::{
        KillArgs, MaintenanceArgs, OnOff, OrderArgs, PauseArgs, ReachArgs, RejoinArgs, ResumeArgs,
        SwitchoverArgs,
    },
    show, status,
};

/// How long the proxy may take to carry an order out; it gives a `KILL` less.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);
/// How long a switchover may take at most: as long as its settings allow, and the steps behind the
/// promotion.
const SWITCHOVER_TIME_MAX: Duration = Duration::from_secs(660);

/// Ends a client, or its statement.
pub fn run_kill(args: &KillArgs) -> Result<ExitCode> {
    run(&args.reach, args.json, Order::Kill { id: args.id, query: args.query })
}

/// Holds what is new in a hostgroup.
pub fn run_pause(args: &PauseArgs) -> Result<ExitCode> {
    let order = Order::Pause { hostgroup: args.hostgroup, seconds: args.seconds };
    run(&args.reach, args.json, order)
}

/// Lets what is held in a hostgroup go on.
pub fn run_resume(args: &ResumeArgs) -> Result<ExitCode> {
    run(&args.reach, args.json, Order::Resume { hostgroup: args.hostgroup })
}

/// Has the proxy end after running statements.
pub fn run_drain(args: &OrderArgs) -> Result<ExitCode> {
    run(&args.reach, args.json, Order::Drain)
}

/// Has the proxy read its configuration file, certificates and host names again.
pub fn run_reload(args: &OrderArgs) -> Result<ExitCode> {
    run(&args.reach, args.json, Order::Reload)
}

/// Has another server of a cluster become the writer.
pub fn run_switchover(args: &SwitchoverArgs) -> Result<ExitCode> {
    let (cluster, to, check) = (args.cluster.clone(), args.to.clone(), args.check);
    run(&args.reach, args.json, Order::Switchover { cluster, to, check })
}

/// Has a server replicate from the writer again.
pub fn run_rejoin(args: &RejoinArgs) -> Result<ExitCode> {
    run(&args.reach, args.json, Order::Rejoin { server: args.server.clone() })
}

/// Takes a server out of its cluster, for work on it, or back.
pub fn run_maintenance(args: &MaintenanceArgs) -> Result<ExitCode> {
    let (server, on) = (args.server.clone(), args.state == OnOff::On);
    run(&args.reach, args.json, Order::Maintenance { server, on })
}

fn run(reach: &ReachArgs, is_json: bool, order: Order) -> Result<ExitCode> {
    let info = ask(reach, order)?;
    match (is_json, info.as_str()) {
        (true, info) => show(&format!("{}\n", json!({ "info": info }))),
        (false, "") => show("done\n"),
        (false, info) => show(&format!("{info}\n")),
    }
    Ok(ExitCode::SUCCESS)
}

/// Has a proxy carry out an order; what it says of it.
pub fn ask(reach: &ReachArgs, order: Order) -> Result<String> {
    let token = match &reach.token {
        Some(token) => Some(token.clone()),
        None if reach.socket.is_none() => env::var("TRUNKLINE_TOKEN").ok(),
        None => None,
    };
    match token {
        Some(token) => ask_api(reach, &token, &order),
        None => match Found::of(reach)? {
            Found::Socket { path, process } => ask_socket(&path, Request { process, order }),
            Found::Token(token) => ask_api(reach, &token, &order),
        },
    }
}

/// How the proxy can be reached.
enum Found {
    /// By its control socket; `process` is the one that is meant, where that is known.
    Socket { path: PathBuf, process: Option<u32> },
    /// Over HTTP, with the token of the configuration file.
    Token(String),
}

impl Found {
    fn of(reach: &ReachArgs) -> Result<Self> {
        if let Some(path) = &reach.socket {
            return Ok(Self::Socket { path: path.clone(), process: None });
        }
        if let Some(folder) = &reach.data_dir {
            return of_folder(folder);
        }
        let settings = reach.proxy.config.as_deref().map(status::settings_of).transpose()?;
        if let (Some(settings), Some(config)) = (&settings, &reach.proxy.config) {
            let path = control_path(&settings.control_socket, &settings.state_file, config);
            if let Some(path) = path.filter(|path| path.exists()) {
                return Ok(Self::Socket { path, process: None });
            }
        }
        let said = said(reach);
        if let Ok((process, control)) = &said
            && Path::new(&control.socket).exists()
        {
            let path = PathBuf::from(&control.socket);
            return Ok(Self::Socket { path, process: Some(*process) });
        }
        match settings.map(|settings| settings.http_api_token) {
            Some(token) if !token.is_empty() => Ok(Self::Token(token)),
            Some(_) | None => {
                // Who does not answer will not take a token either.
                let (_, control) = said?;
                bail!("{}", token_needed(&control));
            }
        }
    }
}

/// The control socket of a database's folder, where a start without settings of its own has it.
fn of_folder(folder: &Path) -> Result<Found> {
    let database = folder.join(DISK_FILE);
    let path = control_path("auto", &StateFile::Off, &database).filter(|path| path.exists());
    let path = path.with_context(|| {
        format!(
            "no proxy with a control socket runs on {}; if trunkline-control_socket or \
             trunkline-state_file is set there, name the socket with --socket",
            folder.display()
        )
    })?;
    Ok(Found::Socket { path, process: None })
}

/// The process that answers over HTTP, and its control socket if it is on this machine.
fn said(reach: &ReachArgs) -> Result<(u32, ControlFigures)> {
    let url = status::url_of(&reach.proxy)?;
    let body = status::fetch(&url, "/status")?;
    let report: Report = serde_json::from_str(&body)
        .with_context(|| format!("what answers at {url} is not Trunkline, or another version"))?;
    let mut control = report.process.control;
    if !is_loopback(&url) {
        control.socket.clear();
    }
    Ok((report.process.process_id, control))
}

/// Whether a URL is one of this machine.
fn is_loopback(url: &str) -> bool {
    let host = url.trim_start_matches("http://").trim_end_matches('/');
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// What is missing, and how a proxy in this mode gets it.
fn token_needed(control: &ControlFigures) -> String {
    let how = match control.is_database {
        true => {
            "on its admin port: SET trunkline-http_api_token = '…'; LOAD TRUNKLINE VARIABLES TO \
             RUNTIME; SAVE TRUNKLINE VARIABLES TO DISK"
        }
        false => "in its configuration file: http_api_token = \"…\", and restart it",
    };
    let socket = match control.socket.as_str() {
        "" => "the proxy has no control socket on this machine".to_owned(),
        path => format!("the proxy's control socket, {path}, is not to be seen from here"),
    };
    format!(
        "{socket}, and without it a token is needed: --token or TRUNKLINE_TOKEN. If the proxy has \
         none yet, set it {how}"
    )
}

/// How long the proxy may take to answer.
fn time_max(order: &Order) -> Duration {
    match order {
        Order::Switchover { .. } => SWITCHOVER_TIME_MAX,
        Order::Kill { .. }
        | Order::Pause { .. }
        | Order::Resume { .. }
        | Order::Drain
        | Order::Rejoin { .. }
        | Order::Maintenance { .. }
        | Order::Reload
        | Order::Bundle => ANSWER_TIME_MAX,
    }
}

fn ask_socket(path: &Path, request: Request) -> Result<String> {
    let name = path.display();
    let stream = UnixStream::connect(path);
    let mut stream = stream.with_context(|| {
        format!(
            "can't reach the control socket {name} (is trunkline running, and are you its account \
             or root?)"
        )
    })?;
    stream.set_read_timeout(Some(time_max(&request.order)))?;
    let mut line = serde_json::to_vec(&request)?;
    line.push(b'\n');
    // Who refuses at once may have closed already, and its answer says why.
    drop(stream.write_all(&line));
    let mut answer = String::new();
    let read = BufReader::new(stream).read_line(&mut answer);
    read.with_context(|| format!("no answer from {name}"))?;
    let outcome: Outcome = serde_json::from_str(&answer)
        .with_context(|| format!("what answers at {name} is not Trunkline, or another version"))?;
    match outcome.is_done {
        true => Ok(outcome.message),
        false => bail!("{name} refuses: {}", outcome.message),
    }
}

fn ask_api(reach: &ReachArgs, token: &str, order: &Order) -> Result<String> {
    let url = status::url_of(&reach.proxy)?;
    let body = json!({ "sql": order.statement() }).to_string();
    let time_max = time_max(order);
    let (code, answer) = status::post(&url, "/api/v1/statement", token, &body, time_max)?;
    let answer: Value =
        serde_json::from_str(&answer).with_context(|| format!("{url} answers no JSON"))?;
    if code != 200 {
        let message = answer.pointer("/error/message").and_then(Value::as_str);
        let message = message.unwrap_or("it says no more");
        bail!("{url} refuses (status {code}): {message}");
    }
    match order {
        Order::Switchover { .. } => return rows_of(&answer),
        Order::Bundle => return Ok(files_of(&answer)),
        Order::Kill { .. }
        | Order::Pause { .. }
        | Order::Resume { .. }
        | Order::Drain
        | Order::Reload
        | Order::Rejoin { .. }
        | Order::Maintenance { .. } => {}
    }
    Ok(answer.get("info").and_then(Value::as_str).unwrap_or_default().to_owned())
}

/// The rows of `SHOW BUNDLE` as the object that the control socket answers with.
fn files_of(answer: &Value) -> String {
    let rows = answer.get("rows").and_then(Value::as_array).into_iter().flatten();
    let files = rows.filter_map(|row| {
        let text = |name: &str| row.get(name).and_then(Value::as_str);
        Some((text("file")?.to_owned(), Value::from(text("content")?)))
    });
    Value::Object(files.collect()).to_string()
}

/// Steps, or what a check found, as lines; an error if something is in the way.
fn rows_of(answer: &Value) -> Result<String> {
    let list = |name: &str| answer.get(name).and_then(Value::as_array).into_iter().flatten();
    let columns: Vec<&str> = list("columns").filter_map(Value::as_str).collect();
    let mut lines = Vec::new();
    let mut is_blocked = false;
    for row in list("rows") {
        let cells = columns.iter().filter_map(|column| row.get(column)?.as_str());
        let cells: Vec<&str> = cells.collect();
        is_blocked |= cells.get(1) == Some(&"blocks");
        lines.push(cells.join("  "));
    }
    let text = lines.join("\n");
    match is_blocked {
        true => bail!("{text}"),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_urls_of_this_machine_have_its_sockets() {
        let check = |url: &str, expected: bool| assert_eq!(is_loopback(url), expected, "{url}");
        check("http://127.0.0.1:6070", true);
        check("http://localhost", true);
        check("http://[::1]:6070/", true);
        check("http://10.0.0.1:6070", false);
        check("http://localhost.example.com:6070", false);
        check("http://[2001:db8::1]:6070", false);
    }

    #[test]
    fn who_needs_a_token_is_told_how_to_set_it_in_this_mode() {
        let control = |is_database| ControlFigures { is_database, ..ControlFigures::default() };
        let file = token_needed(&control(false));
        assert!(file.contains("in its configuration file"), "{file}");
        assert!(!file.contains("LOAD"), "{file}");
        let database = token_needed(&control(true));
        assert!(database.contains("LOAD TRUNKLINE VARIABLES TO RUNTIME"), "{database}");
    }
}
