//! From a question to a decision.

use crate::{
    Column, Decision, Hits, Outcome, Question, RuleSet, Visit,
    compile::{Compiled, Effects, Inner},
    pattern::Pattern,
    prefilter::{PatternTest, SetResults},
};

/// What one evaluation leaves behind for the next to reuse.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    sets: SetResults,
    depends_on_text: bool,
}

impl RuleSet {
    /// Decides about one statement and counts the rules that matched.
    ///
    /// [`crate::Memory::decide`] does the same, and remembers.
    pub fn evaluate(&self, question: &Question<'_>, hits: &mut Hits) -> Decision {
        let mut decision = Decision::default();
        self.inner.evaluate(question, &mut Scratch::default(), &mut decision);
        hits.add(&decision.matched);
        decision
    }

    /// What each rule has to do with `question`, in the order of the evaluation and up to the
    /// rule that ends it; for people. Visits every rule, so its cost grows with their number.
    pub fn explain(&self, question: &Question<'_>) -> Vec<Visit> {
        let mut visits = Vec::new();
        let mut scratch = Scratch::default();
        let (mut flag, mut restarts, mut position) = (question.flag, self.inner.iterations, 0);
        while let Some(rule) = self.inner.rules.get(position) {
            position += 1;
            let failed = match rule.flag_in == flag {
                true => self.inner.first_failed(rule, question, &mut scratch),
                false => Some(Column::FlagIn),
            };
            let outcome = failed.map_or(Outcome::Matched, Outcome::FirstFailed);
            visits.push(Visit { rule_id: rule.id, flag, outcome });
            if failed.is_some() {
                continue;
            }
            if let Some(next) = rule.flag_out {
                flag = next;
                if restarts > 0 && !rule.is_last {
                    restarts -= 1;
                    position = 0;
                }
            }
            if rule.is_last {
                break;
            }
        }
        visits
    }
}

impl Inner {
    /// HOT: allocates only while `scratch` and `decision` grow, and when a set of patterns is
    /// searched.
    pub(crate) fn evaluate(
        &self,
        question: &Question<'_>,
        scratch: &mut Scratch,
        decision: &mut Decision,
    ) {
        decision.restart(question.flag);
        scratch.sets.clear();
        scratch.depends_on_text = false;
        let mut restarts = self.iterations;
        let mut candidates = self.index.candidates(question, question.flag, 0);
        while let Some(position) = candidates.next() {
            let Some(rule) = self.rules.get(position as usize) else {
                debug_assert!(false, "the index holds positions of rules");
                continue;
            };
            decision.visited = decision.visited.saturating_add(1);
            let is_reached = rule.flag_in == decision.final_flag;
            if !is_reached || self.first_failed(rule, question, scratch).is_some() {
                continue;
            }
            decision.matched.push(position);
            decision.take(&rule.effects);
            decision.final_flag = rule.flag_out.unwrap_or(decision.final_flag);
            if rule.is_last {
                decision.applied = true;
                break;
            }
            if rule.flag_out.is_some() {
                let from = match restarts.checked_sub(1) {
                    Some(left) => {
                        restarts = left;
                        0
                    }
                    None => position + 1,
                };
                candidates = self.index.candidates(question, decision.final_flag, from);
            }
        }
        decision.depends_on_text = scratch.depends_on_text;
    }

    /// The first test that `question` does not pass, the flag's apart. The statement's text is
    /// looked at last, so that a decision depends on it as seldom as possible.
    fn first_failed(
        &self,
        rule: &Compiled,
        question: &Question<'_>,
        scratch: &mut Scratch,
    ) -> Option<Column> {
        if rule.username.as_deref().is_some_and(|username| username != question.username) {
            return Some(Column::Username);
        }
        if rule.schemaname.as_ref().is_some_and(|schema| schema.as_bytes() != question.schema) {
            return Some(Column::Schemaname);
        }
        if let (Some(test), Some(addr)) = (&rule.client_addr, question.client_addr)
            && !test.is_passed_by(addr)
        {
            return Some(Column::ClientAddr);
        }
        let proxy_addr = question.proxy_addr.map(|addr| addr.to_canonical());
        if rule.proxy_addr.is_some() && rule.proxy_addr != proxy_addr {
            return Some(Column::ProxyAddr);
        }
        if rule.proxy_port.is_some() && rule.proxy_port != question.proxy_port {
            return Some(Column::ProxyPort);
        }
        if rule.digest.is_some() && rule.digest != question.digest {
            return Some(Column::Digest);
        }
        if let (Some(test), Some(_)) = (rule.match_digest, question.digest)
            && !self.passes(test, rule.is_negated, question.digest_text, scratch)
        {
            return Some(Column::MatchDigest);
        }
        let test = rule.match_pattern?;
        scratch.depends_on_text = true;
        let passes = self.passes(test, rule.is_negated, question.query, scratch);
        (!passes).then_some(Column::MatchPattern)
    }

    /// Whether `text` passes a pattern's test. A search that was given up passes neither the
    /// test nor its negation.
    fn passes(
        &self,
        test: PatternTest,
        is_negated: bool,
        text: &[u8],
        scratch: &mut Scratch,
    ) -> bool {
        let found = match test.place {
            Some(place) => Some(self.prefilter.is_found(place, text, &mut scratch.sets)),
            None => self
                .patterns
                .get(test.pattern as usize)
                .and_then(|pattern: &Pattern| pattern.is_found(text)),
        };
        found.is_some_and(|found| found != is_negated)
    }
}

impl Decision {
    /// A matching rule's columns win over those of the rules before it.
    fn take(&mut self, effects: &Effects) {
        let Effects { destination_hostgroup, next_query_flag, error_msg, ok_msg } = effects;
        self.destination_hostgroup = destination_hostgroup.or(self.destination_hostgroup);
        self.next_query_flag = next_query_flag.or(self.next_query_flag);
        if error_msg.is_some() {
            self.error_msg.clone_from(error_msg);
        }
        if ok_msg.is_some() {
            self.ok_msg.clone_from(ok_msg);
        }
    }
}

#[cfg(test)]
mod tests;
