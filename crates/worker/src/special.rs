//! What goes another way than statements do.

pub(crate) mod binlog;
pub(crate) mod fast_forward;
pub(crate) mod local_infile;

#[cfg(test)]
mod tests;
