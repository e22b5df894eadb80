//! What clients are told by the proxy itself.

use std::ops::RangeInclusive;

use trunkline_protocol::{
    error::{ClientError, ErrorKind},
    packet::ok::{OkPacket, put_ok},
};
use trunkline_session::tracker::PinReason;

use crate::{
    Side,
    clients::Clients,
    clients::client::{Client, Frontend, Session},
    clients::session::AnyClient,
    reply::SCARCE_LEN_MAX,
    rooms::Core,
};

/// Codes that client libraries give themselves. MariaDB's Connector/C shows *Received malformed
/// packet* for an error packet with one of them, and not its text.
const CLIENT_CODES: RangeInclusive<u16> = 2000..=2999;

impl Client {
    /// What the session may ask for next is this error, which its client was told in place of what
    /// its server has answered.
    pub(crate) fn record_client_error(&mut self, error: &ClientError) {
        self.note_error(error);
        for lease in self.session.leases.iter_mut() {
            lease.pins.unpin(PinReason::Warnings);
        }
    }

    /// What the session may ask for next is the error that the proxy tells it, as if a server had
    /// told it.
    pub(crate) fn note_error(&mut self, error: &ClientError) {
        self.session.last_conn = None;
        self.session.past.failed(error);
    }
}

impl Clients {
    /// Takes note of how much waits for a client.
    pub(crate) fn count_waiting(&mut self, client: &mut impl AnyClient) {
        // Little comes and goes with every statement.
        let held = Some(client.io.outbox.held()).filter(|held| *held > SCARCE_LEN_MAX).unwrap_or(0);
        let before = std::mem::replace(&mut client.io.waiting_held, held);
        self.waiting_bytes = self.waiting_bytes + held - before;
        if held != before {
            self.weigh(client);
        }
    }
}

impl Core {
    /// Answers a command with OK and the session's status.
    pub(crate) fn answer_ok(&mut self, client: &mut Client) {
        self.answer_ok_with(client, b"");
    }

    /// Answers a command with an error; the session lives on.
    pub(crate) fn answer_error(&mut self, client: &mut Client, error: ClientError) {
        self.fx.stats.counters.errors_sent += 1;
        self.fx.stats.counters.statements_answered += 1;
        client.note_error(&error);
        self.write_error(client, self.command_seq(), &error);
    }

    /// The number of the first packet that answers the command: one in several packets has more
    /// numbers than one.
    pub(crate) fn command_seq(&self) -> u8 {
        self.fx.whole.as_ref().map_or(1, |whole| whole.answer_seq)
    }

    /// Writes an error packet, with a code that the client's library takes.
    pub(crate) fn write_error(
        &mut self,
        client: &mut impl AnyClient,
        seq: u8,
        error: &ClientError,
    ) {
        let is_refused =
            CLIENT_CODES.contains(&error.code) && client.session().is_some_and(is_connector_c);
        self.write_client(client, |out| {
            match is_refused {
                true => ErrorKind::LostToConnectorC.says(error.text.clone()).put(out, seq),
                false => error.put(out, seq),
            };
        });
    }

    /// Notes that a client's outbox has bytes.
    pub(crate) fn touch_client(&mut self, client: &mut Frontend) {
        if client.is_mirror {
            return client.io.outbox.discard(&mut self.fx.buffers);
        }
        if !client.io.outbox.is_listed {
            client.io.outbox.is_listed = true;
            self.fx.dirty.0.push_back(Side::Client(client.id));
        }
    }

    /// Appends to a client's outbox.
    pub(crate) fn write_client(&mut self, client: &mut Frontend, write: impl FnOnce(&mut Vec<u8>)) {
        write(client.io.outbox.buf(&mut self.fx.buffers));
        self.touch_client(client);
    }

    /// Bytes that may wait for one client now.
    pub(crate) fn buffer_max(&self) -> usize {
        let settings = &self.env.snapshot.settings;
        let share = settings.buffers_max / self.env.options.workers.max(1);
        match self.clients.waiting_bytes > share || self.clients.memory.is_scarce {
            true => settings.client_buffer_max.min(SCARCE_LEN_MAX),
            false => settings.client_buffer_max,
        }
    }

    /// Refuses a statement that can't be carried out for a client of a proxy.
    pub(crate) fn not_supported(&mut self, client: &mut Client, what: &str) {
        self.answer_error(client, not_supported(what));
    }

    /// Answers a command with OK and a text.
    pub(crate) fn answer_ok_with(&mut self, client: &mut Client, info: &[u8]) {
        self.write_ok(client, self.command_seq(), OkPacket { info, ..OkPacket::default() });
    }

    /// Writes OK with the session's status, as packet `seq`.
    pub(crate) fn write_ok(&mut self, client: &mut Client, seq: u8, ok: OkPacket<'_>) {
        let session = &*client.session;
        let (status, format) = (session.settings.status, session.login.format);
        self.write_client(client, |out| {
            put_ok(out, seq, &OkPacket { status, ..ok }, format);
        });
    }
}

/// Whether the client's library is MariaDB's Connector/C, by what it has told of itself.
fn is_connector_c(session: &Session) -> bool {
    let told = &session.login.attributes;
    told.iter().any(|(name, value)| **name == *b"_client_name" && **value == *b"libmariadb")
}

/// The error for what can't be carried out for a client of a proxy.
pub(crate) fn not_supported(what: &str) -> ClientError {
    let text = format!("This version of Trunkline doesn't yet support '{what}'");
    ErrorKind::NotSupported.says(text)
}
