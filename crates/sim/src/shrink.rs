//! Cuts plans down.
