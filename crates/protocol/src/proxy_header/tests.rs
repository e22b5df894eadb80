use proptest::prelude::*;

use super::*;

fn socket(text: &str) -> SocketAddr {
    text.parse().expect(text)
}

fn whole(bytes: &[u8]) -> (Option<(SocketAddr, SocketAddr)>, usize) {
    match scan(bytes) {
        Ok(Opening::Whole(header, len)) => (header.addresses, len),
        other => panic!("{bytes:?} gave {other:?}"),
    }
}

/// A header of version 2 with what its length counts.
fn second(kind: u8, family: u8, body: &[u8]) -> Vec<u8> {
    let len = u16::try_from(body.len()).expect("short").to_be_bytes();
    [SIGNATURE_2, &[kind, family], &len, body].concat()
}

fn four(tlvs: &[u8]) -> Vec<u8> {
    [&[192, 0, 2, 7, 198, 51, 100, 1, 0xC8, 0x22, 0x0C, 0xEA][..], tlvs].concat()
}

fn tlv(kind: u8, value: &[u8]) -> Vec<u8> {
    let len = u16::try_from(value.len()).expect("short").to_be_bytes();
    [&[kind], &len[..], value].concat()
}

#[test]
fn version_1_tells_the_addresses() {
    let check = |line: &str, expected: Option<(&str, &str)>| {
        let bytes = [line.as_bytes(), b"\r\nrest"].concat();
        let expected = expected.map(|(client, target)| (socket(client), socket(target)));
        assert_eq!(whole(&bytes), (expected, line.len() + 2), "{line}");
    };
    check(
        "PROXY TCP4 192.0.2.7 198.51.100.1 51234 3306",
        Some(("192.0.2.7:51234", "198.51.100.1:3306")),
    );
    check("PROXY TCP6 2001:db8::7 ::1 1 65535", Some(("[2001:db8::7]:1", "[::1]:65535")));
    check("PROXY UNKNOWN", None);
    check("PROXY UNKNOWN whatever it says 1 2", None);
}

#[test]
fn a_wrong_line_is_refused() {
    for line in [
        "PROXY ",
        "PROXY UDP4 1.2.3.4 1.2.3.5 1 2",
        "PROXY TCP4 1.2.3.4 1.2.3.5 1",
        "PROXY TCP4 1.2.3.4 1.2.3.5 1 2 3",
        "PROXY TCP4 1.2.3.4 1.2.3.5 1 65536",
        "PROXY TCP4 1.2.3.4 1.2.3.5 +1 2",
        "PROXY TCP4 1.2.3.4  1.2.3.5 1 2",
        "PROXY TCP4 ::1 ::1 1 2",
        "PROXY TCP6 1.2.3.4 1.2.3.5 1 2",
        "PROXY TCP4 1.2.3 1.2.3.5 1 2",
    ] {
        assert_eq!(scan(format!("{line}\r\n").as_bytes()), Err(HeaderError::Line), "{line}");
    }
    assert_eq!(scan(b"PROXY TCP4 1.2.3.4 1.2.3.5 1 2\n"), Err(HeaderError::Line));
    let endless = [SIGNATURE_1, &[b'1'; LEN_1_MAX - 6]].concat();
    assert_eq!(scan(&endless), Err(HeaderError::LineTooLong));
    assert_eq!(scan(&endless[..LEN_1_MAX - 1]), Ok(Opening::Partial));
}

#[test]
fn version_2_tells_the_addresses() {
    let expected = Some((socket("192.0.2.7:51234"), socket("198.51.100.1:3306")));
    assert_eq!(whole(&second(0x21, 0x11, &four(&[]))), (expected, 28));
    let mut six = vec![0; 36];
    (six[15], six[31], six[33], six[35]) = (7, 1, 80, 90);
    assert_eq!(
        whole(&second(0x21, 0x21, &six)),
        (Some((socket("[::7]:80"), socket("[::1]:90"))), 52)
    );
    // The balancer's own connections, and families that nobody here has a use for.
    assert_eq!(whole(&second(0x20, 0x00, &[])), (None, 16));
    assert_eq!(whole(&second(0x20, 0x11, &four(&[]))), (None, 28));
    assert_eq!(whole(&second(0x21, 0x00, b"whatever")), (None, 24));
    assert_eq!(whole(&second(0x21, 0x12, &four(&[]))), (None, 28));
    assert_eq!(whole(&second(0x21, 0x31, &[0; 216])), (None, 232));
}

#[test]
fn a_wrong_header_is_refused_as_soon_as_it_is_seen() {
    let check = |bytes: &[u8], expected| assert_eq!(scan(bytes), Err(expected), "{bytes:?}");
    check(&[SIGNATURE_2, &[0x11]].concat(), HeaderError::Version(1));
    check(&[SIGNATURE_2, &[0x22]].concat(), HeaderError::Command(2));
    check(&[SIGNATURE_2, &[0x21, 0x11, 0xFF, 0xFF]].concat(), HeaderError::TooLong(65_551));
    check(&second(0x21, 0x11, &[0; 11]), HeaderError::Addresses);
    check(&second(0x21, 0x21, &[0; 35]), HeaderError::Addresses);
    check(&second(0x21, 0x31, &[0; 215]), HeaderError::Addresses);
    check(&second(0x21, 0x11, &four(&[4, 0])), HeaderError::Tlv);
    check(&second(0x21, 0x11, &four(&[4, 0, 2, 1])), HeaderError::Tlv);
    check(&second(0x21, 0x11, &four(&tlv(TLV_CRC32C, &[0; 4]))), HeaderError::Checksum);
    check(&second(0x21, 0x11, &four(&tlv(TLV_CRC32C, &[]))), HeaderError::Checksum);
}

