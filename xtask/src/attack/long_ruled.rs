//! Texts of many megabytes that rules look at, rewrite or copy, and prepared ones.

use anyhow::{Context, Result, bail};

use super::Attack;
use super::field::Field;
use super::outcome::Promise;
use super::peer::{Answer, Peer};

/// A text that a rule rewrites.
pub const REWRITTEN: Attack = Attack {
    name: "long_rewritten",
    what: "one client, a literal of 60 MB that a rule rewrites, one after the other",
    settings: "\n[[rule]]\nid = 1\nmatch_pattern = \"^DO LENGTH\"\n\
               replace_pattern = \"DO CHAR_LENGTH\"\n",
    attacker: "",
    promise: Promise { grown_mib: 288, slower: 2.0, answers: &["OK"] },
    run: rewrite_again,
};

/// A text that a rule copies to another hostgroup, as long as copies may be.
pub const MIRRORED: Attack = Attack {
    name: "long_mirrored",
    what: "one client, a literal of 14 MB that a rule mirrors, one after the other",
    settings: "\n[[rule]]\nid = 1\nmatch_pattern = \"^SELECT LENGTH\"\n\
               mirror_flagOUT = 1\n\
               [[rule]]\nid = 2\nflagIN = 1\nmatch_pattern = \"x'\\\\)$\"\n\
               destination_hostgroup = 11\n",
    attacker: "",
    promise: Promise { grown_mib: 256, slower: 2.0, answers: &["a row"] },
    run: read_again,
};

/// A prepared text in which a pattern is searched for at each execution.
pub const EXECUTED: Attack = Attack {
    name: "long_executed",
    what: "one client, executions of a text of 14 MB in which a rule searches",
    settings: "\n[[rule]]\nid = 1\nmatch_pattern = \"xy$\"\nerror_msg = \"no\"\n",
    attacker: "",
    promise: Promise { grown_mib: 256, slower: 2.0, answers: &["OK"] },
    run: execute_again,
};

/// Texts that are prepared and closed.
pub const PREPARED: Attack = Attack {
    name: "long_prepared",
    what: "one client, a text of 30 MB that is prepared and closed, one after the other",
    settings: "",
    attacker: "",
    promise: Promise { grown_mib: 384, slower: 2.0, answers: &["OK"] },
    run: prepare_again,
};

fn text(len: usize) -> String {
    format!("DO LENGTH('{}')", "x".repeat(len))
}

fn rewrite_again(field: &Field<'_>) -> Result<()> {
    let statement = text(60 << 20);
    let mut peer = field.log_in()?;
    while !field.is_over() {
        field.answered(peer.ask(&statement)?);
    }
    Ok(())
}

fn read_again(field: &Field<'_>) -> Result<()> {
    let statement = text(14 << 20).replace("DO", "SELECT");
    let mut peer = field.log_in()?;
    while !field.is_over() {
        if let Err(answer) = peer.command(0x03, statement.as_bytes())? {
            bail!("the statement was not taken: {answer}");
        }
        match peer.result()? {
            Ok(_) => field.answered("a row"),
            Err(answer) => field.answered(answer),
        }
    }
    Ok(())
}

fn execute_again(field: &Field<'_>) -> Result<()> {
    let mut peer = field.log_in()?;
    let stmt_id = prepare(&mut peer, &text(14 << 20))?;
    let execution = [&stmt_id[..], &[0, 1, 0, 0, 0]].concat();
    while !field.is_over() {
        let answer = match peer.command(0x17, &execution)? {
            Ok(()) => peer.answer()?,
            Err(answer) => answer,
        };
        field.answered(answer);
    }
    Ok(())
}

fn prepare_again(field: &Field<'_>) -> Result<()> {
    let mut peer = field.log_in()?;
    let text = text(30 << 20);
    while !field.is_over() {
        let stmt_id = prepare(&mut peer, &text)?;
        field.answered(Answer::Ok);
        if let Err(answer) = peer.command(0x19, &stmt_id)? {
            bail!("the statement was not closed: {answer}");
        }
    }
    Ok(())
}

/// Prepares a statement without parameters and columns; its number.
fn prepare(peer: &mut Peer<'_>, text: &str) -> Result<[u8; 4]> {
    if let Err(answer) = peer.command(0x16, text.as_bytes())? {
        bail!("the statement was not taken: {answer}");
    }
    match peer.packet()? {
        Ok((_, prepared)) if prepared.first() == Some(&0) => {
            Ok(prepared.get(1..5).context("a number")?.try_into()?)
        }
        Ok((_, refused)) => bail!("PREPARE: {}", String::from_utf8_lossy(&refused)),
        Err(answer) => bail!("PREPARE: {answer}"),
    }
}
