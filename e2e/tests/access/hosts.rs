//! Clients that are let in by the name of their host, as a name server of the test's says it.

use std::collections::HashMap;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use trunkline_testkit::{TempFolder, Trunkline, can_overlay, skipped};

use super::{behind, enter, from};
use crate::backends::{self, Config, PASSWORD};
use crate::wire::refused;

/// Kinds of records (RFC 1035, 3.2.2).
const A: u16 = 1;
const PTR: u16 = 12;
/// How long a name server's silence lasts until the system gives up, `resolv.conf` permitting.
const SILENCE_MAX: Duration = Duration::from_secs(4);

/// What is answered: addresses of names, and names of addresses. Others have none.
const NAMES: [(&str, Ipv4Addr); 3] = [
    ("app-1.example.com", Ipv4Addr::new(192, 0, 2, 1)),
    ("app-2.example.com", Ipv4Addr::new(192, 0, 2, 2)),
    ("web.example.com", Ipv4Addr::new(192, 0, 2, 3)),
];
const ADDRESSES: [(Ipv4Addr, &str); 4] = [
    (Ipv4Addr::new(192, 0, 2, 1), "App-1.Example.com"),
    (Ipv4Addr::new(192, 0, 2, 2), "app-2.example.com"),
    (Ipv4Addr::new(192, 0, 2, 3), "web.example.com"),
    // Whose owner says so, and nobody else.
    (Ipv4Addr::new(192, 0, 2, 66), "app-1.example.com"),
];
/// Nothing is answered to who asks about it.
const SILENT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 99);

