//! Upgrades of released databases (fault L1): each dump of tests/dumps is loaded, upgraded, and compared row by row.

use std::collections::BTreeMap;
use std::path::Path;

use taut_testkit::{Seeded, seeds};
use tokio::runtime::Runtime;

use super::world::{Directory, TestCoordinator};
use crate::state::findings;
use crate::store::{Contents, Dump, DumpedRow, Location, Purpose, Store, contents, dumped_migrations, interrupted};

/// Values of columns that a release has and an earlier one does not, in rows of the earlier one: table, column, literal. The migration says why.
const ADDED: [(&str, &str, &str); 28] = [
    ("networks", "removed_at", "NULL"),
    ("nodes", "keys_full_at", "0"),
    ("nodes", "joined_key", "NULL"),
    ("nodes", "joined_host", "NULL"),
    ("nodes", "joined_site", "NULL"),
    ("relays", "busy", "0"),
    ("networks", "approval", "0"),
    ("networks", "key_life", "NULL"),
    ("keys", "most_uses", "NULL"),
    ("keys", "ephemeral", "NULL"),
    ("keys", "tags", "[]"),
    ("keys", "approves", "0"),
    ("keys", "owner", "NULL"),
    ("nodes", "owner", "NULL"),
    ("nodes", "tags", "[]"),
    ("nodes", "approved", "1"),
    ("nodes", "disabled", "0"),
    ("nodes", "expires_at", "NULL"),
    ("nodes", "expired", "0"),
    ("nodes", "key_life", "NULL"),
    ("nodes", "ephemeral", "NULL"),
    ("nodes", "absent", "NULL"),
    ("nodes", "part_version", "0"),
    ("networks", "groups_version", "0"),
    ("nodes", "advertised", "[]"),
    ("nodes", "routes", "[]"),
    ("networks", "names", "{}"),
    ("networks", "names_version", "0"),
];

/// Tables to which an upgrade adds rows: the migrations that sqlx records, and the last numbers that were given, of SQLite and of PostgreSQL's sequences.
const GROWING: [&str; 3] = ["_sqlx_migrations", "sqlite_sequence", "sequences"];

/// Interruptions of each upgrade: by day and at night.
const CUTS: (u64, u64) = (40, 600);

/// More steps than any upgrade has.
const ALL: u64 = 1 << 40;

fn wait<T>(future: impl Future<Output = T>) -> T {
    Runtime::new().unwrap().block_on(future)
}

async fn upgrade(location: &Location) {
    Store::open(location, Purpose::Copy).await.unwrap().close().await;
}

/// Panics unless a database has the rows that it had before its upgrade, and what the migrations say about new columns.
fn assert_same(dump: &Dump, before: &Contents, after: &Contents) {
    let version = &dump.version;
    for (table, old) in before {
        let new = &after[table];
        if GROWING.contains(&table.as_str()) {
            assert!(old.iter().all(|row| new.contains(row)), "{version}: {table} {old:?} {new:?}");
            continue;
        }
        assert_eq!(new.len(), old.len(), "{version}: {table}");
        let columns: Vec<&String> = old.first().into_iter().flat_map(BTreeMap::keys).collect();
        let known = |row: &DumpedRow| columns.iter().map(|column| row[*column].clone()).collect::<Vec<_>>();
        let sorted = |rows: &[DumpedRow]| {
            let mut rows: Vec<_> = rows.iter().map(known).collect();
            rows.sort();
            rows
        };
        assert_eq!(sorted(new), sorted(old), "{version}: {table}");
        for (column, value) in new.iter().flatten().filter(|(column, _)| !columns.contains(column)) {
            let added = ADDED.iter().find(|(in_table, name, _)| in_table == table && name == column);
            let (_, _, expected) = added.unwrap_or_else(|| panic!("{version}: {table}.{column} is not in ADDED"));
            assert_eq!(value.trim_matches('\''), *expected, "{version}: {table}.{column}");
        }
    }
    for (table, rows) in after.iter().filter(|(table, _)| !before.contains_key(*table)) {
        if table == "revocations" {
            // Those of the removed nodes, whose tickets relays must refuse.
            let removed = before.get("nodes").into_iter().flatten().filter(|row| row["removed_at"] != "NULL");
            assert_eq!(rows.len(), removed.count(), "{version}: {table} {rows:?}");
            continue;
        }
        if table == "policies" {
            // In each existing network every member may still reach every other.
            let networks = before.get("networks").into_iter().flatten();
            let exists = |row: &&DumpedRow| row.get("removed_at").is_none_or(|at| at == "NULL");
            assert_eq!(rows.len(), networks.filter(exists).count(), "{version}: {table} {rows:?}");
            assert!(rows.iter().all(|row| row["number"] == "1" && row["text"].contains("*:*")), "{version}: {rows:?}");
            continue;
        }
        assert!(rows.is_empty() || GROWING.contains(&table.as_str()), "{version}: {table} {rows:?}");
    }
}

