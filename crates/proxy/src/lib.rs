//! The data plane on real threads: each worker machine with its sockets, its mailbox and its
//! loop. Nothing is decided here.
#![forbid(unsafe_code)]

mod event_log;
mod machine;
mod mailbox;

mod administrators;
mod driver;
mod outside;
mod requests;
mod sockets;
mod students;

mod relays;

mod passwords;
mod pauses;

mod shared_cache;

mod plane;

pub use administrators::{TakeDigests, TellKill};
pub use event_log::{EventLog, Log};
pub use machine::memory_of_machine;
use mailbox::Mail;
pub use pauses::Pause;
pub use plane::{
    CatalogQuestion, DataPlane, HostQuestion, LoginQuestion, OutcomeQuestion, PlaneOptions,
    UserQuestion,
};
pub use trunkline_net::{TlsFolders, TlsSetup};
pub use trunkline_worker::{KillAnswer, KillScope};
