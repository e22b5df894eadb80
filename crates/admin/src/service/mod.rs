//! Answers administrators' statements: the store behind, the running proxy beside.
//!
//! Reading order: [`AdminService::answer`] (what becomes of a statement), [`load`] (between
//! layers), [`document`] (rows to a configuration), [`show`], [`numbers`] (tables of statistics),
//! [`digests`], [`present`] (what there is at the moment, errors, latency), [`past`],
//! [`start`](mod@start) (what runs first).

mod audit;
mod bundle;
mod checksum;
mod digests;
pub(crate) mod document;
mod load;
mod numbers;
mod past;
mod paused;
mod present;
mod programs;
mod reply;
mod room;
mod routes;
mod servers;
mod session;
mod show;
mod start;
mod target;
mod user;

#[cfg(test)]
pub(crate) mod tests;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::sync::{Semaphore, watch};
use trunkline_budget::Budget;
use trunkline_config::{Config, Snapshot, variable};
use trunkline_net::TlsSetup;
use trunkline_stats::{DigestSums, ServerCounters};
use trunkline_store::{Access, Layer, Module, Prepared, Store, Value};

pub(crate) use audit::order_line;
pub(crate) use bundle::log_part;
pub(crate) use numbers::host_and_port;
#[cfg(test)]
pub(crate) use present::MEMORY_UNMEASURED;
pub use programs::Port;
pub use reply::{Refused, Reply};
pub(crate) use room::{Room, class_of};
pub use session::{Session, VERSION};
pub use start::{
    FirstRow, Start, StartError, Started, config_of, differs, start, start_new, start_of_file,
};

use crate::{
    figures::Figures,
    import::{Format, Imported},
    port::{Accounts, Door},
    scheduler::Job,
    source::Runtime,
    sql::{self, Assignment, Command, Statement, select, text::Text},
};
use session::Asked;
use target::{Readers, SharedStore, Target};

/// How often somebody who waits for another version looks for it.
const VERSION_LOOK: Duration = Duration::from_millis(20);
/// How long they may wait.
const VERSION_WAIT_MAX: Duration = Duration::from_secs(60);

/// What identifies a row of the digest table: digest, hostgroup, user, schema.
type DigestKey = (u64, u32, String, String);

fn read_accounts(store: &Store) -> Result<Accounts, Refused> {
    let variables = store.variables(Layer::Runtime, "admin-")?;
    Accounts::read(&variables).map_err(Refused::wrong_value)
}

/// Whether only administrators may see the value of a variable.
fn is_secret(variable: &str) -> bool {
    ["password", "credentials", "token"].iter().any(|word| variable.contains(word))
}

/// Whether a command may be run with this access.
fn may_run(access: Access, command: &Command) -> bool {
    match access {
        Access::Admin | Access::Internal => true,
        Access::Operate => command.operates(),
        Access::Stats => false,
    }
}

/// Reads the configuration file that a database began with, or could have.
pub type FileReader = Box<dyn Fn() -> Result<Imported, Vec<String>> + Send + Sync>;

/// The admin port without its sockets.
pub struct AdminService {
    /// In file mode: the configuration that RUNTIME was filled for.
    followed: Option<Mutex<Option<Arc<Config>>>>,
    store: SharedStore,
    /// Those of users of statistics.
    readers: Readers,
    runtime: Arc<dyn Runtime>,
    /// For `LOAD … FROM CONFIG`.
    file: Option<Arc<FileReader>>,
    /// The kind of that file.
    format: Format,
    /// Who comes in.
    door: Door,
    /// Held while a configuration is loaded: one after the other.
    loading: tokio::sync::Mutex<()>,
    before: Before,
    /// What the scheduler runs.
    jobs: watch::Sender<Vec<Job>>,
    /// Ports for HTTP beside `http_listen` and `console_listen`.
    ports: watch::Sender<Vec<Port>>,
    /// Scripts that may run at once for who asks over HTTP.
    script_places: Semaphore,
    /// Held while the history is read for a user of statistics.
    reading_past: tokio::sync::Mutex<()>,
    /// The last lines of the audit log.
    audited: audit::Audited,
}

/// What was counted until it was last reset.
#[derive(Default)]
struct Before {
    digests: Mutex<HashMap<DigestKey, DigestSums>>,
    /// By hostgroup and address.
    servers: Mutex<HashMap<(u32, String), ServerCounters>>,
    errors: Mutex<HashMap<present::ErrorKey, u64>>,
}

