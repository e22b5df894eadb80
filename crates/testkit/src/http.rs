//! The smallest HTTP client that reads `/metrics`.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result};

/// Largest answer that is read, in bytes.
const BODY_MAX: u64 = 64 * 1_024 * 1_024;
const TIMEOUT: Duration = Duration::from_secs(10);

/// GETs `path` from loopback and gives the status and the body.
///
/// Speaks HTTP/1.0, so that the answer has no chunks and ends when the connection does.
///
/// # Errors
/// When nothing listens, no answer comes within ten seconds, or it isn't HTTP.
pub fn http_get(port: u16, path: &str) -> Result<(u16, String)> {
    let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&addr, TIMEOUT)
        .with_context(|| format!("nothing answers on {addr}"))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {addr}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut bytes = Vec::new();
    stream.take(BODY_MAX).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    parse(&text).with_context(|| format!("{addr}{path} did not answer in HTTP: {text:.80}"))
}

fn parse(answer: &str) -> Option<(u16, String)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status_line = head.lines().next()?;
    let (version, rest) = status_line.split_once(' ')?;
    if !version.starts_with("HTTP/1.") {
        return None;
    }
    let status = rest.split(' ').next()?.parse().ok()?;
    Some((status, body.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_taken_apart() {
        let ok = "HTTP/1.0 200 OK\r\ncontent-type: text/plain\r\n\r\na 1\n";
        assert_eq!(parse(ok), Some((200, "a 1\n".to_owned())));
        assert_eq!(parse("J\0\0\0\x0a5.5.5-10.11"), None);
    }
}
