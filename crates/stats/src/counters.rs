//! The tables of plain counters, each declared once: the field that the data plane adds to, its
//! metric, and its meaning. Merging, `/metrics`, JSON and the manual all come from these tables.

use serde::{Deserialize, Serialize};
use trunkline_topology::{RefusalCause, causal::CausalReads};

/// One counter's place in the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CounterSpec {
    /// The field's name in JSON.
    pub field: &'static str,
    /// The metric's name. Neighbours of the same name are one metric and differ in their label.
    pub metric: &'static str,
    /// Name and value of the label that tells counters of one metric apart.
    pub label: Option<(&'static str, &'static str)>,
    /// What is counted.
    pub help: &'static str,
}

/// Declares a struct of counters together with its table.
macro_rules! counters {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $($field:ident: $metric:literal $(, $label:ident = $value:literal)?; $help:literal)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct $name {
            $(#[doc = $help] pub $field: u64,)*
        }

        impl $name {
            /// Every counter in the order of its declaration.
            pub const SPECS: &'static [CounterSpec] = &[$(CounterSpec {
                field: stringify!($field),
                metric: $metric,
                label: counters!(@label $($label = $value)?),
                help: $help,
            },)*];

            /// Every counter with its value, in the order of [`Self::SPECS`].
            pub fn iter(&self) -> impl Iterator<Item = (&'static CounterSpec, u64)> {
                Self::SPECS.iter().zip([$(self.$field),*])
            }

            /// Adds the counters of another worker.
            pub fn merge(&mut self, other: &Self) {
                $(self.$field = self.$field.saturating_add(other.$field);)*
            }
        }
    };
    (@label $label:ident = $value:literal) => { Some((stringify!($label), $value)) };
    (@label) => { None };
}

