use std::collections::{BTreeMap, BTreeSet};

use trunkline_stats::DigestQuery;

use super::*;
use crate::sample;

/// Names that exporters and dashboards of others read from `stats_mysql_global`: those of
/// Percona's exporter and of the collectors of Datadog, Netdata and Telegraf.
const READ_BY_EXPORTERS: &str = "
    Active_Transactions Backend_query_time_nsec Client_Connections_aborted
    Client_Connections_connected Client_Connections_created Client_Connections_non_idle
    Client_Connections_hostgroup_locked Com_autocommit Com_autocommit_filtered
    Com_backend_change_user Com_backend_init_db Com_backend_set_names Com_backend_stmt_close
    Com_backend_stmt_execute Com_backend_stmt_prepare Com_commit Com_commit_filtered
    Com_frontend_init_db Com_frontend_set_names Com_frontend_stmt_close
    Com_frontend_stmt_execute Com_frontend_stmt_prepare Com_frontend_use_db Com_rollback
    Com_rollback_filtered ConnPool_get_conn_failure ConnPool_get_conn_immediate
    ConnPool_get_conn_success ConnPool_memory_bytes MyHGM_myconnpoll_destroy
    MyHGM_myconnpoll_get MyHGM_myconnpoll_get_ok MyHGM_myconnpoll_push MyHGM_myconnpoll_reset
    MySQL_Monitor_Workers MySQL_Monitor_connect_check_ERR MySQL_Monitor_connect_check_OK
    MySQL_Monitor_ping_check_ERR MySQL_Monitor_ping_check_OK
    MySQL_Monitor_read_only_check_ERR MySQL_Monitor_read_only_check_OK
    MySQL_Monitor_replication_lag_check_ERR MySQL_Monitor_replication_lag_check_OK
    MySQL_Thread_Workers ProxySQL_Uptime Queries_backends_bytes_recv
    Queries_backends_bytes_sent Queries_frontends_bytes_recv Queries_frontends_bytes_sent
    Query_Cache_Entries Query_Cache_Memory_bytes Query_Cache_Purged Query_Cache_bytes_IN
    Query_Cache_bytes_OUT Query_Cache_count_GET Query_Cache_count_GET_OK Query_Cache_count_SET
    Query_Processor_time_nsec Questions SQLite3_memory_bytes Server_Connections_aborted
    Server_Connections_connected Server_Connections_created Server_Connections_delayed
    Servers_table_version Slow_queries Stmt_Cached Stmt_Client_Active_Total
    Stmt_Client_Active_Unique Stmt_Max_Stmt_id Stmt_Server_Active_Total
    Stmt_Server_Active_Unique generated_error_packets max_connect_timeouts
    mysql_backend_buffers_bytes mysql_frontend_buffers_bytes mysql_killed_backend_connections
    mysql_killed_backend_queries mysql_session_internal_bytes";

fn numbers() -> BTreeMap<&'static str, u64> {
    let report = sample::report(DigestQuery::NONE);
    let named = Figure::all().filter(|figure| !figure.global.is_empty());
    named.map(|figure| (figure.global, figure.value(&report))).collect()
}

#[test]
fn what_exporters_read_is_there() {
    let numbers = numbers();
    for name in READ_BY_EXPORTERS.split_whitespace() {
        assert!(numbers.contains_key(name), "{name}");
    }
    assert!(numbers.len() >= 108, "{} names", numbers.len());
}

#[test]
fn names_mean_what_is_counted_here() {
    let numbers = numbers();
    let check = |name: &str, expected: u64| {
        assert_eq!(numbers.get(name), Some(&expected), "{name}");
    };
    check("ProxySQL_Uptime", 7_260);
    check("Questions", 8_840);
    check("Client_Connections_created", 2_408);
    check("Client_Connections_aborted", 2);
    check("Client_Connections_connected", 1_208);
    check("max_connect_timeouts", 2);
    check("MySQL_Thread_Workers", 2);
    check("ConnPool_get_conn_success", 8_840);
    check("ConnPool_get_conn_immediate", 8_840);
    check("Stmt_Client_Active_Total", 10);
    check("Stmt_Server_Active_Total", 14);
    check("Stmt_Client_Active_Unique", 2);
    check("Stmt_Server_Active_Unique", 3);
    check("Stmt_Cached", 4);
    check("Query_Cache_Memory_bytes", 4_096);
    check("MySQL_Monitor_ping_check_OK", 120);
    check("MySQL_Monitor_ping_check_ERR", 3);
    check("MySQL_Monitor_connect_check_OK", 0);
}

#[test]
fn a_name_is_there_once_and_a_metric_is_in_one_place() {
    let mut globals = BTreeSet::new();
    let mut series = BTreeSet::new();
    let (mut metrics, mut before) = (BTreeSet::new(), "");
    for figure in Figure::all() {
        assert!(figure.global.is_empty() || globals.insert(figure.global), "{figure:?}");
        if figure.metric.is_empty() {
            continue;
        }
        assert!(series.insert((figure.metric, figure.label)), "{figure:?}");
        assert!(figure.metric == before || metrics.insert(figure.metric), "{figure:?}");
        assert!(figure.metric == before || !figure.help.is_empty(), "{figure:?}");
        before = figure.metric;
    }
}

/// Whoever reads a 0 learns from the manual whether nothing has happened or nothing is counted.
#[test]
fn the_manual_names_what_is_always_0() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/manual/admin.md");
    let manual = std::fs::read_to_string(path).expect("the manual");
    let zeros = Figure::all().filter(|figure| matches!(figure.source, Source::Zero));
    let names =
        zeros.map(|figure| if figure.global.is_empty() { figure.metric } else { figure.global });
    let names = names.chain(crate::service::MEMORY_UNMEASURED);
    let missing: Vec<&str> = names.filter(|name| !manual.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "not in docs/manual/admin.md: {missing:?}");
}
