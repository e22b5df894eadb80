//! The relay of one response: finds its packets in any split of its bytes, lets rows and
//! definitions through in runs, and hands packets that must be understood to `answer`.
//!
//! A response that arrives whole is the common case and takes the short way; what only happens at
//! a split or a translation is kept out of line.

use crate::codec::Malformed;
use crate::codec::frame::{HEADER_LEN, Header};
use crate::packet::{err, status, tracker_filter::TrackerFilter};

use super::metadata::Columns;
use super::pass::Pass;
use super::run::scan;
use super::stage::{Need, Stage};
use super::{ErrorInstead, Outcome, ReplyFormat, ResponseShape};

/// A header and the byte after it: what tells a terminator from a row.
const HEAD_LEN: usize = HEADER_LEN + 1;
/// The most payload bytes of a packet that must be understood, so that is held whole.
const WHOLE_MAX: usize = 1 << 20;

/// What one call of [`Relay::feed`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fed {
    /// Bytes of the input that belong to this response. All of them, unless it has ended.
    pub consumed: usize,
    /// Whether the response is complete.
    pub ended: bool,
}

/// Where in the packets the next byte falls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// At or in the header of a packet; `head` holds what came of it.
    Start,
    /// In the payload of a packet that goes through: `left` bytes are to come, and then, if
    /// `continued`, another packet with the same payload.
    Inside { left: usize, continued: bool },
    /// At or in the header of a packet that continues a payload; `head` holds what came of it.
    Continuation,
    /// In a packet that must be seen whole; `gathered` holds what came of it, of `len` bytes.
    Gathering {
        /// Its bytes, header included.
        len: usize,
        /// What the next number was before it.
        before: Option<u8>,
    },
}

/// A packet that must be understood.
pub(super) struct Packet<'a> {
    pub(super) header: Header,
    pub(super) payload: &'a [u8],
    /// Its bytes at the front of the pass; 0 when it was gathered from earlier feeds.
    pub(super) in_input: usize,
}

/// Follows one command's whole response on a server connection, copies it to the client
/// translated to the client's framing, and says when it has ended and how.
///
/// Holds no more than one packet of at most 1 MiB (a terminator, OK or ERR that was split) and
/// the outcome. Server packets must be numbered one after the other; the first may have any
/// number, unless [`Relay::numbered_from`] says which. Where they do not follow each other, see
/// [`Relay::renumber_from`].
#[derive(Debug)]
pub struct Relay {
    pub(super) stage: Stage,
    place: Place,
    head: [u8; HEAD_LEN],
    head_len: u8,
    pub(super) server: ReplyFormat,
    pub(super) client: ReplyFormat,
    deliver: bool,
    /// Which session state changes the client is told.
    pub(super) told: TrackerFilter,
    /// What a prepared statement is called towards the client; `None` for the server's id.
    pub(super) stmt_id: Option<u32>,
    /// The number of the server's next packet; `None` when it may be any.
    pub(super) next_seq: Option<u8>,
    /// The number of the first packet of the client's file, which has been asked for.
    pub(super) file_request: Option<u8>,
    /// What a server's sequence number needs added to become the client's.
    pub(super) shift: u8,
    /// Whether the server may not ask for a file of the client's.
    pub(super) refuses_file_requests: bool,
    /// Whether the server's numbers mean nothing.
    pub(super) renumbers: bool,
    /// Whether a result may be a cursor's, without rows.
    may_open_cursor: bool,
    /// Whether the client gets column definitions in another form.
    pub(super) translates: bool,
    /// Whether definitions follow `PREPARE_OK`.
    pub(super) has_definitions: bool,
    /// What the client gets in place of the error of an interruption.
    pub(super) interruption: Option<&'static ErrorInstead>,
    /// Flags of the EOF after column definitions that count at the end of the rows too.
    pub(super) carried: u16,
    /// Flags for an EOF packet before the server has told any.
    pub(super) status_before: u16,
    /// What came of a packet that must be seen whole and was split.
    pub(super) gathered: Vec<u8>,
    /// Columns of a statement whose client keeps their definitions.
    pub(super) columns: Option<Box<Columns>>,
    pub(super) outcome: Outcome,
}

const _: () = assert!(size_of::<Relay>() <= 264);