counters! {
    /// What one worker counts, servers apart.
    pub struct Counters {
        clients_accepted: "trunkline_client_connections_accepted_total";
            "Client connections accepted."
        clients_disconnected: "trunkline_client_connections_closed_total";
            "Client connections that ended, for whatever reason."
        clients_authenticated: "trunkline_client_authentications_total";
            "Clients that proved who they are."
        clients_refused_too_many:
            "trunkline_client_refusals_total", cause = "too_many_connections";
            "Clients turned away before their first statement, by cause."
        clients_refused_user_limit:
            "trunkline_client_refusals_total", cause = "user_connections";
            "Clients turned away because their user is at max_connections."
        clients_refused_access_denied:
            "trunkline_client_refusals_total", cause = "access_denied";
            "Clients turned away for an unknown user or a wrong password."
        clients_refused_unknown_schema:
            "trunkline_client_refusals_total", cause = "unknown_schema";
            "Clients turned away because the schema they asked for does not exist."
        clients_refused_handshake:
            "trunkline_client_refusals_total", cause = "handshake_malformed";
            "Clients turned away because their handshake is not the protocol's."
        clients_refused_handshake_timeout:
            "trunkline_client_refusals_total", cause = "handshake_timeout";
            "Clients turned away because their handshake took longer than connect_timeout_client."
        clients_refused_tls_required:
            "trunkline_client_refusals_total", cause = "tls_required";
            "Clients turned away because they did not use TLS, or not the certificate, that their listener or user requires."
        clients_refused_tls_failed:
            "trunkline_client_refusals_total", cause = "tls_failed";
            "Clients turned away because their TLS handshake failed."
        clients_refused_address_limit:
            "trunkline_client_refusals_total", cause = "address_connections";
            "Clients turned away because their address is at max_connections_per_address."
        clients_refused_not_allowed:
            "trunkline_client_refusals_total", cause = "address_not_allowed";
            "Clients turned away because listen_allow does not name their address."
        clients_refused_blocked:
            "trunkline_client_refusals_total", cause = "address_blocked";
            "Clients turned away because of failed logins from their address, with their name or with many."
        clients_refused_half_open:
            "trunkline_client_refusals_total", cause = "half_open";
            "Clients turned away before they had logged in, as the oldest of more than half_open_max or half_open_per_address_max."
        clients_refused_proxy_header:
            "trunkline_client_refusals_total", cause = "proxy_header";
            "Clients turned away because their PROXY header is malformed, late, or not from proxy_protocol_networks."
        failed_login_blocks: "trunkline_failed_login_blocks_total";
            "Times that failed logins made a name from an address, or an address, wait."
        failed_logins_forgotten: "trunkline_failed_logins_forgotten_total";
            "Names and addresses whose failed logins were forgotten before their time, for want of room."
        server_users_told:
            "trunkline_server_user_lookups_total", result = "told";
            "Names of clients that servers were asked for at a login, by what came of it."
        server_users_untold:
            "trunkline_server_user_lookups_total", result = "untold";
            "Names of clients that servers could not be asked for at a login: what was known counted."
        host_names_found:
            "trunkline_host_name_lookups_total", result = "named";
            "Look-ups of the names of clients' hosts, by what came of them."
        host_names_missing:
            "trunkline_host_name_lookups_total", result = "nameless";
            "Addresses of clients that have no name."
        host_names_unconfirmed:
            "trunkline_host_name_lookups_total", result = "unconfirmed";
            "Addresses of clients with a name that does not lead back to them."
        host_names_failed:
            "trunkline_host_name_lookups_total", result = "failed";
            "Look-ups of the names of clients' hosts that failed or took too long."
        host_names_unasked:
            "trunkline_host_name_lookups_total", result = "too_many";
            "Logins whose host's name was not asked for, since too many look-ups are under way."
        proxy_headers: "trunkline_proxy_headers_total";
            "Connections whose client's address came with a PROXY header."
        client_tls_12:
            "trunkline_client_tls_handshakes_total", result = "tls12";
            "TLS handshakes with clients, by what came of them."
        client_tls_12_resumed:
            "trunkline_client_tls_handshakes_total", result = "tls12_resumed";
            "TLS 1.2 handshakes with clients that resumed an earlier session."
        client_tls_13:
            "trunkline_client_tls_handshakes_total", result = "tls13";
            "TLS 1.3 handshakes with clients."
        client_tls_13_resumed:
            "trunkline_client_tls_handshakes_total", result = "tls13_resumed";
            "TLS 1.3 handshakes with clients that resumed an earlier session."
        client_tls_failed:
            "trunkline_client_tls_handshakes_total", result = "failed";
            "TLS handshakes with clients that failed."
        server_tls_12:
            "trunkline_backend_tls_handshakes_total", result = "tls12";
            "TLS handshakes with servers, by what came of them."
        server_tls_12_resumed:
            "trunkline_backend_tls_handshakes_total", result = "tls12_resumed";
            "TLS 1.2 handshakes with servers that resumed an earlier session."
        server_tls_13:
            "trunkline_backend_tls_handshakes_total", result = "tls13";
            "TLS 1.3 handshakes with servers."
        server_tls_13_resumed:
            "trunkline_backend_tls_handshakes_total", result = "tls13_resumed";
            "TLS 1.3 handshakes with servers that resumed an earlier session."
        server_tls_failed:
            "trunkline_backend_tls_handshakes_total", result = "failed";
            "TLS handshakes with servers that failed."
        clients_idle_timeout: "trunkline_client_idle_timeouts_total";
            "Clients closed because they were idle for longer than wait_timeout."
        traces_fetched: "trunkline_session_traces_total";
            "Times that warnings or a last insert id were fetched for a session before its connection served another one."
        traces_late: "trunkline_session_traces_late_total";
            "Times that a statement waited connect_timeout_server_max in vain for what was fetched for its session."
        counts_given: "trunkline_session_counts_total";
            "Times that a connection was given a session's FOUND_ROWS() in place of another session's, before a statement that may ask for it."
        transactions_moved: "trunkline_transactions_moved_total";
            "Transactions that only read and began anew on the writer, as something was said in them that is not proven to read."
        causal_reached: "trunkline_causal_reads_total", outcome = "reached";
            "Reads that a replica could answer at once which shows what their session has written."
        causal_waited: "trunkline_causal_reads_total", outcome = "waited";
            "Reads that waited until a replica showed it."
        causal_writer: "trunkline_causal_reads_total", outcome = "writer";
            "Reads that no replica could answer, and that the writer did."
        causal_failed: "trunkline_causal_reads_total", outcome = "error";
            "Reads that no replica could answer, and that failed."
        causal_stale: "trunkline_causal_reads_total", outcome = "stale";
            "Reads that no replica could answer, and that one did with what it has."
        causal_of_session: "trunkline_causal_reads_by_scope_total", scope = "session";
            "Reads that had to see what their session had written."
        causal_of_user: "trunkline_causal_reads_by_scope_total", scope = "user";
            "Reads that had to see what any session of their user had written."
        causal_of_hostgroup: "trunkline_causal_reads_by_scope_total", scope = "hostgroup";
            "Reads that had to see what anybody had written in the writer hostgroup."
        causal_of_all: "trunkline_causal_reads_by_scope_total", scope = "global";
            "Reads that had to see what anybody had written on the same servers."
        causal_bounded: "trunkline_causal_reads_by_scope_total", scope = "bounded";
            "Reads that had to see all that was older than a bound."
        causal_wait_us: "trunkline_causal_wait_microseconds_total";
            "Time that reads waited for a replica in all."
        causal_doubts: "trunkline_causal_doubts_total";
            "Times that it became unknown what a session has written: an error, a lost connection, a server that does not number or report writes. Its reads go to the writer until its next write."
        transactions_begun_late: "trunkline_transactions_begun_late_total";
            "Transactions whose BEGIN was sent to a server with their first statement (lazy_transactions)."
        transactions_ended_unsent: "trunkline_transactions_ended_unsent_total";
            "COMMITs and ROLLBACKs that were answered by the proxy, as nothing was open on a server (lazy_transactions)."
        statements_kept: "trunkline_statements_kept_total";
            "Statements that a rule, a hint or fast routing names another hostgroup for, and that stay where their session is held, or where its transaction is."
        binlog_dumps: "trunkline_binlog_dumps_total";
            "Times that a replica or another reader of the binary log was given a server connection of its own."
        client_files_bytes: "trunkline_client_file_bytes_total";
            "Bytes of clients' files relayed to servers (LOAD DATA LOCAL INFILE)."
        clients_killed: "trunkline_client_kills_total";
            "Sessions that a client ended by KILL."
        statements_killed: "trunkline_statement_kills_total";
            "Times that a client asked for a statement's end by KILL QUERY."
        statements_timed_out: "trunkline_statement_timeouts_total";
            "Statements that ran out of the time that a rule, a hint or default_query_timeout set."
        statements_delayed: "trunkline_statement_delays_total";
            "Statements held back because a rule, a hint or default_query_delay said so."
        definitions_held_back: "trunkline_definition_delays_total";
            "Definitions (DDL) held back because a read that was sent elsewhere as well was still in flight, so that it is not run as something else."
        statements_rewritten: "trunkline_statement_rewrites_total";
            "Statements sent as rules rewrote them."
        statements_undecided: "trunkline_statements_undecided_total";
            "Statements for which it could not be decided whether some rule's pattern matches. trunkline_rule_undecided_total tells the rules."
        rewrites_skipped: "trunkline_statement_rewrites_skipped_total";
            "Rewrites left out: the parameters would not have fitted, or the text grew too long."
        mirrors_queued: "trunkline_mirror_statements_total", event = "queued";
            "Copies of statements for other hostgroups (mirroring), by what became of them. Those queued run, unless the process stops."
        mirrors_run: "trunkline_mirror_statements_total", event = "run";
            "Copies that ran, or could not."
        mirrors_failed: "trunkline_mirror_statements_total", event = "failed";
            "Copies that ended with an error."
        mirrors_dropped: "trunkline_mirror_statements_total", event = "dropped";
            "Copies dropped because too many waited already, or too many bytes."
        mirrors_skipped: "trunkline_mirror_statements_total", event = "skipped";
            "Statements that were to be mirrored and were not: to their own servers, or with effects on their session."
        cache_lookups: "trunkline_cache_lookups_total";
            "Statements that were looked up in the result cache."
        cache_hits: "trunkline_cache_hits_total";
            "Statements answered from the result cache."
        cache_waits: "trunkline_cache_waits_total";
            "Statements that waited for the answer to an equal one instead of asking a server too."
        cache_shared_asked: "trunkline_cache_shared_lookups_total", result = "asked";
            "Statements that waited for the shared cache (Redis), by what came of it. Those asked that had no answer there went to a server."
        cache_shared_hits: "trunkline_cache_shared_lookups_total", result = "hit";
            "Statements answered with what the shared cache had."
        cache_shared_timeouts: "trunkline_cache_shared_lookups_total", result = "timeout";
            "Statements that went on because the shared cache took longer than query_cache_redis_timeout."
        cache_stored: "trunkline_cache_stores_total";
            "Results stored in the cache."
        cache_stored_bytes: "trunkline_cache_stored_bytes_total";
            "Bytes of results stored in the cache."
        cache_sent_bytes: "trunkline_cache_sent_bytes_total";
            "Bytes sent to clients from the cache."
        client_bytes_received: "trunkline_client_received_bytes_total";
            "Bytes received from clients."
        client_bytes_sent: "trunkline_client_sent_bytes_total";
            "Bytes sent to clients."
        servers_held_back: "trunkline_client_pauses_total";
            "Times that reading from a server stopped because a client read too slowly."
        commands: "trunkline_client_commands_total";
            "Commands received from clients, statements among them."
        errors_sent: "trunkline_client_error_packets_total";
            "Error packets that the proxy itself sent to clients."
        statements: "trunkline_statements_total";
            "Statements that came to an end, with a result or an error."
        statement_errors: "trunkline_statement_errors_total";
            "Statements that ended with an error, the server's or the proxy's."
        statements_slow: "trunkline_statement_slow_total";
            "Statements that took longer than long_query_time."
        stmts_prepared:
            "trunkline_client_statement_commands_total", command = "prepare";
            "Commands of clients for prepared statements, by command."
        stmts_executed:
            "trunkline_client_statement_commands_total", command = "execute";
            "Executions of prepared statements that clients asked for."
        stmts_closed:
            "trunkline_client_statement_commands_total", command = "close";
            "Prepared statements that clients closed."
        schemas_chosen: "trunkline_client_schema_commands_total";
            "Schemas that clients chose by COM_INIT_DB."
        statements_answered: "trunkline_statement_local_answers_total";
            "Statements that the proxy answered itself, without a server."
        statements_retried: "trunkline_statement_retries_total";
            "Statements sent again because their first server did not answer and that was safe."
        statements_pipelined: "trunkline_statement_pipelined_total";
            "Statements sent to a connection while others were in flight on it."
        shared_depth: "trunkline_statement_pipeline_depth_total";
            "Statements in flight on a connection when one joined them, in sum. By trunkline_statement_pipelined_total: the mean depth."
        shared_wait_us: "trunkline_statement_pipeline_wait_microseconds_total";
            "Time that statements waited behind others on their connection."
        statements_overtaken: "trunkline_statement_resends_total";
            "Reads sent to another connection because one in front of them took too long."
        statements_awaited_state: "trunkline_statement_state_waits_total";
            "Statements that waited until their server had confirmed the session's state."
        statements_awaited_names: "trunkline_statement_catalog_waits_total";
            "Statements that waited until the servers' dictionaries had said what their names mean."
        statements_queued: "trunkline_statement_waits_total";
            "Statements that waited for a server connection."
        queue_time_us: "trunkline_statement_wait_microseconds_total";
            "Time that statements waited for a server connection until they got one."
        statements_held: "trunkline_statement_holds_total";
            "Statements, logins and connections of users with fast_forward that were held, as their cluster had no writer or their hostgroup was paused."
        hold_time_us: "trunkline_statement_hold_microseconds_total";
            "Time for which they were held."
        holds_timed_out: "trunkline_statement_hold_failures_total", result = "timeout";
            "Those that were held in vain: for all of hold_timeout, or, as queue_max were held already, not at all."
        holds_refused: "trunkline_statement_hold_failures_total", result = "full";
            "Those that were not held, as queue_max were held already."
        refusals_withheld: "trunkline_read_only_refusals_total", result = "withheld";
            "Writes that a cluster's server refused as it is read-only or has lost its group, by what became of them. Withheld: nothing had been done, and they waited for the next writer."
        refusals_told_held: "trunkline_read_only_refusals_total", result = "session_held";
            "Such writes whose client was told, as its session held something on that server: a transaction, a temporary table."
        refusals_told_unproven: "trunkline_read_only_refusals_total", result = "unproven";
            "Such writes whose client was told, as it is not proven that nothing had been done."
        refusals_told_late: "trunkline_read_only_refusals_total", result = "timeout";
            "Such writes whose client was told, as no other server had become the writer within hold_timeout."
        statements_refused_no_server:
            "trunkline_statement_refusals_total", cause = "no_server";
            "Statements refused because no server connection could be had, by cause."
        statements_refused_none_online:
            "trunkline_statement_refusals_total", cause = "none_online";
            "Statements refused because no server of the hostgroup was online."
        statements_refused_no_writer:
            "trunkline_statement_refusals_total", cause = "no_writer";
            "Statements refused because a cluster had no writer for all of hold_timeout."
        statements_refused_all_at_max_connections:
            "trunkline_statement_refusals_total", cause = "all_at_max_connections";
            "Statements refused because every online server was at max_connections."
        statements_refused_all_busy:
            "trunkline_statement_refusals_total", cause = "all_busy";
            "Statements refused because every connection stayed busy for too long."
        statements_refused_queue_full:
            "trunkline_statement_refusals_total", cause = "queue_full";
            "Statements refused because the hostgroup's queue was full."
        statements_refused_connect_timeout:
            "trunkline_statement_refusals_total", cause = "connect_timeout";
            "Statements refused because no connection came up in time."
        statements_refused_authentication_failed:
            "trunkline_statement_refusals_total", cause = "authentication_failed";
            "Statements refused because the server did not accept the user's credentials."
        statements_refused_stopping:
            "trunkline_statement_refusals_total", cause = "stopping";
            "Statements refused because the proxy is stopping."
        statements_refused_firewall:
            "trunkline_statement_refusals_total", cause = "firewall";
            "Statements that the firewall denied."
        statements_refused_limit:
            "trunkline_statement_refusals_total", cause = "limit";
            "Statements refused because a limit on rates had no token for them in time."
        statements_detected: "trunkline_firewall_detections_total";
            "Statements that the firewall would have denied, of users in mode DETECTING."
        rows_sent: "trunkline_statement_sent_rows_total";
            "Rows of result sets sent to clients."
        rows_affected: "trunkline_statement_affected_rows_total";
            "Rows that statements changed, as their servers reported."
        sessions_left: "trunkline_worker_sessions_moved_total", direction = "out";
            "Sessions that a busy worker gave to a less busy one, and those that arrived there."
        sessions_arrived: "trunkline_worker_sessions_moved_total", direction = "in";
            "Sessions that arrived at a less busy worker."
        sessions_synchronised: "trunkline_session_syncs_total";
            "Statements that were preceded by session state in the same write."
        sessions_not_synchronised: "trunkline_session_sync_failures_total";
            "Times that a server refused a session's state."
        statements_prepared: "trunkline_backend_prepared_statements_total";
            "Statements prepared on server connections, for clients or again for them."
        statements_prepared_again: "trunkline_backend_reprepared_statements_total";
            "Statements prepared because the connection that was to run them did not have them."
        server_connections_opened: "trunkline_backend_connections_opened_total";
            "Server connections begun, whether or not they came up."
        server_connections_lost: "trunkline_backend_connections_lost_total";
            "Server connections lost while a session held them."
        transactions_rolled_back: "trunkline_session_transactions_rolled_back_total";
            "Transactions that were rolled back with their server connection, and whose sessions went on (1213)."
        replays_begun: "trunkline_transaction_replays_begun_total";
            "Transactions that were lost with their server connection and began to be repeated on another one."
        replays_done: "trunkline_transaction_replays_total", result = "done";
            "Repetitions of transactions by what became of them. Done: their clients were told nothing."
        replays_failed: "trunkline_transaction_replays_total", result = "failed";
            "Repetitions that were given up: their clients were told 1213."
        replays_late: "trunkline_transaction_replays_total", result = "late";
            "Transactions that were not repeated as they were too old, or had been repeated too often."
        replays_differed: "trunkline_transaction_replay_differences_total";
            "Repetitions that were given up as a statement was told something else the second time."
        replays_unfit_statement: "trunkline_transaction_replay_refusals_total", reason = "statement";
            "Transactions that can't be repeated, by the reason. Here: a statement or command that is not repeated."
        replays_unfit_effects: "trunkline_transaction_replay_refusals_total", reason = "effects";
            "Transactions with a statement that may do something outside of them, or of which nobody can say what it does."
        replays_unfit_engine: "trunkline_transaction_replay_refusals_total", reason = "engine";
            "Transactions that write to a table without transactions."
        replays_unfit_past: "trunkline_transaction_replay_refusals_total", reason = "past";
            "Transactions with a statement that reads what one before it left in the session."
        replays_unfit_session: "trunkline_transaction_replay_refusals_total", reason = "session";
            "Transactions that change their session, or whose session holds more than them."
        replays_unfit_failed: "trunkline_transaction_replay_refusals_total", reason = "failed";
            "Transactions with a statement that failed so that nobody knows what is left of them."
        replays_unfit_begin: "trunkline_transaction_replay_refusals_total", reason = "begin";
            "Transactions with a mode or level of their own, or that nobody has seen begin."
        replays_unfit_size: "trunkline_transaction_replay_refusals_total", reason = "size";
            "Transactions that are longer than what is kept."
        commit_outcomes_committed: "trunkline_commit_outcomes_total", outcome = "committed";
            "COMMITs and writes in autocommit whose answer was lost, by what the proxy found out. Committed: a COMMIT was answered with OK, a write with an error that says so."
        commit_outcomes_undone: "trunkline_commit_outcomes_total", outcome = "not_committed";
            "COMMITs and writes in autocommit whose answer was lost and that were not carried out: 1213, or a repetition."
        commit_outcomes_unmarked: "trunkline_commit_outcomes_unknown_total", cause = "no_mark";
            "COMMITs and writes in autocommit whose answer was lost and of which nobody knows whether they were carried out (2013), by cause. Here: their connection had no mark; the account may not set one, or there was none left."
        commit_outcomes_statement: "trunkline_commit_outcomes_unknown_total", cause = "statement";
            "Lost statements that are no plain COMMIT and no plain write."
        commit_outcomes_doubt: "trunkline_commit_outcomes_unknown_total", cause = "doubt";
            "Those behind a statement that failed on the same connection and may have committed something."
        commit_outcomes_rights: "trunkline_commit_outcomes_unknown_total", cause = "rights";
            "Those whose server did not let the account end its own connection, or be asked."
        commit_outcomes_unlogged: "trunkline_commit_outcomes_unknown_total", cause = "not_logged";
            "Those whose server does not log everything."
        commit_outcomes_history: "trunkline_commit_outcomes_unknown_total", cause = "history";
            "Those whose server lacked transactions that it had told of."
        commit_outcomes_time: "trunkline_commit_outcomes_unknown_total", cause = "time";
            "Those that no server has told of within commit_outcome_timeout."
        commit_outcomes_unacknowledged: "trunkline_commit_outcomes_unknown_total", cause = "unacknowledged";
            "Those in the log of a server that waits for replicas (semi-synchronous replication), which may be lost with it."
        commit_outcomes_busy: "trunkline_commit_outcomes_unknown_total", cause = "busy";
            "Those that were not asked for, as too many were."
        trace_statements: "trunkline_trace_statements_total";
            "Statements that were to have spans, with those that found no room."
        trace_ring_full: "trunkline_trace_ring_full_total";
            "Statements that have no spans as the worker's ring was full (trace_ring_max)."
        trace_parents_ignored: "trunkline_trace_parents_ignored_total";
            "Statements whose traceparent, in a comment or a query attribute, could not be read."
        server_connections_abandoned: "trunkline_backend_connections_abandoned_total";
            "Server connections closed as the answer to a client that had gone did not end in time."
        server_connections_reset:
            "trunkline_backend_connections_reset_total", reason = "session";
            "Server connections reset with COM_RESET_CONNECTION, by what made it necessary."
        connections_reset_unknown:
            "trunkline_backend_connections_reset_total", reason = "unknown";
            "Server connections reset as a statement used what nothing is known of."
        connections_reset_hidden:
            "trunkline_backend_connections_reset_total", reason = "hidden";
            "Server connections reset as a view or trigger may have left something."
        connections_reset_routine:
            "trunkline_backend_connections_reset_total", reason = "routine";
            "Server connections reset as stored code may have left something."
        connections_reset_failed:
            "trunkline_backend_connections_reset_total", reason = "failed";
            "Server connections reset as a statement failed that may have done a part of its work."
        connections_reset_user_variables:
            "trunkline_backend_connections_reset_total", reason = "user_variables";
            "Server connections reset as they had user variables that the next session never set."
        server_connections_moved: "trunkline_backend_connections_moved_total";
            "Idle server connections handed to another worker that needed one."
        server_protocol_errors: "trunkline_backend_protocol_errors_total";
            "Server connections closed because the server broke the protocol."
        servers_shunned: "trunkline_backend_shuns_total";
            "Times that a worker took a server out after failures."
        connects_not_tried: "trunkline_backend_connects_not_tried_total";
            "Connects to servers that could not be begun, as the machine had no descriptors, memory or ports."
        silent_connections_left: "trunkline_backend_silent_connections_left_total";
            "Connections to servers that answered nothing any more, closed for their reads to be answered by others."
        pinned_sessions_gave_way: "trunkline_sessions_gave_way_total";
            "Idle sessions that lost their server connection, as their user's held more than pinned_share_max while others waited."
        statements_late: "trunkline_statements_late_total";
            "Statements that were refused as they could not begin within their max_execution_time or max_statement_time."
        servers_ejected: "trunkline_backend_ejections_total";
            "Times that a worker took a server out as it did much worse than the others of its hostgroup."
        servers_readmitted: "trunkline_backend_readmissions_total";
            "Times that a server came back which had been ejected."
        statements_spilled: "trunkline_statement_zone_spills_total";
            "Statements that went to another zone, as the servers of the proxy's own had no room."
        session_panics: "trunkline_session_panics_total";
            "Sessions ended by a panic in the proxy. Any value but 0 is a defect to report."
        snapshots_applied: "trunkline_worker_snapshots_applied_total";
            "Configuration snapshots that workers took over."
        log_lines_dropped: "trunkline_worker_log_lines_dropped_total";
            "Log lines left out because there were too many."
        batches: "trunkline_worker_batches_total";
            "Rounds of a worker's loop: one wait, then all events that were ready."
        socket_reads: "trunkline_worker_socket_reads_total";
            "Read calls on sockets."
        socket_writes: "trunkline_worker_socket_writes_total";
            "Write calls on sockets."
        pauses: "trunkline_worker_pauses_total";
            "Times that a worker left its sockets alone for a moment, so that more came at once."
        paused_us: "trunkline_worker_paused_microseconds_total";
            "What those moments sum up to, as planned."
        accept_errors: "trunkline_worker_accept_errors_total";
            "Accept calls that failed, when the process is out of file descriptors say."
    }
}

