//! TCP listeners and their servers.

use trunkline_stats::{TcpListenerRow, report::state_name};

use super::{
    line, section,
    table::{
        Align::{Left, Right},
        Column, Table,
    },
    unit::{bytes, count},
};

pub(super) fn listeners(text: &mut String, listeners: &[TcpListenerRow]) {
    if listeners.is_empty() {
        return;
    }
    let mut table = Table::new(vec![
        Column::flexible_middle("listener", Left),
        Column::new("group", Right),
        Column::flexible_middle("server", Left),
        Column::new("state", Left),
        Column::new("now", Right),
        Column::new("total", Right),
        Column::new("failed", Right),
        Column::new("to server", Right),
        Column::new("to client", Right),
    ]);
    for listener in listeners {
        for server in &listener.servers {
            let counters = &server.counters;
            table.row(vec![
                listener.listener.clone(),
                server.hostgroup.to_string(),
                server.address.clone(),
                state_name(server.state).to_owned(),
                count(server.connections),
                count(counters.connected),
                count(counters.connect_failures),
                bytes(counters.bytes_to_server),
                bytes(counters.bytes_to_client),
            ]);
        }
    }
    section(text, "TCP LISTENERS", &table);
    for row in listeners {
        let counters = &row.counters;
        let told = [
            (row.waiting, "wait for a server"),
            (counters.refused, "got no server"),
            (counters.timed_out, "were silent for too long"),
            (counters.cut, "were cut off"),
        ];
        let told = told.iter().filter(|(clients, _)| *clients > 0);
        let told: Vec<String> = told.map(|(n, what)| format!("{} {what}", count(*n))).collect();
        if !told.is_empty() {
            line(text, &format!("{}: of its clients {}", row.listener, told.join(", ")));
        }
    }
}
