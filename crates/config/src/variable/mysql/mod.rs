//! Variables `mysql-…`: what ProxySQL has, and what becomes of each here.

mod clients;

mod servers;

mod statements;

mod logs;

use super::Variable;

/// The parts of the table.
pub(super) const PARTS: [&[Variable]; 4] =
    [clients::VARIABLES, servers::VARIABLES, statements::VARIABLES, logs::VARIABLES];
