//! `/api/v1/…`: every table as JSON, and statements of the admin port, for who has a token.

use std::sync::Arc;

use axum::{
    Router,
    body::Bytes,
    extract::{ConnectInfo, Path, RawQuery, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde_json::{Map, Value as Json, json};
use trunkline_config::Settings;
use trunkline_protocol::auth::is_equal;
use trunkline_store::{
    Access, ColumnKind, RowSet, Value,
    tables::{self, Schema, Table},
};

use super::{Answering, Source, guard::Caller, query::decoded, schemas};
use crate::{
    past::lines::Asked,
    service::{AdminService, Refused, Reply, Room, Session},
};

/// Rows of a table when the request does not say.
const ROWS_DEFAULT: u64 = 1_000;
/// The most rows of one answer.
const ROWS_MAX: u64 = 1_000_000;

pub(super) fn routes() -> Router<Answering> {
    Router::new()
        .route("/api/v1/openapi.json", get(described))
        .route("/api/v1/history", get(history))
        .route("/api/v1/tables", get(all_tables))
        .route("/api/v1/tables/{schema}/{table}", get(one_table))
        .route("/api/v1/statement", post(statement))
}

/// Why a request gets no answer of its own.
pub(super) struct Failure(StatusCode, u16, String);

impl Failure {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self(status, 0, message.into())
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        Self(StatusCode::BAD_REQUEST, refused.code, refused.message)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let Self(status, code, message) = self;
        let body = json!({ "error": { "code": code, "message": message } });
        let mut response = answer(status, &body);
        if status == StatusCode::UNAUTHORIZED {
            let scheme = header::HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

fn answer(status: StatusCode, body: &Json) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

/// Whoever asks, as the admin service sees them.
fn admit(
    answering: &Answering,
    caller: &Caller,
    headers: &HeaderMap,
) -> Result<(Arc<AdminService>, Session), Failure> {
    let Some(service) = answering.service.clone() else {
        return Err(Failure::new(StatusCode::NOT_FOUND, "there is no API here"));
    };
    let access = access(&service, caller, headers)?;
    let session = Session {
        warnings: Vec::new(),
        user: "http".to_owned(),
        peer: "api".to_owned(),
        id: 0,
        access,
        schema: "main".to_owned(),
        room: Room::of(service.budget(), access),
    };
    Ok((service, session))
}

/// Whether who asks may do everything.
pub(super) fn admit_all(
    service: &AdminService,
    caller: &Caller,
    headers: &HeaderMap,
) -> Result<(), Failure> {
    match access(service, caller, headers)? {
        Access::Admin | Access::Internal => Ok(()),
        Access::Stats | Access::Operate => {
            let message = "this token runs no scripts: use that of http_api_token";
            Err(Failure::new(StatusCode::FORBIDDEN, message))
        }
    }
}

/// What who asks may do. Wrong tokens are counted, and after many of them no token from there is
/// looked at for a while.
pub(super) fn access(
    service: &AdminService,
    caller: &Caller,
    headers: &HeaderMap,
) -> Result<Access, Failure> {
    let snapshot = service.snapshot();
    if !headers.contains_key(header::AUTHORIZATION) {
        return access_of(&snapshot.settings, headers);
    }
    let (door, from) = (service.door(), caller.origin());
    let wait_ms = door.token_wait_ms(from, &snapshot.settings);
    if wait_ms > 0 {
        let seconds = wait_ms.div_ceil(1_000);
        let message = format!("too many wrong tokens came from there; try again in {seconds} s");
        return Err(Failure::new(StatusCode::TOO_MANY_REQUESTS, message));
    }
    let access = access_of(&snapshot.settings, headers);
    match &access {
        Ok(_) => door.token(from, true, &snapshot.settings),
        Err(Failure(StatusCode::UNAUTHORIZED, ..)) => door.token(from, false, &snapshot.settings),
        // There are no tokens to guess.
        Err(_) => {}
    }
    access
}

fn access_of(settings: &Settings, headers: &HeaderMap) -> Result<Access, Failure> {
    let tokens = [
        (settings.http_api_token.as_str(), Access::Admin),
        (settings.http_api_operate_token.as_str(), Access::Operate),
        (settings.http_api_stats_token.as_str(), Access::Stats),
    ];
    if tokens.iter().all(|(token, _)| token.is_empty()) {
        let message = "the API is off: trunkline-http_api_token is empty";
        return Err(Failure::new(StatusCode::NOT_FOUND, message));
    }
    let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("Bearer").then(|| token.trim())
    });
    let mut found = None;
    // All are compared, whichever it is.
    for (token, access) in tokens {
        let is_it = given.is_some_and(|given| is_same(given.as_bytes(), token.as_bytes()));
        if is_it && !token.is_empty() && found.is_none() {
            found = Some((token, access));
        }
    }
    match found {
        Some((_, access)) => Ok(access),
        None => Err(Failure::new(StatusCode::UNAUTHORIZED, "a bearer token is needed")),
    }
}

/// Compares in a time that says nothing of where they differ, or of how long the token is.
fn is_same(given: &[u8], token: &[u8]) -> bool {
    is_equal(&trunkline_crypto::sha256(given), &trunkline_crypto::sha256(token))
}

async fn all_tables(
    State(answering): Source,
    ConnectInfo(caller): ConnectInfo<Caller>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let (_, session) = admit(&answering, &caller, &headers)?;
    let list: Vec<Json> = visible(session.access)
        .map(|(schema, table)| {
            let columns = table.columns.iter();
            let columns: Vec<Json> =
                columns.map(|column| json!({ "name": column.name, "type": column.kind })).collect();
            json!({ "schema": schema.name(), "table": table.name, "columns": columns })
        })
        .collect();
    Ok(answer(StatusCode::OK, &Json::Array(list)))
}

/// `GET /api/v1/history?last=3600&points=240&digests=0x…`: lines of the past, see
/// [`Asked::parse`].
async fn history(
    State(answering): Source,
    ConnectInfo(caller): ConnectInfo<Caller>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let (service, _) = admit(&answering, &caller, &headers)?;
    let bad = |message: String| Failure::new(StatusCode::BAD_REQUEST, message);
    let asked = Asked::parse(query.as_deref()).map_err(bad)?;
    let lines = service.past_lines(asked).await.map_err(|reason| {
        let (status, message) = reason.told();
        Failure::new(status, message)
    })?;
    Ok(answer(StatusCode::OK, &lines))
}

/// Schemas with their tables, as far as they can be read.
fn visible(access: Access) -> impl Iterator<Item = (Schema, Table)> {
    let schemas = Schema::ALL.into_iter().filter(move |schema| match access {
        Access::Stats | Access::Operate => {
            matches!(schema, Schema::Stats | Schema::StatsHistory | Schema::Monitor)
        }
        Access::Admin | Access::Internal => true,
    });
    schemas.flat_map(|schema| {
        tables::all()
            .filter(move |table| table.schemas.contains(&schema))
            .map(move |table| (schema, table))
    })
}

async fn one_table(
    State(answering): Source,
    ConnectInfo(caller): ConnectInfo<Caller>,
    Path((schema, name)): Path<(String, String)>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let (service, mut session) = admit(&answering, &caller, &headers)?;
    let found = visible(session.access)
        .find(|(of, table)| of.name() == schema && table.name.eq_ignore_ascii_case(&name));
    let Some((schema, table)) = found else {
        let message = format!("there is no table {schema}.{name}");
        return Err(Failure::new(StatusCode::NOT_FOUND, message));
    };
    let (sql, params) = selection(schema, &table, query.as_deref().unwrap_or_default())
        .map_err(|message| Failure::new(StatusCode::BAD_REQUEST, message))?;
    match service.answer(&mut session, &sql, &params).await {
        Reply::Rows(rows) => Ok(answer(StatusCode::OK, &rows_as_json(&rows))),
        Reply::Ok { .. } => Ok(answer(StatusCode::OK, &json!({ "rows": [] }))),
        Reply::Error(refused) => Err(refused.into()),
    }
}

/// The statement for `?column=value&…&limit=n&offset=n`.
fn selection(schema: Schema, table: &Table, query: &str) -> Result<(String, Vec<Value>), String> {
    let (mut limit, mut offset) = (ROWS_DEFAULT, 0);
    let mut conditions = Vec::new();
    let mut params = Vec::new();
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let (name, value) = (decoded(name)?, decoded(value)?);
        let number = |most: u64| {
            let number = value.parse().ok().filter(|number| *number <= most);
            number.ok_or_else(|| format!("`{name}={value}` is not a number from 0 to {most}"))
        };
        match (name.as_str(), table.column(&name)) {
            (_, Some(column)) => {
                conditions.push(format!("{} = ?", column.quoted()));
                params.push(Value::Text(value));
            }
            ("limit", None) => limit = number(ROWS_MAX)?,
            ("offset", None) => offset = number(u64::from(u32::MAX))?,
            (_, None) => {
                return Err(format!("`{name}` is no column of {}, limit or offset", table.name));
            }
        }
    }
    let filter = match conditions.is_empty() {
        true => String::new(),
        false => format!(" WHERE {}", conditions.join(" AND ")),
    };
    let (schema, name) = (schema.name(), table.name);
    let sql = format!("SELECT * FROM {schema}.{name}{filter} LIMIT {limit} OFFSET {offset}");
    Ok((sql, params))
}

pub(super) fn rows_as_json(rows: &RowSet) -> Json {
    let names: Vec<&str> = rows.columns.iter().map(|column| column.name.as_str()).collect();
    let object = |row: &Vec<Value>| {
        let pairs = names.iter().zip(row);
        let members: Map<String, Json> =
            pairs.map(|(name, value)| ((*name).to_owned(), value_as_json(value))).collect();
        Json::Object(members)
    };
    json!({ "columns": names, "rows": rows.rows.iter().map(object).collect::<Vec<_>>() })
}

fn value_as_json(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Integer(number) => json!(number),
        Value::Real(number) => json!(number),
        Value::Text(text) => json!(text),
        Value::Blob(bytes) => json!(String::from_utf8_lossy(bytes)),
    }
}

