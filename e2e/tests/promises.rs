//! What the proxy promises of sessions that share server connections: each is answered as on a
//! connection of its own, each write happens once and on the writer, and nobody sees another's
//! state.
//!
//! The cases are scripts (`promises/cases`, explained in [`script`]). Each is played on direct
//! connections and through the proxy, twice over, and every answer is compared.

mod play;
mod script;
mod stand;

mod accounts;
mod autocommit;
mod cache;
mod counts;
mod defaults;
mod failures;
mod insert_ids;
mod names;
mod readers;
mod sequences;
mod settings;
mod temporary_tables;
mod tokenizer;
mod triggers_and_views;
mod twice;