counters! {
    /// What one worker counts for one server entry.
    pub struct ServerCounters {
        statements: "trunkline_server_statements_total";
            "Statements that the server answered, or failed to."
        errors: "trunkline_server_errors_total";
            "Statements on the server that ended with an error."
        retried: "trunkline_server_retries_total";
            "Statements taken to another connection because this server did not answer."
        causal_reads: "trunkline_server_causal_reads_total";
            "Statements of these that had to see particular transactions (causal reads)."
        bytes_sent: "trunkline_server_sent_bytes_total";
            "Bytes sent to the server."
        bytes_received: "trunkline_server_received_bytes_total";
            "Bytes received from the server."
        connect_ok: "trunkline_server_connects_total", result = "ok";
            "Connections opened and authenticated, and attempts that failed."
        connect_err: "trunkline_server_connects_total", result = "error";
            "Attempts to connect that failed."
    }
}

counters! {
    /// What one worker counts for one TCP listener.
    pub struct TcpCounters {
        accepted: "trunkline_tcp_clients_accepted_total";
            "Clients that a TCP listener accepted."
        refused: "trunkline_tcp_clients_refused_total";
            "Clients of a TCP listener that got no server and were closed."
        timed_out: "trunkline_tcp_clients_timed_out_total";
            "Clients of a TCP listener that were closed because an end was silent for too long."
        cut: "trunkline_tcp_clients_cut_total";
            "Clients of a TCP listener that were closed because their server was taken away, or at the end of a stop."
    }
}

