//! From a valid configuration to a process that serves.

use std::{
    io,
    num::NonZero,
    path::{Path, PathBuf},
    sync::{Arc, RwLock},
    thread,
    time::{Duration, SystemTime},
};

use anyhow::{Context, Result, anyhow};
use tokio::{
    net::{TcpListener, TcpSocket},
    sync::watch,
};
use trunkline_admin::{
    Console,
    control::ControlSocket,
    event_script, glb,
    import::Format,
    keep_ports,
    port::AdminListener,
    scheduler::keep_scheduling,
    service::{AdminService, FileReader},
};
use trunkline_config::{
    Config, ListenAddress, Settings, Snapshot, StateFile, WorkerCpus, control_path, history_path,
};
use trunkline_monitor::{
    Account, Board, Facts, Knowledge,
    greeting::{is_leader_known, server_versions},
    greeting_for_clients, learn, resolve,
};
use trunkline_protocol::packet::greeting::{Flavor, Greeting};
use trunkline_proxy::TlsSetup;
use trunkline_sql::version::ServerVersion;
use trunkline_stats::{Configuration, ControlFigures, Process};

use crate::{
    config_file::{Read, counted, summary},
    import::{format_of, rows_of},
    serve::{
        control::Control,
        limits,
        log::Log,
        notify::Notifier,
        origin::{Database, Origin},
        questions, recorder,
        reporter::{Reporter, unix_sec},
        signals::Signals,
        supervisor::{Parts, Supervisor},
        tracer,
    },
};

/// The most time that the first clients wait for what name servers and servers say.
pub(super) const PREPARATION_TIME_MAX: Duration = Duration::from_secs(2);

/// Brings everything up, in the order that lets nothing begin that something later would undo.
/// `None` when a signal asked for the end meanwhile.
// long: one order of beginnings, each of which needs those before.
pub(super) async fn start(
    origin: Origin,
    read: Read,
    database: Option<Database>,
    log: Log,
    started: SystemTime,
) -> Result<Option<Supervisor>> {
    let mut signals = Signals::listen().context("no signals")?;
    let Process { version, process_id, .. } = this_process(&origin.path());
    tracing::info!("trunkline {version} starts, process {process_id}");
    let open_files = settle_process(&read.config);
    warn(&read, open_files);
    let summary = summary(&read.config);
    let tls = Arc::new(load_tls(&origin, &read.config)?);
    let snapshot = read.config.snapshot(None);
    let ports = claim_ports(&snapshot.settings).await?;
    let admin = bind_admin(database.as_ref()).await?;
    let control_socket = bind_control(&snapshot.settings, &origin.path()).await;
    let state_file = snapshot.settings.state_file.path(&origin.path());
    let prepared = tokio::select! {
        prepared = prepare(snapshot, &tls, state_file.as_ref()) => prepared,
        (signal, _) = signals.next_stop() => {
            tracing::info!("{signal} before the first client: ended");
            return Ok(None);
        }
    };
    let Prepared { snapshot, known, greeting } = prepared;

    let workers = workers(&snapshot);
    let (plane, asked) = questions::begin_plane(&snapshot, &greeting, &tls, workers)?;
    plane.shared().set_flavor(greeting.flavor());
    if plane.shared().set_server_version(common_version(&known, &snapshot)) {
        plane.greet(&greeting);
    }
    let listen: Vec<String> = plane.listen().iter().map(ToString::to_string).collect();
    for address in &listen {
        tracing::info!("listening on {address}");
    }
    tracing::info!("serving {summary} with {}", counted(workers, "worker"));
    tracing::info!("clients are greeted as {}", greeting.server_version);
    let process = Process {
        started_unix_sec: unix_sec(started),
        workers: u32::try_from(workers).unwrap_or(u32::MAX),
        listen,
        control: ControlFigures { is_database: origin.is_database(), ..Default::default() },
        ..this_process(&origin.path())
    };
    let plane = Arc::new(RwLock::new(plane));
    let board = Arc::new(Board::default());
    let reporter = Arc::new(Reporter::new(Arc::clone(&plane), process, Arc::clone(&board)));
    reporter.applied(&snapshot);
    reporter.encrypts(&tls);
    let (snapshots, _) = watch::channel(Arc::clone(&snapshot));
    let (control, asked_for) =
        Control::new(Arc::clone(&reporter), snapshots.subscribe(), log.lines());
    let control = Arc::new(control);
    tokio::spawn(glb::keep_serving(Arc::clone(&control) as _, snapshots.subscribe()));
    let shown = Arc::clone(&board);
    let topology = move || shown.topology();
    tokio::spawn(event_script::keep_running(board.told(), snapshots.subscribe(), topology));
    let service = database.map(|database| Arc::new(admin_service(database, Arc::clone(&control))));
    if let Some(socket) = control_socket {
        tracing::info!("control socket at {}", socket.path().display());
        reporter.controlled_by(&socket);
        tokio::spawn(socket.serve(control, service.clone()));
    }
    if let Some(service) = &service {
        service.has_begun().await.map_err(|error| anyhow!(error))?;
    }
    open_ports(ports, admin, &reporter, service.as_ref())?;
    if let Some(folder) = history_folder(&snapshot.settings, &origin) {
        recorder::start(folder, snapshot.settings.history_size_mb, Arc::clone(&reporter));
    }
    let tracer = tracer::start(&reporter, &plane, snapshots.subscribe());
    let notifier = Notifier::of_environment();
    notifier.ready(&format!("serving {summary}"));
    let parts = Parts {
        origin,
        state_file,
        open_files,
        snapshot,
        plane,
        reporter,
        known,
        greeting,
        tls,
        signals,
        notifier,
        log,
        snapshots,
        asked_for,
        board,
        tracer,
    };
    Ok(Some(Supervisor::new(parts, asked)))
}

