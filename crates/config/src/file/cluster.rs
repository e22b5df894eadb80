//! `[[cluster]]`, and ProxySQL's tables of groups.

use std::ops::RangeInclusive;

use trunkline_topology::{Address, HostgroupId, ReadWriteSplit};

use crate::{
    Wrong,
    cluster::{CheckType, ClusterEntry, ClusterKind, ClusterSection, Failover, WriterReads},
    file::{
        check::{Entries, HOSTGROUP_MAX, Placed},
        replication::read_split,
        row::Row,
        section::{
            Column, Draft, comment, flag, harmless, later, needed, number, read_word, text, value,
        },
    },
    settings::{Given, read_flag, read_number, read_text, wrong_type},
};

/// The longest name.
const NAME_LEN_MAX: usize = 64;
/// The most servers of a group that may write.
const WRITERS_MAX: u32 = 1_000;
/// The most that a reader of Aurora may be allowed to lag, ms: as in ProxySQL.
const LAG_MAX_MS: u32 = 600_000;

#[derive(Default)]
pub(super) struct ClusterDraft {
    name: String,
    kind: ClusterKind,
    hostgroups: Hostgroups,
    seeds: Vec<Address>,
    check_type: CheckType,
    group: Group,
    failover: Failover,
    candidates: Vec<Address>,
    binlog_stream: bool,
    hold_timeout: Option<u64>,
    split: ReadWriteSplit,
    comment: String,
}

/// What is said of hostgroups.
#[derive(Default)]
struct Hostgroups {
    writer: Option<HostgroupId>,
    reader: Option<HostgroupId>,
    backup_writer: Option<HostgroupId>,
    offline: Option<HostgroupId>,
}

/// What is said of how many write, and who reads.
struct Group {
    max_writers: u32,
    max_transactions_behind: u32,
    max_lag_ms: u32,
    domain_name: String,
    writer_reads: WriterReads,
}

impl Default for Group {
    fn default() -> Self {
        Self {
            max_writers: 1,
            max_transactions_behind: 0,
            max_lag_ms: 0,
            domain_name: String::new(),
            writer_reads: WriterReads::No,
        }
    }
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
            it.hostgroups.writer = Some(HostgroupId(id))
        })),
        needed(number("reader_hostgroup", 0, HOSTGROUP_MAX, |it, id| {
            it.hostgroups.reader = Some(HostgroupId(id))
        })),
        number("backup_writer_hostgroup", 0, HOSTGROUP_MAX, |it, id| {
            it.hostgroups.backup_writer = Some(HostgroupId(id))
        }),
        number("max_writers", 1, WRITERS_MAX, |it, max| it.group.max_writers = max),
        number("max_transactions_behind", 0, u32::MAX, |it, max| {
            it.group.max_transactions_behind = max
        }),
        number("max_lag_ms", 0, LAG_MAX_MS, |it, max| it.group.max_lag_ms = max),
        value("domain_name", |it, given| {
            read_domain(given).map(|name| it.group.domain_name = name)
        }),
        value("seeds", |it, given| read_seeds(given).map(|seeds| it.seeds = seeds)),
        value("check_type", |it, given| {
            read_word(given, CheckType::WORDS, CheckType::from_word).map(|by| it.check_type = by)
        }),
        value("writer_is_also_reader", |it, given| {
            read_writer_reads(given).map(|reads| it.group.writer_reads = reads)
        }),
        value("failover", |it, given| read_failover(given).map(|mode| it.failover = mode)),
        value("candidates", |it, given| read_seeds(given).map(|servers| it.candidates = servers)),
        flag("binlog_stream", |it, is_on| it.binlog_stream = is_on),
        value("hold_timeout", |it, given| {
            read_hold(given).map(|timeout| it.hold_timeout = timeout)
        }),
        value("read_write_split", |it, given| read_split(given).map(|split| it.split = split)),
        text("comment", |it, text| it.comment = text),
    ];

    fn finish(self, row: &mut Row<'_, '_>, entries: &mut Entries) {
        let Hostgroups { writer: Some(writer), reader: Some(reader), .. } = self.hostgroups else {
            entries.unsure = true;
            return;
        };
        let mut value = ClusterEntry::new(self.name, self.kind, writer, reader);
        value.backup_writer_hostgroup = self.hostgroups.backup_writer;
        value.seeds = self.seeds;
        value.check_type = self.check_type;
        value.failover = self.failover;
        value.candidates = self.candidates;
        value.binlog_stream = self.binlog_stream;
        value.hold_timeout = self.hold_timeout;
        value.read_write_split = self.split;
        value.comment = self.comment;
        self.group.say(&mut value);
        if !value.seeds.is_empty() {
            entries.hostgroups.extend(value.hostgroups());
        }
        entries.clusters.push(Placed { value, index: row.index });
    }
}

