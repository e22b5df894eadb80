//! `trunkline kill`, `drain` and `reload`: commands that a running proxy carries out, over its API.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::{
    cli::{KillArgs, OrderArgs, ReachArgs},
    show, status,
};

/// Ends a client, or its statement.
pub fn run_kill(args: &KillArgs) -> Result<ExitCode> {
    let what = if args.query { "QUERY" } else { "CONNECTION" };
    run(&args.reach, args.json, &format!("KILL {what} {}", args.id))
}

/// Has the proxy end after running statements.
pub fn run_drain(args: &OrderArgs) -> Result<ExitCode> {
    run(&args.reach, args.json, "PROXYSQL SHUTDOWN SLOW")
}

/// Has the proxy read its configuration file, certificates and host names again.
pub fn run_reload(args: &OrderArgs) -> Result<ExitCode> {
    run(&args.reach, args.json, "PROXYSQL RELOAD CONFIG")
}

fn run(reach: &ReachArgs, is_json: bool, sql: &str) -> Result<ExitCode> {
    let url = status::url_of(&reach.proxy)?;
    let token = token(reach)?;
    let body = json!({ "sql": sql }).to_string();
    let (code, answer) = status::post(&url, "/api/v1/statement", &token, &body)?;
    let answer: Value =
        serde_json::from_str(&answer).with_context(|| format!("{url} answers no JSON"))?;
    if code != 200 {
        let message = answer.pointer("/error/message").and_then(Value::as_str);
        let message = message.unwrap_or("it says no more");
        bail!("{url} refuses (status {code}): {message}");
    }
    match (is_json, answer.get("info").and_then(Value::as_str)) {
        (true, _) => show(&format!("{answer}\n")),
        (false, Some("") | None) => show("done\n"),
        (false, Some(info)) => show(&format!("{info}\n")),
    }
    Ok(ExitCode::SUCCESS)
}

/// The token of the command line, of the environment, or of the configuration file.
fn token(reach: &ReachArgs) -> Result<String> {
    if let Some(token) = &reach.token {
        return Ok(token.clone());
    }
    if let Ok(token) = std::env::var("TRUNKLINE_TOKEN") {
        return Ok(token);
    }
    let of_file = match &reach.proxy.config {
        Some(file) => status::settings_of(file)?.http_api_token,
        None => String::new(),
    };
    if of_file.is_empty() {
        bail!(
            "a token is needed: --token, TRUNKLINE_TOKEN, or http_api_token in the file of -c. If \
             the proxy has none yet, set http_api_token in its file and restart it (serve -c); or, \
             on the admin port (serve -D), SET trunkline-http_api_token = '…', LOAD TRUNKLINE \
             VARIABLES TO RUNTIME, SAVE TRUNKLINE VARIABLES TO DISK"
        );
    }
    Ok(of_file)
}