impl Relay {
    /// A relay for a response of `shape`, from a server's framing to a client's. Without
    /// `deliver` the response is understood and thrown away.
    #[inline]
    pub fn new(
        shape: ResponseShape,
        server: ReplyFormat,
        client: ReplyFormat,
        deliver: bool,
    ) -> Self {
        let mut relay = Self {
            stage: Stage::Ended,
            place: Place::Start,
            head: [0; HEAD_LEN],
            head_len: 0,
            server,
            client,
            deliver,
            told: TrackerFilter::ALL,
            stmt_id: None,
            next_seq: None,
            file_request: None,
            shift: 0,
            refuses_file_requests: false,
            renumbers: false,
            may_open_cursor: true,
            translates: false,
            has_definitions: true,
            interruption: None,
            carried: 0,
            status_before: status::AUTOCOMMIT,
            gathered: Vec::new(),
            columns: None,
            outcome: Outcome::default(),
        };
        relay.renew(shape, server, client, deliver);
        relay
    }

    /// Becomes what [`Relay::new`] makes, where it lies: a relay is large to be copied. Memory for
    /// packets that were split is kept.
    #[inline]
    pub fn renew(
        &mut self,
        shape: ResponseShape,
        server: ReplyFormat,
        client: ReplyFormat,
        deliver: bool,
    ) {
        self.stage = Stage::first(shape);
        self.place = Place::Start;
        (self.head, self.head_len) = ([0; HEAD_LEN], 0);
        (self.server, self.client, self.deliver) = (server, client, deliver);
        self.told = TrackerFilter::ALL;
        self.stmt_id = None;
        (self.next_seq, self.file_request, self.shift) = (None, None, 0);
        (self.refuses_file_requests, self.renumbers) = (false, false);
        (self.may_open_cursor, self.has_definitions) = (true, true);
        self.translates = server.extended_metadata != client.extended_metadata && deliver;
        self.interruption = None;
        (self.carried, self.status_before) = (0, status::AUTOCOMMIT);
        self.gathered.clear();
        self.columns = None;
        self.outcome.clear();
    }

    /// The first packet of the response must have this number.
    #[must_use]
    pub fn numbered_from(mut self, seq: u8) -> Self {
        self.set_number(seq);
        self
    }

    /// The response's first packet must have this number.
    pub fn set_number(&mut self, seq: u8) {
        self.next_seq = Some(seq);
    }

    /// The command loads no file of the client's: a request for one is no answer to it, and the
    /// client gets nothing of it.
    pub fn refuse_file_requests(&mut self) {
        self.refuses_file_requests = true;
    }

    /// Has the client told only these changes of session state; all of them otherwise.
    pub fn set_told(&mut self, told: TrackerFilter) {
        self.told = told;
    }

    /// The status flags of the client's session before the command. A client that expects an EOF
    /// packet after definitions, where the server sends none, finds them there.
    pub fn set_status(&mut self, flags: u16) {
        self.status_before = flags;
    }

    /// The command asks for no cursor. Servers raise the flag all the same when a stored routine
    /// has had one, and rows follow.
    pub fn set_without_cursor(&mut self) {
        self.may_open_cursor = false;
    }

    /// Whether a status says that this command has opened a cursor.
    pub(super) fn has_cursor(&self, flags: u16) -> bool {
        self.may_open_cursor && flags & status::CURSOR_EXISTS != 0
    }

    /// Gives the client's packets numbers from `first` on, whatever the server's are. For
    /// compressed connections, where servers number the packets inside as it happens.
    pub fn renumber_from(&mut self, first: u8) {
        self.renumbers = true;
        self.next_seq = Some(first);
    }

    /// Gives the client this id for the statement that is being prepared, in place of the server's.
    pub fn set_stmt_id(&mut self, stmt_id: u32) {
        debug_assert!(!self.has_begun());
        self.stmt_id = Some(stmt_id);
    }

    /// Whether what came in place of the response is an error that no command asked for, with the
    /// number 0: its server ends the connection. Only of a packet whose header came in parts.
    pub fn has_met_farewell(&self) -> bool {
        matches!(self.head, [_, _, _, 0, err::HEADER, ..]) && self.head_len > 4
    }

    /// Throws the rest of the response away: the client has gone.
    pub fn set_discard(&mut self) {
        self.deliver = false;
    }

    /// Gives the client this error in place of the server's that the statement was interrupted
    /// (1317).
    pub fn replace_interruption(&mut self, error: &'static ErrorInstead) {
        self.interruption = Some(error);
    }

