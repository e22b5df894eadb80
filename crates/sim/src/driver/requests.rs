//! What a worker asks of others: some answer at once, the world answers the rest later.

use trunkline_catalog::Inquiry;
use trunkline_protocol::packet::greeting::Flavor;
use trunkline_topology::Secret;
use trunkline_worker::{CatalogAsk, Student, Worker, by_worker, shell::Request};

use super::{Job, Mail, Wish, WorkerMail, io::Around, now_of, unix_us_of};

impl Around<'_, '_> {
    pub(super) fn answer(&mut self, worker: &mut Worker, request: Request) {
        let now = self.out.now;
        let wish = match request {
            Request::Decrypt(client, cipher) => Wish::Compute(Job::Decrypt(client, cipher)),
            Request::VerifyHash(client, clear, hash) => {
                Wish::Compute(Job::VerifyHash(client, clear, hash))
            }
            Request::Encrypt(conn, _, plain) => Wish::Compute(Job::Encrypt(conn, plain)),
            Request::Derive(conn, password, derivation) => {
                let seed = derivation.seed(password.expose());
                return worker.server_derived(conn, Some(Secret::new(seed)));
            }
            // No user's password is the servers' to check.
            Request::AskServer { client, .. } => return worker.client_verified(client, false),
            Request::LookUpUsers => return worker.users_looked_up(),
            Request::LookUpUser { name, asked_ms } => {
                return worker.user_looked_up(name, Some(asked_ms));
            }
            Request::LookUpHost(addr) => Wish::Name(addr),
            Request::FindOutcome(ask) => Wish::FindOutcome(ask),
            Request::Study(study) => {
                return worker.studied(Student::default().study(*study));
            }
            Request::AskCatalog(ask) => return self.ask_catalog(worker, &ask),
            // Nobody asks in an administrator's name here.
            Request::TellAdministrator(..) => return,
            Request::AskShared(ask) => Wish::Ask(ask),
            Request::StoreShared(store) => Wish::Share(store),
            Request::LogQuery(event) => Wish::Logged(event.line(unix_us_of(now))),
            Request::LogSession(event) => Wish::Logged(event.line(unix_us_of(now))),
            Request::Log(line) => {
                let index = self.links.index;
                return self.out.trace.note(now, || format!("worker {index} logs: {}", line.text));
            }
        };
        self.out.wishes.push(wish);
    }

    /// What the control plane does: asks the servers' dictionary, and tells the catalog.
    fn ask_catalog(&mut self, worker: &Worker, ask: &CatalogAsk) {
        let now_ms = now_of(self.out.now).ms();
        let catalog = worker.catalog();
        let moment = catalog.moment(now_ms);
        let dictionary = &self.links.dictionary;
        let is_mariadb = dictionary.flavor == Flavor::MariaDb;
        let mut inquiry = Inquiry::new(ask.names.clone(), is_mariadb);
        while let Some(query) = inquiry.next_query() {
            let rows = dictionary.answer(query.sql());
            inquiry.answer(&query, &rows);
        }
        for (name, told) in inquiry.finish() {
            catalog.tell(name, told, moment, now_ms);
        }
        for (worker, clients) in by_worker(catalog.settle(&ask.names)) {
            let mail = Mail::Worker(WorkerMail::CatalogTold(clients));
            self.out.wishes.push(Wish::Post(worker, mail));
        }
    }
}
