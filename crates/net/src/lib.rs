//! Sockets for the data plane: listeners, streams, and readiness by the kernel's own means.
//!
//! Nothing here knows the protocol. The only user of `mio`, `socket2` and `rustls`.
#![forbid(unsafe_code)]

mod listener;
mod poller;
mod stream;
mod tls;

pub use listener::{Accepted, Listener, remove_unix_paths};
pub use poller::{Event, Events, Poller, Token, Waker};
pub use stream::{Connecting, Keepalive, Stream, is_own_failure};
pub use tls::{Acceptor, Connector, Received, Sealed, Tls, TlsFolders, TlsSetup};
