//! A group of MySQL servers by Group Replication, with a single primary.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use crate::mysql::MySql;
use crate::port::free_port;
use crate::server::{Options, Server};
use crate::wait::wait_until;

/// The group's name.
const NAME: &str = "6f9f3b0a-7d6e-4f57-9a59-5b5f1c0d9c11";
/// How long the members may take to find each other.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(60);

/// Members of a group.
#[derive(Debug)]
pub struct Group {
    members: Vec<Arc<Server>>,
}

impl Group {
    /// Starts so many members (server id 1, 2, …); the first one is the primary.
    ///
    /// # Errors
    /// When one does not start or join; with its log.
    pub fn start(members: u32) -> Result<Group> {
        let ports = (0..members).map(|_| free_port()).collect::<Result<Vec<u16>>>()?;
        let seeds: Vec<_> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let seeds = seeds.join(",");
        let start = |id: u32, port: u16| {
            let args = [
                "--performance-schema=ON".to_owned(),
                "--plugin-load-add=group_replication.so".to_owned(),
                format!("--loose-group_replication_group_name={NAME}"),
                format!("--loose-group_replication_local_address=127.0.0.1:{port}"),
                format!("--loose-group_replication_group_seeds={seeds}"),
                "--loose-group_replication_start_on_boot=OFF".to_owned(),
                "--loose-group_replication_recovery_get_public_key=ON".to_owned(),
                "--loose-group_replication_member_expel_timeout=0".to_owned(),
                "--loose-group_replication_unreachable_majority_timeout=5".to_owned(),
            ];
            let server = MySql::start(Options { args: args.into(), ..Options::id(id) })?;
            server.sql(
                "SET sql_log_bin = 0;
                 CREATE USER recovery@'%' IDENTIFIED BY 'recovery';
                 GRANT REPLICATION SLAVE, BACKUP_ADMIN, CONNECTION_ADMIN,
                     GROUP_REPLICATION_STREAM ON *.* TO recovery@'%';
                 SET sql_log_bin = 1;
                 CHANGE REPLICATION SOURCE TO SOURCE_USER = 'recovery',
                     SOURCE_PASSWORD = 'recovery' FOR CHANNEL 'group_replication_recovery'",
            )?;
            Ok(Arc::new(server))
        };
        let started: Vec<Result<Arc<Server>>> = std::thread::scope(|scope| {
            let start = &start;
            let threads: Vec<_> =
                (1..).zip(&ports).map(|(id, port)| scope.spawn(move || start(id, *port))).collect();
            let end = |thread: std::thread::ScopedJoinHandle<'_, Result<Arc<Server>>>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            threads.into_iter().map(end).collect()
        });
        let group = Group { members: started.into_iter().collect::<Result<Vec<_>>>()? };
        for (place, member) in group.members.iter().enumerate() {
            member.sql(match place {
                0 => {
                    "SET GLOBAL group_replication_bootstrap_group = ON; START GROUP_REPLICATION;
                     SET GLOBAL group_replication_bootstrap_group = OFF"
                }
                _ => "RESET BINARY LOGS AND GTIDS; START GROUP_REPLICATION",
            })?;
        }
        wait_until("all members to be online", BEGIN_TIMEOUT, || {
            let online = "SELECT COUNT(*) FROM performance_schema.replication_group_members
                          WHERE MEMBER_STATE = 'ONLINE'";
            let counts = group.members.iter().map(|member| member.value(online));
            let counts = counts.collect::<Result<Vec<_>>>()?;
            let all = Some(members.to_string());
            Ok(counts.into_iter().all(|count| count == all).then_some(()))
        })?;
        Ok(group)
    }

    /// Its members.
    #[must_use]
    pub fn members(&self) -> &[Arc<Server>] {
        &self.members
    }
}
