//! Step 7, where servers run so many statements at once: whose turn it is, and what can't begin in
//! time.

use trunkline_pool::{AccountId, TenantId};
use trunkline_protocol::{command::attributes::Given, error::ErrorKind};
use trunkline_sql::{analysis::StatementKind, hint::max_execution_time_ms};
use trunkline_topology::{HostgroupId, RefusalCause};

use crate::{
    clients::client::{Client, Purpose, Session, Statement},
    clients::frames::is_split,
    rooms::{Core, Exchange},
};

/// The query attribute that says how long a statement may take, ms; of any statement.
const ATTRIBUTE: &[u8] = b"max_execution_time";
/// Bytes before the text in the frame of a `COM_QUERY`.
const BEFORE_TEXT: usize = 5;

impl Exchange {
    /// Has a statement wait that its tenant may not begin now. False where it may.
    #[cold]
    pub(super) fn awaits_turn(
        &mut self,
        client: &mut Client,
        hostgroup: HostgroupId,
        account: AccountId,
    ) -> bool {
        let tenant = self.core.name_tenant(client);
        let now_us = self.core.env.now.us;
        let waits = !self.core.servers.pool.may_begin(hostgroup, tenant, now_us);
        if waits {
            self.enqueue(client, hostgroup, account, RefusalCause::AllBusy);
        }
        waits
    }

    /// Refuses a statement that can't begin in time. False where it may wait.
    pub(super) fn refuses_late(
        &mut self,
        client: &mut Client,
        hostgroup: HostgroupId,
        begin_by_ms: u64,
    ) -> bool {
        let tenant = self.core.name_tenant(client);
        let pool = &self.core.servers.pool;
        let wait_us = pool.accounts(hostgroup).map_or(0, |it| it.expected_wait_us(tenant));
        let is_late = self.core.env.now.ms() + wait_us / 1_000 >= begin_by_ms;
        if is_late {
            self.refuse_late(client, hostgroup, tenant, Some(wait_us / 1_000));
        }
        is_late
    }

    /// Answers a statement that can't begin in time: it was never sent. `expected_ms`: what it
    /// would have had to wait; `None` for one that has waited.
    pub(crate) fn refuse_late(
        &mut self,
        client: &mut Client,
        hostgroup: HostgroupId,
        tenant: TenantId,
        expected_ms: Option<u64>,
    ) {
        self.core.count_late(tenant);
        let waiting = self.core.servers.pool.waiters(hostgroup).len();
        let tenant = match self.core.servers.sharing.tenants.name(tenant) {
            "" => String::new(),
            name => format!(" for tenant {name}"),
        };
        let why = match expected_ms {
            Some(ms) => format!("the wait for hostgroup {hostgroup} is about {ms} ms{tenant}"),
            None => format!("hostgroup {hostgroup} was busy for all of it{tenant}"),
        };
        let text = format!(
            "maximum statement execution time exceeded before the statement began: {why} \
             ({waiting} statements wait); nothing was executed, so it can be tried again"
        );
        self.fail_unsent(client, ErrorKind::Late.says(text), None);
    }
}

impl Core {
    /// By when the statement under way has to begin, ms; `None` where nobody says so.
    pub(super) fn begin_by_ms(&self, client: &Client) -> Option<u64> {
        if !self.servers.pool.counts_places() {
            return None;
        }
        let (statement, session) = client.running()?;
        let limit_ms = limit_ms(statement, session)?;
        Some((statement.command.begun_us / 1_000).saturating_add(limit_ms))
    }
}

/// How long a statement may take, ms: as its query attribute says, which is known before a client
/// gives up; or its text; or its session.
fn limit_ms(statement: &Statement, session: &Session) -> Option<u64> {
    let known = statement.meaning.known.as_ref()?;
    let is_select = known.analysis.kind == StatementKind::Select;
    let state = &session.settings.state;
    let given = statement.attribute(session, ATTRIBUTE).and_then(Given::number);
    let given = given.filter(|ms| *ms > 0);
    let own = match &statement.command.purpose {
        Purpose::Query if is_select && !is_split(&statement.command.frames) => {
            // Its beginning is enough, however long it is.
            let frames = &statement.command.frames;
            let end = frames.len().min(LIMIT_WITHIN);
            frames.get(BEFORE_TEXT..end).and_then(max_execution_time_ms)
        }
        _ => None,
    };
    let of_select = || state.variable("max_execution_time").filter(|_| is_select);
    let of_session = || of_select().and_then(read_ms).filter(|ms| *ms > 0);
    // MariaDB's, of all statements, in seconds.
    let of_all = || state.variable("max_statement_time").and_then(read_seconds);
    given.or(own).or_else(of_session).or_else(of_all)
}

/// Where a statement's own limit has to stand, bytes from its beginning.
const LIMIT_WITHIN: usize = 64 * 1024;

fn read_ms(value: &[u8]) -> Option<u64> {
    std::str::from_utf8(value).ok()?.trim().parse().ok()
}

/// Seconds with a fraction, as milliseconds; `None` for 0, which is no limit.
fn read_seconds(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?.trim();
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let thousandths: String = fraction.chars().chain("000".chars()).take(3).collect();
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let ms = whole.checked_mul(1_000)?.checked_add(thousandths.parse().ok()?)?;
    (ms > 0).then_some(ms)
}

#[cfg(test)]
mod tests;
