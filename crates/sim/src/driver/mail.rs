//! What reaches a worker beside its sockets, and what it wants of the world.

use std::{net::IpAddr, sync::Arc};

use trunkline_cache::{SharedAsk, SharedStore};
use trunkline_stats::{DigestQuery, SessionQuery};
use trunkline_topology::{HostgroupId, Secret, ServerHealth};
use trunkline_worker::{ClientId, ConnId, OutcomeAsk, Worker, shell};

use super::Link;
use crate::{HostId, LinkId};

/// What an operator asks for of the sessions.
const SESSIONS: SessionQuery = SessionQuery { pinned_only: false, rows_max: 4 };

/// A message to the worker itself.
pub type WorkerMail = shell::Mail<Link>;

/// A message to a worker's thread.
#[derive(Debug)]
pub enum Mail {
    /// To the worker itself.
    Worker(WorkerMail),
    /// Give a copy of the numbers; nobody looks at it.
    Report,
    /// Hold what is new in this hostgroup for so many milliseconds.
    Pause(HostgroupId, u64),
    /// Stop within so many milliseconds.
    Stop(u64),
    /// A step of the session on this link panics.
    Abandon(LinkId),
}

impl From<WorkerMail> for Mail {
    fn from(mail: WorkerMail) -> Self {
        Self::Worker(mail)
    }
}

/// What looks at the statistics, as an administrator does.
pub(super) fn look(worker: &mut Worker) {
    drop(worker.report(DigestQuery::ALL));
    drop(worker.sessions(SESSIONS));
    drop(worker.inventory(SESSIONS.rows_max));
}

/// Password work, done outside the worker's thread.
#[derive(Debug)]
pub enum Job {
    /// Decrypt a client's password.
    Decrypt(ClientId, Vec<u8>),
    /// Check a clear password against a hash of many rounds.
    VerifyHash(ClientId, Secret<Vec<u8>>, Secret<Vec<u8>>),
    /// Encrypt a password with a server's key.
    Encrypt(ConnId, Secret<Vec<u8>>),
}

/// What a batch wants of the world around it.
#[derive(Debug)]
pub enum Wish {
    /// Mail for worker `.0`.
    Post(usize, Mail),
    /// Password work for this worker.
    Compute(Job),
    /// A connection to this host was begun on this link, counted here.
    Syn(LinkId, HostId, Arc<ServerHealth>),
    /// A link was closed.
    Closed(LinkId),
    /// A line for the query log or the audit log.
    Logged(String),
    /// What is the host of this address called?
    Name(IpAddr),
    /// Is this answer in the cache that proxies share?
    Ask(Box<SharedAsk>),
    /// This answer is for the cache that proxies share.
    Share(Box<SharedStore>),
    /// What became of this `COMMIT`?
    FindOutcome(Box<OutcomeAsk>),
}
