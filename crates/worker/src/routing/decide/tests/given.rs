//! What there is besides a statement.

use std::rc::Rc;

use trunkline_catalog::Proof;
use trunkline_config::{Snapshot, parse};
use trunkline_pool::ConnId;
use trunkline_session::tracker::{PinReason, Pins};
use trunkline_sql::token::Modes;
use trunkline_topology::HostgroupId;

use crate::{
    clients::client::Lease,
    exchange::begun::Begun,
    routing::{
        asker::Asker,
        decide::{Aim, Case, Decided, Held, Hinted, decide},
        ruling::Ruling,
        split::{Transactions, hinted_server},
    },
    statement::analysis::{Analyses, Known},
};

/// Writer 10 with readers 20; 30 by itself; writer 40 with readers 50 to which only rules send
/// anything. Users are called by what is particular about them.
const SERVERS: &str = r#"
[[server]]
hostgroup = 10
address = "10.0.0.10:3306"
[[server]]
hostgroup = 20
address = "10.0.0.20:3306"
status = "ONLINE"
comment = "db20"
[[server]]
hostgroup = 30
address = "10.0.0.30:3306"
comment = "db30"
[[server]]
hostgroup = 40
address = "10.0.0.40:3306"
[[server]]
hostgroup = 50
address = "10.0.0.50:3306"
[[replication]]
writer_hostgroup = 10
reader_hostgroup = 20
[[replication]]
writer_hostgroup = 40
reader_hostgroup = 50
read_write_split = "rules"
[[user]]
name = "app"
password = "p"
default_hostgroup = 10
[[user]]
name = "free"
password = "p"
default_hostgroup = 10
transaction_persistent = false
[[user]]
name = "lone"
password = "p"
default_hostgroup = 30
[[user]]
name = "ruled"
password = "p"
default_hostgroup = 40
"#;

/// What there is besides a statement: the configuration, and what its session is and holds.
#[derive(Debug, Clone)]
pub(super) struct Given {
    user: &'static str,
    settings: &'static str,
    rows: String,
    has_readers: bool,
    leases: Vec<Lease>,
    last_conn: Option<ConnId>,
    begins_read_only: bool,
    begun: Option<Begun>,
    transactions: Transactions,
    is_mariadb: bool,
    proves_nothing: bool,
    aim: Aim,
    limit: Option<usize>,
}

/// A session of a user with nothing particular.
pub(super) fn app() -> Given {
    of_user("app")
}

/// A session of a user whose statements rules may take out of transactions.
pub(super) fn free() -> Given {
    of_user("free")
}

pub(super) fn of_user(user: &'static str) -> Given {
    Given {
        user,
        settings: "",
        rows: String::new(),
        has_readers: true,
        leases: Vec::new(),
        last_conn: None,
        begins_read_only: false,
        begun: None,
        transactions: Transactions::default(),
        is_mariadb: false,
        proves_nothing: false,
        aim: Aim::Run,
        limit: None,
    }
}

/// The connection that a session holds in a hostgroup.
pub(super) fn conn(hostgroup: u32) -> ConnId {
    ConnId { index: hostgroup, generation: 1 }
}

impl Given {
    /// With these rows of the configuration.
    pub(super) fn with(mut self, rows: impl AsRef<str>) -> Self {
        self.rows.push_str(rows.as_ref());
        self
    }

    /// The firewall is on.
    pub(super) fn guarded(self) -> Self {
        Self { settings: "firewall_whitelist_enabled = true\n", ..self }
    }

    /// The readers are not online.
    pub(super) fn without_readers(self) -> Self {
        Self { has_readers: false, ..self }
    }

    pub(super) fn without_autocommit(mut self) -> Self {
        self.transactions.autocommit_off = true;
        self
    }

    pub(super) fn serializable(mut self) -> Self {
        self.transactions.serializable = true;
        self
    }

    pub(super) fn mariadb(self) -> Self {
        Self { is_mariadb: true, ..self }
    }

    /// Nobody has said what the statement's names mean.
    pub(super) fn proving_nothing(self) -> Self {
        Self { proves_nothing: true, ..self }
    }

    pub(super) fn refused_by_limit(self, limit: usize) -> Self {
        Self { limit: Some(limit), ..self }
    }

    pub(super) fn aim(self, aim: Aim) -> Self {
        Self { aim, ..self }
    }

    /// The session holds a connection there, for these reasons.
    pub(super) fn holding(mut self, hostgroup: u32, reasons: &[PinReason]) -> Self {
        let mut pins = Pins::default();
        reasons.iter().for_each(|reason| pins.pin(*reason));
        self.leases.push(Lease {
            hostgroup: HostgroupId(hostgroup),
            conn: conn(hostgroup),
            is_in_trans: pins.has(PinReason::Transaction),
            pins,
            only_reads: false,
            standing: Default::default(),
            begun_apart: false,
            is_begun: false,
            is_left: false,
            is_in_doubt: false,
            has_written: false,
            pinned_by: None,
        });
        self
    }

