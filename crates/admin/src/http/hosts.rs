//! Whether a request may come by the name that it was sent to, and from the page that sent it.
//!
//! A browser sends requests for whatever page it shows. A page whose own name is resolved to the
//! proxy's address would read the answers, as if it had come from there: so names have to be known
//! ones. An IP address needs no resolving, and names that stand for the loopback are not anybody's.

use std::{fs, net::IpAddr};

use axum::http::{HeaderMap, Uri, header};

/// What is wrong with the headers of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Foreign {
    /// It was sent to a name that is not the proxy's.
    Host(String),
    /// It names no host, or several.
    Hosts,
    /// A page of another origin sent it.
    Origin(String),
}

impl std::fmt::Display for Foreign {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Host(host) => write!(
                f,
                "`{host}` is not a name of this proxy: ask by its address, or add the name to \
                 http_allowed_hosts"
            ),
            Self::Hosts => f.write_str("the request has no single header `Host` that is text"),
            Self::Origin(origin) => write!(f, "the request was sent by a page of `{origin}`"),
        }
    }
}

/// The machine's own name; empty when it is not known.
pub(super) fn own_name() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

/// Judges a request's headers. One without `Host`, as HTTP/1.0 has it, comes from no browser.
///
/// # Errors
/// What is wrong.
pub(super) fn check(
    uri: &Uri,
    headers: &HeaderMap,
    allowed: &str,
    own_name: &str,
) -> Result<(), Foreign> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (None, _) => None,
        (Some(host), None) => Some(host.to_str().map_err(|_| Foreign::Hosts)?),
        (Some(_), Some(_)) => return Err(Foreign::Hosts),
    };
    for named in host.into_iter().chain(uri.authority().map(|authority| authority.as_str())) {
        if !is_allowed(named, allowed, own_name) {
            return Err(Foreign::Host(shortened(named)));
        }
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    let origin = origin.to_str().unwrap_or("?");
    let authority = origin.split_once("://").map(|(_, authority)| authority);
    let is_own = authority.zip(host).is_some_and(|(a, b)| a.eq_ignore_ascii_case(b));
    if is_own { Ok(()) } else { Err(Foreign::Origin(shortened(origin))) }
}

fn shortened(text: &str) -> String {
    text.chars().take(100).collect()
}

/// Whether `host`, with or without a port, is a name of the proxy.
fn is_allowed(host: &str, allowed: &str, own_name: &str) -> bool {
    let host = without_port(host).trim_end_matches('.').to_ascii_lowercase();
    if host.is_empty() {
        return false;
    }
    let is_address = host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    let is_loopback = host == "localhost" || host.ends_with(".localhost");
    is_address
        || is_loopback
        || host.eq_ignore_ascii_case(own_name)
        || allowed.split([',', ';', ' ']).map(str::trim).any(|entry| matches(&host, entry))
}

/// `name`, `*.domain` or `*`.
fn matches(host: &str, entry: &str) -> bool {
    let entry = entry.to_ascii_lowercase();
    match entry.strip_prefix('*') {
        Some("") => true,
        Some(domain) => domain.starts_with('.') && host.ends_with(domain),
        None => host == entry,
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        Some(_) | None => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(uri: &str, headers: &[(&str, &str)]) -> Result<(), Foreign> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name = header::HeaderName::from_bytes(name.as_bytes()).expect("a name");
            map.append(name, value.parse().expect("a value"));
        }
        check(&uri.parse().expect("a path"), &map, "proxy.example.com, *.internal.example", "db-7")
    }

    #[test]
    fn names_are_known_ones() {
        for host in [
            "127.0.0.1:6070",
            "127.0.0.1",
            "[::1]:6070",
            "[2001:db8::1]",
            "10.2.3.4:80",
            "localhost:6070",
            "LOCALHOST",
            "trunkline.localhost",
            "db-7:6070",
            "proxy.example.com",
            "Proxy.Example.com.:6070",
            "a.internal.example",
        ] {
            assert_eq!(judge("/status", &[("host", host)]), Ok(()), "{host}");
        }
        for host in [
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "evil-localhost",
            "internal.example",
            "xproxy.example.com",
            "db-7.evil.example",
            "",
            ":6070",
            "1:2:3",
        ] {
            let judged = judge("/status", &[("host", host)]);
            assert!(matches!(judged, Err(Foreign::Host(_))), "{host}: {judged:?}");
        }
        assert!(is_allowed("whatever.example", "*", ""));
        assert_eq!(judge("/status", &[]), Ok(()), "HTTP/1.0");
        let twice = [("host", "localhost"), ("host", "evil.example")];
        assert_eq!(judge("/status", &twice), Err(Foreign::Hosts));
        let absolute = judge("http://evil.example/status", &[("host", "localhost")]);
        assert!(matches!(absolute, Err(Foreign::Host(_))), "{absolute:?}");
    }

    #[test]
    fn pages_of_others_ask_nothing() {
        let from = |origin: &str| judge("/", &[("host", "localhost:6070"), ("origin", origin)]);
        assert_eq!(from("http://localhost:6070"), Ok(()));
        for origin in
            ["https://evil.example", "null", "http://localhost:3000", "http://localhost", "x"]
        {
            assert!(matches!(from(origin), Err(Foreign::Origin(_))), "{origin}");
        }
        assert!(judge("/", &[("origin", "http://localhost:6070")]).is_err(), "no host");
    }
}
