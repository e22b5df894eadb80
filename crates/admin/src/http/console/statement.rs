//! What a page asks for beside its stream: statements of the admin port, lines of the past, and
//! searches among digests.

use std::sync::Arc;

use axum::{
    body::Bytes,
    extract::{ConnectInfo, RawQuery, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use trunkline_stats::{DigestOrder, DigestQuery};

use super::{
    Console,
    figures::{digest_name, statements},
    hub::ROWS_MAX,
    login::{Denied, json_body},
};
use crate::{
    http::{
        REPORT_TIME_MAX,
        api::{param, rows_as_json},
        guard::Caller,
        query::decoded,
    },
    past::lines::Asked,
    service::{Reply, Room, Session},
};

/// `POST /console/statement`, `{"sql": "…", "params": […], "expect_version": n}`: one statement of
/// the admin port. It is in the audit log as any other. With a version, only while that
/// configuration runs: whoever decided on another one has to look again.
pub(super) async fn statement(
    State(console): State<Arc<Console>>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Denied> {
    let visitor = console.changing_visitor(&headers)?;
    let bad = |message: &str| Denied::new(StatusCode::BAD_REQUEST, message);
    let body: Value = serde_json::from_slice(&body).map_err(|_| bad("the body is no JSON"))?;
    let sql = body.get("sql").and_then(Value::as_str).ok_or_else(|| bad("`sql` is no text"))?;
    let params = match body.get("params") {
        None => Vec::new(),
        Some(Value::Array(given)) => given.iter().map(param).collect(),
        Some(_) => return Err(bad("`params` is no array")),
    };
    let running = console.service.snapshot().version;
    if let Some(expected) = body.get("expect_version").and_then(Value::as_u64)
        && running != expected
    {
        let message =
            format!("version {running} of the configuration runs, not {expected} any more");
        return Err(Denied::new(StatusCode::CONFLICT, message));
    }
    let mut session = Session {
        warnings: Vec::new(),
        user: if visitor.user.is_empty() { "http".to_owned() } else { visitor.user },
        peer: caller.addr().to_string(),
        id: 0,
        access: visitor.access,
        schema: "main".to_owned(),
        room: Room::of(console.service.budget(), visitor.access),
    };
    let mut answer = match console.service.answer(&mut session, sql, &params).await {
        Reply::Rows(rows) => rows_as_json(&rows),
        Reply::Ok { affected, info, warnings } => {
            json!({ "affected": affected, "info": info, "warnings": warnings })
        }
        Reply::Error(refused) => {
            let error = json!({ "code": refused.code, "message": refused.message });
            let body = json!({ "error": error });
            return Ok((StatusCode::BAD_REQUEST, json_body(&body)).into_response());
        }
    };
    if let Some(answer) = answer.as_object_mut() {
        // What ran before: whoever decides on this answer says it again.
        answer.insert("version".to_owned(), json!(running));
    }
    Ok(json_body(&answer).into_response())
}

/// `GET /console/audit`: the last lines of the audit log, for administrators.
pub(super) async fn audit(
    State(console): State<Arc<Console>>,
    headers: HeaderMap,
) -> Result<Response, Denied> {
    let visitor = console.visitor(&headers)?;
    if visitor.access.is_reader() {
        return Err(Denied::new(StatusCode::FORBIDDEN, "this is for administrators"));
    }
    let lines = console.service.audited().join(",");
    let kind = [(header::CONTENT_TYPE, "application/json")];
    Ok((kind, format!("{{\"lines\":[{lines}]}}")).into_response())
}

/// `GET /console/history?last=3600&points=240&digests=0x…`: lines of the past, as at
/// `/api/v1/history`.
pub(super) async fn history(
    State(console): State<Arc<Console>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Denied> {
    console.visitor(&headers)?;
    let bad = |message: String| Denied::new(StatusCode::BAD_REQUEST, message);
    let asked = Asked::parse(query.as_deref()).map_err(bad)?;
    let lines = console.service.past_lines(asked).await.map_err(|reason| {
        let (status, message) = reason.told();
        Denied::new(status, message)
    })?;
    Ok(json_body(&lines).into_response())
}

/// `GET /console/digests?order=sum_time&search=text`: the first rows by a column among those whose
/// text, user, schema or number holds the text.
pub(super) async fn digests(
    State(console): State<Arc<Console>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Denied> {
    console.visitor(&headers)?;
    let bad = |message: String| Denied::new(StatusCode::BAD_REQUEST, message);
    let (mut order, mut search) = (DigestOrder::SumTime, String::new());
    for part in query.as_deref().unwrap_or_default().split('&').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        match name {
            "order" => {
                let found = DigestOrder::from_name(value);
                order = found.ok_or_else(|| bad("order is no column to order by".to_owned()))?;
            }
            "search" => search = decoded(value).map_err(bad)?.to_lowercase(),
            _ => return Err(bad("order and search are what can be given".to_owned())),
        }
    }
    let asked = async {
        let place = console.searches.acquire().await;
        (console.source.report(DigestQuery { order, ..DigestQuery::ALL }).await, place)
    };
    let (mut report, _place) =
        tokio::time::timeout(REPORT_TIME_MAX, asked).await.map_err(|_| {
            let message = "the workers did not answer in time, or others are searching";
            Denied::new(StatusCode::SERVICE_UNAVAILABLE, message)
        })?;
    report.digests.retain(|row| {
        let holds = |text: &str| text.to_lowercase().contains(&search);
        holds(&row.digest_text)
            || holds(&row.username)
            || holds(&row.schemaname)
            || holds(&digest_name(row.digest))
    });
    let found = report.digests.len();
    let mut told = statements(report, order, ROWS_MAX);
    if let Some(told) = told.as_object_mut() {
        told.insert("found".to_owned(), json!(found));
    }
    Ok(json_body(&told).into_response())
}
