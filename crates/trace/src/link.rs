//! The connection to the collector: one request at a time, over HTTP/1.1 or gRPC.

use std::{
    io::Read,
    path::{Path, PathBuf},
    time::Duration,
};

use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    HeaderMap, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    client::conn::{http1, http2},
    header::{self, HeaderName, HeaderValue},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use trunkline_config::{Collector, OtlpProtocol};

use crate::headers;

/// The most bytes of an answer.
const ANSWER_LEN_MAX: usize = 64 * 1_024;
/// What precedes a message of gRPC: whether it is compressed, and its length.
const GRPC_PREFIX_LEN: usize = 5;

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    Traces,
    Metrics,
}

impl Signal {
    fn http_path(self) -> &'static str {
        match self {
            Self::Traces => "/v1/traces",
            Self::Metrics => "/v1/metrics",
        }
    }

    fn grpc_path(self) -> &'static str {
        match self {
            Self::Traces => "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
            Self::Metrics => "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
        }
    }
}

/// Why the collector did not take something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It may take it later, perhaps after a pause that it asks for.
    Later(String, Option<Duration>),
    /// It never will.
    Never(String),
}

fn later(why: impl ToString) -> Failure {
    Failure::Later(why.to_string(), None)
}

/// The way to a collector. It is opened when something is to be sent, and stays open.
#[derive(Debug)]
pub(crate) struct Link {
    collector: Collector,
    headers_file: Option<PathBuf>,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    sender: Sender,
    headers: Vec<(HeaderName, HeaderValue)>,
}

#[derive(Debug)]
enum Sender {
    Http(http1::SendRequest<Full<Bytes>>),
    Grpc(http2::SendRequest<Full<Bytes>>),
}

impl Open {
    fn is_closed(&self) -> bool {
        match &self.sender {
            Sender::Http(sender) => sender.is_closed(),
            Sender::Grpc(sender) => sender.is_closed(),
        }
    }
}

impl Link {
    pub(crate) fn new(collector: Collector, headers_file: Option<PathBuf>) -> Self {
        Self { collector, headers_file, open: None }
    }

    /// Whether it leads there, and has its headers from this file.
    pub(crate) fn is_to(&self, collector: &Collector, headers_file: Option<&Path>) -> bool {
        self.collector == *collector && self.headers_file.as_deref() == headers_file
    }

    /// Sends a message; the collector's own as its answer. Whoever gives up waiting drops this, and
    /// the connection with it.
    pub(crate) async fn send(&mut self, signal: Signal, message: Bytes) -> Result<Bytes, Failure> {
        // A collector closes connections that rest.
        let mut open = match self.open.take().filter(|open| !open.is_closed()) {
            Some(open) => open,
            None => self.open().await?,
        };
        let request = self.request(signal, message, &open.headers)?;
        let answer = match &mut open.sender {
            Sender::Http(sender) => {
                sender.ready().await.map_err(later)?;
                http_answer(sender.send_request(request).await.map_err(later)?).await
            }
            Sender::Grpc(sender) => {
                sender.ready().await.map_err(later)?;
                grpc_answer(sender.send_request(request).await.map_err(later)?).await
            }
        };
        // What has been answered leaves the connection as it was.
        self.open = Some(open);
        answer
    }

    async fn open(&self) -> Result<Open, Failure> {
        let headers = match self.headers_file.clone() {
            Some(path) => tokio::task::spawn_blocking(move || read_headers(&path))
                .await
                .map_err(later)?
                .map_err(later)?,
            None => Vec::new(),
        };
        let place = (self.collector.host.as_str(), self.collector.port);
        let stream = TcpStream::connect(place).await.map_err(later)?;
        let _ = stream.set_nodelay(true);
        let io = TokioIo::new(stream);
        // The task ends with the connection, and that with its sender.
        let sender = match self.collector.protocol {
            OtlpProtocol::Http => {
                let (sender, connection) = http1::handshake(io).await.map_err(later)?;
                tokio::spawn(async { drop(connection.await) });
                Sender::Http(sender)
            }
            OtlpProtocol::Grpc => {
                let (sender, connection) =
                    http2::handshake(TokioExecutor::new(), io).await.map_err(later)?;
                tokio::spawn(async { drop(connection.await) });
                Sender::Grpc(sender)
            }
        };
        Ok(Open { sender, headers })
    }

    fn request(
        &self,
        signal: Signal,
        message: Bytes,
        headers: &[(HeaderName, HeaderValue)],
    ) -> Result<Request<Full<Bytes>>, Failure> {
        let authority = self.collector.authority();
        let (uri, kind, body) = match self.collector.protocol {
            OtlpProtocol::Http => {
                let uri = format!("{}{}", self.collector.path, signal.http_path());
                (uri, "application/x-protobuf", message)
            }
            OtlpProtocol::Grpc => {
                let uri = format!("http://{authority}{}", signal.grpc_path());
                (uri, "application/grpc", framed(&message)?)
            }
        };
        let mut request = Request::post(uri)
            .header(header::CONTENT_TYPE, kind)
            .header(header::USER_AGENT, concat!("trunkline/", env!("CARGO_PKG_VERSION")));
        request = match self.collector.protocol {
            OtlpProtocol::Http => request.header(header::HOST, authority),
            OtlpProtocol::Grpc => request.header(header::TE, "trailers"),
        };
        for (name, value) in headers {
            request = request.header(name, value);
        }
        request.body(Full::new(body)).map_err(|error| Failure::Never(error.to_string()))
    }
}

