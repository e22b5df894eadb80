//! `/api/v1/changes`: committed transactions as a stream of events.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{ConnectInfo, RawQuery, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use futures_core::Stream;
use serde_json::{Value, json};
use tokio::time::{Interval, MissedTickBehavior, interval};
use trunkline_binlog::{Change, NotTold, Told};

use super::{Answering, Source, api, guard::Caller, query::decoded};

/// How often something is sent when nothing has changed: it finds out who has gone.
const STILL_HERE_EVERY: Duration = Duration::from_secs(5);
/// The most tables that one request may name.
const TABLES_MAX: usize = 64;
/// With what a client of server-sent events says where it goes on.
const LAST_EVENT_ID: &str = "last-event-id";

pub(super) fn routes() -> Router<Answering> {
    Router::new().route("/api/v1/changes", get(changes))
}

/// What is asked for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Asked {
    cluster: Option<String>,
    from: Option<String>,
    /// Schema and name; empty for all.
    tables: Vec<(String, String)>,
}

impl Asked {
    fn read(query: &str, headers: &HeaderMap) -> Result<Self, String> {
        let mut asked = Self::default();
        let last = headers.get(LAST_EVENT_ID).and_then(|value| value.to_str().ok());
        for part in query.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let value = decoded(value)?;
            match name {
                "cluster" => asked.cluster = Some(value),
                "from" => asked.from = Some(value),
                "table" => {
                    let table = value
                        .split_once('.')
                        .filter(|(schema, name)| !schema.is_empty() && !name.is_empty());
                    let (schema, name) = table.ok_or("table=… wants SCHEMA.TABLE")?;
                    asked.tables.push((schema.to_owned(), name.to_owned()));
                }
                _ => {
                    return Err(format!("unknown parameter `{name}`; known: cluster, from, table"));
                }
            }
        }
        if asked.tables.len() > TABLES_MAX {
            return Err(format!("at most {TABLES_MAX} tables can be named"));
        }
        // A client that comes back says more than the address that it had at first.
        if let Some(last) = last {
            asked.from = Some(last.to_owned());
        }
        Ok(asked)
    }

    /// Whether a transaction may have changed one of the tables. What is in the log as a statement,
    /// or is not known, may change any; letters are compared without regard to their case.
    fn concerns(&self, change: &Change) -> bool {
        let is_named = |schema: &str, table: &str| {
            let mut named = self.tables.iter();
            named.any(|(own, name)| {
                own.to_lowercase() == schema.to_lowercase()
                    && name.to_lowercase() == table.to_lowercase()
            })
        };
        self.tables.is_empty()
            || !change.is_complete
            || !change.statements.is_empty()
            || change.tables.iter().any(|it| is_named(&it.name.schema, &it.name.table))
    }
}

