//! Step 7: a statement gets a connection.

mod forward;
mod lease;
mod past;
mod position;
mod pump;
pub(crate) mod sharing;
mod start;
mod turn;

#[cfg(test)]
mod tests;
