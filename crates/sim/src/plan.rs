//! What a seed means.
