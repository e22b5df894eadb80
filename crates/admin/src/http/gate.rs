//! What every request passes: whether it may come at all, and whether there is room to answer it.
//!
//! Probes have places that nobody else can take. `/healthz` and `/readyz` wait for nothing, so they
//! need none; what Prometheus asks for has its own; everything else shares the rest.

use std::sync::Arc;

use axum::{
    body::{Body, to_bytes},
    extract::{ConnectInfo, Request, State},
    http::{HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::Response,
};
use tokio::sync::{Semaphore, SemaphorePermit};
use trunkline_budget::Class;

use super::{
    Answering, body,
    guard::{Caller, REQUEST_BYTES_MAX},
    hosts, text,
};

/// Requests for `/metrics` and `/sd` that are answered at once.
pub(super) const METRICS_PLACES: usize = 8;
/// Other requests that are answered at once. With those above it is fewer than
/// [`CONNECTIONS_MAX`](super::guard::CONNECTIONS_MAX): there is always a connection that may be
/// closed for another one.
pub(super) const OTHER_PLACES: usize = 24;
/// Statements of those who may look at statistics only that are answered at once, or wait for
/// their turn.
const STATISTICS_PLACES: usize = 8;
/// Lists of digests and sessions that are made at once.
const LIST_PLACES: usize = 2;

/// Places for requests, of one listener.
#[derive(Debug)]
pub(super) struct Places {
    metrics: Semaphore,
    others: Semaphore,
    statistics: Semaphore,
    lists: Semaphore,
    /// The machine's name.
    own_name: String,
}

impl Places {
    pub(super) fn new() -> Arc<Self> {
        Self::of(METRICS_PLACES, OTHER_PLACES)
    }

    pub(super) fn of(metrics: usize, others: usize) -> Arc<Self> {
        Arc::new(Self {
            metrics: Semaphore::new(metrics),
            others: Semaphore::new(others),
            statistics: Semaphore::new(STATISTICS_PLACES),
            lists: Semaphore::new(LIST_PLACES),
            own_name: hosts::own_name(),
        })
    }

    /// A place for a statement of somebody who may look at statistics only: administrators find
    /// others.
    pub(super) fn take_for_statistics(&self) -> Option<SemaphorePermit<'_>> {
        self.statistics.try_acquire().ok()
    }

    /// A turn to make a list, which may be long. It is given back before the list is sent.
    pub(super) async fn turn_to_list(&self) -> Option<SemaphorePermit<'_>> {
        self.lists.acquire().await.ok()
    }

    /// A place for a request, where it needs one.
    pub(super) fn take(&self, path: &str) -> Result<Option<SemaphorePermit<'_>>, ()> {
        let places = match path {
            "/healthz" | "/readyz" => return Ok(None),
            "/metrics" | "/sd" => &self.metrics,
            _ => &self.others,
        };
        places.try_acquire().map(Some).map_err(|_| ())
    }
}

/// Lets a request pass to its handler, or answers it.
pub(super) async fn pass(
    State(answering): State<Answering>,
    request: Request,
    next: Next,
) -> Response {
    if let Err((status, reason)) = check(&answering, &request) {
        answering.figures.http.foreign.add(1);
        return text(status, reason);
    }
    let request = match whole(request, REQUEST_BYTES_MAX).await {
        Ok(request) => request,
        Err((status, reason)) => return text(status, reason),
    };
    let caller = request.extensions().get::<ConnectInfo<Caller>>().map(|info| info.0.clone());
    let _answering = caller.as_ref().map(Caller::is_answered);
    let Ok(_place) = answering.places.take(request.uri().path()) else {
        answering.figures.http.busy.add(1);
        let busy = "too many requests are being answered; try again in a second".to_owned();
        let mut response = text(StatusCode::SERVICE_UNAVAILABLE, busy);
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        return response;
    };
    // Lists are for everybody; who scrapes, or has a token, is served when memory is short, too.
    let class = match request.uri().path() {
        "/" | "/status" | "/status/digests" | "/sessions" => Class::Keep,
        _ => Class::Admin,
    };
    let response = next.run(request).await;
    if response.status() == StatusCode::UNAUTHORIZED {
        answering.figures.http.denied.add(1);
    }
    match &answering.service {
        Some(service) => body::charged(response, service.budget(), class).await,
        None => response,
    }
}

/// Waits for a request's body, of at most `len_max` bytes: nobody has a place, or is worked for,
/// whose request has not come.
pub(super) async fn whole(
    request: Request,
    len_max: usize,
) -> Result<Request, (StatusCode, String)> {
    let (parts, body) = request.into_parts();
    match to_bytes(body, len_max).await {
        Ok(body) => Ok(Request::from_parts(parts, Body::from(body))),
        Err(_) => {
            Err((StatusCode::PAYLOAD_TOO_LARGE, "the request's body did not come".to_owned()))
        }
    }
}

fn check(answering: &Answering, request: &Request) -> Result<(), (StatusCode, String)> {
    check_request(&answering.source.http_allowed_hosts(), &answering.places, request)
}

/// Whether a request may come by the names in its headers, and with its kind of body.
pub(super) fn check_request(
    allowed: &str,
    places: &Places,
    request: &Request,
) -> Result<(), (StatusCode, String)> {
    let (uri, headers) = (request.uri(), request.headers());
    hosts::check(uri, headers, allowed, &places.own_name).map_err(|foreign| {
        let status = match foreign {
            hosts::Foreign::Host(_) => StatusCode::MISDIRECTED_REQUEST,
            hosts::Foreign::Hosts => StatusCode::BAD_REQUEST,
            hosts::Foreign::Origin(_) => StatusCode::FORBIDDEN,
        };
        (status, foreign.to_string())
    })?;
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default().trim();
    // What a page can send elsewhere without being asked first has other types.
    if request.method() == Method::POST && !kind.eq_ignore_ascii_case("application/json") {
        let reason = "a POST here has `Content-Type: application/json`".to_owned();
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, reason));
    }
    Ok(())
}
