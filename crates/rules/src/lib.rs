//! Query rules: compile, evaluate, explain
#![forbid(unsafe_code)]
