//! What a worker has its driver do.

use super::*;

impl Driver {
    pub(super) fn carry_out(&mut self, out: &mut Outside<'_>, action: Action) {
        match action {
            Action::Open { conn, server } => self.open_server(out, conn, &server),
            Action::CloseClient { client, now } => self.close_client(out, client, now),
            Action::CloseServer { conn, farewell } => {
                if let Some(socket) = self.sockets.remove(Side::Server(conn)) {
                    let farewell = match socket.seal {
                        Some(_) => Seal::seal(farewell),
                        None => farewell.to_vec(),
                    };
                    let _ = out.wire.write(socket.link, End::Proxy, &farewell, out.now);
                    out.close(socket.link);
                    out.trace.note(out.now, || {
                        format!("worker {} closes link {}", self.index, socket.link.0)
                    });
                }
            }
            Action::Pause(side) => {
                if let Some(socket) = self.sockets.get_mut(side) {
                    socket.is_paused = true;
                    socket.is_readable = true;
                }
            }
            Action::Resume(side) => {
                if let Some(socket) = self.sockets.get_mut(side) {
                    socket.is_paused = false;
                    if std::mem::take(&mut socket.is_readable) {
                        self.unfinished.push(side);
                    }
                }
            }
            Action::StartClientTls(client) => {
                self.start_sealing(out, Side::Client(client), Seal::accept(), &[]);
            }
            Action::StartServerTls { conn, .. } => {
                let (seal, hello) = Seal::ask();
                self.start_sealing(out, Side::Server(conn), seal, hello);
            }
            Action::Probe(conn) => self.read(out, Side::Server(conn)),
            Action::Decrypt { client, ciphertext } => {
                out.wishes.push(Wish::Compute(Job::Decrypt(client, ciphertext)));
            }
            Action::VerifyHash { client, clear, hash } => {
                out.wishes.push(Wish::Compute(Job::VerifyHash(client, clear, hash)));
            }
            Action::Encrypt { conn, plaintext, .. } => {
                out.wishes.push(Wish::Compute(Job::Encrypt(conn, plaintext)));
            }
            Action::Derive { conn, password, derivation } => {
                let seed = derivation.seed(password.expose());
                self.worker.server_derived(conn, Some(Secret::new(seed)));
            }
            // No user's password is the servers' to check.
            Action::AskServer { client, .. } => self.worker.client_verified(client, false),
            Action::Wipe => {}
            Action::LookUpUsers => self.worker.users_looked_up(),
            Action::LookUpHost(addr) => out.wishes.push(Wish::Name(addr)),
            Action::AskCatalog(ask) => self.ask_catalog(out, &ask),
            Action::AskPeers(key) => {
                for peer in (0..self.workers).filter(|peer| *peer != self.index) {
                    out.wishes.push(Wish::Post(peer, Mail::PeerAsks(key.clone(), self.index)));
                }
            }
            Action::HandOver { conn, moved, to } => self.hand_over(out, conn, moved, to),
            Action::MoveClient { client, moved, to } => self.move_client(out, client, moved, to),
            Action::ClientLeft { to, number } => {
                out.wishes.push(Wish::Post(to, Mail::ClientLeft(number)));
            }
            Action::Kill { to, request } => {
                out.wishes.push(Wish::Post(to, Mail::Kill(request)));
            }
            Action::Killed { asker, answer } => {
                out.wishes.push(Wish::Post(asker.worker, Mail::Killed(asker, answer)));
            }
            // Nobody asks in an administrator's name here.
            Action::TellAdministrator { .. } => {}
            Action::LogQuery(event) => {
                out.wishes.push(Wish::Logged(event.line(unix_us_of(out.now))));
            }
            Action::LogSession(event) => {
                out.wishes.push(Wish::Logged(event.line(unix_us_of(out.now))));
            }
            Action::WakeCached { to, clients } => {
                out.wishes.push(Wish::Post(to, Mail::CacheWoken(clients)));
            }
            Action::AskShared(ask) => out.wishes.push(Wish::Ask(ask)),
            Action::StoreShared(store) => out.wishes.push(Wish::Share(store)),
            Action::Log(line) => {
                out.trace.note(out.now, || format!("worker {} logs: {}", self.index, line.text));
            }
            Action::Stopped => self.is_stopped = true,
        }
    }

    /// What the control plane does: asks the servers' dictionary, and tells the catalog.
    fn ask_catalog(&mut self, out: &mut Outside<'_>, ask: &CatalogAsk) {
        let now_ms = now_of(out.now).ms();
        let catalog = self.worker.catalog();
        let moment = catalog.moment(now_ms);
        let is_mariadb = self.dictionary.flavor == Flavor::MariaDb;
        let mut inquiry = Inquiry::new(ask.names.clone(), is_mariadb);
        while let Some(query) = inquiry.next_query() {
            let rows = self.dictionary.answer(query.sql());
            inquiry.answer(&query, &rows);
        }
        for (name, told) in inquiry.finish() {
            catalog.tell(name, told, moment, now_ms);
        }
        for (worker, clients) in by_worker(catalog.settle(&ask.names)) {
            out.wishes.push(Wish::Post(worker, Mail::CatalogTold(clients)));
        }
    }

    fn close_client(&mut self, out: &mut Outside<'_>, client: ClientId, now: bool) {
        let side = Side::Client(client);
        let is_empty = self.worker.pending(side).is_empty();
        let Some(socket) = self.sockets.get_mut(side) else {
            return;
        };
        match now || is_empty {
            true => self.ended(out, side, "closed"),
            false => socket.is_closing = true,
        }
    }

    fn hand_over(&mut self, out: &mut Outside<'_>, conn: ConnId, moved: Box<MovedConn>, to: usize) {
        let Some(socket) = self.sockets.remove(Side::Server(conn)) else {
            return moved.give_up();
        };
        let link = socket.link;
        out.trace.note(out.now, || format!("worker {} hands link {} to {to}", self.index, link.0));
        out.wishes.push(Wish::Post(to, Mail::HandedOver(moved, link, socket.seal)));
    }

    fn move_client(
        &mut self,
        out: &mut Outside<'_>,
        client: ClientId,
        moved: Box<MovedClient>,
        to: usize,
    ) {
        let Some(socket) = self.sockets.remove(Side::Client(client)) else {
            return self.worker.client_lost(*moved);
        };
        let (link, has_ended) = (socket.link, socket.has_ended);
        out.trace
            .note(out.now, || format!("worker {} gives client {} to {to}", self.index, link.0));
        let seal = socket.seal;
        out.wishes.push(Wish::Post(to, Mail::MovedClient(moved, link, has_ended, seal)));
    }
}
