//! The HTTP server: `/metrics`, `/sd`, `/healthz`, `/readyz`, `/status`, `/status/digests`,
//! `/sessions`, and the API.

mod api;
mod body;
mod changes;
pub mod console;
mod discovery;
mod gate;
mod guard;
mod hosts;
mod ports;
mod query;
mod rest;
mod schemas;

use std::{io, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{RawQuery, State},
    http::{HeaderMap, StatusCode, Uri, header},
    middleware,
    response::{IntoResponse, Response},
    routing::get,
};
use serde::Serialize;
use tokio::net::TcpListener;
use trunkline_stats::{DigestOrder, DigestQuery, DigestRow, DigestSums, Report, SessionQuery};

use crate::{
    exposition::{self, Form, metrics_body},
    figures::Figures,
    service::AdminService,
    source::{Health, StatusSource},
    status::status_text,
};
use gate::Places;
use guard::{Caller, GuardedListener};
pub use ports::keep_ports;
use query::Query;

/// How long a request waits for the workers' numbers.
pub const REPORT_TIME_MAX: Duration = Duration::from_secs(5);
/// How long requests may still run after the server was told to stop.
pub const STOP_TIME_MAX: Duration = Duration::from_secs(2);
/// Rows of the digest table in `/status`.
pub const STATUS_DIGESTS: usize = 100;
/// The most rows that `/status/digests` gives.
pub const DIGESTS_MAX: usize = 10_000;
/// Rows of `/status/digests` when the request does not say.
pub const DIGESTS_DEFAULT: usize = 50;
/// The most rows that `/sessions` gives.
pub const SESSIONS_MAX: usize = 10_000;
/// Rows of `/sessions` when the request does not say.
pub const SESSIONS_DEFAULT: usize = 50;

const ROUTES: &str = "\
GET /                           what `trunkline status` shows
GET /metrics                    metrics for Prometheus; ?digests=N adds the N heaviest digests
GET /sd                         servers as targets for Prometheus' http_sd_configs
GET /healthz                    200 while the process works, 503 with the reason otherwise
GET /readyz                     200 while new clients are welcome; turns first at a graceful stop
GET /status                     all numbers as JSON
GET /status/digests             statements by digest as JSON; ?limit=50&order=sum_time
GET /sessions                   sessions as JSON, pinned ones first; ?limit=50&pinned=1
GET /api/v1/topology            clusters with their servers, as JSON
GET /api/v1/events              what has happened to clusters, as JSON
GET /api/v1/openapi.json        the description of what follows, which wants a bearer token
GET /api/v1/history             lines of the past as JSON; ?last=3600&points=240&digests=0x…,0x…
GET /api/v1/tables              every table; /api/v1/tables/SCHEMA/TABLE?column=value has its rows
GET /api/v1/changes             what transactions of a cluster with binlog_stream change, as a
                                stream of events; ?cluster=NAME&from=GTID&table=SCHEMA.TABLE
GET, POST /sync/NAME            the scripts of restapi_routes, where admin-restapi_enabled is true,
                                for who has the API's token
POST /api/v1/statement          one statement of the admin port, in JSON as `sql`
";

/// What the handlers share.
#[derive(Clone)]
struct Answering {
    source: Arc<dyn StatusSource>,
    report_time: Duration,
    /// For the API.
    service: Option<Arc<AdminService>>,
    places: Arc<Places>,
    figures: Arc<Figures>,
}

impl Answering {
    fn new(source: Arc<dyn StatusSource>, service: Option<Arc<AdminService>>) -> Self {
        let figures = service.as_ref().map(|service| Arc::clone(service.figures()));
        let figures = figures.unwrap_or_default();
        Self { source, report_time: REPORT_TIME_MAX, service, places: Places::new(), figures }
    }
}

type Source = State<Answering>;

/// Serves HTTP/1 on `listener` until `shutdown` resolves, then at most [`STOP_TIME_MAX`] longer.
///
/// At most 64 connections at once, each with limits on the size of a request and on the time that
/// it may take; for one more, another one gives way. `service` is what the API asks, where there
/// is one.
///
/// # Errors
/// Those of the listener that accepting again would not mend.
pub async fn serve(
    listener: TcpListener,
    source: Arc<dyn StatusSource>,
    service: Option<Arc<AdminService>>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let (stopping, was_stopped) = tokio::sync::oneshot::channel::<()>();
    let stop = async move {
        shutdown.await;
        // Nobody listens any more when serving has ended with an error.
        let _ = stopping.send(());
    };
    let answering = Answering::new(source, service);
    let listener = GuardedListener::new(listener, Arc::clone(&answering.figures));
    let service = router(answering).into_make_service_with_connect_info::<Caller>();
    let serving = axum::serve(listener, service).with_graceful_shutdown(stop).into_future();
    let deadline = async move {
        match was_stopped.await {
            Ok(()) => tokio::time::sleep(STOP_TIME_MAX).await,
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        result = serving => result,
        () = deadline => Ok(()),
    }
}

fn router(answering: Answering) -> Router {
    let gate = middleware::from_fn_with_state(answering.clone(), gate::pass);
    Router::new()
        .route("/", get(home))
        .route("/metrics", get(metrics))
        .route("/sd", get(discovery::targets))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/status", get(status))
        .route("/status/digests", get(digests))
        .route("/sessions", get(sessions))
        .route("/api/v1/topology", get(topology))
        .route("/api/v1/events", get(events))
        .merge(api::routes())
        .merge(changes::routes())
        .merge(rest::routes())
        .fallback(not_found)
        .layer(gate)
        .with_state(answering)
}

/// Why a request gets no answer of its own.
enum Refusal {
    BadQuery(String),
    /// The workers took longer than this.
    TimedOut(Duration),
    Encoding(serde_json::Error),
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        match self {
            Self::BadQuery(reason) => text(StatusCode::BAD_REQUEST, reason),
            Self::TimedOut(limit) => {
                let reason = format!("the workers did not answer within {limit:?}");
                text(StatusCode::SERVICE_UNAVAILABLE, reason)
            }
            Self::Encoding(error) => {
                tracing::error!(%error, "a report could not be encoded");
                text(StatusCode::INTERNAL_SERVER_ERROR, "the report could not be encoded".into())
            }
        }
    }
}

