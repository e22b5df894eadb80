use trunkline_protocol::{
    capability::Capabilities, command::code, packet::change_user::ChangeUser,
    packet::greeting::NONCE_LEN,
};

use super::*;
use crate::tests::{
    CLIENT_CAPABILITIES, Login, MARIADB, MYSQL, ONE_CONNECTION, Reply, Setup, TWO_SERVERS,
    TestWorker, WRITER_AND_READER, peer_at,
};

const WRONG: Login<'_> = Login {
    user: "app",
    password: "wrong",
    schema: None,
    charset: 45,
    capabilities: CLIENT_CAPABILITIES,
};

#[test]
fn the_right_password_opens_a_session() {
    let mut world = TestWorker::new();
    let client = world.connect();
    assert_eq!(world.try_to_log_in(client, &Login::default()), "ok");
    assert_eq!(world.session(client).login.user.name, "app");
}

#[test]
fn a_wrong_password_is_refused_and_the_connection_ends() {
    let mut world = TestWorker::new();
    let client = world.connect();
    let answer = world.try_to_log_in(client, &WRONG);
    let expected = "error 1045: Access denied for user 'app'@'127.0.0.1' (using password: YES)";
    assert_eq!(answer, expected);
    assert!(world.is_closed(client));
}

#[test]
fn an_unknown_user_is_refused_in_the_same_words() {
    let mut world = TestWorker::new();
    let client = world.connect();
    let answer = world.try_to_log_in(client, &Login { user: "nobody", ..WRONG });
    let expected = "error 1045: Access denied for user 'nobody'@'127.0.0.1' (using password: YES)";
    assert_eq!(answer, expected);
}

#[test]
fn a_login_that_comes_byte_by_byte_is_one() {
    let mut world = TestWorker::new();
    let client = world.connect();
    world.got(client);
    for byte in Login::default().bytes() {
        assert_eq!(world.got(client), b"");
        world.happens(|worker| worker.client_read(client, &[byte]));
    }
    assert_eq!(world.answer(client), "ok");
}

#[test]
fn what_is_sent_behind_a_login_is_run_behind_it() {
    let mut world = TestWorker::new();
    let client = world.connect();
    world.got(client);
    let bytes = [Login::default().bytes(), b"\x01\0\0\0\x0E".to_vec()].concat();
    world.happens(|worker| worker.client_read(client, &bytes));
    assert_eq!(world.answers(client), ["ok", "ok"]);
}

#[test]
fn a_packet_that_no_login_is_as_long_as_is_refused() {
    let mut world = TestWorker::new();
    let client = world.connect();
    world.got(client);
    world.happens(|worker| worker.client_read(client, &[0, 0, 2, 1, 0]));
    assert_eq!(world.answer(client), "error 1043: Bad handshake");
    assert!(world.is_closed(client));
}

#[test]
fn a_schema_is_tried_on_a_server_before_the_login_is_acknowledged() {
    let mut world = TestWorker::new();
    world.is_automatic = false;
    let client = world.connect();
    let login = Login { schema: Some("shop"), ..Login::default() };
    assert_eq!(world.try_to_log_in(client, &login), "");
    let conn = world.conns()[0];
    world.is_automatic = true;
    world.come_up(conn);
    assert_eq!(world.times_heard("INIT_DB shop"), 1);
    assert_eq!(world.answer(client), "ok");
}

#[test]
fn a_schema_that_was_confirmed_a_moment_ago_is_believed() {
    let mut world = TestWorker::new();
    let login = Login { schema: Some("shop"), ..Login::default() };
    let first = world.log_in_as(&login);
    world.log_in_as(&login);
    assert_eq!(world.times_heard("INIT_DB shop"), 1);
    assert_eq!(world.session(first).settings.state.schema.name(), b"shop");
    world.pass_ms(11_000);
    world.log_in_as(&login);
    assert_eq!(world.times_heard("INIT_DB shop"), 2, "it may have been dropped since");
}

#[test]
fn a_user_has_so_many_connections_and_no_more() {
    let config = TWO_SERVERS.replace("name = \"app\"", "name = \"app\"\nmax_connections = 1");
    let mut world = TestWorker::with(&config);
    let first = world.log_in();
    let second = world.connect();
    let answer = world.try_to_log_in(second, &Login::default());
    assert!(answer.starts_with("error 1226: User 'app' has exceeded"), "{answer}");
    world.leave(first);
    world.log_in();
}

#[test]
fn a_character_set_that_no_statement_can_be_read_in_is_refused() {
    let mut world = TestWorker::new();
    let client = world.connect();
    let answer = world.try_to_log_in(client, &Login { charset: 35, ..Login::default() });
    assert!(answer.starts_with("error 1231"), "{answer}");
    assert!(answer.contains("'ucs2'"), "{answer}");
}