/// `{"sql": "…", "params": […]}`: one statement of the admin port.
async fn statement(
    State(answering): Source,
    ConnectInfo(caller): ConnectInfo<Caller>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Failure> {
    let (service, mut session) = admit(&answering, &caller, &headers)?;
    let _place = match session.access {
        Access::Stats => {
            let busy = "too many statements about statistics are being answered; try again later";
            let place = answering.places.take_for_statistics();
            Some(place.ok_or_else(|| Failure::new(StatusCode::SERVICE_UNAVAILABLE, busy))?)
        }
        Access::Admin | Access::Operate | Access::Internal => None,
    };
    let bad = |message: &str| Failure::new(StatusCode::BAD_REQUEST, message);
    let body: Json =
        serde_json::from_slice(&body).map_err(|_| bad("the body is no JSON: {\"sql\": \"…\"}"))?;
    let sql = body.get("sql").and_then(Json::as_str).ok_or_else(|| bad("`sql` is no text"))?;
    let given = match body.get("params") {
        None => Vec::new(),
        Some(Json::Array(given)) => given.iter().map(param).collect(),
        Some(_) => return Err(bad("`params` is no array")),
    };
    match service.answer(&mut session, sql, &given).await {
        Reply::Rows(rows) => Ok(answer(StatusCode::OK, &rows_as_json(&rows))),
        Reply::Ok { affected, info, warnings } => {
            let done = json!({ "affected": affected, "info": info, "warnings": warnings.len() });
            Ok(answer(StatusCode::OK, &done))
        }
        Reply::Error(refused) => Err(refused.into()),
    }
}

pub(super) fn param(given: &Json) -> Value {
    match given {
        Json::Null => Value::Null,
        Json::Bool(flag) => Value::Integer(i64::from(*flag)),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(number), _) => Value::Integer(number),
            (None, Some(number)) => Value::Real(number),
            (None, None) => Value::Null,
        },
        Json::String(text) => Value::Text(text.clone()),
        Json::Array(_) | Json::Object(_) => Value::Text(given.to_string()),
    }
}