#[test]
fn fault_l1_every_released_database_has_the_same_content_after_its_upgrade() {
    let directory = Directory::new();
    let location = directory.database();
    for dump in Dump::all(&location).iter().filter(|dump| dump.version != "empty") {
        wait(dump.load(&location));
        let before = wait(contents(&location));
        // Otherwise the dump shows nothing.
        for table in ["meta", "operators", "networks", "history", "keys", "nodes", "relays"] {
            assert!(before[table].len() > 2, "{}: {table}", dump.version);
        }
        assert_eq!(wait(findings(&location)).unwrap(), [""; 0], "{}", dump.version);
        for _ in 0..2 {
            wait(upgrade(&location));
            assert_same(dump, &before, &wait(contents(&location)));
        }
        assert_eq!(wait(findings(&location)).unwrap(), [""; 0], "{}", dump.version);
        let coordinator = TestCoordinator::start_on(&directory, &location);
        let listed = coordinator.wait(coordinator.state.nodes(None)).unwrap();
        let members = before["nodes"].iter().filter(|row| row["removed_at"] == "NULL").count();
        assert_eq!(listed.len(), members, "{}", dump.version);
        assert!(coordinator.first.is_none(), "{}: its tokens stay", dump.version);
    }
}

#[test]
fn fault_l1_an_upgrade_that_is_interrupted_at_any_step_can_be_started_again() {
    let directory = Directory::new();
    let location = directory.database();
    for dump in &Dump::all(&location) {
        wait(dump.load(&location));
        let before = wait(contents(&location));
        let steps = wait(steps(dump, &location));
        let (by_day, by_night) = CUTS;
        for seed in seeds(by_day, by_night) {
            let mut random = Seeded::new(seed);
            let step = random.below_u64(steps);
            wait(dump.load(&location));
            assert!(wait(interrupted(&location, step)), "{}: step {step} of {steps}", dump.version);
            // The next start is interrupted as well, anywhere, also after its last step.
            wait(interrupted(&location, random.below_u64(steps + 1)));
            wait(upgrade(&location));
            assert_same(dump, &before, &wait(contents(&location)));
        }
    }
}

/// Returns the least number of steps with which an upgrade succeeds.
async fn steps(dump: &Dump, location: &Location) -> u64 {
    let (mut too_few, mut enough) = (0, 1);
    while interrupted_from(dump, location, enough).await {
        (too_few, enough) = (enough, enough * 2);
        assert!(enough < ALL, "{}: the upgrade never ends", dump.version);
    }
    while too_few + 1 < enough {
        let middle = too_few.midpoint(enough);
        match interrupted_from(dump, location, middle).await {
            true => too_few = middle,
            false => enough = middle,
        }
    }
    enough
}

async fn interrupted_from(dump: &Dump, location: &Location, steps: u64) -> bool {
    dump.load(location).await;
    interrupted(location, steps).await
}

#[test]
fn fault_l1_released_migrations_are_not_edited_and_each_release_has_a_dump() {
    let directory = Directory::new();
    let location = directory.database();
    let dumps = Dump::all(&location);
    let own = dumped_migrations(&location);
    for dump in dumps.iter().filter(|dump| dump.version != "empty") {
        wait(dump.load(&location));
        let recorded = &wait(contents(&location))[GROWING[0]];
        let text = |literal: &str| literal.trim_matches('\'').to_owned();
        for row in recorded {
            let version: i64 = text(&row["version"]).parse().unwrap();
            let own = own.iter().find(|(number, _, _)| *number == version);
            let (_, description, checksum) =
                own.unwrap_or_else(|| panic!("migration {version}, of {}, is missing", dump.version));
            let what = "was edited after the dump was made; a released migration stays as it is, and a change is a new one; \
                        for one that was never released run `tools/dumps next`";
            assert_eq!(&text(&row["description"]), description, "migration {version} of {} {what}", dump.version);
            let digits = row["checksum"].trim_end_matches('\'').to_lowercase();
            assert!(digits.ends_with(checksum), "migration {version} of {} {what}", dump.version);
        }
        let has_all = recorded.len() == own.len();
        assert!(has_all || dump.version != "next", "there are new migrations: run `tools/dumps next`");
    }
    let table = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/releases.md"));
    let table = std::fs::read_to_string(table).unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
    let released =
        rows.map(|(version, _)| version).filter(|version| version.starts_with(|first: char| first.is_ascii_digit()));
    // Release 0.1.0 has no PostgreSQL.
    let released = released.filter(|version| *version != "0.1.0" || matches!(location, Location::Directory(_)));
    for version in released.chain(["next"]) {
        let is_there = dumps.iter().any(|dump| dump.version == version);
        assert!(is_there, "there is no dump of release {version}: run `tools/dumps {version}`");
    }
}
