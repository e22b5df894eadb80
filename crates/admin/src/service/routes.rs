//! Fast routing rules from their table, row by row: there may be a million of them.

use std::{ops::ControlFlow, sync::Arc};

use trunkline_config::RouteRows;
use trunkline_rules::FastRoutes;
use trunkline_store::{Layer, Store, StoredRow, ValueRef};

use super::document::MakeError;

/// Their table.
pub(super) const TABLE: &str = "mysql_query_rules_fast_routing";
/// Wrong rows that are told; the others are counted.
const WRONG_MAX: usize = 100;

/// The rules of a layer.
///
/// # Errors
/// Every wrong row and column.
pub(super) fn fast_routes(store: &Store, layer: Layer) -> Result<Arc<FastRoutes>, MakeError> {
    let mut rows = RouteRows::default();
    let mut wrong = Vec::new();
    let mut more = 0_usize;
    store.visit(layer, TABLE, |row| {
        if let Err(reason) = add(&mut rows, row) {
            match wrong.len() < WRONG_MAX {
                true => wrong.push(format!("{}: {reason}", subject(row))),
                false => more += 1,
            }
        }
        ControlFlow::Continue(())
    })?;
    if more > 0 {
        wrong.push(format!("{TABLE}: {more} more rows are wrong"));
    }
    if !wrong.is_empty() {
        return Err(MakeError::Rows(wrong));
    }
    rows.finish().map_err(|reason| MakeError::Rows(vec![format!("{TABLE}: {reason}")]))
}

fn add(rows: &mut RouteRows, row: StoredRow<'_>) -> Result<(), String> {
    let number = |name: &str, at: usize| {
        let value = row.value(at);
        value.as_i64().map_err(|_| format!("`{name}` must be a whole number"))
    };
    let text = |name: &str, at: usize| match row.value(at) {
        ValueRef::Text(text) => {
            std::str::from_utf8(text).map_err(|_| format!("`{name}` must be UTF-8"))
        }
        _ => Err(format!("`{name}` must be a text")),
    };
    text("comment", 4)?;
    let names = (text("username", 0)?, text("schemaname", 1)?);
    rows.add(names.0, names.1, number("flagIN", 2)?, number("destination_hostgroup", 3)?)
}

/// What a row is called in messages.
fn subject(row: StoredRow<'_>) -> String {
    let shown = |at: usize| match row.value(at) {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            String::from_utf8_lossy(bytes).into_owned()
        }
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Null => "NULL".to_owned(),
    };
    format!("{TABLE}, {}, {}", shown(0), shown(1))
}