fn read_headers(path: &Path) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
    let wrong = |why: &dyn ToString| format!("{}: {}", path.display(), why.to_string());
    let file = std::fs::File::open(path).map_err(|error| wrong(&error))?;
    let mut text = String::new();
    let mut limited = file.take(headers::FILE_LEN_MAX);
    limited.read_to_string(&mut text).map_err(|error| wrong(&error))?;
    headers::read(&text).map_err(|error| wrong(&error))
}

/// A message of gRPC, not compressed.
fn framed(message: &[u8]) -> Result<Bytes, Failure> {
    let len = u32::try_from(message.len());
    let len = len.map_err(|_| Failure::Never("a message of more than 4 GiB".to_owned()))?;
    let mut framed = Vec::with_capacity(GRPC_PREFIX_LEN + message.len());
    framed.push(0);
    framed.extend_from_slice(&len.to_be_bytes());
    framed.extend_from_slice(message);
    Ok(framed.into())
}

/// Source: OpenTelemetry, "OTLP Specification", "OTLP/HTTP Response".
async fn http_answer(response: Response<Incoming>) -> Result<Bytes, Failure> {
    let (parts, body) = response.into_parts();
    let body = Limited::new(body, ANSWER_LEN_MAX).collect().await.map_err(later)?.to_bytes();
    judge_http(parts.status, &parts.headers).map(|()| body)
}

fn judge_http(status: StatusCode, headers: &HeaderMap) -> Result<(), Failure> {
    let why = format!("the collector answered with HTTP status {}", status.as_u16());
    match status.as_u16() {
        200..=299 => Ok(()),
        429 | 502 | 503 | 504 => {
            let asked = headers.get(header::RETRY_AFTER);
            let asked = asked.and_then(|value| value.to_str().ok()?.trim().parse().ok());
            Err(Failure::Later(why, asked.map(Duration::from_secs)))
        }
        _ => Err(Failure::Never(why)),
    }
}

/// Source: gRPC, "gRPC over HTTP2", "Responses"; OTLP's specification says which codes may be
/// tried again.
async fn grpc_answer(response: Response<Incoming>) -> Result<Bytes, Failure> {
    let (parts, body) = response.into_parts();
    judge_http(parts.status, &parts.headers)?;
    let collected = Limited::new(body, ANSWER_LEN_MAX).collect().await.map_err(later)?;
    let code = collected.trailers().and_then(grpc_status).or_else(|| grpc_status(&parts.headers));
    judge_grpc(code)?;
    let message = collected.to_bytes();
    Ok(message.slice(GRPC_PREFIX_LEN.min(message.len())..))
}

fn grpc_status(headers: &HeaderMap) -> Option<u32> {
    headers.get("grpc-status")?.to_str().ok()?.parse().ok()
}

fn judge_grpc(code: Option<u32>) -> Result<(), Failure> {
    let Some(code) = code else { return Err(later("the collector's answer has no gRPC status")) };
    let why = format!("the collector answered with gRPC status {code}");
    match code {
        0 => Ok(()),
        // Cancelled, deadline exceeded, resource exhausted, aborted, out of range, unavailable,
        // data loss.
        1 | 4 | 8 | 10 | 11 | 14 | 15 => Err(Failure::Later(why, None)),
        _ => Err(Failure::Never(why)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http(status: u16, retry_after: Option<&str>) -> Result<(), Failure> {
        let mut headers = HeaderMap::new();
        if let Some(text) = retry_after {
            headers.insert(header::RETRY_AFTER, text.parse().expect("a value"));
        }
        judge_http(StatusCode::from_u16(status).expect("a status"), &headers)
    }

    #[test]
    fn what_may_be_taken_later_is_told_from_what_never_will() {
        assert_eq!(http(200, None), Ok(()));
        assert_eq!(http(202, None), Ok(()));
        for status in [429, 502, 503, 504] {
            assert!(matches!(http(status, None), Err(Failure::Later(_, None))), "{status}");
        }
        let asked = Some(Duration::from_secs(7));
        assert!(matches!(http(503, Some("7")), Err(Failure::Later(_, it)) if it == asked));
        let date = Some("Wed, 21 Oct 2026 07:28:00 GMT");
        assert!(matches!(http(503, date), Err(Failure::Later(_, None))));
        for status in [301, 400, 401, 404, 413, 500] {
            assert!(matches!(http(status, Some("7")), Err(Failure::Never(_))), "{status}");
        }
        assert_eq!(judge_grpc(Some(0)), Ok(()));
        for code in [Some(14), Some(8), Some(4), None] {
            assert!(matches!(judge_grpc(code), Err(Failure::Later(..))), "{code:?}");
        }
        for code in [3, 7, 12, 16] {
            assert!(matches!(judge_grpc(Some(code)), Err(Failure::Never(_))), "{code}");
        }
    }

    #[test]
    fn a_message_of_grpc_has_its_length_before_it() {
        assert_eq!(framed(b"abc"), Ok(Bytes::from_static(b"\0\0\0\0\x03abc")));
    }
}
