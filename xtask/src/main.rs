//! The one door to everything a developer runs: servers, test, demo, bench, tidy.
fn main() {}
