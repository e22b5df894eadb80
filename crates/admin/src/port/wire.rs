//! Packets over a stream, encrypted or not.

use std::{sync::Arc, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::timeout,
};
use trunkline_budget::{Budget, Charge, Class, FREE_LEN, Kind};
use trunkline_net::{Received, Sealed, Tls, TlsSetup};
use trunkline_protocol::{
    codec::frame::{HEADER_LEN, Header},
    packet::err::put_err,
};

/// How long a client may take to read an answer, until it has logged in; one that never reads is
/// closed.
const WRITE_TIME_MAX: Duration = Duration::from_secs(10);
/// Bytes of room that are kept for what comes next.
const INBOX_KEPT_MAX: usize = 64 * 1024;
/// Bytes that are read at once.
const READ_LEN: usize = 16 * 1024;
/// Bytes of text that are encrypted at once: four records.
const SEALED_AT_ONCE: usize = 64 * 1024;

/// Why a connection ends without a word.
pub(super) enum End {
    /// The client has gone, or is too slow, or does not speak the protocol.
    Gone,
}

impl From<std::io::Error> for End {
    fn from(_: std::io::Error) -> Self {
        Self::Gone
    }
}

/// A client's end of a stream.
pub(super) struct Wire<S> {
    stream: S,
    /// What the next [`flush`](Self::flush) sends.
    pub out: Vec<u8>,
    /// What came in clear, or was decrypted.
    inbox: Vec<u8>,
    /// How much of it was taken.
    taken: usize,
    scratch: Vec<u8>,
    tls: Option<Box<Tls>>,
    sealed: Sealed,
    /// The memory of what has come.
    charge: Charge,
    /// What it is for: a login, until that is done.
    pub class: Class,
    /// Bytes of the command that is being read which have left the inbox.
    gathered: usize,
    /// How long a client may take to read an answer.
    pub write_time_max: Duration,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    pub(super) fn new(stream: S, budget: &Arc<Budget>) -> Self {
        Self {
            stream,
            out: Vec::new(),
            inbox: Vec::new(),
            taken: 0,
            scratch: Vec::new(),
            tls: None,
            sealed: Sealed::default(),
            charge: budget.charge_nothing(Kind::Admin),
            class: Class::Login,
            gathered: 0,
            write_time_max: WRITE_TIME_MAX,
        }
    }

    /// Whether it is encrypted.
    pub(super) fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Begins TLS: what has come and was not taken belongs to it.
    pub(super) async fn start_tls(&mut self, setup: &TlsSetup) -> Result<(), End> {
        let acceptor = setup.acceptor().ok_or(End::Gone)?;
        let tls = Tls::accept(acceptor).map_err(|_| End::Gone)?;
        let mut early = self.inbox.split_off(self.taken.min(self.inbox.len()));
        self.tls = Some(Box::new(tls));
        self.decrypt(&mut early).await?;
        while !self.tls.as_ref().is_some_and(|tls| tls.is_up()) {
            self.more().await?;
        }
        Ok(())
    }

    /// One payload, from as many packets as it takes, and the header of its last one.
    pub(super) async fn read(&mut self, bytes_max: usize) -> Result<(Header, Vec<u8>), End> {
        let mut payload = Vec::new();
        // The command before is done with.
        self.gathered = 0;
        self.charge.set(0);
        loop {
            let head: [u8; HEADER_LEN] =
                self.take(HEADER_LEN).await?.first_chunk().copied().ok_or(End::Gone)?;
            let header = Header::read(&head).ok_or(End::Gone)?;
            if payload.len().saturating_add(header.payload_len) > bytes_max {
                put_err(
                    &mut self.out,
                    header.seq.wrapping_add(1),
                    1153,
                    b"08S01",
                    "Got a packet bigger than 'max_allowed_packet' bytes",
                );
                self.flush().await?;
                return Err(End::Gone);
            }
            payload.extend_from_slice(self.take(header.payload_len).await?);
            self.gathered = payload.len();
            if !header.is_continued() {
                return Ok((header, payload));
            }
        }
    }

    /// The next `len` bytes. What is announced takes no room before it comes.
    async fn take(&mut self, len: usize) -> Result<&[u8], End> {
        if self.taken == self.inbox.len() {
            self.inbox.clear();
            self.inbox.shrink_to(INBOX_KEPT_MAX);
            self.taken = 0;
        }
        if self.inbox.len() - self.taken < len {
            // Who sends one command behind the other never leaves it empty.
            self.inbox.drain(..self.taken);
            self.taken = 0;
        }
        while self.inbox.len() - self.taken < len {
            self.more().await?;
            self.charge_what_came().await?;
        }
        let begin = self.taken;
        self.taken += len;
        self.inbox.get(begin..self.taken).ok_or(End::Gone)
    }

