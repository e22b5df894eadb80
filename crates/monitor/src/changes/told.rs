//! Tells one follower what changes: from what is kept, and what is not kept any more from the
//! server.

use std::sync::Arc;

use tokio::{
    sync::{mpsc, watch::Receiver},
    time::sleep,
};
use trunkline_binlog::{Change, Executed, Told};

use super::{
    RETRY_AFTER, Stream, WRITER_EVERY,
    dump::{Dump, Failed},
};

/// Changes that are taken from what is kept at a time.
const BATCH_MAX: usize = 64;

/// Nobody listens any more, or there is nothing more to tell.
struct Gone;

/// Tells one follower.
pub(super) struct Teller {
    stream: Arc<Stream>,
    news: Receiver<()>,
    sender: mpsc::Sender<Told>,
    /// All that was told, and what was there before.
    at: Option<Executed>,
    /// The number of the next change that is kept; `None` when it is not known.
    next: Option<u64>,
    /// The gaps that are known of.
    gaps: u64,
}

/// What there is to tell.
enum Next {
    Changes(Vec<Arc<Change>>),
    Gap(Executed, String),
    /// It is not kept any more.
    Older,
    /// The stream has not gone on yet.
    Nothing,
    /// Nothing comes any more.
    Over,
}

impl Teller {
    /// Begins behind these transactions, or with what comes next.
    pub(super) fn new(
        stream: Arc<Stream>,
        from: Option<Executed>,
        sender: mpsc::Sender<Told>,
    ) -> Self {
        let news = stream.news.subscribe();
        let (at, next, gaps) = {
            let shown = stream.shown();
            let history = shown.history.as_ref();
            let (at, next) = match (from, history) {
                (Some(from), history) => {
                    // Who has more than has come may have what is lost: the server knows.
                    let history = history.filter(|it| it.reached().covers(&from));
                    let next = history.and_then(|it| it.after(&from));
                    (Some(from), next)
                }
                (None, history) => {
                    (history.map(|it| it.reached().clone()), history.map(|it| it.next()))
                }
            };
            // A gap that has no end yet is told when it has one.
            (at, next, shown.gaps - u64::from(shown.is_cut))
        };
        Self { stream, news, sender, at, next, gaps }
    }

    /// Tells until nobody listens.
    pub(super) async fn tell(mut self) {
        while self.tell_more().await.is_ok() {}
    }

    async fn tell_more(&mut self) -> Result<(), Gone> {
        self.news.borrow_and_update();
        match self.look() {
            Next::Changes(changes) => {
                for change in changes {
                    self.change(change).await?;
                }
                Ok(())
            }
            Next::Gap(position, reason) => self.gap(position, reason).await,
            Next::Older => self.catch_up().await,
            Next::Over => Err(Gone),
            Next::Nothing => {
                let sender = &self.sender;
                tokio::select! {
                    () = sender.closed() => Err(Gone),
                    changed = self.news.changed() => changed.map_err(|_| Gone),
                }
            }
        }
    }

    fn look(&mut self) -> Next {
        let shown = self.stream.shown();
        if shown.is_over {
            return Next::Over;
        }
        let Some(history) = shown.history.as_ref().filter(|_| !shown.is_cut) else {
            return Next::Nothing;
        };
        if self.gaps != shown.gaps {
            self.gaps = shown.gaps;
            self.next = history.after(history.base());
            return Next::Gap(history.base().clone(), shown.reason.clone());
        }
        let Some(next) = self.next else { return Next::Older };
        match history.from(next, BATCH_MAX) {
            Some(changes) if changes.is_empty() => Next::Nothing,
            Some(changes) => {
                self.next = Some(next + u64::try_from(changes.len()).unwrap_or_default());
                Next::Changes(changes)
            }
            None => {
                self.next = None;
                Next::Older
            }
        }
    }

    async fn change(&mut self, change: Arc<Change>) -> Result<(), Gone> {
        let Some(at) = &mut self.at else { return Ok(()) };
        if at.has(&change.gtid) {
            return Ok(());
        }
        at.add(&change.gtid);
        let position = at.to_string();
        self.sender.send(Told::Change { change, position }).await.map_err(|_| Gone)
    }

    async fn gap(&mut self, position: Executed, reason: String) -> Result<(), Gone> {
        let told = Told::Gap { position: position.to_string(), reason };
        self.at = Some(position);
        self.sender.send(told).await.map_err(|_| Gone)
    }

    /// Tells what is not kept, from the server, until it comes to what is.
    async fn catch_up(&mut self) -> Result<(), Gone> {
        match self.catch_up_from_server().await? {
            Ok(()) => Ok(()),
            Err(Failed::Lost(why)) => {
                tracing::debug!("older changes of {} can't be read: {why}", self.stream.cluster);
                self.pause(RETRY_AFTER).await
            }
            Err(Failed::Gap(reason)) => {
                let begin = {
                    let shown = self.stream.shown();
                    let history = shown.history.as_ref();
                    history.map(|it| (it.base().clone(), it.after(it.base())))
                };
                let Some((base, next)) = begin else { return self.pause(RETRY_AFTER).await };
                self.next = next;
                self.gap(base, reason).await
            }
        }
    }

    async fn catch_up_from_server(&mut self) -> Result<Result<(), Failed>, Gone> {
        let Some((server, account)) = self.stream.writer() else {
            self.pause(WRITER_EVERY).await?;
            return Ok(Ok(()));
        };
        let tls = Arc::clone(&self.stream.tls.borrow());
        let opened = Dump::open(&server, account.as_ref(), &tls, self.at.clone()).await;
        let (mut dump, _) = match opened {
            Ok(opened) => opened,
            Err(failed) => return Ok(Err(failed)),
        };
        let mut changes = Vec::new();
        loop {
            let sender = self.sender.clone();
            let came = tokio::select! {
                () = sender.closed() => return Err(Gone),
                came = dump.next(|change, _| changes.push(Arc::new(change))) => came,
            };
            for change in changes.drain(..) {
                self.change(change).await?;
            }
            if let Err(failed) = came {
                return Ok(Err(failed));
            }
            let shown = self.stream.shown();
            let history = shown.history.as_ref();
            self.next = history.zip(self.at.as_ref()).and_then(|(it, at)| it.after(at));
            if self.next.is_some() {
                return Ok(Ok(()));
            }
        }
    }

    async fn pause(&self, time: std::time::Duration) -> Result<(), Gone> {
        tokio::select! {
            () = self.sender.closed() => Err(Gone),
            () = sleep(time) => Ok(()),
        }
    }
}
