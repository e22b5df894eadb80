//! Greeting, handshake response and COM_CHANGE_USER: what is written reads back, and no cut or
//! random payload does harm.

use proptest::prelude::*;

use super::{
    attributes::{self, Attributes},
    change_user::ChangeUser,
    greeting::{Flavor, Greeting, NONCE_LEN, Opening, PROTOCOL_VERSION},
    handshake_response::{ClientOpening, HandshakeResponse},
};
use crate::{
    Capabilities,
    auth::{self, caching_sha2, native},
    codec::frame::split_packet,
};

/// The first packet of a MariaDB 10.11.19 server.
const MARIADB_GREETING: &[u8] = include_bytes!("testdata/greeting-mariadb-10.11.19.bin");
/// The first packet of a MySQL 9.7.4 server.
const MYSQL_GREETING: &[u8] = include_bytes!("testdata/greeting-mysql-9.7.4.bin");
/// The answers of two real clients to those greetings, with [`CLIENT_NONCE`] in them and without
/// TLS: user `app`, password `secret`, schema `shop`.
const MARIADB_RESPONSE: &[u8] = include_bytes!("testdata/response-mariadb-10.11.19.bin");
const MYSQL_RESPONSE: &[u8] = include_bytes!("testdata/response-mysql-9.7.4.bin");
const CLIENT_NONCE: [u8; NONCE_LEN] = *b"abcdefghij0123456789";

fn payload_of(packet: &[u8]) -> &[u8] {
    let (_, payload, rest) = split_packet(packet).expect("one whole packet");
    assert!(rest.is_empty());
    payload
}

#[test]
fn real_greetings_read_and_write_back_byte_for_byte() {
    let check = |packet: &[u8], flavor, plugin: &str, extended: Capabilities| {
        let greeting = Greeting::parse(payload_of(packet)).expect("greeting");
        assert_eq!((greeting.flavor(), &*greeting.auth_plugin), (flavor, plugin));
        assert_eq!(greeting.capabilities & Capabilities::EXTENDED, extended);
        assert!(greeting.capabilities.contains(Capabilities::DEPRECATE_EOF));
        assert!(greeting.nonce.iter().all(|byte| *byte != 0));
        let mut out = Vec::new();
        assert_eq!(greeting.put(&mut out, 0), 1);
        assert_eq!(out, packet);
    };
    let extended = Capabilities::PROGRESS
        | Capabilities::STMT_BULK_OPERATIONS
        | Capabilities::EXTENDED_METADATA
        | Capabilities::CACHE_METADATA;
    check(MARIADB_GREETING, Flavor::MariaDb, "mysql_native_password", extended);
    check(MYSQL_GREETING, Flavor::MySql, "caching_sha2_password", Capabilities::EMPTY);
}

#[test]
fn real_responses_read_and_write_back_byte_for_byte() {
    let check = |packet: &[u8], plugin: &str, extended: Capabilities| {
        let opening = ClientOpening::parse(payload_of(packet)).expect("response");
        let ClientOpening::Response(response) = opening else { panic!("not a response") };
        assert_eq!((response.user, response.schema), (&b"app"[..], Some(&b"shop"[..])));
        assert_eq!(response.plugin, Some(plugin.as_bytes()));
        assert_eq!(response.capabilities & Capabilities::EXTENDED, extended);
        assert!(response.attributes.pairs().any(|pair| pair == (b"_os", b"Linux")));
        let mut out = Vec::new();
        assert_eq!(response.put(&mut out, 1), 2);
        assert_eq!(out, packet);
        response.auth.to_vec()
    };
    let extended = Capabilities::PROGRESS
        | Capabilities::STMT_BULK_OPERATIONS
        | Capabilities::EXTENDED_METADATA
        | Capabilities::CACHE_METADATA;
    let answer = check(MARIADB_RESPONSE, auth::MYSQL_NATIVE_PASSWORD, extended);
    let stage1 = native::stage1(b"secret");
    assert_eq!(answer, native::scramble(&stage1, &CLIENT_NONCE));
    assert_eq!(native::verify(&answer, &native::stage2(&stage1), &CLIENT_NONCE), Some(stage1));
    let answer = check(MYSQL_RESPONSE, auth::CACHING_SHA2_PASSWORD, Capabilities::EMPTY);
    let stage1 = caching_sha2::stage1(b"secret");
    assert_eq!(answer, caching_sha2::scramble(&stage1, &CLIENT_NONCE));
    let stage2 = caching_sha2::stage2(&stage1);
    assert_eq!(caching_sha2::verify(&answer, &stage2, &CLIENT_NONCE), Some(stage1));
}

