//! Snapshots, one after another.

use trunkline_topology::ServerState;

use super::*;

fn config(text: &str) -> Config {
    let no_files = |_: &str| Err("no files here".to_owned());
    crate::parse(text, "t", &no_files).unwrap_or_else(|errors| panic!("{errors:#?}"))
}

/// A file with these servers (hostgroup, address, more keys), one user and `more`.
fn with(servers: &[(u32, &str, &str)], more: &str) -> Config {
    let mut text = String::new();
    let first = servers.first().map_or(0, |server| server.0);
    if !more.starts_with('[') {
        text.push_str(more);
    }
    for (hostgroup, address, keys) in servers {
        text.push_str(&format!(
            "\n[[server]]\nhostgroup={hostgroup}\naddress='{address}'\n{keys}\n"
        ));
    }
    text.push_str(&format!("[[user]]\nname='u'\npassword='p'\ndefault_hostgroup={first}\n"));
    if more.starts_with('[') {
        text.push_str(more);
    }
    config(&text)
}

fn only(snapshot: &Snapshot, hostgroup: u32) -> &Arc<Server> {
    let hostgroup = snapshot.hostgroup(HostgroupId(hostgroup)).expect("the hostgroup");
    let [server] = hostgroup.servers.as_slice() else { panic!("{:?}", hostgroup.servers) };
    server
}

fn socket(text: &str) -> SocketAddr {
    text.parse().expect("a socket address")
}

#[test]
fn the_first_snapshot_has_everything_and_resolves_literals() {
    let more = "[[replication]]\nwriter_hostgroup=10\nreader_hostgroup=20\n";
    let servers =
        [(10, "10.0.0.1:3307", ""), (20, "[::1]", ""), (20, "db", ""), (30, "unix:/s", "")];
    let snapshot = with(&servers, more).snapshot(None);
    assert_eq!(snapshot.version, 1);
    assert_eq!(snapshot.hostgroups.len(), 3);
    assert_eq!(only(&snapshot, 10).resolved, [socket("10.0.0.1:3307")]);
    let readers = &snapshot.hostgroups[&HostgroupId(20)].servers;
    assert_eq!(readers[0].resolved, [socket("[::1]:3306")]);
    assert!(readers[1].resolved.is_empty());
    assert!(only(&snapshot, 30).resolved.is_empty());
    assert_eq!(snapshot.names_to_resolve(), ["db".parse().expect("an address")]);
    let group = snapshot.writer_group(HostgroupId(10)).expect("a writer");
    assert_eq!(group.reader_hostgroup, HostgroupId(20));
    assert!(snapshot.writer_group(HostgroupId(20)).is_none());
    assert!(snapshot.user("u").is_some() && snapshot.user("U").is_none());
}

#[test]
fn health_goes_on_where_the_server_stays() {
    let first = with(&[(1, "a", ""), (2, "a", "")], "").snapshot(None);
    let health = Arc::clone(&only(&first, 1).health);
    assert!(health.try_take_connection(5));
    let second = with(&[(1, "a", "weight=7"), (2, "b", "")], "").snapshot(Some(&first));
    assert_eq!(second.version, 2);
    assert!(Arc::ptr_eq(&health, &only(&second, 1).health));
    assert_eq!(only(&second, 1).weight, 7);
    assert!(!Arc::ptr_eq(&only(&first, 2).health, &only(&second, 2).health));
}

#[test]
fn only_a_changed_status_is_set() {
    let first = with(&[(1, "a", "")], "").snapshot(None);
    let health = Arc::clone(&only(&first, 1).health);
    health.shun(1_000);
    let second = with(&[(1, "a", "weight=2")], "").snapshot(Some(&first));
    assert_eq!(health.state(0), ServerState::Shunned);
    let epoch = health.epoch();
    let third = with(&[(1, "a", "status='OFFLINE_HARD'")], "").snapshot(Some(&second));
    assert_eq!(health.state(0), ServerState::OfflineHard);
    assert_ne!(health.epoch(), epoch);
    let fourth = with(&[(1, "a", "")], "").snapshot(Some(&third));
    assert_eq!(only(&fourth, 1).health.state(0), ServerState::Online);
}

