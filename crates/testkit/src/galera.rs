//! A Galera cluster of MariaDB servers.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::folder::TempFolder;
use crate::mariadb::{MariaDb, data_template, mariadb_available};
use crate::port::free_port;
use crate::server::{Options, Server};
use crate::servers_dir::find_program;
use crate::template::{copy_folder, template};
use crate::wait::wait_until;

/// Where distributions put the provider.
const PROVIDERS: [&str; 3] = [
    "/usr/lib/galera/libgalera_smm.so",
    "/usr/lib/libgalera_smm.so",
    "/usr/lib64/galera-4/libgalera_smm.so",
];

/// How long the nodes may take to find each other.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(60);

/// Nodes of one cluster, each with all data.
#[derive(Debug)]
pub struct Galera {
    nodes: Vec<Arc<Server>>,
    _folder: TempFolder,
}

/// Where Galera's provider is, or why a cluster can't be started here.
///
/// # Errors
/// A sentence that says what is missing and what installs it.
pub fn galera_available() -> Result<PathBuf, String> {
    mariadb_available()?;
    let missing = |what| format!("{what} is not installed (cargo xtask servers installs it)");
    find_program("rsync").ok_or_else(|| missing("rsync"))?;
    let mut providers = PROVIDERS.iter().map(PathBuf::from);
    providers.find(|path| path.is_file()).ok_or_else(|| missing("galera-4"))
}

impl Galera {
    /// Starts so many nodes (server id 1, 2, …), all with the same data and in sync.
    ///
    /// # Errors
    /// When one does not start or join; with its log.
    pub fn start(nodes: u32) -> Result<Galera> {
        let provider = galera_available().map_err(anyhow::Error::msg)?;
        let base = base(&provider)?;
        let folder = TempFolder::new("galera")?;
        open_to_all(folder.path())?;
        let group_port = free_port()?;
        let first = start(&provider, &base, folder.path(), 1, (group_port, None))?;
        let mut started = vec![Arc::new(first)];
        let joined: Vec<Result<Server>> = std::thread::scope(|scope| {
            let join = |id| {
                let (provider, base, folder) = (&provider, &base, folder.path());
                move || start(provider, base, folder, id, (free_port()?, Some(group_port)))
            };
            let threads: Vec<_> = (2..=nodes).map(|id| scope.spawn(join(id))).collect();
            let end = |thread: std::thread::ScopedJoinHandle<'_, Result<Server>>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            threads.into_iter().map(end).collect()
        });
        for node in joined {
            started.push(Arc::new(node?));
        }
        let galera = Galera { nodes: started, _folder: folder };
        wait_until("all nodes to be synced", BEGIN_TIMEOUT, || {
            let synced = galera.nodes.iter().map(|node| is_synced(node, nodes));
            let all = synced.collect::<Result<Vec<bool>>>()?;
            Ok(all.into_iter().all(|it| it).then_some(()))
        })?;
        Ok(galera)
    }

    /// Its nodes.
    #[must_use]
    pub fn nodes(&self) -> &[Arc<Server>] {
        &self.nodes
    }
}

fn is_synced(node: &Server, count: u32) -> Result<bool> {
    let status = |name: &str| -> Result<Option<String>> {
        let rows = node.sql(&format!("SHOW GLOBAL STATUS LIKE '{name}'"))?;
        Ok(rows.first().and_then(|row| row.get(1).cloned()).flatten())
    };
    let size = status("wsrep_cluster_size")?;
    Ok(status("wsrep_local_state")?.as_deref() == Some("4") && size == Some(count.to_string()))
}

/// The port of a node between nodes, and that of the node that it joins.
type GroupPorts = (u16, Option<u16>);

/// Starts a node with a copy of `base`.
fn start(
    provider: &Path,
    base: &Path,
    folder: &Path,
    id: u32,
    ports: GroupPorts,
) -> Result<Server> {
    let folder = folder.join(id.to_string());
    std::fs::create_dir(&folder)?;
    copy_folder(base, &folder.join("data"))?;
    open_to_all(&folder)?;
    open_to_all(&folder.join("data"))?;
    run(provider, &folder, id, ports)
}

fn run(provider: &Path, folder: &Path, id: u32, (own, first): GroupPorts) -> Result<Server> {
    let (port, received, copied) = (free_port()?, free_port()?, free_port()?);
    let peers = first.map(|first| format!("127.0.0.1:{first}"));
    let args = [
        "--wsrep-on=ON".to_owned(),
        "--innodb-autoinc-lock-mode=2".to_owned(),
        "--gtid-strict-mode=0".to_owned(),
        format!("--wsrep-provider={}", provider.display()),
        "--wsrep-cluster-name=trunkline".to_owned(),
        format!("--wsrep-node-name=node{id}"),
        "--wsrep-node-address=127.0.0.1".to_owned(),
        format!("--wsrep-node-incoming-address=127.0.0.1:{port}"),
        // A node that is gone is noticed after seconds, not after half a minute.
        format!(
            "--wsrep-provider-options=base_host=127.0.0.1;base_port={own};\
             ist.recv_addr=127.0.0.1:{received};gmcast.listen_addr=tcp://127.0.0.1:{own};\
             gcache.size=16M;gcache.page_size=16M;evs.suspect_timeout=PT2S;\
             evs.inactive_timeout=PT3S;evs.keepalive_period=PT0.5S"
        ),
        "--wsrep-sst-method=rsync".to_owned(),
        format!("--wsrep-sst-receive-address=127.0.0.1:{copied}"),
        format!("--wsrep-cluster-address=gcomm://{}", peers.unwrap_or_default()),
    ];
    MariaDb::start(Options {
        args: args.into(),
        folder: Some(folder.to_path_buf()),
        port: Some(port),
        ..Options::id(id)
    })
}

/// A data directory that a cluster begins with: of a node that was one by itself and has stopped.
/// Nodes that begin with it are asked for what they miss only, not for everything.
fn base(provider: &Path) -> Result<PathBuf> {
    let mariadb = data_template(false)?;
    template("galera", provider, &[mariadb.display().to_string()], |made| {
        let folder = TempFolder::new("galera-base")?;
        copy_folder(&mariadb, &folder.path().join("data"))?;
        let server = run(provider, folder.path(), 1, (free_port()?, None))?;
        server.stop_gracefully()?;
        drop(server);
        let data = folder.path().join("data");
        // What others would have to be told of, and where they were.
        for file in ["galera.cache", "gvwstate.dat"] {
            let _ = std::fs::remove_file(data.join(file));
        }
        for entry in std::fs::read_dir(&data)? {
            let entry = entry?;
            let target = made.join(entry.file_name());
            match entry.file_type()?.is_dir() {
                true => copy_folder(&entry.path(), &target)?,
                false => drop(std::fs::copy(entry.path(), &target)?),
            }
        }
        Ok(())
    })
}

/// `rsync` runs as nobody where the servers run as root, and marks the folder when it is done.
fn open_to_all(folder: &Path) -> Result<()> {
    set_permissions(folder, Permissions::from_mode(0o777))
        .with_context(|| format!("cannot open {}", folder.display()))
}
