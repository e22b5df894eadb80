//! The data plane on real threads: each worker machine with its sockets, its mailbox and its
//! loop. Nothing is decided here.
#![forbid(unsafe_code)]

mod mailbox;

mod driver;
mod sockets;
mod tls;

mod relays;

mod passwords;

mod plane;

pub use mailbox::Mail;
pub use plane::{DataPlane, LoginQuestion, PlaneOptions};
pub use trunkline_net::{TlsFolders, TlsSetup};
