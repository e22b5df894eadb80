import java.sql.BatchUpdateException;
import java.sql.CallableStatement;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.SQLWarning;
import java.sql.Statement;
import java.sql.Types;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** One connection, and the steps of the scenario on it. */
final class Session {
    final Connection raw;
    private final Connections connections;
    private boolean begun;

    Session(Connection raw, Connections connections) {
        this.raw = raw;
        this.connections = connections;
    }

    Object run(String sql, List<Object> params, boolean hideId) throws SQLException {
        if (params == null) {
            try (Statement statement = raw.createStatement()) {
                boolean rows = statement.execute(sql, Statement.RETURN_GENERATED_KEYS);
                return outcome(statement, rows, hideId);
            }
        }
        try (PreparedStatement statement =
                raw.prepareStatement(sql, Statement.RETURN_GENERATED_KEYS)) {
            Values.bind(statement, params);
            return outcome(statement, statement.execute(), hideId);
        }
    }

    private static Object outcome(Statement statement, boolean rows, boolean hideId)
            throws SQLException {
        if (rows) {
            try (ResultSet set = statement.getResultSet()) {
                return table(set);
            }
        }
        List<String> ids = new ArrayList<>();
        try (ResultSet keys = statement.getGeneratedKeys()) {
            while (keys.next()) {
                ids.add(hideId ? "hidden" : Values.show(keys.getObject(1)));
            }
        }
        return Map.of("affected", statement.getUpdateCount(), "ids", ids);
    }

    private static Object table(ResultSet set) throws SQLException {
        ResultSetMetaData meta = set.getMetaData();
        List<Object> columns = new ArrayList<>();
        for (int place = 1; place <= meta.getColumnCount(); place++) {
            columns.add(List.of(meta.getColumnLabel(place), meta.getColumnName(place),
                    meta.getColumnTypeName(place), meta.getPrecision(place), meta.getScale(place),
                    meta.isNullable(place), meta.getTableName(place)));
        }
        List<Object> rows = new ArrayList<>();
        while (set.next()) {
            rows.add(row(set, meta.getColumnCount()));
        }
        return new java.util.TreeMap<>(Map.of("columns", columns, "rows", rows));
    }

    private static List<String> row(ResultSet set, int count) throws SQLException {
        List<String> values = new ArrayList<>();
        for (int place = 1; place <= count; place++) {
            String shown;
            try {
                shown = Values.show(set.getObject(place));
            } catch (SQLException error) {
                // A TIME of 838 hours, for one, fits into no Java type.
                shown = "unreadable: " + error.getMessage();
            }
            values.add(shown);
        }
        return values;
    }

    Object batch(String sql, List<List<Object>> rows) throws SQLException {
        try (PreparedStatement statement = raw.prepareStatement(sql)) {
            for (List<Object> row : rows) {
                Values.bind(statement, row);
                statement.addBatch();
            }
            return counts(statement.executeBatch());
        } catch (BatchUpdateException error) {
            return List.of(counts(error.getUpdateCounts()), Values.showError(error));
        }
    }

    private static String counts(int[] counts) {
        return Values.shortened(java.util.Arrays.toString(counts));
    }

    Object stream(String sql, int take) throws SQLException {
        try (Statement statement = raw.createStatement()) {
            statement.setFetchSize(connections.isMySql ? Integer.MIN_VALUE : 10);
            List<String> seen = new ArrayList<>();
            try (ResultSet set = statement.executeQuery(sql)) {
                int count = set.getMetaData().getColumnCount();
                while (seen.size() != take && set.next()) {
                    seen.add(String.join(",", row(set, count)));
                }
            }
            return List.of(seen.size(), Values.summary(String.join("\n", seen)));
        }
    }

    Object multi(String sql) throws SQLException {
        List<Object> results = new ArrayList<>();
        try (Statement statement = raw.createStatement()) {
            boolean rows = statement.execute(sql);
            while (rows || statement.getUpdateCount() != -1) {
                results.add(rows ? table(statement.getResultSet()) : statement.getUpdateCount());
                rows = statement.getMoreResults();
            }
        } catch (SQLException error) {
            results.add(Values.showError(error));
        }
        return results;
    }

    Object call(String procedure, List<Object> params) throws SQLException {
        try (CallableStatement call = raw.prepareCall("{call " + procedure + "(?, ?)}")) {
            call.setObject(1, params.get(0));
            call.registerOutParameter(2, Types.INTEGER);
            List<Object> sets = new ArrayList<>();
            boolean rows = call.execute();
            while (rows) {
                sets.add(table(call.getResultSet()));
                rows = call.getMoreResults();
            }
            return List.of(sets, call.getInt(2));
        }
    }

    Object warnings(String sql) throws SQLException {
        try (Statement statement = raw.createStatement()) {
            statement.execute(sql);
            statement.getResultSet().close();
            List<Object> found = new ArrayList<>();
            for (SQLWarning one = statement.getWarnings(); one != null; one = one.getNextWarning()) {
                found.add(Values.showError(one));
            }
            return found;
        }
    }

    Object autocommit(boolean on) throws SQLException {
        raw.setAutoCommit(on);
        return raw.getAutoCommit();
    }

    Object isolation(String level) throws SQLException {
        raw.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);
        return List.of(level, raw.getTransactionIsolation());
    }

    Object schema(String name) throws SQLException {
        raw.setCatalog(name);
        return raw.getCatalog();
    }

    Object begin() throws SQLException {
        raw.setAutoCommit(false);
        begun = true;
        return "begun";
    }

    /** Ends a transaction; one that a statement began is the driver's no business. */
    Object end(String how) throws SQLException {
        if (raw.getAutoCommit()) {
            return run(how, null, false);
        }
        if (how.equals("commit")) {
            raw.commit();
        } else {
            raw.rollback();
        }
        if (begun) {
            begun = false;
            raw.setAutoCommit(true);
        }
        return how;
    }

    Object metadata(String schema, String table) throws SQLException {
        var meta = raw.getMetaData();
        return List.of(
                meta.getDatabaseProductName(), meta.getDatabaseProductVersion(), meta.getUserName(),
                table(meta.getTables(schema, null, "%", null)),
                table(meta.getColumns(schema, null, table, "%")),
                table(meta.getPrimaryKeys(schema, null, table)),
                table(meta.getProcedures(schema, null, "%")));
    }

    Object connectionId() throws Exception {
        Object own = own(connections.isMySql ? "getId" : "getThreadId");
        try (Statement statement = raw.createStatement();
                ResultSet set = statement.executeQuery("SELECT CONNECTION_ID()")) {
            set.next();
            return Map.of("as the server says", set.getString(1).equals(String.valueOf(own)));
        }
    }

    Object changeUser() throws Exception {
        if (!connections.isMySql) {
            return "unsupported";
        }
        raw.getClass().getMethod("changeUser", String.class, String.class)
                .invoke(raw, connections.user, connections.password);
        return "changed";
    }

    Object reset() throws Exception {
        if (!connections.isMySql) {
            return "unsupported";
        }
        own("resetServerState");
        return "reset";
    }

    private Object own(String method) throws Exception {
        return raw.getClass().getMethod(method).invoke(raw);
    }

    Prepared prepare(String sql) throws SQLException {
        return new Prepared(raw.prepareStatement(sql, Statement.RETURN_GENERATED_KEYS));
    }

    /** A statement that stays open. */
    record Prepared(PreparedStatement statement) {
        Object execute(List<Object> params) throws SQLException {
            Values.bind(statement, params);
            return outcome(statement, statement.execute(), false);
        }

        Object close() throws SQLException {
            statement.close();
            return "closed";
        }
    }
}
