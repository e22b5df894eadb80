//! One server's binary log, on one connection.

use std::{sync::Arc, time::Duration};

use tokio::time::timeout;
use trunkline_binlog::{
    BinlogError, Change, Changes, Decoder, Executed, Family, Frames, Kind,
    request::{self, Identity},
};
use trunkline_compression::Libraries;
use trunkline_net::TlsSetup;
use trunkline_protocol::packet::greeting::Flavor;
use trunkline_topology::Server;

use crate::{
    Account, LearnError,
    conversation::{self, Conversation, Row, Way},
};

/// How often the server gives a sign of life when it has nothing to send.
const HEARTBEAT_MS: u32 = 1_000;
/// After so long without any, the connection is taken for lost.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// How long it may take until the stream begins.
const OPENING_TIME_MAX: Duration = Duration::from_secs(10);
/// Bytes of an answer: a set with many intervals.
const ANSWER_LEN_MAX: usize = 2 << 20;
/// The error of what is not in the log, or not any more.
const NOT_THERE: u16 = 1236;

/// The error of who has not the privilege.
const NO_PRIVILEGE: u16 = 1227;

/// Why a stream has ended.
#[derive(Debug)]
pub(super) enum Failed {
    /// It can't go on from where it was.
    Gap(String),
    /// It may go on later.
    Lost(String),
}

impl From<LearnError> for Failed {
    fn from(error: LearnError) -> Self {
        Self::Lost(error.to_string())
    }
}

impl From<BinlogError> for Failed {
    fn from(error: BinlogError) -> Self {
        let text = error.to_string();
        match error {
            BinlogError::Refused { code: NOT_THERE, .. } => Self::Gap(text),
            BinlogError::Refused { .. } | BinlogError::Ended | BinlogError::Sequence { .. } => {
                Self::Lost(text)
            }
            // The same would be read again.
            BinlogError::Malformed(_)
            | BinlogError::Checksum(_)
            | BinlogError::Corrupt
            | BinlogError::UnknownTable(_)
            | BinlogError::TooManyTables
            | BinlogError::Version(_) => Self::Gap(text),
        }
    }
}

/// Where a transaction ends in the files of its server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) file: Arc<[u8]>,
    /// The position behind it.
    pub(super) end: u64,
    /// It is the first that came from the file.
    pub(super) is_first: bool,
}

/// Where a stream is in the files of its server.
struct Places {
    file: Arc<[u8]>,
    /// The position behind the last event.
    end: u64,
    has_ended_one: bool,
}

impl Places {
    fn new() -> Self {
        Self { file: Arc::from([]), end: 0, has_ended_one: false }
    }

    fn take(&mut self, kind: &Kind<'_>, end: u32) {
        const ROUND: u64 = 1 << 32;
        // Others may be made for the stream, and stand anywhere.
        let is_of_transaction = matches!(
            kind,
            Kind::Begin(_) | Kind::Query { .. } | Kind::Rows(_) | Kind::Commit | Kind::Prepare
        );
        if let Kind::Rotate { file, .. } = kind {
            *self = Self { file: Arc::from(*file), ..Self::new() };
        } else if is_of_transaction && end > 0 {
            // Headers have its lower half only.
            let round = self.end & !(ROUND - 1);
            let next = round | u64::from(end);
            self.end = if next < self.end { next.saturating_add(ROUND) } else { next };
        }
    }

    /// A transaction ends here.
    fn end(&mut self) -> Place {
        let is_first = !std::mem::replace(&mut self.has_ended_one, true);
        Place { file: Arc::clone(&self.file), end: self.end, is_first }
    }
}

/// A stream that is open.
pub(super) struct Dump {
    /// Who asks.
    user: String,
    conversation: Conversation,
    frames: Frames,
    decoder: Decoder,
    changes: Changes,
    places: Places,
    libraries: Libraries,
}

