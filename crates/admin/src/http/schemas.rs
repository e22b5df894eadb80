//! Schemas of answers that are no tables, for the API's description. A test compares them with the
//! types of the page (`web/src/api.ts`).

use serde_json::{Map, Value, json};

/// Every schema, by its name.
pub(super) fn schemas() -> Value {
    let number = || json!({ "type": "number" });
    let text = || json!({ "type": "string" });
    let or_null = |kind: &str| json!({ "type": [kind, "null"] });
    let list = |of: Value| json!({ "type": "array", "items": of });
    let one = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
    let points = || list(list(or_null("number")));
    json!({
        "History": object(&[
            ("from", number()),
            ("to", number()),
            ("step", number()),
            ("known", number()),
            ("points", points()),
            ("digests", json!({ "type": "object", "additionalProperties": points() })),
        ]),
        "Topology": object(&[
            ("clusters", list(one("Cluster"))),
            ("events", list(one("ClusterEvent"))),
        ]),
        "Cluster": object(&[
            ("name", text()),
            ("kind", text()),
            ("writer_hostgroup", number()),
            ("reader_hostgroup", number()),
            ("epoch", number()),
            ("servers", list(one("Member"))),
        ]),
        "Member": object(&[
            ("address", text()),
            ("role", text()),
            ("reach", text()),
            ("writable", or_null("boolean")),
            ("source", or_null("string")),
            ("lag_sec", or_null("number")),
            ("missing", or_null("number")),
            ("behind_us", or_null("number")),
            ("version", text()),
            ("gtid", text()),
            ("warnings", list(text())),
        ]),
        "ClusterEvent": object(&[
            ("id", number()),
            ("at", number()),
            ("cluster", text()),
            ("event", text()),
            ("server", text()),
            ("evidence", text()),
        ]),
    })
}

/// What is read besides tables, by its path.
pub(super) fn paths(secured: &Value) -> [(&'static str, Value); 4] {
    let answer = |schema: Value| {
        json!({ "200": {
            "description": "JSON",
            "content": { "application/json": { "schema": schema } },
        } })
    };
    let one = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
    let asked =
        |name: &str, kind: &str| json!({ "name": name, "in": "query", "schema": { "type": kind } });
    [
        ("/sd", targets(&answer)),
        (
            "/api/v1/history",
            json!({ "get": {
                "operationId": "read_history",
                "summary": "lines of the past; a point is its end (ms), statements and errors a \
                            second, p50, p95, p99 (µs), clients, waiting statements, refusals a \
                            second; one of a digest has the second to the sixth",
                "parameters": [
                    asked("last", "integer"), asked("points", "integer"), asked("digests", "string"),
                ],
                "security": secured,
                "responses": answer(one("History")),
            } }),
        ),
        (
            "/api/v1/topology",
            json!({ "get": {
                "operationId": "read_topology",
                "summary": "clusters with their servers; no token is needed",
                "responses": answer(one("Topology")),
            } }),
        ),
        (
            "/api/v1/events",
            json!({ "get": {
                "operationId": "read_events",
                "summary": "what has happened to clusters; no token is needed",
                "responses": answer(json!({ "type": "array", "items": one("ClusterEvent") })),
            } }),
        ),
    ]
}

/// What Prometheus' `http_sd_configs` reads.
fn targets(answer: &impl Fn(Value) -> Value) -> Value {
    let text = || json!({ "type": "string" });
    let group = object(&[
        ("targets", json!({ "type": "array", "items": text() })),
        ("labels", json!({ "type": "object", "additionalProperties": text() })),
    ]);
    json!({ "get": {
        "operationId": "read_targets",
        "summary": "servers as targets for Prometheus; no token is needed",
        "responses": answer(json!({ "type": "array", "items": group })),
    } })
}

fn object(fields: &[(&str, Value)]) -> Value {
    let properties: Map<String, Value> =
        fields.iter().map(|(name, kind)| ((*name).to_owned(), kind.clone())).collect();
    let required: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    json!({ "type": "object", "properties": properties, "required": required })
}