counters! {
    /// What one worker counts for one server of a TCP listener.
    pub struct TcpServerCounters {
        connected: "trunkline_tcp_server_connects_total", result = "ok";
            "Connections that came up for clients of a TCP listener, and attempts that failed."
        connect_failures: "trunkline_tcp_server_connects_total", result = "error";
            "Attempts to connect for clients of a TCP listener that failed."
        bytes_to_server: "trunkline_tcp_server_sent_bytes_total";
            "Bytes from clients of a TCP listener to the server."
        bytes_to_client: "trunkline_tcp_server_received_bytes_total";
            "Bytes from the server to clients of a TCP listener."
        reads: "trunkline_tcp_server_reads_total";
            "Reads that brought bytes, from clients of a TCP listener or from the server."
    }
}

/// `COM_QUERY`, which is not told apart from others here.
const QUERY: u8 = 0x03;

impl Counters {
    /// Counts a read that has to see writes of this scope.
    pub fn causal_read(&mut self, scope: CausalReads) {
        let counter = match scope {
            CausalReads::Off | CausalReads::Session => &mut self.causal_of_session,
            CausalReads::User => &mut self.causal_of_user,
            CausalReads::Hostgroup => &mut self.causal_of_hostgroup,
            CausalReads::Global => &mut self.causal_of_all,
            CausalReads::Bounded(_) => &mut self.causal_bounded,
        };
        *counter += 1;
    }