#[test]
fn a_refusal_in_place_of_the_greeting_is_recognised() {
    let opening = Opening::parse(b"\xFF\x10\x04Too many connections").expect("error packet");
    let Opening::Refused(error) = opening else { panic!("a refusal is no greeting") };
    assert_eq!((error.code, error.message), (1040, &b"Too many connections"[..]));
    assert!(Greeting::parse(b"\xFF\x10\x04Too many connections").is_err());
}

#[test]
fn flavors_are_told_by_the_version() {
    let check = |version, expected| assert_eq!(Flavor::of_version(version), expected, "{version}");
    check("10.11.19-MariaDB-0+deb12u1", Flavor::MariaDb);
    check("5.5.5-10.4.2-mariadb", Flavor::MariaDb);
    check("9.7.4-2", Flavor::MySql);
    check("8.0.36-28-Percona", Flavor::MySql);
    check("", Flavor::MySql);
}

#[test]
fn only_newer_mysql_tells_of_inactivity() {
    let greeting = Greeting::parse(payload_of(MYSQL_GREETING)).expect("greeting");
    for (version, expected) in [
        ("8.0.24", true),
        ("8.0.36-28-Percona", true),
        ("9.7.4-2", true),
        ("8.0.23", false),
        ("5.7.44-log", false),
        ("10.11.19-MariaDB-0+deb12u1", false),
        ("", false),
    ] {
        let server_version = version.to_owned();
        let greeting = Greeting { server_version, ..greeting.clone() };
        assert_eq!(greeting.tells_of_inactivity(), expected, "{version}");
    }
}

fn any_capabilities() -> impl Strategy<Value = Capabilities> {
    any::<u64>().prop_map(|bits| {
        let mut capabilities = Capabilities::from_bits(bits) | Capabilities::PROTOCOL_41;
        if capabilities.contains(Capabilities::LONG_PASSWORD) {
            capabilities.remove(Capabilities::EXTENDED);
        }
        capabilities
    })
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(1..=u8::MAX, 1..20)
}

fn pairs() -> impl Strategy<Value = Vec<(Vec<u8>, Vec<u8>)>> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..300);
    prop::collection::vec((bytes(), bytes()), 0..4)
}

