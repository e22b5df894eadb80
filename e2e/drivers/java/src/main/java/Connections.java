import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.sql.DriverManager;
import java.sql.SQLException;

/** How connections are opened: which driver, and with which of its options. */
final class Connections {
    final String schema = System.getenv("DRIVER_SCHEMA");
    final String user = System.getenv("DRIVER_USER");
    final String password = System.getenv("DRIVER_PASSWORD");
    final boolean isMySql;
    private final String url;

    Connections(String driver) {
        String options;
        switch (driver) {
            case "mariadb":
                options = "";
                break;
            case "mariadb-prepared":
                options = "&useServerPrepStmts=true";
                break;
            case "mariadb-bulk":
                options = "&useServerPrepStmts=true&useBulkStmts=true&useBulkStmtsForInserts=true";
                break;
            case "mariadb-rewrite":
                options = "&rewriteBatchedStatements=true&disablePipeline=true";
                break;
            case "mysql":
                options = "";
                break;
            case "mysql-prepared":
                options = "&useServerPrepStmts=true";
                break;
            case "mysql-rewrite":
                options = "&rewriteBatchedStatements=true";
                break;
            case "mysql-tuned":
                // What the pool's authors advise.
                options = "&cachePrepStmts=true&prepStmtCacheSize=250&prepStmtCacheSqlLimit=2048"
                        + "&useServerPrepStmts=true&useLocalSessionState=true"
                        + "&rewriteBatchedStatements=true&cacheResultSetMetadata=true"
                        + "&cacheServerConfiguration=true&elideSetAutoCommits=true"
                        + "&maintainTimeStats=false";
                break;
            default:
                throw new IllegalArgumentException("unknown driver " + driver);
        }
        isMySql = driver.startsWith("mysql");
        boolean tls = "on".equals(System.getenv("DRIVER_TLS"));
        String kind = isMySql
                ? "mysql:sslMode=" + (tls ? "REQUIRED" : "DISABLED")
                : "mariadb:sslMode=" + (tls ? "trust" : "disable");
        String[] parts = kind.split(":");
        url = "jdbc:" + parts[0] + "://" + System.getenv("DRIVER_HOST") + ":"
                + System.getenv("DRIVER_PORT") + "/" + schema + "?" + parts[1]
                + "&allowPublicKeyRetrieval=true&allowMultiQueries=true" + options;
    }

    Session open() throws SQLException {
        return new Session(DriverManager.getConnection(url, user, password), this);
    }

    HikariDataSource pool(int size) {
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl(url);
        config.setUsername(user);
        config.setPassword(password);
        config.setMaximumPoolSize(size);
        config.setConnectionTimeout(60_000);
        return new HikariDataSource(config);
    }
}