    /// Counts a command of a client by its first byte.
    #[inline]
    pub fn command(&mut self, kind: Option<u8>) {
        self.commands += 1;
        match kind {
            Some(QUERY) | None => {}
            Some(0x02) => self.schemas_chosen += 1,
            Some(0x16) => self.stmts_prepared += 1,
            // The second one is MariaDB's bulk execution.
            Some(0x17 | 0xFA) => self.stmts_executed += 1,
            Some(0x19) => self.stmts_closed += 1,
            Some(_) => {}
        }
    }

    /// Counts a statement that was refused, under its cause.
    pub(crate) fn statement_refused(&mut self, cause: RefusalCause) {
        let counter = match cause {
            RefusalCause::NoServer => &mut self.statements_refused_no_server,
            RefusalCause::NoneOnline => &mut self.statements_refused_none_online,
            RefusalCause::NoWriter => &mut self.statements_refused_no_writer,
            RefusalCause::AllAtMaxConnections => {
                &mut self.statements_refused_all_at_max_connections
            }
            RefusalCause::AllBusy => &mut self.statements_refused_all_busy,
            RefusalCause::QueueFull => &mut self.statements_refused_queue_full,
            RefusalCause::ConnectTimeout => &mut self.statements_refused_connect_timeout,
            RefusalCause::AuthenticationFailed => {
                &mut self.statements_refused_authentication_failed
            }
            RefusalCause::Stopping => &mut self.statements_refused_stopping,
        };
        *counter = counter.saturating_add(1);
    }