impl AdminService {
    /// For a store whose configuration runs. `file` is what `LOAD … FROM CONFIG` reads.
    pub fn new(store: Store, runtime: Arc<dyn Runtime>, file: Option<FileReader>) -> Self {
        let accounts = read_accounts(&store).ok();
        let jobs = programs::jobs(&store, Layer::Runtime).unwrap_or_default();
        let ports = programs::ports(&store).unwrap_or_default();
        Self {
            followed: None,
            file: file.map(Arc::new),
            format: Format::Toml,
            door: Door::new(accounts, runtime.budget()),
            readers: Readers::new(store.place().clone()),
            store: SharedStore::new(store),
            runtime,
            loading: tokio::sync::Mutex::new(()),
            before: Before::default(),
            jobs: watch::channel(jobs).0,
            ports: watch::channel(ports).0,
            script_places: Semaphore::new(programs::SCRIPTS_MAX),
            reading_past: tokio::sync::Mutex::default(),
            audited: audit::Audited::default(),
        }
    }

    /// Has configurations written in another language than Trunkline's own.
    pub fn writing(self, format: Format) -> Self {
        Self { format, ..self }
    }

    /// For file mode: nothing is edited, and the layers show the file. `store` comes from
    /// [`start_of_file`].
    pub fn of_file(store: Store, runtime: Arc<dyn Runtime>, file: FileReader) -> Self {
        let followed = Some(Mutex::new(Some(Arc::clone(&runtime.snapshot().config))));
        Self { followed, ..Self::new(store, runtime, Some(file)) }
    }

    /// In file mode, MEMORY and DISK are the file as it is now, and RUNTIME as it was when the
    /// configuration that runs was read. Users of statistics see none of the first two, so their
    /// statements have the file read only when another configuration runs.
    async fn follow_file(&self, access: Access) -> Result<(), Refused> {
        let (Some(followed), Some(file)) = (&self.followed, self.file.clone()) else {
            return Ok(());
        };
        let running = Arc::clone(&self.runtime.snapshot().config);
        let is_other = {
            let mut known = followed.lock().unwrap_or_else(PoisonError::into_inner);
            let is_same = known.as_ref().is_some_and(|known| Arc::ptr_eq(known, &running));
            *known = Some(running);
            !is_same
        };
        if access.is_reader() && !is_other {
            return Ok(());
        }
        let read = tokio::task::spawn_blocking(move || file());
        let rows = match read.await {
            Ok(Ok(imported)) => imported.rows,
            // What is wrong with it is said when it is loaded; the layers stay.
            Ok(Err(_)) | Err(_) => return Ok(()),
        };
        self.with_store(move |store| {
            start::show_file(store, &rows)?;
            if is_other {
                start::show_running(store)?;
            }
            Ok(())
        })
        .await
    }

    /// Whether the configuration is a file's, and nothing is edited here.
    pub(crate) fn is_of_file(&self) -> bool {
        self.followed.is_some()
    }

    fn refuse_edits(&self) -> Result<(), Refused> {
        match self.followed {
            None => Ok(()),
            Some(_) => Err(Refused::new(
                "the configuration is a file's: change that, and reload it (SIGHUP)",
            )),
        }
    }

    /// The process serves: what an empty database began with is kept from now on.
    ///
    /// # Errors
    /// Why it can't be kept.
    pub async fn has_begun(&self) -> Result<(), String> {
        let kept = self.with_store(|store| Ok(start::keep_first(store)?)).await;
        kept.map_err(|refused| refused.message)
    }

    /// Answers one statement.
    pub async fn answer(&self, session: &mut Session, sql: &str, params: &[Value]) -> Reply {
        let parsed = sql::parse(sql);
        let is_change = audit::is_change(&parsed);
        let keeps_warnings = matches!(&parsed, Ok(Statement::Show(sql::Show::Warnings { .. })));
        let answered = match parsed {
            Ok(statement) => self.execute(session, sql, statement, params).await,
            Err(message) => Err(Refused::syntax(message)),
        };
        if is_change {
            let errno = answered.as_ref().err().map_or(0, |refused| refused.code);
            self.audit(audit::statement_line(session, sql, errno));
        }
        let reply = answered.unwrap_or_else(Reply::Error);
        if !keeps_warnings {
            session.warnings = match &reply {
                Reply::Ok { warnings, .. } => warnings.clone(),
                Reply::Rows(_) | Reply::Error(_) => Vec::new(),
            };
        }
        reply
    }

