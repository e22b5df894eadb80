//! From a question to a decision.

use std::sync::Arc;

use crate::{
    Column, Decision, Executed, GROWTH_MAX, Hits, Outcome, Question, Rewrites, RuleSet, Visit,
    compile::{Compiled, Inner},
    index::Candidates,
    pattern::Pattern,
    prefilter::{PatternTest, SetResults},
};

/// What one evaluation leaves behind for the next to reuse.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    sets: SetResults,
    depends_on_text: bool,
    /// Whether a pattern of the rule that is looked at could not be decided.
    is_undecided: bool,
}

/// How an evaluation goes on behind a rule.
enum Step {
    /// With the next rule: this one did not match, at this column.
    Failed(Column),
    /// With the next rule: this one matched, and is a shadow.
    Shadowed,
    /// With the next rule.
    Matched,
    /// With another flag.
    Jumped,
    /// Not at all.
    Ended,
}

impl RuleSet {
    /// Decides about one statement and counts the rules that matched.
    ///
    /// [`crate::Memory::decide`] does the same, and remembers.
    pub fn evaluate(&self, question: &Question<'_>, hits: &mut Hits) -> Decision {
        let mut decision = Decision::default();
        self.inner.evaluate(question, &mut Scratch::default(), &mut decision);
        hits.add(&decision);
        decision
    }

    /// What each rule has to do with `question`, in the order of the evaluation and up to the
    /// rule that ends it, and what is decided; for people. Visits every rule, so its cost grows
    /// with their number.
    pub fn explain(&self, question: &Question<'_>) -> (Vec<Visit>, Decision) {
        let mut visits = Vec::new();
        let mut scratch = Scratch::default();
        let mut decision = Decision::default();
        decision.restart(question.flag);
        let (mut restarts, mut position) = (self.inner.iterations, 0_u32);
        while let Some(rule) = self.inner.rules.get(position as usize) {
            let flag = decision.final_flag;
            let before = decision.rewritten.clone();
            let undecided = decision.undecided.len();
            let step = self.inner.step(rule, position, question, &mut scratch, &mut decision);
            let outcome = match step {
                Step::Failed(column) => Outcome::FirstFailed(column),
                Step::Shadowed => Outcome::Shadowed,
                Step::Matched | Step::Jumped | Step::Ended => Outcome::Matched,
            };
            visits.push(Visit {
                rule_id: rule.id,
                flag,
                outcome,
                is_undecided: decision.undecided.last() == Some(&position)
                    && decision.undecided.len() > undecided,
                flag_after: decision.final_flag,
                rewrote: decision.rewritten != before,
            });
            position += 1;
            match step {
                Step::Ended => break,
                Step::Jumped if restarts > 0 => (restarts, position) = (restarts - 1, 0),
                Step::Failed(_) | Step::Shadowed | Step::Matched | Step::Jumped => {}
            }
        }
        decision.depends_on_text = scratch.depends_on_text;
        (visits, decision)
    }
}