impl Group {
    fn say(&self, entry: &mut ClusterEntry) {
        entry.max_writers = self.max_writers;
        entry.max_transactions_behind = self.max_transactions_behind;
        entry.max_lag_ms = self.max_lag_ms;
        entry.domain_name.clone_from(&self.domain_name);
        entry.writer_is_also_reader = Some(self.writer_reads);
    }
}

/// A row of ProxySQL's tables of groups.
struct GroupDraft {
    hostgroups: Hostgroups,
    is_active: bool,
    group: Group,
}

impl Default for GroupDraft {
    fn default() -> Self {
        let (hostgroups, group) = (Hostgroups::default(), Group::default());
        Self { hostgroups, is_active: true, group }
    }
}

impl GroupDraft {
    const KEY: &'static str = "writer_hostgroup {writer_hostgroup}";

    fn finish(
        self,
        kind: ClusterKind,
        section: ClusterSection,
        row: &Row<'_, '_>,
        entries: &mut Entries,
    ) {
        let Hostgroups { writer: Some(writer), reader: Some(reader), backup_writer, offline } =
            self.hostgroups
        else {
            entries.unsure = true;
            return;
        };
        if !self.is_active {
            return;
        }
        let mut value = ClusterEntry::new(listed_name(writer, reader), kind, writer, reader);
        value.section = section;
        value.backup_writer_hostgroup = backup_writer;
        value.offline_hostgroup = offline;
        value.read_write_split = ReadWriteSplit::Rules;
        self.group.say(&mut value);
        entries.clusters.push(Placed { value, index: row.index });
    }
}

/// The name of a cluster that has none: no other has a `/` in it.
pub(super) fn listed_name(writer: HostgroupId, reader: HostgroupId) -> String {
    format!("{writer}/{reader}")
}

/// Sections of groups, which differ in their name and kind only.
macro_rules! group_section {
    ($draft:ident, $name:literal, $table:literal, $kind:ident) => {
        #[derive(Default)]
        pub(super) struct $draft(GroupDraft);

        impl Draft for $draft {
            const NAME: &'static str = $name;
            const TABLE: &'static str = $table;
            const KEY: &'static str = GroupDraft::KEY;
            const COLUMNS: &'static [Column<Self>] = &[
                needed(number("writer_hostgroup", 0, HOSTGROUP_MAX, |it, id| {
                    it.0.hostgroups.writer = Some(HostgroupId(id))
                })),
                needed(number("backup_writer_hostgroup", 0, HOSTGROUP_MAX, |it, id| {
                    it.0.hostgroups.backup_writer = Some(HostgroupId(id))
                })),
                needed(number("reader_hostgroup", 0, HOSTGROUP_MAX, |it, id| {
                    it.0.hostgroups.reader = Some(HostgroupId(id))
                })),
                needed(number("offline_hostgroup", 0, HOSTGROUP_MAX, |it, id| {
                    it.0.hostgroups.offline = Some(HostgroupId(id))
                })),
                flag("active", |it, flag| it.0.is_active = flag),
                number("max_writers", 0, WRITERS_MAX, |it, max| it.0.group.max_writers = max),
                value("writer_is_also_reader", |it, given| {
                    read_writer_reads(given).map(|reads| it.0.group.writer_reads = reads)
                }),
                number("max_transactions_behind", 0, u32::MAX, |it, max| {
                    it.0.group.max_transactions_behind = max
                }),
                comment(),
            ];

            fn finish(self, row: &mut Row<'_, '_>, entries: &mut Entries) {
                self.0.finish(ClusterKind::$kind, ClusterSection::$kind, row, entries);
            }
        }
    };
}

group_section!(GaleraDraft, "galera", "mysql_galera_hostgroups", Galera);
group_section!(
    GroupReplicationDraft,
    "group_replication",
    "mysql_group_replication_hostgroups",
    GroupReplication
);

/// A row of ProxySQL's `mysql_aws_aurora_hostgroups`.
pub(super) struct AuroraDraft {
    hostgroups: Hostgroups,
    is_active: bool,
    group: Group,
    port: u16,
    interval_ms: u32,
    timeout_ms: u32,
    new_weight: u32,
}

impl Default for AuroraDraft {
    fn default() -> Self {
        Self {
            hostgroups: Hostgroups::default(),
            is_active: true,
            group: Group { max_lag_ms: LAG_MAX_MS, ..Group::default() },
            port: 3306,
            interval_ms: 1_000,
            timeout_ms: 800,
            new_weight: 1,
        }
    }
}

