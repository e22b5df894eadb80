//! SpookyHash V2, 64 bits, after Bob Jenkins' public-domain algorithm (burtleburtle.net,
//! "SpookyV2").
//!
//! ProxySQL identifies a digest text by this hash, so rules and statistics that name a digest
//! by its number carry over only when ours is the same. Words are read in little-endian order.

const CONST: u64 = 0xDEAD_BEEF_DEAD_BEEF;
const WORDS: usize = 12;
const BLOCK: usize = 8 * WORDS;
/// Shorter messages than this take the short form.
const LONG_MIN: usize = 2 * BLOCK;

/// The first 64 bits of SpookyHash V2's 128 over `message`, both seeds being `seed`.
pub fn hash64(message: &[u8], seed: u64) -> u64 {
    hash128_first(message, [seed, seed])
}

/// The first 64 bits of SpookyHash V2's 128 over `message`.
pub fn hash128_first(message: &[u8], seeds: [u64; 2]) -> u64 {
    if message.len() < LONG_MIN { short(message, seeds) } else { long(message, seeds) }
}

/// The words of whole blocks, in little-endian order.
#[inline]
fn words<const BYTES: usize, const WORDS: usize>(block: &[u8; BYTES]) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    for (to, bytes) in words.iter_mut().zip(block.as_chunks().0) {
        *to = u64::from_le_bytes(*bytes);
    }
    words
}

/// A little-endian word of at most eight bytes; what is missing at the end counts as zero. From
/// both ends at once, as bytes that are read twice are the same.
#[inline]
fn part(bytes: &[u8]) -> u64 {
    let end = |width: usize| 8 * (bytes.len() - width);
    if let Some(whole) = bytes.first_chunk() {
        return u64::from_le_bytes(*whole);
    }
    if let (Some(low), Some(high)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let high = u64::from(u32::from_le_bytes(*high));
        return u64::from(u32::from_le_bytes(*low)) | high << end(4);
    }
    match bytes {
        [] => 0,
        [first, ..] => {
            let middle = bytes.get(bytes.len() / 2).copied().unwrap_or_default();
            let last = bytes.last().copied().unwrap_or_default();
            u64::from(*first)
                | u64::from(middle) << (bytes.len() / 2 * 8)
                | u64::from(last) << end(1)
        }
    }
}

/// The hash of a message that comes in parts.
#[derive(Debug, Clone)]
pub struct Stream {
    seeds: [u64; 2],
    /// What the blocks so far have come to, once the message is long.
    state: Option<[u64; WORDS]>,
    /// What is in no block yet.
    pending: Vec<u8>,
}

impl Stream {
    /// An empty message.
    pub const fn new(seeds: [u64; 2]) -> Self {
        Self { seeds, state: None, pending: Vec::new() }
    }

    /// Whether no byte has come.
    pub fn is_empty(&self) -> bool {
        self.state.is_none() && self.pending.is_empty()
    }

    /// Adds a part.
    pub fn update(&mut self, part: &[u8]) {
        self.pending.extend_from_slice(part);
        if self.state.is_none() && self.pending.len() < LONG_MIN {
            return;
        }
        let mut state = self.state.unwrap_or_else(|| begin(self.seeds));
        let left = eat(&mut state, &self.pending).len();
        self.state = Some(state);
        self.pending.drain(..self.pending.len() - left);
    }

    /// The first 64 bits of the hash's 128, as [`hash128_first`] has them of the whole message.
    pub fn finish(self) -> u64 {
        match self.state {
            Some(state) => end(state, &self.pending),
            None => short(&self.pending, self.seeds),
        }
    }
}

fn short(message: &[u8], [first, second]: [u64; 2]) -> u64 {
    let [mut a, mut b, mut c, mut d] = [first, second, CONST, CONST];
    let (blocks, mut rest) = message.as_chunks::<32>();
    for block in blocks {
        let [low, low_end, high, high_end] = words(block);
        c = c.wrapping_add(low);
        d = d.wrapping_add(low_end);
        [a, b, c, d] = short_mix([a, b, c, d]);
        a = a.wrapping_add(high);
        b = b.wrapping_add(high_end);
    }
    if let Some((half, after)) = rest.split_first_chunk::<16>() {
        let [low, high] = words(half);
        c = c.wrapping_add(low);
        d = d.wrapping_add(high);
        [a, b, c, d] = short_mix([a, b, c, d]);
        rest = after;
    }
    // The length's low byte is all that the shift leaves.
    d = d.wrapping_add((message.len() as u64) << 56);
    if rest.is_empty() {
        c = c.wrapping_add(CONST);
        d = d.wrapping_add(CONST);
    } else if let Some((low, high)) = rest.split_first_chunk() {
        c = c.wrapping_add(u64::from_le_bytes(*low));
        d = d.wrapping_add(part(high));
    } else {
        c = c.wrapping_add(part(rest));
    }
    short_end([a, b, c, d])
}

fn short_mix([mut a, mut b, mut c, mut d]: [u64; 4]) -> [u64; 4] {
    for [r0, r1, r2, r3] in [[50, 52, 30, 41], [54, 48, 38, 37], [62, 34, 5, 36]] {
        c = c.rotate_left(r0).wrapping_add(d);
        a ^= c;
        d = d.rotate_left(r1).wrapping_add(a);
        b ^= d;
        a = a.rotate_left(r2).wrapping_add(b);
        c ^= a;
        b = b.rotate_left(r3).wrapping_add(c);
        d ^= b;
    }
    [a, b, c, d]
}