impl Inner {
    /// HOT: allocates only while `scratch` and `decision` grow, when a set of patterns is
    /// searched, and when a statement is rewritten.
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
        let mut candidates = self.candidates(question, question.flag, 0);
        while let Some(position) = candidates.next() {
            let Some(rule) = self.rules.get(position as usize) else {
                debug_assert!(false, "the index holds positions of rules");
                continue;
            };
            decision.visited = decision.visited.saturating_add(1);
            match self.step(rule, position, question, scratch, decision) {
                Step::Failed(_) | Step::Shadowed | Step::Matched => {}
                Step::Ended => break,
                Step::Jumped => {
                    let from = match restarts.checked_sub(1) {
                        Some(left) => {
                            restarts = left;
                            0
                        }
                        None => position + 1,
                    };
                    candidates = self.candidates(question, decision.final_flag, from);
                }
            }
        }
        decision.depends_on_text = scratch.depends_on_text;
    }

    /// The rules at or after position `from` that may match. HOT.
    fn candidates(&self, question: &Question<'_>, flag: u32, from: u32) -> Candidates<'_> {
        match question.executed {
            Executed::Otherwise { .. } | Executed::Unknown if self.tested.protects_by_digest => {
                // One that protects may match by another digest than the statement's.
                let len = u32::try_from(self.rules.len()).unwrap_or(u32::MAX);
                Candidates::all(from..len)
            }
            _ => self.index.candidates(question, flag, from),
        }
    }

    /// Tests one rule, and takes over what it does when it matches.
    fn step(
        &self,
        rule: &Compiled,
        position: u32,
        question: &Question<'_>,
        scratch: &mut Scratch,
        decision: &mut Decision,
    ) -> Step {
        if rule.flag_in != decision.final_flag {
            return Step::Failed(Column::FlagIn);
        }
        let query = decision.rewritten.as_deref().unwrap_or(question.query);
        let failed = self.first_failed(rule, question, query, scratch);
        if std::mem::take(&mut scratch.is_undecided) {
            decision.undecided.push(position);
        }
        if let Some(failed) = failed {
            return Step::Failed(failed);
        }
        decision.matched.push(position);
        if rule.is_shadow {
            return Step::Shadowed;
        }
        decision.effects.take(&rule.effects);
        decision.has_directives |= rule.has_directives;
        self.rewrite(rule, question, scratch, decision);
        let jumps_to = rule.flag_out.or_else(|| {
            let weighted = rule.weighted_flags.as_deref()?;
            decision.depends_on_chance |= weighted.has_choice();
            weighted.choose(mix(question.chance, rule.id))
        });
        decision.final_flag = jumps_to.unwrap_or(decision.final_flag);
        decision.applied = rule.is_last;
        match (rule.is_last, jumps_to) {
            (true, _) => Step::Ended,
            (false, Some(_)) => Step::Jumped,
            (false, None) => Step::Matched,
        }
    }

    /// Carries out a matching rule's `replace_pattern`.
    fn rewrite(
        &self,
        rule: &Compiled,
        question: &Question<'_>,
        scratch: &mut Scratch,
        decision: &mut Decision,
    ) {
        let (Some(replacement), Some(test)) = (&rule.replacement, rule.match_pattern) else {
            return;
        };
        let Some(pattern) = self.patterns.get(test.pattern as usize) else {
            debug_assert!(false, "a test names a pattern");
            return;
        };
        let may_rewrite = match question.rewrites {
            Rewrites::All => true,
            Rewrites::Protecting => rule.protects,
            Rewrites::None => false,
        };
        if !may_rewrite {
            return;
        }
        let query = decision.rewritten.as_deref().unwrap_or(question.query);
        let len_max = question.query.len().saturating_add(GROWTH_MAX);
        match replacement.apply(pattern, query, len_max) {
            Ok(Some(text)) => {
                decision.rewritten = Some(text);
                decision.must_rewrite = decision.must_rewrite.or(rule.protects.then_some(rule.id));
                // What sets have found holds for the text before.
                scratch.sets.clear();
            }
            Ok(None) => {}
            Err(_) => {
                decision.rewrites_skipped += 1;
                if rule.protects {
                    decision.effects.error_msg = Some(unrewritten(rule.id));
                }
            }
        }
    }

    /// The first test that `question` does not pass, the flag's apart. The statement's text is
    /// looked at last, so that a decision depends on it as seldom as possible.
    fn first_failed(
        &self,
        rule: &Compiled,
        question: &Question<'_>,
        query: &[u8],
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
            let executes = rule.protects && executes_digest(rule, question, scratch);
            if !executes {
                return Some(Column::Digest);
            }
        }
        if let (Some(test), Some(_)) = (rule.match_digest, question.digest)
            && !self.passes(test, rule, question.digest_text, scratch)
            && !(rule.protects && self.passes_executed(test, rule, question, scratch))
        {
            return Some(Column::MatchDigest);
        }
        let test = rule.match_pattern?;
        scratch.depends_on_text = true;
        let passes = self.passes(test, rule, query, scratch);
        (!passes).then_some(Column::MatchPattern)
    }

    /// Whether what servers carry out passes a pattern's test, where its digest did not.
    fn passes_executed(
        &self,
        test: PatternTest,
        rule: &Compiled,
        question: &Question<'_>,
        scratch: &mut Scratch,
    ) -> bool {
        let found = match question.executed {
            Executed::AsDigested => return false,
            Executed::Otherwise { text, .. } => {
                let pattern = self.patterns.get(test.pattern as usize);
                pattern.and_then(|pattern: &Pattern| pattern.is_found(text))
            }
            Executed::Unknown => None,
        };
        scratch.depends_on_text = true;
        scratch.is_undecided |= found.is_none();
        found.is_none_or(|found| found != rule.is_negated)
    }

    /// Whether `text` passes a pattern's test. Where the search was given up, it passes the test
    /// and its negation alike with a rule that protects, and neither with another one.
    fn passes(
        &self,
        test: PatternTest,
        rule: &Compiled,
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
        match found {
            Some(found) => found != rule.is_negated,
            None => {
                scratch.is_undecided = true;
                rule.protects
            }
        }
    }
}

/// Whether servers carry out what has a rule's digest, where the statement's is another one.
fn executes_digest(rule: &Compiled, question: &Question<'_>, scratch: &mut Scratch) -> bool {
    let is_digest = match question.executed {
        Executed::AsDigested => return false,
        _ if question.digest.is_none() => return false,
        Executed::Otherwise { digest, .. } => Some(rule.digest == Some(digest)),
        Executed::Unknown => None,
    };
    scratch.depends_on_text = true;
    scratch.is_undecided |= is_digest.is_none();
    is_digest.unwrap_or(true)
}

/// What a statement is answered with that a rule which protects could not rewrite.
pub fn unrewritten(rule_id: u32) -> Arc<str> {
    format!("rule {rule_id} protects and could not rewrite this statement").into()
}

/// A number by chance of a rule's own, so that two choices do not go together.
fn mix(chance: u64, rule_id: u32) -> u64 {
    let mixed = (chance ^ u64::from(rule_id)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed ^ mixed >> 32
}

#[cfg(test)]
mod tests;
