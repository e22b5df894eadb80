//! Tokenizer, digest, classification, SET parsing
#![forbid(unsafe_code)]
