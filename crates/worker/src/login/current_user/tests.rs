use std::sync::Arc;

use trunkline_config::{GrantedUsers, Snapshot};
use trunkline_protocol::auth::native;
use trunkline_topology::{HostgroupId, Password, Secret, User};

use super::*;
use crate::Worker;
use crate::tests::{Login, Setup, TWO_SERVERS, TestWorker, snapshot};

#[test]
fn an_answer_is_current_from_the_moment_of_its_question() {
    let users = CurrentUsers::default();
    users.told("app".to_owned(), 5_000, 5_900);
    assert!(users.is_current("app", 5_999) && !users.is_current("app", 6_000));
    assert!(!users.is_current("other", 5_999));
    // An older answer that comes later changes nothing.
    users.told("app".to_owned(), 4_000, 5_950);
    assert!(users.is_current("app", 5_999));
    users.forget();
    assert!(!users.is_current("app", 5_999));
}

#[test]
fn so_many_names_are_current_at_once() {
    let users = CurrentUsers::default();
    for number in 0..NAMES_MAX + 1 {
        users.told(number.to_string(), 0, 0);
    }
    let last = NAMES_MAX.to_string();
    assert!(users.is_current("0", 999) && !users.is_current(&last, 999));
    users.told(last.clone(), 1_000, 1_000);
    assert!(users.is_current(&last, 1_000));
}

/// Users come from servers, whose `app` has this password, besides one of the configuration.
fn granted(password: &str) -> Arc<Snapshot> {
    let config = TWO_SERVERS.replace("name = \"app\"", "name = \"own\"\nactive = false");
    let settings = "server_users_account = \"own\"\nserver_users_hostgroup = 10\n";
    let hash =
        Password::NativeHash(Secret::new(native::stage2(&native::stage1(password.as_bytes()))));
    let user = User {
        host: Some("%".to_owned()),
        default_hostgroup: HostgroupId(10),
        ..User::new("app".to_owned(), hash)
    };
    let begun = snapshot(&format!("{settings}{config}"));
    Arc::new(begun.with_granted(GrantedUsers::new([user])).expect("others than none"))
}

fn world() -> TestWorker {
    let mut world = TestWorker::of(Setup::default());
    world.happens(|worker| worker.apply_snapshot(granted("app")));
    world.actions();
    world
}

/// The names that servers were asked for since it was looked at last.
fn asked(world: &mut TestWorker) -> Vec<(String, u64)> {
    let actions = world.actions().into_iter().filter_map(|action| match action {
        Action::LookUpUser { name, asked_ms } => Some((name, asked_ms)),
        _ => None,
    });
    actions.collect()
}

fn begin(world: &mut TestWorker, user: &str) -> ClientId {
    let client = world.connect();
    assert_eq!(world.try_to_log_in(client, &Login { user, ..Login::default() }), "", "{user}");
    client
}

#[test]
fn a_login_waits_for_what_servers_say_of_its_name() {
    let mut world = world();
    // Two at once ask one question; what comes after it within a second asks none.
    let clients = [(); 2].map(|()| begin(&mut world, "app"));
    let questions = asked(&mut world);
    let [(name, at_ms)] = questions.as_slice() else { panic!("{questions:?}") };
    assert_eq!(name, "app");
    let told = Some(*at_ms);
    world.happens(|worker| worker.user_looked_up("app".to_owned(), told));
    assert_eq!(clients.map(|client| world.answer(client)), ["ok", "ok"]);
    let client = world.connect();
    assert_eq!(world.try_to_log_in(client, &Login::default()), "ok");
    assert_eq!(asked(&mut world), []);
    // Later the password is another one.
    world.pass_ms(1_000);
    let client = begin(&mut world, "app");
    let questions = asked(&mut world);
    world.happens(|worker| worker.apply_snapshot(granted("changed")));
    world.happens(|worker| worker.user_looked_up("app".to_owned(), Some(questions[0].1)));
    // As ever all users are looked at before it is refused.
    assert_eq!(world.answer(client), "");
    world.happens(Worker::users_looked_up);
    assert!(world.answer(client).starts_with("error 1045"));
    let counters = &world.core().fx.stats.counters;
    assert_eq!((counters.server_users_told, counters.server_users_untold), (2, 0));
}

#[test]
fn what_was_known_counts_where_servers_say_nothing() {
    let mut world = world();
    for _ in 0..2 {
        let client = begin(&mut world, "app");
        assert_eq!(asked(&mut world).len(), 1);
        world.happens(|worker| worker.user_looked_up("app".to_owned(), None));
        assert_eq!(world.answer(client), "ok");
    }
    assert_eq!(world.core().fx.stats.counters.server_users_untold, 2);
}

#[test]
fn names_that_are_nobodys_wait_as_servers_users_do() {
    let mut world = world();
    let client = begin(&mut world, "nobody");
    let questions = asked(&mut world);
    world.happens(|worker| worker.user_looked_up("nobody".to_owned(), Some(questions[0].1)));
    world.happens(Worker::users_looked_up);
    assert!(world.answer(client).starts_with("error 1045"));
    // Nobody has such a name.
    let client = world.connect();
    let long = "n".repeat(NAME_LEN_MAX + 1);
    world.try_to_log_in(client, &Login { user: &long, ..Login::default() });
    assert_eq!(asked(&mut world), []);
}

#[test]
fn users_of_the_configuration_do_not_wait() {
    let mut world = TestWorker::new();
    let config =
        format!("server_users_account = \"app\"\nserver_users_hostgroup = 10\n{TWO_SERVERS}");
    world.happens(|worker| worker.apply_snapshot(snapshot(&config)));
    let client = world.connect();
    assert_eq!(world.try_to_log_in(client, &Login::default()), "ok");
    assert_eq!(asked(&mut world), []);
    let mut off = Snapshot::clone(&granted("app"));
    off.settings.server_users_check_timeout = 0;
    world.happens(|worker| worker.apply_snapshot(Arc::new(off)));
    let client = world.connect();
    assert_eq!(world.try_to_log_in(client, &Login::default()), "ok");
    assert_eq!(asked(&mut world), []);
}
