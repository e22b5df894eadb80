//! What the packets of a response mean, and which of them the client gets in another form.

use crate::codec::frame::{HEADER_LEN, Header, begin_packet, end_packet, split_packet};
use crate::codec::{Malformed, Reader, put_u32};
use crate::packet::eof::{self, EofPacket};
use crate::packet::err::{self, ErrPacket, put_err};
use crate::packet::ok::{self, OkPacket};
use crate::packet::status;
use crate::packet::tracker_filter::Filtered;

use super::ErrorInstead;
use super::Prepared;
use super::metadata::put_column_count;
use super::pass::Pass;
use super::relay::{Packet, Relay};
use super::stage::Stage;

/// Bytes of `PREPARE_OK` that every server sends.
const PREPARE_OK_LEN: usize = 12;
/// First byte of a request for a file of the client.
const LOCAL_INFILE: u8 = 0xFB;
/// Flags that an EOF packet after column definitions does not take over from another result.
const END_FLAGS: u16 = status::MORE_RESULTS
    | status::CURSOR_EXISTS
    | status::LAST_ROW_SENT
    | status::PS_OUT_PARAMS
    | status::SESSION_STATE_CHANGED;

impl Relay {
    /// Handles a packet that had to be seen whole.
    #[inline]
    pub(super) fn on_packet(
        &mut self,
        packet: &Packet<'_>,
        pass: &mut Pass<'_, '_>,
    ) -> Result<(), Malformed> {
        let Some(&first) = packet.payload.first() else {
            return Err(Malformed("empty packet"));
        };
        if first == err::HEADER {
            return self.on_error(packet, pass);
        }
        if matches!(self.stage, Stage::Params { .. }) {
            self.note_parameter(packet.payload);
        }
        if self.translates && self.stage.has_definitions() && first != eof::HEADER {
            return self.on_definition(packet, pass);
        }
        match self.stage {
            Stage::Answer => match first {
                ok::HEADER | eof::HEADER => self.on_terminator(packet, pass),
                LOCAL_INFILE if self.refuses_file_requests => Err(Malformed("request for a file")),
                LOCAL_INFILE => {
                    self.keep(packet, pass);
                    self.stage = Stage::FileAnswer;
                    // The client's packets are numbered in between.
                    self.file_request = Some(self.next_seq.take().unwrap_or_default());
                    Ok(())
                }
                _ => self.on_column_count(packet, pass),
            },
            Stage::Acknowledgement | Stage::FileAnswer => match first {
                ok::HEADER | eof::HEADER => self.on_terminator(packet, pass),
                _ => Err(Malformed("acknowledgement")),
            },
            Stage::PrepareAnswer => self.on_prepared(packet, pass),
            Stage::ColumnsEnd => self.on_columns_end(packet, pass),
            Stage::ParamsEnd { columns } => {
                self.on_definitions_end(packet, pass)?;
                self.begin_prepared_columns(columns, pass);
                Ok(())
            }
            Stage::PreparedColumnsEnd => {
                self.on_definitions_end(packet, pass)?;
                self.stage = Stage::Ended;
                Ok(())
            }
            Stage::RowsAfterEof | Stage::Rows | Stage::FetchedRows | Stage::Listed => {
                self.on_terminator(packet, pass)
            }
            Stage::Params { .. } => {
                self.keep(packet, pass);
                self.count(1, pass);
                Ok(())
            }
            Stage::Text | Stage::Columns { .. } | Stage::PreparedColumns { .. } | Stage::Ended => {
                Err(Malformed("packet kind"))
            }
        }
    }

