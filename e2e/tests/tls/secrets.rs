//! What is left of secrets: nothing in the log and on any page, and nothing in memory once nobody
//! needs it.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{AuthPlugin, TempFolder, Trunkline, skipped};

use super::{anybody, certs, enter, quoted};
use crate::backends::{self, Config, PASSWORD, TIMEOUT};
use crate::wire::{Endpoint, MODERN, Wire, login};

/// A password that nothing else contains.
const TELLTALE: &str = "Telltale-7f3a9c51e8d24b06-Telltale";

/// Where these bytes are in the memory of a process that it can write to: the region, and what is
/// around them.
fn find_in_memory(pid: u32, wanted: &[u8]) -> Result<Vec<String>> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let memory = File::open(format!("/proc/{pid}/mem"))?;
    let pages = File::open(format!("/proc/{pid}/pagemap"))?;
    let mut found = Vec::new();
    for line in maps.lines() {
        let mut fields = line.split_whitespace();
        let (range, mode) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
        let Some((begin, end)) = range.split_once('-') else { continue };
        if !mode.starts_with("rw") || line.ends_with("[vvar]") {
            continue;
        }
        let (begin, end) = (u64::from_str_radix(begin, 16)?, u64::from_str_radix(end, 16)?);
        // A region may have gone meanwhile.
        let Ok(runs) = used_pages(&pages, begin, end) else { continue };
        for run in runs {
            let mut bytes = vec![0; usize::try_from(run.end - run.start)?];
            let Ok(()) = memory.read_exact_at(&mut bytes, run.start) else { continue };
            for at in memchr::memmem::find_iter(&bytes, wanted) {
                let around = &bytes[at.saturating_sub(48)..bytes.len().min(at + wanted.len() + 32)];
                found.push(format!("{line} at {at:#x}: {}", around.escape_ascii()));
            }
        }
    }
    Ok(found)
}

/// Bytes of a page.
const PAGE: u64 = 4_096;

/// The parts of a region that hold anything, in memory or swapped out: allocators reserve
/// gigabytes. `pages` is the process's `pagemap`, 8 bytes for each page.
fn used_pages(pages: &File, begin: u64, end: u64) -> Result<Vec<Range<u64>>> {
    let mut entries = vec![0; usize::try_from((end - begin) / PAGE * 8)?];
    pages.read_exact_at(&mut entries, begin / PAGE * 8)?;
    let mut runs: Vec<Range<u64>> = Vec::new();
    let (entries, _) = entries.as_chunks::<8>();
    for (start, entry) in (begin..end).step_by(PAGE as usize).zip(entries) {
        // The two highest bits: swapped out, present.
        if u64::from_ne_bytes(*entry) >> 62 == 0 {
            continue;
        }
        match runs.last_mut() {
            Some(run) if run.end == start => run.end += PAGE,
            _ => runs.push(start..start + PAGE),
        }
    }
    Ok(runs)
}

/// The process with the proxy's port, which is the one that `trunkline status` names.
fn pid(proxy: &Trunkline) -> Result<u32> {
    let pid = backends::status(proxy, "/process/process_id")?;
    u32::try_from(pid.as_u64().context("a number")?).context("a pid")
}

/// Everything that the proxy tells.
fn told(proxy: &Trunkline) -> Result<String> {
    let mut told = proxy.log();
    for page in ["/metrics", "/status", "/sessions", "/status/digests"] {
        told.push_str(&proxy.http(page)?.1);
    }
    Ok(told)
}

