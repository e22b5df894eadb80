//! `trunkline bundle`: one archive for a bug report, without secrets.
//!
//! Whatever goes into it is text. Columns and settings that hold secrets are left out by their
//! names, and the texts are searched for the secrets that are known and for what looks like one.

mod machine;
mod tar;

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result};
use serde_json::Value as Json;
use trunkline_admin::{
    bundle::{Part, Secrets, note_secrets, rows_text, without_literals},
    control::Order,
    service::FirstRow,
};
use trunkline_compression::gzip;
use trunkline_stats::Report;
use trunkline_store::{Value, open::DISK_FILE};

use crate::{
    cli::{BundleArgs, ProxyArgs},
    config_file::ConfigFile,
    doctor,
    import::rows_of,
    orders, show, status,
};
use tar::Archive;

/// Pages of the proxy, and the files that they become.
const PAGES: [(&str, &str); 6] = [
    ("/status", "status.json"),
    ("/status/digests?limit=1000", "digests.json"),
    ("/metrics", "metrics.txt"),
    ("/sessions?limit=1000", "sessions.json"),
    ("/api/v1/topology", "topology.json"),
    ("/api/v1/events", "events.json"),
];

/// What the archive says of itself.
const README: &str = "\
An archive for a bug report, made by `trunkline bundle`.

In it are names of users, schemas, hostgroups and tables, addresses of clients and servers,
digests of statements without their values, settings, statistics and lines of the log.

Not in it are passwords and their hashes, tokens, keys, comments, texts of rules that clients
get, arguments of scripts, and whatever patterns, errors and log lines quote. In place of a
secret stands [removed]. Look at the files before you pass them on: nobody can recognise every
secret.
";

/// Makes the archive.
pub fn run(args: &BundleArgs) -> Result<ExitCode> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let mut found = Gathered::default();
    found.gather(args, now);
    let output = args.output.clone();
    let output = output.unwrap_or_else(|| PathBuf::from(format!("trunkline-bundle-{now}.tar.gz")));
    let folder = format!("trunkline-bundle-{now}");
    let packed = gzip(&found.archive(&folder, now))?;
    let failed = || format!("can't write {}", output.display());
    trunkline_net::private::create(&output, &packed).with_context(failed)?;
    let missing = match found.errors.len() {
        0 => String::new(),
        count => format!("; {count} parts are missing: see errors.txt in it"),
    };
    show(&format!(
        "{}: {} files, {} kB{missing}\n",
        output.display(),
        found.parts.len() + 1,
        packed.len().div_ceil(1_000)
    ));
    Ok(ExitCode::SUCCESS)
}

/// Everything that goes into the archive.
#[derive(Default)]
struct Gathered {
    parts: Vec<Part>,
    secrets: Secrets,
    /// What could not be had, and why.
    errors: Vec<String>,
}

impl Gathered {
    fn gather(&mut self, args: &BundleArgs, now: u64) {
        let tokens = [args.reach.token.clone(), std::env::var("TRUNKLINE_TOKEN").ok()];
        tokens.iter().flatten().for_each(|token| self.secrets.add(token));
        let version = env!("CARGO_PKG_VERSION");
        self.add("version.txt", format!("trunkline {version}\nmade at {now} (Unix time)\n"));
        self.add("machine.txt", machine::machine());
        self.add("kernel.txt", machine::limits());
        let file = match (&args.reach.proxy.config, &args.reach.data_dir) {
            (Some(file), _) => Some(file.clone()),
            (None, Some(folder)) => Some(folder.join(DISK_FILE)),
            (None, None) => None,
        };
        match &file {
            Some(file) => {
                self.configuration(file);
                if !args.without_servers {
                    self.doctor(file, Duration::from_secs(args.timeout));
                }
            }
            None => self.miss("configuration.txt, doctor.txt", &"name the file with -c, or -D"),
        }
        self.pages(&ProxyArgs { url: args.reach.proxy.url.clone(), config: file });
        match orders::ask(&args.reach, Order::Bundle).and_then(|text| files(&text)) {
            Ok(parts) => parts.into_iter().for_each(|part| self.parts.push(part)),
            Err(error) => self.miss("log.txt, tables", &format!("{error:#}")),
        }
    }

    fn add(&mut self, name: &str, text: impl Into<String>) {
        self.parts.push(Part::new(name, text));
    }

    fn miss(&mut self, name: &str, why: &dyn std::fmt::Display) {
        self.errors.push(format!("{name}: {why}"));
    }

