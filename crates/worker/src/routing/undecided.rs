//! What is told of rules whose patterns can't be decided: their search takes too many steps.

use trunkline_rules::{Decision, RuleSet};

use crate::effects::Effects;

/// A line of the log tells of so much time, ms.
const TELL_EVERY_MS: u64 = 1_000;

/// What has not been told yet.
#[derive(Debug, Default)]
pub(super) struct Undecided {
    /// When it was told last; 0 before the first time.
    told_ms: u64,
    /// Statements since then.
    untold: u64,
}

impl Undecided {
    /// A decision left rules undecided.
    #[cold]
    pub(super) fn tell(
        &mut self,
        fx: &mut Effects,
        now_ms: u64,
        rules: &RuleSet,
        decision: &Decision,
        text: &[u8],
    ) {
        fx.stats.counters.statements_undecided += 1;
        self.untold += 1;
        let is_due = self.told_ms == 0 || now_ms.saturating_sub(self.told_ms) >= TELL_EVERY_MS;
        let first = decision.undecided().first().and_then(|at| rules.rule_id(*at as usize));
        let Some(rule) = first.filter(|_| is_due) else {
            return;
        };
        let others = std::mem::take(&mut self.untold) - 1;
        self.told_ms = now_ms;
        fx.log(true, || {
            let counts_as = match rules.protects(rule) {
                true => "a match, since it protects",
                false => "none",
            };
            format!(
                "rule {rule}: a search for its pattern took too many steps in a statement of {} \
                 bytes, which counts as {counts_as}; {others} more such statements since this was \
                 said last (trunkline_rule_undecided_total)",
                text.len()
            )
        });
    }
}

#[cfg(test)]
mod tests {
    use trunkline_stats::DigestQuery;

    use crate::tests::{Reply, TWO_SERVERS, TestWorker};

    const RULES: &str = r#"
        [[rule]]
        id = 7
        match_pattern = "^(a|b|ab)*\\1c$"
        error_msg = "no"
        [[rule]]
        id = 8
        match_pattern = "^(b|a|ab)*\\1c$"
    "#;

    #[test]
    fn what_could_not_be_decided_is_denied_counted_and_told_once_a_second() {
        let mut world = TestWorker::with(&format!("{TWO_SERVERS}{RULES}"));
        let client = world.log_in();
        world.logged();
        let text = format!("{}d", "ab".repeat(30));
        for _ in 0..3 {
            assert_eq!(world.answered(client, &text), "error 1148: no");
        }
        let lines = world.logged();
        let told: Vec<_> = lines.iter().filter(|line| line.starts_with("rule 7: ")).collect();
        assert_eq!(told.len(), 1, "{lines:?}");
        assert!(
            told[0].contains("in a statement of 61 bytes, which counts as a match"),
            "{told:?}"
        );
        world.pass_ms(1_000);
        world.answered(client, &text);
        let lines = world.logged();
        assert!(lines.iter().any(|line| line.contains("; 2 more such statements")), "{lines:?}");
        assert_eq!(world.core().fx.stats.counters.statements_undecided, 4);
        let report = world.worker.report(DigestQuery::NONE);
        assert_eq!(report.rule_undecided.get(&7), Some(&4));
        assert_eq!(report.rule_hits.get(&7), Some(&4));
        assert_eq!(world.run(client, "SELECT 1", Reply::Rows(&["1"])), "rows 1");
    }
}