impl Dump {
    /// Opens a stream behind these transactions; without any, behind what the server has now.
    /// Gives it with what it begins behind.
    pub(super) async fn open(
        server: &Arc<Server>,
        account: Option<&Account>,
        tls: &Arc<TlsSetup>,
        from: Option<Executed>,
    ) -> Result<(Self, Executed), Failed> {
        let opening = Self::open_now(server, account, tls, from);
        let opened = timeout(OPENING_TIME_MAX, opening).await;
        opened.unwrap_or_else(|_| Err(Failed::Lost("no stream in time".to_owned())))
    }

    async fn open_now(
        server: &Arc<Server>,
        account: Option<&Account>,
        tls: &Arc<TlsSetup>,
        from: Option<Executed>,
    ) -> Result<(Self, Executed), Failed> {
        let account = conversation::asker(account)?;
        let way = Way::to(server, tls);
        let (mut conversation, greeting) = conversation::open(server, account, &way).await?;
        let (family, question) = match greeting.flavor() {
            Flavor::MySql => (
                Family::MySql,
                "SELECT @@GLOBAL.log_bin, @@GLOBAL.gtid_mode, @@GLOBAL.gtid_executed",
            ),
            Flavor::MariaDb => {
                (Family::MariaDb, "SELECT @@GLOBAL.log_bin, 'ON', @@GLOBAL.gtid_binlog_pos")
            }
        };
        let rows = conversation.query(question, ANSWER_LEN_MAX).await?;
        let has = has(family, rows.first())?;
        let from = from.unwrap_or(has);
        if from.family() != family {
            return Err(Failed::Gap("another family of servers".to_owned()));
        }
        let mut random = [0; 20];
        trunkline_crypto::fill_random(&mut random);
        // Another one for each stream: a server ends the first of two that have the same.
        let identity = Identity::of_random(random);
        for statement in request::preparations(&from, &identity, HEARTBEAT_MS) {
            conversation.execute(&statement).await?;
        }
        conversation.command(&request::dump(&from, &identity)).await?;
        let (frames, decoder, changes) = (Frames::new(), Decoder::new(), Changes::new());
        let (libraries, places) = (Libraries::new(), Places::new());
        let user = account.user.clone();
        Ok((Self { user, conversation, frames, decoder, changes, places, libraries }, from))
    }

    /// Whether all that has come belongs to transactions with GTIDs.
    pub(super) fn tells_all(&self) -> bool {
        self.changes.strays() == 0
    }

    /// Waits for bytes, and calls `each` with the transactions that are complete with them.
    pub(super) async fn next(&mut self, mut each: impl FnMut(Change, Place)) -> Result<(), Failed> {
        let came = timeout(SILENCE_MAX, self.conversation.bytes()).await;
        let bytes = came.map_err(|_| Failed::Lost("no sign of life".to_owned()))??;
        let (decoder, changes) = (&mut self.decoder, &mut self.changes);
        let places = &mut self.places;
        let libraries = &mut self.libraries;
        let taken = self.frames.take(bytes, |framed| {
            decoder.read(framed, libraries, &mut |event| {
                places.take(&event.kind, event.end);
                if let Some(change) = changes.take(&event) {
                    each(change, places.end());
                }
                Ok(())
            })
        });
        taken.map_err(|error| match &error {
            BinlogError::Refused { code: NO_PRIVILEGE, .. } => {
                Failed::Lost(format!("{error} (user {}, monitor_account)", self.user))
            }
            _ => error.into(),
        })
    }
}

/// What a server has, in its answer.
fn has(family: Family, row: Option<&Row>) -> Result<Executed, Failed> {
    let text = |at: usize| {
        let value = row.and_then(|row| row.get(at)).and_then(Option::as_ref);
        String::from_utf8_lossy(value.map_or(&[][..], Vec::as_slice)).into_owned()
    };
    if !matches!(text(0).as_str(), "1" | "ON") {
        return Err(Failed::Lost("it has no binary log (log_bin)".to_owned()));
    }
    let mode = text(1);
    if mode != "ON" {
        return Err(Failed::Lost(format!("its gtid_mode is {mode}, and has to be ON")));
    }
    let executed = Executed::parse(family, &text(2));
    executed.map_err(|error| Failed::Lost(format!("what it has can't be read: {error}")))
}
