//! What the browser meets: a primary, two replicas, the proxy before them, clients that work, one
//! that holds a connection, and names that would like to be scripts.

use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use trunkline_testkit::{AuthPlugin, Replication, Signal, SqlClient, Trunkline, free_port};

use crate::demo::{SCHEMA, Traffic, USER};

/// The account that switches over.
const SWITCHER: &str = "switcher";
/// A name that would be a script, if anything took it for one.
const HOSTILE: &str = "<img src=x onerror=window.pwned=1>";
/// How long the replicas may take.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(60);

const ORDERS: &str = "CREATE TABLE orders (id INT AUTO_INCREMENT PRIMARY KEY, item VARCHAR(40), \
    amount INT, written_by INT)";

/// Everything that runs.
pub struct Stage {
    // In this order: clients end first, then the proxy, then the servers.
    traffic: Mutex<Option<Traffic>>,
    holder: Mutex<Option<SqlClient>>,
    proxy: Trunkline,
    console_port: u16,
    _replication: Replication,
}

impl Stage {
    /// Starts it.
    pub fn start(binary: &Path) -> Result<Stage> {
        let replication = Replication::mariadb(2)?;
        let primary = replication.primary();
        primary.create_user(USER, USER, AuthPlugin::Native)?;
        primary.create_user(HOSTILE, "hostile", AuthPlugin::Native)?;
        primary.sql(&format!(
            "CREATE USER {SWITCHER} IDENTIFIED BY '{SWITCHER}'; \
             GRANT PROCESS, RELOAD, CONNECTION ADMIN, READ_ONLY ADMIN, REPLICATION SLAVE ADMIN, \
             REPLICATION MASTER ADMIN, SLAVE MONITOR ON *.* TO {SWITCHER}; \
             GRANT SELECT ON mysql.* TO {SWITCHER}; CREATE DATABASE {SCHEMA}; USE {SCHEMA}; {ORDERS}; \
             INSERT INTO orders (item, amount) SELECT concat('line ', seq), seq FROM seq_1_to_1000"
        ))?;
        replication.wait_caught_up(CATCH_UP_TIMEOUT)?;
        let console_port = free_port()?;
        let config = config(&replication, console_port);
        let proxy = Trunkline::start_database_binary(binary, &config)?;
        let stage = Stage {
            traffic: Mutex::new(Some(Traffic::start(proxy.port()))),
            holder: Mutex::default(),
            proxy,
            console_port,
            _replication: replication,
        };
        stage.hold()?;
        stage.be_hostile()?;
        Ok(stage)
    }

    /// Where the console is.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.console_port)
    }

    /// What the proxy has said.
    pub fn log(&self) -> String {
        self.proxy.log()
    }

    /// Does what the test asks for; what came of it.
    pub fn obey(&self, order: &str) -> Result<String> {
        match order {
            "digests" => self.many_digests().map(|()| "done".to_owned()),
            "holder" => self.has_holder(),
            "restart" => {
                // What was loaded is to be there again.
                self.proxy.kill_and_restart(&[])?;
                Ok("done".to_owned())
            }
            "freeze" => self.proxy.signal(Signal::Stop).map(|()| "done".to_owned()),
            "thaw" => self.proxy.signal(Signal::Continue).map(|()| "done".to_owned()),
            _ => bail!("there is no such order"),
        }
    }

    /// Ends it all.
    pub fn stop(self) -> Result<()> {
        drop(self.traffic);
        drop(self.holder);
        self.proxy.terminate(Duration::from_secs(40)).context("the proxy does not stop")?;
        Ok(())
    }

    /// A client that holds a lock and a transaction on its connection.
    fn hold(&self) -> Result<()> {
        let mut client = self.proxy.connect(USER, USER, SCHEMA)?;
        client.sql("START TRANSACTION")?;
        client.sql("SELECT GET_LOCK('till', 1)")?;
        *self.holder.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(client);
        Ok(())
    }

    /// Whether that client is still connected.
    fn has_holder(&self) -> Result<String> {
        let mut holder = self.holder.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let client = holder.as_mut().context("there is none")?;
        Ok(if client.sql("SELECT 1").is_ok() { "connected" } else { "gone" }.to_owned())
    }

    /// Names of users, columns, tables and rules that would be scripts.
    fn be_hostile(&self) -> Result<()> {
        let mut client = self.proxy.connect(HOSTILE, "hostile", SCHEMA)?;
        client.sql(&format!("SELECT id AS `{HOSTILE}` FROM orders WHERE id = 1"))?;
        client
            .sql("SELECT id AS `</script><script>window.pwned=1</script>` FROM orders LIMIT 1")?;
        // It fails, which is told too.
        drop(client.sql(&format!("SELECT * FROM `{HOSTILE}`")));
        Ok(())
    }

    fn many_digests(&self) -> Result<()> {
        let mut client = self.proxy.connect(USER, USER, SCHEMA)?;
        for number in 0..10_000 {
            client.sql(&format!("SELECT id AS c{number} FROM orders WHERE id = 1"))?;
        }
        Ok(())
    }
}

fn config(replication: &Replication, console_port: u16) -> String {
    let servers = std::iter::once(replication.primary()).chain(replication.replicas());
    let seeds: Vec<String> = servers.map(|it| format!("\"{}\"", it.address())).collect();
    let inactive = |name: &str| {
        format!(
            "[[user]]\nname = \"{name}\"\npassword = \"{name}\"\nactive = false\n\
             default_hostgroup = 10\n"
        )
    };
    format!(
        "workers = 2\nadmin_operate_credentials = \"operator:operator\"\nconsole_listen = \"127.0.0.1:{console_port}\"\n\
         monitor_read_only_interval = 200\nmonitor_account = \"{SWITCHER}\"\n\
         switchover_account = \"{SWITCHER}\"\nreplication_account = \"replica\"\n\
         query_cache_size_mb = 16\ntenant_by = \"user\"\n\
         [[tenant]]\nname = \"{USER}\"\nweight = 4\nshare_min = 10\nshare_max = 90\n\
         [[cluster]]\nname = \"shop\"\nkind = \"replication\"\nwriter_hostgroup = 10\n\
         reader_hostgroup = 20\nread_write_split = \"auto\"\nseeds = [{}]\n\
         [[user]]\nname = \"{USER}\"\npassword = \"{USER}\"\ndefault_hostgroup = 10\n\
         [[user]]\nname = \"{HOSTILE}\"\npassword = \"hostile\"\ndefault_hostgroup = 10\n{}{}\
         [[rule]]\nid = 10\nmatch_digest = \"^SELECT .* FOR UPDATE\"\ndestination_hostgroup = 10\n\
         apply = true\ncomment = \"locking reads go to the writer\"\n\
         [[rule]]\nid = 20\nmatch_digest = \"^DELETE FROM orders\"\ntimeout = 2000\n\
         comment = \"housekeeping must not take long\"\n\
         [[rule]]\nid = 30\nusername = \"report\"\ndestination_hostgroup = 20\napply = true\n\
         [[rule]]\nid = 40\nmatch_digest = \"DROP TABLE\"\nerror_msg = \"not here\"\napply = true\n\
         comment = \"{HOSTILE}\"\n",
        seeds.join(", "),
        inactive(SWITCHER),
        inactive("replica"),
    )
}
