//! What a worker asks of other threads.

use std::time::{SystemTime, UNIX_EPOCH};

use tracing::{info, warn};
use trunkline_cache::Waiter;
use trunkline_worker::{CatalogAsk, ClientId, Worker, by_worker, shell::Request};

use crate::{
    CatalogQuestion, HostQuestion, LoginQuestion, OutcomeQuestion, UserQuestion, event_log::Log,
    mailbox::WorkerMail, outside::Outside, passwords::Job,
};

impl Outside {
    /// Asks whoever knows; the answer comes by mail.
    pub(crate) fn pass_on(&mut self, worker: &mut Worker, request: Request) {
        let own = || self.parts.own.clone();
        match request {
            Request::Decrypt(client, ciphertext) => self.compute(Job::Decrypt(client, ciphertext)),
            Request::VerifyHash(client, clear, hash) => {
                self.compute(Job::VerifyHash(client, clear, hash));
            }
            Request::Encrypt(conn, public_key_pem, plaintext) => {
                self.compute(Job::Encrypt(conn, public_key_pem, plaintext));
            }
            Request::Derive(conn, password, derivation) => {
                self.compute(Job::Derive(conn, password, derivation));
            }
            Request::AskServer { client, name, hostgroup, clear } => {
                let own = own();
                let answer = Box::new(move |is_right| {
                    own.send(WorkerMail::Verified(client, is_right));
                });
                (self.parts.ask_server)(LoginQuestion { name, hostgroup, clear, answer });
            }
            Request::LookUpUsers => (self.parts.look_up_users)(),
            Request::LookUpUser { name, asked_ms } => {
                let (own, of) = (own(), name.clone());
                let answer = Box::new(move |asked_ms| {
                    own.send(WorkerMail::UserLookedUp(of, asked_ms));
                });
                (self.parts.look_up_user)(UserQuestion { name, asked_ms, answer });
            }
            Request::LookUpHost(addr) => {
                let own = own();
                let answer = Box::new(move |answer| {
                    own.send(WorkerMail::HostNamed(addr, answer));
                });
                (self.parts.look_up_host)(HostQuestion { addr, answer });
            }
            Request::FindOutcome(ask) => {
                let (own, client) = (own(), ask.client);
                let answer = Box::new(move |found| {
                    own.send(WorkerMail::OutcomeFound(client, Box::new(found)));
                });
                (self.parts.find_outcome)(OutcomeQuestion { ask, answer });
            }
            Request::Study(study) => self.parts.students.study(study),
            Request::AskCatalog(ask) => self.ask_catalog(ask),
            Request::TellAdministrator(ticket, answer) => self.administrators.tell(ticket, answer),
            Request::AskShared(ask) => {
                let Waiter { index, generation, .. } = ask.waiter;
                if !self.parts.shared_cache.ask(ask) {
                    worker.cache_woken(vec![ClientId { index, generation }]);
                }
            }
            Request::StoreShared(store) => self.parts.shared_cache.store(store),
            Request::LogQuery(event) => {
                let log = if event.is_slow() { Log::Slow } else { Log::Query };
                self.log(worker, log, event.line(unix_us()));
            }
            Request::LogSession(event) => self.log(worker, Log::Audit, event.line(unix_us())),
            Request::Log(line) if line.is_warning => warn!("{}", line.text),
            Request::Log(line) => info!("{}", line.text),
        }
    }

    fn compute(&self, job: Job) {
        self.parts.passwords.send(job, self.parts.own.clone());
    }

    /// Clients of any worker may wait for the answer.
    fn ask_catalog(&self, ask: Box<CatalogAsk>) {
        let peers = self.parts.peers.clone();
        let told = Box::new(move |waiters: Vec<trunkline_catalog::Waiter>| {
            for (worker, clients) in by_worker(waiters) {
                if let Some(peer) = peers.get(worker) {
                    peer.send(WorkerMail::CatalogTold(clients));
                }
            }
        });
        (self.parts.ask_catalog)(CatalogQuestion { ask, told });
    }

    fn log(&self, worker: &mut Worker, log: Log, line: String) {
        if !self.parts.events.write(log, line) {
            worker.counters_mut().log_lines_dropped += 1;
        }
    }
}

/// Now, in µs of Unix time.
fn unix_us() -> u64 {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(unix.as_micros()).unwrap_or(u64::MAX)
}
