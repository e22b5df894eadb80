//! Entries by key.

use crate::{ClientId, table::Table};

fn table(entries: &[&'static str]) -> (Table<ClientId, &'static str>, Vec<ClientId>) {
    let mut table = Table::new();
    let keys = entries.iter().map(|entry| table.insert_with(|_| *entry)).collect();
    (table, keys)
}

#[test]
fn an_entry_is_made_knowing_its_key() {
    let mut table: Table<ClientId, ClientId> = Table::new();
    let key = table.insert_with(|key| key);
    assert_eq!(table.get(key), Some(&key));
}

#[test]
fn no_two_entries_have_one_key() {
    let (mut table, keys) = table(&["a", "b", "c"]);
    table.remove(keys[1]);
    let next = table.insert_with(|_| "d");
    assert!(!keys.contains(&next));
    assert_eq!(table.get(keys[1]), None);
    assert_eq!(table.len(), 3);
}

#[test]
fn keys_are_those_of_the_entries_that_are_there() {
    let (mut table, keys) = table(&["a", "b", "c"]);
    table.remove(keys[0]);
    assert_eq!(table.keys(), keys[1..]);
}

#[test]
fn only_wanted_entries_are_found() {
    let (table, keys) = table(&["a", "b", "a"]);
    assert_eq!(table.keys_where(|entry| *entry == "a"), [keys[0], keys[2]]);
}

#[test]
fn each_entry_is_changed_once() {
    let (mut table, keys) = table(&["a", "b"]);
    let mut seen = Vec::new();
    table.for_each_mut(|key, entry| {
        seen.push(key);
        *entry = "changed";
    });
    assert_eq!(seen, keys);
    assert!(table.values().all(|entry| *entry == "changed"));
}

#[test]
fn an_entry_is_changed_by_its_key_alone() {
    let (mut table, keys) = table(&["a", "b"]);
    *table.get_mut(keys[1]).expect("an entry") = "c";
    table.remove(keys[0]);
    assert_eq!(table.get_mut(keys[0]), None);
    assert_eq!(table.get(keys[1]), Some(&"c"));
}