    /// What a statement has for columns and parameters.
    ///
    /// # Errors
    /// What is wrong with it.
    pub async fn describe(&self, session: &Session, sql: &str) -> Result<Prepared, Refused> {
        let statement = sql::parse(sql).map_err(Refused::syntax)?;
        let text = match statement {
            Statement::Sql(text) => text,
            Statement::Session => self.rewritten(session, sql).await?,
            Statement::Show(show) => {
                let target = self.target(session).await?;
                let rows = self.show(session, target, show).await?;
                let columns = match rows {
                    Reply::Rows(rows) => rows.columns,
                    Reply::Ok { .. } | Reply::Error(_) => Vec::new(),
                };
                return Ok(Prepared { columns, params: 0 });
            }
            Statement::Empty
            | Statement::Move(_)
            | Statement::LoadUser(_)
            | Statement::Set(_)
            | Statement::NoEffect
            | Statement::Use(_)
            | Statement::Command(_) => return Ok(Prepared { columns: Vec::new(), params: 0 }),
        };
        self.target(session).await?.describe(text).await
    }

    /// Where a statement of a session runs.
    async fn target(&self, session: &Session) -> Result<Target, Refused> {
        let settings = &self.runtime.snapshot().settings;
        Target::of(session, &self.store, &self.readers, settings, self.door.figures()).await
    }

    async fn execute(
        &self,
        session: &mut Session,
        sql: &str,
        statement: Statement,
        params: &[Value],
    ) -> Result<Reply, Refused> {
        let is_admin = !session.access.is_reader();
        match &statement {
            Statement::Move(_) | Statement::LoadUser(_) | Statement::Set(_) => {
                self.refuse_edits()?;
            }
            Statement::Command(Command::SetReadOnly(_) | Command::SaveDigests) => {
                self.refuse_edits()?;
            }
            Statement::Show(_) | Statement::Session | Statement::Sql(_) => {
                self.follow_file(session.access).await?;
            }
            Statement::Empty | Statement::NoEffect | Statement::Use(_) | Statement::Command(_) => {}
        }
        match statement {
            Statement::Empty | Statement::NoEffect => Ok(Reply::ok()),
            Statement::Use(schema) => {
                session.schema = schema;
                Ok(Reply::ok())
            }
            Statement::Move(_) | Statement::LoadUser(_) | Statement::Set(_) if !is_admin => {
                Err(Refused::denied())
            }
            Statement::LoadUser(name) => self.load_user(session, sql, name).await,
            Statement::Move(movement) => {
                // Loads change no table, as in ProxySQL, and one of them may end it.
                if movement.to != Layer::Runtime && movement.module != Module::AdminVariables {
                    self.refuse_read_only().await?;
                }
                self.load_or_save(session, sql, movement).await
            }
            Statement::Set(assignment) => self.set(assignment).await,
            Statement::Show(show) => {
                let target = self.target(session).await?;
                self.show(session, target, show).await
            }
            Statement::Command(Command::Help(word)) => Ok(show::help(word.as_deref())),
            Statement::Command(command) if !may_run(session.access, &command) => {
                Err(Refused::denied())
            }
            Statement::Command(command) => self.command(command).await,
            Statement::Session => {
                let text = self.rewritten(session, sql).await?;
                self.run(session, text, params).await
            }
            Statement::Sql(text) => self.run(session, text, params).await,
        }
    }

    /// Runs a statement on SQLite, with tables filled that it names.
    async fn run(
        &self,
        session: &Session,
        text: String,
        params: &[Value],
    ) -> Result<Reply, Refused> {
        let lower = text.to_ascii_lowercase();
        let writes = !lower.starts_with("select") && !lower.starts_with("pragma");
        if writes && session.access == Access::Admin {
            self.refuse_edits()?;
            self.refuse_read_only().await?;
        }
        let target = self.target(session).await?;
        self.fill_tables(&target.store, &lower).await?;
        self.fill_past(&target, &lower).await?;
        target.run(text, params.to_vec()).await
    }

    /// `SET`: a variable of MEMORY.
    async fn set(&self, assignment: Assignment) -> Result<Reply, Refused> {
        let Assignment { name, value } = assignment;
        let Some(row) = variable::find(&name) else {
            let message = format!("Unknown global variable: '{name}'");
            return Err(Refused::unknown_variable(message));
        };
        row.check(&value).map_err(Refused::wrong_value)?;
        let name = row.name();
        let has_effect = row.support_word() != "ignored" || row.default_value() == value;
        let warnings = if has_effect { Vec::new() } else { vec![format!("{name} has no effect")] };
        // Only this may be set while the admin port refuses writes: it ends that.
        if name != "admin-read_only" {
            self.refuse_read_only().await?;
        }
        self.with_store(move |store| {
            let given = [(name.as_str(), value.as_str())];
            store.put_variables(Layer::Memory, given.into_iter()).map_err(Refused::from)
        })
        .await?;
        let info = warnings.first().cloned().unwrap_or_default();
        Ok(Reply::Ok { affected: 1, info, warnings })
    }

