//! Transactions that begin without a word.

use anyhow::Result;

use super::play::holds;
use super::stand::ONE;

#[test]
fn without_autocommit_the_first_statement_begins_a_transaction() -> Result<()> {
    holds(ONE, include_str!("cases/autocommit.txt"))
}
