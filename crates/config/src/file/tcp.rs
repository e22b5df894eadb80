//! `[[tcp_listener]]`.

use std::ops::RangeInclusive;

use trunkline_topology::HostgroupId;

use crate::{
    ListenAddress,
    file::{
        check::{Entries, HOSTGROUPS, Placed},
        report::Report,
        table::Table,
    },
    settings::{Given, read_text},
    tcp::{Balance, Check, OnMarkedDown, SendProxy, TcpEntry},
};

/// The longest time that a key takes: a day, ms.
const DAY_MS: u32 = 86_400_000;
const TIMES: RangeInclusive<u32> = 0..=DAY_MS;

pub(super) fn read(table: &mut Table<'_>, report: &mut Report<'_>, entries: &mut Entries) {
    let address = table.value(report, "address", read_listen);
    let hostgroup = table.number(report, "hostgroup", HOSTGROUPS);
    for needed in ["address", "hostgroup"] {
        if !table.has(needed) {
            table.missing(report, needed);
        }
    }
    let mut listener = TcpEntry::new(
        address.clone().unwrap_or_else(nowhere),
        HostgroupId(hostgroup.unwrap_or_default()),
    );
    listener.backup_hostgroup =
        table.number(report, "backup_hostgroup", HOSTGROUPS).map(HostgroupId);
    read_choices(table, report, &mut listener);
    read_numbers(table, report, &mut listener);
    listener.control = table.value(report, "control", read_control);
    listener.comment = table.text(report, "comment").unwrap_or_default();
    table.finish(report, &[]);

    if address.is_some() && hostgroup.is_some() {
        let at = table.place("address");
        let backup_at = table.place("backup_hostgroup");
        let places = [table.place("hostgroup"), backup_at, table.place("control")];
        entries.tcp_listeners.push((Placed { value: listener, at }, places));
    }
}

fn read_choices(table: &mut Table<'_>, report: &mut Report<'_>, listener: &mut TcpEntry) {
    fn one_of<T>(
        given: &Given,
        words: &[&str],
        from_word: fn(&str) -> Option<T>,
    ) -> Result<T, String> {
        let word = read_text(given)?;
        from_word(word).ok_or_else(|| format!("must be {}, not `{word}`", words.join(", ")))
    }
    let balance = |given: &Given| one_of(given, Balance::WORDS, Balance::from_word);
    if let Some(balance) = table.value(report, "balance", balance) {
        listener.balance = balance;
    }
    let check = |given: &Given| one_of(given, Check::WORDS, Check::from_word);
    if let Some(check) = table.value(report, "check", check) {
        listener.check = check;
    }
    let marked = |given: &Given| one_of(given, OnMarkedDown::WORDS, OnMarkedDown::from_word);
    if let Some(marked) = table.value(report, "on_marked_down", marked) {
        listener.on_marked_down = marked;
    }
    let proxy = |given: &Given| one_of(given, SendProxy::WORDS, SendProxy::from_word);
    if let Some(proxy) = table.value(report, "send_proxy", proxy) {
        listener.send_proxy = proxy;
    }
}

fn read_numbers(table: &mut Table<'_>, report: &mut Report<'_>, listener: &mut TcpEntry) {
    let mut number = |name, range: RangeInclusive<u32>, into: &mut u32| {
        if let Some(number) = table.number(report, name, range) {
            *into = number;
        }
    };
    number("max_connections", 1..=10_000_000, &mut listener.max_connections);
    number("retries", 0..=100, &mut listener.retries);
    number("rise", 1..=100, &mut listener.rise);
    number("fall", 1..=100, &mut listener.fall);
    let mut time = |name, range: RangeInclusive<u32>, into: &mut u64| {
        if let Some(number) = table.number(report, name, range) {
            *into = u64::from(number);
        }
    };
    time("connect_timeout", 1..=DAY_MS, &mut listener.connect_timeout);
    time("client_timeout", TIMES, &mut listener.client_timeout);
    time("server_timeout", TIMES, &mut listener.server_timeout);
    time("fin_timeout", TIMES, &mut listener.fin_timeout);
    time("check_interval", 100..=DAY_MS, &mut listener.check_interval);
}

fn read_listen(given: &Given) -> Result<ListenAddress, String> {
    read_text(given)?.parse().map_err(|reason| format!("is wrong: {reason}"))
}

/// Whoever may speak there may take servers out, so it is for this machine only.
fn read_control(given: &Given) -> Result<ListenAddress, String> {
    let address = read_listen(given)?;
    match &address {
        ListenAddress::Tcp(addr) if !addr.ip().is_loopback() => Err(format!(
            "has no password, so it must be on the loopback or a Unix socket, not `{addr}`"
        )),
        ListenAddress::Tcp(_) | ListenAddress::Unix(_) => Ok(address),
    }
}

/// In the place of an address that could not be read.
fn nowhere() -> ListenAddress {
    ListenAddress::Tcp(std::net::SocketAddr::from(([0, 0, 0, 0], 0)))
}