    /// Counts a client that was turned away, under its cause.
    pub fn client_refused(&mut self, cause: ClientRefusal) {
        let counter = match cause {
            ClientRefusal::TooManyConnections => &mut self.clients_refused_too_many,
            ClientRefusal::UserConnections => &mut self.clients_refused_user_limit,
            ClientRefusal::AccessDenied => &mut self.clients_refused_access_denied,
            ClientRefusal::UnknownSchema => &mut self.clients_refused_unknown_schema,
            ClientRefusal::HandshakeMalformed => &mut self.clients_refused_handshake,
            ClientRefusal::TlsRequired => &mut self.clients_refused_tls_required,
            ClientRefusal::TlsFailed => &mut self.clients_refused_tls_failed,
            ClientRefusal::AddressConnections => &mut self.clients_refused_address_limit,
            ClientRefusal::AddressNotAllowed => &mut self.clients_refused_not_allowed,
            ClientRefusal::AddressBlocked => &mut self.clients_refused_blocked,
            ClientRefusal::HalfOpen => &mut self.clients_refused_half_open,
            ClientRefusal::ProxyHeader => &mut self.clients_refused_proxy_header,
            ClientRefusal::HandshakeTimeout => &mut self.clients_refused_handshake_timeout,
        };
        *counter = counter.saturating_add(1);
    }

