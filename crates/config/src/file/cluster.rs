//! `[[cluster]]`.

use trunkline_topology::{Address, HostgroupId, ReadWriteSplit};

use crate::{
    Wrong,
    cluster::{CheckType, ClusterEntry, ClusterKind, Failover},
    file::{
        check::{Entries, HOSTGROUP_MAX, Placed},
        replication::read_split,
        row::Row,
        section::{Column, Draft, flag, needed, number, read_word, text, value},
    },
    settings::{Given, read_text, wrong_type},
};

/// The longest name.
const NAME_LEN_MAX: usize = 64;

#[derive(Default)]
pub(super) struct ClusterDraft {
    name: String,
    kind: ClusterKind,
    writer: Option<HostgroupId>,
    reader: Option<HostgroupId>,
    seeds: Vec<Address>,
    check_type: CheckType,
    writer_is_also_reader: bool,
    failover: Failover,
    split: ReadWriteSplit,
    comment: String,
}

impl Draft for ClusterDraft {
    const NAME: &'static str = "cluster";
    const TABLE: &'static str = "trunkline_clusters";
    const KEY: &'static str = "{name}";
    const COLUMNS: &'static [Column<Self>] = &[
        needed(value("name", |it, given| read_name(given).map(|name| it.name = name))),
        value("kind", |it, given| {
            read_word(given, ClusterKind::WORDS, ClusterKind::from_word).map(|kind| it.kind = kind)
        }),
        needed(number("writer_hostgroup", 0, HOSTGROUP_MAX, |it, id| {
            it.writer = Some(HostgroupId(id))
        })),
        needed(number("reader_hostgroup", 0, HOSTGROUP_MAX, |it, id| {
            it.reader = Some(HostgroupId(id))
        })),
        value("seeds", |it, given| read_seeds(given).map(|seeds| it.seeds = seeds)),
        value("check_type", |it, given| {
            read_word(given, CheckType::WORDS, CheckType::from_word).map(|by| it.check_type = by)
        }),
        flag("writer_is_also_reader", |it, flag| it.writer_is_also_reader = flag),
        value("failover", |it, given| {
            read_word(given, Failover::WORDS, Failover::from_word).map(|mode| it.failover = mode)
        }),
        value("read_write_split", |it, given| read_split(given).map(|split| it.split = split)),
        text("comment", |it, text| it.comment = text),
    ];

    fn finish(self, row: &mut Row<'_, '_>, entries: &mut Entries) {
        let (Some(writer_hostgroup), Some(reader_hostgroup)) = (self.writer, self.reader) else {
            entries.unsure = true;
            return;
        };
        if !self.seeds.is_empty() {
            entries.hostgroups.extend([writer_hostgroup, reader_hostgroup]);
        }
        let value = ClusterEntry {
            name: self.name,
            kind: self.kind,
            writer_hostgroup,
            reader_hostgroup,
            seeds: self.seeds,
            check_type: self.check_type,
            writer_is_also_reader: self.writer_is_also_reader,
            failover: self.failover,
            read_write_split: self.split,
            goes_by_list: false,
            comment: self.comment,
        };
        entries.clusters.push(Placed { value, index: row.index });
    }
}

fn read_name(given: &Given) -> Result<String, Wrong> {
    let name = read_text(given)?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    match !name.is_empty() && name.len() <= NAME_LEN_MAX && name.bytes().all(is_plain) {
        true => Ok(name.to_owned()),
        false => Err(format!(
            "must have 1 to {NAME_LEN_MAX} letters, digits, `-`, `_` and `.`, not `{name}`"
        )
        .into()),
    }
}

/// A list of addresses, or a text with commas between them: tables have no lists.
fn read_seeds(given: &Given) -> Result<Vec<Address>, Wrong> {
    let texts: Vec<&str> = match given {
        Given::Text(text) => text.split(',').map(str::trim).filter(|it| !it.is_empty()).collect(),
        Given::List(items) => items.iter().map(read_text).collect::<Result<_, _>>()?,
        Given::Integer(_) | Given::Boolean(_) | Given::Table(_) | Given::Other(_) => {
            return Err(wrong_type("a list of addresses", given));
        }
    };
    let parse = |text: &&str| text.parse().map_err(|error| format!("is wrong: {error}").into());
    texts.iter().map(parse).collect()
}
