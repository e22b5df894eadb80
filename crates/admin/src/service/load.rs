//! `LOAD` and `SAVE`: all or nothing, and what they have changed.

use std::{
    path::Path,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use trunkline_config::variable;
use trunkline_net::private;
use trunkline_store::{Layer, Module, RevisionRow, SqlError, Store, Value};

use super::{
    AdminService, FirstRow, Refused, Reply, Session, checksum,
    document::{self, LoadedConfig, MakeError},
    is_secret,
    programs::jobs,
    reply::texts,
    start,
};
use crate::{
    import::export,
    scheduler,
    scripts::Account,
    sql::{Movement, Origin},
};

/// Changes of one load that the history keeps, a line each.
const CHANGES_NOTED_MAX: usize = 1_000;
/// Wrong rows that one error names; a `MySQL` error has 512 bytes, the log gets all of them.
const NAMED_MAX: usize = 5;

impl AdminService {
    /// Does a `LOAD` or `SAVE`.
    pub(super) async fn load_or_save(
        &self,
        session: &Session,
        sql: &str,
        movement: Movement,
    ) -> Result<Reply, Refused> {
        let _one_at_a_time = self.loading.lock().await;
        let module = movement.module;
        match (movement.from, movement.to) {
            (Origin::Layer(Layer::Memory), Layer::Runtime) => {
                self.load_to_runtime(session, sql, module).await
            }
            (Origin::Layer(from), to) => {
                // ProxySQL tells of no rows here either.
                self.with_store(move |store| Ok(store.copy(module, from, to)?)).await?;
                Ok(Reply::ok())
            }
            (Origin::Revision(revision), _) => {
                let rows =
                    self.with_store(move |store| Ok(store.restore(module, revision)?)).await?;
                Ok(Reply::Ok { affected: rows, info: String::new(), warnings: Vec::new() })
            }
            (Origin::ConfigFile, _) => self.load_from_file(module).await,
        }
    }

    async fn load_to_runtime(
        &self,
        session: &Session,
        sql: &str,
        module: Module,
    ) -> Result<Reply, Refused> {
        let running = Arc::clone(&self.runtime.snapshot().config);
        let made = self
            .with_store(move |store| {
                check_admin(store, module)?;
                document::make(store, &[module], Some(&running)).map_err(refusal)
            })
            .await?;
        let what = Loaded { module, user: None };
        let reply = self.serve_by(session, sql, made, what).await?;
        if module == Module::AdminVariables {
            self.renew_accounts().await?;
            self.renew_ports().await?;
        }
        if module == Module::Scheduler {
            self.renew_jobs().await?;
        }
        Ok(reply)
    }

    /// `LOAD MYSQL USER name TO RUNTIME`: one of very many, without a look at the others.
    pub(super) async fn load_user(
        &self,
        session: &Session,
        sql: &str,
        name: String,
    ) -> Result<Reply, Refused> {
        let _one_at_a_time = self.loading.lock().await;
        let running = Arc::clone(&self.runtime.snapshot().config);
        let wanted = name.clone();
        let made = self
            .with_store(move |store| document::make_user(store, &wanted, &running).map_err(refusal))
            .await?;
        let what = Loaded { module: Module::MysqlUsers, user: Some(name) };
        self.serve_by(session, sql, made, what).await
    }

    /// Serves by a configuration, and notes what of it was loaded.
    async fn serve_by(
        &self,
        session: &Session,
        sql: &str,
        mut made: LoadedConfig,
        what: Loaded,
    ) -> Result<Reply, Refused> {
        let name = what.module.name();
        let module = what.module;
        let mut changes = self
            .runtime
            .apply(made.config, format!("{name} (memory)"))
            .await
            .map_err(Refused::new)?;
        made.warnings.extend(self.warnings_of_what_runs(module).await?);
        for warning in &made.warnings {
            tracing::warn!("{name}: {warning}");
        }
        let own = self.with_store(move |store| Ok(changed_admin_variables(store, module)?)).await?;
        changes.extend(own);
        let info = said(&changes, &made.warnings);
        let (author, command) = (session.author(), sql.trim().to_owned());
        self.with_store(move |store| {
            what.copy(store)?;
            note_checksum(store, what.module)?;
            let row = RevisionRow {
                changed_at: unix_sec(),
                author: &author,
                module: what.module,
                command: &command,
                changes: &noted(&changes),
                // What is loaded of a user says nothing of the other rows of MEMORY.
                content: if what.user.is_some() { Layer::Runtime } else { Layer::Memory },
            };
            let noted = store.record(row);
            if let Err(error) = noted {
                // It runs already; what can't be noted is said, and no reason to fail.
                tracing::error!("{name} runs, but config_history has no row of it: {error}");
            }
            Ok(())
        })
        .await?;
        Ok(Reply::Ok { affected: 0, info, warnings: made.warnings })
    }

    /// What of a module that was just loaded can't work on this machine, as things are now.
    async fn warnings_of_what_runs(&self, module: Module) -> Result<Vec<String>, Refused> {
        let snapshot = self.runtime.snapshot();
        match module {
            Module::MysqlServers => Ok(snapshot
                .names_without_address()
                .iter()
                .map(|name| {
                    format!("the name of {name} has no address: it serves nobody until it has one")
                })
                .collect()),
            Module::Scheduler => {
                let jobs = self.with_store(|store| Ok(jobs(store, Layer::Memory)?)).await?;
                let checked = tokio::task::spawn_blocking(move || {
                    scheduler::warnings(&jobs, Account::of(&snapshot.settings).err())
                });
                Ok(checked.await.unwrap_or_default())
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Puts the file's rows of a module into MEMORY, all or none; others stay there.
    async fn load_from_file(&self, module: Module) -> Result<Reply, Refused> {
        let Some(file) = self.file.clone() else {
            return Err(Refused::new("Config file unknown"));
        };
        let read = tokio::task::spawn_blocking(move || file());
        let imported = match read.await {
            Ok(Ok(imported)) => imported,
            Ok(Err(lines)) => return Err(refusal(MakeError::Rows(lines))),
            Err(_) => return Err(Refused::new("the file was not read")),
        };
        let is_of_module = |row: &FirstRow| match module.prefix() {
            None => module.tables().contains(&row.table),
            Some(prefix) => row.values.iter().any(|(column, value)| {
                let is_name = column == "variable_name";
                is_name && matches!(value, Value::Text(name) if name.starts_with(prefix))
            }),
        };
        let rows: Vec<FirstRow> = imported.rows.into_iter().filter(is_of_module).collect();
        let affected = u64::try_from(rows.len()).unwrap_or(u64::MAX);
        self.with_store(move |store| {
            let named: Vec<_> = rows.iter().map(FirstRow::named).collect();
            store.insert_named(Layer::Memory, &named).map_err(|error| {
                let lines = start::wrong_rows_of(&rows).unwrap_or_default();
                match lines.is_empty() {
                    true => error.into(),
                    false => refusal(MakeError::Rows(lines)),
                }
            })
        })
        .await?;
        Ok(Reply::Ok { affected, info: String::new(), warnings: Vec::new() })
    }

    /// What runs, as the text of a configuration file, of the kind that was loaded.
    pub(super) async fn config_text(&self) -> Result<String, Refused> {
        let format = self.format;
        self.with_store(move |store| Ok(export(store, Layer::Runtime, format)?)).await
    }

    /// Writes it to a new file that only its owner may read: there are passwords in it.
    pub(super) async fn save_config(&self, path: String) -> Result<Reply, Refused> {
        let text = self.config_text().await?;
        let written = tokio::task::spawn_blocking(move || {
            let written = private::create(Path::new(&path), text.as_bytes());
            written.map(|()| path.clone()).map_err(|error| format!("can't write {path}: {error}"))
        });
        match written.await {
            Ok(Ok(path)) => Ok(Reply::said(format!("File {path} is saved."))),
            Ok(Err(error)) => Err(Refused::new(error)),
            Err(_) => Err(Refused::new("the file was not written")),
        }
    }

    /// The checksum of a module, or of one of its tables, under the name that was asked for.
    pub(super) async fn checksum(
        &self,
        name: String,
        module: Module,
        table: Option<&'static str>,
        is_disk: bool,
    ) -> Result<Reply, Refused> {
        let layer = if is_disk { Layer::Disk } else { Layer::Memory };
        let sum = self
            .with_store(move |store| Ok(checksum::of_layer(store, layer, module, table)?))
            .await?;
        let sums = vec![vec![name, checksum::short(sum)]];
        Ok(Reply::Rows(texts(&["table", "checksum"], sums)))
    }

    pub(super) async fn global_checksum(&self) -> Result<Reply, Refused> {
        let sum = self.with_store(|store| Ok(checksum::global(store)?)).await?;
        Ok(Reply::Rows(texts(&["CHECKSUM"], vec![vec![sum.to_string()]])))
    }
}

/// What was loaded.
struct Loaded {
    module: Module,
    /// One user alone.
    user: Option<String>,
}

impl Loaded {
    /// RUNTIME shows it. What waits for a restart stays there as it runs.
    fn copy(&self, store: &mut Store) -> Result<(), SqlError> {
        if let Some(name) = &self.user {
            return store.copy_user(name);
        }
        let waiting = needs_restart(store, self.module)?;
        store.copy(self.module, Layer::Memory, Layer::Runtime)?;
        let pairs = waiting.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        store.put_variables(Layer::Runtime, pairs)?;
        spell(store, self.module)
    }
}

/// Has the variables of a module that run spelled in one way, whatever was written.
pub(super) fn spell(store: &mut Store, module: Module) -> Result<(), SqlError> {
    let Some(prefix) = module.prefix() else { return Ok(()) };
    let others: Vec<(String, String)> = store
        .variables(Layer::Runtime, prefix)?
        .into_iter()
        .filter_map(|(name, value)| {
            let spelled = variable::find(&name)?.spelled(&value);
            (spelled != value).then_some((name, spelled))
        })
        .collect();
    let pairs = others.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    store.put_variables(Layer::Runtime, pairs)
}

/// Variables of a module that only a restart changes, as they run.
fn needs_restart(store: &Store, module: Module) -> Result<Vec<(String, String)>, SqlError> {
    let Some(prefix) = module.prefix() else { return Ok(Vec::new()) };
    let mut variables = store.variables(Layer::Runtime, prefix)?;
    variables
        .retain(|(name, _)| variable::find(name).is_some_and(|row| row.reload_word() == "restart"));
    Ok(variables)
}

/// The changes as the history keeps them.
fn noted(changes: &[String]) -> String {
    let first = changes.get(..CHANGES_NOTED_MAX).unwrap_or(changes).join("\n");
    match changes.len().saturating_sub(CHANGES_NOTED_MAX) {
        0 => first,
        more => format!("{first}\nand {more} more"),
    }
}

/// Variables of the admin port itself that a load changes: they are no settings of the data plane.
fn changed_admin_variables(store: &Store, module: Module) -> Result<Vec<String>, SqlError> {
    if module != Module::AdminVariables {
        return Ok(Vec::new());
    }
    let running = store.variables(Layer::Runtime, "admin-")?;
    let mut changes = Vec::new();
    for (name, value) in store.variables(Layer::Memory, "admin-")? {
        let Some(row) = variable::find(&name).filter(|row| row.setting().is_none()) else {
            continue;
        };
        let before = running.iter().find(|(known, _)| *known == name);
        let before = before.map_or("", |(_, value)| value.as_str());
        let is_same = row.spelled(before) == row.spelled(&value);
        match is_secret(&name) {
            _ if is_same => {}
            true => changes.push(format!("{name}: changed")),
            false => changes.push(format!("{name}: {before} -> {value}")),
        }
    }
    Ok(changes)
}

/// How a change ends that only a restart brings.
const NEEDS_RESTART: &str = " (needs a restart)";

/// What a `LOAD` says in its answer.
fn said(changes: &[String], warnings: &[String]) -> String {
    let counted = |count: usize, noun: &str| match count {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    };
    let mut text = counted(changes.len(), "change");
    let waiting: Vec<&str> =
        changes.iter().filter_map(|change| change.strip_suffix(NEEDS_RESTART)).collect();
    if let Some(first) = waiting.first() {
        let count = counted(waiting.len(), "change");
        text.push_str(&format!("; {count} after a restart, the first one: {first}"));
    }
    if let Some(first) = warnings.first() {
        let count = counted(warnings.len(), "warning");
        text.push_str(&format!("; {count}, the first one: {first}"));
    }
    text
}

/// The error for rows that make no configuration.
pub(super) fn refusal(error: MakeError) -> Refused {
    match error {
        MakeError::Sql(error) => error.into(),
        MakeError::Rows(lines) => {
            for line in &lines {
                tracing::error!("not loaded: {line}");
            }
            let named: Vec<&str> = lines.iter().take(NAMED_MAX).map(String::as_str).collect();
            let more = match lines.len().saturating_sub(NAMED_MAX) {
                0 => String::new(),
                more => format!(" (and {more} more, in the log)"),
            };
            Refused::new(format!("nothing was loaded: {}{more}", named.join("; ")))
        }
    }
}

/// Refuses accounts of the admin port that could not be used, or by anybody.
fn check_admin(store: &Store, module: Module) -> Result<(), Refused> {
    if module != Module::AdminVariables {
        return Ok(());
    }
    let variables = store.variables(Layer::Memory, "admin-")?;
    let accounts = crate::port::Accounts::read(&variables).map_err(Refused::wrong_value)?;
    accounts.check_public(&variables).map_err(Refused::wrong_value)
}

/// Notes that a module runs.
pub(super) fn note_checksum(store: &mut Store, module: Module) -> Result<(), SqlError> {
    for (name, sum) in checksum::of_running(store, module)? {
        store.note_checksum(name, unix_sec(), &checksum::padded(sum))?;
    }
    Ok(())
}

/// Seconds of Unix time.
pub(super) fn unix_sec() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
