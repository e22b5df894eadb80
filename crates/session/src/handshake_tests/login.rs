//! Every kind of stored password with every plug-in, right, wrong and empty.

use super::*;

const DEFAULTS: [&str; 2] = ["mysql_native_password", "caching_sha2_password"];

fn assert_accepted(ended: &Ended, case: &str) {
    let identity = ended.client.as_ref().unwrap_or_else(|refusal| panic!("{case}: {refusal:?}"));
    let server = ended.server.as_ref().unwrap_or_else(|failure| panic!("{case}: {failure}"));
    assert_eq!(identity.user.name, "app");
    assert_eq!(identity.schema.as_deref(), Some(&b"shop"[..]));
    assert_eq!((identity.capabilities, identity.collation), (server.capabilities, 45));
    let attributes: Vec<_> = identity.attributes.iter().map(|(a, b)| (&a[..], &b[..])).collect();
    assert_eq!(attributes, [(&b"program_name"[..], &b"test"[..])]);
    assert_eq!((server.status, server.collation), (status::AUTOCOMMIT, 45));
    assert!(!identity.credential.is_unknown(), "{case}");
}

fn assert_denied(ended: &Ended, has_password: bool, case: &str) {
    assert_eq!(ended.client.as_ref().err(), Some(&Refusal::AccessDenied), "{case}");
    let failure = ended.server.as_ref().expect_err(case);
    let answer = if has_password { "YES" } else { "NO" };
    let text = format!("Access denied for user 'app'@'10.0.0.9' (using password: {answer})");
    assert_eq!((failure.code, &failure.sqlstate, &*failure.message), (1045, b"28000", &*text));
}

#[test]
fn the_right_password_is_accepted_whatever_is_stored_and_whoever_begins() {
    for (kind, password) in
        [("clear", clear(PASSWORD)), ("native", native_hash(PASSWORD)), ("sha2", sha2_hash())]
    {
        for plugin in DEFAULTS {
            for is_secure in [false, true] {
                let users = Users { is_secure, ..Users::with("app", password.clone()) };
                // The second login of a user with a sha2 hash takes the fast path.
                for round in 0..2 {
                    let case = format!("{kind} {plugin} secure {is_secure} round {round}");
                    let credential = Credential::from_clear(PASSWORD.as_bytes());
                    let login = ServerLogin { is_local: is_secure, ..login_as("app", credential) };
                    let ended = Wire::login(&users, plugin, login);
                    assert_accepted(&ended, &case);
                    let is_first = kind == "sha2" && round == 0;
                    let identity = ended.client.expect("accepted");
                    assert_eq!(identity.proven_sha2.is_some(), is_first, "{case}");
                }
            }
        }
    }
}

#[test]
fn a_wrong_or_missing_password_is_denied() {
    for password in [clear(PASSWORD), native_hash(PASSWORD), sha2_hash(), clear("")] {
        for plugin in DEFAULTS {
            for is_warm in [false, true] {
                for answer in ["wrong", ""] {
                    if password == clear("") && answer.is_empty() {
                        continue;
                    }
                    let users = Users::with("app", password.clone());
                    if is_warm {
                        let sum = caching_sha2::stage2(&caching_sha2::stage1(PASSWORD.as_bytes()));
                        users.proven.borrow_mut().insert("app".to_owned(), sum);
                    }
                    let login = login_as("app", Credential::from_clear(answer.as_bytes()));
                    let ended = Wire::login(&users, plugin, login);
                    let case = format!("{password:?} {plugin} {is_warm} {answer}");
                    assert_denied(&ended, !answer.is_empty(), &case);
                }
            }
        }
    }
}

#[test]
fn an_empty_password_is_accepted_where_it_is_configured() {
    for plugin in DEFAULTS {
        let users = Users::with("app", clear(""));
        let ended = Wire::login(&users, plugin, login_as("app", Credential::from_clear(b"")));
        assert_accepted(&ended, plugin);
        assert!(ended.client.expect("accepted").credential.is_empty_password());
    }
}

#[test]
fn unknown_users_cannot_be_told_from_wrong_passwords() {
    for plugin in DEFAULTS {
        for answer in ["wrong", ""] {
            let credential = Credential::from_clear(answer.as_bytes());
            let known = Users::with("app", clear(PASSWORD));
            let expected = Wire::login(&known, plugin, login_as("app", credential.clone()));
            let inactive = Users::with("app", clear(answer));
            let mut user = User::clone(&inactive.users.borrow()["app"]);
            user.active = false;
            inactive.users.borrow_mut().insert("app".to_owned(), Arc::new(user));
            let unknown = Users::with("other", clear(answer));
            for users in [unknown, inactive] {
                let ended = Wire::login(&users, plugin, login_as("app", credential.clone()));
                assert_denied(&ended, !answer.is_empty(), plugin);
                assert_eq!(ended.to_client, expected.to_client);
            }
        }
    }
}

