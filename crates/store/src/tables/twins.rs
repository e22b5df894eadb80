//! Tables that have the columns of another one.

use super::{MAIN, MAIN_AND_DISK, STATS, STATS_HISTORY, Twin};

pub(super) const TWINS: &[Twin] = &[
    Twin { name: "runtime_mysql_ldap_mapping", of: "mysql_ldap_mapping", schemas: MAIN },
    Twin { name: "runtime_mysql_servers", of: "mysql_servers", schemas: MAIN },
    Twin { name: "runtime_mysql_users", of: "mysql_users", schemas: MAIN },
    Twin {
        name: "runtime_mysql_replication_hostgroups",
        of: "mysql_replication_hostgroups",
        schemas: MAIN,
    },
    Twin {
        name: "runtime_mysql_group_replication_hostgroups",
        of: "mysql_group_replication_hostgroups",
        schemas: MAIN,
    },
    Twin {
        name: "mysql_galera_hostgroups",
        of: "mysql_group_replication_hostgroups",
        schemas: MAIN_AND_DISK,
    },
    Twin {
        name: "runtime_mysql_galera_hostgroups",
        of: "mysql_group_replication_hostgroups",
        schemas: MAIN,
    },
    Twin {
        name: "runtime_mysql_aws_aurora_hostgroups",
        of: "mysql_aws_aurora_hostgroups",
        schemas: MAIN,
    },
    Twin {
        name: "runtime_mysql_hostgroup_attributes",
        of: "mysql_hostgroup_attributes",
        schemas: MAIN,
    },
    Twin {
        name: "runtime_mysql_servers_ssl_params",
        of: "mysql_servers_ssl_params",
        schemas: MAIN,
    },
    Twin { name: "runtime_mysql_query_rules", of: "mysql_query_rules", schemas: MAIN },
    Twin {
        name: "runtime_mysql_query_rules_fast_routing",
        of: "mysql_query_rules_fast_routing",
        schemas: MAIN,
    },
    Twin { name: "runtime_global_variables", of: "global_variables", schemas: MAIN },
    Twin { name: "runtime_scheduler", of: "scheduler", schemas: MAIN },
    Twin {
        name: "runtime_mysql_firewall_whitelist_users",
        of: "mysql_firewall_whitelist_users",
        schemas: MAIN,
    },
    Twin {
        name: "runtime_mysql_firewall_whitelist_rules",
        of: "mysql_firewall_whitelist_rules",
        schemas: MAIN,
    },
    Twin {
        name: "runtime_mysql_firewall_whitelist_sqli_fingerprints",
        of: "mysql_firewall_whitelist_sqli_fingerprints",
        schemas: MAIN,
    },
    Twin { name: "runtime_trunkline_limits", of: "trunkline_limits", schemas: MAIN },
    Twin { name: "runtime_trunkline_tenants", of: "trunkline_tenants", schemas: MAIN },
    Twin { name: "runtime_trunkline_tcp_listeners", of: "trunkline_tcp_listeners", schemas: MAIN },
    Twin { name: "runtime_trunkline_clusters", of: "trunkline_clusters", schemas: MAIN },
    Twin { name: "runtime_restapi_routes", of: "restapi_routes", schemas: MAIN },
    Twin { name: "runtime_coredump_filters", of: "coredump_filters", schemas: MAIN },
    Twin { name: "runtime_clickhouse_users", of: "clickhouse_users", schemas: MAIN },
    Twin {
        name: "stats_mysql_connection_pool_reset",
        of: "stats_mysql_connection_pool",
        schemas: STATS,
    },
    Twin { name: "stats_mysql_query_digest_reset", of: "stats_mysql_query_digest", schemas: STATS },
    Twin { name: "stats_mysql_errors_reset", of: "stats_mysql_errors", schemas: STATS },
    Twin {
        name: "stats_mysql_client_host_cache_reset",
        of: "stats_mysql_client_host_cache",
        schemas: STATS,
    },
    Twin { name: "runtime_proxysql_servers", of: "proxysql_servers", schemas: MAIN },
    Twin {
        name: "stats_proxysql_message_metrics_reset",
        of: "stats_proxysql_message_metrics",
        schemas: STATS,
    },
    Twin { name: "mysql_connections_hour", of: "mysql_connections", schemas: STATS_HISTORY },
    Twin { name: "system_cpu_hour", of: "system_cpu", schemas: STATS_HISTORY },
    Twin { name: "system_memory_hour", of: "system_memory", schemas: STATS_HISTORY },
    Twin { name: "mysql_connections_day", of: "mysql_connections", schemas: STATS_HISTORY },
    Twin { name: "system_cpu_day", of: "system_cpu", schemas: STATS_HISTORY },
    Twin { name: "system_memory_day", of: "system_memory", schemas: STATS_HISTORY },
    Twin { name: "mysql_query_cache_hour", of: "mysql_query_cache", schemas: STATS_HISTORY },
    Twin { name: "mysql_query_cache_day", of: "mysql_query_cache", schemas: STATS_HISTORY },
    Twin { name: "myhgm_connections_hour", of: "myhgm_connections", schemas: STATS_HISTORY },
    Twin { name: "myhgm_connections_day", of: "myhgm_connections", schemas: STATS_HISTORY },
];
