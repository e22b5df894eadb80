use trunkline_catalog::{Kind, Object, Told};
use trunkline_sql::{analysis::analyse, token::Modes};

use super::*;

const GROUP: HostgroupId = HostgroupId(1);

fn held_for(text: &str) -> Pins {
    let mut pins = Pins::default();
    let schema = Schema::from(&b"shop"[..]);
    hold_names(&mut pins, &analyse(text.as_bytes(), &Modes::default()), &schema);
    pins
}

fn tell(catalog: &Catalog, table: &[u8], told: Told) {
    let name = Name { group: GROUP, schema: b"shop"[..].into(), table: table.into() };
    assert!(catalog.tell(name, told, catalog.moment(1), 1));
}

fn is(reading: Hidden) -> Told {
    let object = Object { kind: Kind::View, reading, writing: Hidden::empty() };
    Told { object: Some(object), ..Told::NOTHING }
}

#[test]
fn names_hold_until_all_are_known_to_be_harmless() {
    let catalog = Catalog::default();
    let mut pins = held_for("SELECT 1 FROM a, shop.b");
    assert_eq!(settle_names(&mut pins, GROUP, &catalog, 1).len(), 2);
    tell(&catalog, b"a", is(Hidden::WRITES));
    assert_eq!(settle_names(&mut pins, GROUP, &catalog, 1).len(), 1);
    assert!(pins.has(PinReason::UnknownName));
    tell(&catalog, b"b", Told { is_absent: true, ..Told::NOTHING });
    assert_eq!(settle_names(&mut pins, GROUP, &catalog, 1), []);
    assert!(pins.is_empty());
}

#[test]
fn what_a_view_may_have_left_goes_on_to_hold() {
    for hidden in [Hidden::LEAVES, Hidden::STAYS, Hidden::OPAQUE] {
        let catalog = Catalog::default();
        let mut pins = held_for("SELECT 1 FROM a");
        tell(&catalog, b"a", is(hidden));
        assert_eq!(settle_names(&mut pins, GROUP, &catalog, 1), [], "{hidden:?}");
        let reasons: Vec<PinReason> = pins.reasons().collect();
        assert_eq!(reasons, [PinReason::Routine], "{hidden:?}");
    }
}

#[test]
fn who_said_nothing_and_a_reader_release_nobody() {
    let of_reader = Told { is_of_reader: true, ..is(Hidden::empty()) };
    for told in [Told::NOTHING, of_reader] {
        let catalog = Catalog::default();
        let mut pins = held_for("SELECT 1 FROM a");
        tell(&catalog, b"a", told);
        assert_eq!(settle_names(&mut pins, GROUP, &catalog, 1).len(), 1, "{told:?}");
        assert!(pins.has(PinReason::UnknownName), "{told:?}");
    }
}
