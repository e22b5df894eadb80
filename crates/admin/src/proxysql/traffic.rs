//! Clients, servers, statements.

use trunkline_stats::metrics::MetricKind;

use super::{
    Figure,
    Source::{Report, Zero},
    command, connections, figures, got, refused_clients, resets, servers, unconnected,
};

figures! { TRAFFIC;
    counter "ProxySQL_Uptime" "proxysql_uptime_seconds_total" [] "Seconds since the start." =>
        Report(|r| r.process.now_unix_sec.saturating_sub(r.process.started_unix_sec));
    gauge "Active_Transactions" "proxysql_active_transactions" []
        "Sessions in a transaction now." =>
        Report(|r| r.pins.get("transaction").copied().unwrap_or_default());
    counter "Client_Connections_aborted" "proxysql_client_connections_total" [status = "aborted"]
        "Clients' connections: refused before their first statement, and all." =>
        Report(refused_clients);
    counter "Client_Connections_created" "proxysql_client_connections_total" [status = "created"]
        "" => Report(|r| r.counters.clients_accepted);
    gauge "Client_Connections_connected" "proxysql_client_connections_connected" []
        "Clients connected now." => Report(|r| r.clients_connected());
    gauge "Client_Connections_non_idle" "proxysql_client_connections_non_idle" []
        "Clients that workers serve now: all." => Report(|r| r.clients_connected());
    gauge "Client_Connections_hostgroup_locked" "proxysql_client_connections_hostgroup_locked" []
        "Always 0: no session is locked to a hostgroup." => Zero;
    counter "Server_Connections_aborted" "proxysql_server_connections_total" [status = "aborted"]
        "Connections to servers, by what came of them." =>
        Report(|r| servers(r, |row| row.counters.connect_err));
    counter "Server_Connections_created" "proxysql_server_connections_total" [status = "created"]
        "" => Report(|r| servers(r, |row| row.counters.connect_ok));
    counter "Server_Connections_delayed" "proxysql_server_connections_total" [status = "delayed"]
        "" => Zero;
    gauge "Server_Connections_connected" "proxysql_server_connections_connected" []
        "Connections to servers now." => Report(connections);
    counter "Queries_backends_bytes_recv" "proxysql_queries_backends_bytes_total"
        [traffic_flow = "received"] "Bytes from and to servers." =>
        Report(|r| servers(r, |row| row.counters.bytes_received));
    counter "Queries_backends_bytes_sent" "proxysql_queries_backends_bytes_total"
        [traffic_flow = "sent"] "" => Report(|r| servers(r, |row| row.counters.bytes_sent));
    counter "Queries_frontends_bytes_recv" "proxysql_queries_frontends_bytes_total"
        [traffic_flow = "received"] "Bytes from and to clients." =>
        Report(|r| r.counters.client_bytes_received);
    counter "Queries_frontends_bytes_sent" "proxysql_queries_frontends_bytes_total"
        [traffic_flow = "sent"] "" => Report(|r| r.counters.client_bytes_sent);
    counter "Query_Processor_time_nsec" "proxysql_query_processor_time_seconds_total" []
        "Always 0: the time that rules take is not measured." => Zero;
    counter "Backend_query_time_nsec" "" [] "" =>
        Report(|r| r.latency.sum_us().saturating_mul(1_000));
    counter "" "proxysql_backend_query_time_seconds_total" []
        "Whole seconds that statements took, with the time that they waited." =>
        Report(|r| r.latency.sum_us() / 1_000_000);
    gauge "mysql_backend_buffers_bytes" "proxysql_mysql_backend_buffers_bytes" []
        "Always 0: all memory of what comes from outside is one budget." => Zero;
    gauge "mysql_frontend_buffers_bytes" "proxysql_mysql_frontend_buffers_bytes" []
        "Memory in use of memory_max." => Report(|r| r.process.memory.total);
    gauge "mysql_session_internal_bytes" "proxysql_mysql_session_internal_bytes" []
        "Always 0: not measured." => Zero;
    counter "Com_autocommit" "proxysql_com_autocommit_cnt_total" []
        "Always 0: SET autocommit is counted as SET." => Zero;
    counter "Com_autocommit_filtered" "proxysql_com_autocommit_cnt_filtered_total" [] "Always 0." =>
        Zero;
    counter "Com_commit" "proxysql_com_commit_cnt_total" [] "COMMIT statements." =>
        Report(|r| command(r, "COMMIT"));
    counter "Com_commit_filtered" "proxysql_com_commit_cnt_filtered_total" []
        "Always 0: not told apart." => Zero;
    counter "Com_rollback" "proxysql_com_rollback_total" [] "ROLLBACK statements." =>
        Report(|r| command(r, "ROLLBACK"));
    counter "Com_rollback_filtered" "proxysql_com_rollback_filtered_total" []
        "Always 0: not told apart." => Zero;
    counter "Com_backend_change_user" "proxysql_com_backend_change_user_total" []
        "Server connections that were reset for another session." => Report(resets);
    counter "Com_backend_init_db" "proxysql_com_backend_init_db_total" []
        "Always 0: session state goes along with statements." => Zero;
    counter "Com_backend_set_names" "proxysql_com_backend_set_names_total" []
        "Always 0: session state goes along with statements." => Zero;
    counter "Com_frontend_init_db" "proxysql_com_frontend_init_db_total" []
        "COM_INIT_DB commands of clients." => Report(|r| r.counters.schemas_chosen);
    counter "Com_frontend_set_names" "proxysql_com_frontend_set_names_total" []
        "Always 0: SET NAMES is counted as SET." => Zero;
    counter "Com_frontend_use_db" "proxysql_com_frontend_use_db_total" [] "USE statements." =>
        Report(|r| command(r, "USE"));
    counter "Com_backend_stmt_prepare" "proxysql_com_backend_stmt_total" [op = "prepare"]
        "Commands for prepared statements on servers." =>
        Report(|r| r.counters.statements_prepared);
    counter "Com_backend_stmt_execute" "proxysql_com_backend_stmt_total" [op = "execute"] "" =>
        Report(|r| r.counters.stmts_executed);
    counter "Com_backend_stmt_close" "proxysql_com_backend_stmt_total" [op = "close"] "" => Zero;
    counter "Com_frontend_stmt_prepare" "proxysql_com_frontend_stmt_total" [op = "prepare"]
        "Commands of clients for prepared statements." => Report(|r| r.counters.stmts_prepared);
    counter "Com_frontend_stmt_execute" "proxysql_com_frontend_stmt_total" [op = "execute"] "" =>
        Report(|r| r.counters.stmts_executed);
    counter "Com_frontend_stmt_close" "proxysql_com_frontend_stmt_total" [op = "close"] "" =>
        Report(|r| r.counters.stmts_closed);
    gauge "Mirror_concurrency" "proxysql_mirror_concurrency" []
        "Copies of statements that run now." => Report(|r| r.mirrors_running);
    gauge "Mirror_queue_length" "proxysql_mirror_queue_lengths" []
        "Copies of statements that wait." => Report(|r| r.mirrors_waiting);
    counter "Questions" "proxysql_questions_total" [] "Statements." =>
        Report(|r| r.counters.statements);
    counter "Selects_for_update__autocommit0" "proxysql_selects_for_update__autocommit0_total" []
        "SELECT … FOR UPDATE and the like." => Report(|r| command(r, "SELECT_FOR_UPDATE"));
    counter "Slow_queries" "proxysql_slow_queries_total" []
        "Statements that took longer than long_query_time." =>
        Report(|r| r.counters.statements_slow);
    counter "GTID_consistent_queries" "proxysql_gtid_consistent_queries_total" []
        "Reads that a replica answered which shows what they have to see." =>
        Report(|r| r.counters.causal_reached + r.counters.causal_waited);
    counter "GTID_session_collected" "proxysql_gtid_session_collected_total" []
        "Always 0: not counted." => Zero;
    counter "ConnPool_get_conn_latency_awareness"
        "proxysql_connpool_get_conn_success_latency_awareness_total" []
        "Always 0: latency does not choose servers." => Zero;
    counter "ConnPool_get_conn_immediate" "proxysql_connpool_get_conn_success_immediate_total" []
        "Statements that had a server connection at once." =>
        Report(|r| got(r).saturating_sub(r.counters.statements_queued));
    counter "ConnPool_get_conn_success" "proxysql_connpool_get_conn_success_total" []
        "Statements that got a server connection." => Report(got);
    counter "ConnPool_get_conn_failure" "proxysql_connpool_get_conn_failure_total" []
        "Statements for which there was no server connection at once." =>
        Report(|r| r.counters.statements_queued);
    counter "generated_error_packets" "proxysql_generated_error_packets_total" []
        "Error packets that the proxy itself sent." => Report(|r| r.counters.errors_sent);
    counter "max_connect_timeouts" "proxysql_max_connect_timeouts_total" []
        "Statements refused with error 9001, as no connection could be had in time." =>
        Report(unconnected);
    counter "backend_lagging_during_query" "proxysql_backend_lagging_during_query_total" []
        "Always 0: a statement under way ends where it runs." => Zero;
    counter "backend_offline_during_query" "proxysql_backend_offline_during_query_total" []
        "Server connections that were lost while a session held them." =>
        Report(|r| r.counters.server_connections_lost);
    counter "queries_with_max_lag_ms" "proxysql_queries_with_max_lag_total" [] "Always 0." => Zero;
    counter "queries_with_max_lag_ms__delayed" "proxysql_queries_with_max_lag__delayed_total" []
        "Always 0." => Zero;
    counter "queries_with_max_lag_ms__total_wait_time_us"
        "proxysql_queries_with_max_lag__total_wait_time_total" [] "Always 0." => Zero;
    counter "mysql_unexpected_frontend_com_quit" "proxysql_mysql_unexpected_frontend_com_quit_total"
        [] "Always 0." => Zero;
    counter "hostgroup_locked_set_cmds" "proxysql_hostgroup_locked_set_cmds_total" []
        "Always 0: no session is locked to a hostgroup." => Zero;
    counter "hostgroup_locked_queries" "proxysql_hostgroup_locked_queries_total" []
        "Always 0: no session is locked to a hostgroup." => Zero;
    counter "mysql_unexpected_frontend_packets" "proxysql_mysql_unexpected_frontend_packets_total"
        [] "Always 0." => Zero;
    counter "aws_aurora_replicas_skipped_during_query"
        "proxysql_aws_aurora_replicas_skipped_during_query_total" [] "Always 0." => Zero;
    counter "automatic_detected_sql_injection" "proxysql_automatic_detected_sql_injection_total" []
        "Always 0." => Zero;
    counter "mysql_whitelisted_sqli_fingerprint" "proxysql_mysql_whitelisted_sqli_fingerprint_total"
        [] "Always 0." => Zero;
    counter "client_host_error_killed_connections" "proxysql_client_host_error_killed_connections"
        [] "Clients refused because of failed logins." =>
        Report(|r| r.counters.clients_refused_blocked);
    counter "mysql_set_wait_timeout_commands" "" [] "" => Zero;
    counter "mysql_timeout_terminated_connections" "" [] "" =>
        Report(|r| r.counters.clients_idle_timeout);
    counter "mysql_killed_backend_connections" "proxysql_mysql_killed_backend_connections_total" []
        "Sessions ended by KILL." => Report(|r| r.counters.clients_killed);
    counter "mysql_killed_backend_queries" "proxysql_mysql_killed_backend_queries_total" []
        "Statements ended by KILL QUERY." => Report(|r| r.counters.statements_killed);
}