#[test]
fn nobody_gets_in_with_the_nonce_for_a_password() {
    let users = Users::with("other", clear(PASSWORD));
    for plugin in DEFAULTS {
        let ended = Wire::login(&users, plugin, login_as("app", Credential::from_clear(&NONCE)));
        assert_denied(&ended, true, plugin);
    }
}

#[test]
fn what_a_login_proves_is_enough_to_log_in_elsewhere() {
    let check = |password: Password, plugin: &str, elsewhere: Password| {
        let users = Users::with("app", password.clone());
        let login = login_as("app", Credential::from_clear(PASSWORD.as_bytes()));
        let mut credential = Credential::from_password(&password);
        // Of two logins the second takes the fast path, where there is one.
        for _ in 0..2 {
            let proven = Wire::login(&users, plugin, login.clone()).client.expect("accepted");
            credential.learn(&proven.credential);
        }
        let elsewhere = Users::with("app", elsewhere);
        let ended = Wire::login(&elsewhere, plugin, login_as("app", credential));
        assert_accepted(&ended, plugin);
    };
    for plugin in DEFAULTS {
        check(native_hash(PASSWORD), plugin, native_hash(PASSWORD));
        check(clear(PASSWORD), plugin, sha2_hash());
        check(sha2_hash(), plugin, native_hash(PASSWORD));
        check(sha2_hash(), plugin, sha2_hash());
    }
}

#[test]
fn a_hash_of_the_other_kind_says_what_it_lacks() {
    use crate::backend::FailureKind;
    let native = Credential {
        native_stage1: Some(Secret::new(native::stage1(PASSWORD.as_bytes()))),
        ..Credential::default()
    };
    let sha2 = Credential {
        sha2_stage1: Some(Secret::new(caching_sha2::stage1(PASSWORD.as_bytes()))),
        ..Credential::default()
    };
    for plugin in DEFAULTS {
        let check = |credential: &Credential, stored: Password| {
            let users = Users::with("app", stored);
            let ended = Wire::login(&users, plugin, login_as("app", credential.clone()));
            let failure = ended.server.expect_err("the other kind is needed");
            assert_eq!((failure.code, failure.kind), (1045, FailureKind::NeedsPassword));
        };
        check(&native, sha2_hash());
        check(&sha2, native_hash(PASSWORD));
        // The fast path's hash does not do for a server that has forgotten the password.
        check(&sha2, sha2_hash());
        check(&Credential::default(), clear(PASSWORD));
    }
}

#[test]
fn a_user_is_changed_on_a_live_connection() {
    for plugin in DEFAULTS {
        for password in [clear(PASSWORD), native_hash(PASSWORD), sha2_hash()] {
            let users = Users::with("app", password);
            let right = login_as("app", Credential::from_clear(PASSWORD.as_bytes()));
            let first = Wire::login(&users, plugin, right.clone()).server.expect("ready");
            let ended = Wire::change_user(&users, (*first).clone(), right);
            assert_accepted(&ended, plugin);
            let wrong = login_as("app", Credential::from_clear(b"wrong"));
            let ended = Wire::change_user(&users, (*first).clone(), wrong);
            assert_denied(&ended, true, plugin);
            let empty = login_as("app", Credential::from_clear(b""));
            assert_denied(&Wire::change_user(&users, *first, empty), false, plugin);
        }
    }
}

#[test]
fn the_users_default_schema_is_taken_when_the_client_names_none() {
    let users = Users::with("app", clear(PASSWORD));
    let credential = Credential::from_clear(PASSWORD.as_bytes());
    let login = ServerLogin { schema: None, ..login_as("app", credential.clone()) };
    let identity = Wire::login(&users, DEFAULTS[0], login).client.expect("accepted");
    assert_eq!(identity.schema.as_deref(), Some(&b"usual"[..]));
    assert!(!identity.capabilities.contains(Capabilities::CONNECT_WITH_DB));
    // A NUL would make another schema of the name, so it is not sent.
    let login = ServerLogin { schema: Some(b"a\0b".to_vec()), ..login_as("app", credential) };
    let identity = Wire::login(&users, DEFAULTS[0], login).client.expect("accepted");
    assert_eq!(identity.schema.as_deref(), Some(&b"usual"[..]));
}

