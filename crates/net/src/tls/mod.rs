//! TLS over sockets that do not block. The only user of `rustls`; a connection that does not ask
//! for TLS never meets it.

mod der;
mod load;
mod reason;
mod session;
mod setup;
mod verify;

#[cfg(test)]
mod tests;

pub use session::{Received, Sealed, Tls};
pub use setup::{Acceptor, Connector, TlsFolders, TlsSetup};