fn short_end([mut a, mut b, mut c, mut d]: [u64; 4]) -> u64 {
    for [r0, r1, r2, r3] in [[15, 52, 26, 51], [28, 9, 47, 54]] {
        d ^= c;
        c = c.rotate_left(r0);
        d = d.wrapping_add(c);
        a ^= d;
        d = d.rotate_left(r1);
        a = a.wrapping_add(d);
        b ^= a;
        a = a.rotate_left(r2);
        b = b.wrapping_add(a);
        c ^= b;
        b = b.rotate_left(r3);
        c = c.wrapping_add(b);
    }
    d ^= c;
    c = c.rotate_left(32);
    d = d.wrapping_add(c);
    a ^= d;
    d = d.rotate_left(25);
    // The last step would also finish the second half of the 128 bits.
    a.wrapping_add(d).rotate_left(63)
}

fn long(message: &[u8], seeds: [u64; 2]) -> u64 {
    let mut state = begin(seeds);
    let rest = eat(&mut state, message);
    end(state, rest)
}

fn begin([a, b]: [u64; 2]) -> [u64; WORDS] {
    [a, b, CONST, a, b, CONST, a, b, CONST, a, b, CONST]
}

/// Eats whole blocks. What is left.
fn eat<'a>(state: &mut [u64; WORDS], message: &'a [u8]) -> &'a [u8] {
    let (blocks, rest) = message.as_chunks::<BLOCK>();
    for block in blocks {
        mix(state, &words(block));
    }
    rest
}

/// The hash, with what comes behind the last whole block.
fn end(mut state: [u64; WORDS], rest: &[u8]) -> u64 {
    let mut last = [0; BLOCK];
    if let Some(begin) = last.get_mut(..rest.len()) {
        begin.copy_from_slice(rest);
    }
    if let (Some(end), Ok(len)) = (last.last_mut(), u8::try_from(rest.len())) {
        *end = len;
    }
    for (sum, word) in state.iter_mut().zip(words::<BLOCK, WORDS>(&last)) {
        *sum = sum.wrapping_add(word);
    }
    for _ in 0..3 {
        end_partial(&mut state);
    }
    let [first, ..] = state;
    first
}

#[expect(clippy::indexing_slicing, reason = "every index is taken modulo the array's length")]
#[inline]
fn mix(s: &mut [u64; WORDS], data: &[u64; WORDS]) {
    const TURNS: [u32; WORDS] = [11, 32, 43, 31, 17, 28, 39, 57, 55, 54, 22, 46];
    for i in 0..WORDS {
        s[i] = s[i].wrapping_add(data[i]);
        s[(i + 2) % WORDS] ^= s[(i + 10) % WORDS];
        s[(i + 11) % WORDS] ^= s[i];
        s[i] = s[i].rotate_left(TURNS[i]);
        s[(i + 11) % WORDS] = s[(i + 11) % WORDS].wrapping_add(s[(i + 1) % WORDS]);
    }
}

#[expect(clippy::indexing_slicing, reason = "every index is taken modulo the array's length")]
fn end_partial(s: &mut [u64; WORDS]) {
    const TURNS: [u32; WORDS] = [44, 15, 34, 21, 38, 33, 10, 13, 38, 53, 42, 54];
    for i in 0..WORDS {
        s[(i + 11) % WORDS] = s[(i + 11) % WORDS].wrapping_add(s[(i + 1) % WORDS]);
        s[(i + 2) % WORDS] ^= s[(i + 11) % WORDS];
        s[(i + 1) % WORDS] = s[(i + 1) % WORDS].rotate_left(TURNS[i]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ProxySQL's own digests; the golden data checks every length up to 2,048 bytes.
    #[test]
    fn hashes_as_proxysql_does() {
        assert_eq!(hash64(b"select ?", 0), 0x1E09_2DAE_FFBB_F262);
        assert_eq!(hash64(b"SELECT * FROM db.t1", 0), 0x4E3C_CFB3_1C81_365A);
    }

    #[test]
    fn parts_are_hashed_as_their_whole() {
        let message: Vec<u8> = (0..=255).cycle().take(700).collect();
        for len in 0..=message.len() {
            let whole = &message[..len];
            for part in [1, 7, 95, 96, 97, 191, 192, 193, 700] {
                let mut stream = Stream::new([13, 4]);
                whole.chunks(part).for_each(|part| stream.update(part));
                assert_eq!(stream.is_empty(), len == 0);
                assert_eq!(stream.finish(), hash128_first(whole, [13, 4]), "{len} by {part}");
            }
        }
    }

    /// What a ProxySQL 2.4.1 wrote to its log of one row of `mysql_servers` (the example in its
    /// documentation of the error log), and another one of two rows (replication-manager#560).
    #[test]
    fn hashes_with_two_seeds_as_proxysql_does() {
        let row = b"0127.0.0.133060010200000test server";
        assert_eq!(hash128_first(row, [19, 3]), 17_518_514_293_925_156_575);
        let rows = b"10172.24.47.1323306001010005000011172.24.47.1313306001000100050000";
        assert_eq!(hash128_first(rows, [19, 3]), 0x857A_656F_D265_FD5E);
    }
}