/// A name server on a loopback address of its own; ends with this.
struct NameServer {
    addr: Ipv4Addr,
    asked: Arc<AtomicUsize>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl NameServer {
    /// `None` where no name server can listen.
    fn start() -> Option<Self> {
        let pid = std::process::id().to_be_bytes();
        let socket = (1..=250)
            .find_map(|last| UdpSocket::bind((Ipv4Addr::new(127, 53, pid[3], last), 53)).ok())?;
        let addr = match socket.local_addr().ok()?.ip() {
            std::net::IpAddr::V4(addr) => addr,
            std::net::IpAddr::V6(_) => return None,
        };
        socket.set_read_timeout(Some(Duration::from_millis(50))).ok()?;
        let (asked, is_over) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let thread = std::thread::spawn({
            let (asked, is_over) = (Arc::clone(&asked), Arc::clone(&is_over));
            move || {
                let mut query = [0; 512];
                while !is_over.load(Relaxed) {
                    let Ok((len, from)) = socket.recv_from(&mut query) else { continue };
                    asked.fetch_add(1, Relaxed);
                    if let Some(answer) = answer(&query[..len]) {
                        // A resolver that has gone needs none.
                        let _ = socket.send_to(&answer, from);
                    }
                }
            }
        });
        Some(Self { addr, asked, is_over, thread: Some(thread) })
    }

    fn asked(&self) -> usize {
        self.asked.load(Relaxed)
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The answer to a query of one question; `None` is silence.
fn answer(query: &[u8]) -> Option<Vec<u8>> {
    let mut labels = Vec::new();
    let mut at = 12;
    while let len @ 1.. = usize::from(*query.get(at)?) {
        labels.push(String::from_utf8_lossy(query.get(at + 1..=at + len)?).to_lowercase());
        at += 1 + len;
    }
    let end = at + 5;
    let kind = u16::from_be_bytes([*query.get(at + 1)?, *query.get(at + 2)?]);
    let name = labels.join(".");
    let reversed = |addr: Ipv4Addr| {
        let [a, b, c, d] = addr.octets();
        format!("{d}.{c}.{b}.{a}.in-addr.arpa")
    };
    if name == reversed(SILENT) {
        return None;
    }
    let data: Option<Vec<u8>> = match kind {
        A => HashMap::from(NAMES).get(&*name).map(|addr| addr.octets().to_vec()),
        PTR => ADDRESSES.iter().find(|(addr, _)| reversed(*addr) == name).map(|(_, name)| {
            let mut data = Vec::new();
            for label in name.split('.') {
                data.push(u8::try_from(label.len()).unwrap_or_default());
                data.extend_from_slice(label.as_bytes());
            }
            data.push(0);
            data
        }),
        _ => None,
    };
    let is_known = data.is_some() || NAMES.iter().any(|(known, _)| *known == name);
    let mut out = query.get(..2)?.to_vec();
    // An answer with authority; NXDOMAIN where nothing of that name is known.
    out.extend([0x85, if is_known { 0x80 } else { 0x83 }, 0, 1]);
    out.extend([0, u8::from(data.is_some()), 0, 0, 0, 0]);
    out.extend_from_slice(query.get(12..end)?);
    if let Some(data) = data {
        out.extend([0xC0, 12]);
        out.extend(kind.to_be_bytes());
        out.extend([0, 1, 0, 0, 0, 60]);
        out.extend(u16::try_from(data.len()).unwrap_or_default().to_be_bytes());
        out.extend(data);
    }
    Some(out)
}

/// Starts a proxy that asks this name server and has a hosts file with nothing in it.
fn start(config: &Config, names: &NameServer, folder: &TempFolder) -> Result<Trunkline> {
    let resolv = format!("nameserver {}\noptions timeout:1 attempts:1\n", names.addr);
    let files = [
        ("resolv.conf", &*resolv),
        ("nsswitch.conf", "hosts: files dns\n"),
        ("hosts", "127.0.0.1 localhost\n"),
    ];
    let mut overlays = Vec::new();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::write(&path, text)?;
        overlays.push((path, Path::new("/etc").join(name)));
    }
    Trunkline::start_overlaid(config.text(), &overlays)
}

/// A name server and a folder for files; `None`, said aloud, where that can't be had.
fn prepare(test: &str) -> Result<Option<(NameServer, TempFolder)>> {
    if !can_overlay() {
        skipped(test, "no mount namespace is to be had (root can make one)");
        return Ok(None);
    }
    let Some(names) = NameServer::start() else {
        skipped(test, "nobody may listen on port 53 of a loopback address (root may)");
        return Ok(None);
    };
    Ok(Some((names, TempFolder::new("names")?)))
}

fn lookups(proxy: &Trunkline, result: &str, expected: f64) -> Result<()> {
    let labels = format!("result=\"{result}\"");
    let name = "trunkline_host_name_lookups_total";
    backends::wait_metric(proxy, name, &labels, |count| (count - expected).abs() < 0.5)?;
    Ok(())
}

/// Any client of the loopback network may say where it comes from.
const TRUSTED: &str = "proxy_protocol_networks = [\"127.0.0.0/8\"]";

#[test]
fn users_come_from_hosts_with_their_names() -> Result<()> {
    let test = "users_come_from_hosts";
    let Some(server) = backends::mariadb(test)? else { return Ok(()) };
    let Some((names, folder)) = prepare(test)? else { return Ok(()) };
    for user in ["hosted", "anywhere"] {
        backends::account(server, user)?;
    }
    let password = format!("password = \"{}\"", PASSWORD.replace('\\', "\\\\"));
    let listed = format!("{password}\nallow_from = [\"app-%.example.com\", \"198.51.100.0/24\"]");
    let config = Config::new(TRUSTED, server).user_with("hosted", &listed).user("anywhere");
    let proxy = start(&config, &names, &folder)?;

    let mut first = enter(&proxy, "hosted", "192.0.2.1")?;
    assert_eq!(first.value("SELECT 5")?.as_deref(), Some("5"));
    assert!(enter(&proxy, "hosted", "192.0.2.2").is_ok());
    assert!(enter(&proxy, "hosted", "198.51.100.7").is_ok());
    lookups(&proxy, "named", 2.0)?;
    // Another name, none, and one that somebody else owns.
    for address in ["192.0.2.3", "203.0.113.1", "192.0.2.66"] {
        let error = refused(enter(&proxy, "hosted", address))?;
        let text = format!("Access denied for user 'hosted'@'{address}' (using password: YES)");
        assert_eq!(error.parts(), (1045, "28000", &*text));
        assert!(enter(&proxy, "anywhere", address).is_ok(), "{address}");
    }
    lookups(&proxy, "unconfirmed", 1.0)?;
    assert!(proxy.log().contains("192.0.2.66 is called app-1.example.com, and app-1.example.com"));
    // A change of user is judged by the same name.
    first.change_user("anywhere", PASSWORD, "")?;
    first.change_user("hosted", PASSWORD, "")?;
    let mut other = enter(&proxy, "anywhere", "192.0.2.3")?;
    assert_eq!(refused(other.change_user("hosted", PASSWORD, "").map(|()| other))?.code, 1045);

    // What is known is not asked for again; who comes over the Unix socket has no name.
    let asked = names.asked();
    for _ in 0..5 {
        assert!(enter(&proxy, "hosted", "192.0.2.1").is_ok());
    }
    assert_eq!(names.asked(), asked);
    Ok(())
}

#[test]
fn a_name_server_that_is_silent_holds_up_nobody_else() -> Result<()> {
    let test = "a_name_server_that_is_silent";
    let Some(server) = backends::mariadb(test)? else { return Ok(()) };
    let Some((names, folder)) = prepare(test)? else { return Ok(()) };
    backends::account(server, "hosted_late")?;
    let password = format!("password = \"{}\"", PASSWORD.replace('\\', "\\\\"));
    let listed = format!("{password}\nallow_from = \"app-%.example.com\"");
    let proxy =
        start(&Config::new(TRUSTED, server).user_with("hosted_late", &listed), &names, &folder)?;
    let mut before = enter(&proxy, "hosted_late", "192.0.2.1")?;

    let begun = Instant::now();
    let (error, stranger) = std::thread::scope(|scope| {
        let late = scope.spawn(|| refused(enter(&proxy, "hosted_late", &SILENT.to_string())));
        let stranger = scope.spawn(|| refused(enter(&proxy, "nobody", &SILENT.to_string())));
        // Statements and logins from elsewhere go on meanwhile.
        while !late.is_finished() && begun.elapsed() < SILENCE_MAX / 8 {
            assert_eq!(before.value("SELECT 5").ok().flatten().as_deref(), Some("5"));
        }
        assert!(!late.is_finished(), "the name server is not silent");
        assert!(enter(&proxy, "hosted_late", "192.0.2.2").is_ok());
        (late.join(), stranger.join())
    });
    let join = |ended: std::thread::Result<_>| ended.ok().context("a client panicked")?;
    let (error, stranger): (crate::wire::ErrorPacket, crate::wire::ErrorPacket) =
        (join(error)?, join(stranger)?);
    assert!(begun.elapsed() < 2 * SILENCE_MAX, "{:?}", begun.elapsed());
    // Known and unknown users wait alike.
    assert_eq!(error.text.replace("hosted_late", "nobody"), stranger.text);
    assert_eq!(error.code, 1045);
    // Each worker asks once.
    let name = "trunkline_host_name_lookups_total";
    let failed = "result=\"failed\"";
    backends::wait_metric(&proxy, name, failed, |count| (0.5..2.5).contains(&count))?;
    Ok(())
}

#[test]
fn a_listener_takes_hosts_that_it_names() -> Result<()> {
    let test = "a_listener_takes_hosts";
    let Some(server) = backends::mariadb(test)? else { return Ok(()) };
    let Some((names, folder)) = prepare(test)? else { return Ok(()) };
    backends::account(server, "hosted_port")?;
    let settings = format!(
        "{TRUSTED}\nlisten = [\"127.0.0.1:{{port}}\"]\n\
         listen_allow = [\"127.0.0.1:{{port}}=198.51.100.0/24,app-%.example.com\"]"
    );
    let proxy = start(&Config::new(&settings, server).user("hosted_port"), &names, &folder)?;
    assert!(enter(&proxy, "hosted_port", "192.0.2.1").is_ok());
    let asked = names.asked();
    // Who is let in by the address is not asked for a name.
    assert!(enter(&proxy, "hosted_port", "198.51.100.7").is_ok());
    assert_eq!(names.asked(), asked);
    for (user, password) in [("hosted_port", PASSWORD), ("nobody", "wrong")] {
        let error = refused(behind(&proxy, &from("192.0.2.3"), user, password))?;
        let text = "Host '192.0.2.3' is not allowed to connect to this server";
        assert_eq!((error.code, &*error.text), (1130, text));
    }
    Ok(())
}

#[test]
fn accounts_of_hosts_are_read_from_servers() -> Result<()> {
    let test = "accounts_of_hosts";
    for server in super::granted::servers(test)? {
        let Some((names, folder)) = prepare(test)? else { return Ok(()) };
        let create = |host: &str, password: &str| {
            super::granted::create(&server, "hosted", host, password, "")
        };
        create("127.0.0.1", "by name")?;
        create("%", "by address")?;
        let config = super::granted::config(&server, "");
        let proxy = start(&config, &names, &folder)?;
        let enter =
            |address: &str, password: &str| behind(&proxy, &from(address), "hosted", password);
        assert!(enter("192.0.2.1", "by address").is_ok());
        assert_eq!(names.asked(), 0, "a name was asked for that nothing depends on");
        // An account that is new and names hosts is found at its first login.
        create("app-%.example.com", "by name")?;
        let mut client = enter("192.0.2.1", "by name")?;
        assert_eq!(client.value("SELECT 5")?.as_deref(), Some("5"));
        assert_eq!(refused(enter("192.0.2.3", "by name"))?.code, 1045);
        assert_eq!(refused(enter("192.0.2.66", "by name"))?.code, 1045);
        assert!(enter("192.0.2.3", "by address").is_ok());
    }
    Ok(())
}