/// What the process asks of the system; how many files it may open.
fn settle_process(config: &Config) -> Option<u64> {
    let settings = &config.settings;
    let open_files = limits::raise_open_files();
    limits::make_room_for_files(limits::open_files_needed(config), open_files);
    limits::sharpen_pauses();
    limits::forbid_huge_pages();
    crate::allocator::give_back_soon();
    if let Err(error) = crate::allocator::give_back_beside() {
        tracing::warn!(%error, "large blocks of memory are given back by those who free them");
    }
    if !settings.core_dumps {
        limits::forbid_dumps();
    }
    open_files
}

/// Listeners of the control plane.
#[derive(Default)]
struct Ports {
    http: Option<TcpListener>,
    console: Option<TcpListener>,
}

/// Answers over HTTP and on the admin port, and serves the console, until the process ends.
fn open_ports(
    ports: Ports,
    admin: Vec<AdminListener>,
    reporter: &Arc<Reporter>,
    service: Option<&Arc<AdminService>>,
) -> Result<()> {
    let own = [&ports.http, &ports.console].into_iter().flatten();
    let own = own.filter_map(|listener| listener.local_addr().ok()).collect();
    if let Some(listener) = ports.http {
        serve_http(listener, Arc::clone(reporter), service.cloned())?;
    }
    if let Some(service) = service {
        let console = Console::new(Arc::clone(service), Arc::clone(reporter) as _);
        if let Some(listener) = ports.console {
            serve_console(listener, Arc::clone(&console))?;
        }
        let source = Arc::clone(reporter) as _;
        tokio::spawn(keep_ports(Arc::clone(service), source, console, service.ports(), own));
        serve_admin(service, admin);
    }
    Ok(())
}

/// Reads certificates and keys; what is wrong with them ends the start.
fn load_tls(origin: &Origin, config: &Config) -> Result<TlsSetup> {
    match TlsSetup::load(config, &origin.tls_folders(), None) {
        Ok(tls) => {
            tls.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
            Ok(tls)
        }
        Err(errors) => Err(anyhow!(errors.join("; "))),
    }
}