#[test]
fn character_sets_of_wide_units_are_unfit() {
    let unfit = |collation| unfit_charset(Flavor::MySql, collation);
    assert_eq!([35, 54, 60].map(unfit), [Some("ucs2"), Some("utf16"), Some("utf32")]);
    assert_eq!([45, 8, 28].map(unfit), [None; 3]);
}

#[test]
fn spaces_are_ignored_as_the_handshake_asks() {
    let mut state = SessionState::new(Schema::None, Charset::Collation(45));
    ignore_spaces(&mut state, Capabilities::EMPTY);
    assert_eq!(state.variable("sql_mode"), None);
    ignore_spaces(&mut state, Capabilities::IGNORE_SPACE);
    assert_eq!(state.variable("sql_mode"), Some(SPACES_IGNORED));
}

#[test]
fn attributes_are_kept_up_to_a_limit() {
    let attribute = |len: usize| (vec![b'n'].into(), vec![b'v'; len - 1].into());
    assert_eq!(kept(vec![attribute(4_000), attribute(96)]).len(), 2);
    assert_eq!(kept(vec![attribute(4_000), attribute(97), attribute(1)]).len(), 1);
    assert!(kept(vec![attribute(4_097)]).is_empty());
}

#[test]
fn a_packet_longer_than_a_login_is_known_by_its_header() {
    let len = |len: usize| {
        let header = frame::Header { payload_len: len, seq: 1 };
        is_oversized(&header.bytes())
    };
    assert!(!len(200));
    assert!(!len(LOGIN_BYTES_MAX - HEADER_LEN));
    assert!(len(LOGIN_BYTES_MAX));
    assert!(len(PAYLOAD_MAX));
    assert!(!is_oversized(&[0xFF, 0xFF]), "half a header");
}

/// A `COM_CHANGE_USER` with this password.
fn change(user: &str, password: &str) -> Vec<u8> {
    change_to(user, password, None)
}

/// A `COM_CHANGE_USER` with this password, to this schema.
fn change_to(user: &str, password: &str, schema: Option<&str>) -> Vec<u8> {
    let stage1 = trunkline_protocol::auth::native::stage1(password.as_bytes());
    let auth = trunkline_protocol::auth::native::scramble(&stage1, &[b'm'; NONCE_LEN]);
    let change = ChangeUser {
        user: user.as_bytes(),
        auth: &auth,
        schema: schema.map(str::as_bytes),
        collation: Some(45),
        plugin: Some(b"mysql_native_password"),
        attributes: Default::default(),
    };
    let mut packet = Vec::new();
    change.put(&mut packet, 0, CLIENT_CAPABILITIES);
    packet.drain(..4);
    packet
}

/// What a client is answered that can't prove to be `other`.
fn change_in_vain(world: &mut TestWorker, client: ClientId) -> String {
    world.send(client, &change("other", "wrong"));
    assert_eq!(world.answer(client), "eof", "it is asked once more, with another nonce");
    let mut packet = Vec::new();
    frame::put_payload(&mut packet, 2, &[1; NONCE_LEN]);
    world.happens(|worker| worker.client_read(client, &packet));
    world.answer(client)
}

#[test]
fn a_change_of_user_makes_another_session() {
    let mut world = TestWorker::with(ONE_CONNECTION);
    let client = world.log_in();
    world.run(client, "SET time_zone = '+01:00'", Reply::Ok);
    world.send(client, &change("other", "other"));
    assert_eq!(world.answer(client), "ok");
    assert_eq!(world.session(client).login.user.name, "other");
    assert_eq!(world.session(client).settings.state.variable("time_zone"), None);
}

#[test]
fn commands_behind_a_change_of_user_are_the_new_users() {
    let mut world = TestWorker::with(ONE_CONNECTION);
    let client = world.log_in();
    let mut packets = Vec::new();
    frame::put_payload(&mut packets, 0, &change("other", "other"));
    frame::put_payload(&mut packets, 0, b"\x03SELECT USER()");
    world.happens(|worker| worker.client_read(client, &packets));
    assert_eq!(world.answer(client), "ok");
    assert_eq!(world.session(client).login.user.name, "other");
    world.reply("SELECT USER()", Reply::Rows(&["other"]));
    assert_eq!(world.answer(client), "rows other");
    let mut vain = Vec::new();
    frame::put_payload(&mut vain, 0, &change("other", "other"));
    frame::put_payload(&mut vain, 0, b"\x01");
    world.happens(|worker| worker.client_read(client, &vain));
    assert!(world.is_closed(client), "what ends a session is looked at behind it");
}

