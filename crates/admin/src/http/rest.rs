//! `/sync/…`: the scripts of `restapi_routes`, as ProxySQL runs them: what is asked is their one
//! argument, and what they write is the answer. Unlike there, who asks needs the API's token.

use std::time::Duration;

use axum::{
    Router,
    body::Bytes,
    extract::{ConnectInfo, Path, RawQuery, State},
    http::{HeaderMap, Method, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use serde_json::{Map, Value as Json, json};

use super::{Answering, Source, api::admit_all, guard::Caller, query::decoded};
use crate::scripts::{Account, NotRun, run};

pub(super) fn routes() -> Router<Answering> {
    Router::new().route("/sync/{uri}", get(asked).post(asked))
}

/// An error in JSON.
fn failure(status: StatusCode, message: impl Into<String>) -> Response {
    let body = json!({ "error": message.into() });
    answer(status, body.to_string())
}

fn answer(status: StatusCode, body: String) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

async fn asked(
    State(answering): Source,
    ConnectInfo(caller): ConnectInfo<Caller>,
    Path(uri): Path<String>,
    method: Method,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let Some(service) = answering.service.clone() else {
        return failure(StatusCode::NOT_FOUND, "there are no routes here");
    };
    let snapshot = service.snapshot();
    // Before anything is told of what routes there are.
    if let Err(refused) = admit_all(&service, &caller, &headers) {
        return refused.into_response();
    }
    let given = match method {
        Method::POST => serde_json::from_slice(&body).map_err(|_| "the body is no JSON".to_owned()),
        _ => parameters(query.as_deref().unwrap_or_default()),
    };
    let given: Json = match given {
        Ok(given) => given,
        Err(reason) => return failure(StatusCode::BAD_REQUEST, reason),
    };
    let route = match service.route(method.as_str(), &uri).await {
        Ok(Some(route)) => route,
        Ok(None) => return failure(StatusCode::NOT_FOUND, format!("nothing is at /sync/{uri}")),
        Err(refused) => return failure(StatusCode::INTERNAL_SERVER_ERROR, refused.message),
    };
    let account = match Account::of(&snapshot.settings) {
        Ok(account) => account,
        Err(reason) => return failure(StatusCode::SERVICE_UNAVAILABLE, reason),
    };
    let Ok(_place) = service.script_places().try_acquire() else {
        return failure(StatusCode::SERVICE_UNAVAILABLE, "too many scripts run already");
    };
    let limit = Duration::from_millis(route.timeout_ms);
    match run(&route.script, &[given.to_string()], account, limit).await {
        Ok(ended) if ended.code != Some(0) => {
            let said = json!({
                "error": "the script failed",
                "exit_code": ended.code,
                "stderr": ended.complaint,
            });
            answer(StatusCode::FAILED_DEPENDENCY, said.to_string())
        }
        Ok(ended) => match serde_json::from_str::<Json>(&ended.output) {
            Ok(_) => answer(StatusCode::OK, ended.output),
            Err(_) => failure(StatusCode::FAILED_DEPENDENCY, "the script's output is no JSON"),
        },
        Err(error @ NotRun::TimedOut(_)) => {
            failure(StatusCode::GATEWAY_TIMEOUT, format!("the script {error}"))
        }
        Err(error) => failure(StatusCode::FAILED_DEPENDENCY, format!("the script {error}")),
    }
}

/// The part behind the question mark as an object of texts.
fn parameters(query: &str) -> Result<Json, String> {
    let mut members = Map::new();
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        members.insert(decoded(name)?, Json::String(decoded(value)?));
    }
    Ok(Json::Object(members))
}
