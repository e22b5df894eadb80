//! `trunkline status`.

use std::{
    io::{Read, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs},
    path::Path,
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::de::DeserializeOwned;
use trunkline_config::Settings;
use trunkline_stats::Report;

use crate::{
    cli::{ProxyArgs, StatusArgs},
    config_file::ConfigFile,
    import::read_any,
    paint::painted,
    show,
};

/// Where the proxy answers unless it is told otherwise.
const DEFAULT_URL: &str = "http://127.0.0.1:6070";
const CONNECT_TIME_MAX: Duration = Duration::from_secs(3);
/// Longer than the proxy itself waits for its workers.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);
/// The longest answer that is read.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// What may be wrong when nothing answers.
const HINT: &str = "is trunkline running, and is its http_listen this address?";
/// The longest head of an answer.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// Asks the running proxy and shows what it says.
pub fn run(args: &StatusArgs) -> Result<ExitCode> {
    ask(&args.proxy, "/status", args.json, |body| {
        let report: Report = serde_json::from_str(body)?;
        Ok(painted(&trunkline_admin::status_text(&report)))
    })
}

/// Asks the running proxy for a page of JSON, and shows it as it is or as `text` makes it.
pub fn ask(
    proxy: &ProxyArgs,
    path: &str,
    is_json: bool,
    text: impl FnOnce(&str) -> serde_json::Result<String>,
) -> Result<ExitCode> {
    let url = url_of(proxy)?;
    let body = fetch(&url, path)?;
    if is_json {
        show(&body);
        if !body.ends_with('\n') {
            show("\n");
        }
        return Ok(ExitCode::SUCCESS);
    }
    let text = text(&body)
        .with_context(|| format!("what answers at {url} is not Trunkline, or another version"))?;
    show(&text);
    Ok(ExitCode::SUCCESS)
}

/// Asks a running proxy for a page, and shows it as JSON (`json`) or for people (`text`).
pub fn ask_for<T: DeserializeOwned>(
    proxy: &ProxyArgs,
    path: &str,
    is_json: bool,
    json: impl Fn(&T) -> serde_json::Result<String>,
    text: impl Fn(&T) -> String,
) -> Result<ExitCode> {
    ask(proxy, path, false, |body| {
        let page: T = serde_json::from_str(body)?;
        match is_json {
            true => json(&page).map(|text| format!("{text}\n")),
            false => Ok(painted(&text(&page))),
        }
    })
}

/// Where the proxy answers.
pub fn url_of(proxy: &ProxyArgs) -> Result<String> {
    match (&proxy.url, &proxy.config) {
        (Some(url), _) => Ok(url.clone()),
        (None, Some(file)) => url_of_file(&ConfigFile::new(file)),
        (None, None) => Ok(DEFAULT_URL.to_owned()),
    }
}

/// The settings of a configuration file.
pub fn settings_of(file: &Path) -> Result<Settings> {
    let read = read_any(&ConfigFile::new(file)).map_err(|errors| anyhow!(errors.join("\n")))?;
    Ok(read.config.settings.clone())
}

fn url_of_file(file: &ConfigFile) -> Result<String> {
    let read = read_any(file).map_err(|errors| anyhow!(errors.join("\n")))?;
    let listen = read.config.settings.http_listen;
    let listen =
        listen.with_context(|| format!("`http_listen` is empty in {}", file.path().display()))?;
    Ok(format!("http://{}", reachable(listen)))
}

/// An address that stands for all of them is asked on the loopback.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

/// The body of the answer to a GET. Plain HTTP only.
pub fn fetch(url: &str, path: &str) -> Result<String> {
    let request = format!("GET {path} HTTP/1.0\r\nAccept: application/json\r\n");
    match send(url, &request, "", ANSWER_TIME_MAX)? {
        (200, body) => Ok(body),
        (code, body) => bail!("{url}{path} answers {code}: {}", body.trim_end()),
    }
}

/// The status and the body of the answer to a POST of JSON.
pub fn post(
    url: &str,
    path: &str,
    token: &str,
    body: &str,
    time_max: Duration,
) -> Result<(u16, String)> {
    let request = format!(
        "POST {path} HTTP/1.0\r\nContent-Type: application/json\r\n\
         Authorization: Bearer {token}\r\nContent-Length: {}\r\n",
        body.len()
    );
    send(url, &request, body, time_max)
}

/// The body of the answer to a GET, to be read as it comes.
pub fn open(url: &str, path: &str, token: &str) -> Result<TcpStream> {
    let host = host_of(url)?;
    let mut stream = connect(host).with_context(|| format!("nothing answers at {url} ({HINT})"))?;
    stream.set_read_timeout(Some(ANSWER_TIME_MAX))?;
    let request = format!(
        "GET {path} HTTP/1.0\r\nAccept: text/event-stream\r\nAuthorization: Bearer {token}\r\n\
         Host: {host}\r\n\r\n"
    );
    stream.write_all(request.as_bytes())?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < HEAD_BYTES_MAX {
        let mut byte = [0];
        stream.read_exact(&mut byte).with_context(|| format!("no answer from {url}"))?;
        head.extend(byte);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    match code_of(url, &head)? {
        200 => Ok(stream),
        code => {
            let mut body = String::new();
            stream.take(ANSWER_BYTES_MAX).read_to_string(&mut body)?;
            bail!("{url} refuses (status {code}): {}", reason(&body))
        }
    }
}

/// Why the API refuses, out of its answer.
fn reason(body: &str) -> String {
    let answer: Option<serde_json::Value> = serde_json::from_str(body).ok();
    let message = answer.as_ref().and_then(|it| it.pointer("/error/message")?.as_str());
    message.unwrap_or(body.trim_end()).to_owned()
}

fn host_of(url: &str) -> Result<&str> {
    url.strip_prefix("http://")
        .map(|rest| rest.trim_end_matches('/'))
        .filter(|host| !host.is_empty() && !host.contains('/'))
        .with_context(|| format!("`{url}` must be http://HOST:PORT"))
}

fn code_of(url: &str, head: &str) -> Result<u16> {
    let mut words = head.split_ascii_whitespace();
    let is_http = words.next().is_some_and(|word| word.starts_with("HTTP/1."));
    ensure!(is_http, "{url} does not speak HTTP");
    let code = words.next().and_then(|word| word.parse().ok());
    code.with_context(|| format!("{url} answers without a status"))
}

fn send(url: &str, request: &str, body: &str, time_max: Duration) -> Result<(u16, String)> {
    let host = host_of(url)?;
    let stream = connect(host).with_context(|| format!("nothing answers at {url} ({HINT})"))?;
    stream.set_read_timeout(Some(time_max))?;
    let answer = exchange(stream, host, request, body);
    let answer = answer.with_context(|| format!("no answer from {url}"))?;
    let (head, body) =
        answer.split_once("\r\n\r\n").with_context(|| format!("{url} does not speak HTTP"))?;
    Ok((code_of(url, head)?, body.to_owned()))
}

fn connect(host: &str) -> Result<TcpStream> {
    let with_port = match host.parse::<SocketAddr>() {
        Ok(_) => host.to_owned(),
        Err(_) if host.contains(':') => host.to_owned(),
        Err(_) => format!("{host}:80"),
    };
    let mut failure = None;
    for addr in with_port.to_socket_addrs()? {
        match TcpStream::connect_timeout(&addr, CONNECT_TIME_MAX) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = Some(error),
        }
    }
    match failure {
        Some(error) => Err(error.into()),
        None => bail!("`{host}` has no address"),
    }
}

/// HTTP/1.0, so that the answer ends with the connection and is not cut into chunks.
fn exchange(mut stream: TcpStream, host: &str, request: &str, body: &str) -> Result<String> {
    stream.set_write_timeout(Some(ANSWER_TIME_MAX))?;
    let request = format!("{request}Host: {host}\r\n\r\n{body}");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_for_all_is_asked_on_the_loopback() {
        let check = |listen: &str, expected: &str| {
            assert_eq!(reachable(listen.parse().expect(listen)).to_string(), expected);
        };
        check("0.0.0.0:6070", "127.0.0.1:6070");
        check("[::]:1", "[::1]:1");
        check("10.0.0.1:2", "10.0.0.1:2");
    }

    #[test]
    fn what_is_no_url_says_what_one_is() {
        for url in ["127.0.0.1:6070", "https://x", "http://", "http://x/y"] {
            let error = fetch(url, "/status").expect_err(url).to_string();
            assert_eq!(error, format!("`{url}` must be http://HOST:PORT"));
        }
    }
}
