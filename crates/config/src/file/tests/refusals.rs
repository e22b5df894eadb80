//! Bad files and the exact words that refuse them.

use super::*;

#[test]
fn wrong_settings_are_named_with_their_values() {
    let check = |line: &str, expected: &str| assert_eq!(errors(&whole(line)), expected, "{line}");
    check(
        "max_conections=1",
        "t:1:1: unknown setting `max_conections`; did you mean `max_connections`?",
    );
    check(
        "mysql-wait_timeout=1",
        "t:1:1: unknown setting `mysql-wait_timeout`; did you mean `wait_timeout`?",
    );
    check("servers=1", "t:1:1: unknown setting `servers`; did you mean `server`?");
    check("[something]", "t:1:2: unknown setting `something`");
    check("workers=5000", "t:1:9: `workers` must be 0 to 1024, not 5000");
    check("workers=-1", "t:1:9: `workers` must be 0 to 1024, not -1");
    check("workers='2'", "t:1:9: `workers` must be an integer, not a string");
    check("workers=1.5", "t:1:9: `workers` must be an integer, not a number with a fraction");
    check(
        "workers=99999999999999999999999999999999999999999999",
        "t:1:9: `workers` must be an integer, not a number beyond 128 bits",
    );
    check("query_digests=2", "t:1:15: `query_digests` must be true or false, not 2");
    check(
        "query_digests_grouping_limit=0",
        "t:1:30: `query_digests_grouping_limit` must be 1 to 2089, not 0",
    );
    check("listen=[]", "t:1:8: `listen` is empty, so there is no listener");
    check("listen='0.0.0.0:1'", "t:1:8: `listen` must be a list of addresses, not a string");
    check("listen=[1]", "t:1:8: `listen` must hold strings, not an integer");
    check(
        "listen=['localhost:1']",
        "t:1:8: `listen` is wrong: `localhost:1` is not an address to listen on \
         (`ip:port` or `unix:/path`)",
    );
    check(
        "listen=['unix:x']",
        "t:1:8: `listen` is wrong: the path in `unix:x` must begin with `/`",
    );
    check("listen=['[::]:1', '[::]:1']", "t:1:8: `listen` names `[::]:1` twice");
    check("http_listen='6070'", "t:1:13: `http_listen` must be `ip:port` or empty, not `6070`");
    check(
        "log_level='loud'",
        "t:1:11: `log_level` must be error, warn, info, debug or trace, not `loud`",
    );
    check(
        "server_version=\"a\\u0000\"",
        "t:1:16: `server_version` must not hold control characters",
    );
}

