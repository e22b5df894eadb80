//! `trunkline changes`.

use std::{
    env,
    io::{BufRead, BufReader},
    process::ExitCode,
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{cli::ChangesArgs, complain, show, status};

/// Asks the running proxy for changes, and shows them as they come.
pub fn run(args: &ChangesArgs) -> Result<ExitCode> {
    let url = status::url_of(&args.proxy)?;
    let token = token(args)?;
    let mut query = Vec::new();
    let given = [("cluster", &args.cluster), ("from", &args.from)];
    for (name, value) in given.into_iter().filter_map(|(name, it)| Some((name, it.as_ref()?))) {
        query.push(format!("{name}={}", encoded(value)));
    }
    query.extend(args.tables.iter().map(|table| format!("table={}", encoded(table))));
    let stream = status::open(&url, &format!("/api/v1/changes?{}", query.join("&")), &token)?;
    let mut left = args.count.unwrap_or(u64::MAX);
    let mut name = String::new();
    for line in BufReader::new(stream).lines() {
        if left == 0 {
            return Ok(ExitCode::SUCCESS);
        }
        let line = line.with_context(|| format!("{url} has not been heard of for a while"))?;
        match line.split_once(": ") {
            Some(("event", event)) => event.clone_into(&mut name),
            Some(("data", data)) if name == "change" => {
                left -= 1;
                show(&if args.json { format!("{data}\n") } else { text(data)? });
            }
            Some(("data", data)) => {
                let gap: Value = serde_json::from_str(data).context("it is no JSON")?;
                let part = |name: &str| gap.get(name).and_then(Value::as_str).unwrap_or_default();
                let (reason, position) = (part("reason"), part("position"));
                complain(&format!(
                    "trunkline: some changes are missing here ({reason}); it goes on behind \
                     {position}"
                ));
            }
            Some(_) | None => {}
        }
        if left == 0 {
            return Ok(ExitCode::SUCCESS);
        }
    }
    bail!("{url} has ended the stream")
}

fn token(args: &ChangesArgs) -> Result<String> {
    if let Some(token) = args.token.clone().or_else(|| env::var("TRUNKLINE_TOKEN").ok()) {
        return Ok(token);
    }
    let settings = args.proxy.config.as_deref().map(status::settings_of).transpose()?;
    let tokens =
        settings.map(|it| [it.http_api_stats_token, it.http_api_operate_token, it.http_api_token]);
    let token = tokens.into_iter().flatten().find(|token| !token.is_empty());
    token.context("a token is needed: --token or TRUNKLINE_TOKEN (http_api_token of the proxy)")
}

/// A value as it stands in an address.
fn encoded(value: &str) -> String {
    let mut text = String::new();
    for byte in value.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                text.push(char::from(byte));
            }
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

/// A transaction for people: its GTID, then a line for each table and statement.
fn text(data: &str) -> Result<String> {
    let change: Value = serde_json::from_str(data).context("it is no JSON")?;
    let word = |of: &Value, name: &str| {
        of.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let mut lines = word(&change, "gtid") + "\n";
    let list = |name: &str| change.get(name).and_then(Value::as_array).into_iter().flatten();
    for table in list("tables") {
        let kinds = [("inserted", '+'), ("updated", '~'), ("deleted", '-')];
        let counts = kinds.into_iter().filter_map(|(name, sign)| {
            let count = table.get(name).and_then(Value::as_u64).filter(|count| *count > 0)?;
            Some(format!(" {sign}{count}"))
        });
        let counts: String = counts.collect();
        let more = match table.get("counted").and_then(Value::as_bool) {
            Some(false) => " and more",
            Some(true) | None => "",
        };
        lines += &format!("  {}.{}{counts}{more}\n", word(table, "schema"), word(table, "table"));
    }
    for statement in list("statements") {
        let schema = match word(statement, "schema") {
            schema if schema.is_empty() => schema,
            schema => format!(" in {schema}"),
        };
        lines += &format!("  {}{schema}\n", word(statement, "statement"));
    }
    if change.get("complete").and_then(Value::as_bool) == Some(false) {
        lines += "  and more that was too long to be read\n";
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_is_a_few_lines() {
        let data = r#"{"gtid":"0-1-7","tables":[{"schema":"s","table":"t","inserted":2,
            "updated":0,"deleted":1,"counted":false}],
            "statements":[{"schema":"s","statement":"DROP TABLE"},
            {"schema":"","statement":"GRANT"}],"complete":false}"#;
        let expected = "0-1-7\n  s.t +2 -1 and more\n  DROP TABLE in s\n  GRANT\n  \
                        and more that was too long to be read\n";
        assert_eq!(text(data).expect("text"), expected);
    }

    #[test]
    fn values_stand_in_addresses_with_percent_signs() {
        assert_eq!(encoded("3e11:1-5,b:7 x"), "3e11%3A1-5%2Cb%3A7%20x");
    }
}