#[test]
fn clients_that_cannot_be_switched_are_told_so() {
    let old = ORDINARY.without(Capabilities::PLUGIN_AUTH);
    let check = |password: Password, expected: Option<Refusal>| {
        let users = Users::with("app", password);
        let mut old_greeting = greeting("mysql_native_password");
        old_greeting.capabilities = old;
        old_greeting.auth_plugin.clear();
        let mut to_client = Vec::new();
        let client = ClientHandshake::start(&old_greeting, false, &mut to_client);
        let login = login_as("app", Credential::from_clear(PASSWORD.as_bytes()));
        let server = ServerHandshake::new(login);
        let to_proxy = Vec::new();
        let is_encrypted = false;
        let wire = Wire { users: &users, client, server, to_client, to_proxy, is_encrypted };
        assert_eq!(wire.run(None).client.err(), expected);
    };
    check(clear(PASSWORD), None);
    check(native_hash(PASSWORD), None);
    check(sha2_hash(), Some(Refusal::OutdatedAuthentication));
}

#[test]
fn without_a_key_a_client_that_asks_for_it_is_denied() {
    let users = Users { key: None, ..Users::with("app", sha2_hash()) };
    let login = login_as("app", Credential::from_clear(PASSWORD.as_bytes()));
    let ended = Wire::login(&users, DEFAULTS[1], login);
    assert_denied(&ended, true, "no key");
}

#[test]
fn an_unknown_user_goes_the_way_of_one_with_a_wrong_password() {
    let stored = [clear(PASSWORD), native_hash(PASSWORD), sha2_hash()];
    for plugin in DEFAULTS {
        for password in stored.clone() {
            let mut users = Users::with("app", password);
            users.stand_in = users.user("app");
            // The stand-in's own password lets nobody in.
            for given in ["wrong", PASSWORD, ""] {
                let login = |name| login_as(name, Credential::from_clear(given.as_bytes()));
                let unknown = Wire::login(&users, plugin, login("who"));
                assert_eq!(unknown.client.err(), Some(Refusal::AccessDenied), "{given}");
                if given == PASSWORD {
                    continue;
                }
                let known = Wire::login(&users, plugin, login("app"));
                let text = String::from_utf8_lossy(&known.to_client).replace("app", "who");
                assert_eq!(String::from_utf8_lossy(&unknown.to_client), text, "{given}");
            }
        }
    }
}

#[test]
fn a_user_that_appears_while_it_logs_in_is_let_in() {
    for plugin in DEFAULTS {
        for password in [clear(PASSWORD), native_hash(PASSWORD), sha2_hash()] {
            let mut users = Users::with("app", password);
            users.later = users.users.borrow_mut().remove("app");
            let right = Credential::from_clear(PASSWORD.as_bytes());
            let ended = Wire::login(&users, plugin, login_as("app", right.clone()));
            assert_accepted(&ended, plugin);
            // One that was known by another password.
            let old = Users::with("app", clear("the password before"));
            let users = Users { later: users.later.clone(), ..old };
            assert_accepted(&Wire::login(&users, plugin, login_as("app", right)), plugin);
            let wrong = login_as("app", Credential::from_clear(b"wrong"));
            assert_denied(&Wire::login(&users, plugin, wrong), true, plugin);
        }
    }
}

#[test]
fn a_login_waits_for_the_name_of_its_host_and_goes_on_as_it_would_have() {
    for plugin in DEFAULTS {
        for password in [clear(PASSWORD), native_hash(PASSWORD), sha2_hash()] {
            for (given, is_right) in [(PASSWORD, true), ("wrong", false)] {
                let credential = Credential::from_clear(given.as_bytes());
                let users = Users::with("app", password.clone());
                let at_once = Wire::login(&users, plugin, login_as("app", credential.clone()));
                assert_eq!(users.hosts_asked.get(), 0);
                let users = Users::with("app", password.clone());
                users.awaits_host.set(true);
                let ended = Wire::login(&users, plugin, login_as("app", credential));
                assert_eq!(users.hosts_asked.get(), 1);
                assert_eq!(ended.client.is_ok(), is_right, "{plugin}");
                assert_eq!(ended.to_client, at_once.to_client, "{plugin}");
            }
        }
    }
}

#[test]
fn a_change_of_user_waits_for_the_name_of_its_host() {
    let users = Users::with("app", clear(PASSWORD));
    let right = || login_as("app", Credential::from_clear(PASSWORD.as_bytes()));
    let first = Wire::login(&users, DEFAULTS[0], right()).server.expect("logged in");
    users.awaits_host.set(true);
    let ended = Wire::change_user(&users, (*first).clone(), right());
    assert!(ended.client.is_ok());
    assert_eq!(users.hosts_asked.get(), 1);
}

#[test]
fn users_that_appear_may_be_named_by_their_hosts() {
    let mut users = Users::with("app", clear(PASSWORD));
    users.later = users.users.borrow_mut().remove("app");
    users.names_hosts_later = true;
    let right = login_as("app", Credential::from_clear(PASSWORD.as_bytes()));
    assert!(Wire::login(&users, DEFAULTS[0], right).client.is_ok());
    assert_eq!(users.hosts_asked.get(), 1);
}
