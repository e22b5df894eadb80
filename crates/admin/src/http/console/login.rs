//! Logging in to the console, and who is there.

use std::{net::IpAddr, sync::Arc};

use axum::{
    body::Bytes,
    extract::{ConnectInfo, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::{Value, json};
use trunkline_crypto::sha256;
use trunkline_protocol::auth::{is_equal, native};
use trunkline_store::Access;
use trunkline_topology::{Attempt, Password, Secret};

use super::{BUNDLE, Console, visitors::Visitor};
use crate::{
    http::guard::Caller,
    service::{AdminService, VERSION},
};

/// The cookie with a visitor's secret. By its prefix browsers take it only over TLS, for this host
/// alone.
const COOKIE: &str = "__Host-trunkline";
/// The header with the token against forged requests.
pub(super) const FORGERY_HEADER: &str = "x-csrf-token";
/// The most bytes of a name or a password.
const WORD_LEN_MAX: usize = 1_024;
/// The accounts that everybody knows.
const DEFAULTS: [(&str, &str); 2] = [("admin", "admin"), ("stats", "stats")];

/// Why a request is not answered.
#[derive(Debug)]
pub(super) struct Denied {
    pub(super) status: StatusCode,
    pub(super) message: String,
}

impl Denied {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }
}

impl IntoResponse for Denied {
    fn into_response(self) -> Response {
        let body = json!({ "error": { "code": 0, "message": self.message } });
        (self.status, json_body(&body)).into_response()
    }
}

/// What somebody who logs in sends. A token of the API comes as the password of nobody.
#[derive(Deserialize)]
struct Given {
    user: String,
    password: String,
}

/// An answer's kind and text.
pub(super) fn json_body(value: &Value) -> impl IntoResponse + use<> {
    ([(header::CONTENT_TYPE, "application/json")], value.to_string())
}

/// Who may come in by a name, or by a token where it is empty, and the proof that they have.
fn known(service: &AdminService, user: &str) -> Vec<(Password, Access)> {
    if !user.is_empty() {
        let accounts = service.accounts();
        let found = accounts.and_then(|accounts| accounts.find(user).cloned());
        return found.map(|(user, access)| (user.password.clone(), access)).into_iter().collect();
    }
    let snapshot = service.snapshot();
    let settings = &snapshot.settings;
    let tokens = [
        (&settings.http_api_token, Access::Admin),
        (&settings.http_api_operate_token, Access::Operate),
        (&settings.http_api_stats_token, Access::Stats),
    ];
    let given = tokens.into_iter().filter(|(token, _)| !token.is_empty());
    given.map(|(token, access)| (Password::Clear(Secret::new(token.clone())), access)).collect()
}

/// What identifies a password, without being it.
fn proof(password: &Password) -> Option<[u8; 32]> {
    match password {
        Password::Clear(clear) => Some(sha256(clear.expose().as_bytes())),
        Password::NativeHash(hash) => Some(sha256(hash.expose())),
        // Accounts of the admin port have no others.
        Password::Sha2Hash(_)
        | Password::Sha256Hash(_)
        | Password::Ed25519Key(_)
        | Password::ParsecKey(_)
        | Password::Servers
        | Password::Nobodys => None,
    }
}

/// Compares in a time that says nothing of where they differ.
fn is_right(password: &Password, given: &str) -> bool {
    let given = given.as_bytes();
    let given = match password {
        Password::NativeHash(_) => sha256(&native::stage2(&native::stage1(given))),
        _ => sha256(given),
    };
    proof(password).is_some_and(|proof| is_equal(&given, &proof))
}

/// The account whose password it is, if it is anybody's. As much is computed for a name that is
/// not known.
fn judge(service: &AdminService, user: &str, given: &str) -> Option<(Access, [u8; 32])> {
    let mut found = None;
    let mut known = known(service, user);
    if known.is_empty() {
        known.push((Password::Nobodys, Access::Stats));
    }
    for (password, access) in known {
        if is_right(&password, given) && found.is_none() {
            found = proof(&password).map(|proof| (access, proof));
        }
    }
    found
}

/// Whether a visitor's account is still what it was when they logged in.
fn is_still(service: &AdminService, visitor: &Visitor) -> bool {
    known(service, &visitor.user).into_iter().any(|(password, access)| {
        access == visitor.access && proof(&password) == Some(visitor.proof)
    })
}

/// Whether everybody knows this password, and others than the machine itself could use it.
fn is_exposed(user: &str, password: &str, from: IpAddr) -> bool {
    !from.is_loopback() && DEFAULTS.contains(&(user, password))
}

/// `POST /console/login`.
pub(super) async fn log_in(
    State(console): State<Arc<Console>>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    body: Bytes,
) -> Result<Response, Denied> {
    let given: Given = serde_json::from_slice(&body)
        .map_err(|_| Denied::new(StatusCode::BAD_REQUEST, "user and password are wanted"))?;
    drop(body);
    let password = Secret::new(given.password);
    let (user, password) = (given.user.as_str(), password.expose().as_str());
    if user.len().max(password.len()) > WORD_LEN_MAX {
        return Err(Denied::new(StatusCode::BAD_REQUEST, "that is too long"));
    }
    let service = &console.service;
    let (door, snapshot, from) = (service.door(), service.snapshot(), caller.origin());
    if let Some(wait) = door.wait(from, user, Attempt::Begins, &snapshot.settings) {
        door.blocked();
        let seconds = wait.ms.div_ceil(1_000);
        let message = format!("too many logins failed; try again in {seconds} s");
        return Err(Denied::new(StatusCode::TOO_MANY_REQUESTS, message));
    }
    let host = caller.addr().to_string();
    let judged = judge(service, user, password);
    service.audit_login(user, &host, true, judged.is_some());
    let Some((access, proof)) = judged else {
        door.failed(from, Some(user), &snapshot.settings);
        tracing::warn!("a login to the web console from {host} was refused");
        let message = "there is no such user, or the password is wrong";
        return Err(Denied::new(StatusCode::UNAUTHORIZED, message));
    };
    door.succeeded(from, user);
    if is_exposed(user, password, caller.addr()) {
        let message = format!(
            "{user} has the default password, so it may come from this machine only; change it \
             (admin-admin_credentials, admin-stats_credentials)"
        );
        return Err(Denied::new(StatusCode::FORBIDDEN, message));
    }
    let (secret, visitor) = console.visitors.enter(user, access, proof);
    let mut response = json_body(&told(&console, &visitor)).into_response();
    set_cookie(&mut response, &format!("{COOKIE}={secret}"));
    Ok(response)
}

fn set_cookie(response: &mut Response, pair: &str) {
    let cookie = format!("{pair}; Path=/; Secure; HttpOnly; SameSite=Strict");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
}

/// What a page is told of its visitor.
fn told(console: &Console, visitor: &Visitor) -> Value {
    let user = if visitor.user.is_empty() { "API token" } else { &visitor.user };
    json!({
        "user": user,
        "role": visitor.role(),
        "csrf": visitor.forgery_token,
        "version": VERSION,
        "bundle": BUNDLE,
        "is_file": console.service.is_of_file(),
    })
}

/// `GET /console/session`.
pub(super) async fn session(
    State(console): State<Arc<Console>>,
    headers: HeaderMap,
) -> Result<Response, Denied> {
    let visitor = console.visitor(&headers)?;
    Ok(json_body(&told(&console, &visitor)).into_response())
}

/// `POST /console/logout`.
pub(super) async fn log_out(
    State(console): State<Arc<Console>>,
    headers: HeaderMap,
) -> Result<Response, Denied> {
    console.changing_visitor(&headers)?;
    if let Some(secret) = secret(&headers) {
        console.visitors.leave(secret);
    }
    let mut response = json_body(&json!({})).into_response();
    set_cookie(&mut response, &format!("{COOKIE}=; Max-Age=0"));
    Ok(response)
}

/// The secret of a request's cookie.
pub(super) fn secret(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|value| value.split(';')).map(str::trim);
    pairs.find_map(|pair| pair.strip_prefix(COOKIE)?.strip_prefix('='))
}

