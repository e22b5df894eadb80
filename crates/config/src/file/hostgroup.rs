//! `[[hostgroup]]`.

use trunkline_topology::{Balance, HostgroupId, LazyTransactions, Pipeline, causal::CausalReads};

use crate::{
    HostgroupEntry, Wrong,
    error::ErrorKind,
    file::{
        check::{Entries, HOSTGROUP_MAX, Placed},
        keys,
        row::Row,
        section::{Column, Draft, harmless, later, member_of, needed, number, text, value},
    },
    settings::{Given, Range, SettingValue, read_text},
};

#[derive(Default)]
pub(super) struct HostgroupDraft {
    id: Option<HostgroupId>,
    pipeline: Pipeline,
    balance: Balance,
    causal_reads: Option<CausalReads>,
    lazy_transactions: Option<LazyTransactions>,
    server_public_key: String,
    comment: String,
}

impl Draft for HostgroupDraft {
    const NAME: &'static str = "hostgroup";
    const TABLE: &'static str = "mysql_hostgroup_attributes";
    const KEY: &'static str = "hostgroup_id {hostgroup_id}";
    const COLUMNS: &'static [Column<Self>] = &[
        needed(number("hostgroup_id", 0, HOSTGROUP_MAX, |it, id| it.id = Some(HostgroupId(id)))),
        member_of(
            "hostgroup_settings",
            value("pipeline", |it, given| read_pipeline(given).map(|value| it.pipeline = value)),
        ),
        member_of("hostgroup_settings", value("balance", |it, given| it.read_balance(given))),
        member_of(
            "hostgroup_settings",
            value("causal_reads", |it, given| {
                SettingValue::read(given, Range::All).map(|reads| it.causal_reads = Some(reads))
            }),
        ),
        member_of(
            "hostgroup_settings",
            value("lazy_transactions", |it, given| {
                read_lazy(given).map(|value| it.lazy_transactions = Some(value))
            }),
        ),
        member_of("hostgroup_settings", text(keys::NAME, |it, text| it.server_public_key = text)),
        text("comment", |it, comment| it.comment = comment),
        harmless(later("max_num_online_servers")),
        harmless(later("autocommit")),
        harmless(later("free_connections_pct")),
        harmless(later("init_connect")),
        harmless(later("multiplex")),
        harmless(later("connection_warming")),
        harmless(later("throttle_connections_per_sec")),
        harmless(later("ignore_session_variables")),
        harmless(later("servers_defaults")),
    ];

    fn finish(self, row: &mut Row<'_, '_>, entries: &mut Entries) {
        let Self {
            id,
            pipeline,
            balance,
            causal_reads,
            lazy_transactions,
            server_public_key,
            comment,
        } = self;
        if let Some(id) = id {
            let own = Some(server_public_key).filter(|text| !text.is_empty());
            let read = own.map(|text| keys::read(&text, row.files)).transpose();
            let server_keys = read.unwrap_or_else(|why| {
                row.refuse(keys::NAME, format!("is wrong: {why}").into());
                None
            });
            let value = HostgroupEntry {
                id,
                pipeline,
                balance,
                causal_reads,
                lazy_transactions,
                server_keys,
                comment,
            };
            entries.hostgroup_entries.push(Placed { value, index: row.index });
        }
    }
}

impl HostgroupDraft {
    fn read_balance(&mut self, given: &Given) -> Result<(), Wrong> {
        self.balance = read_text(given)?.parse::<Balance>()?;
        Ok(())
    }
}

/// `"off"` or `"begin"`.
pub(super) fn read_lazy(given: &Given) -> Result<LazyTransactions, Wrong> {
    Ok(read_text(given)?.parse::<LazyTransactions>()?)
}

/// `"auto"`, `"off"` or a number.
pub(super) fn read_pipeline(given: &Given) -> Result<Pipeline, Wrong> {
    let text = match given {
        Given::Text(text) => text,
        Given::Integer(number) => &number.to_string(),
        _ => {
            let reason = format!("must be \"auto\", \"off\" or 1 to {}", Pipeline::DEPTH_MAX);
            return Err(Wrong::new(ErrorKind::WrongType, reason));
        }
    };
    Ok(text.parse::<Pipeline>()?)
}
