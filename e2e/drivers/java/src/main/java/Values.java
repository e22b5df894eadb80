import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.zip.CRC32;

/** Parameters out of the scenario, and values as text that shows their type. */
final class Values {
    private static final int LONG = 200;

    private Values() {}

    static String filled(String text, String schema, int task) {
        String named = text.replace("{schema}", schema);
        if (task == 0) {
            return named;
        }
        return named.replace("{nn}", String.format("%02d", task))
                .replace("{n}", String.valueOf(task));
    }

    static List<Object> parameters(JsonArray given, int task) {
        List<Object> values = new ArrayList<>();
        given.forEach(element -> values.add(parameter(element, task)));
        return values;
    }

    private static Object parameter(JsonElement element, int task) {
        if (element.isJsonNull()) {
            return null;
        }
        if (element.isJsonObject()) {
            JsonObject object = element.getAsJsonObject();
            var entry = object.entrySet().iterator().next();
            return special(entry.getKey(), entry.getValue(), task);
        }
        var primitive = element.getAsJsonPrimitive();
        if (primitive.isBoolean()) {
            return primitive.getAsBoolean();
        }
        if (primitive.isString()) {
            return filled(primitive.getAsString(), "", task);
        }
        String digits = primitive.getAsString();
        if (digits.contains(".")) {
            return primitive.getAsDouble();
        }
        long number = primitive.getAsLong();
        if (number == (int) number) {
            return (int) number;
        }
        return number;
    }

    private static Object special(String kind, JsonElement content, int task) {
        switch (kind) {
            case "long":
                return Long.parseLong(content.getAsString());
            case "decimal":
                return new BigDecimal(content.getAsString());
            case "bytes":
                return HexFormat.of().parseHex(content.getAsString());
            case "date":
                return LocalDate.parse(content.getAsString());
            case "time":
                return LocalTime.parse(content.getAsString());
            case "datetime":
                return LocalDateTime.parse(content.getAsString().replace(' ', 'T'));
            case "repeat":
                return repeated(content);
            case "repeat_bytes":
                return HexFormat.of().parseHex(repeated(content));
            case "task":
                return task;
            default:
                throw new IllegalArgumentException("unknown parameter " + kind);
        }
    }

    private static String repeated(JsonElement pair) {
        return pair.getAsJsonArray().get(0).getAsString()
                .repeat(pair.getAsJsonArray().get(1).getAsInt());
    }

    static void bind(PreparedStatement statement, List<Object> params) throws SQLException {
        for (int place = 1; place <= params.size(); place++) {
            statement.setObject(place, params.get(place - 1));
        }
    }

    /** A value as text that tells its type; long ones by length and checksum. */
    static String show(Object value) {
        if (value == null) {
            return "null";
        }
        String kind = value.getClass().getSimpleName() + ":";
        if (value instanceof byte[] bytes) {
            return kind + (bytes.length > LONG ? summary(bytes) : HexFormat.of().formatHex(bytes));
        }
        return kind + shortened(value.toString());
    }

    static String shortened(String text) {
        return text.length() > LONG ? summary(text) : text;
    }

    static String summary(String text) {
        return summary(text.getBytes(StandardCharsets.UTF_8));
    }

    private static String summary(byte[] data) {
        CRC32 crc = new CRC32();
        crc.update(data);
        return data.length + " bytes, crc " + Long.toHexString(crc.getValue());
    }

    static Map<String, Object> showError(Throwable error) {
        Throwable cause = error;
        while (cause instanceof ReflectiveOperationException && cause.getCause() != null) {
            cause = cause.getCause();
        }
        Map<String, Object> shown = new TreeMap<>();
        shown.put("error", cause.getClass().getSimpleName());
        shown.put("message", cause.getMessage());
        if (cause instanceof SQLException sql) {
            shown.put("code", sql.getErrorCode());
            shown.put("state", sql.getSQLState());
        }
        return shown;
    }
}
