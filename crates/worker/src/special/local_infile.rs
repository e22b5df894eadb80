//! `LOAD DATA LOCAL INFILE`: the server asks for a file of the client's, and the client's packets
//! go to it, numbered as it counts. The proxy opens no file.

use trunkline_protocol::{
    capability::Capabilities,
    codec::frame::{HEADER_LEN, Header},
    error::ErrorKind,
    packet::greeting::Flavor,
};
use trunkline_sql::analysis::{Analysis, Effect};

use crate::{
    Action, Side,
    clients::client::Frontend,
    clients::client::{Client, Phase, Stage},
    rooms::{Core, Exchange, Lender},
    servers::conn::{Conn, ConnPhase, Owner},
};

/// How far a client's file has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Upload {
    /// The server has not asked for one.
    #[default]
    None,
    /// The client sends it.
    Sending {
        /// Bytes to come of the packet that has begun.
        left: usize,
        /// The next packet goes on with the payload of the last one.
        is_continued: bool,
        /// The server's number for the next packet.
        seq: u8,
    },
    /// The packet that ends it has been sent on.
    Done,
}

/// Why those are lost whose statements are behind one that a server asks a file for.
const NOBODYS_FILE: &str = "its server waits for a file that nobody sends";

/// Whether a text may have the server ask for a file.
fn loads_local_file(analysis: &Analysis) -> bool {
    analysis.effects.iter().any(|effect| matches!(effect, Effect::LoadData { local: true }))
}

impl Core {
    /// Whether the client never said that it answers requests for files: servers refuse then.
    /// Answers so.
    pub(crate) fn refuses_local_file(&mut self, client: &mut Client, analysis: &Analysis) -> bool {
        let is_offered = client.session.login.capabilities.contains(Capabilities::LOCAL_FILES);
        if is_offered || !loads_local_file(analysis) {
            return false;
        }
        match self.env.greeting.flavor() {
            Flavor::MariaDb => {
                let text = "The used command is not allowed because the MariaDB server or client \
                            has disabled the local infile capability";
                self.answer_error(client, ErrorKind::LocalInfileOffMariaDb.says(text));
            }
            Flavor::MySql => {
                let text = "Loading local data is disabled; this must be enabled on both the \
                            client and server sides";
                self.answer_error(client, ErrorKind::LocalInfileOffMySql.says(text));
            }
        }
        true
    }

    /// Sends on what has come of the file to the server that asked for it.
    pub(crate) fn upload_on(&mut self, client: &mut Client) {
        if let Phase::Running(statement) = &client.phase
            && let Stage::Sent(conn) = statement.stage
        {
            self.with_conn(conn, |core, conn| core.upload(client, conn));
        }
    }

    /// Sends on what has come of the file, renumbered as the server counts.
    fn upload(&mut self, client: &mut Client, conn: &mut Conn) {
        let max = self.env.snapshot.settings.client_buffer_max;
        let Frontend { phase, io, .. } = &mut client.front;
        let Phase::Running(statement) = phase else {
            return;
        };
        let Upload::Sending { mut left, mut is_continued, mut seq } = statement.beside.upload
        else {
            return;
        };
        if statement.stage != Stage::Sent(conn.id) {
            return;
        }
        // Packets inside compressed ones have no number that counts, but for 0: a new command.
        let is_counted = conn.io.packing.is_none();
        let out = conn.io.outbox.buf(&mut self.fx.buffers);
        let mut rest = io.inbox.as_slice();
        let mut is_done = false;
        while !is_done {
            if left > 0 {
                let part = rest.get(..left).unwrap_or(rest);
                out.extend_from_slice(part);
                left -= part.len();
                rest = rest.get(part.len()..).unwrap_or_default();
                if left > 0 {
                    break;
                }
            }
            let Some(header) = Header::read(rest) else { break };
            rest = rest.get(HEADER_LEN..).unwrap_or_default();
            let number = if is_counted { seq } else { 1 };
            out.extend_from_slice(&Header { seq: number, ..header }.bytes());
            seq = seq.wrapping_add(1);
            left = header.payload_len;
            is_done = left == 0 && !is_continued;
            is_continued = header.is_continued();
        }
        let consumed = io.inbox.len() - rest.len();
        io.inbox.drain(..consumed);
        statement.beside.upload = match is_done {
            true => Upload::Done,
            false => Upload::Sending { left, is_continued, seq },
        };
        if let (true, Some(front)) = (is_done, conn.in_flight.front_mut()) {
            front.relay.file_sent(seq);
        }
        let is_full = !is_done && conn.io.outbox.len() > max;
        if is_full != client.io.is_paused {
            client.io.is_paused = is_full;
            let side = Side::Client(client.id);
            match is_full {
                true => self.fx.act(Action::Pause(side)),
                false => self.resume_client(client),
            }
        }
        self.fx.stats.counters.client_files_bytes += consumed as u64;
        self.touch_server(conn);
    }

    /// The server took bytes of a file: its client may be read again.
    pub(super) fn after_upload_write(&mut self, conn: &Conn) {
        let max = self.env.snapshot.settings.client_buffer_max;
        let Some(owner) = conn.holder.owner.filter(|_| matches!(conn.phase, ConnPhase::Ready))
        else {
            return;
        };
        if conn.io.outbox.len() > max / 2 {
            return;
        }
        self.with_client(owner, |core, client| {
            if client.is_uploading() && std::mem::take(&mut client.io.is_paused) {
                core.resume_client(client);
            }
        });
    }
}

impl Exchange {
    /// The reply in front asks for the client's file, in packets that are numbered from `seq` on.
    pub(crate) fn file_asked(&mut self, conn: &mut Conn, seq: u8) {
        let front = conn.in_flight.front().map(|entry| entry.owner);
        let client = match front {
            Some(Owner::Client(id)) => self.core.clients.get_mut(id),
            _ => None,
        };
        let Some(client) = client else {
            // Nobody is there to send it, and without it the connection is of no use. To say that
            // the file is empty would have the server take what it never got for complete.
            return self.lose_conn(conn, NOBODYS_FILE);
        };
        let id = client.id;
        let is_offered = client.session.login.capabilities.contains(Capabilities::LOCAL_FILES);
        let Phase::Running(statement) = &mut client.phase else {
            return;
        };
        if !is_offered {
            return self.server_broke(conn, "asked for a file that nobody offered");
        }
        // Else it could read any of its clients' files.
        let known = statement.meaning.known.as_ref();
        if !known.is_some_and(|known| known.may_ask_for_file()) {
            return self.server_broke(conn, "asked for a file behind a statement that loads none");
        }
        if matches!(statement.beside.upload, Upload::Sending { .. }) {
            return self.server_broke(conn, "asked for a file while it reads another");
        }
        // One of several statements may ask behind another.
        statement.beside.upload = Upload::Sending { left: 0, is_continued: false, seq };
        self.core.with_client(id, |core, client| {
            core.upload(client, conn);
            core.unpack_client_soon(client);
        });
    }
}
