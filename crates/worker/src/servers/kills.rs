//! What connections know of `KILL`s on their way.

use trunkline_pool::ConnId;

use crate::{effects::Wake, rooms::Core};

impl Core {
    /// Something before the statement on this connection has been answered: a `KILL` that waited
    /// for it goes out when this event is over.
    pub(crate) fn kills_go_on(&mut self, target: ConnId) {
        if !self.servers.kills.commands.is_empty() {
            self.fx.wake(Wake::KillsWait(target));
        }
    }

    /// A connection that may carry `KILL`s has ended, after the kernel took so many bytes for it.
    /// What was sent may still arrive: what it is to hit goes to no other session. What becomes of
    /// the others is found when this event is over.
    pub(crate) fn kill_carrier_lost(&mut self, via: ConnId, written: u64, reason: &str) {
        let carried = self.servers.kills.commands.iter().filter(|command| command.via == via);
        let carried: Vec<_> =
            carried.map(|command| (command.id, command.target, command.sent_at)).collect();
        for (id, target, sent_at) in carried {
            let was_sent = sent_at.is_some_and(|at| written > at);
            if was_sent && let Some(conn) = self.servers.conns.get_mut(target) {
                conn.holder.close_on_release = true;
            }
            let may_go_again = !was_sent && sent_at.is_some();
            let text = format!("the KILL did not reach the server: {reason}");
            self.fx.wake(Wake::KillLost { id, via, may_go_again, text });
        }
    }
}
