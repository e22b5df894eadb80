//! Target: the header of the PROXY protocol, its TLVs included.

use trunkline_protocol::proxy_header::{HeaderError, LEN_MAX, Opening, scan};

/// Bytes that a description may have.
const DESCRIBED_MAX: usize = 1_024;

/// The first bytes of a connection. What has come so far decides nothing that more bytes would
/// decide otherwise.
pub fn proxy_header(data: &[u8]) {
    let whole = scan(data);
    for end in 0..data.len() {
        let begin = data.get(..end).unwrap_or_default();
        match (scan(begin), &whole) {
            (Ok(Opening::Partial), _) => assert!(end < LEN_MAX, "{end} bytes are no header yet"),
            (Ok(Opening::Absent), whole) => assert_eq!(whole, &Ok(Opening::Absent)),
            (Ok(Opening::Whole(header, len)), whole) => {
                assert_eq!(whole, &Ok(Opening::Whole(header, len)));
            }
            (Err(error), whole) => check_errors(error, whole),
        }
    }
    let Ok(Opening::Whole(header, len)) = whole else { return };
    assert!(len <= data.len() && len <= LEN_MAX, "a header of {len} bytes");
    let described = header.describe();
    assert!(described.len() <= DESCRIBED_MAX && !described.contains(char::is_control));
    assert_eq!(described.lines().count(), usize::from(!described.is_empty()));
    let told: usize = header.tlvs().map(|(_, value)| value.len() + 3).sum();
    assert!(told <= len, "TLVs of {told} bytes in a header of {len}");
    assert!(!header.is_local || header.addresses.is_none(), "the balancer's own has no client");
}

/// What was refused stays refused, if perhaps for another reason.
fn check_errors(error: HeaderError, whole: &Result<Opening<'_>, HeaderError>) {
    assert!(whole.is_err(), "{error}, and with more bytes {whole:?}");
}