#[test]
fn a_connection_that_has_not_logged_in_is_killed_by_an_administrator_alone() {
    use crate::{KillRequest, KillScope};
    let mut world = TestWorker::with(ONE_CONNECTION);
    let client = world.connect();
    let number = world.core().clients.table.get(client).map(|entry| entry.origin.number);
    let number = number.expect("it is greeted");
    let asker = crate::KillAsker { worker: 0, client: None, ticket: 1 };
    let request = |user: Option<&str>| KillRequest {
        number,
        scope: KillScope::Session,
        user: user.map(Into::into),
        asker,
    };
    world.happens(|worker| worker.kill_asked(request(Some("app"))));
    assert!(!world.is_closed(client), "it is nobody's yet");
    world.happens(|worker| worker.kill_asked(request(None)));
    assert!(world.is_closed(client));
}

#[test]
fn a_change_of_user_is_answered_when_what_was_held_is_given_up() {
    let mut world = TestWorker::with(ONE_CONNECTION);
    let client = world.log_in();
    world.run(client, "SELECT GET_LOCK('a', 0)", Reply::Rows(&["1"]));
    world.is_automatic = false;
    world.send(client, &change("other", "other"));
    assert_eq!(world.answer(client), "", "the lock is held still");
    world.is_automatic = true;
    world.reply("RESET", Reply::Ok);
    assert_eq!(world.answer(client), "ok");
    assert_eq!(world.session(client).login.user.name, "other");
    assert_eq!(world.run(client, "SELECT 1", Reply::Rows(&["1"])), "rows 1");
}

#[test]
fn a_change_of_user_gives_up_what_is_held_on_several_connections() {
    let rule = "[[rule]]\nid = 1\nmatch_digest = \"^SELECT @\"\ndestination_hostgroup = 20\n";
    let mut world = TestWorker::with(&format!("{WRITER_AND_READER}{rule}"));
    let client = world.log_in();
    world.run(client, "SELECT @a := 1", Reply::Rows(&["1"]));
    world.run(client, "DO GET_LOCK('a', 0)", Reply::Ok);
    assert_eq!(world.session(client).leases.len(), 2);
    let lock = world.session(client).leases[1].conn;
    world.is_automatic = false;
    world.send(client, &change("other", "other"));
    assert_eq!(world.answer(client), "", "the lock is held still");
    assert_eq!(world.times_heard("RESET"), 2);
    world.is_automatic = true;
    let is_lock = |client: &crate::clients::client::Session| client.leases[0].conn == lock;
    assert!(is_lock(world.session(client)), "others may wait for that");
    world.reply("RESET", Reply::Ok);
    world.reply("RESET", Reply::Ok);
    assert_ne!(world.answer(client), "", "the change goes on");
}

#[test]
fn a_reset_gives_up_what_others_may_wait_for() {
    let rule = "[[rule]]\nid = 1\nmatch_digest = \"^SELECT @\"\ndestination_hostgroup = 20\n";
    let mut world = TestWorker::with(&format!("{WRITER_AND_READER}{rule}"));
    let client = world.log_in();
    world.run(client, "SELECT @a := 1", Reply::Rows(&["1"]));
    world.run(client, "DO GET_LOCK('a', 0)", Reply::Ok);
    let lock = world.session(client).leases[1].conn;
    world.is_automatic = false;
    world.send(client, &[code::RESET_CONNECTION]);
    assert_eq!(world.answer(client), "", "the lock is held still");
    assert_eq!(world.session(client).leases[0].conn, lock, "its answer is the client's");
}

#[test]
fn a_change_of_user_whose_held_connection_is_lost_ends_the_session() {
    let mut world = TestWorker::with(ONE_CONNECTION);
    let client = world.log_in();
    world.run(client, "SELECT GET_LOCK('a', 0)", Reply::Rows(&["1"]));
    world.is_automatic = false;
    world.send(client, &change("other", "other"));
    let conn = world.conn_asked("RESET");
    world.lose(conn);
    assert!(world.answer(client).starts_with("error 2013"));
    assert!(world.is_closed(client));
}

#[test]
fn a_change_of_user_that_fails_ends_the_connection_on_mysql() {
    let config = ONE_CONNECTION;
    let mut world = TestWorker::of(Setup { config, version: MYSQL, ..Setup::default() });
    let client = world.log_in();
    assert!(change_in_vain(&mut world, client).starts_with("error 1045"));
    assert!(world.is_closed(client));
}

#[test]
fn a_change_of_user_that_fails_keeps_the_user_on_mariadb() {
    let mut world = TestWorker::with(ONE_CONNECTION);
    let client = world.log_in();
    assert!(change_in_vain(&mut world, client).starts_with("error 1045"));
    assert!(!world.is_closed(client));
    assert_eq!(world.session(client).login.user.name, "app");
    assert_eq!(world.run(client, "SELECT 1", Reply::Rows(&["1"])), "rows 1");
}