    /// The session holds a connection there, for one thing of this name.
    pub(super) fn holding_named(self, hostgroup: u32, reason: PinReason, name: &[u8]) -> Self {
        self.holding(hostgroup, &[]).change_last(|lease| lease.pins.pin_name(reason, name))
    }

    /// A transaction is open there that has written.
    pub(super) fn writing(self, hostgroup: u32) -> Self {
        let given = self.holding(hostgroup, &[PinReason::Transaction]);
        given.change_last(|lease| lease.has_written = true)
    }

    /// The transaction on the last connection only reads.
    pub(super) fn reading_only(self) -> Self {
        self.change_last(|lease| lease.only_reads = true)
    }

    /// The last connection is held for this as well.
    pub(super) fn pinning(self, reason: PinReason) -> Self {
        self.change_last(|lease| lease.pins.pin(reason))
    }

    fn change_last(mut self, change: impl FnOnce(&mut Lease)) -> Self {
        change(self.leases.last_mut().expect("a connection is held"));
        self
    }

    /// The last statement ran there.
    pub(super) fn last_on(self, hostgroup: u32) -> Self {
        Self { last_conn: Some(conn(hostgroup)), ..self }
    }

    /// An earlier statement was to have its transaction begin anew.
    pub(super) fn beginning_anew(self) -> Self {
        Self { begins_read_only: true, ..self }
    }

    fn snapshot(&self) -> Snapshot {
        let servers = match self.has_readers {
            true => SERVERS.to_owned(),
            false => SERVERS.replace("ONLINE", "OFFLINE_SOFT"),
        };
        let text = format!("{}{servers}{}", self.settings, self.rows);
        let no_files = |_: &str| Err("no files here".to_owned());
        let config = parse(&text, "given", &no_files).expect("a configuration");
        config.snapshot(None)
    }

    fn known(&self, snapshot: &Snapshot, text: &str) -> Rc<Known> {
        let modes = Modes { flavor_mariadb: self.is_mariadb, ..Modes::default() };
        Analyses::new(&snapshot.settings).know(text.as_bytes(), &modes)
    }

    /// What rules, fast routing and the firewall say.
    pub(super) fn ruling(&self, text: &str) -> Ruling {
        let snapshot = self.snapshot();
        self.ruling_by(&snapshot, &self.known(&snapshot, text), text)
    }

    fn ruling_by(&self, snapshot: &Snapshot, known: &Known, text: &str) -> Ruling {
        let asker = Asker {
            user: snapshot.user(self.user).expect("a user"),
            schema: b"shop",
            flag: 0,
            client_addr: None,
            proxy_addr: None,
            proxy_port: None,
        };
        let question = asker.question(snapshot.settings.query_digests, known, text.as_bytes(), 0);
        let (_, decision) = snapshot.rules.explain(&question);
        match self.aim {
            Aim::Copy(_) => Ruling::of_copy(&decision),
            Aim::Run | Aim::Prepare { .. } => {
                Ruling::of(snapshot, &asker, (known, None), Some(&decision))
            }
        }
    }

    /// Where a statement goes.
    pub(super) fn decide(&self, text: &str) -> Decided {
        let snapshot = self.snapshot();
        let known = self.known(&snapshot, text);
        let proof = if self.proves_nothing { Proof::NOTHING } else { known.nameless };
        let ruling = self.ruling_by(&snapshot, &known, text);
        let case = self.case(&snapshot, &ruling);
        let hinted = known.hints.as_deref().map(|hints| {
            let server = hinted_server(hints, &snapshot, case.user.default_hostgroup, 0);
            Hinted { hints, server, proof }
        });
        decide(&Case { known: Some(&known), proof, hinted, ..case })
    }

    /// Where a command without a text goes.
    pub(super) fn decide_plain(&self) -> Decided {
        decide(&self.case(&self.snapshot(), &Ruling::default()))
    }

    fn case<'a>(&'a self, snapshot: &'a Snapshot, ruling: &'a Ruling) -> Case<'a> {
        let modes = Modes { flavor_mariadb: self.is_mariadb, ..Modes::default() };
        let mut session = Held::nothing(modes).with(&self.leases);
        session.last_conn = self.last_conn;
        session.begins_read_only = self.begins_read_only;
        session.transactions = self.transactions;
        session.begun = self.begun;
        Case {
            snapshot,
            now_ms: 0,
            user: snapshot.user(self.user).expect("a user"),
            session,
            aim: self.aim,
            known: None,
            proof: Proof::NOTHING,
            ruling,
            hinted: None,
            limit: self.limit,
            #[cfg(feature = "plants")]
            plant: None,
        }
    }
}