#[test]
fn passwords_are_wiped_and_never_told() -> Result<()> {
    let test = "passwords_are_wiped_and_never_told";
    for server in backends::each(test)? {
        let folder = TempFolder::new("secrets")?;
        backends::account(server, "stays")?;
        server.create_user("telltale", TELLTALE, AuthPlugin::ServerDefault)?;
        let file = folder.path().join("password");
        std::fs::write(&file, format!("{TELLTALE}\n"))?;
        let keys = format!("password_file = {}", quoted(&file));
        let settings = "log_level = \"debug\"";
        let config = Config::new(settings, server).user("stays").user_with("telltale", &keys);
        let proxy = config.start()?;
        let pid = pid(&proxy)?;
        if let Err(error) = find_in_memory(pid, TELLTALE.as_bytes()) {
            skipped(test, &format!("the memory of processes can't be read here: {error:#}"));
            return Ok(());
        }
        // By every way that a password may come.
        let mut clients = vec![
            Wire::login(&proxy, "telltale", TELLTALE, "")?,
            Wire::login(Endpoint::Unix(proxy.socket()), "telltale", TELLTALE, "")?,
            Wire::login_tls(&proxy, login("telltale", TELLTALE, "", MODERN), &anybody()?)?,
        ];
        for client in &mut clients {
            assert_eq!(client.value("SELECT 5")?.as_deref(), Some("5"));
        }
        // It is needed to log in to servers, so it is there once, or with each login's copy.
        let kept = find_in_memory(pid, TELLTALE.as_bytes())?.len();
        ensure!(kept > 0, "the search finds nothing that is there");
        assert!(!told(&proxy)?.contains(TELLTALE));
        drop(clients);
        let closed = "trunkline_client_connections_closed_total";
        crate::backends::wait_metric(&proxy, closed, "", |n| n >= 3.0)?;
        // Nobody has it any more.
        let config = Config::new(settings, server).user("stays");
        let mark = proxy.reload(config.text())?;
        proxy.wait_log(mark, "in force", TIMEOUT)?;
        assert!(enter(&proxy, "stays", &anybody()?).is_ok());
        wait_wiped(pid)?;
        assert!(!told(&proxy)?.contains(TELLTALE));
        assert_eq!(
            Wire::login(&proxy, "stays", PASSWORD, "")?.value("SELECT 5")?.as_deref(),
            Some("5")
        );
    }
    Ok(())
}

/// Until no copy of the password is left in the memory of the process.
fn wait_wiped(pid: u32) -> Result<()> {
    let mut left = Vec::new();
    let outcome = trunkline_testkit::wait_until("the memory is wiped", TIMEOUT, || {
        left = find_in_memory(pid, TELLTALE.as_bytes())?;
        Ok(left.is_empty().then_some(()))
    });
    outcome.with_context(|| format!("left are {left:#?}"))
}

/// The long lines of base64 of a key in PEM, without the first, with which all keys of its kind
/// begin.
fn key_lines(pem: &str) -> Vec<Vec<u8>> {
    let body: Vec<&str> = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    body.iter()
        .skip(1)
        .filter(|line| line.len() >= 32)
        .map(|line| line.as_bytes().to_vec())
        .collect()
}

#[test]
fn keys_of_files_and_passwords_for_servers_are_wiped() -> Result<()> {
    let test = "keys_of_files_and_passwords";
    let Some(server) = backends::mariadb(test)? else { return Ok(()) };
    let folder = TempFolder::new("secrets")?;
    let ca = certs::Ca::new(folder.path(), "ca")?;
    let shown = ca.sign("proxy", certs::Wanted { dns: "localhost", ..certs::Wanted::default() })?;
    backends::account(server, "stays_too")?;
    server.create_user("telltale_back", TELLTALE, AuthPlugin::ServerDefault)?;
    let settings = super::shown(&shown);
    let keys = format!(
        "password = \"front\"\nbackend_user = \"telltale_back\"\nbackend_password = \"{TELLTALE}\""
    );
    let proxy =
        Config::new(&settings, server).user("stays_too").user_with("front", &keys).start()?;
    let pid = pid(&proxy)?;
    if let Err(error) = find_in_memory(pid, TELLTALE.as_bytes()) {
        skipped(test, &format!("the memory of processes can't be read here: {error:#}"));
        return Ok(());
    }
    let login = login("front", "front", "", MODERN);
    let mut client = Wire::login_tls(&proxy, login, &anybody()?)?;
    assert_eq!(client.value("SELECT CURRENT_USER()")?.as_deref(), Some("telltale_back@%"));
    assert!(!find_in_memory(pid, TELLTALE.as_bytes())?.is_empty(), "it is needed");
    // The library has the key in a form of its own; of the file nothing is left.
    let pem = std::fs::read_to_string(&shown.key)?;
    let lines = key_lines(&pem);
    ensure!(!lines.is_empty(), "no line to look for in {} bytes", pem.len());
    for line in lines {
        let found = find_in_memory(pid, &line)?;
        ensure!(found.is_empty(), "the key's text is in memory: {} times", found.len());
    }
    assert!(!told(&proxy)?.contains(TELLTALE));

    drop(client);
    let closed = "trunkline_client_connections_closed_total";
    backends::wait_metric(&proxy, closed, "", |n| n >= 1.0)?;
    let mark = proxy.reload(Config::new(&settings, server).user("stays_too").text())?;
    proxy.wait_log(mark, "in force", TIMEOUT)?;
    assert!(enter(&proxy, "stays_too", &anybody()?).is_ok());
    wait_wiped(pid)
}
