//! Sockets and their encryption, as a worker's shell takes them.

use std::sync::Arc;

use trunkline_net::{Sealed, Stream, Tls, TlsSetup};
use trunkline_topology::{Address, Server, TlsParams};
use trunkline_worker::shell;

/// A connected socket, or one that will be.
#[derive(Debug)]
pub(crate) struct Socket(pub(crate) Stream);

impl shell::Stream for Socket {
    type Seal = Encryption;
}

/// One end of a TLS connection.
#[derive(Debug)]
pub(crate) struct Encryption(Tls);

impl Encryption {
    /// Begins with a client, in the server's role.
    pub(crate) fn accept(setup: &TlsSetup) -> Result<Self, String> {
        match setup.acceptor() {
            Some(acceptor) => Tls::accept(acceptor).map(Self),
            None => Err("there is no certificate any more".to_owned()),
        }
    }

    /// Begins with a server, in the client's role.
    pub(crate) fn connect(
        setup: &TlsSetup,
        server: &Server,
        params: &Arc<TlsParams>,
    ) -> Result<Self, String> {
        let address = &server.key.address;
        match (setup.connector(address, server.tls.mode, params), address) {
            (Some(connector), Address::Tcp { host, .. }) => Tls::connect(connector, host).map(Self),
            (None, _) | (_, Address::Unix(_)) => {
                Err("its configuration has changed meanwhile".to_owned())
            }
        }
    }
}

/// Records in memory that is used again.
#[derive(Debug, Default)]
pub(crate) struct TlsRecords(Sealed);

impl shell::Records for TlsRecords {
    fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

impl shell::Seal for Encryption {
    type Records = TlsRecords;

    fn is_up(&self) -> bool {
        self.0.is_up()
    }

    fn has_ended(&self) -> bool {
        self.0.has_ended()
    }

    fn waiting_len(&self) -> usize {
        self.0.waiting_len()
    }

    fn receive(
        &mut self,
        bytes: &mut [u8],
        mut sink: impl FnMut(shell::Received<'_>),
    ) -> Result<(), String> {
        self.0.receive(bytes, &mut |received| {
            sink(match received {
                trunkline_net::Received::Up(facts) => shell::Received::Up(facts),
                trunkline_net::Received::Data(bytes, has_more) => {
                    shell::Received::Data(bytes, has_more)
                }
            });
        })
    }

    fn unsent(&self) -> &[u8] {
        self.0.unsent()
    }

    fn sent(&mut self, len: usize) {
        self.0.sent(len);
    }

    fn keep_unsent(&mut self, rest: &[u8]) {
        self.0.keep_unsent(rest);
    }

    fn seal(&mut self, text: &[u8], out: &mut TlsRecords) -> Result<(), String> {
        self.0.seal(text, &mut out.0)
    }

    fn close(&mut self, out: &mut TlsRecords) {
        self.0.close(&mut out.0);
    }
}
