//! What systemd is told: `sd_notify` without its library.
//!
//! Source: systemd manual "sd_notify(3)".

use std::{env, ffi::OsString, io, os::unix::net::UnixDatagram};

/// Tells the service manager, when there is one.
pub struct Notifier {
    socket: Option<OsString>,
}

impl Notifier {
    /// For the socket that `NOTIFY_SOCKET` names.
    pub fn of_environment() -> Self {
        Self { socket: env::var_os("NOTIFY_SOCKET").filter(|path| !path.is_empty()) }
    }

    /// New clients are welcome. `status` is a line for people.
    pub fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={status}"));
    }

    /// The configuration is read again; `ready` ends it.
    pub fn reloading(&self) {
        self.send("RELOADING=1");
    }

    /// The stop has begun.
    pub fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=stopping");
    }

    fn send(&self, message: &str) {
        let Some(socket) = &self.socket else { return };
        if let Err(error) = send_to(socket, message) {
            tracing::debug!("NOTIFY_SOCKET does not take a message: {error}");
        }
    }
}

#[cfg(target_os = "linux")]
fn send_to(socket: &OsString, message: &str) -> io::Result<()> {
    use std::os::{
        linux::net::SocketAddrExt,
        unix::{ffi::OsStrExt, net::SocketAddr},
    };
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(message.as_bytes(), &address).map(drop)
}

#[cfg(not(target_os = "linux"))]
fn send_to(socket: &OsString, message: &str) -> io::Result<()> {
    UnixDatagram::unbound()?.send_to(message.as_bytes(), socket).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_reach_the_socket_and_nobody_else_needs_to_listen() {
        let path = env::temp_dir().join(format!("trunkline-notify-{}", std::process::id()));
        let socket = UnixDatagram::bind(&path).expect("binds");
        let notifier = Notifier { socket: Some(path.clone().into()) };
        notifier.ready("serving");
        let mut buf = [0; 64];
        let len = socket.recv(&mut buf).expect("message");
        assert_eq!(&buf[..len], b"READY=1\nSTATUS=serving");
        std::fs::remove_file(path).expect("removes");
        notifier.stopping();
        Notifier { socket: None }.reloading();
    }
}