fn encode(pairs: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    attributes::encode(pairs.iter().map(|(name, value)| (&name[..], &value[..])))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn greetings_read_back(
        capabilities in any_capabilities(),
        connection_id: u32,
        nonce: [u8; 20],
        charset: u8,
        status: u16,
        server_version in "[a-zA-Z0-9.-]{0,30}",
        plugin in "[a-z_]{1,30}",
    ) {
        let has_plugin = capabilities.contains(Capabilities::PLUGIN_AUTH);
        let greeting = Greeting {
            protocol_version: PROTOCOL_VERSION,
            server_version,
            connection_id,
            nonce,
            capabilities,
            charset,
            status,
            auth_plugin: if has_plugin { plugin } else { String::new() },
        };
        let mut out = Vec::new();
        prop_assert_eq!(greeting.put(&mut out, 255), 0);
        let payload = payload_of(&out);
        prop_assert_eq!(Greeting::parse(payload), Ok(greeting));
        for end in 0..payload.len() {
            prop_assert!(Greeting::parse(&payload[..end]).is_err(), "{}", end);
        }
    }

    #[test]
    fn handshake_responses_read_back(
        capabilities in any_capabilities(),
        packet_len_max: u32,
        charset: u8,
        user in name(),
        auth in name(),
        schema in name(),
        plugin in name(),
        pairs in pairs(),
        level: u8,
    ) {
        let has = |flag| capabilities.contains(flag);
        let raw = encode(&pairs);
        let attributes = Attributes::parse(&raw).expect("encoded");
        let has_attributes = has(Capabilities::CONNECT_ATTRS);
        let response = HandshakeResponse {
            capabilities,
            packet_len_max,
            charset,
            user: &user,
            auth: &auth,
            schema: has(Capabilities::CONNECT_WITH_DB).then_some(&schema[..]),
            plugin: has(Capabilities::PLUGIN_AUTH).then_some(&plugin[..]),
            attributes: if has_attributes { attributes } else { Attributes::default() },
            zstd_level: has(Capabilities::ZSTD_COMPRESSION_ALGORITHM).then_some(level),
        };
        let mut out = Vec::new();
        prop_assert_eq!(response.put(&mut out, 1), 2);
        let payload = payload_of(&out);
        let opening = ClientOpening::Response(response.clone());
        prop_assert_eq!(ClientOpening::parse(payload), Ok(opening));
        if has_attributes {
            let read: Vec<_> =
                response.attributes.pairs().map(|(a, b)| (a.to_vec(), b.to_vec())).collect();
            prop_assert_eq!(read, pairs);
        }
        for end in 0..payload.len() {
            match ClientOpening::parse(&payload[..end]) {
                Err(_) => {}
                Ok(ClientOpening::TlsRequest(_)) => prop_assert_eq!(end, 32),
                Ok(ClientOpening::Outdated) => prop_assert!(false, "read as outdated"),
                // Servers tolerate exactly this: the response ends before the plug-in's name.
                Ok(ClientOpening::Response(cut)) => {
                    prop_assert_eq!((cut.plugin, cut.user), (None, &user[..]));
                }
            }
        }
    }

    #[test]
    fn change_user_reads_back(
        capabilities in any_capabilities(),
        user in name(),
        auth in name(),
        schema in prop::option::of(name()),
        collation: u16,
        plugin in name(),
        pairs in pairs(),
    ) {
        let raw = encode(&pairs);
        let attributes = Attributes::parse(&raw).expect("encoded");
        let has_attributes = capabilities.contains(Capabilities::CONNECT_ATTRS);
        let has_plugin = capabilities.contains(Capabilities::PLUGIN_AUTH);
        let request = ChangeUser {
            user: &user,
            auth: &auth,
            schema: schema.as_deref(),
            collation: Some(collation),
            plugin: has_plugin.then_some(&plugin[..]),
            attributes: if has_attributes { attributes } else { Attributes::default() },
        };
        let mut out = Vec::new();
        prop_assert_eq!(request.put(&mut out, 0, capabilities), 1);
        let body = &payload_of(&out)[1..];
        prop_assert_eq!(ChangeUser::parse(body, capabilities), Ok(request));
        for end in 0..body.len() {
            // Old clients stop after the schema, the collation or the plug-in, nowhere else.
            if let Ok(cut) = ChangeUser::parse(&body[..end], capabilities) {
                let is_whole = cut.plugin.is_none() || cut.plugin == Some(&plugin[..]);
                prop_assert!(is_whole && cut.attributes == Attributes::default());
                prop_assert_eq!(cut.schema, schema.as_deref());
            }
        }
    }

    #[test]
    fn random_payloads_never_panic(
        payload in prop::collection::vec(any::<u8>(), 0..200),
        low: u32,
        capabilities: u64,
    ) {
        let capabilities = Capabilities::from_bits(capabilities);
        let _ = Opening::parse(&payload);
        let _ = Greeting::parse(&payload);
        let _ = ClientOpening::parse(&payload);
        let _ = ChangeUser::parse(&payload, capabilities);
        let low = low | Capabilities::PROTOCOL_41.low();
        let _ = ClientOpening::parse(&[&low.to_le_bytes()[..], &payload].concat());
        if let Ok(attributes) = Attributes::parse(&payload) {
            let raw = attributes::encode(attributes.pairs());
            prop_assert_eq!(attributes::encode(Attributes::parse(&raw).expect("own").pairs()), raw);
        }
    }
}