    /// Counts packets that went through, and goes on after the last definition.
    #[inline]
    pub(super) fn count(&mut self, packets: u64, pass: &mut Pass<'_, '_>) {
        let less = |left: u16| u16::try_from(u64::from(left).saturating_sub(packets)).unwrap_or(0);
        let packets_32 = u32::try_from(packets).unwrap_or(u32::MAX);
        self.stage = match self.stage {
            Stage::Rows | Stage::FetchedRows => {
                self.outcome.rows += packets;
                return;
            }
            Stage::Columns { left } => match left.saturating_sub(packets_32) {
                0 => self.after_columns(),
                left => Stage::Columns { left },
            },
            Stage::Params { left, columns } => match less(left) {
                0 if !self.server.deprecate_eof => Stage::ParamsEnd { columns },
                0 => {
                    self.end_definitions(pass);
                    return self.begin_prepared_columns(columns, pass);
                }
                left => Stage::Params { left, columns },
            },
            Stage::PreparedColumns { left } => match less(left) {
                0 if !self.server.deprecate_eof => Stage::PreparedColumnsEnd,
                0 => {
                    self.end_definitions(pass);
                    Stage::Ended
                }
                left => Stage::PreparedColumns { left },
            },
            Stage::Text => Stage::Ended,
            stage @ (Stage::Acknowledgement
            | Stage::Answer
            | Stage::FileAnswer
            | Stage::ColumnsEnd
            | Stage::RowsAfterEof
            | Stage::Listed
            | Stage::PrepareAnswer
            | Stage::ParamsEnd { .. }
            | Stage::PreparedColumnsEnd
            | Stage::Ended) => stage,
        };
    }

    /// Gives the client, before the server's packet `seq`, an EOF packet that the server does
    /// not send. The server's status comes at the end of the rows, so the flags are those of the
    /// last result, or of the session before the command, and `extra`.
    #[inline(never)]
    pub(super) fn insert_eof(&mut self, seq: u8, extra: u16, pass: &mut Pass<'_, '_>) {
        let status = self.outcome.status.unwrap_or(self.status_before) & !END_FLAGS | extra;
        let seq = seq.wrapping_add(self.shift);
        pass.put(|out| {
            eof::put_eof(out, seq, EofPacket { warnings: 0, status });
        });
        self.shift = self.shift.wrapping_add(1);
    }

    /// Pays the EOF packet that a client is owed before the first row, `row`.
    ///
    /// A client tells OUT parameters by the flag of this packet, while the server gives it after
    /// their only row: so that is looked at if it is there already, as it is unless the two were
    /// split on their way.
    pub(super) fn insert_eof_before_row(
        &mut self,
        row: Header,
        held: usize,
        pass: &mut Pass<'_, '_>,
    ) {
        debug_assert!(held <= HEADER_LEN + row.payload_len);
        let row_len = (HEADER_LEN + row.payload_len).saturating_sub(held);
        let after = pass.rest().get(row_len..).unwrap_or_default();
        let extra = match split_packet(after) {
            Some((header, payload @ [eof::HEADER, ..], _))
                if header.seq == row.seq.wrapping_add(1) && !row.is_continued() =>
            {
                let end = ok::parse(payload, self.server.session_track);
                end.map_or(0, |end| out_params_flags(end.status))
            }
            Some(_) | None => 0,
        };
        self.insert_eof(row.seq, extra, pass);
        self.stage = Stage::Rows;
    }

    /// The server sends nothing after a prepared statement's definitions; its client may expect
    /// an EOF packet.
    #[inline(never)]
    fn end_definitions(&mut self, pass: &mut Pass<'_, '_>) {
        if let (false, Some(seq)) = (self.client.deprecate_eof, self.next_seq) {
            self.insert_eof(seq, 0, pass);
        }
    }

    #[inline(never)]
    fn on_error(&mut self, packet: &Packet<'_>, pass: &mut Pass<'_, '_>) -> Result<(), Malformed> {
        let error = err::parse(packet.payload)?;
        if error.code == err::PROGRESS_CODE {
            match self.client.progress {
                true => self.keep(packet, pass),
                false => self.omit(packet, pass),
            }
            return Ok(());
        }
        if self.stage == Stage::RowsAfterEof {
            self.insert_eof(packet.header.seq, 0, pass);
        }
        match self.interruption.filter(|_| error.code == INTERRUPTED) {
            Some(instead) => self.put_instead(packet, instead, pass),
            None => {
                self.outcome.add_error(&error);
                self.keep(packet, pass);
            }
        }
        self.stage = Stage::Ended;
        Ok(())
    }

    /// Gives the client another error than the server's.
    fn put_instead(
        &mut self,
        packet: &Packet<'_>,
        instead: &ErrorInstead,
        pass: &mut Pass<'_, '_>,
    ) {
        let ErrorInstead { code, sqlstate, message } = *instead;
        self.outcome.add_error(&ErrPacket { code, sqlstate, message: message.as_bytes() });
        let seq = packet.header.seq.wrapping_add(self.shift);
        pass.put(|out| {
            put_err(out, seq, code, &sqlstate, message);
        });
        pass.skip(packet.in_input);
    }

