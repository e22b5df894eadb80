//! Numbers for origins, so that they compare fast and fit into atomics.

use std::{
    num::NonZeroU32,
    sync::{Mutex, PoisonError},
};

use crate::gtid::Origin;

/// The most origins that are told apart: servers that ever wrote, with their tags, or domains.
const ORIGINS_MAX: usize = 1_024;

/// An origin's number, the same as long as the process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OriginId(NonZeroU32);

impl OriginId {
    /// The number, from 1.
    pub fn get(self) -> u32 {
        self.0.get()
    }

    /// The origin with this number; `None` for 0, which is none's.
    pub(super) fn from_number(number: u32) -> Option<Self> {
        NonZeroU32::new(number).map(Self)
    }
}

/// The origins that are known. Whoever asks often remembers what was said.
#[derive(Debug, Default)]
pub struct Origins(Mutex<Vec<Origin>>);

impl Origins {
    /// An origin's number; `None` when there are too many.
    pub fn id(&self, origin: &Origin) -> Option<OriginId> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = match known.iter().position(|it| it == origin) {
            Some(at) => at,
            None if known.len() >= ORIGINS_MAX => return None,
            None => {
                known.push(*origin);
                known.len() - 1
            }
        };
        let number = u32::try_from(at).ok()?.checked_add(1)?;
        NonZeroU32::new(number).map(OriginId)
    }

    /// An origin's number, if it has one.
    pub fn known(&self, origin: &Origin) -> Option<OriginId> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = known.iter().position(|it| it == origin)?;
        NonZeroU32::new(u32::try_from(at).ok()?.checked_add(1)?).map(OriginId)
    }

    /// The origin with this number.
    pub fn origin(&self, id: OriginId) -> Option<Origin> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(usize::try_from(id.get()).ok()?.checked_sub(1)?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_keeps_its_number_and_there_are_not_too_many() {
        let origins = Origins::default();
        let first = origins.id(&Origin::Domain(7)).expect("a number");
        for domain in 8..7 + 1_024 {
            assert!(origins.id(&Origin::Domain(domain)).is_some());
        }
        assert_eq!(origins.id(&Origin::Domain(7)), Some(first));
        assert_eq!(origins.origin(first), Some(Origin::Domain(7)));
        assert_eq!(origins.id(&Origin::Domain(1)), None);
    }
}
