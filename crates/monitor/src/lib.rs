//! What the control plane finds out about servers by itself: the addresses of host names, and
//! what servers say when a client connects.
//!
//! Reading order: [`resolve`](mod@resolve) (host names), [`learn`](mod@learn) (one look at each
//! server), [`knowledge`] (what was learned, and the file that keeps it), [`greeting`] (what
//! clients are greeted with because of it), [`watch`] (the two loops that keep both up to date),
//! [`grants`] (users as servers have them), [`asking`] (passwords that only servers can check),
//! [`lag`] (replicas that lag too much), [`heartbeat`] (the time that primaries note for that),
//! [`follow`] (what replicas show), [`roles`] (who writes and who reads in a cluster), [`naming`]
//! (what clients' hosts are called), [`outcomes`] (what became of lost `COMMIT`s), [`check`]
//! (whether servers of TCP listeners can be connected to), [`dictionary`] (what names mean),
//! [`changes`] (what transactions of a cluster have changed), [`examine`](mod@examine) (what
//! `trunkline doctor` asks of servers).
#![forbid(unsafe_code)]

pub mod resolve;

pub mod learn;

pub mod knowledge;

pub mod greeting;

pub mod watch;

pub mod grants;

pub mod asking;

pub mod heartbeat;

pub mod lag;

pub mod follow;

pub mod pings;

pub mod roles;

pub mod naming;

pub mod outcomes;

mod conversation;
mod replication;

pub mod changes;

pub mod check;

pub mod dictionary;

pub mod examine;

pub use asking::{Question, keep_asking};
pub use changes::{ChangeBoard, keep_streaming};
pub use check::keep_checking;
pub use dictionary::{DictionaryQuestion, keep_telling};
pub use examine::examine;
pub use follow::{Bell, keep_following_replicas};
pub use grants::{NamesRead, UserQuestion, UsersRead, keep_looking_up_users, keep_reading_users};
pub use greeting::greeting_for_clients;
pub use heartbeat::keep_noting_time;
pub use knowledge::{Facts, Knowledge, StateFileError};
pub use lag::keep_measuring_lag;
pub use learn::{Account, LearnError, Learned, learn};
pub use naming::{HostQuestion, SystemResolver, keep_naming};
pub use outcomes::{LostThread, OutcomeQuestion, keep_finding, rights::keep_looking_at_rights};
pub use pings::keep_pinging;
pub use resolve::{Resolution, resolve};
pub use roles::{
    Aids, Board, ClusterNews, ClusterOrder, ClusterRequest, FenceFuture, FenceRequest,
    SwitchoverAnswer, SwitchoverRequest, keep_following,
};
pub use watch::{keep_learning, keep_resolving};