    #[inline]
    fn on_column_count(
        &mut self,
        packet: &Packet<'_>,
        pass: &mut Pass<'_, '_>,
    ) -> Result<(), Malformed> {
        let mut reader = Reader::new(packet.payload);
        let count = u32::try_from(reader.lenenc_int("column count")?).unwrap_or(0);
        let has_flag = self.server.has_metadata_flag();
        let follows = !has_flag || reader.u8("metadata flag")? != 0;
        if count == 0 || !reader.is_empty() {
            return Err(Malformed("column count"));
        }
        self.outcome.result_sets = self.outcome.result_sets.saturating_add(1);
        if has_flag == self.client.has_metadata_flag() && self.columns.is_none() {
            self.keep(packet, pass);
            self.stage = match follows {
                true => Stage::Columns { left: count },
                false => self.after_columns(),
            };
            return Ok(());
        }
        self.on_column_count_of(packet, count, follows, pass)
    }

    /// Takes a count of columns where the two sides differ in what it says, or where the client has
    /// the definitions already.
    #[inline(never)]
    fn on_column_count_of(
        &mut self,
        packet: &Packet<'_>,
        count: u32,
        follows: bool,
        pass: &mut Pass<'_, '_>,
    ) -> Result<(), Malformed> {
        if !follows && !self.client.has_metadata_flag() {
            return Err(Malformed("metadata flag"));
        }
        let known = match follows {
            true => self.has_known_columns(packet, count, pass),
            false => None,
        };
        let seq = packet.header.seq.wrapping_add(self.shift);
        let client = self.client;
        pass.put(|out| {
            let start = begin_packet(out, seq);
            put_column_count(out, count.into(), follows && known.is_none(), client);
            end_packet(out, start);
        });
        pass.skip(packet.in_input);
        self.stage = match (follows, known) {
            (true, Some(len)) => {
                pass.skip(len);
                let [packets, ..] = count.to_le_bytes();
                self.next_seq = self.next_seq.map(|next| next.wrapping_add(packets));
                self.shift = self.shift.wrapping_sub(packets);
                self.after_columns()
            }
            (true, None) => {
                if self.outcome.result_sets == 1 {
                    self.begin_columns(count);
                }
                Stage::Columns { left: count }
            }
            (false, _) => self.after_columns(),
        };
        Ok(())
    }

    /// What follows the definitions of a result set.
    #[inline]
    fn after_columns(&self) -> Stage {
        match (self.server.deprecate_eof, self.client.deprecate_eof) {
            (false, _) => Stage::ColumnsEnd,
            (true, false) => Stage::RowsAfterEof,
            (true, true) => Stage::Rows,
        }
    }

    #[inline(never)]
    fn on_prepared(
        &mut self,
        packet: &Packet<'_>,
        pass: &mut Pass<'_, '_>,
    ) -> Result<(), Malformed> {
        let mut reader = Reader::new(packet.payload);
        if reader.u8("prepare header")? != ok::HEADER {
            return Err(Malformed("prepare header"));
        }
        let stmt_id = reader.u32("statement id")?;
        let columns = reader.u16("prepared columns")?;
        let params = reader.u16("prepared parameters")?;
        reader.u8("prepare filler")?;
        self.outcome.warnings = reader.u16("prepare warnings")?;
        self.has_definitions =
            !self.server.optional_metadata || reader.u8("prepare metadata flag")? != 0;
        if !self.has_definitions && !self.client.optional_metadata {
            return Err(Malformed("prepare metadata flag"));
        }
        // MySQL 9.7 answers with an OK packet where a user may not set what is to be prepared
        // (`SET GLOBAL`). It is taken for no statement of any kind.
        if !reader.is_empty() {
            return Err(Malformed("an OK packet in place of a prepared statement"));
        }
        self.outcome.prepared = Some(Prepared { stmt_id, params, columns, takes_vector: false });
        match self.stmt_id {
            None if self.server.optional_metadata == self.client.optional_metadata => {
                self.keep(packet, pass);
            }
            own => self.rename(packet, own.unwrap_or(stmt_id), pass),
        }
        match (params, self.has_definitions) {
            (0, _) => self.begin_prepared_columns(columns, pass),
            (left, true) => self.stage = Stage::Params { left, columns },
            (_, false) if !self.server.deprecate_eof => self.stage = Stage::ParamsEnd { columns },
            (_, false) => {
                self.end_definitions(pass);
                self.begin_prepared_columns(columns, pass);
            }
        }
        Ok(())
    }

