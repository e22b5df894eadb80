//! `[[tcp_listener]]`.

use trunkline_topology::HostgroupId;

use crate::{
    ListenAddress, Wrong,
    file::{
        check::{Entries, HOSTGROUP_MAX, Placed},
        row::Row,
        section::{Column, Draft, needed, number, read_word, text, value},
    },
    settings::{Given, read_text},
    tcp::{Balance, Check, OnMarkedDown, SendProxy, TcpEntry},
};

/// The longest time that a key takes: a day, ms.
const DAY_MS: u32 = 86_400_000;

/// A listener, nowhere until its address is read.
pub(super) struct TcpDraft(TcpEntry);

impl Default for TcpDraft {
    fn default() -> Self {
        let nowhere = ListenAddress::Tcp(std::net::SocketAddr::from(([0, 0, 0, 0], 0)));
        Self(TcpEntry::new(nowhere, HostgroupId(0)))
    }
}

impl Draft for TcpDraft {
    const NAME: &'static str = "tcp_listener";
    const TABLE: &'static str = "trunkline_tcp_listeners";
    const KEY: &'static str = "{address}";
    const COLUMNS: &'static [Column<Self>] = &[
        needed(value("address", |it, given| read_listen(given).map(|value| it.0.address = value))),
        needed(number("hostgroup", 0, HOSTGROUP_MAX, |it, id| it.0.hostgroup = HostgroupId(id))),
        number("backup_hostgroup", 0, HOSTGROUP_MAX, |it, id| {
            it.0.backup_hostgroup = Some(HostgroupId(id));
        }),
        value("balance", |it, given| {
            read_word(given, Balance::WORDS, Balance::from_word).map(|value| it.0.balance = value)
        }),
        number("max_connections", 1, 10_000_000, |it, count| it.0.max_connections = count),
        number("connect_timeout", 1, DAY_MS, |it, ms| it.0.connect_timeout = ms.into()),
        number("retries", 0, 100, |it, count| it.0.retries = count),
        number("client_timeout", 0, DAY_MS, |it, ms| it.0.client_timeout = ms.into()),
        number("server_timeout", 0, DAY_MS, |it, ms| it.0.server_timeout = ms.into()),
        number("fin_timeout", 0, DAY_MS, |it, ms| it.0.fin_timeout = ms.into()),
        value("on_marked_down", |it, given| {
            read_word(given, OnMarkedDown::WORDS, OnMarkedDown::from_word)
                .map(|value| it.0.on_marked_down = value)
        }),
        value("check", |it, given| {
            read_word(given, Check::WORDS, Check::from_word).map(|value| it.0.check = value)
        }),
        number("check_interval", 100, DAY_MS, |it, ms| it.0.check_interval = ms.into()),
        number("rise", 1, 100, |it, count| it.0.rise = count),
        number("fall", 1, 100, |it, count| it.0.fall = count),
        value("send_proxy", |it, given| {
            read_word(given, SendProxy::WORDS, SendProxy::from_word)
                .map(|value| it.0.send_proxy = value)
        }),
        value("control", |it, given| read_control(given).map(|value| it.0.control = Some(value))),
        text("comment", |it, text| it.0.comment = text),
    ];

    fn finish(self, row: &mut Row<'_, '_>, entries: &mut Entries) {
        let is_read = |name: &str| row.has(name) && !row.is_refused(name);
        if is_read("address") && is_read("hostgroup") {
            entries.tcp_listeners.push(Placed { value: self.0, index: row.index });
        }
    }
}

fn read_listen(given: &Given) -> Result<ListenAddress, Wrong> {
    Ok(read_text(given)?.parse().map_err(|reason| format!("is wrong: {reason}"))?)
}

/// Whoever may speak there may take servers out, so it is for this machine only.
fn read_control(given: &Given) -> Result<ListenAddress, Wrong> {
    let address = read_listen(given)?;
    match &address {
        ListenAddress::Tcp(addr) if !addr.ip().is_loopback() => Err(format!(
            "has no password, so it must be on the loopback or a Unix socket, not `{addr}`"
        )
        .into()),
        ListenAddress::Tcp(_) | ListenAddress::Unix(_) => Ok(address),
    }
}
