//! Step 1: a client connects. Where it comes from, and whether it may.

pub(crate) mod address_limits;
pub(crate) mod arrival;
mod half_open;
pub(crate) mod host_names;
mod tls;

#[cfg(test)]
mod tests;