/// Fails when a port is not to be had; the listeners for HTTP and for the console.
async fn claim_ports(settings: &Settings) -> Result<Ports> {
    for listen in &settings.listen {
        claim(listen).with_context(|| format!("can't listen at {listen}"))?;
    }
    let mut ports = Ports::default();
    if let Some(listen) = settings.http_listen {
        let listener = TcpListener::bind(listen).await;
        let reason = || format!("can't listen at http_listen = \"{listen}\"");
        ports.http = Some(listener.with_context(reason)?);
    }
    if let Some(listen) = settings.console_listen {
        let listener = TcpListener::bind(listen).await;
        let reason = || format!("can't listen at console_listen = \"{listen}\"");
        ports.console = Some(listener.with_context(reason)?);
    }
    Ok(ports)
}

/// Says what an operator should hear of the configuration.
fn warn(read: &Read, open_files: Option<u64>) {
    let limit = limits::open_files_warning(open_files, &read.config);
    for warning in read.warnings.iter().chain(&limit) {
        tracing::warn!("{warning}");
    }
}

/// Listens where administrators connect.
async fn bind_admin(database: Option<&Database>) -> Result<Vec<AdminListener>> {
    let entries = database.map_or(&[][..], |database| &database.listen);
    let mut listeners = Vec::with_capacity(entries.len());
    for entry in entries {
        let listener = AdminListener::bind(entry).await;
        let reason = || format!("can't listen at {entry} (admin-mysql_ifaces)");
        listeners.push(listener.with_context(reason)?);
    }
    Ok(listeners)
}

/// Where the history is kept, if it is.
fn history_folder(settings: &Settings, origin: &Origin) -> Option<PathBuf> {
    if settings.history_size_mb == 0 {
        return None;
    }
    match origin.is_database() {
        // A folder for what is kept is what such a process is given.
        true => history_path(&StateFile::Beside, &origin.path()),
        false => history_path(&settings.state_file, &origin.path()),
    }
}

/// Listens for orders of the machine itself. A proxy serves without them, if it must.
async fn bind_control(settings: &Settings, config: &Path) -> Option<ControlSocket> {
    let path = control_path(&settings.control_socket, &settings.state_file, config)?;
    match ControlSocket::bind(&path).await {
        Ok(socket) => Some(socket),
        Err(error) => {
            tracing::warn!(
                "no control socket at {}: {error}; `trunkline kill`, `drain` and `reload` need a \
                 token (control_socket)",
                path.display()
            );
            None
        }
    }
}

/// What answers administrators.
fn admin_service(database: Database, control: Arc<Control>) -> AdminService {
    let Database { store, file, is_of_file, .. } = database;
    let format = file.as_deref().map_or(Format::Toml, format_of);
    let file = file.map(|path| Box::new(move || rows_of(&path)) as FileReader);
    let service = match file {
        Some(file) if is_of_file => AdminService::of_file(store, control, file),
        file => AdminService::new(store, control, file),
    };
    service.writing(format)
}

/// Answers administrators until the process ends.
fn serve_admin(service: &Arc<AdminService>, listeners: Vec<AdminListener>) {
    tokio::spawn(keep_scheduling(Arc::clone(service), service.jobs()));
    for listener in listeners {
        tracing::info!("admin port on {}", listener.address());
        tokio::spawn(trunkline_admin::port::serve(listener, Arc::clone(service)));
    }
}

/// Fails when another process listens at this port. The workers share theirs, and so would any
/// other process of the same user, without an error and with half of the clients. Nobody listens
/// for this: a client could come meanwhile.
fn claim(listen: &ListenAddress) -> io::Result<()> {
    let ListenAddress::Tcp(addr) = listen else { return Ok(()) };
    let socket = if addr.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(*addr)
}

/// What is found out before the first client.
struct Prepared {
    snapshot: Arc<Snapshot>,
    known: Knowledge,
    greeting: Arc<Greeting>,
}