/// The description of all this. It holds nothing that the manual does not say.
async fn described() -> Response {
    answer(StatusCode::OK, &description())
}

/// The description of the API: tables from their definitions, the rest from [`schemas`].
pub(super) fn description() -> Json {
    let mut paths = Map::new();
    let secured = json!([{ "token": [] }]);
    for (schema, table) in visible(Access::Admin) {
        let path = format!("/api/v1/tables/{}/{}", schema.name(), table.name);
        let filters = table.columns.iter().map(|column| {
            let kind = if column.is_number() { "integer" } else { "string" };
            json!({ "name": column.name, "in": "query", "schema": { "type": kind } })
        });
        let pages = ["limit", "offset"].map(|name| {
            json!({ "name": name, "in": "query", "schema": { "type": "integer", "minimum": 0 } })
        });
        let get = json!({
            "operationId": format!("read_{}_{}", schema.name(), table.name),
            "summary": format!("rows of {}.{}", schema.name(), table.name),
            "parameters": filters.chain(pages).collect::<Vec<_>>(),
            "security": secured,
            "responses": { "200": {
                "description": "rows",
                "content": { "application/json": { "schema": row_schema(&table) } },
            } },
        });
        paths.insert(path, json!({ "get": get }));
    }
    let simple = |summary: &str| {
        json!({ "get": {
            "summary": summary,
            "security": secured,
            "responses": { "200": { "description": "JSON" } },
        } })
    };
    paths.insert("/api/v1/tables".to_owned(), simple("schemas, tables and columns"));
    paths.insert(
        "/api/v1/statement".to_owned(),
        json!({ "post": {
            "summary": "runs one statement of the admin port",
            "security": secured,
            "requestBody": { "required": true, "content": { "application/json": { "schema": {
                "type": "object",
                "required": ["sql"],
                "properties": { "sql": { "type": "string" }, "params": { "type": "array" } },
            } } } },
            "responses": {
                "200": { "description": "rows, or what was done" },
                "400": { "description": "the admin port's error" },
            },
        } }),
    );
    let others = schemas::paths(&secured).into_iter();
    paths.extend(others.map(|(path, described)| (path.to_owned(), described)));
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Trunkline", "version": env!("CARGO_PKG_VERSION") },
        "components": { "securitySchemes": {
            "token": { "type": "http", "scheme": "bearer" },
        }, "schemas": schemas::schemas() },
        "paths": paths,
    })
}

