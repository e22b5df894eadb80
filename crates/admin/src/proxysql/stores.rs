//! Limits, pools, memory, the cache, and what there is no such thing of here.

use trunkline_stats::metrics::MetricKind;

use super::{
    Figure,
    Source::{Report, Zero},
    broken, checks, figures, got, resets, unconnected,
};

figures! { STORES;
    gauge "MySQL_Thread_Workers" "proxysql_mysql_thread_workers" [] "Threads that serve clients." =>
        Report(|r| u64::from(r.process.workers));
    counter "Access_Denied_Wrong_Password" "proxysql_access_denied_wrong_password_total" []
        "Clients refused for an unknown user or a wrong password." =>
        Report(|r| r.counters.clients_refused_access_denied);
    counter "Access_Denied_Max_Connections" "proxysql_access_denied_max_connections_total" []
        "Clients refused at max_connections." => Report(|r| r.counters.clients_refused_too_many);
    counter "Access_Denied_Max_User_Connections" "proxysql_access_denied_max_user_connections_total"
        [] "Clients refused at their user's max_connections." =>
        Report(|r| r.counters.clients_refused_user_limit);
    gauge "MySQL_Monitor_Workers" "proxysql_mysql_monitor_workers" []
        "Always 0: the monitor has no threads of its own." => Zero;
    gauge "MySQL_Monitor_Workers_Aux" "proxysql_mysql_monitor_workers_aux" []
        "Always 0: the monitor has no threads of its own." => Zero;
    counter "MySQL_Monitor_Workers_Started" "proxysql_mysql_monitor_workers_started_total" []
        "Always 0: the monitor has no threads of its own." => Zero;
    counter "MySQL_Monitor_connect_check_OK" "proxysql_mysql_monitor_connect_check_total"
        [status = "ok"] "Checks of the monitor." => Report(|r| checks(r, "connect").0);
    counter "MySQL_Monitor_connect_check_ERR" "proxysql_mysql_monitor_connect_check_total"
        [status = "err"] "" => Report(|r| checks(r, "connect").1);
    counter "MySQL_Monitor_ping_check_OK" "proxysql_mysql_monitor_ping_check_total" [status = "ok"]
        "Checks of the monitor." => Report(|r| checks(r, "ping").0);
    counter "MySQL_Monitor_ping_check_ERR" "proxysql_mysql_monitor_ping_check_total"
        [status = "err"] "" => Report(|r| checks(r, "ping").1);
    counter "MySQL_Monitor_read_only_check_OK" "proxysql_mysql_monitor_read_only_check_total"
        [status = "ok"] "Checks of the monitor." => Report(|r| checks(r, "read_only").0);
    counter "MySQL_Monitor_read_only_check_ERR" "proxysql_mysql_monitor_read_only_check_total"
        [status = "err"] "" => Report(|r| checks(r, "read_only").1);
    counter "MySQL_Monitor_replication_lag_check_OK"
        "proxysql_mysql_monitor_replication_lag_check_total" [status = "ok"]
        "Checks of the monitor." => Report(|r| checks(r, "replication_lag").0);
    counter "MySQL_Monitor_replication_lag_check_ERR"
        "proxysql_mysql_monitor_replication_lag_check_total" [status = "err"] "" => Report(|r| checks(r, "replication_lag").1);
    counter "MySQL_Monitor_dns_cache_queried" "proxysql_mysql_monitor_dns_cache_queried" []
        "Always 0: look-ups of host names are not counted." => Zero;
    counter "MySQL_Monitor_dns_cache_lookup_success"
        "proxysql_mysql_monitor_dns_cache_lookup_success" []
        "Always 0: look-ups of host names are not counted." => Zero;
    counter "MySQL_Monitor_dns_cache_record_updated"
        "proxysql_mysql_monitor_dns_cache_record_updated" []
        "Always 0: look-ups of host names are not counted." => Zero;
    counter "MyHGM_myconnpoll_get" "proxysql_myhgm_myconnpool_get_total" []
        "Statements that asked for a server connection." =>
        Report(|r| got(r).saturating_add(unconnected(r)));
    counter "MyHGM_myconnpoll_get_ok" "proxysql_myhgm_myconnpool_get_ok_total" []
        "Statements that got a server connection." => Report(got);
    counter "" "proxysql_myhgm_myconnpool_get_ping_total" [] "Always 0: not counted." => Zero;
    counter "MyHGM_myconnpoll_push" "proxysql_myhgm_myconnpool_push_total" []
        "Times that a server connection was given back." =>
        Report(|r| got(r).saturating_sub(r.counters.server_connections_lost));
    counter "MyHGM_myconnpoll_destroy" "proxysql_myhgm_myconnpool_destroy_total" []
        "Server connections that were lost or abandoned while they were held." =>
        Report(broken);
    counter "MyHGM_myconnpoll_reset" "proxysql_myhgm_myconnpool_reset_total" []
        "Server connections that were reset for another session." => Report(resets);
    counter "" "proxysql_myhgm_auto_increment_multiplex_total" []
        "Always 0: insert ids follow their session." => Zero;
    gauge "SQLite3_memory_bytes" "proxysql_sqlite3_memory_bytes" []
        "Memory of the tables of the admin port." => Report(|r| r.process.admin.tables_bytes);
    gauge "ConnPool_memory_bytes" "proxysql_connpool_memory_bytes" [] "Always 0: not measured." =>
        Zero;
    gauge "Stmt_Client_Active_Total" "proxysql_stmt_client_active" []
        "Prepared statements that clients have now." => Report(|r| r.client_stmts);
    gauge "Stmt_Client_Active_Unique" "proxysql_stmt_client_active_unique" []
        "Different texts that clients have prepared now." => Report(|r| r.texts.of_clients());
    gauge "Stmt_Server_Active_Total" "proxysql_stmt_server_active" []
        "Prepared statements on server connections now." => Report(|r| r.server_stmts);
    gauge "Stmt_Server_Active_Unique" "proxysql_stmt_server_active_unique" []
        "Different texts that are prepared on server connections now." =>
        Report(|r| r.texts.of_servers());
    gauge "Stmt_Max_Stmt_id" "proxysql_stmt_max_stmt_id" []
        "Always 0: statements have no number of that kind." => Zero;
    gauge "Stmt_Cached" "proxysql_stmt_cached" []
        "Different texts that clients or server connections have prepared now." =>
        Report(|r| r.texts.all());
    gauge "Query_Cache_Memory_bytes" "proxysql_query_cache_memory_bytes" []
        "Bytes of cached results." => Report(|r| r.process.cache.bytes);
    counter "" "proxysql_query_cache_count_get_total" [status = "err"] "Look-ups of results." =>
        Report(|r| r.counters.cache_lookups.saturating_sub(r.counters.cache_hits));
    counter "Query_Cache_count_GET_OK" "proxysql_query_cache_count_get_total" [status = "ok"] "" =>
        Report(|r| r.counters.cache_hits);
    counter "Query_Cache_count_GET" "" [] "" => Report(|r| r.counters.cache_lookups);
    counter "Query_Cache_count_SET" "proxysql_query_cache_count_set_total" [] "Results stored." =>
        Report(|r| r.counters.cache_stored);
    counter "Query_Cache_bytes_IN" "proxysql_query_cache_bytes_total" [op = "written"]
        "Bytes of results." => Report(|r| r.counters.cache_stored_bytes);
    counter "Query_Cache_bytes_OUT" "proxysql_query_cache_bytes_total" [op = "read"] "" =>
        Report(|r| r.counters.cache_sent_bytes);
    counter "Query_Cache_Purged" "proxysql_query_cache_purged_total" []
        "Results that were let go for others." => Report(|r| r.process.cache.purged);
    gauge "Query_Cache_Entries" "proxysql_query_cache_entries_total" [] "Cached results." =>
        Report(|r| r.process.cache.entries);
    counter "new_req_conns_count" "" [] "" => Report(|r| r.counters.server_connections_opened);
    counter "Servers_table_version" "proxysql_servers_table_version_total" []
        "Configurations so far." => Report(|r| r.process.configuration.version);
    gauge "mysql_listener_paused" "proxysql_mysql_listener_paused" [] "1 after PROXYSQL PAUSE." =>
        Report(|r| u64::from(r.process.is_paused));
    gauge "" "proxysql_mysql_wait_timeout" [] "wait_timeout, ms." =>
        Report(|r| r.process.configuration.wait_timeout_ms);
    gauge "" "proxysql_mysql_max_connections" [] "max_connections." =>
        Report(|r| r.process.configuration.clients_max);
    gauge "" "proxysql_mysql_monitor_enabled" [] "Always 0: the monitor has no threads of its own." => Zero;
    gauge "" "proxysql_mysql_monitor_ping_interval" [] "Always 0: the monitor has no threads of its own." =>
        Zero;
    gauge "" "proxysql_mysql_monitor_ping_timeout_seconds" []
        "Always 0: the monitor has no threads of its own." => Zero;
    gauge "" "proxysql_mysql_monitor_ping_max_failures" [] "Always 0: the monitor has no threads of its own." =>
        Zero;
    gauge "" "proxysql_mysql_monitor_read_only_interval_seconds" []
        "Always 0: the monitor has no threads of its own." => Zero;
    gauge "" "proxysql_mysql_monitor_read_only_timeout_seconds" []
        "Always 0: the monitor has no threads of its own." => Zero;
    gauge "" "proxysql_mysql_monitor_writer_is_also_reader" []
        "Always 0: the monitor has no threads of its own." => Zero;
    gauge "" "proxysql_monitor_replication_lag_group_by_host" []
        "Always 0: the monitor has no threads of its own." => Zero;
    gauge "" "proxysql_mysql_monitor_replication_lag_interval_seconds" []
        "Always 0: the monitor has no threads of its own." => Zero;
    gauge "" "proxysql_mysql_monitor_replication_lag_timeout_seconds" []
        "Always 0: the monitor has no threads of its own." => Zero;
    gauge "" "proxysql_mysql_monitor_history_timeout_seconds" []
        "Always 0: the monitor has no threads of its own." => Zero;
    counter "" "proxysql_jemalloc_allocated_bytes_total" []
        "Memory of its own in RAM, as the kernel has it." => Report(|r| r.process.kernel.anonymous);
    gauge "" "proxysql_jemalloc_bytes" [type = "active"]
        "Memory of the process, as the kernel has it; metadata and retained are 0." =>
        Report(|r| r.process.kernel.anonymous);
    gauge "" "proxysql_jemalloc_bytes" [type = "mapped"] "" => Report(|r| r.process.kernel.mapped);
    gauge "" "proxysql_jemalloc_bytes" [type = "metadata"] "" => Zero;
    gauge "" "proxysql_jemalloc_bytes" [type = "resident"] "" =>
        Report(|r| r.process.kernel.resident);
    gauge "" "proxysql_jemalloc_bytes" [type = "retained"] "" => Zero;
    gauge "" "proxysql_query_digest_memory_bytes" [] "Always 0: not measured." => Zero;
    gauge "" "proxysql_auth_memory_bytes" [] "Always 0: not measured." => Zero;
    gauge "" "proxysql_mysql_query_rules_memory_bytes" [] "Always 0: not measured." => Zero;
    gauge "" "proxysql_mysql_firewall_users_table_bytes" [] "Always 0: not measured." => Zero;
    gauge "" "proxysql_mysql_firewall_users_config_bytes" [] "Always 0: not measured." => Zero;
    gauge "" "proxysql_mysql_firewall_rules_table_bytes" [] "Always 0: not measured." => Zero;
    gauge "" "proxysql_mysql_firewall_rules_config_bytes" [] "Always 0: not measured." => Zero;
    gauge "" "proxysql_stack_memory_mysql_threads_bytes" [] "Always 0: not measured." => Zero;
    gauge "" "proxysql_stack_memory_admin_threads_bytes" [] "Always 0: not measured." => Zero;
    gauge "" "proxysql_stack_memory_cluster_threads" [] "Always 0: there is no cluster." => Zero;
    gauge "" "proxysql_fds_in_use" [] "Descriptors that are open." =>
        Report(|r| r.process.kernel.descriptors);
}
