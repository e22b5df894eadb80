//! Transactions that begin without a word.

use anyhow::Result;

use super::play::holds;
use super::stand::{ONE, Scene};

#[test]
fn without_autocommit_the_first_statement_begins_a_transaction() -> Result<()> {
    holds(ONE, include_str!("cases/autocommit.txt"))
}

#[test]
fn issue_16_an_xa_transaction_is_its_sessions_own_until_it_is_over() -> Result<()> {
    holds(ONE, include_str!("cases/xa.txt"))
}

#[test]
fn issue_16_what_a_transaction_began_with_is_no_other_sessions() -> Result<()> {
    holds(Scene { connections: 3, ..ONE }, include_str!("cases/autocommit_ends.txt"))
}
