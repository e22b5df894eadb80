//! What servers are asked of the replication from their sources: one question, whoever asks.

use trunkline_protocol::packet::greeting::Flavor;

use crate::{
    LearnError,
    conversation::{Answer, Conversation},
};

/// All sources of a MariaDB replica.
const MARIADB: &str = "SHOW ALL SLAVES STATUS";
/// All channels of a MySQL replica, 8.0.22 and later.
const MYSQL: &str = "SHOW REPLICA STATUS";
/// All channels of a MySQL replica before 8.0.22.
const OLDER_MYSQL: &str = "SHOW SLAVE STATUS";

/// Asks a server from whom it replicates: a row for each source, in columns whose names differ
/// between versions.
pub(crate) async fn ask_for_sources(
    conversation: &mut Conversation,
    flavor: Flavor,
    len_max: usize,
) -> Result<Answer, LearnError> {
    let asked = match flavor {
        Flavor::MariaDb => return conversation.ask(MARIADB, len_max).await,
        Flavor::MySql => conversation.ask(MYSQL, len_max).await,
    };
    match asked {
        Err(error) if error.to_string().starts_with("error 1064") => {
            conversation.ask(OLDER_MYSQL, len_max).await
        }
        answered => answered,
    }
}