fn row_schema(table: &Table) -> Json {
    let kind = |column: &tables::ColumnDef| match column.is_number() {
        true => ColumnKind::Integer,
        false => ColumnKind::Text,
    };
    let properties: Map<String, Json> = table
        .columns
        .iter()
        .map(|column| {
            let name = if kind(column) == ColumnKind::Integer { "integer" } else { "string" };
            (column.name.to_owned(), json!({ "type": [name, "null"] }))
        })
        .collect();
    json!({
        "type": "object",
        "properties": {
            "columns": { "type": "array", "items": { "type": "string" } },
            "rows": { "type": "array", "items": {
                "type": "object",
                "properties": properties,
            } },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_says_what_may_be_done() {
        let settings = Settings {
            http_api_token: "all".to_owned(),
            http_api_stats_token: "some".to_owned(),
            http_api_operate_token: "acts".to_owned(),
            ..Settings::default()
        };
        let with = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().expect("a value"));
            access_of(&settings, &headers).map_err(|failure| failure.0.as_u16())
        };
        assert_eq!(with("Bearer all"), Ok(Access::Admin));
        assert_eq!(with("bearer some"), Ok(Access::Stats));
        assert_eq!(with("Bearer acts"), Ok(Access::Operate));
        for wrong in ["Bearer al", "Bearer allx", "Bearer", "Bearer ", "Basic all", "all"] {
            assert_eq!(with(wrong), Err(401), "{wrong}");
        }
        let none = access_of(&Settings::default(), &HeaderMap::new());
        assert_eq!(none.map_err(|failure| failure.0.as_u16()), Err(404));
    }

    #[test]
    fn conditions_are_columns_and_values_are_parameters() {
        let table = tables::find("mysql_servers").expect("a table");
        let made = selection(Schema::Main, &table, "hostname=a%27b+c&port=1&limit=2&offset=3");
        let (sql, params) = made.expect("a statement");
        assert_eq!(
            sql,
            "SELECT * FROM main.mysql_servers WHERE hostname = ? AND port = ? LIMIT 2 OFFSET 3"
        );
        assert_eq!(params, [Value::Text("a'b c".to_owned()), Value::Text("1".to_owned())]);
        for wrong in ["host=1", "limit=x", "limit=99999999", "hostname=%zz"] {
            assert!(selection(Schema::Main, &table, wrong).is_err(), "{wrong}");
        }
    }
}