#[test]
// long: one list of cases.
fn a_wrong_server_is_named() {
    let check = |keys: &str, expected: &str| assert_eq!(errors(&server(keys)), expected, "{keys}");
    check("weight=1", "t:1:1: `address` is missing in [[server]]");
    check(
        "address='db'\nmax_conections=1",
        "t:3:1: unknown key `max_conections` in [[server]]; did you mean `max_connections`?",
    );
    check(
        "address='db:0'",
        "t:2:9: `address` in [[server]] is wrong: `0` in `db:0` is not a port (1 to 65535)",
    );
    check("address=1", "t:2:9: `address` in [[server]] must be a string, not an integer");
    check(
        "address='a'\nhostname='b'",
        "t:3:10: `address` and `hostname` in [[server]] mean the same; give one",
    );
    check(
        "address='a'\nport=1",
        "t:3:6: `port` goes with `hostname`; `address` in [[server]] holds its own",
    );
    check(
        "hostname='a:1'",
        "t:2:10: `hostname` in [[server]] must be a host without a port, not `a:1`",
    );
    check(
        "hostname='a'\nport=0",
        "t:2:10: `hostname` in [[server]] must be the path of a Unix socket where `port` \
         is 0, not `a`",
    );
    check(
        "hostname='a b'",
        "t:2:10: `hostname` in [[server]] is wrong: `a b` in `a b:3306` is neither an \
         address nor a host name",
    );
    check(
        "address='a'\ncompression=2",
        "t:3:13: `compression` in [[server]] must be 0, 1, zlib or zstd, not 2",
    );
    check(
        "address='a'\ncompression='lz4'",
        "t:3:13: `compression` in [[server]] must be 0, 1, zlib or zstd, not `lz4`",
    );
    check("address='a'\nweight=-1", "t:3:8: `weight` in [[server]] must be 0 to 10000000, not -1");
    check(
        "address='a'\nmax_connections=1000001",
        "t:3:17: `max_connections` in [[server]] must be 0 to 1000000, not 1000001",
    );
    check(
        "address='a'\nhostgroup=-1",
        "t:3:11: `hostgroup` in [[server]] must be 0 to 2147483647, not -1",
    );
    check(
        "address='a'\nhostgroup=0\nhostgroup_id=0",
        "t:4:14: `hostgroup` and `hostgroup_id` in [[server]] mean the same; give one",
    );
    check(
        "address='a'\nstatus='SHUNNED'",
        "t:3:8: `status` in [[server]] must be ONLINE, OFFLINE_SOFT or OFFLINE_HARD, not `SHUNNED`",
    );
    check(
        "address='a'\nuse_ssl=2",
        "t:3:9: `use_ssl` in [[server]] must be disabled, preferred, required, verify-ca, \
         verify-identity, 0 or 1, not 2",
    );
    check(
        "address='a'\nworkers=1",
        "t:3:1: `workers` is a setting; it must stand above the first [[server]]",
    );
    check(
        "address='a'\n[[server]]\nhostgroup=0\naddress='a:3306'",
        "t:5:9: server a:3306 in hostgroup 0 is defined twice (first on line 2)",
    );
}

#[test]
fn a_wrong_user_is_named() {
    let check = |keys: &str, expected: &str| assert_eq!(errors(&user(keys)), expected, "{keys}");
    check("password='p'", "t:3:1: `name` is missing in [[user]]");
    check("name=''\npassword='p'", "t:4:6: `name` in [[user]] must not be empty");
    check(
        "name='u'",
        "t:3:1: [[user]] has no `password`, `password_hash`, `password_file` or `password_env`",
    );
    check(
        "name='u'\npassword='p'\npassword_file='good'",
        "t:6:15: `password` and `password_file` in [[user]] exclude each other",
    );
    check(
        "name='u'\npasswrd='p'\npassword=''",
        "t:5:1: unknown key `passwrd` in [[user]]; did you mean `password`?",
    );
    check(
        &format!("name='u'\npassword='{HASH}'"),
        "t:5:10: `password` in [[user]] holds a hash; write it as `password_hash`",
    );
    check(
        "name='u'\npassword_hash='*12'",
        "t:5:15: `password_hash` in [[user]] is wrong: a native hash is `*` and 40 hex digits",
    );
    check(
        "name='u'\npassword_file='none'",
        "t:5:15: `password_file` in [[user]] is wrong: `none` cannot be read: no such file",
    );
    check(
        "name='u'\npassword_file='empty'",
        "t:5:15: `password_file` in [[user]] is wrong: `empty` is empty",
    );
    check(
        "name='u'\npassword_file='lines'",
        "t:5:15: `password_file` in [[user]] is wrong: `lines` must hold one line, the password",
    );
    check(
        "name='u'\npassword='p'\ndefault_hostgroup=7",
        "t:6:19: user `u`: default_hostgroup 7 has no [[server]]",
    );
    check(
        "name='u'\npassword='p'\nactive='yes'",
        "t:6:8: `active` in [[user]] must be a boolean, not a string",
    );
    check(
        "name='u'\npassword='p'\n[[user]]\nusername='u'\npassword='q'",
        "t:7:10: user `u` is defined twice (first on line 4)",
    );
}

