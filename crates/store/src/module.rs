//! What `LOAD` and `SAVE` move between layers.

/// A part of the configuration that is loaded and saved as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Module {
    /// Servers and hostgroups.
    MysqlServers,
    /// Users.
    MysqlUsers,
    /// Query rules and fast routing.
    MysqlQueryRules,
    /// Variables `mysql-%`.
    MysqlVariables,
    /// Variables `admin-%`.
    AdminVariables,
    /// Variables `trunkline-%`.
    TrunklineVariables,
    /// The firewall, and limits on rates.
    MysqlFirewall,
    /// Scripts that run from time to time.
    Scheduler,
    /// Scripts that run when asked over HTTP.
    Restapi,
    /// Peers.
    ProxysqlServers,
    /// Variables `sqliteserver-%`.
    SqliteserverVariables,
    /// Variables `clickhouse-%`.
    ClickhouseVariables,
    /// Variables `ldap-%`.
    LdapVariables,
    /// Users of ClickHouse.
    ClickhouseUsers,
}

impl Module {
    /// Every module.
    pub const ALL: [Self; 14] = [
        Self::MysqlServers,
        Self::MysqlUsers,
        Self::MysqlQueryRules,
        Self::MysqlVariables,
        Self::AdminVariables,
        Self::TrunklineVariables,
        Self::MysqlFirewall,
        Self::Scheduler,
        Self::Restapi,
        Self::ProxysqlServers,
        Self::SqliteserverVariables,
        Self::ClickhouseVariables,
        Self::LdapVariables,
        Self::ClickhouseUsers,
    ];

    /// Its name in statements, upper case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MysqlServers => "MYSQL SERVERS",
            Self::MysqlUsers => "MYSQL USERS",
            Self::MysqlQueryRules => "MYSQL QUERY RULES",
            Self::MysqlVariables => "MYSQL VARIABLES",
            Self::AdminVariables => "ADMIN VARIABLES",
            Self::TrunklineVariables => "TRUNKLINE VARIABLES",
            Self::MysqlFirewall => "MYSQL FIREWALL",
            Self::Scheduler => "SCHEDULER",
            Self::Restapi => "RESTAPI",
            Self::ProxysqlServers => "PROXYSQL SERVERS",
            Self::SqliteserverVariables => "SQLITESERVER VARIABLES",
            Self::ClickhouseVariables => "CLICKHOUSE VARIABLES",
            Self::LdapVariables => "LDAP VARIABLES",
            Self::ClickhouseUsers => "CLICKHOUSE USERS",
        }
    }

    /// The tables that it moves as a whole.
    pub const fn tables(self) -> &'static [&'static str] {
        match self {
            Self::MysqlServers => &[
                "mysql_servers",
                "mysql_replication_hostgroups",
                "mysql_group_replication_hostgroups",
                "mysql_galera_hostgroups",
                "mysql_aws_aurora_hostgroups",
                "mysql_hostgroup_attributes",
                "mysql_servers_ssl_params",
                "trunkline_tcp_listeners",
                "trunkline_clusters",
            ],
            Self::MysqlUsers => &["mysql_users"],
            Self::MysqlQueryRules => &["mysql_query_rules", "mysql_query_rules_fast_routing"],
            Self::MysqlFirewall => &[
                "mysql_firewall_whitelist_users",
                "mysql_firewall_whitelist_rules",
                "mysql_firewall_whitelist_sqli_fingerprints",
                "trunkline_limits",
                "trunkline_tenants",
            ],
            Self::Scheduler => &["scheduler"],
            Self::Restapi => &["restapi_routes"],
            Self::ProxysqlServers => &["proxysql_servers"],
            Self::ClickhouseUsers => &["clickhouse_users"],
            Self::MysqlVariables
            | Self::AdminVariables
            | Self::TrunklineVariables
            | Self::SqliteserverVariables
            | Self::ClickhouseVariables
            | Self::LdapVariables => &[],
        }
    }

    /// The prefix of its variables, when it moves variables.
    pub const fn prefix(self) -> Option<&'static str> {
        match self {
            Self::MysqlVariables => Some("mysql-"),
            Self::AdminVariables => Some("admin-"),
            Self::TrunklineVariables => Some("trunkline-"),
            Self::SqliteserverVariables => Some("sqliteserver-"),
            Self::ClickhouseVariables => Some("clickhouse-"),
            Self::LdapVariables => Some("ldap-"),
            Self::MysqlServers
            | Self::MysqlUsers
            | Self::MysqlQueryRules
            | Self::MysqlFirewall
            | Self::Scheduler
            | Self::Restapi
            | Self::ProxysqlServers
            | Self::ClickhouseUsers => None,
        }
    }
}