fn text(status: StatusCode, line: String) -> Response {
    (status, format!("{line}\n")).into_response()
}

fn json(value: &impl Serialize) -> Result<Response, Refusal> {
    let body = serde_json::to_vec(value).map_err(Refusal::Encoding)?;
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

async fn report(answering: &Answering, digests: DigestQuery) -> Result<Report, Refusal> {
    let limit = answering.report_time;
    let asked = tokio::time::timeout(limit, answering.source.report(digests));
    let mut report = asked.await.map_err(|_| Refusal::TimedOut(limit))?;
    answering.figures.fill(&mut report.process);
    Ok(report)
}

/// The first `limit` rows over all workers are looked for among this many of each.
fn rows_of_each_worker(order: DigestOrder, limit: usize) -> DigestQuery {
    DigestQuery { order, rows_max: limit.saturating_mul(4) }
}

async fn metrics(
    source: Source,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let query = Query::parse(query.as_deref(), &["digests"]).map_err(Refusal::BadQuery)?;
    let digests = query.number("digests", 0, exposition::DIGESTS_MAX).map_err(Refusal::BadQuery)?;
    let asked = rows_of_each_worker(DigestOrder::SumTime, digests);
    let accept = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let form = Form::wanted(&accept.collect::<Vec<_>>().join(","));
    let body = metrics_body(&report(&source, asked).await?, digests, form);
    Ok(([(header::CONTENT_TYPE, form.content_type())], body).into_response())
}

/// The page for people.
async fn home(source: Source) -> Result<Response, Refusal> {
    let asked = rows_of_each_worker(DigestOrder::SumTime, STATUS_DIGESTS);
    let report = report(&source, asked).await?;
    let kind = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
    Ok((kind, format!("{}\n{ROUTES}", status_text(&report))).into_response())
}

async fn healthz(State(answering): Source) -> Response {
    match answering.source.health() {
        Health::Ready | Health::NotReady(_) => text(StatusCode::OK, "ok".into()),
        Health::Failed(reason) => text(StatusCode::SERVICE_UNAVAILABLE, reason),
    }
}

async fn readyz(State(answering): Source) -> Response {
    match answering.source.health() {
        Health::Ready => text(StatusCode::OK, "ok".into()),
        Health::NotReady(reason) | Health::Failed(reason) => {
            text(StatusCode::SERVICE_UNAVAILABLE, reason)
        }
    }
}

async fn status(source: Source) -> Result<Response, Refusal> {
    let asked = rows_of_each_worker(DigestOrder::SumTime, STATUS_DIGESTS);
    let mut report = report(&source, asked).await?;
    report.digests.truncate(STATUS_DIGESTS);
    json(&report)
}

/// The answer of `/status/digests`.
#[derive(Serialize)]
struct DigestPage {
    order: &'static str,
    digests: Vec<DigestRow>,
    other: DigestSums,
    evicted: u64,
}

async fn digests(source: Source, RawQuery(query): RawQuery) -> Result<Response, Refusal> {
    let query = Query::parse(query.as_deref(), &["limit", "order"]).map_err(Refusal::BadQuery)?;
    let limit = query.number("limit", DIGESTS_DEFAULT, DIGESTS_MAX).map_err(Refusal::BadQuery)?;
    let order = query.order("order").map_err(Refusal::BadQuery)?;
    let _turn = source.places.turn_to_list().await;
    let mut report = report(&source, rows_of_each_worker(order, limit)).await?;
    report.sort_digests(order);
    report.digests.truncate(limit);
    json(&DigestPage {
        order: order.name(),
        digests: report.digests,
        other: report.digests_other,
        evicted: report.digests_evicted,
    })
}

async fn sessions(
    State(answering): Source,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let query = Query::parse(query.as_deref(), &["limit", "pinned"]).map_err(Refusal::BadQuery)?;
    let rows = query.number("limit", SESSIONS_DEFAULT, SESSIONS_MAX).map_err(Refusal::BadQuery)?;
    let pinned = query.number("pinned", 0, 1).map_err(Refusal::BadQuery)?;
    let asked = SessionQuery { rows_max: rows, pinned_only: pinned == 1 };
    let _turn = answering.places.turn_to_list().await;
    let limit = answering.report_time;
    let answer = tokio::time::timeout(limit, answering.source.sessions(asked)).await;
    json(&answer.map_err(|_| Refusal::TimedOut(limit))?)
}

async fn topology(State(answering): Source) -> Result<Response, Refusal> {
    json(&answering.source.topology())
}

async fn events(State(answering): Source) -> Result<Response, Refusal> {
    json(&answering.source.topology().events)
}

async fn not_found(uri: Uri) -> Response {
    let path = uri.path();
    text(StatusCode::NOT_FOUND, format!("nothing is at {path}; there is\n\n{}", ROUTES.trim_end()))
}

#[cfg(test)]
mod tests;