#[test]
fn a_wrong_replication_group_is_named() {
    let check = |keys: &str, expected: &str| {
        let text = format!("[[replication]]\n{keys}");
        assert_eq!(errors(&whole(&text)), expected, "{keys}");
    };
    check("writer_hostgroup=0", "t:1:1: `reader_hostgroup` is missing in [[replication]]");
    check(
        "writer_hostgroup=0\nreader_hostgroup=0",
        "t:3:18: reader_hostgroup 0 is the writer_hostgroup too",
    );
    check(
        "writer_hostgroup=1\nreader_hostgroup=2",
        "t:2:18: neither writer_hostgroup 1 nor reader_hostgroup 2 has a [[server]]",
    );
    check(
        "writer_hostgroup=0\nreader_hostgroup=1\nread_write_split='on'",
        "t:4:18: `read_write_split` in [[replication]] must be auto or rules, not `on`",
    );
    let twice = "writer_hostgroup=0\nreader_hostgroup=1\n[[replication]]\n\
                 writer_hostgroup=0\nreader_hostgroup=1";
    check(
        twice,
        "t:5:18: writer_hostgroup 0 is defined twice (first on line 2)\n\
         t:6:18: reader_hostgroup 1 is defined twice (first on line 3)",
    );
}

#[test]
fn a_wrong_hostgroup_is_named() {
    let check = |keys: &str, expected: &str| {
        let text = format!("[[hostgroup]]\n{keys}");
        assert_eq!(errors(&whole(&text)), expected, "{keys}");
    };
    check("pipeline='off'", "t:1:1: `hostgroup_id` is missing in [[hostgroup]]");
    check(
        "hostgroup_id=0\npipeline='on'",
        "t:3:10: `pipeline` in [[hostgroup]] must be auto, off or 1 to 1024, not `on`",
    );
    check(
        "hostgroup_id=0\npipeline=false",
        "t:3:10: `pipeline` in [[hostgroup]] must be \"auto\", \"off\" or 1 to 1024",
    );
    check(
        "hostgroup_id=0\nbalance='roundrobin'",
        "t:3:9: `balance` in [[hostgroup]] must be one of p2c, random, leastconn, source, not \
         `roundrobin`",
    );
    check("hostgroup_id=7", "t:2:14: hostgroup 7 has no [[server]]");
    check(
        "hostgroup_id=0\ninit_connect=''",
        "t:3:1: `init_connect` in [[hostgroup]] is not supported yet",
    );
    check(
        "hostgroup_id=0\n[[hostgroup]]\nhostgroup_id=0",
        "t:4:14: hostgroup 0 is defined twice (first on line 2)",
    );
}

#[test]
fn a_wrong_rule_is_named() {
    let check = |keys: &str, expected: &str| assert_eq!(errors(&rule(keys)), expected, "{keys}");
    check("apply=true", "t:6:1: `id` is missing in [[rule]]");
    check("id=0", "t:7:4: `id` in [[rule]] must be 1 to 4294967295, not 0");
    check("id=1\nflagin=1", "t:8:1: unknown key `flagin` in [[rule]]; did you mean `flagIN`?");
    check("id=1\ncache_ttl=0", "t:8:11: `cache_ttl` in [[rule]] must be 1 to 4294967295, not 0");
    check("id=1\nretries=1001", "t:8:9: `retries` in [[rule]] must be 0 to 1000, not 1001");
    check("id=1\nmultiplex=3", "t:8:11: `multiplex` in [[rule]] must be 0 to 2, not 3");
    check(
        "id=1\nreplace_pattern='x'",
        "t:8:17: rule 1: replace_pattern: there is no match_pattern to replace",
    );
    check(
        "id=1\nmatch_pattern='(a)'\nreplace_pattern='\\2'",
        "t:9:17: rule 1: replace_pattern: `\\2` names group \\2, and match_pattern has 1",
    );
    check("id=1\nattributes='[]'", "t:8:12: rule 1: attributes: `[]` is not a JSON object");
    check(
        "id=1\nproxy_port=65536",
        "t:8:12: `proxy_port` in [[rule]] must be 0 to 65535, not 65536",
    );
    check(
        "id=1\ndestination_hostgroup=5",
        "t:8:23: rule 1: destination_hostgroup 5 has no [[server]]",
    );
    check("id=1\n[[rule]]\nid=1", "t:9:4: rule 1 is defined twice (first on line 7)");
    let broken = errors(&rule("id=1\nmatch_digest='('"));
    assert!(broken.starts_with("t:8:14: rule 1: match_digest: "), "{broken}");
    assert!(!broken.contains('\n'), "{broken}");
    assert_eq!(good(&rule("id=1\nactive=false\ndestination_hostgroup=5")).rules.len(), 1);
}