    /// The parameters of a prepared statement are over.
    #[inline(never)]
    fn begin_prepared_columns(&mut self, columns: u16, pass: &mut Pass<'_, '_>) {
        self.stage = match (columns, self.has_definitions) {
            (0, _) => Stage::Ended,
            (left, true) => {
                self.begin_columns(left.into());
                Stage::PreparedColumns { left }
            }
            (_, false) if !self.server.deprecate_eof => Stage::PreparedColumnsEnd,
            (_, false) => {
                self.end_definitions(pass);
                Stage::Ended
            }
        };
    }

    /// EOF after the column definitions of a result set, from a server that sends it. When a
    /// cursor was opened no rows follow and it is the terminator.
    #[inline]
    fn on_columns_end(
        &mut self,
        packet: &Packet<'_>,
        pass: &mut Pass<'_, '_>,
    ) -> Result<(), Malformed> {
        let eof = eof::parse(packet.payload)?;
        if self.has_cursor(eof.status) {
            return self.on_terminator(packet, pass);
        }
        self.carried = out_params_flags(eof.status);
        if self.client.deprecate_eof {
            self.omit(packet, pass);
        } else {
            self.keep_eof(packet, eof, pass);
        }
        self.stage = Stage::Rows;
        Ok(())
    }

    /// EOF after definitions of a prepared statement, from a server that sends it.
    #[inline(never)]
    fn on_definitions_end(
        &mut self,
        packet: &Packet<'_>,
        pass: &mut Pass<'_, '_>,
    ) -> Result<(), Malformed> {
        let eof = eof::parse(packet.payload)?;
        self.outcome.status = Some(eof.status);
        if self.client.deprecate_eof {
            self.omit(packet, pass);
        } else {
            self.keep_eof(packet, eof, pass);
        }
        Ok(())
    }

    /// OK or EOF: a result has ended, and with it the response unless another is announced.
    #[inline]
    fn on_terminator(
        &mut self,
        packet: &Packet<'_>,
        pass: &mut Pass<'_, '_>,
    ) -> Result<(), Malformed> {
        let is_eof = packet.payload.first() == Some(&eof::HEADER);
        let ok = if is_eof && !self.server.deprecate_eof {
            let EofPacket { warnings, status } = eof::parse(packet.payload)?;
            let status = status | std::mem::take(&mut self.carried);
            OkPacket { warnings, status, ..OkPacket::default() }
        } else {
            ok::parse(packet.payload, self.server.session_track)?
        };
        if self.stage == Stage::RowsAfterEof && !self.has_cursor(ok.status) {
            self.insert_eof(packet.header.seq, 0, pass);
        }
        self.outcome.add_ok(&ok, is_eof)?;
        if ok.status & status::SESSION_STATE_CHANGED != 0 && !self.told.is_all() {
            self.tell(packet, &ok, is_eof, pass);
        } else if !self.is_changed(&ok, is_eof) {
            self.keep(packet, pass);
        } else {
            self.rewrite(packet, &ok, is_eof, pass);
        }
        let more = self.stage.may_continue() && ok.status & status::MORE_RESULTS != 0;
        self.stage = if more { Stage::Answer } else { Stage::Ended };
        Ok(())
    }

    /// Passes on a packet with changes of session state, as far as the client is told them.
    #[inline(never)]
    fn tell(&self, packet: &Packet<'_>, ok: &OkPacket<'_>, is_eof: bool, pass: &mut Pass<'_, '_>) {
        let left = match (self.client.session_track, self.told.filter(ok.changes)) {
            (true, Filtered::Some(left)) => left,
            // An EOF packet has a flag and no changes.
            (true, Filtered::All) if ok.changes.is_empty() => Vec::new(),
            (true, Filtered::All) | (false, _) => {
                return match self.is_changed(ok, is_eof) {
                    true => self.rewrite(packet, ok, is_eof, pass),
                    false => self.keep(packet, pass),
                };
            }
        };
        let flags = match left.is_empty() {
            true => ok.status & !status::SESSION_STATE_CHANGED,
            false => ok.status,
        };
        let ok = OkPacket { changes: &left, status: flags, ..*ok };
        self.rewrite(packet, &ok, is_eof, pass);
    }

