//! Different texts that are prepared, counted over workers that each have some of them.

/// The most texts that one worker tells of; 512 KiB.
pub const TEXTS_MAX: usize = 32_768;

/// Who has a text prepared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Holders {
    /// Clients do.
    pub clients: bool,
    /// Server connections do.
    pub servers: bool,
}

/// Texts that are prepared, by hashes that are the same in all workers of a process. Beyond
/// [`TEXTS_MAX`] of a worker the rest is not counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StmtTexts {
    /// In order of the hashes, each once.
    rows: Vec<(u64, Holders)>,
}

impl FromIterator<(u64, Holders)> for StmtTexts {
    fn from_iter<T: IntoIterator<Item = (u64, Holders)>>(rows: T) -> Self {
        let mut texts = Self { rows: rows.into_iter().take(TEXTS_MAX).collect() };
        texts.unite();
        texts
    }
}

impl StmtTexts {
    /// Adds another worker's.
    pub(crate) fn merge(&mut self, other: Self) {
        self.rows.extend(other.rows);
        self.unite();
    }

    fn unite(&mut self) {
        self.rows.sort_unstable_by_key(|(hash, _)| *hash);
        self.rows.dedup_by(|(hash, more), (kept, holders)| {
            let is_same = hash == kept;
            if is_same {
                holders.clients |= more.clients;
                holders.servers |= more.servers;
            }
            is_same
        });
    }

    /// Texts that clients have prepared.
    pub fn of_clients(&self) -> u64 {
        self.rows.iter().filter(|(_, holders)| holders.clients).count() as u64
    }

    /// Texts that are prepared on server connections.
    pub fn of_servers(&self) -> u64 {
        self.rows.iter().filter(|(_, holders)| holders.servers).count() as u64
    }

    /// All of them.
    pub fn all(&self) -> u64 {
        self.rows.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENTS: Holders = Holders { clients: true, servers: false };
    const SERVERS: Holders = Holders { clients: false, servers: true };

    #[test]
    fn a_text_that_several_workers_have_is_counted_once() {
        let mut texts: StmtTexts = [(7, CLIENTS), (1, SERVERS), (7, SERVERS)].into_iter().collect();
        assert_eq!((texts.of_clients(), texts.of_servers(), texts.all()), (1, 2, 2));
        texts.merge([(1, CLIENTS), (9, CLIENTS)].into_iter().collect());
        assert_eq!((texts.of_clients(), texts.of_servers(), texts.all()), (3, 2, 3));
        texts.merge(StmtTexts::default());
        assert_eq!((texts.of_clients(), texts.of_servers(), texts.all()), (3, 2, 3));
    }

    #[test]
    fn a_worker_tells_of_so_many_texts() {
        let texts: StmtTexts = (0..).map(|hash| (hash, CLIENTS)).take(2 * TEXTS_MAX).collect();
        assert_eq!(texts.all(), TEXTS_MAX as u64);
    }
}
