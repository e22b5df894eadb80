//! Sockets for the data plane: listeners, streams, and readiness by the kernel's own means; and
//! files that only their owner may read.
//!
//! Nothing here knows the protocol. The only user of `io-uring`, `mio`, `socket2` and `rustls`, and
//! the only crate with unsafe code: memory that the kernel writes to, in `ring`.

mod listener;
mod poller;
pub mod private;
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "the kernel writes to memory of this process")]
mod ring;
#[cfg(not(target_os = "linux"))]
#[path = "no_ring.rs"]
mod ring;
mod stream;
mod tls;

pub use listener::{Accepted, Listener, remove_unix_paths};
pub use poller::{Event, Events, Poller, Token, Waker, Writing};
pub use stream::{Connecting, Keepalive, Stream, is_own_failure};
pub use tls::{Acceptor, Connector, Received, Sealed, Tls, TlsFolders, TlsSetup};
