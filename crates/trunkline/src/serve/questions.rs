//! The data plane begins, and with it whoever answers what its workers ask: a password to be tried
//! on a server, what a host is called, what users the servers have, what names mean.

use std::{sync::Arc, time::Duration};

use anyhow::{Result, anyhow};
use tokio::sync::{
    Notify,
    mpsc::{self, error::TrySendError},
};
use trunkline_catalog::Catalog;
use trunkline_config::Snapshot;
use trunkline_monitor::{
    self as monitor, Account, DictionaryQuestion, LostThread, Question, SystemResolver, keep_naming,
};
use trunkline_protocol::packet::greeting::Greeting;
use trunkline_proxy::{
    CatalogQuestion, DataPlane, HostQuestion, LoginQuestion, OutcomeQuestion, PlaneOptions,
    TlsSetup, UserQuestion,
};
use trunkline_topology::{
    HostAnswer,
    outcome::{Outcome, Unknown},
};
use trunkline_worker::{CatalogAsk, OutcomeAsk, OutcomeFound};

use super::cpus;

/// The most time that a login waits for the name of its host.
const HOST_NAME_TIME_MAX: Duration = Duration::from_secs(5);

/// Questions whose answers are up to the supervisor.
pub(super) struct Asked {
    /// Workers want to know what users the servers have now.
    pub users_wanted: Arc<Notify>,
    /// Names of clients of which they want to know what servers say.
    pub user_questions: mpsc::Receiver<monitor::UserQuestion>,
    /// Passwords to be tried on servers.
    pub questions: mpsc::Receiver<Question>,
    /// Names that workers want to know, and where they find them then.
    pub names: mpsc::Receiver<DictionaryQuestion>,
    /// `COMMIT`s whose answers were lost.
    pub outcomes: mpsc::Receiver<monitor::OutcomeQuestion>,
    /// What names mean, as far as servers have told.
    pub catalog: Arc<Catalog>,
}

/// Starts the workers. Names of hosts are looked up from here on.
pub(super) fn begin_plane(
    snapshot: &Arc<Snapshot>,
    greeting: &Arc<Greeting>,
    tls: &Arc<TlsSetup>,
    workers: usize,
) -> Result<(DataPlane, Asked)> {
    let users_wanted = Arc::new(Notify::new());
    let (asked, questions) = mpsc::channel(QUESTIONS_MAX);
    let (wanted_names, names) = mpsc::channel(QUESTIONS_MAX);
    let catalog = Arc::new(Catalog::default());
    let (asked_users, user_questions) = mpsc::channel(QUESTIONS_MAX);
    let (asked_outcomes, outcomes) = mpsc::channel(QUESTIONS_MAX);
    let (named, host_questions) = mpsc::channel(QUESTIONS_MAX);
    tokio::spawn(keep_naming(Arc::new(SystemResolver), host_questions, HOST_NAME_TIME_MAX));
    let plane = DataPlane::start(PlaneOptions {
        snapshot: Arc::clone(snapshot),
        greeting: Arc::clone(greeting),
        tls: Arc::clone(tls),
        workers,
        on_thread: on_thread(snapshot),
        ask_server: Arc::new(move |question| ask(&asked, question)),
        look_up_user: Arc::new(move |question| look_up_user(&asked_users, question)),
        look_up_host: Arc::new(move |question| name_host(&named, question)),
        ask_catalog: {
            let catalog = Arc::clone(&catalog);
            Arc::new(move |question| ask_dictionary(&wanted_names, &catalog, question))
        },
        find_outcome: Arc::new(move |question| find_outcome(&asked_outcomes, question)),
        catalog: Arc::clone(&catalog),
        look_up_users: {
            let wanted = Arc::clone(&users_wanted);
            Arc::new(move || wanted.notify_one())
        },
    });
    let plane = plane.map_err(|reason| anyhow!(reason))?;
    Ok((plane, Asked { users_wanted, user_questions, questions, names, outcomes, catalog }))
}

/// What each worker's thread does first.
fn on_thread(snapshot: &Snapshot) -> Arc<dyn Fn(usize) + Send + Sync> {
    let wanted = snapshot.settings.worker_cpus.clone();
    let allowed = cpus::allowed();
    Arc::new(move |worker| cpus::bind_worker(&wanted, worker, &allowed))
}

/// Passwords that may wait to be tried on servers, and look-ups that may wait for their turn.
const QUESTIONS_MAX: usize = 4_096;

/// Has a password tried on a server; with too many waiting it is wrong.
fn ask(asked: &mpsc::Sender<Question>, question: LoginQuestion) {
    let LoginQuestion { name, hostgroup, clear, answer } = question;
    let question = Question { name, hostgroup, clear, answer };
    if let Err(TrySendError::Full(question) | TrySendError::Closed(question)) =
        asked.try_send(question)
    {
        (question.answer)(false);
    }
}

/// Has names' meanings asked for; with too many questions waiting they stay unknown.
fn ask_dictionary(
    asked: &mpsc::Sender<DictionaryQuestion>,
    catalog: &Catalog,
    question: CatalogQuestion,
) {
    let CatalogQuestion { ask, told } = question;
    let CatalogAsk { group, names, user, credential, asked_ms } = *ask;
    let account = Account::new(user, credential);
    let question = DictionaryQuestion { group, names, account, asked_ms, told };
    if let Err(error) = asked.try_send(question) {
        error.into_inner().give_up(catalog);
    }
}

/// Has it found out what became of a `COMMIT`; with too many questions waiting nobody knows.
fn find_outcome(asked: &mpsc::Sender<monitor::OutcomeQuestion>, question: OutcomeQuestion) {
    let OutcomeQuestion { ask, answer } = question;
    let OutcomeAsk { ticket, server, thread, age_ms, flavor, mark, user, credential, .. } = *ask;
    let question = monitor::OutcomeQuestion {
        thread: LostThread { number: thread, age_ms, flavor },
        account: Account::new(user, credential),
        time_max: Duration::from_millis(ask.time_max_ms),
        answer: {
            let server = server.key.clone();
            Box::new(move |outcome, mark| answer(OutcomeFound { ticket, outcome, server, mark }))
        },
        server,
        mark,
    };
    if let Err(error) = asked.try_send(question) {
        (error.into_inner().answer)(Outcome::Unknown(Unknown::Busy), None);
    }
}

/// Has servers asked for a name; with too many waiting what is known counts.
fn look_up_user(asked: &mpsc::Sender<monitor::UserQuestion>, question: UserQuestion) {
    let UserQuestion { name, asked_ms, answer } = question;
    let question = monitor::UserQuestion { name, asked_ms, answer };
    if let Err(TrySendError::Full(question) | TrySendError::Closed(question)) =
        asked.try_send(question)
    {
        (question.answer)(None);
    }
}

/// Has a host's name looked up; with too many waiting that fails.
fn name_host(asked: &mpsc::Sender<monitor::HostQuestion>, question: HostQuestion) {
    let HostQuestion { addr, answer } = question;
    if let Err(TrySendError::Full(question) | TrySendError::Closed(question)) =
        asked.try_send(monitor::HostQuestion { addr, answer })
    {
        (question.answer)(HostAnswer::Failed("too many look-ups are waiting".to_owned()));
    }
}
