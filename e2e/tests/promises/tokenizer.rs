//! A text is read as the server reads it.

use anyhow::Result;

use super::play::holds;
use super::stand::{Kind, ONE, SPLIT, Scene};

#[test]
fn comments_literals_and_names_are_read_as_the_server_reads_them() -> Result<()> {
    holds(SPLIT, include_str!("cases/tokenizer.txt"))
}

#[test]
fn white_space_is_what_the_character_set_says() -> Result<()> {
    holds(SPLIT, include_str!("cases/white_space.txt"))
}

#[test]
fn characters_of_two_bytes_are_read_as_the_server_reads_them() -> Result<()> {
    holds(SPLIT, include_str!("cases/lead_bytes.txt"))
}

#[test]
fn one_text_is_read_anew_in_another_character_set() -> Result<()> {
    holds(ONE, include_str!("cases/readings.txt"))
}

#[test]
fn the_servers_own_modes_hold_from_the_first_statement_on() -> Result<()> {
    let servers = Kind::Own("--sql-mode=ANSI_QUOTES");
    holds(Scene { servers, ..SPLIT }, include_str!("cases/modes_ansi.txt"))?;
    let servers = Kind::Own("--sql-mode=NO_BACKSLASH_ESCAPES");
    holds(Scene { servers, ..SPLIT }, include_str!("cases/modes_no_escapes.txt"))
}

#[test]
fn oracle_is_known_from_the_first_statement_on() -> Result<()> {
    let servers = Kind::Own("--sql-mode=ORACLE");
    holds(Scene { servers, ..SPLIT }, include_str!("cases/modes_oracle.txt"))
}

#[test]
fn what_is_prepared_is_judged_as_it_is_read_when_it_runs() -> Result<()> {
    holds(ONE, include_str!("cases/prepared_read_again.txt"))
}