    /// Charges what has come beyond what each client may hold; who finds no memory is told, and
    /// goes.
    async fn charge_what_came(&mut self) -> Result<(), End> {
        let held = (self.inbox.len() + self.gathered).saturating_sub(FREE_LEN);
        let charged = usize::try_from(self.charge.len()).unwrap_or(usize::MAX);
        if held <= charged || self.charge.grow(self.class, held - charged).is_ok() {
            return Ok(());
        }
        put_err(
            &mut self.out,
            1,
            1041,
            b"HY000",
            "Out of memory: there is no more of memory_max for the statement that is being sent",
        );
        self.flush().await?;
        Err(End::Gone)
    }

    /// Reads what there is.
    async fn more(&mut self) -> Result<(), End> {
        let begin = self.tls.as_ref().map_or(0, |tls| tls.waiting_len());
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.resize(begin + READ_LEN, 0);
        let room = scratch.get_mut(begin..).unwrap_or_default();
        let read = self.stream.read(room).await?;
        if read == 0 {
            return Err(End::Gone);
        }
        scratch.truncate(begin + read);
        let done = match self.tls {
            None => {
                self.inbox.extend_from_slice(&scratch);
                Ok(())
            }
            Some(_) => self.open_records(&mut scratch).await,
        };
        self.scratch = scratch;
        done
    }

    /// Decrypts bytes that came before the connection was encrypted for us, as if read just now.
    async fn decrypt(&mut self, early: &mut [u8]) -> Result<(), End> {
        if early.is_empty() {
            return Ok(());
        }
        self.open_records(early).await
    }

    async fn open_records(&mut self, bytes: &mut [u8]) -> Result<(), End> {
        let Some(tls) = self.tls.as_mut() else { return Err(End::Gone) };
        let inbox = &mut self.inbox;
        let received = tls.receive(bytes, &mut |received| match received {
            Received::Data(text, _) => inbox.extend_from_slice(text),
            Received::Up(_) => {}
        });
        let unsent = tls.unsent().to_vec();
        tls.sent(unsent.len());
        let has_ended = tls.has_ended();
        write_all(&mut self.stream, &unsent, self.write_time_max).await?;
        match received {
            Ok(()) if !has_ended => Ok(()),
            Ok(()) | Err(_) => Err(End::Gone),
        }
    }

    /// Sends what waits.
    pub(super) async fn flush(&mut self) -> Result<(), End> {
        let out = std::mem::take(&mut self.out);
        let Some(tls) = self.tls.as_mut() else {
            return write_all(&mut self.stream, &out, self.write_time_max).await;
        };
        for text in out.chunks(SEALED_AT_ONCE) {
            self.sealed.clear();
            tls.seal(text, &mut self.sealed).map_err(|_| End::Gone)?;
            write_all(&mut self.stream, self.sealed.bytes(), self.write_time_max).await?;
        }
        Ok(())
    }
}

async fn write_all<S: AsyncWrite + Unpin>(
    stream: &mut S,
    bytes: &[u8],
    within: Duration,
) -> Result<(), End> {
    match timeout(within, stream.write_all(bytes)).await {
        Ok(written) => Ok(written?),
        Err(_) => Err(End::Gone),
    }
}

#[cfg(test)]
mod tests {
    use trunkline_protocol::codec::frame::put_payload;

    use super::*;

    #[tokio::test]
    async fn what_was_taken_is_not_kept_while_more_comes() {
        const COMMANDS: usize = 50;
        let (mut client, stream) = tokio::io::duplex(1 << 20);
        let budget = Arc::new(Budget::new(1 << 20));
        let mut wire = Wire::new(stream, &budget);
        let mut bytes = Vec::new();
        for _ in 0..COMMANDS {
            put_payload(&mut bytes, 0, &[7; 100_000]);
        }
        let sent = tokio::spawn(async move { client.write_all(&bytes).await.map(|()| client) });
        for _ in 0..COMMANDS {
            let read = wire.read(1 << 20).await;
            assert!(read.is_ok_and(|(_, payload)| payload == [7; 100_000]));
            assert!(wire.inbox.len() < 100_000 + 2 * READ_LEN, "{} bytes", wire.inbox.len());
            assert!(budget.total() < 300_000, "{} bytes are charged", budget.total());
        }
        assert!(sent.await.expect("no panic").is_ok());
        drop(wire);
        assert_eq!(budget.total(), 0);
    }

    #[tokio::test]
    async fn what_is_received_is_part_of_the_budget() {
        let (mut client, stream) = tokio::io::duplex(1 << 20);
        let budget = Arc::new(Budget::new(160_000));
        let mut wire = Wire::new(stream, &budget);
        let mut bytes = Vec::new();
        put_payload(&mut bytes, 0, &[7; 300_000]);
        client.write_all(&bytes).await.expect("there is room");
        assert!(wire.read(1 << 20).await.is_err());
        let mut answer = [0; 7];
        client.read_exact(&mut answer).await.expect("an error");
        assert_eq!(answer.last_chunk(), Some(&[0xFF, 0x11, 0x04]), "1041");
    }
}
