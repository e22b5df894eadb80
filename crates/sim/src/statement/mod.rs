//! The statement language.