async fn changes(
    State(answering): Source,
    ConnectInfo(caller): ConnectInfo<Caller>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, api::Failure> {
    let Some(service) = &answering.service else {
        return Err(api::Failure::new(StatusCode::NOT_FOUND, "there is no API here"));
    };
    api::access(service, &caller, &headers)?;
    let asked = Asked::read(query.as_deref().unwrap_or_default(), &headers)
        .map_err(|message| api::Failure::new(StatusCode::BAD_REQUEST, message))?;
    let told = answering.source.changes(asked.cluster.as_deref(), asked.from.as_deref());
    let receiver = told.map_err(|not| {
        let status = match not {
            NotTold::Unknown(_) => StatusCode::NOT_FOUND,
            NotTold::Wrong(_) => StatusCode::BAD_REQUEST,
            NotTold::NotYet(_) | NotTold::Full(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        api::Failure::new(status, not.to_string())
    })?;
    let mut ticks = interval(STILL_HERE_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let body = Body::from_stream(Events { receiver, asked, ticks });
    let head = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    Ok((head, body).into_response())
}

/// Events on their way; the first thing that is sent is a comment.
struct Events {
    receiver: tokio::sync::mpsc::Receiver<Told>,
    asked: Asked,
    ticks: Interval,
}

impl Stream for Events {
    type Item = Result<Bytes, std::convert::Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match self.receiver.poll_recv(cx) {
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(told)) => {
                    if let Some(frame) = frame(&self.asked, &told) {
                        return Poll::Ready(Some(Ok(frame)));
                    }
                }
                Poll::Pending => break,
            }
        }
        self.ticks.poll_tick(cx).map(|_| Some(Ok(Bytes::from_static(b": still here\n\n"))))
    }
}

/// An event; `None` when it is not asked for.
fn frame(asked: &Asked, told: &Told) -> Option<Bytes> {
    let (name, position, data) = match told {
        Told::Change { change, position } => {
            if !asked.concerns(change) {
                return None;
            }
            ("change", position, of_change(change, position))
        }
        Told::Gap { position, reason } => {
            ("gap", position, json!({ "position": position, "reason": reason }))
        }
    };
    Some(Bytes::from(format!("event: {name}\nid: {position}\ndata: {data}\n\n")))
}

fn of_change(change: &Change, position: &str) -> Value {
    let tables = change.tables.iter().map(|it| {
        json!({
            "schema": it.name.schema,
            "table": it.name.table,
            "inserted": it.inserted,
            "updated": it.updated,
            "deleted": it.deleted,
            "counted": it.is_counted,
        })
    });
    let statements = change.statements.iter();
    let statements = statements.map(|it| json!({ "schema": it.schema, "statement": it.words }));
    json!({
        "gtid": change.gtid.to_string(),
        "committed_us": change.at_us,
        "tables": tables.collect::<Vec<_>>(),
        "statements": statements.collect::<Vec<_>>(),
        "complete": change.is_complete,
        "position": position,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use trunkline_binlog::{Gtid, StatementChange, TableChange, event::TableName};
    use trunkline_topology::gtid::Origin;

    use super::*;

    fn change(tables: &[&str], statements: usize, is_complete: bool) -> Change {
        let table = |name: &&str| TableChange {
            name: Arc::new(TableName { schema: "shop".to_owned(), table: (*name).to_owned() }),
            inserted: 2,
            updated: 0,
            deleted: 0,
            is_counted: true,
        };
        let statement =
            StatementChange { schema: "shop".to_owned(), words: "DROP TABLE".to_owned() };
        Change {
            gtid: Gtid { origin: Origin::Domain(0), server: 1, number: 7 },
            at_us: 5,
            tables: tables.iter().map(table).collect(),
            statements: vec![statement; statements],
            is_complete,
        }
    }

    #[test]
    fn what_is_asked_for_is_read() {
        let none = HeaderMap::new();
        let asked = Asked::read("cluster=a&from=0-1-7%2C1-1-2&table=s.t&table=s.u", &none);
        let tables = [("s", "t"), ("s", "u")];
        let expected = Asked {
            cluster: Some("a".to_owned()),
            from: Some("0-1-7,1-1-2".to_owned()),
            tables: tables.map(|(schema, name)| (schema.to_owned(), name.to_owned())).into(),
        };
        assert_eq!(asked, Ok(expected));
        let mut again = HeaderMap::new();
        again.insert(LAST_EVENT_ID, "0-1-9".parse().expect("a value"));
        let asked = Asked::read("from=0-1-7", &again).expect("asked");
        assert_eq!(asked.from.as_deref(), Some("0-1-9"));
        for wrong in ["table=t", "table=.t", "tables=s.t", "from=%zz"] {
            assert!(Asked::read(wrong, &none).is_err(), "{wrong}");
        }
    }

    #[test]
    fn of_named_tables_all_is_told_that_may_concern_them() {
        let asked = Asked::read("table=Shop.item", &HeaderMap::new()).expect("asked");
        assert!(asked.concerns(&change(&["order", "ITEM"], 0, true)));
        assert!(!asked.concerns(&change(&["order"], 0, true)));
        assert!(asked.concerns(&change(&[], 1, true)));
        assert!(asked.concerns(&change(&[], 0, false)));
        assert!(Asked::default().concerns(&change(&[], 0, true)));
    }

    #[test]
    fn an_event_has_its_position_as_its_id() {
        let told = Told::Change {
            change: Arc::new(change(&["t"], 0, true)),
            position: "0-1-7".to_owned(),
        };
        let frame = frame(&Asked::default(), &told).expect("a frame");
        let text = String::from_utf8(frame.to_vec()).expect("text");
        let (head, data) = text.split_once("data: ").expect("data");
        assert_eq!(head, "event: change\nid: 0-1-7\n");
        let data: Value = serde_json::from_str(data).expect("JSON");
        let expected = json!({
            "gtid": "0-1-7", "committed_us": 5, "complete": true, "position": "0-1-7",
            "statements": [],
            "tables": [{ "schema": "shop", "table": "t", "inserted": 2, "updated": 0,
                         "deleted": 0, "counted": true }],
        });
        assert_eq!(data, expected);
    }
}
