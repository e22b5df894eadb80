//! The web console: a page for people, and what it asks for.
//!
//! Reading order: [`serve`] (the routes, and what every answer says to a browser), [`tls`] (the
//! listener), [`login`] and [`visitors`] (who is there), [`stream`], [`hub`] and [`figures`] (what
//! is looked at), [`statement`] (what is changed), [`assets`] (the page itself, built from `web/`).

mod assets;
mod figures;
mod hub;
mod login;
mod statement;
mod stream;
mod tls;
mod visitors;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod types;

use std::{io, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{ConnectInfo, Request, State},
    http::{HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use tokio::{net::TcpListener, sync::Semaphore};

use super::{
    gate::{self, Places},
    guard::{Caller, GuardedListener, Limits},
};
use crate::{service::AdminService, source::StatusSource};
use hub::Hub;
use tls::TlsListener;
use visitors::Visitors;

/// What the page and the proxy agree on: another one means that the page is of another version.
const BUNDLE: &str = include_str!("../../../console/sources.sha256").trim_ascii();

/// The most bytes of a request: statements of operators are longer than what others ask for.
const REQUEST_BYTES_MAX: usize = 256 * 1024;
/// How long a request may take: a switchover takes longer than what others ask for.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(90);

/// What answers of every kind say to a browser. Scripts and styles come from the console's own
/// files alone, nothing is loaded from elsewhere, and no other page may show this one.
const HEADERS: [(HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
         connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// The console, over all of its ports.
pub struct Console {
    service: Arc<AdminService>,
    source: Arc<dyn StatusSource>,
    visitors: Visitors,
    hub: Arc<Hub>,
    places: Arc<Places>,
    /// Searches among all digests, which copy them: one at a time.
    searches: Semaphore,
}

impl Console {
    /// A console that shows what `source` tells, and changes what `service` changes.
    pub fn new(service: Arc<AdminService>, source: Arc<dyn StatusSource>) -> Arc<Self> {
        let hub = Hub::new(Arc::clone(&source), Arc::clone(service.figures()));
        let (visitors, searches) = (Visitors::default(), Semaphore::new(1));
        Arc::new(Self { service, source, visitors, hub, places: Places::new(), searches })
    }
}

/// Serves the console over TLS on `listener` until `shutdown` resolves.
///
/// # Errors
/// Those of the listener that accepting again would not mend.
pub async fn serve(
    listener: TcpListener,
    console: Arc<Console>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let service = Arc::clone(&console.service);
    let limits = Limits {
        request_bytes: REQUEST_BYTES_MAX,
        request_time: REQUEST_TIME_MAX,
        ..Limits::default()
    };
    let figures = Arc::clone(service.figures());
    let listener = GuardedListener::with_limits(listener, limits, figures);
    let listener = TlsListener::new(listener, service);
    let router = router(console).into_make_service_with_connect_info::<Caller>();
    // Pages look for as long as they are open, so nobody is waited for.
    tokio::select! {
        served = axum::serve(listener, router).into_future() => served,
        () = shutdown => Ok(()),
    }
}

fn router(console: Arc<Console>) -> Router {
    let gate = middleware::from_fn_with_state(Arc::clone(&console), pass);
    Router::new()
        .route("/console/login", post(login::log_in))
        .route("/console/logout", post(login::log_out))
        .route("/console/session", get(login::session))
        .route("/console/stream", get(stream::stream))
        .route("/console/audit", get(statement::audit))
        .route("/console/digests", get(statement::digests))
        .route("/console/history", get(statement::history))
        .route("/console/statement", post(statement::statement))
        .fallback(page)
        .layer(gate)
        .with_state(console)
}

/// Has a request that has come whole answered, if there is a place for that.
async fn answered(console: &Console, request: Request, next: Next) -> Response {
    let caller = request.extensions().get::<ConnectInfo<Caller>>().map(|info| info.0.clone());
    let _answering = caller.as_ref().map(Caller::is_answered);
    match console.places.take(request.uri().path()) {
        Ok(_place) => next.run(request).await,
        Err(()) => {
            console.service.figures().http.busy.add(1);
            let busy = "too many requests are being answered; try again in a second";
            login::Denied::new(StatusCode::SERVICE_UNAVAILABLE, busy).into_response()
        }
    }
}

/// What every request passes.
async fn pass(State(console): State<Arc<Console>>, request: Request, next: Next) -> Response {
    let figures = console.service.figures();
    let allowed = console.source.http_allowed_hosts();
    let mut response = match gate::check_request(&allowed, &console.places, &request) {
        Err((status, reason)) => {
            figures.http.foreign.add(1);
            login::Denied::new(status, reason).into_response()
        }
        Ok(()) => match gate::whole(request, REQUEST_BYTES_MAX).await {
            Ok(request) => answered(&console, request, next).await,
            Err((status, reason)) => login::Denied::new(status, reason).into_response(),
        },
    };
    if response.status() == StatusCode::UNAUTHORIZED {
        figures.http.denied.add(1);
    }
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// A file of the page.
async fn page(method: Method, request: Request) -> Response {
    let asset = match method {
        Method::GET | Method::HEAD => assets::asset(request.uri().path(), request.headers()),
        _ => None,
    };
    asset.unwrap_or_else(|| {
        login::Denied::new(StatusCode::NOT_FOUND, "nothing is there").into_response()
    })
}