    /// Takes the server's next bytes, in any split, and appends to `out` what the client gets.
    /// Never consumes bytes after the end of this response.
    ///
    /// # Errors
    /// [`Malformed`] when the bytes cannot be this response. `out` then holds what came before
    /// the packet that is refused; the response can be broken off behind it
    /// ([`break_off_seq`](Self::break_off_seq)). The server connection is of no further use.
    #[inline]
    pub fn feed(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<Fed, Malformed> {
        let mut pass = Pass::new(input, out, self.deliver);
        let mut refused = Ok(());
        while self.stage != Stage::Ended {
            match self.advance(&mut pass) {
                Ok(true) => {}
                Ok(false) => break,
                Err(malformed) => {
                    refused = Err(malformed);
                    break;
                }
            }
        }
        let consumed = pass.finish();
        self.outcome.bytes += consumed as u64;
        refused?;
        let ended = self.stage == Stage::Ended;
        debug_assert!(ended || consumed == input.len());
        Ok(Fed { consumed, ended })
    }

    /// Whether any byte of the response has arrived.
    pub fn has_begun(&self) -> bool {
        self.outcome.bytes > 0
    }

    /// Whether the response is complete.
    pub fn has_ended(&self) -> bool {
        self.stage == Stage::Ended
    }

    /// What the response said so far; complete once it has ended.
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// Ends the relay and gives what the response said.
    #[inline]
    pub fn conclude(&mut self) -> &Outcome {
        if self.columns.is_some() {
            self.outcome.columns = self.client_columns();
        }
        &self.outcome
    }

    /// Ends the relay and takes out what the response said.
    pub fn take_outcome(&mut self) -> Outcome {
        self.conclude();
        std::mem::take(&mut self.outcome)
    }

    /// Gives up the relay for what the response said.
    pub fn into_outcome(mut self) -> Outcome {
        self.take_outcome()
    }

    /// Bytes of memory that it holds beside itself for packets and session state.
    pub fn held(&self) -> usize {
        self.gathered.capacity() + self.outcome.changes.capacity()
    }

    /// The server asks for a file of the client's (LOCAL INFILE): the number that it wants the
    /// first packet to have. Told once for each file: packets with its bytes, and an empty one at
    /// its end, go to the server; progress reports, OK or ERR follow.
    ///
    /// When the response is discarded, the caller has to send the empty packet itself.
    pub fn take_file_request(&mut self) -> Option<u8> {
        self.file_request.take()
    }

    /// The client's file has been sent to the server, whose next packet has the number `seq`.
    pub fn file_sent(&mut self, seq: u8) {
        if self.stage == Stage::FileAnswer {
            self.next_seq = Some(seq);
        }
    }

    /// The sequence number for an ERR packet that breaks the response off towards the client, for
    /// when the server connection is lost. `None` inside a packet, or while the client sends its
    /// file, where the client's connection cannot be saved.
    pub fn break_off_seq(&self) -> Option<u8> {
        let next = match (self.place, self.stage) {
            (Place::Inside { .. } | Place::Continuation, _) | (_, Stage::FileAnswer) => None,
            // A gathered packet is counted already and the client has not seen it.
            (Place::Gathering { before, .. }, _) => Some(before.unwrap_or(1)),
            (Place::Start, _) => Some(self.next_seq.unwrap_or(1)),
        };
        next.map(|next| next.wrapping_add(self.shift))
    }

    /// One step; false when the input is used up.
    #[inline]
    fn advance(&mut self, pass: &mut Pass<'_, '_>) -> Result<bool, Malformed> {
        match self.place {
            Place::Start => {
                if self.head_len == 0 {
                    self.pass_plain(pass);
                }
                self.begin_packet(pass)
            }
            Place::Inside { left, continued } => Ok(self.pass_payload(pass, left, continued)),
            Place::Continuation => self.begin_continuation(pass),
            Place::Gathering { len, before } => self.gather(pass, len, before),
        }
    }

    /// Lets whole packets through that need no understanding.
    #[inline]
    fn pass_plain(&mut self, pass: &mut Pass<'_, '_>) {
        if self.stage == Stage::Answer && !self.pass_column_count(pass) {
            return;
        }
        loop {
            self.pass_run(pass);
            if self.stage != Stage::ColumnsEnd || !self.pass_columns_end(pass) {
                return;
            }
        }
    }

    /// Lets whole rows or definitions through.
    #[inline]
    fn pass_run(&mut self, pass: &mut Pass<'_, '_>) {
        let packets_max = match self.translates && self.stage.has_definitions() {
            true => 0,
            false => self.stage.run_max(),
        };
        let (1.., Some(seq)) = (packets_max, self.next_seq) else {
            return;
        };
        let run = scan(pass.rest(), seq, packets_max);
        if run.packets == 0 {
            return;
        }
        self.note_columns(pass.rest().get(..run.bytes).unwrap_or_default(), run.packets);
        if self.shift == 0 {
            pass.keep(run.bytes);
        } else {
            pass.keep_renumbered(run.bytes, self.shift);
        }
        self.next_seq = Some(run.next_seq);
        self.count(run.packets, pass);
    }

    /// Looks at the next packet's header and first byte, and decides how it goes on.
    #[inline]
    fn begin_packet(&mut self, pass: &mut Pass<'_, '_>) -> Result<bool, Malformed> {
        if self.stage == Stage::Ended {
            return Ok(false);
        }
        let Some((header, first, held)) = self.read_head(pass) else {
            return Ok(false);
        };
        let before = self.next_seq;
        self.expect_seq(header.seq)?;
        let begun = match self.stage.need(header, first, self.server) {
            Ok(Need::Nothing) if self.translates && self.stage.has_definitions() => {
                match header.payload_len > WHOLE_MAX {
                    true => Err(Malformed("packet length")),
                    false => self.begin_whole(header, held, before, pass),
                }
            }
            Ok(Need::Nothing) => {
                self.note_column(header, held, pass);
                if self.stage == Stage::RowsAfterEof {
                    self.insert_eof_before_row(header, held, pass);
                }
                self.pass_header(header, held, pass);
                return Ok(true);
            }
            Ok(Need::Whole) if header.payload_len > WHOLE_MAX => Err(Malformed("packet length")),
            Ok(Need::Whole) => self.begin_whole(header, held, before, pass),
            Err(malformed) => Err(malformed),
        };
        if begun.is_err() {
            // The client has not seen this packet, so it does not count.
            self.next_seq = before;
        }
        begun
    }

    /// Handles the packet where it lies if all of it is there, or begins to gather it.
    #[inline]
    fn begin_whole(
        &mut self,
        header: Header,
        held: usize,
        before: Option<u8>,
        pass: &mut Pass<'_, '_>,
    ) -> Result<bool, Malformed> {
        let len = HEADER_LEN + header.payload_len;
        if held == 0
            && let Some(payload) = pass.rest().get(HEADER_LEN..len)
        {
            self.on_packet(&Packet { header, payload, in_input: len }, pass)?;
            return Ok(true);
        }
        self.begin_gathering(held, len, before);
        Ok(true)
    }

    #[inline(never)]
    fn begin_gathering(&mut self, held: usize, len: usize, before: Option<u8>) {
        self.gathered.clear();
        self.gathered.extend_from_slice(self.head.get(..held).unwrap_or_default());
        self.head_len = 0;
        self.place = Place::Gathering { len, before };
    }

    /// Collects the rest of a packet that must be understood.
    #[inline(never)]
    fn gather(
        &mut self,
        pass: &mut Pass<'_, '_>,
        len: usize,
        before: Option<u8>,
    ) -> Result<bool, Malformed> {
        debug_assert!(self.gathered.len() <= len);
        let rest = pass.rest();
        let part = rest.get(..len - self.gathered.len()).unwrap_or(rest);
        self.gathered.extend_from_slice(part);
        pass.skip(part.len());
        if self.gathered.len() < len {
            return Ok(false);
        }
        let packet = std::mem::take(&mut self.gathered);
        self.place = Place::Start;
        if let (Some(header), Some(payload)) = (Header::read(&packet), packet.get(HEADER_LEN..)) {
            let taken = self.on_packet(&Packet { header, payload, in_input: 0 }, pass);
            if taken.is_err() {
                self.next_seq = before;
            }
            taken?;
        }
        self.gathered = packet;
        Ok(true)
    }

    /// The next header, the byte after it, and how many of these bytes are in `head` and
    /// consumed: 0 when they still lie in the input. `None` when more input is needed.
    #[inline]
    fn read_head(&mut self, pass: &mut Pass<'_, '_>) -> Option<(Header, Option<u8>, usize)> {
        let rest = pass.rest();
        if self.head_len == 0
            && let Some(&[a, b, c, seq, first]) = rest.first_chunk::<HEAD_LEN>()
        {
            let header = Header::read(&[a, b, c, seq])?;
            return Some((header, (header.payload_len > 0).then_some(first), 0));
        }
        self.hold_head(pass)
    }

    /// The next packet's header, and the first byte of its payload, where the input ends within
    /// them or did so before: what there is of them is held until the rest comes.
    #[inline(never)]
    fn hold_head(&mut self, pass: &mut Pass<'_, '_>) -> Option<(Header, Option<u8>, usize)> {
        self.hold(pass, HEADER_LEN);
        let header = self.held_header()?;
        if header.payload_len == 0 {
            return Some((header, None, HEADER_LEN));
        }
        self.hold(pass, HEAD_LEN);
        let held = usize::from(self.head_len);
        (held == HEAD_LEN).then(|| (header, self.head.last().copied(), held))
    }

    /// Moves input to `head` until that holds `len` bytes or there is no more.
    fn hold(&mut self, pass: &mut Pass<'_, '_>, len: usize) {
        while usize::from(self.head_len) < len
            && let Some(&byte) = pass.rest().first()
            && let Some(slot) = self.head.get_mut(usize::from(self.head_len))
        {
            *slot = byte;
            self.head_len += 1;
            pass.skip(1);
        }
    }

    fn held_header(&self) -> Option<Header> {
        Header::read(self.head.get(..usize::from(self.head_len))?)
    }

    /// Passes on a header, of which `held` bytes (and maybe the first of the payload) are in
    /// `head`, and lets the payload follow.
    fn pass_header(&mut self, header: Header, held: usize, pass: &mut Pass<'_, '_>) {
        let mut left = header.payload_len;
        if held == 0 && self.shift == 0 {
            pass.keep(HEADER_LEN);
        } else {
            let seq = header.seq.wrapping_add(self.shift);
            pass.put_header(Header { seq, ..header });
            if held == 0 {
                pass.skip(HEADER_LEN);
            } else if let Some(first) = self.head.get(HEADER_LEN..held) {
                pass.put(|out| out.extend_from_slice(first));
                left -= first.len();
            }
        }
        self.head_len = 0;
        self.place = Place::Inside { left, continued: header.is_continued() };
    }

    /// Lets payload bytes through; false when the input is used up before them.
    fn pass_payload(&mut self, pass: &mut Pass<'_, '_>, left: usize, continued: bool) -> bool {
        let len = left.min(pass.rest().len());
        pass.keep(len);
        if len < left {
            self.place = Place::Inside { left: left - len, continued };
            return false;
        }
        if continued {
            self.place = Place::Continuation;
        } else {
            self.place = Place::Start;
            self.count(1, pass);
        }
        true
    }

    /// Reads the header of a packet that continues a payload.
    #[inline(never)]
    fn begin_continuation(&mut self, pass: &mut Pass<'_, '_>) -> Result<bool, Malformed> {
        let in_place = if self.head_len == 0 { Header::read(pass.rest()) } else { None };
        let (header, held) = match in_place {
            Some(header) => (header, 0),
            None => {
                self.hold(pass, HEADER_LEN);
                let Some(header) = self.held_header() else {
                    return Ok(false);
                };
                (header, HEADER_LEN)
            }
        };
        self.expect_seq(header.seq)?;
        self.pass_header(header, held, pass);
        Ok(true)
    }

    /// Checks that the server's packets follow each other, so that no byte of another response is
    /// taken for one of this.
    #[inline]
    fn expect_seq(&mut self, seq: u8) -> Result<(), Malformed> {
        if let Some(expected) = self.next_seq.filter(|expected| *expected != seq) {
            self.renumber(expected, seq)?;
        }
        self.next_seq = Some(seq.wrapping_add(1));
        Ok(())
    }

    /// The server's number is another one than expected.
    #[cold]
    fn renumber(&mut self, expected: u8, seq: u8) -> Result<(), Malformed> {
        if !self.renumbers {
            return Err(Malformed("sequence number"));
        }
        self.shift = self.shift.wrapping_add(expected).wrapping_sub(seq);
        Ok(())
    }
}
