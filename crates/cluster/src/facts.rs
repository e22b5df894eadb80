//! What a server says of itself when it is asked.

/// One answer of a server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    /// Who it is, whatever it is called.
    pub identity: Identity,
    /// Whether it takes writes of ordinary accounts, by the variables that the cluster goes by.
    pub is_writable: bool,
    /// Whom it replicates from, running or not.
    pub sources: Vec<Source>,
    /// Servers that replicate from it, as far as they have told it where they are.
    pub replicas: Vec<Endpoint>,
    /// Its version, as it greets.
    pub version: String,
    /// The transactions that it has, in its own notation.
    pub gtid: String,
    /// What it is in a group of servers that certify each other's writes; `None` where that is not
    /// asked.
    pub membership: Option<Membership>,
    /// What an operator should know of its settings.
    pub advice: Vec<String>,
}

/// What a server is in its Galera cluster, or in its group of Group Replication.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Membership {
    /// Why it must not serve; `None` when it may.
    pub refusal: Option<String>,
    /// Write sets that it has received and not applied yet.
    pub behind: u64,
    /// What it said of itself, in ProxySQL's words and order: for a person to read.
    pub told: Vec<String>,
    /// How new what it knows of the roles is, where roles are written down.
    pub view: Option<Box<View>>,
}

/// A state of what is written down of roles. A server that was cut off knows an older one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// What it is of: those of two clusters can't be compared.
    pub of: String,
    /// The higher, the newer.
    pub number: u64,
}

/// Who a server is. Names and addresses may change or be several; this is one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identity {
    /// MySQL's `server_uuid`, or what else no two servers share; `None` where that is not known,
    /// as of a source that only its replica has told of.
    pub uuid: Option<String>,
    /// `server_id`; 0 where it is not known.
    pub server_id: u64,
}

impl Identity {
    /// Whether both are certainly the same server: by `server_uuid`, or where one has none, by a
    /// `server_id` that is known.
    pub fn is_same(&self, other: &Self) -> bool {
        match (&self.uuid, &other.uuid) {
            (Some(own), Some(other)) => own == other,
            (Some(_), None) | (None, Some(_)) | (None, None) => {
                self.server_id != 0 && self.server_id == other.server_id
            }
        }
    }
}

/// Where a server says that another one is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Endpoint {
    /// An address or a name.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

/// A server that another one replicates from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Source {
    /// Where it is.
    pub endpoint: Endpoint,
    /// Who it is, as far as the replica knows.
    pub identity: Identity,
    /// The thread that receives.
    pub receives: Thread,
    /// Whether the thread that applies runs.
    pub applies: bool,
    /// How far behind the replica is, s; `None` when it can't tell.
    pub lag_sec: Option<u64>,
    /// The error that stopped one of the threads; empty when there is none.
    pub error: String,
}

/// What a replica's receiving thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Thread {
    /// It does not run.
    #[default]
    Stopped,
    /// It tries to reach its source.
    Connecting,
    /// It is connected.
    Connected,
}

impl Facts {
    /// How far behind it is, s: by the source that it is behind most. `None` when one of them
    /// can't be told; 0 without a source.
    pub fn lag_sec(&self) -> Option<u64> {
        let mut most = 0;
        for source in &self.sources {
            most = most.max(source.lag_sec?);
        }
        Some(most)
    }
}
