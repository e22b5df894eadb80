//! Which sessions a busy worker gives to a less busy one.

use crate::ClientId;

/// Sessions that one worker gives away in one second.
const SESSIONS_MAX: usize = 16;
/// A worker that has served fewer commands in a second is not busy.
const COMMANDS_MIN: u64 = 10;

/// A session that may move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Candidate {
    /// Its commands of the last second.
    pub(crate) commands: u32,
    pub(crate) id: ClientId,
    /// The worker that it came to first: it moves away from there, or back.
    pub(crate) home: usize,
}

/// Sessions to be moved, each when it rests.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) to: usize,
    pub(crate) sessions: Vec<ClientId>,
}

/// Decides for worker `own`. `loads` are commands of the last second by worker, `threshold` is how
/// many percent above the average a worker has to be before it gives any away, and `sessions` are
/// its own with theirs.
///
/// What it gives never makes the other one busier than the average, so that nothing comes back.
pub(crate) fn plan(
    own: usize,
    loads: &[u64],
    threshold: u64,
    sessions: &mut [Candidate],
) -> Option<Plan> {
    let load = *loads.get(own)?;
    let workers = u64::try_from(loads.len()).ok()?;
    let average = loads.iter().sum::<u64>().checked_div(workers)?;
    let limit = average.saturating_mul(100_u64.saturating_add(threshold)) / 100;
    if load < COMMANDS_MIN || load <= limit {
        return None;
    }
    let (to, least) = loads.iter().enumerate().min_by_key(|(_, load)| **load)?;
    let room = average.saturating_sub(*least).min(load.saturating_sub(average));
    // Others may see the same one as the least busy.
    let mut room = if loads.len() > 2 { room.div_ceil(2) } else { room };
    sessions.sort_unstable_by(|a, b| b.cmp(a));
    let mut chosen = Vec::new();
    for session in sessions.iter() {
        let commands = u64::from(session.commands);
        let may_go = session.home == own || session.home == to;
        if may_go && commands > 0 && commands <= room && chosen.len() < SESSIONS_MAX {
            room -= commands;
            chosen.push(session.id);
        }
    }
    (!chosen.is_empty()).then_some(Plan { to, sessions: chosen })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(index: u32) -> ClientId {
        ClientId { index, generation: 1 }
    }

    fn candidates(home: usize, commands: &[u32]) -> Vec<Candidate> {
        let sessions = (0..).zip(commands);
        sessions
            .map(|(index, commands)| Candidate { commands: *commands, id: id(index), home })
            .collect()
    }

    fn planned(own: usize, loads: &[u64], commands: &[u32]) -> Option<(usize, Vec<u32>)> {
        let plan = plan(own, loads, 20, &mut candidates(own, commands))?;
        Some((plan.to, plan.sessions.iter().map(|id| id.index).collect()))
    }

    #[test]
    fn only_the_clearly_busier_one_gives() {
        assert_eq!(planned(0, &[600, 400], &[100; 6]), None, "exactly 20 % above");
        assert_eq!(planned(1, &[1_000, 0], &[]), None);
        assert_eq!(planned(0, &[9, 0], &[4, 5]), None, "nobody is busy");
        assert_eq!(planned(0, &[1_000], &[500, 500]), None, "there is nobody else");
    }

    #[test]
    fn what_is_given_makes_nobody_busier_than_the_average() {
        assert_eq!(planned(0, &[1_000, 0], &[250; 4]), Some((1, vec![3, 2])));
        assert_eq!(planned(0, &[1_000, 0], &[900, 60, 40, 0]), Some((1, vec![1, 2])));
        assert_eq!(planned(0, &[1_000, 0], &[1_000, 0]), None, "one session can't be halved");
        assert_eq!(planned(1, &[300, 900, 300], &[300; 3]), None, "half of 200 is too little");
        assert_eq!(planned(1, &[300, 900, 300], &[90; 10]).expect("plan").1.len(), 1);
    }

    #[test]
    fn workers_come_within_the_threshold_and_stay_there() {
        let mut workers: Vec<Vec<u32>> = vec![vec![100; 32], vec![100; 4], vec![], vec![100; 12]];
        for _ in 0..40 {
            let loads: Vec<u64> =
                workers.iter().map(|it| it.iter().map(|n| u64::from(*n)).sum()).collect();
            let mut moves = 0;
            for own in 0..workers.len() {
                let mut sessions = candidates(own, &workers[own]);
                let Some(plan) = plan(own, &loads, 20, &mut sessions) else {
                    continue;
                };
                for _ in &plan.sessions {
                    moves += 1;
                    let session = workers[own].pop().expect("a session");
                    workers[plan.to].push(session);
                }
            }
            if moves == 0 {
                let counts: Vec<usize> = workers.iter().map(Vec::len).collect();
                assert!(counts.iter().all(|count| (10..=14).contains(count)), "{counts:?}");
                return;
            }
        }
        panic!("sessions move for ever: {workers:?}");
    }

    #[test]
    fn who_is_away_goes_home_or_nowhere() {
        let mut sessions = candidates(2, &[100; 4]);
        assert_eq!(plan(1, &[0, 600, 600], 20, &mut sessions), None);
        assert!(plan(1, &[600, 600, 0], 20, &mut sessions).is_some());
    }
}
