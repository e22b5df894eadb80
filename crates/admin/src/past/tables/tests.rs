use std::{fs, path::PathBuf, time::Duration};

use trunkline_history::History;

use super::*;

/// A Monday at midnight.
const MONDAY: u64 = 1_790_553_600 / 86_400 * 86_400;

/// A folder that goes with this.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("trunkline-past-{name}-{}", std::process::id()));
        drop(fs::remove_dir_all(&path));
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// Ten seconds of a proxy that answers a statement a second.
fn frame(begin: u64) -> Frame {
    let figures = [
        ("Questions", begin - MONDAY + 10),
        ("Client_Connections_aborted", 3),
        ("Query_Cache_count_GET", 7),
        (USER_TICKS, (begin - MONDAY) / 10),
    ];
    let server = ServerLine {
        hostgroup: 4,
        address: "db:3307".to_owned(),
        state: 1,
        used: 2,
        counters: [10, 20, 30, 40, 50],
        ..ServerLine::default()
    };
    Frame {
        begin,
        seconds: 10,
        figures: figures.map(|(name, value)| (name.to_owned(), value)).to_vec(),
        servers: vec![server],
        ..Frame::default()
    }
}

fn wide() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

fn rows(folder: &Folder, table: &str, interval: u64, now: u64) -> Vec<Vec<Value>> {
    let asked: Vec<_> = named(table).into_iter().map(|table| (table, interval)).collect();
    assert_eq!(asked.len(), 1, "{table}");
    let mut filled = read(&folder.0, &asked, now, wide()).expect("read");
    filled.pop().expect("a table").1
}

fn column(rows: &[Vec<Value>], at: usize) -> Vec<i64> {
    let number = |row: &Vec<Value>| match row[at] {
        Value::Integer(number) => number,
        _ => panic!("{row:?}"),
    };
    rows.iter().map(number).collect()
}

#[test]
fn samples_hours_and_days_are_made_of_frames() {
    let folder = Folder::new("made");
    let mut history = History::open(&folder.0, 100_000_000).expect("opened");
    // Two days and an hour, of which the last hour is not over.
    let seconds = 2 * 86_400 + 3_600;
    (0..seconds / 10).for_each(|at| history.add(&frame(MONDAY + at * 10)).expect("written"));
    let now = MONDAY + seconds;
    let start = i64::try_from(MONDAY).expect("fits");
    let days = rows(&folder, "mysql_connections_day", 60, now);
    assert_eq!(column(&days, 0), [start, start + 86_400]);
    assert_eq!(column(&days, 10), [86_400, 2 * 86_400]);
    let hours = rows(&folder, "system_cpu_hour", 60, now);
    assert_eq!(hours.len(), 48);
    assert_eq!(hours[1], [start + 3_600, 719, 0].map(Value::Integer));
    // Each minute, every fifth one, every ten seconds, and nothing.
    let minutes = rows(&folder, "mysql_connections", 60, now);
    assert_eq!(minutes.len(), usize::try_from(seconds / 60 - 1).expect("fits"));
    assert_eq!(column(&minutes[..2], 0), [start + 60, start + 120]);
    assert_eq!(column(&minutes[..2], 10), [60, 120]);
    let fives = rows(&folder, "mysql_connections", 250, now);
    assert!(fives.len().abs_diff(minutes.len() / 5) <= 1, "{}", fives.len());
    let fine = rows(&folder, "mysql_query_cache", 1, now);
    assert_eq!(fine.len(), usize::try_from(seconds / 10).expect("fits"));
    assert_eq!(fine[0][..3], [start + 10, 7, 0].map(Value::Integer));
    assert!(rows(&folder, "mysql_connections", 0, now).is_empty());
    // What frames do not know has no row.
    assert!(rows(&folder, "system_memory", 60, now).is_empty());
    // Samples leave after a week, hours after a year.
    let later = now + SAMPLES_BACK - 86_400;
    assert_eq!(rows(&folder, "mysql_connections", 60, later).len(), 24 * 60 - 1);
    assert_eq!(rows(&folder, "system_cpu_hour", 60, later).len(), 48);
    assert!(rows(&folder, "system_cpu_hour", 60, now + 366 * 86_400).is_empty());
}

#[test]
fn servers_and_status_variables_have_a_row_each() {
    let folder = Folder::new("each");
    let mut history = History::open(&folder.0, 100_000_000).expect("opened");
    (0..12).for_each(|at| history.add(&frame(MONDAY + at * 10)).expect("written"));
    let pool = rows(&folder, "history_stats_mysql_connection_pool", 60, MONDAY + 120);
    assert_eq!(pool.len(), 1);
    let text = |text: &str| Value::Text(text.to_owned());
    assert_eq!(pool[0][2..5], [text("db"), Value::Integer(3_307), text("SHUNNED")]);
    assert_eq!(pool[0][10..14], [30, 0, 40, 50].map(Value::Integer));
    let names = rows(&folder, "history_mysql_status_variables_lookup", 60, MONDAY + 120);
    let questions = names.iter().find(|row| row[1] == text("Questions")).expect("a name");
    let values = rows(&folder, "history_mysql_status_variables", 60, MONDAY + 120);
    // One of the kernel's is no status variable.
    assert_eq!(values.len(), 3);
    let found = values.iter().find(|row| row[1] == questions[0]).expect("a value");
    assert_eq!(found[2], text("60"));
}

#[test]
fn rows_and_time_have_a_limit() {
    let mut maker = Maker::new(named("history_mysql_status_variables")[0], 60);
    let frames = u64::try_from(ROWS_MAX).expect("fits") / 3 + 10;
    for at in 0..frames {
        maker.add(&frame(MONDAY + at * 60));
    }
    assert!(maker.count <= ROWS_MAX && maker.count > ROWS_MAX - 3, "{}", maker.count);
    let last = maker.rows.last_key_value().expect("rows");
    assert_eq!(*last.0, MONDAY + (frames - 1) * 60 + 10, "the newest are kept");

    let folder = Folder::new("late");
    let mut history = History::open(&folder.0, 100_000_000).expect("opened");
    (0..12).for_each(|at| history.add(&frame(MONDAY + at * 10)).expect("written"));
    let asked = [(named("system_cpu")[0], 60)];
    let late = read(&folder.0, &asked, MONDAY + 120, Instant::now());
    assert!(matches!(late, Err(Unread::TooLong)), "{late:?}");
}

#[test]
fn tables_are_named_by_their_whole_names() {
    let names = |sql: &str| named(sql).iter().map(|table| table.name).collect::<Vec<_>>();
    assert_eq!(names("select * from stats_history.system_cpu_hour"), ["system_cpu_hour"]);
    assert_eq!(names("select 1 from `system_cpu`, system_memory"), ["system_cpu", "system_memory"]);
    assert!(names("set admin-stats_mysql_connections = 10").is_empty());
    assert!(names("select * from stats_mysql_query_cache").is_empty());
}
