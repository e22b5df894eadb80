//! Lists of who may connect, and limits for each address.

use anyhow::{Result, ensure};
use trunkline_session::backend::ServerHandshake;
use trunkline_testkit::{Trunkline, wait_until};

use super::{behind, enter, from};
use crate::backends::{self, Config, PASSWORD, TIMEOUT};
use crate::wire::{Endpoint, MODERN, Refused, Wire, login, refused};

/// Any client of the loopback network may say where it comes from.
const TRUSTED: &str = "proxy_protocol_networks = [\"127.0.0.0/8\"]";

fn refusals(proxy: &Trunkline, cause: &str, expected: f64) -> Result<()> {
    let labels = format!("cause=\"{cause}\"");
    let name = "trunkline_client_refusals_total";
    backends::wait_metric(proxy, name, &labels, |count| (count - expected).abs() < 0.5)?;
    Ok(())
}

#[test]
fn users_come_from_where_they_may() -> Result<()> {
    let Some(server) = backends::mariadb("users_come_from")? else { return Ok(()) };
    for name in ["netted", "socketed"] {
        backends::account(server, name)?;
    }
    let password = format!("password = \"{}\"", PASSWORD.replace('\\', "\\\\"));
    let listed = |list: &str| format!("{password}\nallow_from = {list}");
    let proxy = Config::new(TRUSTED, server)
        .user_with("netted", &listed("[\"192.0.2.0/24\", \"2001:db8::/32\"]"))
        .user_with("socketed", &listed("\"localhost\""))
        .start()?;
    assert_eq!(enter(&proxy, "netted", "192.0.2.7")?.value("SELECT 5")?.as_deref(), Some("5"));
    let six = b"PROXY TCP6 2001:db8::7 ::1 1 2\r\n";
    assert!(behind(&proxy, six, "netted", PASSWORD).is_ok());

    // From elsewhere it is told what an unknown user is told.
    let refused_there = refused(enter(&proxy, "netted", "192.0.3.7"))?;
    let stranger = refused(enter(&proxy, "nobody", "192.0.3.7"))?;
    let text = "Access denied for user 'netted'@'192.0.3.7' (using password: YES)";
    assert_eq!(refused_there.parts(), (1045, "28000", text));
    assert_eq!(refused_there.text.replace("netted", "nobody"), stranger.text);
    let socket = || Endpoint::Unix(proxy.socket());
    assert_eq!(refused(Wire::login(socket(), "netted", PASSWORD, ""))?.code, 1045);
    assert_eq!(refused(Wire::login(&proxy, "socketed", PASSWORD, ""))?.code, 1045);
    let mut client = Wire::login(socket(), "socketed", PASSWORD, "")?;
    // Nor does it become the user by a change.
    let error = refused(client.change_user("netted", PASSWORD, "").map(|()| client))?;
    assert_eq!(error.code, 1045);
    Ok(())
}

#[test]
fn a_listener_takes_whom_it_names() -> Result<()> {
    let Some(server) = backends::mariadb("a_listener_takes")? else { return Ok(()) };
    backends::account(server, "listened")?;
    let config = Config::new("", server).user("listened");
    let proxy = config.start()?;
    let listener = format!("127.0.0.1:{}", proxy.port());
    let running = std::fs::read_to_string(proxy.config_file())?;
    let reload = |lines: &str| -> Result<()> {
        let mark = proxy.reload(&format!("{lines}\n{running}"))?;
        proxy.wait_log(mark, "in force", TIMEOUT)?;
        Ok(())
    };
    reload(&format!("listen_allow = [\"{listener}=192.0.2.0/24\"]"))?;
    let error = refused(Wire::login(&proxy, "listened", PASSWORD, ""))?;
    let text = "Host '127.0.0.1' is not allowed to connect to this server";
    assert_eq!((error.code, &*error.text), (1130, text));
    assert!(Wire::login(Endpoint::Unix(proxy.socket()), "listened", PASSWORD, "").is_ok());
    refusals(&proxy, "address_not_allowed", 1.0)?;

    // Behind a balancer it is its clients' addresses that count.
    reload(&format!("{TRUSTED}\nlisten_allow = [\"{listener}=192.0.2.0/24\"]"))?;
    assert!(enter(&proxy, "listened", "192.0.2.7").is_ok());
    let error = refused(enter(&proxy, "listened", "192.0.3.7"))?;
    assert_eq!((error.code, error.text.contains("192.0.3.7")), (1130, true));
    assert_eq!(refused(Wire::login(&proxy, "listened", PASSWORD, ""))?.code, 1130);
    Ok(())
}

#[test]
fn an_address_has_so_many_connections() -> Result<()> {
    let Some(server) = backends::mariadb("an_address_has")? else { return Ok(()) };
    backends::account(server, "crowded")?;
    let settings = format!("{TRUSTED}\nmax_connections_per_address = 2");
    let proxy = Config::new(&settings, server).user("crowded").start()?;
    let one = enter(&proxy, "crowded", "192.0.2.7")?;
    let mut two = enter(&proxy, "crowded", "192.0.2.7")?;
    let error = refused(enter(&proxy, "crowded", "192.0.2.7"))?;
    assert_eq!(error.parts(), (1040, "08004", "Too many connections"));
    let mut other = enter(&proxy, "crowded", "192.0.2.8")?;
    drop(one);
    let again = || Ok(enter(&proxy, "crowded", "192.0.2.7").ok());
    let mut three = wait_until("a place for the address", TIMEOUT, again)?;
    for client in [&mut two, &mut other, &mut three] {
        assert_eq!(client.value("SELECT 5")?.as_deref(), Some("5"));
    }
    // Unix sockets have no address.
    for _ in 0..3 {
        assert!(Wire::login(Endpoint::Unix(proxy.socket()), "crowded", PASSWORD, "").is_ok());
    }
    Ok(())
}

