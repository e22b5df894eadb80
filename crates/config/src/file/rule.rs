//! `[[rule]]`: the one place that maps keys of the file to fields of [`Rule`].

use trunkline_rules::{Multiplex, RETRIES_MAX, Rule};
use trunkline_topology::HostgroupId;

use crate::{
    file::{
        check::{Entries, HOSTGROUP_MAX, Placed},
        hostgroup::{read_lazy, read_pipeline},
        row::Row,
        section::{
            Column, Draft, flag, instead_of, member_of, needed, number, read_u32, text, value,
        },
    },
    settings::{Range, SettingValue},
};

/// The longest `delay`, ms: an hour, as `mysql-default_query_delay` allows.
const DELAY_MAX: u32 = 3_600_000;
const ALL: u32 = u32::MAX;

/// A rule whose id is 0 until it is read.
#[derive(Default)]
pub(super) struct RuleDraft(Rule);

impl Draft for RuleDraft {
    const NAME: &'static str = "rule";
    const TABLE: &'static str = "mysql_query_rules";
    const KEY: &'static str = "rule_id {rule_id}";
    const COLUMNS: &'static [Column<Self>] = &[
        needed(number("id", 1, ALL, |it, id| it.0.id = id)),
        instead_of("id", number("rule_id", 1, ALL, |it, id| it.0.id = id)),
        flag("active", |it, is_so| it.0.active = is_so),
        text("username", |it, text| it.0.username = Some(text)),
        text("schemaname", |it, text| it.0.schemaname = Some(text)),
        number("flagIN", 0, ALL, |it, flag| it.0.flag_in = flag),
        text("client_addr", |it, text| it.0.client_addr = Some(text)),
        text("proxy_addr", |it, text| it.0.proxy_addr = Some(text)),
        value("proxy_port", |it, given| {
            it.0.proxy_port = u16::try_from(read_u32(given, 0, u32::from(u16::MAX))?).ok();
            Ok(())
        }),
        text("digest", |it, text| it.0.digest = Some(text)),
        text("match_digest", |it, text| it.0.match_digest = Some(text)),
        text("match_pattern", |it, text| it.0.match_pattern = Some(text)),
        flag("negate_match_pattern", |it, is_so| it.0.negate_match_pattern = is_so),
        text("re_modifiers", |it, text| it.0.re_modifiers = Some(text)),
        number("flagOUT", 0, ALL, |it, flag| it.0.flag_out = Some(flag)),
        text("replace_pattern", |it, text| it.0.replace_pattern = Some(text)),
        number("destination_hostgroup", 0, HOSTGROUP_MAX, |it, id| {
            it.0.destination_hostgroup = Some(HostgroupId(id));
        }),
        number("cache_ttl", 1, ALL, |it, ms| it.0.cache_ttl_ms = Some(ms)),
        flag("cache_empty_result", |it, is_so| it.0.cache_empty_result = Some(is_so)),
        number("cache_timeout", 0, ALL, |it, ms| it.0.cache_timeout_ms = Some(ms)),
        flag("reconnect", |it, is_so| it.0.reconnect = Some(is_so)),
        number("timeout", 0, ALL, |it, ms| it.0.timeout_ms = Some(ms)),
        number("retries", 0, RETRIES_MAX, |it, count| it.0.retries = Some(count)),
        number("delay", 0, DELAY_MAX, |it, ms| it.0.delay_ms = Some(ms)),
        number("next_query_flagIN", 0, ALL, |it, flag| it.0.next_query_flag_in = Some(flag)),
        number("mirror_flagOUT", 0, ALL, |it, flag| it.0.mirror_flag_out = Some(flag)),
        number("mirror_hostgroup", 0, HOSTGROUP_MAX, |it, id| {
            it.0.mirror_hostgroup = Some(HostgroupId(id));
        }),
        text("error_msg", |it, text| it.0.error_msg = Some(text)),
        text("OK_msg", |it, text| it.0.ok_msg = Some(text)),
        flag("sticky_conn", |it, is_so| it.0.sticky_conn = Some(is_so)),
        number("multiplex", 0, 2, |it, number| it.0.multiplex = Multiplex::from_number(number)),
        number("gtid_from_hostgroup", 0, HOSTGROUP_MAX, |it, id| {
            it.0.gtid_from_hostgroup = Some(HostgroupId(id));
        }),
        flag("log", |it, is_so| it.0.log = Some(is_so)),
        flag("apply", |it, is_so| it.0.apply = is_so),
        text("attributes", |it, text| it.0.attributes = Some(text)),
        member_of(
            "attributes",
            value("pipeline", |it, given| {
                read_pipeline(given).map(|value| it.0.pipeline = Some(value))
            }),
        ),
        member_of(
            "attributes",
            value("lazy_transactions", |it, given| {
                read_lazy(given).map(|value| it.0.lazy_transactions = Some(value))
            }),
        ),
        member_of(
            "attributes",
            value("causal_reads", |it, given| {
                let read = SettingValue::read(given, Range::All);
                read.map(|reads| it.0.causal_reads = Some(reads))
            }),
        ),
        member_of(
            "attributes",
            value("trace_sample", |it, given| {
                let read = SettingValue::read(given, Range::All);
                read.map(|ratio| it.0.trace_sample = Some(ratio))
            }),
        ),
        member_of("attributes", flag("shadow", |it, is_so| it.0.shadow = is_so)),
        text("comment", |it, text| it.0.comment = Some(text)),
    ];

    fn finish(self, row: &mut Row<'_, '_>, entries: &mut Entries) {
        if self.0.id != 0 {
            entries.rules.push(Placed { value: self.0, index: row.index });
        }
    }
}
