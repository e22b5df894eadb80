//! An input as a list of events.

/// One event: what happens, and two numbers that say to whom and how.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event<'a> {
    pub what: What,
    pub a: u8,
    pub b: u8,
    /// Bytes of the input, for events that send some.
    pub bytes: &'a [u8],
}

macro_rules! events {
    ($($(#[doc = $doc:literal])+ $name:ident = $byte:literal,)+) => {
        /// What may happen.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum What {
            $($(#[doc = $doc])+ $name,)+
        }

        const EVENTS: &[(u8, What)] = &[$(($byte, What::$name),)+];
    };
}

events! {
    /// A client connects to worker `a & 1`; `a & 2` over a Unix socket.
    Accept = b'A',
    /// Client `a` answers the greeting; `b` chooses user, capabilities and schema.
    LogIn = b'L',
    /// Client `a` sends statement `b`, whole.
    Query = b'Q',
    /// Client `a` sends another command, chosen by `b`.
    Command = b'C',
    /// Client `a` sends a statement of `b` × 1 KiB.
    LongQuery = b'W',
    /// Client `a` sends `b` × 64 pings at once.
    Pings = b'P',
    /// Client `a` sends its next packet of an authentication exchange, chosen by `b`.
    Authenticate = b'U',
    /// Client `a` sends the next `b` bytes of the input.
    ClientBytes = b'c',
    /// Client `a` goes on with what it could not send while it was not read.
    ClientSends = b'+',
    /// Client `a` stops reading, or takes `b` × 16 KiB of what waits.
    ClientReads = b'r',
    /// Client `a` goes.
    ClientCloses = b'X',
    /// Server connection `a` comes up, or does not when `b` is odd.
    Connect = b'O',
    /// All server connections come up, log in and answer until all is quiet.
    Settle = b'S',
    /// Server `a` answers one packet, the way that `b` says.
    Answer = b'R',
    /// Server `a` answers with a result of `b` × 4 KiB.
    LongAnswer = b'B',
    /// Server `a` sends `b` bytes of what it wants to send.
    ServerSends = b'-',
    /// Server `a` sends the next `b` bytes of the input.
    ServerBytes = b's',
    /// Server `a` stops reading, or goes on.
    ServerReads = b'w',
    /// Server `a` goes.
    ServerCloses = b'x',
    /// Time passes: 2^(`a` % 18) ms.
    Wait = b't',
    /// Configuration `a` % 3 is applied.
    Reload = b'l',
    /// Server entry `a` gets state `b` % 4.
    SetState = b'h',
    /// The oldest question about a password is answered; rightly when `a` is odd.
    Password = b'p',
    /// Worker `a & 1` is to stop within `b` × 100 ms.
    Stop = b'!',
    /// The driver gives up a client (`b` odd) or a server connection `a`, as after a panic.
    Abandon = b'%',
    /// Somebody reads the statistics of worker `a & 1`.
    Report = b'?',
}

/// Events, read from bytes.
#[derive(Debug)]
pub(super) struct Program<'a> {
    rest: &'a [u8],
}

impl<'a> Program<'a> {
    pub(super) fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }
}

impl<'a> Iterator for Program<'a> {
    type Item = Event<'a>;

    fn next(&mut self) -> Option<Event<'a>> {
        let ([what, a, b], rest) = self.rest.split_first_chunk()?;
        // Letters that readable seeds are written with; other bytes mean something too.
        let named = EVENTS.iter().find(|(byte, _)| byte == what);
        let any = EVENTS.get(usize::from(*what) % EVENTS.len());
        let (_, what) = named.or(any)?;
        let len = match what {
            What::ClientBytes | What::ServerBytes => usize::from(*b).min(rest.len()),
            _ => 0,
        };
        let (bytes, rest) = rest.split_at_checked(len)?;
        self.rest = rest;
        Some(Event { what: *what, a: *a, b: *b, bytes })
    }
}
