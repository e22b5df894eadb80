//! Users that change while somebody logs in.

use super::{
    bytes::{client_in, header},
    *,
};

fn right() -> ServerLogin {
    login_as("app", Credential::from_clear(PASSWORD.as_bytes()))
}

/// Users of whom one is known by [`PASSWORD`], which may be out of date, and is.
fn outdated(is_told: bool) -> Users {
    let mut users = Users::with("app", native_hash(PASSWORD));
    users.may_be_outdated = true;
    let user = User::new("app".to_owned(), native_hash("another"));
    users.told = RefCell::new(is_told.then(|| Arc::new(user)));
    users
}

#[test]
fn a_login_is_judged_by_what_was_looked_up_for_its_name() {
    let users = outdated(true);
    let ended = Wire::login(&users, "mysql_native_password", right());
    assert_eq!(ended.client.err(), Some(Refusal::AccessDenied));
    assert_eq!(*users.looked_up.borrow(), ["app"]);
    let new = login_as("app", Credential::from_clear(b"another"));
    assert!(Wire::login(&users, "mysql_native_password", new).client.is_ok());
    // Where no answer came, what was known counts; a host's name is waited for before.
    let users = outdated(false);
    users.awaits_host.set(true);
    let ended = Wire::login(&users, "mysql_native_password", right());
    assert!(ended.client.is_ok());
    assert_eq!((users.hosts_asked.get(), users.looked_up.borrow().len()), (1, 1));
}

#[test]
fn so_is_a_change_of_user() {
    let users = Users::with("app", native_hash(PASSWORD));
    let first = Wire::login(&users, "mysql_native_password", right()).server.expect("logged in");
    let users = outdated(true);
    let ended = Wire::change_user(&users, (*first).clone(), right());
    assert_eq!(ended.client.err(), Some(Refusal::AccessDenied));
    assert_eq!(*users.looked_up.borrow(), ["app"]);
}

fn gone(users: &Users) {
    users.users.borrow_mut().remove("app");
}

#[test]
fn who_goes_during_a_login_is_not_let_in() {
    let users = Users::with("app", sha2_hash());
    let stage1 = caching_sha2::stage1(PASSWORD.as_bytes());
    users.proven.borrow_mut().insert("app".to_owned(), caching_sha2::stage2(&stage1));
    let (mut client, seq) = client_in("switch", &users);
    let answer = caching_sha2::scramble(&stage1, &NONCE);
    gone(&users);
    let step = client.on_packet(header(seq, &answer), &answer, &users, &mut Vec::new());
    assert!(matches!(step, Step::Refused(Refusal::AccessDenied)), "{step:?}");
    assert_eq!(client.denied_name(), Some("app"));

    let users = Users::with("app", sha2_hash());
    let (mut client, _) = client_in("verification", &users);
    gone(&users);
    let step = client.on_verified(true, &users, &mut Vec::new());
    assert!(matches!(step, Step::Refused(Refusal::AccessDenied)), "{step:?}");
}

#[test]
fn a_password_that_changes_while_it_is_checked_is_checked_again() {
    let users = Users::with("app", sha2_hash());
    let (mut client, _) = client_in("verification", &users);
    let other = format!("$A$005${}{}", "s".repeat(20), "d".repeat(43));
    let user = User::new("app".to_owned(), Password::from_hash(&other).expect("a hash"));
    users.users.borrow_mut().insert("app".to_owned(), Arc::new(user));
    let step = client.on_verified(true, &users, &mut Vec::new());
    let Step::VerifyHash { hash, .. } = step else { panic!("{step:?}") };
    assert_eq!(hash.expose().as_slice(), other.as_bytes());
    let step = client.on_verified(false, &users, &mut Vec::new());
    assert!(matches!(step, Step::Refused(Refusal::AccessDenied)), "{step:?}");
}
