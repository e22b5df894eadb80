//! What a worker wants done.

use trunkline_topology::{ServerKey, wipe};

use super::*;
use crate::{Action, ClientId, ConnId};

impl<S: Stream> Shell<S> {
    /// Carries out actions until there is none.
    #[inline]
    pub(super) fn act(&mut self, io: &mut impl Io<Stream = S>) {
        if self.worker.has_actions() {
            self.carry_out_all(io);
        }
    }

    #[inline(never)]
    fn carry_out_all(&mut self, io: &mut impl Io<Stream = S>) {
        while self.worker.has_actions() {
            let mut actions = self.worker.take_actions();
            for action in actions.drain(..) {
                self.carry_out(io, action);
            }
            self.worker.recycle_actions(actions);
        }
    }

    fn carry_out(&mut self, io: &mut impl Io<Stream = S>, action: Action) {
        let request = match action {
            Action::Open { conn, server } => {
                return self.connect(io, conn, server, 0, "it has no address".to_owned());
            }
            Action::CloseClient { client, now } => return self.close_client(io, client, now),
            Action::CloseServer { conn, farewell } => {
                return self.close_server(io, conn, farewell);
            }
            Action::StartClientTls(client) => return self.start_client_tls(io, client),
            Action::StartServerTls { conn, server, params } => {
                return self.start_server_tls(io, conn, &server, &params);
            }
            Action::Pause(side) => return self.pause_reading(side),
            Action::Resume(side) => return self.resume_reading(side),
            Action::Probe(conn) => return self.probe(io, conn),
            Action::Wipe => return wipe(io.scratch()),
            Action::AskPeers(key) => return self.ask_peers(io, &key),
            Action::HandOver { conn, moved, to } => return self.hand_over(io, conn, moved, to),
            Action::MoveClient { client, moved, to } => {
                return self.move_client(io, client, moved, to);
            }
            Action::ClientLeft { to, number } => {
                return self.post(io, to, Mail::ClientLeft(number));
            }
            Action::Kill { to, request } => return self.post(io, to, Mail::Kill(request)),
            Action::Killed { asker, answer } => {
                return self.post(io, asker.worker, Mail::Killed(asker, answer));
            }
            Action::WakeCached { to, clients } => {
                return self.post(io, to, Mail::CacheWoken(clients));
            }
            Action::Stopped => return self.is_stopped = true,
            Action::Decrypt { client, ciphertext } => Request::Decrypt(client, ciphertext),
            Action::VerifyHash { client, clear, hash } => Request::VerifyHash(client, clear, hash),
            Action::Encrypt { conn, public_key_pem, plaintext } => {
                Request::Encrypt(conn, public_key_pem, plaintext)
            }
            Action::Derive { conn, password, derivation } => {
                Request::Derive(conn, password, derivation)
            }
            Action::AskServer { client, name, hostgroup, clear } => {
                Request::AskServer { client, name, hostgroup, clear }
            }
            Action::LookUpUsers => Request::LookUpUsers,
            Action::LookUpUser { name, asked_ms } => Request::LookUpUser { name, asked_ms },
            Action::LookUpHost(addr) => Request::LookUpHost(addr),
            Action::FindOutcome(ask) => Request::FindOutcome(ask),
            Action::Study(study) => Request::Study(study),
            Action::AskCatalog(ask) => Request::AskCatalog(ask),
            Action::TellAdministrator { ticket, answer } => {
                Request::TellAdministrator(ticket, answer)
            }
            Action::AskShared(ask) => Request::AskShared(ask),
            Action::StoreShared(store) => Request::StoreShared(store),
            Action::LogQuery(event) => Request::LogQuery(event),
            Action::LogSession(event) => Request::LogSession(event),
            Action::Log(line) => Request::Log(line),
        };
        io.ask(&mut self.worker, request);
    }

    fn ask_peers(&mut self, io: &mut impl Io<Stream = S>, key: &ServerKey) {
        for peer in 0..self.workers {
            if peer != self.index {
                self.post(io, peer, Mail::PeerAsks(key.clone(), self.index));
            }
        }
    }

    fn probe(&mut self, io: &mut impl Io<Stream = S>, conn: ConnId) {
        if io.look() {
            self.read(io, Side::Server(conn));
        }
    }

    pub(super) fn pause_reading(&mut self, side: Side) {
        if let Some(socket) = self.sockets.get_mut(side) {
            socket.is_paused = true;
            // Whether more came meanwhile is not known, and asked when it goes on.
            socket.is_readable = true;
        }
    }

    pub(super) fn resume_reading(&mut self, side: Side) {
        if let Some(socket) = self.sockets.get_mut(side) {
            socket.is_paused = false;
            if std::mem::take(&mut socket.is_readable) {
                self.read_later(side);
            }
        }
    }

    pub(super) fn close_client(
        &mut self,
        io: &mut impl Io<Stream = S>,
        client: ClientId,
        now: bool,
    ) {
        let side = Side::Client(client);
        let is_empty = self.worker.pending(side).is_empty();
        let Some(socket) = self.sockets.get_mut(side) else {
            return;
        };
        match now || is_empty {
            true => self.ended(io, side, "closed"),
            // Bytes wait: they are written after the actions.
            false => socket.is_closing = true,
        }
    }

    fn close_server(&mut self, io: &mut impl Io<Stream = S>, conn: ConnId, farewell: &[u8]) {
        let side = Side::Server(conn);
        self.say_farewell(io, side, farewell);
        if let Some(socket) = self.sockets.remove(side) {
            io.close(socket.stream, "closed");
        }
    }
}
