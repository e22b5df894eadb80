//! JSON in the making.

use crate::json::Json;

fn made(make: impl FnOnce(&mut Json)) -> String {
    let mut json = Json::default();
    make(&mut json);
    json.out
}

#[test]
fn an_object_without_members_is_empty() {
    assert_eq!(made(|json| json.object(|_| {})), "{}");
}

#[test]
fn an_array_without_items_is_empty() {
    assert_eq!(made(|json| json.array::<u8>(&[], |_, _| panic!("no item"))), "[]");
}

#[test]
fn members_of_an_inner_object_are_apart_from_those_around_it() {
    let text = made(|json| {
        json.object(|json| {
            json.truth("a", true);
            json.name("b");
            json.object(|json| json.number("c", -1));
            json.number("d", 2);
        });
    });
    assert_eq!(text, r#"{"a":true,"b":{"c":-1},"d":2}"#);
}

#[test]
fn control_characters_are_written_by_their_number() {
    assert_eq!(made(|json| json.quoted("\u{1}\té")), "\"\\u0001\\u0009é\"");
}
