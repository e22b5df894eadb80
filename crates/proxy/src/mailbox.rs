//! How a worker is spoken to from outside: a queue, and a way to end its wait.

use std::sync::{
    Arc,
    mpsc::{Receiver, SendError, Sender, channel},
};

use trunkline_config::ListenAddress;
use trunkline_net::{Listener, TlsSetup, Waker};
use trunkline_stats::{DigestQuery, Inventory, Report, SessionList, SessionQuery};
use trunkline_topology::HostgroupId;
use trunkline_worker::{KillScope, shell};

use crate::{
    administrators::{TakeDigests, TellKill},
    sockets::Socket,
};

/// A message to the worker itself.
pub(crate) type WorkerMail = shell::Mail<Socket>;

/// A message to a worker's thread.
pub(crate) enum Mail {
    /// To the worker itself.
    Worker(WorkerMail),
    /// Accept clients here for the TCP listener of that configured address.
    Listen(ListenAddress, Listener),
    /// Give a copy of the numbers; the function takes it to whoever asked.
    Report(DigestQuery, Box<dyn FnOnce(Report) + Send>),
    /// Give a list of sessions likewise.
    Sessions(SessionQuery, Box<dyn FnOnce(SessionList) + Send>),
    /// Accept clients of the protocol here and nowhere else from now on; nowhere at all when there
    /// is none. The function says that it is so.
    Listeners(Vec<Listener>, Box<dyn FnOnce(()) + Send>),
    /// End the client with this number, or its statement, for an administrator.
    KillFor(u32, KillScope, TellKill),
    /// Give at most so many rows of each kind of what the worker has.
    Inventory(usize, Box<dyn FnOnce(Inventory) + Send>),
    /// Take nothing new in this hostgroup for so many milliseconds; `None` ends that. The function
    /// says that it is so.
    PauseHostgroup(HostgroupId, Option<u64>, Box<dyn FnOnce(()) + Send>),
    /// Give all rows of the digest table, a few between any two batches; the function is dropped
    /// behind the last ones.
    Digests(TakeDigests),
    /// Stop: take no more clients, end the rest within so many milliseconds.
    Stop(u64),
    /// Encrypt with this from now on.
    Tls(Arc<TlsSetup>),
}

impl From<WorkerMail> for Mail {
    fn from(mail: WorkerMail) -> Self {
        Self::Worker(mail)
    }
}

/// The end that sends.
#[derive(Clone)]
pub(crate) struct Postbox {
    sender: Sender<Mail>,
    waker: Waker,
}

impl Postbox {
    /// Sends; false when the worker has ended.
    pub(crate) fn send(&self, mail: impl Into<Mail>) -> bool {
        let sent = self.sender.send(mail.into()).is_ok();
        self.waker.wake();
        sent
    }

    /// Sends to the worker itself; gives the mail back when that has ended.
    pub(crate) fn post(&self, mail: WorkerMail) -> Option<WorkerMail> {
        let sent = self.sender.send(Mail::Worker(mail));
        self.waker.wake();
        match sent {
            Err(SendError(Mail::Worker(mail))) => Some(mail),
            Err(_) | Ok(()) => None,
        }
    }
}

/// Both ends of a worker's mailbox.
pub(crate) fn mailbox(waker: Waker) -> (Postbox, Receiver<Mail>) {
    let (sender, receiver) = channel();
    (Postbox { sender, waker }, receiver)
}