#[test]
fn a_removed_server_takes_no_more_statements() {
    let first = with(&[(1, "a", ""), (2, "b", "")], "").snapshot(None);
    let health = Arc::clone(&only(&first, 2).health);
    let second = with(&[(1, "a", "")], "").snapshot(Some(&first));
    assert!(second.hostgroup(HostgroupId(2)).is_none());
    assert_eq!(health.state(0), ServerState::OfflineSoft);
    assert_eq!(health.epoch(), 1);
    let third = with(&[(1, "a", ""), (2, "b", "")], "").snapshot(Some(&second));
    assert_eq!(only(&third, 2).health.state(0), ServerState::Online);
}

#[test]
fn resolved_names_make_a_new_snapshot_only_when_they_change() {
    let first = with(&[(1, "a", ""), (2, "10.0.0.1", "")], "").snapshot(None);
    let name: Address = "a".parse().expect("an address");
    let literal: Address = "10.0.0.1".parse().expect("an address");
    let (one, two) = (socket("10.0.0.5:3306"), socket("10.0.0.6:3306"));
    let found = |addresses: &[SocketAddr]| {
        HashMap::from([(name.clone(), addresses.to_vec()), (literal.clone(), vec![two])])
    };
    let second = first.with_resolved(&found(&[one, two])).expect("a change");
    assert_eq!(second.version, 2);
    assert_eq!(only(&second, 1).resolved, [one, two]);
    assert_eq!(only(&second, 2).resolved, [socket("10.0.0.1:3306")]);
    assert!(Arc::ptr_eq(&only(&first, 1).health, &only(&second, 1).health));
    assert!(Arc::ptr_eq(only(&first, 2), only(&second, 2)));
    assert!(second.with_resolved(&found(&[two, one])).is_none());
    assert!(second.with_resolved(&found(&[])).is_none());
    assert!(second.with_resolved(&HashMap::new()).is_none());
    // A new entry of a known name need not wait for the next resolution.
    let third = with(&[(1, "a", ""), (3, "a", "")], "").snapshot(Some(&second));
    assert_eq!(only(&third, 3).resolved, [one, two]);
    assert_eq!(third.version, 3);
}

#[test]
fn rules_stay_the_same_set_until_one_changes() {
    let rule = |more: &str| format!("[[rule]]\nid=1\nmatch_digest='x'\n{more}");
    let first = with(&[(1, "a", "")], &rule("")).snapshot(None);
    let second = with(&[(1, "a", "weight=3")], &rule("")).snapshot(Some(&first));
    assert!(Arc::ptr_eq(&first.rules, &second.rules));
    let third = with(&[(1, "a", "")], &rule("apply=true")).snapshot(Some(&second));
    assert!(!Arc::ptr_eq(&second.rules, &third.rules));
}

#[test]
fn iterations_make_another_rule_set() {
    let first = with(&[(1, "a", "")], "").snapshot(None);
    let second = with(&[(1, "a", "")], "query_processor_iterations=2").snapshot(Some(&first));
    assert!(!Arc::ptr_eq(&first.rules, &second.rules));
}

#[test]
fn what_needs_a_restart_keeps_its_running_value() {
    let first = with(&[(1, "a", "")], "workers=2\nwait_timeout=5").snapshot(None);
    let second = with(&[(1, "a", "")], "workers=4\nwait_timeout=6").snapshot(Some(&first));
    assert_eq!((second.settings.workers, second.settings.wait_timeout), (2, 6));
    assert_eq!(second.config.settings.workers, 4);
}

#[test]
fn servers_of_the_proxys_own_zone_and_of_none_are_near() {
    let with = |own: &str| {
        let text = format!(
            "zone = '{own}'\n[[server]]\naddress = 'a:1'\nzone = 'east'\n\
             [[server]]\naddress = 'b:1'\nzone = 'west'\nrank = 3\n[[server]]\naddress = 'c:1'\n\
             [[user]]\nname = 'u'\npassword = 'p'"
        );
        let snapshot = Snapshot::build(config(&text), None);
        snapshot.servers().map(|server| (server.is_near, server.rank)).collect::<Vec<_>>()
    };
    assert_eq!(with("east"), [(true, 0), (false, 3), (true, 0)]);
    assert_eq!(with(""), [(true, 0), (true, 3), (true, 0)]);
}
