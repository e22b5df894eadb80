//! `[[tcp_listener]]`, good and bad.

use super::*;
use crate::tcp::{Balance, Check, OnMarkedDown, SendProxy};

/// One listener's keys, in a whole file without users; they begin on line 5.
fn listener(keys: &str) -> String {
    format!("[[server]]\nhostgroup=1\naddress='a'\n[[tcp_listener]]\n{keys}\n")
}

#[test]
fn a_listener_needs_an_address_and_servers_and_no_user() {
    let config = good(&listener("address='0.0.0.0:3307'\nhostgroup=1"));
    let [listener] = config.tcp_listeners.as_slice() else { panic!("one listener") };
    assert_eq!(listener.address.to_string(), "0.0.0.0:3307");
    assert_eq!(listener.balance, Balance::LeastConn);
    assert_eq!((listener.check, listener.max_connections), (Check::Down, 10_000));
}

#[test]
fn every_key_of_a_listener_is_read() {
    let config = good(&listener(
        "address='unix:/run/t.sock'\nhostgroup=1\nbackup_hostgroup=1\nbalance='source'\n\
         max_connections=5\nconnect_timeout=6\nretries=7\nclient_timeout=8\nserver_timeout=9\n\
         fin_timeout=10\non_marked_down='shutdown-sessions'\ncheck='always'\n\
         check_interval=100\nrise=11\nfall=12\nsend_proxy='v2'\ncontrol='127.0.0.1:4444'\n\
         comment='x'",
    ));
    let it = &config.tcp_listeners[0];
    assert_eq!(it.backup_hostgroup, Some(HostgroupId(1)));
    assert_eq!((it.balance, it.check), (Balance::Source, Check::Always));
    assert_eq!(it.on_marked_down, OnMarkedDown::ShutdownSessions);
    assert_eq!(it.send_proxy, SendProxy::V2);
    assert_eq!((it.max_connections, it.connect_timeout, it.retries), (5, 6, 7));
    assert_eq!((it.client_timeout, it.server_timeout, it.fin_timeout), (8, 9, 10));
    assert_eq!((it.check_interval, it.rise, it.fall), (100, 11, 12));
    assert_eq!(it.control.as_ref().map(ToString::to_string).as_deref(), Some("127.0.0.1:4444"));
    assert_eq!(it.comment, "x");
}

#[test]
fn a_wrong_listener_is_named() {
    let check = |keys: &str, expected: &str| {
        assert_eq!(errors(&listener(keys)), expected, "{keys}");
    };
    let with = |more: &str| format!("address='[::]:1'\nhostgroup=1\n{more}");
    check("hostgroup=1", "t:4:1: `address` is missing in [[tcp_listener]]");
    check(
        "address='[::]:1'\nhostgroup=2",
        "t:6:11: tcp_listener [::]:1: hostgroup 2 has no [[server]]",
    );
    check(
        &with("backup_hostgroup=3"),
        "t:7:18: tcp_listener [::]:1: backup_hostgroup 3 has no [[server]]",
    );
    check(
        &with("balance='leastcon'"),
        "t:7:9: `balance` in [[tcp_listener]] must be leastconn, roundrobin, source, random, \
         first, not `leastcon`",
    );
    check(
        &with("client_timout=1"),
        "t:7:1: unknown key `client_timout` in [[tcp_listener]]; did you mean `client_timeout`?",
    );
    check(
        &with("control='10.0.0.1:4444'"),
        "t:7:9: `control` in [[tcp_listener]] has no password, so it must be on the loopback or \
         a Unix socket, not `10.0.0.1:4444`",
    );
    check(
        &with("[[tcp_listener]]\naddress='[::]:1'\nhostgroup=1"),
        "t:8:9: address [::]:1 to listen on is defined twice (first on line 5)",
    );
    check(
        "address='0.0.0.0:6033'\nhostgroup=1",
        "t:5:9: `address` 0.0.0.0:6033 is in `listen`, for MySQL clients",
    );
}
