//! Who writes, and who was replaced, as one process notes it for the next one.

/// What is noted of a cluster; `S` is what servers are called.
///
/// It is kept by every proxy that may promote a server, also by one that only follows what others
/// do: replicas of a lost writer do not tell that it had a successor, if that is lost too before
/// they have followed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Past<S> {
    /// Who writes, or is about to.
    pub writer: S,
    /// Who was lost before, and must not write again by itself.
    pub lost: Option<S>,
    /// Whether that one has replicated since, or has been made the writer: it may write.
    pub is_back: bool,
    /// Whether this proxy has promoted the writer in its place.
    pub is_own: bool,
}

impl<S: Clone + PartialEq> Past<S> {
    /// What is to be noted instead, if anything: `writer` is found to write, and `is_replaced` says
    /// of a server whether it was lost as the writer and has not replicated since; nothing if that
    /// is not known.
    pub fn look(
        past: Option<&Self>,
        writer: Option<S>,
        is_replaced: impl Fn(&S) -> Option<bool>,
    ) -> Option<Self> {
        let mut next = match (past, writer) {
            (past, None) => past?.clone(),
            (None, Some(writer)) => {
                return Some(Self { writer, lost: None, is_back: false, is_own: false });
            }
            (Some(past), Some(writer)) => past.followed(writer, &is_replaced),
        };
        let is_away = next.lost.as_ref().is_some_and(|lost| is_replaced(lost) != Some(false));
        next.is_back |= next.lost.is_some() && !is_away;
        (Some(&next) != past).then_some(next)
    }

    fn followed(&self, writer: S, is_replaced: &impl Fn(&S) -> Option<bool>) -> Self {
        if self.writer != writer && is_replaced(&self.writer) == Some(true) {
            return Self { writer, lost: Some(self.writer.clone()), is_back: false, is_own: false };
        }
        let lost = self.lost.clone().filter(|lost| *lost != writer);
        Self { writer, is_back: self.is_back && lost.is_some(), lost, is_own: self.is_own }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn past(writer: u8, lost: Option<u8>, is_own: bool) -> Past<u8> {
        Past { writer, lost, is_back: false, is_own }
    }

    #[test]
    fn a_writer_that_somebody_else_has_promoted_is_noted() {
        let check = |before: Option<Past<u8>>, writer: Option<u8>, replaced: &[u8], expected| {
            let is_replaced = |server: &u8| Some(replaced.contains(server));
            assert_eq!(Past::look(before.as_ref(), writer, is_replaced), expected, "{before:?}");
        };
        check(None, None, &[], None);
        // The first one that is seen to write.
        check(None, Some(1), &[], Some(past(1, None, false)));
        check(Some(past(1, None, false)), Some(1), &[], None);
        // It was lost, and somebody else has promoted the next one.
        check(Some(past(1, None, false)), Some(2), &[1], Some(past(2, Some(1), false)));
        check(Some(past(2, Some(1), true)), Some(3), &[1, 2], Some(past(3, Some(2), false)));
        // It was switched over: the one lost before is still to be kept from writing.
        check(Some(past(2, Some(1), true)), Some(3), &[1], Some(past(3, Some(1), true)));
        // The one lost before was made the writer again.
        check(Some(past(2, Some(1), true)), Some(1), &[], Some(past(1, None, true)));
    }

    #[test]
    fn one_that_replicates_again_is_not_kept_from_writing_for_ever() {
        let before = past(2, Some(1), true);
        let look = |before: &Past<u8>, is: Option<bool>| Past::look(Some(before), Some(2), |_| is);
        assert_eq!(look(&before, Some(true)), None);
        assert_eq!(look(&before, None), None, "it is not known yet");
        let back = Past { is_back: true, ..before.clone() };
        assert_eq!(look(&before, Some(false)), Some(back.clone()));
        assert_eq!(look(&back, Some(true)), None);
    }
}
