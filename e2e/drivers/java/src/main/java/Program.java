import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** Carries out the scenario with a JDBC driver and prints a JSON line for each step: DRIVER SCENARIO. */
public final class Program {
    private static final Gson GSON = new GsonBuilder().serializeNulls().disableHtmlEscaping().create();

    private final Connections connections;
    private final Map<String, Session> sessions = new HashMap<>();
    private final Map<String, Session.Prepared> stmts = new HashMap<>();

    private Program(Connections connections) {
        this.connections = connections;
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        Program program = new Program(new Connections(args[0]));
        String text = Files.readString(Path.of(args[1]));
        for (var element : JsonParser.parseString(text).getAsJsonArray()) {
            JsonObject step = element.getAsJsonObject();
            Map<String, Object> line = new java.util.LinkedHashMap<>();
            line.put("step", step.get("name").getAsString());
            line.put("result", program.attempt(step, null, 0));
            out.println(GSON.toJson(line));
        }
        // Threads of drivers must not keep the program alive.
        System.exit(0);
    }

    private Object attempt(JsonObject step, Session session, int task) {
        try {
            return step(step, session, task);
        } catch (Exception error) {
            return Values.showError(error);
        }
    }

    private Object step(JsonObject step, Session given, int task) throws Exception {
        String op = step.get("op").getAsString();
        String sql = Values.filled(text(step, "sql"), connections.schema, task);
        List<Object> params =
                step.has("params") ? Values.parameters(step.getAsJsonArray("params"), task) : null;
        switch (op) {
            case "open":
                sessions.put(text(step, "conn"), connections.open());
                return "open";
            case "pool":
                return pool(step);
            case "execute":
                return stmts.get(text(step, "stmt")).execute(params);
            case "close_stmt":
                return stmts.get(text(step, "stmt")).close();
            default:
        }
        Session session = given != null ? given : sessions.get(text(step, "conn"));
        switch (op) {
            case "prepare":
                stmts.put(text(step, "stmt"), session.prepare(sql));
                return "prepared";
            case "query":
            case "exec":
                return session.run(sql, params, step.has("hide_id"));
            case "batch":
                return session.batch(sql, batchRows(step));
            case "stream":
                return session.stream(sql, step.has("take") ? step.get("take").getAsInt() : -1);
            case "multi":
                return session.multi(sql);
            case "call":
                return session.call(text(step, "procedure"), params);
            case "warnings":
                return session.warnings(sql);
            case "autocommit":
                return session.autocommit(step.get("on").getAsBoolean());
            case "isolation":
                return session.isolation(text(step, "level"));
            case "schema":
                return session.schema(text(step, "to"));
            case "metadata":
                return session.metadata(connections.schema, text(step, "table"));
            case "ping":
                return session.raw.isValid(5);
            case "begin":
                return session.begin();
            case "commit":
                return session.end("commit");
            case "rollback":
                return session.end("rollback");
            case "connection_id":
                return session.connectionId();
            case "change_user":
                return session.changeUser();
            case "reset":
                return session.reset();
            case "close":
                session.raw.close();
                return "closed";
            default:
                return "unsupported";
        }
    }

    /** Every task checks a connection out, carries out its steps, and gives it back. */
    private Object pool(JsonObject step) throws Exception {
        int tasks = step.get("tasks").getAsInt();
        ExecutorService threads = Executors.newFixedThreadPool(tasks);
        List<Future<Object>> running = new ArrayList<>();
        Map<Integer, Object> results = new TreeMap<>();
        try (var pool = connections.pool(step.get("size").getAsInt())) {
            for (int number = 1; number <= tasks; number++) {
                int task = number;
                running.add(threads.submit(() -> {
                    List<Object> lines = new ArrayList<>();
                    try (var raw = pool.getConnection()) {
                        Session session = new Session(raw, connections);
                        for (var inner : step.getAsJsonArray("steps")) {
                            JsonObject object = inner.getAsJsonObject();
                            lines.add(List.of(text(object, "name"), attempt(object, session, task)));
                        }
                    }
                    return lines;
                }));
            }
            for (int task = 0; task < tasks; task++) {
                results.put(task, running.get(task).get());
            }
        } finally {
            threads.shutdownNow();
        }
        return results.values();
    }

    private static List<List<Object>> batchRows(JsonObject step) {
        List<List<Object>> rows = new ArrayList<>();
        if (step.has("count")) {
            for (int number = 0; number < step.get("count").getAsInt(); number++) {
                rows.add(List.of("row " + number, number));
            }
            return rows;
        }
        JsonArray given = step.getAsJsonArray("rows");
        given.forEach(row -> rows.add(Values.parameters(row.getAsJsonArray(), 0)));
        return rows;
    }

    private static String text(JsonObject step, String key) {
        return step.has(key) ? step.get(key).getAsString() : "";
    }
}
