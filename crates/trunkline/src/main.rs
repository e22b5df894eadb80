//! The binary: command line, supervisor, signals. Wiring only.
fn main() {}