/// The character set of a session on MariaDB behind a reset, if it logs in with latin1, tries in
/// vain to be another user with utf8mb4, and is reset.
fn charset_behind_change_in_vain(try_in_vain: impl Fn(&mut TestWorker, ClientId)) -> Charset {
    let setup = Setup { config: ONE_CONNECTION, version: MARIADB, ..Setup::default() };
    let mut world = TestWorker::of(setup);
    let client = world.log_in_as(&Login { charset: 8, ..Login::default() });
    try_in_vain(&mut world, client);
    world.send(client, b"\x1F");
    assert_eq!(world.answer(client), "ok");
    world.session(client).settings.state.charset.clone()
}

#[test]
fn a_reset_behind_a_change_of_user_in_vain_takes_the_character_set_that_it_named_on_mariadb() {
    let wrong_password = charset_behind_change_in_vain(|world, client| {
        assert!(change_in_vain(world, client).starts_with("error 1045"));
    });
    assert_eq!(wrong_password, Charset::Collation(45));
    let no_schema = charset_behind_change_in_vain(|world, client| {
        world.send(client, &change_to("app", "app", Some("gone")));
        assert!(world.answer(client).starts_with("error 1049"));
    });
    assert_eq!(no_schema, Charset::Collation(45));
}

#[test]
fn a_connection_whose_changes_failed_thrice_has_no_such_command_on_mariadb() {
    let mut world = TestWorker::with(ONE_CONNECTION);
    let client = world.log_in();
    for _ in 0..3 {
        assert!(change_in_vain(&mut world, client).starts_with("error 1045"));
    }
    world.send(client, &change("other", "other"));
    assert_eq!(world.answer(client), "error 1047: Unknown command");
}

/// Two changes of user are tried in vain, and another one may not be.
fn blocks_changes_of_user(version: &'static str) {
    let config = &format!("failed_logins_max = 2\n{ONE_CONNECTION}");
    let mut world = TestWorker::of(Setup { config, version, ..Setup::default() });
    for _ in 0..2 {
        let client = world.connect_from(peer_at([192, 0, 2, 1].into())).expect("it is greeted");
        assert_eq!(world.try_to_log_in(client, &Login::default()), "ok");
        assert!(change_in_vain(&mut world, client).starts_with("error 1045"), "{version}");
    }
    // That of whoever it was meanwhile does not count, and its success forgives nothing.
    let client = world.connect_from(peer_at([192, 0, 2, 1].into())).expect("it is greeted");
    assert_eq!(world.try_to_log_in(client, &Login::default()), "ok");
    world.send(client, &change("other", "other"));
    let answer = world.answer(client);
    assert!(answer.starts_with("error 1129") && answer.contains("as 'other'"), "{answer}");
    assert!(world.is_closed(client), "{version}");
    let elsewhere = world.log_in();
    world.send(elsewhere, &change("other", "other"));
    assert_eq!(world.answer(elsewhere), "ok");
}

#[test]
fn changes_of_user_count_as_logins() {
    for version in [MARIADB, MYSQL] {
        blocks_changes_of_user(version);
    }
}

#[test]
fn a_transaction_ends_with_the_user_who_began_it() {
    use trunkline_protocol::packet::{ok::OkPacket, status};
    let mut world = TestWorker::with(ONE_CONNECTION);
    let client = world.log_in();
    let status = status::AUTOCOMMIT | status::IN_TRANS;
    world.run(client, "BEGIN", Reply::Says(OkPacket { status, ..crate::tests::OK }));
    world.send(client, &change("other", "other"));
    assert_eq!(world.answer(client), "ok");
    assert_eq!(world.times_heard("RESET"), 1);
    assert!(world.session(client).leases.is_empty());
}

/// When the connection with a session's `FOUND_ROWS()` tells it, while its client changes its user
#[test]
fn what_is_fetched_for_a_session_comes_before_a_change_of_user_is_tried() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    assert_eq!(world.run(client, "CALL s.p()", Reply::Ok), "ok");
    world.is_automatic = false;
    world.send(client, &change_to("app", "app", Some("gone")));
    assert_eq!(world.answer(client), "");
    world.is_automatic = true;
    world.reply("SELECT FOUND_ROWS()", Reply::Rows(&["7"]));
    assert_eq!(world.answer(client), "error 1049: Unknown database 'gone'");
    world.ask(client, "SELECT FOUND_ROWS()");
    let asked = world.asked().into_iter().find(|text| text.starts_with("SELECT"));
    assert!(asked.as_ref().is_some_and(|asked| asked.contains("07' AS ")), "{asked:?}");
}
