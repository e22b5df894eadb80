//! The bytes of a command.

use std::{ops::Deref, sync::Arc};

/// A command, packet headers and all: in a buffer of its own, or, where it is long, in one that is
/// on its way to a server as well. So a long one is not copied.
#[derive(Debug)]
pub(crate) enum Frames {
    Own(Vec<u8>),
    Whole(Arc<Vec<u8>>),
}

impl Default for Frames {
    fn default() -> Self {
        Self::Own(Vec::new())
    }
}

impl Deref for Frames {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Whole(bytes) => bytes,
        }
    }
}

impl Frames {
    /// To be changed: a long one is copied for that.
    pub(crate) fn own(&mut self) -> &mut Vec<u8> {
        if let Self::Whole(bytes) = self {
            *self = Self::Own(bytes.to_vec());
        }
        match self {
            Self::Own(bytes) => bytes,
            Self::Whole(_) => unreachable!("it was made its own"),
        }
    }

    /// Its buffer, to be used again; an empty one, where others may have it.
    #[inline]
    pub(crate) fn into_own(self) -> Vec<u8> {
        match self {
            Self::Own(bytes) => bytes,
            Self::Whole(_) => Vec::new(),
        }
    }

    /// The long command that others may have too.
    pub(crate) fn whole(&self) -> Option<&Arc<Vec<u8>>> {
        match self {
            Self::Own(_) => None,
            Self::Whole(bytes) => Some(bytes),
        }
    }
}