/// Resolves names, and asks the servers when the state file does not know how to greet.
async fn prepare(
    snapshot: Snapshot,
    tls: &Arc<TlsSetup>,
    state_file: Option<&PathBuf>,
) -> Prepared {
    let resolution = resolve(&snapshot.names_to_resolve(), PREPARATION_TIME_MAX).await;
    // The loop that asks again complains of names without an address.
    let snapshot = match snapshot.with_resolved(&resolution.found) {
        Some(mut resolved) => {
            resolved.version = snapshot.version;
            resolved
        }
        None => snapshot,
    };
    let mut known = Knowledge::default();
    if let Some(path) = state_file {
        match Knowledge::load(path) {
            Ok(loaded) => known = loaded,
            Err(error) => tracing::warn!("{error}"),
        }
    }
    if !is_leader_known(&known, &snapshot) {
        let servers: Vec<_> = snapshot.mysql_servers().map(Arc::clone).collect();
        let wanted = Duration::from_millis(snapshot.settings.connect_timeout_server);
        let time_max = wanted.min(PREPARATION_TIME_MAX);
        let account = Account::of(&snapshot);
        for (address, answer) in learn(&servers, account.as_ref(), tls, time_max).await {
            // Who does not answer is asked again, and complained of, by the loop that follows.
            if let Ok(learned) = answer {
                tracing::info!(server = %address, "server runs {}", learned.greeting.server_version);
                known.learn(&address, Facts::of(&learned.greeting, unix_sec(SystemTime::now())));
            }
        }
        save(&known, &snapshot, state_file);
    }
    let greeting = Arc::new(greeting_for_clients(&known, &snapshot));
    Prepared { snapshot: Arc::new(snapshot), known, greeting }
}

/// The version of all servers of the configuration, for what belongs to versions: unknown while
/// they differ, or while one of them has not been asked.
pub(super) fn common_version(known: &Knowledge, snapshot: &Snapshot) -> ServerVersion {
    let versions = server_versions(known, snapshot).unwrap_or_default();
    let mut versions =
        versions.iter().map(|text| (Flavor::of_version(text), ServerVersion::of_greeting(text)));
    let Some(first) = versions.next() else { return ServerVersion::UNKNOWN };
    if versions.all(|other| other == first) { first.1 } else { ServerVersion::UNKNOWN }
}

/// Keeps what is known of the configuration's servers for the next start.
pub(super) fn save(known: &Knowledge, snapshot: &Snapshot, state_file: Option<&PathBuf>) {
    let Some(path) = state_file else { return };
    let mut kept = known.clone();
    kept.retain(|address| snapshot.servers().any(|server| server.key.address == *address));
    if let Err(error) = kept.save(path) {
        tracing::warn!("{error}");
    }
}

/// What is known of the process from its beginning.
fn this_process(path: &Path) -> Process {
    Process {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        process_id: std::process::id(),
        configuration: Configuration {
            source: path.display().to_string(),
            ..Configuration::default()
        },
        ..Process::default()
    }
}

fn workers(snapshot: &Snapshot) -> usize {
    match (snapshot.settings.workers, &snapshot.settings.worker_cpus) {
        (0, WorkerCpus::List(cpus)) => cpus.len(),
        (0, WorkerCpus::Off | WorkerCpus::Auto) => {
            thread::available_parallelism().map_or(1, NonZero::get)
        }
        (workers, _) => workers,
    }
}

/// Answers over HTTP until the process ends.
fn serve_http(
    listener: TcpListener,
    reporter: Arc<Reporter>,
    service: Option<Arc<AdminService>>,
) -> Result<()> {
    tracing::info!("HTTP on {}", listener.local_addr().context("http_listen")?);
    tokio::spawn(async move {
        // It ends with the process: the last thing that it says is how the stop goes.
        let shutdown = std::future::pending();
        if let Err(error) = trunkline_admin::serve(listener, reporter, service, shutdown).await {
            tracing::error!("HTTP has ended: {error}");
        }
    });
    Ok(())
}

/// Serves the console until the process ends.
fn serve_console(listener: TcpListener, console: Arc<Console>) -> Result<()> {
    tracing::info!("web console on https://{}", listener.local_addr().context("console_listen")?);
    tokio::spawn(async move {
        let shutdown = std::future::pending();
        if let Err(error) = trunkline_admin::serve_console(listener, console, shutdown).await {
            tracing::error!("the web console has ended: {error}");
        }
    });
    Ok(())
}