    /// Counts a connection that is reset before another session gets it.
    pub fn connection_reset(&mut self, reason: ResetReason) {
        let counter = match reason {
            ResetReason::Failed => &mut self.connections_reset_failed,
            ResetReason::Unknown => &mut self.connections_reset_unknown,
            ResetReason::Hidden => &mut self.connections_reset_hidden,
            ResetReason::Routine => &mut self.connections_reset_routine,
            ResetReason::UserVariables => &mut self.connections_reset_user_variables,
        };
        *counter = counter.saturating_add(1);
    }

    /// Clients connected now.
    pub fn clients_connected(&self) -> u64 {
        let came = self.clients_accepted.saturating_add(self.sessions_arrived);
        let went = self.clients_disconnected.saturating_add(self.sessions_left);
        debug_assert!(went <= came);
        came.saturating_sub(went)
    }

    /// Server connections reset between sessions, by reason; only those that happened.
    pub fn resets(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let is_reset = |(spec, count): &(&CounterSpec, u64)| {
            *count > 0 && spec.metric == "trunkline_backend_connections_reset_total"
        };
        self.iter().filter(is_reset).filter_map(|(spec, count)| {
            let (_, reason) = spec.label?;
            (reason != "session").then_some((reason, count))
        })
    }

    /// Clients and statements refused, by what was refused and why; only those that happened.
    pub fn refusals(&self) -> impl Iterator<Item = (&'static CounterSpec, u64)> {
        self.iter().filter(|(spec, count)| *count > 0 && spec.metric.ends_with("_refusals_total"))
    }
}