    /// The configuration as rows, whatever kind of file it is.
    fn configuration(&mut self, file: &Path) {
        let read = match rows_of(file) {
            Ok(read) => read,
            Err(lines) => {
                // What a wrong line quotes may be a secret.
                let lines = lines.iter().map(|line| without_literals(&line.replace('`', "'")));
                let text = lines.collect::<Vec<_>>().join("\n");
                return self.add("configuration.txt", format!("it is wrong:\n{text}\n"));
            }
        };
        let folder = file.parent().unwrap_or(Path::new(""));
        for row in &read.rows {
            note_secrets(&mut self.secrets, row.table, columns(row));
            self.note_files(row, folder);
        }
        let mut text = String::new();
        for row in &read.rows {
            text.push_str(&rows_text(row.table, [columns(row)]));
        }
        let warnings = read.warnings.iter().map(|line| without_literals(line));
        warnings.for_each(|line| text.push_str(&format!("# {line}\n")));
        self.add("configuration.txt", text);
    }

    /// Notes what is in the files of passwords that a setting names.
    fn note_files(&mut self, row: &FirstRow, folder: &Path) {
        if let [(_, Value::Text(name)), (_, Value::Text(path)), ..] = row.values.as_slice()
            && name.ends_with("password_file")
            && let Ok(password) = fs::read_to_string(folder.join(path))
        {
            self.secrets.add(password.trim_end());
        }
    }

    fn doctor(&mut self, file: &Path, time_max: Duration) {
        match doctor::findings(&ConfigFile::new(file), time_max) {
            Ok(text) => self.add("doctor.txt", without_literals(&text)),
            Err(error) => {
                let why = without_literals(&format!("{error:#}").replace('`', "'"));
                self.miss("doctor.txt", &why);
            }
        }
    }

    fn pages(&mut self, proxy: &ProxyArgs) {
        let url = match status::url_of(proxy) {
            Ok(url) => url,
            Err(error) => {
                return self.miss("status.json, metrics.txt", &format!("{error:#}"));
            }
        };
        for (path, name) in PAGES {
            match status::fetch(&url, path) {
                Ok(text) => {
                    if name == "status.json"
                        && let Ok(report) = serde_json::from_str::<Report>(&text)
                    {
                        self.add("process.txt", machine::process(report.process.process_id));
                    }
                    let is_of_servers = name == "events.json" || name == "topology.json";
                    let text = if is_of_servers { json_without(&text) } else { text };
                    self.add(name, text);
                }
                Err(error) => self.miss(name, &format!("{error:#}")),
            }
        }
    }

    fn archive(&self, folder: &str, now: u64) -> Vec<u8> {
        let mut archive = Archive::default();
        let readme = Part::new("README.txt", README);
        let mut errors = self.errors.join("\n");
        errors.push('\n');
        let errors = (!self.errors.is_empty()).then(|| Part::new("errors.txt", errors));
        for part in std::iter::once(&readme).chain(&self.parts).chain(&errors) {
            let text = self.secrets.without(&part.text);
            archive.add(&format!("{folder}/{}", part.name), text.as_bytes(), now);
        }
        archive.finish()
    }
}

fn columns(row: &FirstRow) -> Vec<(&str, &Value)> {
    row.values.iter().map(|(name, value)| (name.as_str(), value)).collect()
}

/// JSON whose texts quote nothing: servers say why something happened in their own words.
fn json_without(text: &str) -> String {
    fn without(json: Json) -> Json {
        match json {
            Json::String(text) => Json::from(without_literals(&text)),
            Json::Array(items) => Json::Array(items.into_iter().map(without).collect()),
            Json::Object(members) => {
                Json::Object(members.into_iter().map(|(key, it)| (key, without(it))).collect())
            }
            Json::Null | Json::Bool(_) | Json::Number(_) => json,
        }
    }
    serde_json::from_str(text).map_or_else(|_| String::new(), |json| without(json).to_string())
}

/// The files that a proxy told of; none leaves the archive's folder.
fn files(text: &str) -> Result<Vec<Part>> {
    let object: serde_json::Map<String, Json> =
        serde_json::from_str(text).context("the proxy is another version")?;
    let is_below = |name: &str| !name.starts_with('/') && !name.split('/').any(|it| it == "..");
    let parts = object.into_iter().filter(|(name, _)| is_below(name));
    Ok(parts.filter_map(|(name, text)| Some(Part::new(name, text.as_str()?))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_stay_in_their_folder() {
        let told = r#"{"log.txt":"a","../x":"b","/y":"c","t/../z":"d","n":5}"#;
        assert_eq!(files(told).expect("JSON"), [Part::new("log.txt", "a")]);
        assert!(files("[]").is_err());
    }

    #[test]
    fn what_servers_quote_is_left_out() {
        let told = r#"[{"evidence":"Duplicate entry 'secret' for key","n":1}]"#;
        assert_eq!(json_without(told), r#"[{"evidence":"Duplicate entry '?' for key","n":1}]"#);
    }
}
