//! What the driver does: it carries out actions and moves bytes.

use super::*;

impl World {
    /// Carries out actions and writes, as the driver does after each batch.
    pub(super) fn drive(&mut self) {
        for _ in 0..ROUNDS_MAX {
            let mut is_quiet = true;
            for index in 0..WORKERS {
                is_quiet &= !self.drive_one(index);
            }
            if is_quiet {
                return;
            }
        }
        panic!("the workers do not come to rest");
    }

    /// Whether there was anything to do.
    fn drive_one(&mut self, index: usize) -> bool {
        let worker = self.worker(index);
        let mut actions = worker.take_actions();
        let mut has_acted = !actions.is_empty();
        for action in actions.drain(..) {
            self.act(index, action);
        }
        self.worker(index).recycle_actions(actions);
        while let Some(side) = self.worker(index).next_dirty() {
            has_acted = true;
            let is_slow = match side {
                Side::Client(id) => self.client_at(index, id).is_none_or(|it| it.is_slow),
                Side::Server(id) => self
                    .server_at(index, id)
                    .is_none_or(|it| it.is_slow || it.stage == Stage::Connecting),
            };
            if !is_slow {
                self.write(index, side, usize::MAX);
            }
        }
        self.worker(index).let_leave();
        has_acted
    }

    fn client_at(&mut self, worker: usize, id: ClientId) -> Option<&mut Client> {
        self.clients.iter_mut().find(|client| client.worker == worker && client.id == id)
    }

    fn server_at(&mut self, worker: usize, id: ConnId) -> Option<&mut Server> {
        self.servers.iter_mut().find(|server| server.worker == worker && server.id == id)
    }

    /// Moves at most `max` bytes out of the worker.
    pub(super) fn write(&mut self, index: usize, side: Side, max: usize) {
        let pending = self.worker(index).pending(side);
        let len = pending.len().min(max);
        let bytes = pending.get(..len).unwrap_or_default().to_vec();
        match side {
            Side::Client(id) => {
                let Some(client) = self.client_at(index, id) else {
                    return;
                };
                client.take(&bytes);
            }
            Side::Server(id) => {
                let Some(server) = self.server_at(index, id) else {
                    return;
                };
                server.received.extend_from_slice(&bytes);
            }
        }
        self.worker(index).wrote(side, len);
        self.close_if_written(index, side);
    }

    fn close_if_written(&mut self, index: usize, side: Side) {
        let Side::Client(id) = side else { return };
        if !self.worker(index).pending(side).is_empty() {
            return;
        }
        let is_over =
            |it: &Client| it.worker == index && it.id == id && it.is_closing && !it.is_slow;
        if let Some(at) = self.clients.iter().position(is_over) {
            self.close_client(at);
        }
    }

    fn act(&mut self, index: usize, action: Action) {
        match action {
            Action::Open { conn, server } => {
                let health = Arc::clone(&server.health);
                self.servers.push(Server::new(index, conn, health));
            }
            Action::CloseClient { client, now } => self.close_asked(index, client, now),
            Action::CloseServer { conn, .. } => self.forget_server(index, conn),
            // Nobody here has a certificate, and no server is asked for one.
            Action::StartClientTls(_) | Action::StartServerTls { .. } => {
                unreachable!("TLS is offered to nobody")
            }
            Action::Pause(side) => self.set_paused(index, side, true),
            Action::Resume(side) => self.set_paused(index, side, false),
            Action::Probe(conn) => {
                let at = |it: &Server| it.worker == index && it.id == conn;
                if let Some(at) = self.servers.iter().position(at) {
                    self.server_sends(at, READ_LEN_MAX);
                }
            }
            Action::Decrypt { client, .. } => {
                self.questions.push_back(Question::Decrypt(index, client));
            }
            Action::VerifyHash { client, .. } => {
                self.questions.push_back(Question::Verify(index, client));
            }
            Action::Derive { conn, .. } => self.worker(index).server_derived(conn, None),
            Action::AskServer { client, .. } => self.worker(index).client_verified(client, false),
            Action::Wipe => {}
            Action::LookUpUsers => self.worker(index).users_looked_up(),
            Action::LookUpHost(addr) => {
                self.worker(index).host_named(addr, HostAnswer::Nameless);
            }
            Action::Encrypt { conn, .. } => {
                self.questions.push_back(Question::Encrypt(index, conn));
            }
            Action::AskCatalog(ask) => {
                let waiters =
                    self.worker(index).catalog().settle_as_tables(&ask.names, ask.asked_ms);
                for (worker, clients) in by_worker(waiters) {
                    self.worker(worker).catalog_told(clients);
                }
            }
            Action::AskPeers(key) => {
                for peer in (0..WORKERS).filter(|peer| *peer != index) {
                    self.worker(peer).peer_asks(key.clone(), index);
                }
            }
            Action::HandOver { conn, moved, to } => self.hand_over(index, conn, *moved, to),
            Action::MoveClient { client, moved, to } => {
                let at = |it: &Client| it.worker == index && it.id == client;
                let at = self.clients.iter().position(at);
                let Some(at) = at else {
                    return self.worker(index).client_lost(*moved);
                };
                let id = self.worker(to).adopt_client(*moved);
                if let Some(client) = self.clients.get_mut(at) {
                    (client.worker, client.id) = (to, id);
                }
                self.worker(to).client_adopted(id);
            }
            Action::ClientLeft { to, number } => self.worker(to).client_left(number),
            Action::Kill { to, request } => self.worker(to).kill_asked(*request),
            Action::Killed { asker, answer } => {
                self.worker(asker.worker).kill_answered(asker, answer);
            }
            Action::TellAdministrator { .. } => unreachable!("no administrator asks"),
            Action::WakeCached { to, clients } => self.worker(to).cache_woken(clients),
            Action::AskShared(_) | Action::StoreShared(_) => unreachable!("no shared cache"),
            Action::LogQuery(_) | Action::LogSession(_) => {}
            Action::Log(line) => assert!(!line.text.is_empty()),
            Action::Stopped => {
                if let Some(stopped) = self.is_stopped.get_mut(index) {
                    assert!(!*stopped, "a worker stops twice");
                    *stopped = true;
                }
            }
        }
    }

