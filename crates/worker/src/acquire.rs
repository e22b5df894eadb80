//! Step 7: a statement gets a connection.

mod forward;
mod lease;
mod past;
mod position;
pub(crate) mod sharing;
mod start;

#[cfg(test)]
mod tests;