impl Draft for AuroraDraft {
    const NAME: &'static str = "aurora";
    const TABLE: &'static str = "mysql_aws_aurora_hostgroups";
    const KEY: &'static str = GroupDraft::KEY;
    const COLUMNS: &'static [Column<Self>] = &[
        needed(number("writer_hostgroup", 0, HOSTGROUP_MAX, |it, id| {
            it.hostgroups.writer = Some(HostgroupId(id))
        })),
        needed(number("reader_hostgroup", 0, HOSTGROUP_MAX, |it, id| {
            it.hostgroups.reader = Some(HostgroupId(id))
        })),
        flag("active", |it, flag| it.is_active = flag),
        number("aurora_port", 1, 65_535, |it, port| {
            it.port = u16::try_from(port).unwrap_or(it.port)
        }),
        needed(value("domain_name", |it, given| {
            read_domain(given).map(|name| it.group.domain_name = name)
        })),
        number("max_lag_ms", 10, LAG_MAX_MS, |it, max| it.group.max_lag_ms = max),
        number("check_interval_ms", 100, 600_000, |it, ms| it.interval_ms = ms),
        number("check_timeout_ms", 80, 3_000, |it, ms| it.timeout_ms = ms),
        value("writer_is_also_reader", |it, given| {
            read_writer_reads(given).map(|reads| it.group.writer_reads = reads)
        }),
        number("new_reader_weight", 0, 10_000_000, |it, weight| it.new_weight = weight),
        harmless(later("add_lag_ms")),
        harmless(later("min_lag_ms")),
        harmless(later("lag_num_checks")),
        comment(),
    ];

    fn finish(self, row: &mut Row<'_, '_>, entries: &mut Entries) {
        let Hostgroups { writer: Some(writer), reader: Some(reader), .. } = self.hostgroups else {
            entries.unsure = true;
            return;
        };
        if !self.is_active {
            return;
        }
        let (name, kind) = (listed_name(writer, reader), ClusterKind::Aurora);
        let mut value = ClusterEntry::new(name, kind, writer, reader);
        value.section = ClusterSection::Aurora;
        value.read_write_split = ReadWriteSplit::Rules;
        value.port = self.port;
        value.check_ms = Some((self.interval_ms.into(), self.timeout_ms.into()));
        value.new_weight = Some(self.new_weight);
        self.group.say(&mut value);
        entries.clusters.push(Placed { value, index: row.index });
    }
}

/// A flag, or ProxySQL's 0, 1 and 2.
fn read_writer_reads(given: &Given) -> Result<WriterReads, Wrong> {
    match given {
        Given::Text(word) if WriterReads::from_word(word).is_some() => {
            read_word(given, WriterReads::WORDS, WriterReads::from_word)
        }
        Given::Integer(_) => Ok(match read_number(given, 0, 2)? {
            0 => WriterReads::No,
            1 => WriterReads::Yes,
            _ => WriterReads::OnlyBackups,
        }),
        given => read_flag(given).map(|is_reader| match is_reader {
            true => WriterReads::Yes,
            false => WriterReads::No,
        }),
    }
}

/// The least and the most that statements are held, ms.
const HOLD_MS: RangeInclusive<u64> = 10..=3_600_000;

/// A time with its unit, or milliseconds; an empty text says nothing, as tables do.
fn read_hold(given: &Given) -> Result<Option<u64>, Wrong> {
    let text = match given {
        Given::Text(text) if text.is_empty() => return Ok(None),
        Given::Text(text) => text.trim(),
        given => return read_number(given, *HOLD_MS.start(), *HOLD_MS.end()).map(Some),
    };
    let digits_len = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits_len);
    let unit_ms = match unit.trim() {
        "ms" | "" => 1,
        "s" => 1_000,
        "min" => 60_000,
        _ => 0,
    };
    let ms = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit_ms));
    let ms = ms.filter(|ms| HOLD_MS.contains(ms));
    let wrong = || format!("must be a time of 10ms to 60min, such as `10s`, not `{text}`");
    ms.map(Some).ok_or_else(|| wrong().into())
}

/// A word; `follow` is what the first version called `off`.
fn read_failover(given: &Given) -> Result<Failover, Wrong> {
    match given {
        Given::Text(word) if word == "follow" => Ok(Failover::Off),
        given => read_word(given, Failover::WORDS, Failover::from_word),
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

/// What follows the names of Aurora's instances.
fn read_domain(given: &Given) -> Result<String, Wrong> {
    let name = read_text(given)?;
    match name.is_empty() || name.starts_with('.') {
        true => Ok(name.to_owned()),
        false => Err(format!("must begin with a dot, not `{name}`").into()),
    }
}

/// A list of addresses, or a text with commas between them: tables have no lists.
fn read_seeds(given: &Given) -> Result<Vec<Address>, Wrong> {
    let texts: Vec<&str> = match given {
        Given::Text(text) => text.split(',').map(str::trim).filter(|it| !it.is_empty()).collect(),
        Given::List(items) => items.iter().map(read_text).collect::<Result<_, _>>()?,
        Given::Integer(_)
        | Given::Fraction(_)
        | Given::Boolean(_)
        | Given::Table(_)
        | Given::Other(_) => {
            return Err(wrong_type("a list of addresses", given));
        }
    };
    let parse = |text: &&str| text.parse().map_err(|error| format!("is wrong: {error}").into());
    texts.iter().map(parse).collect()
}