#[test]
fn what_is_absent_is_named() {
    assert_eq!(errors(""), "t:1:1: there is no [[server]]\nt:1:1: there is no [[user]]");
    assert_eq!(errors("server=[]\nuser=1"), "t:2:6: `user` must be tables, written [[user]]");
    assert_eq!(
        errors("[server]\naddress='a'\n[[user]]\nname='u'\npassword='p'"),
        "t:1:1: [server] must be written [[server]]"
    );
    assert_eq!(errors(&whole("rule=[1]")), "t:1:7: `rule` must be tables, written [[rule]]");
}

#[test]
fn all_errors_are_reported_at_once_in_the_order_of_their_lines() {
    let text = "worker=1\n[[server]]\naddress='a b'\nweight='x'\n[[user]]\nname='u'\n\
                [[rule]]\nid=1\nmatch_pattern='['\nx=1\n";
    let lines: Vec<usize> = parse(text, "t", &files)
        .expect_err("five errors")
        .iter()
        .map(|error| place(error).0)
        .collect();
    assert_eq!(lines, [1, 3, 4, 5, 9, 10]);
}

#[test]
fn a_syntax_error_has_its_place() {
    let shown = errors("listen = [\n[[server]\n");
    assert!(shown.starts_with("t:"), "{shown}");
    assert_eq!(errors("a = 1\na = 2\n"), "t:2:1: duplicate key `a`");
    let errors = parse("é = 1", "t", &files).expect_err("not a bare key");
    assert_eq!(place(&errors[0]), (1, 1));
}

#[test]
fn kinds_of_errors_are_told_without_their_words() {
    let kind = |text: &str| parse(text, "t", &files).expect_err(text)[0].kind;
    let check = |text: &str, expected| assert_eq!(kind(text), expected, "{text}");
    check("a = ", ErrorKind::Syntax);
    check(&whole("x=1"), ErrorKind::UnknownColumn);
    check(&server("address='a'\nx=1"), ErrorKind::UnknownColumn);
    check(&server("address='a'\ngtid_port=1"), ErrorKind::NotSupported);
    check(&server("address='a'\nweight='x'"), ErrorKind::WrongType);
    check(&server("address='a'\nweight=-1"), ErrorKind::OutOfRange);
    check(&server("address='a b'"), ErrorKind::Invalid);
    check(&server("weight=1"), ErrorKind::Missing);
    check(&server("address='a'\n[[server]]\naddress='a'"), ErrorKind::Duplicate);
    check(&server("address='a'\nhostname='b'"), ErrorKind::Conflict);
    check(&rule("id=1\ndestination_hostgroup=5"), ErrorKind::Dangling);
    check(&whole("fast_routing_file='none'"), ErrorKind::Unreadable);
}

#[test]
fn keys_are_given_as_paths() {
    let text = whole("[[rule]]\nid=1\n[[rule]]\nid=2\nmatch_digest=1");
    let errors = parse(&text, "t", &files).expect_err("a wrong type");
    assert_eq!(errors[0].subject.to_string(), "rule[1].match_digest");
}

#[test]
fn no_message_holds_a_password() {
    let text = user("name='u'\npassword='hunter2'\npassword_hash='*hunter2'\npassword_file='x'");
    assert!(!errors(&text).contains("hunter2"), "{}", errors(&text));
    assert!(!format!("{:?}", good(&user("name='u'\npassword='hunter2'"))).contains("hunter2"));
}
