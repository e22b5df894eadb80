use proptest::prelude::*;

use super::*;

fn sample(digest: u64, latency_us: u64) -> StatementSample<'static> {
    StatementSample {
        digest: Some(digest),
        digest_text: b"SELECT ?",
        username: "app",
        schema: b"shop",
        hostgroup: 1,
        latency_us,
        now_unix_sec: 1_000,
        ..StatementSample::default()
    }
}

fn record(table: &mut DigestTable, sample: &StatementSample<'_>) {
    table.record(sample.digest.expect("a digest"), sample);
}

fn total(table: &DigestTable) -> DigestSums {
    let mut sums = table.other();
    table.rows(DigestQuery::ALL).iter().for_each(|row| sums.merge(&row.sums));
    sums
}

#[test]
fn a_row_counts_what_its_statements_did() {
    let mut table = DigestTable::new(10, 0);
    record(&mut table, &StatementSample { rows_sent: 3, ..sample(7, 50) });
    let second = StatementSample { error: Some(1064), now_unix_sec: 1_005, ..sample(7, 20) };
    record(&mut table, &StatementSample { rows_affected: 2, ..second });
    let rows = table.rows(DigestQuery::ALL);
    let expected = DigestRow {
        hostgroup: 1,
        schemaname: "shop".into(),
        username: "app".into(),
        digest: 7,
        digest_text: "SELECT ?".into(),
        sums: DigestSums {
            count_star: 2,
            first_seen: 1_000,
            last_seen: 1_005,
            sum_time: 70,
            min_time: 20,
            max_time: 50,
            sum_rows_affected: 2,
            sum_rows_sent: 3,
            errors: 1,
            latency: rows[0].sums.latency,
        },
    };
    assert_eq!(rows, [expected]);
    assert_eq!(rows[0].sums.latency.count(), 2);
}

#[test]
fn every_part_of_the_key_tells_rows_apart() {
    let mut table = DigestTable::new(10, 0);
    let first = sample(7, 1);
    record(&mut table, &first);
    record(&mut table, &StatementSample { username: "other", ..first });
    record(&mut table, &StatementSample { schema: b"other", ..first });
    record(&mut table, &StatementSample { hostgroup: 2, ..first });
    record(&mut table, &StatementSample { digest: Some(8), ..first });
    // The same bytes, divided differently between the two names.
    record(&mut table, &StatementSample { username: "apps", schema: b"hop", ..first });
    record(&mut table, &StatementSample { digest_text: b"another text", ..first });
    assert_eq!(table.len(), 6);
}

#[test]
fn long_texts_and_names_are_cut() {
    let mut table = DigestTable::new(10, 0);
    let (text, name) = ("é".repeat(4_000), "n".repeat(1_000));
    let long = StatementSample {
        digest_text: text.as_bytes(),
        username: &name,
        schema: name.as_bytes(),
        ..sample(7, 1)
    };
    record(&mut table, &long);
    record(&mut table, &long);
    let rows = table.rows(DigestQuery::ALL);
    assert_eq!((rows.len(), rows[0].sums.count_star), (1, 2));
    assert_eq!(rows[0].digest_text.len(), TEXT_BYTES_MAX);
    assert_eq!((rows[0].username.len(), rows[0].schemaname.len()), (256, 256));
}

#[test]
fn a_table_of_no_rows_keeps_nothing() {
    let mut table = DigestTable::new(0, 0);
    record(&mut table, &sample(1, 1));
    assert_eq!((table.len(), table.evicted(), total(&table).count_star), (0, 0, 0));
}

#[test]
fn a_flood_of_new_statements_leaves_the_heavy_ones_in_place() {
    let mut table = DigestTable::new(256, 0);
    (0..100).for_each(|digest| record(&mut table, &sample(digest, 1_000_000)));
    (1_000..50_000).for_each(|digest| record(&mut table, &sample(digest, 100)));
    let rows = table.rows(DigestQuery::ALL);
    assert_eq!(rows.len(), 256);
    assert_eq!(rows.iter().filter(|row| row.digest < 100).count(), 100);
    assert_eq!(table.evicted(), 100 + 49_000 - 256);
}

#[test]
fn a_newcomer_that_comes_again_stays() {
    let mut table = DigestTable::new(256, 0);
    for digest in 0..20_000 {
        record(&mut table, &sample(digest, 100));
        if digest > 10_000 && digest % 4 == 0 {
            record(&mut table, &sample(5, 100));
        }
    }
    let rows = table.rows(DigestQuery::ALL);
    let newcomer = rows.iter().find(|row| row.digest == 5).expect("the repeated statement");
    assert!(newcomer.sums.count_star > 2_400, "{}", newcomer.sums.count_star);
}

#[test]
fn a_heavy_row_that_is_no_longer_seen_leaves_in_the_end() {
    let mut table = DigestTable::new(16, 0);
    (0..16).for_each(|digest| record(&mut table, &sample(digest, 1_000_000)));
    let later = 1_000 + 21 * HALF_LIFE_SEC;
    (100..115).for_each(|digest| {
        record(&mut table, &StatementSample { now_unix_sec: later, ..sample(digest, 100) });
    });
    let old = table.rows(DigestQuery::ALL).iter().filter(|row| row.digest < 16).count();
    assert_eq!(old, 1);
}

#[test]
fn a_reader_gets_the_first_rows_of_the_order_it_wants() {
    let mut table = DigestTable::new(100, 0);
    (1..=50).for_each(|digest| record(&mut table, &sample(digest, digest)));
    (0..9).for_each(|_| record(&mut table, &sample(1, 0)));
    let get = |order, rows_max| {
        let rows = table.rows(DigestQuery { order, rows_max });
        let mut digests: Vec<u64> = rows.iter().map(|row| row.digest).collect();
        digests.sort_unstable();
        digests
    };
    assert_eq!(get(DigestOrder::SumTime, 3), [48, 49, 50]);
    assert_eq!(get(DigestOrder::CountStar, 1), [1]);
    assert_eq!(get(DigestOrder::SumTime, 0), [] as [u64; 0]);
    assert_eq!(get(DigestOrder::SumTime, 1_000).len(), 50);
}

#[test]
fn orders_are_found_by_the_names_of_their_columns() {
    for order in DigestOrder::ALL {
        assert_eq!(DigestOrder::from_name(order.name()), Some(order));
    }
    assert_eq!(DigestOrder::from_name("digest"), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nothing_is_lost_when_rows_leave(
        rows_max in 1_usize..40,
        statements in prop::collection::vec((0_u64..80, 0_u64..1 << 40, any::<bool>()), 0..400),
    ) {
        let mut table = DigestTable::new(rows_max, 1);
        let mut expected = DigestSums::default();
        for (digest, latency_us, failed) in statements {
            let sample = StatementSample {
                error: failed.then_some(1064),
                rows_sent: digest,
                ..sample(digest, latency_us)
            };
            record(&mut table, &sample);
            expected.record(&sample);
            prop_assert!(table.len() <= rows_max);
        }
        prop_assert_eq!(total(&table), expected);
        let mut rows = table.rows(DigestQuery::ALL);
        rows.sort_by(|a, b| a.key().cmp(&b.key()));
        prop_assert!(rows.windows(2).all(|pair| pair[0].key() != pair[1].key()));
    }
}
