//! Packets of the usual result that need no understanding but a glance, where nothing has to be
//! changed for the client. All others, and those that have not arrived whole, take the long way.

use crate::packet::status;

use super::pass::Pass;
use super::relay::Relay;
use super::stage::Stage;

/// The most columns that a column count says in one byte.
const COUNT_MAX: u8 = 0xFA;
/// Flags of the EOF after definitions that mean more than that rows follow.
const TELLING: u16 = status::CURSOR_EXISTS | status::SESSION_STATE_CHANGED | status::PS_OUT_PARAMS;

impl Relay {
    /// Lets a column count of one byte through, in place of the long way through `begin_packet`;
    /// false where that is to be taken.
    #[inline]
    pub(super) fn pass_column_count(&mut self, pass: &mut Pass<'_, '_>) -> bool {
        let Some(&[1, 0, 0, seq, count @ 1..=COUNT_MAX]) = pass.rest().first_chunk() else {
            return false;
        };
        let has_flag = self.server.has_metadata_flag() || self.client.has_metadata_flag();
        if self.next_seq != Some(seq) || self.shift != 0 || has_flag || self.columns.is_some() {
            return false;
        }
        pass.keep(5);
        self.next_seq = Some(seq.wrapping_add(1));
        self.outcome.result_sets = self.outcome.result_sets.saturating_add(1);
        self.stage = Stage::Columns { left: u32::from(count) };
        true
    }

    /// Lets the EOF after column definitions through; false where the long way is to be taken.
    #[inline]
    pub(super) fn pass_columns_end(&mut self, pass: &mut Pass<'_, '_>) -> bool {
        let Some(&[5, 0, 0, seq, 0xFE, _, _, low, high]) = pass.rest().first_chunk() else {
            return false;
        };
        let is_plain = u16::from_le_bytes([low, high]) & TELLING == 0;
        if self.next_seq != Some(seq) || self.shift != 0 || self.client.deprecate_eof || !is_plain {
            return false;
        }
        pass.keep(9);
        self.next_seq = Some(seq.wrapping_add(1));
        self.carried = 0;
        self.stage = Stage::Rows;
        true
    }
}
