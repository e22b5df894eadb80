//! One stream of events for a page: all topics that it shows.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Body, Bytes},
    extract::{RawQuery, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use futures_core::Stream;
use serde_json::json;
use tokio::{sync::mpsc, task::JoinSet};
use trunkline_stats::DigestOrder;

use super::{BUNDLE, Console, hub::Topic, login::Denied};

/// How often it is looked whether the visitor may still look.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// Events that wait for a slow reader.
const WAITING_MAX: usize = 8;
/// Topics of one stream.
const TOPICS_MAX: usize = 4;

/// What asks for the points of charts that were told before.
const HISTORY: &str = "history";

/// An event on its way; `None` is the end.
type Frame = Option<Bytes>;

/// `GET /console/stream?now&topology&sessions&statements=sum_time&history`.
pub(super) async fn stream(
    State(console): State<Arc<Console>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Denied> {
    console.visitor(&headers)?;
    let query = query.unwrap_or_default();
    let topics = topics(&query).map_err(|message| Denied::new(StatusCode::BAD_REQUEST, message))?;
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    let mut tasks = JoinSet::new();
    let first = frame("hello", &json!({ "bundle": BUNDLE }).to_string());
    // There is room for it.
    let _ = sender.try_send(Some(first));
    if query.split('&').any(|part| part == HISTORY) {
        let _ = sender.try_send(Some(frame("history", &console.hub.history())));
    }
    for topic in topics {
        let (mut told, sender) = (console.hub.look(topic), sender.clone());
        tasks.spawn(async move {
            // Somebody else may have looked already.
            loop {
                let text = Arc::clone(&told.borrow_and_update());
                if !text.is_empty() && sender.send(Some(frame(topic.name(), &text))).await.is_err()
                {
                    return;
                }
                if told.changed().await.is_err() {
                    return;
                }
            }
        });
    }
    tasks.spawn(async move {
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            if console.visitor(&headers).is_err() {
                for last in [Some(frame("bye", "{}")), None] {
                    // Nobody reads any more when it fails.
                    let _ = sender.send(last).await;
                }
                return;
            }
            // It says that the proxy is there, and finds out who is not.
            if sender.send(Some(Bytes::from_static(b": still here\n\n"))).await.is_err() {
                return;
            }
        }
    });
    let body = Body::from_stream(Events { receiver, _tasks: tasks });
    Ok(([(header::CONTENT_TYPE, "text/event-stream")], body).into_response())
}

/// What a stream is asked for.
fn topics(query: &str) -> Result<Vec<Topic>, String> {
    let mut topics = Vec::new();
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let topic = match name {
            HISTORY => continue,
            "now" => Topic::Now,
            "topology" => Topic::Topology,
            "sessions" => Topic::Sessions,
            "statements" => {
                let order = DigestOrder::from_name(value);
                Topic::Statements(order.ok_or("statements=… wants a column to order by")?.name())
            }
            _ => return Err("now, topology, sessions and statements can be looked at".to_owned()),
        };
        if !topics.contains(&topic) {
            topics.push(topic);
        }
    }
    match topics.len() {
        1..=TOPICS_MAX => Ok(topics),
        _ => Err(format!("one to {TOPICS_MAX} topics can be looked at")),
    }
}

/// An event; JSON on one line needs no more lines.
fn frame(name: &str, text: &str) -> Bytes {
    debug_assert!(!text.contains('\n'));
    Bytes::from(format!("event: {name}\ndata: {text}\n\n"))
}

/// The events of a stream. When it is dropped, nobody looks.
struct Events {
    receiver: mpsc::Receiver<Frame>,
    _tasks: JoinSet<()>,
}

impl Stream for Events {
    type Item = Result<Bytes, std::convert::Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.receiver.poll_recv(cx).map(|frame| frame.flatten().map(Ok))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_has_known_topics_each_once() {
        let asked = |query: &str| topics(query);
        assert_eq!(asked("now&now&history&topology"), Ok(vec![Topic::Now, Topic::Topology]));
        assert_eq!(
            asked("statements=count_star&sessions"),
            Ok(vec![Topic::Statements("count_star"), Topic::Sessions])
        );
        for wrong in ["", "then", "statements", "statements=digest_text"] {
            assert!(asked(wrong).is_err(), "{wrong}");
        }
        let many = "statements=errors&statements=sum_time&now&sessions&topology";
        assert!(asked(many).is_err());
    }
}
