//! How much memory names take: `cargo run --release -p trunkline-catalog --example weight`.

use trunkline_catalog::{Catalog, Hidden, Kind, Name, Object, Told};
use trunkline_topology::HostgroupId;

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn main() {
    let plain = Object { kind: Kind::Table, reading: Hidden::empty(), writing: Hidden::empty() };
    let told = Told { object: Some(plain), ..Told::NOTHING };
    for count in [100_000_u32, 200_000] {
        let before = resident();
        let catalog = Catalog::default();
        let moment = catalog.moment(0);
        for at in 0..count {
            let name = Name {
                group: HostgroupId(1),
                schema: format!("customer_{}", at / 100).into_bytes().into(),
                table: format!("some_table_of_theirs_{}", at % 100).into_bytes().into(),
            };
            catalog.tell(name, told, moment, 0);
        }
        let (entries, after) = (catalog.figures().entries, resident());
        println!("{entries} names: {} KiB", after.saturating_sub(before));
    }
}