impl Console {
    /// Who asks.
    ///
    /// # Errors
    /// Nobody who has logged in, or who still could.
    pub(super) fn visitor(&self, headers: &HeaderMap) -> Result<Visitor, Denied> {
        let visitor = secret(headers).and_then(|secret| self.visitors.find(secret));
        match visitor {
            Some(visitor) if is_still(&self.service, &visitor) => Ok(visitor),
            Some(_) | None => Err(Denied::new(StatusCode::UNAUTHORIZED, "log in first")),
        }
    }

    /// Who asks for a change, by a page of this console.
    ///
    /// # Errors
    /// Nobody who has logged in, or a page of others.
    pub(super) fn changing_visitor(&self, headers: &HeaderMap) -> Result<Visitor, Denied> {
        let visitor = self.visitor(headers)?;
        let given = headers.get(FORGERY_HEADER).map_or(&b""[..], HeaderValue::as_bytes);
        match is_equal(&sha256(given), &sha256(visitor.forgery_token.as_bytes())) {
            true => Ok(visitor),
            false => {
                let message = "the request has not the token of this visit: load the page anew";
                Err(Denied::new(StatusCode::FORBIDDEN, message))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_that_everybody_knows_are_for_the_machine_itself() {
        let from = |text: &str| text.parse::<IpAddr>().expect("an address");
        assert!(is_exposed("admin", "admin", from("10.0.0.1")));
        assert!(is_exposed("stats", "stats", from("2001:db8::1")));
        assert!(!is_exposed("admin", "admin", from("127.0.0.1")));
        assert!(!is_exposed("admin", "admin", from("::1")));
        assert!(!is_exposed("admin", "other", from("10.0.0.1")));
    }

    #[test]
    fn passwords_are_right_in_clear_and_as_hashes() {
        let clear = Password::Clear(Secret::new("secret".to_owned()));
        let hash = native::stage2(&native::stage1(b"secret"));
        let hash = Password::NativeHash(Secret::new(hash));
        for password in [&clear, &hash] {
            assert!(is_right(password, "secret"));
            assert!(!is_right(password, "Secret") && !is_right(password, ""));
        }
        assert!(!is_right(&Password::Nobodys, ""));
    }

    #[test]
    fn the_cookie_is_found_among_others() {
        let with = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::COOKIE, HeaderValue::from_static(text));
            secret(&headers).map(str::to_owned)
        };
        assert_eq!(with("a=b; __Host-trunkline=12; c=d").as_deref(), Some("12"));
        assert_eq!(with("__Host-trunkline2=12"), None);
        assert_eq!(secret(&HeaderMap::new()), None);
    }
}