#[test]
fn failed_logins_are_one_names_and_one_addresss() -> Result<()> {
    let Some(server) = backends::mariadb("failed_logins_are")? else { return Ok(()) };
    for user in ["guessed", "neighbour"] {
        backends::account(server, user)?;
    }
    let settings = format!("{TRUSTED}\nfailed_logins_max = 3\nfailed_login_delay = 60000");
    let proxy = Config::new(&settings, server).user("guessed").user("neighbour").start()?;
    let guess = |user: &str| {
        let error = refused(behind(&proxy, &from("192.0.2.7"), user, "wrong"))?;
        anyhow::Ok(error.code)
    };
    // Connected before, and not logged in yet: that is no way to go on guessing.
    let mut early = Wire::open(&proxy)?;
    early.send_raw(&from("192.0.2.7"))?;
    // A success of somebody else forgives nothing; unknown users have a row as well.
    for user in ["guessed", "nobody"] {
        assert_eq!((guess(user)?, guess(user)?), (1045, 1045));
        assert!(enter(&proxy, "neighbour", "192.0.2.7").is_ok());
        assert_eq!((guess(user)?, guess(user)?), (1045, 1129));
    }
    let wanted = login("guessed", PASSWORD, "", MODERN);
    let attempt = early.shake(ServerHandshake::new(wanted), Vec::new()).map(|()| early);
    assert_eq!(refused(attempt)?.code, 1129);
    let error = refused(enter(&proxy, "guessed", "192.0.2.7"))?;
    let text = "Host '192.0.2.7' is blocked because of many failed logins as 'guessed'; try again";
    assert!(error.code == 1129 && error.text.starts_with(text), "{error:?}");
    assert!(enter(&proxy, "guessed", "192.0.2.8").is_ok());
    assert!(enter(&proxy, "neighbour", "192.0.2.7").is_ok());
    refusals(&proxy, "address_blocked", 4.0)?;
    assert_eq!(proxy.metric("trunkline_failed_login_blocks_total", "")?, Some(2.0));
    Ok(())
}

#[test]
fn a_change_of_user_is_a_login() -> Result<()> {
    let Some(server) = backends::mariadb("a_change_of_user_is")? else { return Ok(()) };
    for user in ["limit_changer", "limit_changed_to"] {
        backends::account(server, user)?;
    }
    let settings = "failed_logins_max = 2\nfailed_login_delay = 60000";
    let proxy =
        Config::new(settings, server).user("limit_changer").user("limit_changed_to").start()?;
    let mut client = Wire::login(&proxy, "limit_changer", PASSWORD, "")?;
    let changed = |client: &mut Wire, password: &str| {
        let error = client.change_user("limit_changed_to", password, "").err();
        error.and_then(|error| error.downcast::<Refused>().ok()).map(|refused| refused.0.code)
    };
    // As with MariaDB it stays who it was, so long as it may guess.
    for _ in 0..2 {
        assert_eq!(changed(&mut client, "wrong"), Some(1045));
        assert_eq!(client.value("SELECT 5")?.as_deref(), Some("5"));
    }
    assert_eq!(changed(&mut client, PASSWORD), Some(1129));
    ensure!(client.is_closed()?);
    assert_eq!(refused(Wire::login(&proxy, "limit_changed_to", PASSWORD, ""))?.code, 1129);
    let mut again = Wire::login(&proxy, "limit_changer", PASSWORD, "")?;
    assert_eq!(again.value("SELECT 5")?.as_deref(), Some("5"));
    Ok(())
}

#[test]
fn silent_connections_shut_nobody_out() -> Result<()> {
    let name = "half_open";
    let Some(server) = backends::mariadb(name)? else { return Ok(()) };
    let settings = "max_connections = 5\nhalf_open_max = 40\nhalf_open_per_address_max = 20";
    let proxy = backends::proxy_for(server, name, settings)?;
    let mark = proxy.log_mark();
    let silent: Vec<_> = (0..200)
        .map(|_| std::net::TcpStream::connect(("127.0.0.1", proxy.port())))
        .collect::<std::io::Result<_>>()?;
    let mut client = Wire::login(&proxy, name, PASSWORD, "")?;
    assert_eq!(client.value("SELECT 5")?.as_deref(), Some("5"));
    let closed = |count: f64| count >= 160.0;
    let labels = "cause=\"half_open\"";
    backends::wait_metric(&proxy, "trunkline_client_refusals_total", labels, closed)?;
    backends::wait_metric(&proxy, "trunkline_clients_half_open", "", |count| count <= 40.0)?;
    proxy.wait_log(mark, "(half_open_max, half_open_per_address_max)", TIMEOUT)?;
    drop(silent);
    Ok(())
}
