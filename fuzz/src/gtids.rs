//! Target: texts of transactions, as servers report them and clients give them back.

use trunkline_topology::gtid::{GtidSet, Position};

/// Reads bytes as a set of MySQL's and as a position of MariaDB's. What is read is written so that
/// it is read as the same, and the algebra of sets holds.
pub fn gtids(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(set) = GtidSet::parse(&text) {
        assert_eq!(GtidSet::parse(&set.to_string()).as_ref(), Ok(&set));
        assert!(set.is_subset(&set) && set.clone().subtract(&set).is_empty());
        assert_eq!(set.clone().union(&set), set);
        let mut firsts = GtidSet::default();
        for (origin, intervals) in set.origins() {
            intervals.iter().for_each(|(first, _)| firsts.add(origin, first, first));
        }
        assert!(firsts.is_subset(&set));
        let rest = set.clone().subtract(&firsts);
        assert!(rest.is_subset(&set) && rest.union(&firsts) == set);
    }
    if let Ok(position) = Position::parse(&text) {
        assert_eq!(Position::parse(&position.to_string()).as_ref(), Ok(&position));
        assert!(position.beyond(&position).is_empty());
    }
}