    fn close_asked(&mut self, index: usize, id: ClientId, now: bool) {
        let is_empty = self.worker(index).pending(Side::Client(id)).is_empty();
        let at = |it: &Client| it.worker == index && it.id == id;
        let Some(at) = self.clients.iter().position(at) else {
            return;
        };
        match now || is_empty {
            true => self.close_client(at),
            false => {
                if let Some(client) = self.clients.get_mut(at) {
                    client.is_closing = true;
                }
            }
        }
    }

    fn forget_server(&mut self, index: usize, conn: ConnId) {
        let before = self.servers.len();
        self.servers.retain(|server| server.worker != index || server.id != conn);
        // A connection that the driver has closed already may be closed once more; one that it
        // does not know was never opened.
        assert!(before - self.servers.len() <= 1);
    }

    fn set_paused(&mut self, index: usize, side: Side, is_paused: bool) {
        match side {
            Side::Client(id) => {
                if let Some(client) = self.client_at(index, id) {
                    client.is_paused = is_paused;
                }
            }
            Side::Server(id) => {
                if let Some(server) = self.server_at(index, id) {
                    server.is_paused = is_paused;
                }
            }
        }
    }

    fn hand_over(&mut self, index: usize, conn: ConnId, moved: MovedConn, to: usize) {
        let at = |it: &Server| it.worker == index && it.id == conn;
        let Some(at) = self.servers.iter().position(at) else {
            return moved.give_up();
        };
        let mut server = self.servers.swap_remove(at);
        if let Some(id) = self.worker(to).adopt(moved) {
            (server.worker, server.id) = (to, id);
            self.servers.push(server);
            self.worker(to).adopted(id);
        }
    }

    /// Servers answer as they should until nobody has anything to say.
    pub(super) fn settle(&mut self) {
        for _ in 0..ROUNDS_MAX {
            self.pass(50);
            self.drive();
            if !self.settle_once() {
                return;
            }
        }
        panic!("the world does not come to rest");
    }

    fn settle_once(&mut self) -> bool {
        let mut has_moved = !self.questions.is_empty();
        self.answer_question(true);
        for at in (0..self.servers.len()).rev() {
            self.drive();
            if self.servers.get(at).is_some_and(|server| server.stage == Stage::Connecting) {
                has_moved = true;
                self.connect(at, 0);
            }
            if let Some(server) = self.servers.get_mut(at) {
                while server.unsent.len() < READ_LEN_MAX && server.answer(0) {
                    has_moved = true;
                }
            }
            has_moved |= self.server_sends(at, READ_LEN_MAX);
        }
        for at in (0..self.clients.len()).rev() {
            self.drive();
            has_moved |= self.client_sends(at);
        }
        self.drive();
        has_moved
    }
}
