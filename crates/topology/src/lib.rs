//! Who may connect, and to what: users, hostgroups, servers and their health, and the pure
//! choice of a server.
#![forbid(unsafe_code)]

mod address;
mod allow;
mod balance;
pub mod causal;
mod failed_logins;
mod gate;
pub mod gtid;
mod health;
mod heartbeat;
mod host;
mod lag;
mod lazy;
mod network;
mod origin;
pub mod outcome;
mod outlier;
mod pinned;
mod pipeline;
mod ratio;
mod role;
mod secret;
mod server;
mod tenant;
mod tls;
mod user;
mod versions;

pub use address::{Address, AddressError};
pub use allow::AllowList;
pub use balance::{Balance, Draws, Latency, Servers, lot, mix, source_hash};
pub use failed_logins::{Attempt, Failed, FailedLoginLimits, FailedLogins, LoginWait, Waiting};
pub use gate::ListenerGate;
pub use health::{RefusalCause, Seen, ServerHealth, ServerState};
pub use heartbeat::HeartbeatTable;
pub use host::{HostAnswer, HostName, HostPattern, host_name};
pub use lag::{LagLimit, LagWatch, Replication};
pub use lazy::LazyTransactions;
pub use network::{Network, Origins};
pub use origin::{Origin, machine};
pub use outlier::{Circuit, Ejection, Evidence, OutlierLimits, Window, may_eject, worst};
pub use pinned::PinnedKeys;
pub use pipeline::Pipeline;
pub use ratio::Ratio;
pub use role::{Role, WriterCell};
pub use secret::{Secret, wipe, wipe_front};
pub use server::{
    HostgroupId, ReadWriteSplit, ReplicationGroup, Server, ServerCompression, ServerKey,
    is_this_host,
};
pub use tenant::{Concurrency, TenantScope, Terms};
pub use tls::{
    CertificateRequirement, PeerCertificate, ServerTls, TlsFacts, TlsMode, TlsOffer, TlsParams,
    TlsRequirement, TlsVersion,
};
pub use user::{BackendAccount, Password, PasswordError, User};
pub use versions::{Basis, Refused, Stripe, TableVersion, TableVersions, Tables};
