//! Long answers: they are part of the memory budget until they have been sent, and go out in
//! pieces, so that a caller who does not read holds what is counted for him.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    body::{Body, Bytes, HttpBody},
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use futures_core::Stream;
use trunkline_budget::{Budget, Charge, Class, Kind};

use super::text;

/// Shorter answers are not counted: connections bound them.
const SHORT_LEN_MAX: u64 = 64 * 1024;
/// Bytes that are handed to the HTTP library at once.
const PIECE_LEN: usize = 64 * 1024;

/// What is left of an answer.
struct Pieces {
    rest: Bytes,
    _charge: Charge,
}

impl Stream for Pieces {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let len = self.rest.len().min(PIECE_LEN);
        if len == 0 {
            return Poll::Ready(None);
        }
        // A part of the whole would keep all of it, beyond its charge.
        let piece = Bytes::copy_from_slice(&self.rest.split_to(len));
        Poll::Ready(Some(Ok(piece)))
    }
}

/// Charges a long answer to the budget for as long as it takes to send it; one for which there is
/// no memory becomes a refusal. What has no length, as events have none, goes as it is.
pub(super) async fn charged(response: Response, budget: &Arc<Budget>, class: Class) -> Response {
    let Some(len) = response.body().size_hint().exact().filter(|len| *len > SHORT_LEN_MAX) else {
        return response;
    };
    let wanted = usize::try_from(len).unwrap_or(usize::MAX);
    let Ok(charge) = budget.charge(class, Kind::Admin, wanted) else {
        let reason = format!("there is no memory for an answer of {len} bytes (memory_max)");
        return text(StatusCode::SERVICE_UNAVAILABLE, reason);
    };
    let (mut parts, body) = response.into_parts();
    let Ok(rest) = axum::body::to_bytes(body, wanted).await else {
        return text(StatusCode::INTERNAL_SERVER_ERROR, "the answer broke off".to_owned());
    };
    parts.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(len));
    Response::from_parts(parts, Body::from_stream(Pieces { rest, _charge: charge }))
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse;

    use super::*;

    #[tokio::test]
    async fn a_long_answer_is_part_of_the_budget_until_it_is_sent() {
        let budget = Arc::new(Budget::new(1 << 20));
        let of = |len: usize| vec![b'x'; len].into_response();
        let short = charged(of(1_000), &budget, Class::Keep).await;
        assert_eq!(budget.total(), 0);
        drop(short);
        let long = charged(of(500_000), &budget, Class::Keep).await;
        assert_eq!(budget.total(), 500_000);
        let other = charged(of(500_000), &budget, Class::Keep).await;
        assert_eq!(other.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(long.headers().get(header::CONTENT_LENGTH), Some(&HeaderValue::from(500_000)));
        let sent = axum::body::to_bytes(long.into_body(), usize::MAX).await.expect("a body");
        assert_eq!((sent.len(), budget.total()), (500_000, 0));
    }
}