    /// `admin-read_only` as it runs refuses changes.
    async fn refuse_read_only(&self) -> Result<(), Refused> {
        let value = self.running_variable("admin-read_only").await?;
        match value.as_str() {
            "true" | "1" => Err(Refused::new("the admin port is read-only (admin-read_only)")),
            _ => Ok(()),
        }
    }

    /// The running value of a variable; empty when there is none.
    pub(crate) async fn running_variable(&self, name: &'static str) -> Result<String, Refused> {
        self.with_store(move |store| {
            let found = store.variables(Layer::Runtime, name)?;
            Ok(found.into_iter().find(|(n, _)| n == name).map_or(String::new(), |(_, v)| v))
        })
        .await
    }

    /// Who may come in.
    pub(crate) fn accounts(&self) -> Option<Accounts> {
        let snapshot = self.runtime.snapshot();
        Some(self.door.accounts()?.with_operators(&snapshot.settings.admin_operate_credentials))
    }

    /// Who comes in.
    pub(crate) fn door(&self) -> &Door {
        &self.door
    }

    /// What is counted here and over HTTP.
    pub(crate) fn figures(&self) -> &Arc<Figures> {
        self.door.figures()
    }

    /// The configuration that runs.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.runtime.snapshot()
    }

    /// The memory that there is for what comes from outside.
    pub(crate) fn budget(&self) -> &Arc<Budget> {
        self.door.budget()
    }

    /// What TLS works with now.
    pub(crate) fn tls(&self) -> Arc<TlsSetup> {
        self.runtime.tls()
    }

    /// Writes a line of the audit log, and keeps it for the console.
    fn audit(&self, line: String) {
        self.audited.keep(&line);
        self.runtime.audit(line);
    }

    /// The last lines of the audit log that came from here, the oldest first.
    pub(crate) fn audited(&self) -> Vec<String> {
        self.audited.lines()
    }

    /// Notes a login, or that it was refused.
    pub(crate) fn audit_login(&self, user: &str, peer: &str, is_encrypted: bool, is_in: bool) {
        self.audit(audit::login_line(user, peer, is_encrypted, is_in));
    }

    /// Other accounts run.
    async fn renew_accounts(&self) -> Result<(), Refused> {
        let accounts = self.with_store(|store| read_accounts(store)).await?;
        self.door.renew(accounts);
        Ok(())
    }

    async fn rewritten(&self, session: &Session, sql: &str) -> Result<String, Refused> {
        let mut variables =
            self.with_store(|store| Ok(store.variables(Layer::Runtime, "")?)).await?;
        if session.access.is_reader() {
            variables.retain(|(name, _)| !is_secret(name));
        }
        let text = Text::new(sql);
        let asked = Asked { session, variables: &variables, figures: &[] };
        if let Ok(rewritten) = select::rewrite(&text, &asked) {
            return Ok(rewritten);
        }
        let figures = self.global_figures().await;
        let asked = Asked { session, variables: &variables, figures: &figures };
        select::rewrite(&text, &asked).map_err(Refused::unknown_variable)
    }

    /// Works with the store on a thread that may wait.
    async fn with_store<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Store) -> Result<T, Refused> + Send + 'static,
    ) -> Result<T, Refused> {
        self.store.with(work).await
    }

    /// `PROXYSQL READONLY` and `READWRITE`: in force at once, as in ProxySQL.
    async fn set_read_only(&self, is_read_only: bool) -> Result<Reply, Refused> {
        let value = if is_read_only { "true" } else { "false" };
        self.with_store(move |store| {
            for layer in [Layer::Memory, Layer::Runtime] {
                store.put_variables(layer, [("admin-read_only", value)].into_iter())?;
            }
            Ok(())
        })
        .await?;
        Ok(Reply::ok())
    }

    /// Waits for a version of what runs above this one; the one that runs then.
    async fn pull_version(&self, above: u64, within_ms: u64) -> Result<Reply, Refused> {
        let within = Duration::from_millis(within_ms).min(VERSION_WAIT_MAX);
        let deadline = tokio::time::Instant::now() + within;
        while self.runtime.snapshot().version <= above && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(VERSION_LOOK).await;
        }
        let version = self.runtime.snapshot().version.to_string();
        Ok(Reply::Rows(reply::texts(&["version"], vec![vec![version]])))
    }

    // long: one arm for each command.
    async fn command(&self, command: Command) -> Result<Reply, Refused> {
        match command {
            Command::Help(word) => Ok(show::help(word.as_deref())),
            Command::Accepted(said) => Ok(Reply::said(said)),
            Command::LogEntry(text) => {
                tracing::info!("log entry: {text}");
                Ok(Reply::ok())
            }
            Command::Missing(what) => Err(Refused::missing(&what)),
            Command::End(ending) => {
                self.runtime.stop(ending);
                Ok(Reply::ok())
            }
            Command::Traffic(change) => match self.runtime.traffic(change).await {
                Ok(lines) => Ok(Reply::said(lines.join("; "))),
                Err(error) => Err(Refused::new(error)),
            },
            Command::FlushLogs => {
                self.runtime.reopen_logs().await.map(|()| Reply::ok()).map_err(Refused::new)
            }
            Command::SetReadOnly(is_read_only) => self.set_read_only(is_read_only).await,
            Command::FlushHosts => {
                let affected = self.runtime.forget_failed_logins() + self.door.forget_failed();
                Ok(Reply::Ok { affected, info: String::new(), warnings: Vec::new() })
            }
            Command::FlushConfigDb => {
                let opened = |store: &mut Store| {
                    store.reopen_disk().map_err(|error| Refused::new(error.to_string()))
                };
                self.with_store(opened).await?;
                Ok(Reply::ok())
            }
            Command::PullVersion { above, within_ms } => self.pull_version(above, within_ms).await,
            Command::FlushCache => {
                let affected = self.runtime.flush_cache();
                Ok(Reply::Ok { affected, info: String::new(), warnings: Vec::new() })
            }
            Command::ReloadTls => match self.runtime.reload_tls().await {
                Ok(lines) => Ok(Reply::said(lines.join("; "))),
                Err(error) => Err(Refused::new(format!("RELOAD TLS failed: {error}"))),
            },
            Command::ReloadConfig => match self.runtime.reload().await {
                Ok(lines) => Ok(Reply::said(lines.join("; "))),
                Err(error) => Err(Refused::new(error)),
            },
            Command::TruncateDigests => {
                self.reset_digests().await;
                Ok(Reply::ok())
            }
            Command::SaveDigests => self.save_digests().await,
            Command::SelectConfig => {
                let text = self.config_text().await?;
                Ok(Reply::Rows(reply::texts(&["Data"], vec![vec![text]])))
            }
            Command::SaveConfig(path) => self.save_config(path).await,
            Command::GlobalChecksum => self.global_checksum().await,
            Command::Checksum { name, module, table, is_disk } => {
                self.checksum(name, module, table, is_disk).await
            }
            Command::Kill { id, is_query } => match self.runtime.kill(id, is_query).await {
                Ok(()) => Ok(Reply::ok()),
                Err(not) => Err(Refused { code: not.code, ..Refused::new(not.message) }),
            },
            Command::Switchover { cluster, to, is_check } => {
                let switched = self.runtime.switchover(cluster, to, is_check).await;
                match switched.failed {
                    // What is in the way is what was asked for.
                    Some(failed) if !is_check || switched.rows.is_empty() => {
                        Err(Refused::new(failed))
                    }
                    Some(_) | None => {
                        Ok(Reply::Rows(reply::texts(&switched.columns, switched.rows)))
                    }
                }
            }
            Command::OfCluster(order) => match self.runtime.cluster_order(order).await {
                Ok(lines) => Ok(Reply::said(lines.join("; "))),
                Err(error) => Err(Refused::new(error)),
            },
            Command::Hostgroup(id, change) => {
                match self.runtime.hostgroup_traffic(id, change).await {
                    Ok(lines) => Ok(Reply::said(lines.join("; "))),
                    Err(error) => Err(Refused::new(error)),
                }
            }
            Command::ExplainRoute { user, schema, sql } => {
                let rows = self.runtime.explain(user.as_deref(), schema.as_deref(), &sql);
                let rows = rows.map_err(Refused::new)?;
                let rows = rows.into_iter().map(|(step, detail)| vec![step.to_owned(), detail]);
                Ok(Reply::Rows(reply::texts(&["step", "detail"], rows.collect())))
            }
        }
    }
}
