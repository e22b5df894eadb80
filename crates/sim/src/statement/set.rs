//! What follows `SET`: of clients, and of the proxy.

use super::{
    Charset, Kind, Mark, Scope, SetValue, Setting, Value, Variable,
    parse::numbered,
    token::Token::{self, Number as N, Symbol as S, System as Y, Text as T, User as U, Word as W},
};

/// Reads a list of settings.
pub(super) fn settings(tokens: &[Token<'_>]) -> Option<Vec<Setting>> {
    let mut settings = Vec::new();
    let mut depth = 0_u32;
    let parts = tokens.split(|token| {
        match token {
            S(b'(') => depth += 1,
            S(b')') => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && *token == S(b',')
    });
    for part in parts {
        // Nobody asks for profiles and traces.
        if matches!(
            part,
            [Y("SESSION.profiling"), S(b'='), N(0)]
                | [Y("SESSION.optimizer_trace"), S(b'='), T("enabled=off")]
        ) {
            continue;
        }
        // Of a new connection: nobody sets it, so that there is nothing to tell.
        if let [
            Y(
                own @ ("SESSION.sql_auto_is_null"
                | "SESSION.character_set_client"
                | "SESSION.wsrep_sync_wait"),
            ),
            S(b'='),
            Y(same),
        ] = part
            && own == same
        {
            continue;
        }
        settings.push(setting(part)?);
    }
    Some(settings)
}

// long: one list of the forms that a setting has.
fn setting(tokens: &[Token<'_>]) -> Option<Setting> {
    match tokens {
        [W("NAMES"), W("DEFAULT")] => return Some(Setting::NamesDefault),
        [W("NAMES"), W(charset)] => return Charset::from_name(charset).map(Setting::Names),
        [W("NAMES"), W(charset), W("COLLATE"), W(collation)] => {
            let charset = Charset::from_name(charset)?;
            return match *collation == charset.other_collation() {
                true => Some(Setting::NamesCollate(charset)),
                // The proxy names the collation of a handshake, which may be any.
                false => Some(Setting::NamesExactly(super::variable::collation(collation)?)),
            };
        }
        [U(name), S(b'='), N(value)] => {
            return Some(Setting::User { name: numbered(name, "u")?, value: Some(*value) });
        }
        // The proxy gives a variable the type of bytes before it takes its value away.
        [U(name), S(b'='), W("NULL")] | [U(name), S(b'='), W("x"), T("")] => {
            return Some(Setting::User { name: numbered(name, "u")?, value: None });
        }
        _ => {}
    }
    let (scope, name, value) = match tokens {
        [W("SESSION"), W(name), S(b'='), value @ ..] => (Scope::Session, *name, value),
        [W("LOCAL"), W(name), S(b'='), value @ ..] => (Scope::Local, *name, value),
        [W(name), S(b'='), value @ ..] => (Scope::Plain, *name, value),
        [Y(name), S(b'='), value @ ..] => match name.strip_prefix("SESSION.") {
            Some(name) => (Scope::AtSession, name, value),
            None => (Scope::At, *name, value),
        },
        _ => return None,
    };
    if let Some(tracker) = name.strip_prefix("session_track_") {
        let value = match value {
            [T(text)] => (*text).to_owned(),
            [W("x"), T("2A")] => "*".to_owned(),
            [W("OWN_GTID")] => "OWN_GTID".to_owned(),
            [W("CHARACTERISTICS")] => "CHARACTERISTICS".to_owned(),
            [N(number)] => number.to_string(),
            [W("DEFAULT")] | [Y("GLOBAL.session_track_gtids")] => "OFF".to_owned(),
            _ => return None,
        };
        return Some(Setting::Tracker(tracker.to_owned(), value));
    }
    match (name, value) {
        ("server_id", [N(id)]) => return Mark::of_server_id(*id).map(Setting::Mark),
        ("gtid_next", [T(text)]) => {
            return text.strip_prefix("AUTOMATIC:").and_then(Mark::of_tag).map(Setting::Mark);
        }
        _ => {}
    }
    match (name, value) {
        ("last_insert_id", [N(id)]) => return Some(Setting::LastInsertId(*id)),
        ("insert_id", [N(id)]) => return Some(Setting::InsertId(*id)),
        _ => {}
    }
    if let ("last_insert_id", [W("LAST_INSERT_ID"), S(b'('), S(b')')]) = (name, value) {
        return Some(Setting::LastInsertIdAsItIs);
    }
    if name == "last_insert_id"
        && let [W("IF"), S(b'('), S(b'('), selected @ .., S(b')')] = value
        && let [W("SELECT"), N(1), W("FROM"), S(b'('), of_table @ ..] = selected
        && let [W("SELECT"), N(1), S(b')'), W("AS"), W("t"), S(b')'), S(b','), ids @ ..] = of_table
    {
        match ids {
            [N(id), S(b','), N(same)] if id == same => {
                return Some(Setting::LastInsertIdOfTable(*id));
            }
            [W("LAST_INSERT_ID"), .., W("LAST_INSERT_ID"), S(b'('), S(b')')] => {
                return Some(Setting::LastInsertIdAsItIsOfTable);
            }
            _ => {}
        }
    }
    let variable = Variable::from_name(name)?;
    let value = match value {
        [W("DEFAULT")] => SetValue::Default,
        // The proxy writes it so where DEFAULT means something else; nobody changes globals.
        [Y(global)] if global.strip_prefix("GLOBAL.") == Some(name) => SetValue::Default,
        // On a new connection, which tells so what it has.
        [Y(own)]
            if matches!(name, "sql_mode" | "autocommit")
                && own.strip_prefix("SESSION.") == Some(name) =>
        {
            SetValue::Default
        }
        [N(number), S(b'+'), N(0)] => SetValue::Expression(of_number(variable, *number)),
        [W("CONCAT"), S(b'('), T(""), S(b','), T(text), S(b')')] => {
            SetValue::Expression(of_text(variable, text))
        }
        [N(number)] => SetValue::Literal(of_number(variable, *number)),
        [T(text)] | [W(text)] => SetValue::Literal(of_text(variable, text)),
        _ => return None,
    };
    Some(Setting::Variable { scope, variable, value })
}

fn of_number(variable: Variable, number: u64) -> Value {
    match (variable.kind(), number) {
        (Kind::Flag, 0 | 1) => Value::Flag(number == 1),
        _ => Value::Number(number),
    }
}

fn of_text(variable: Variable, text: &str) -> Value {
    if text == "NULL" {
        return Value::Null;
    }
    let wrong = Value::Wrong(text.to_owned());
    variable.accept(&wrong).unwrap_or(wrong)
}
