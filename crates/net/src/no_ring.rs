//! Where there is no io_uring.

use std::{io, os::fd::RawFd, time::Duration};

use crate::{Event, Token};

/// A stream's place in a ring, which nobody has.
#[derive(Debug)]
pub(crate) enum Seat {}

/// What a stream takes along to another worker: nothing.
#[derive(Debug, Default)]
pub(crate) struct Luggage;

impl Luggage {
    pub(crate) fn take(&mut self, _: &mut [u8]) -> Option<usize> {
        None
    }
}

/// A ring, which nobody has.
pub(crate) enum Ring {}

impl Ring {
    pub(crate) fn open(_: RawFd) -> io::Result<Self> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    pub(crate) fn seat(&mut self, _: RawFd, _: Token, _: Luggage) -> Seat {
        match *self {}
    }

    pub(crate) fn unseat(&mut self, _: &Seat) -> io::Result<Luggage> {
        match *self {}
    }

    pub(crate) fn token(&self, _: &Seat) -> Option<Token> {
        match *self {}
    }

    pub(crate) fn read(&mut self, _: &Seat, _: &mut [u8]) -> io::Result<usize> {
        match *self {}
    }

    pub(crate) fn wait(&mut self, _: Option<Duration>, _: &mut Vec<Event>) -> io::Result<bool> {
        match *self {}
    }

    pub(crate) fn look(&mut self) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn add_write(&mut self, _: RawFd, _: &[u8]) -> bool {
        match *self {}
    }

    pub(crate) fn flush(&mut self, _: &mut Vec<io::Result<usize>>) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn others_have_more(&mut self) {
        match *self {}
    }
}