#[test]
fn tlvs_are_read_in_order() {
    let ssl = tlv(TLV_SSL, &[7, 0, 0, 0, 0]);
    let tlvs = [tlv(TLV_AUTHORITY, b"db.example"), ssl, tlv(TLV_NOOP, &[])].concat();
    let bytes = second(0x21, 0x11, &four(&tlvs));
    let Ok(Opening::Whole(header, _)) = scan(&bytes) else {
        panic!("no header");
    };
    let read: Vec<_> = header.tlvs().collect();
    let expected: [(u8, &[u8]); 3] =
        [(TLV_AUTHORITY, b"db.example"), (TLV_SSL, &[7, 0, 0, 0, 0]), (TLV_NOOP, &[])];
    assert_eq!(read, expected);
}

#[test]
fn a_checksum_is_that_of_the_header_without_it() {
    // The check value of CRC-32C.
    assert_eq!(crc32c(b"123456789", 100), 0xE306_9283);
    let tlvs = [tlv(TLV_CRC32C, &[0; 4]), tlv(TLV_UNIQUE_ID, b"abc")].concat();
    let mut bytes = second(0x21, 0x11, &four(&tlvs));
    let crc = crc32c(&bytes, 31).to_be_bytes();
    bytes[31..35].copy_from_slice(&crc);
    assert_eq!(whole(&bytes).1, bytes.len());
    *bytes.last_mut().expect("bytes") ^= 1;
    assert_eq!(scan(&bytes), Err(HeaderError::Checksum));
}

#[test]
fn packets_of_a_login_are_no_header() {
    // A response, and a request for TLS, whose lengths begin like the signatures.
    for first in [[0x50, 0, 0, 1], [0x50, 0x52, 0, 1], [0x0D, 0x0A, 0, 1], [0x20, 0, 0, 1]] {
        assert_eq!(scan(&first), Ok(Opening::Absent));
    }
    assert_eq!(scan(b""), Ok(Opening::Partial));
}

fn headers() -> impl Strategy<Value = Vec<u8>> {
    let first = (any::<std::net::Ipv4Addr>(), any::<std::net::Ipv4Addr>(), any::<u16>())
        .prop_map(|(a, b, port)| format!("PROXY TCP4 {a} {b} {port} 3306\r\n").into_bytes());
    let values = proptest::collection::vec(
        (4_u8..=255, proptest::collection::vec(any::<u8>(), 0..40)),
        0..4,
    );
    let later =
        (any::<[u8; 12]>(), values, 0x20_u8..=0x21).prop_map(|(addresses, values, kind)| {
            let tlvs: Vec<u8> = values.iter().flat_map(|(kind, value)| tlv(*kind, value)).collect();
            second(kind, 0x11, &[&addresses[..], &tlvs].concat())
        });
    prop_oneof![first, later]
}

#[test]
fn what_a_balancer_says_is_shown_in_one_line() {
    let inner = [&[0x21, 0, 7][..], b"TLSv1.3", &[0x22, 0, 3], b"app"].concat();
    let inner_len = u8::try_from(5 + inner.len()).expect("short");
    let tlvs = [
        &[TLV_AUTHORITY, 0, 2][..],
        b"db",
        &[TLV_NOOP, 0, 1, 0],
        &[TLV_UNIQUE_ID, 0, 3, b'a', 0x0A, 0xFF],
        &[TLV_SSL, 0, inner_len, 7, 0, 0, 0, 0],
        &inner,
        &[TLV_AWS, 0, 5, 1],
        b"vpce",
        &[0xE0, 0, 1, b'x'],
    ]
    .concat();
    let header = ProxyHeader { addresses: None, is_local: false, tlvs: &tlvs };
    let expected = "authority=db unique_id=a\\n\\xff tls_version=TLSv1.3 tls_cn=app aws=vpce e0=x";
    assert_eq!(header.describe(), expected);
    let long = [&[0xE0, 4, 0][..], &[b'x'; 1_024]].concat();
    assert_eq!(ProxyHeader { addresses: None, is_local: false, tlvs: &long }.describe(), "");
}

proptest! {
    #[test]
    fn a_header_is_found_wherever_its_bytes_are_split(
        header in headers(),
        behind in any::<[u8; 5]>(),
    ) {
        for len in 0..header.len() {
            prop_assert_eq!(scan(&header[..len]), Ok(Opening::Partial));
        }
        let bytes = [&header[..], &behind].concat();
        let alone = whole(&header);
        prop_assert_eq!(alone.1, header.len());
        prop_assert_eq!(whole(&bytes), alone);
    }

    #[test]
    fn any_bytes_give_an_answer(
        head in 0_usize..3,
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let head: &[u8] = [&b""[..], SIGNATURE_1, SIGNATURE_2][head];
        let bytes = [head, &bytes].concat();
        if let Ok(Opening::Whole(header, len)) = scan(&bytes) {
            prop_assert!(len <= bytes.len());
            prop_assert!(header.tlvs().count() <= bytes.len());
        }
    }
}