    /// Writes an OK or EOF packet in the client's form.
    #[inline(never)]
    fn rewrite(
        &self,
        packet: &Packet<'_>,
        ok: &OkPacket<'_>,
        is_eof: bool,
        pass: &mut Pass<'_, '_>,
    ) {
        let seq = packet.header.seq.wrapping_add(self.shift);
        pass.put(|out| {
            if is_eof {
                ok::put_result_end(out, seq, ok, self.client);
            } else {
                ok::put_ok(out, seq, ok, self.client);
            }
        });
        pass.skip(packet.in_input);
    }

    /// Whether the client gets an OK or EOF packet in another form than the server's.
    #[inline]
    fn is_changed(&self, ok: &OkPacket<'_>, is_eof: bool) -> bool {
        if is_eof && self.server.deprecate_eof != self.client.deprecate_eof {
            return true;
        }
        let has_state = ok.status & status::SESSION_STATE_CHANGED != 0;
        match (self.server.session_track, self.client.session_track) {
            (true, false) => has_state,
            (false, true) => has_state || !ok.info.is_empty(),
            (true, true) | (false, false) => false,
        }
    }

    /// Passes the EOF packet after definitions on, without a flag that its client didn't ask for.
    #[inline]
    fn keep_eof(&self, packet: &Packet<'_>, eof: EofPacket, pass: &mut Pass<'_, '_>) {
        let has_state = eof.status & status::SESSION_STATE_CHANGED != 0;
        if has_state && !(self.client.session_track && self.told.is_any_change()) {
            let EofPacket { warnings, status } = eof;
            let status = status & !status::SESSION_STATE_CHANGED;
            let ok = OkPacket { warnings, status, ..OkPacket::default() };
            self.rewrite(packet, &ok, true, pass);
        } else {
            self.keep(packet, pass);
        }
    }

    /// Passes a packet on unchanged but for its number.
    #[inline]
    fn keep(&self, packet: &Packet<'_>, pass: &mut Pass<'_, '_>) {
        if packet.in_input > 0 && self.shift == 0 {
            pass.keep(packet.in_input);
        } else {
            self.copy(packet, pass);
        }
    }

    /// Writes a packet that cannot stay where it lies: it is renumbered or was gathered.
    #[inline(never)]
    fn copy(&self, packet: &Packet<'_>, pass: &mut Pass<'_, '_>) {
        let seq = packet.header.seq.wrapping_add(self.shift);
        pass.put_header(Header { seq, ..packet.header });
        pass.put(|out| out.extend_from_slice(packet.payload));
        pass.skip(packet.in_input);
    }

    /// Passes `PREPARE_OK` on with another statement id, in the client's form.
    #[inline(never)]
    fn rename(&self, packet: &Packet<'_>, stmt_id: u32, pass: &mut Pass<'_, '_>) {
        let seq = packet.header.seq.wrapping_add(self.shift);
        let after_id = packet.payload.get(1 + size_of::<u32>()..PREPARE_OK_LEN).unwrap_or_default();
        let flag = self.client.optional_metadata.then(|| u8::from(self.has_definitions));
        pass.put(|out| {
            let start = begin_packet(out, seq);
            out.push(ok::HEADER);
            put_u32(out, stmt_id);
            out.extend_from_slice(after_id);
            out.extend(flag);
            end_packet(out, start);
        });
        pass.skip(packet.in_input);
    }

    /// Leaves a packet out; those after it move up by one number.
    #[inline(never)]
    fn omit(&mut self, packet: &Packet<'_>, pass: &mut Pass<'_, '_>) {
        pass.skip(packet.in_input);
        self.shift = self.shift.wrapping_sub(1);
    }
}

/// The server's error when a `KILL QUERY` ended a statement (ER_QUERY_INTERRUPTED).
const INTERRUPTED: u16 = 1317;

/// The flags of one of the two EOF packets around OUT parameters that hold for the other too; none
/// for another result set.
///
/// MySQL 9.7 sets them in the first only: more follows a result whose end does not say so. Source:
/// `tests/transcripts/mysql-9.7.txt`, `execute_call`.
fn out_params_flags(flags: u16) -> u16 {
    if flags & status::PS_OUT_PARAMS == 0 {
        return 0;
    }
    flags & (status::PS_OUT_PARAMS | status::MORE_RESULTS)
}
