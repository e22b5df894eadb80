//! Steps 3 and 9: framing, commands and the relay of replies.

use std::hint::black_box;

use anyhow::{Context, Result, ensure};
use trunkline_protocol::codec::frame::{put_payload, split_packet as split};
use trunkline_protocol::command::Command;
use trunkline_protocol::packet::status;
use trunkline_protocol::response::write::put_text_result;
use trunkline_protocol::response::{Relay, ReplyFormat, ResponseShape};

use crate::text::POINT_SELECT;

/// Packets of the buffer that framing walks through.
const PACKETS: u8 = 64;
/// As long as sysbench's column `c`.
const VALUE_LEN: usize = 119;

const EOF: ReplyFormat =
    ReplyFormat { deprecate_eof: false, session_track: false, ..ReplyFormat::PLAIN };
const NO_EOF: ReplyFormat =
    ReplyFormat { deprecate_eof: true, session_track: true, ..ReplyFormat::PLAIN };

pub fn split_packet(calls: u64) -> Result<()> {
    let mut buffer = Vec::new();
    for seq in 0..PACKETS {
        put_payload(&mut buffer, seq, &[seq; 40]);
    }
    let mut rest = buffer.as_slice();
    for _ in 0..calls {
        if rest.is_empty() {
            rest = black_box(buffer.as_slice());
        }
        let (header, payload, after) = split(rest).context("a packet is missing")?;
        black_box((header, payload));
        rest = after;
    }
    Ok(())
}

pub fn decode_command(calls: u64) -> Result<()> {
    let payload = [&[0x03], POINT_SELECT].concat();
    for _ in 0..calls {
        black_box(Command::decode(black_box(&payload))?);
    }
    Ok(())
}

pub fn relay_point_select(calls: u64) -> Result<()> {
    relay(EOF, EOF, 1, calls)
}

pub fn relay_point_select_deprecate_eof(calls: u64) -> Result<()> {
    relay(NO_EOF, NO_EOF, 1, calls)
}

pub fn relay_point_select_translated(calls: u64) -> Result<()> {
    relay(NO_EOF, EOF, 1, calls)
}

pub fn relay_rows(calls: u64) -> Result<()> {
    relay(NO_EOF, NO_EOF, 100, calls)
}

/// The reply of a server to a select of one text column.
pub fn reply(format: ReplyFormat, rows: usize) -> Vec<u8> {
    reply_with(format, rows, status::AUTOCOMMIT)
}

/// The reply of a server to a select of one text column, with these status flags.
pub fn reply_with(format: ReplyFormat, rows: usize, status: u16) -> Vec<u8> {
    let mut reply = Vec::new();
    let rows = vec![vec![Some(vec![b'7'; VALUE_LEN])]; rows];
    put_text_result(&mut reply, 1, format, status, &["c"], &rows);
    reply
}

fn relay(server: ReplyFormat, client: ReplyFormat, rows: usize, calls: u64) -> Result<()> {
    let reply = reply(server, rows);
    let mut out = Vec::with_capacity(2 * reply.len());
    for _ in 0..calls {
        out.clear();
        let mut relay = Relay::new(ResponseShape::Query, server, client, true);
        let fed = relay.feed(black_box(&reply), &mut out)?;
        ensure!(fed.ended && fed.consumed == reply.len(), "the reply has not ended");
        black_box(relay.into_outcome());
    }
    Ok(())
}