/// Why a connection that no session holds is reset before another one gets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ResetReason {
    /// A statement failed that may have done a part of its work.
    Failed,
    /// A statement used names of which nothing is known.
    Unknown,
    /// A view or trigger may have left something.
    Hidden,
    /// Stored code may have left something.
    Routine,
    /// It has user variables that the next session never set.
    UserVariables,
}

/// Why a client was turned away before its first statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClientRefusal {
    /// The proxy is at its `max_connections`.
    TooManyConnections,
    /// The user is at its `max_connections`.
    UserConnections,
    /// Unknown user or wrong password.
    AccessDenied,
    /// The schema in the handshake does not exist.
    UnknownSchema,
    /// The handshake response could not be read.
    HandshakeMalformed,
    /// It did not use TLS as it must.
    TlsRequired,
    /// Its TLS handshake failed.
    TlsFailed,
    /// Its address is at `max_connections_per_address`.
    AddressConnections,
    /// Its listener does not let its address in.
    AddressNotAllowed,
    /// Its address has to wait because of failed logins.
    AddressBlocked,
    /// It was the oldest of too many that had not logged in.
    HalfOpen,
    /// Its PROXY header is malformed, late, or not from a balancer.
    ProxyHeader,
    /// The handshake took too long.
    HandshakeTimeout,
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn all_specs() -> impl Iterator<Item = &'static CounterSpec> {
        let tcp = TcpCounters::SPECS.iter().chain(TcpServerCounters::SPECS);
        Counters::SPECS.iter().chain(ServerCounters::SPECS).chain(tcp)
    }

    #[test]
    fn counters_are_named_by_the_rule_and_only_once() {
        let mut seen = HashSet::new();
        for spec in all_specs() {
            let name = spec.metric;
            assert!(name.starts_with("trunkline_") && name.ends_with("_total"), "{name}");
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
            assert!(seen.insert((name, spec.label)), "{name} {:?} is declared twice", spec.label);
            assert!(spec.help.ends_with('.'), "{name}");
        }
    }

    #[test]
    fn counters_of_one_metric_are_neighbours_and_labelled() {
        let tcp = [TcpCounters::SPECS, TcpServerCounters::SPECS];
        for specs in [Counters::SPECS, ServerCounters::SPECS].into_iter().chain(tcp) {
            let mut seen = HashSet::new();
            for group in specs.chunk_by(|a, b| a.metric == b.metric) {
                assert!(seen.insert(group[0].metric), "{} is not in one place", group[0].metric);
                assert!(group.len() == 1 || group.iter().all(|spec| spec.label.is_some()));
            }
        }
    }

    #[test]
    fn refusals_count_under_their_cause() {
        let mut counters = Counters::default();
        counters.statement_refused(RefusalCause::QueueFull);
        counters.client_refused(ClientRefusal::AccessDenied);
        counters.client_refused(ClientRefusal::AccessDenied);
        let seen: Vec<_> = counters.refusals().map(|(spec, count)| (spec.label, count)).collect();
        assert_eq!(
            seen,
            [(Some(("cause", "access_denied")), 2), (Some(("cause", "queue_full")), 1)]
        );
    }

    #[test]
    fn merging_adds_every_counter_and_does_not_overflow() {
        let mut one = Counters { statements: 2, rows_affected: u64::MAX, ..Counters::default() };
        one.merge(&Counters { statements: 3, rows_affected: 1, batches: 7, ..Counters::default() });
        assert_eq!((one.statements, one.rows_affected, one.batches), (5, u64::MAX, 7));
    }
}
