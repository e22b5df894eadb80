//! Servers that take no writes, and say so.

use trunkline_protocol::response::ServerError;

/// The error of a write on a server that is read-only, and of other options.
pub(crate) const OPTION_PREVENTS_STATEMENT: u16 = 1290;
/// Of a Galera node that must not serve: it has lost its cluster, or has not its data yet.
pub(crate) const UNKNOWN_COMMAND: u16 = 1047;
/// Of a server whose storage engines are read-only.
const READ_ONLY_MODE: u16 = 1836;

/// Whether an error says that the server takes no writes. Others have the same numbers.
pub(crate) fn says_read_only(error: &ServerError) -> bool {
    let says = |word: &[u8]| error.message.windows(word.len()).any(|part| part == word);
    match error.code {
        // A server that is made read-only without a lock may refuse what it has begun.
        OPTION_PREVENTS_STATEMENT => says(b"read-only") && !says(b"NO_LOCK"),
        UNKNOWN_COMMAND => says(b"WSREP"),
        READ_ONLY_MODE => true,
        _ => false,
    }
}
