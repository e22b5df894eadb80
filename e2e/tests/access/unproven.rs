//! Passwords for servers without TLS: only to a public key that is known.

use anyhow::{Context, Result, ensure};

use crate::backends::{self, Config, PASSWORD, TIMEOUT};
use crate::wire::Wire;

#[test]
fn without_the_servers_key_no_password_goes_out_in_the_open() -> Result<()> {
    let name = "unproven";
    let Some(server) = backends::mysql(name)? else { return Ok(()) };
    backends::account(server, name)?;
    let keys =
        |keys: &str| Config::new(&format!("server_public_key = '''{keys}'''"), server).user(name);
    // What the server remembers of the password is gone, as after a restart: it asks for all of it.
    server.sql("FLUSH PRIVILEGES")?;
    let proxy = keys("").start()?;
    let mut client = Wire::login(&proxy, name, PASSWORD, "")?;
    let error = client.fails("SELECT 5")?;
    assert_eq!(error.code, 2061, "{error:?}");
    for part in ["caching_sha2_password", "server_public_key", "use TLS"] {
        ensure!(error.text.contains(part), "{error:?}");
    }

    // Another server's key is none for this one.
    let own = "SHOW STATUS LIKE 'Caching_sha2_password_rsa_public_key'";
    let rows = server.sql(own)?;
    let own = rows.first().and_then(|row| row.get(1).cloned().flatten());
    let own = own.context("the server has no key")?;
    let other = own.replacen("AQEA", "AQEB", 1);
    ensure!(own != other, "{own}");
    let mark = proxy.reload(keys(&other).text())?;
    proxy.wait_log(mark, "in force", TIMEOUT)?;
    let error = client.fails("SELECT 5")?;
    ensure!(error.code == 2061 && error.text.contains("that it sent"), "{error:?}");

    let mark = proxy.reload(keys(&own).text())?;
    proxy.wait_log(mark, "in force", TIMEOUT)?;
    assert_eq!(client.value("SELECT 5")?.as_deref(), Some("5"));

    // The server remembers the account now: no key is needed.
    let quick = keys("").start()?;
    let mut client = Wire::login(&quick, name, PASSWORD, "")?;
    assert_eq!(client.value("SELECT 5")?.as_deref(), Some("5"));
    Ok(())
}
