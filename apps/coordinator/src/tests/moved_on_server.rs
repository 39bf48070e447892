//! Coordinators that move between SQLite and PostgreSQL: every row of every table arrives, whatever release wrote it.

use tokio::runtime::Runtime;

use super::world::Directory;
use crate::state::{findings, migrate};
use crate::store::{Contents, Dump, Location, contents};

/// Tables that describe a database and not a coordinator: what was upgraded, and what SQLite and PostgreSQL call the last numbers; the lock of PostgreSQL, which has another name after a move.
const OF_THE_DATABASE: [&str; 5] = ["_sqlx_migrations", "sqlite_sequence", "sequences", "turns", "turns_moved"];

/// Returns the rows of each table, sorted, without the mark of a database from which a coordinator moved.
fn rows(contents: Contents) -> Contents {
    let mut tables: Contents =
        contents.into_iter().filter(|(table, _)| !OF_THE_DATABASE.contains(&table.as_str())).collect();
    for rows in tables.values_mut() {
        rows.retain(|row| !row.get("name").is_some_and(|name| name.contains("'moved'")));
        rows.sort();
    }
    tables
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    Runtime::new().unwrap().block_on(future)
}

#[test]
#[ignore = "needs a PostgreSQL server: tools/with_postgres"]
fn fault_o8_every_row_of_each_released_database_arrives_in_the_other_kind_and_comes_back() {
    for of_server in [false, true] {
        let directories = [Directory::new(), Directory::new(), Directory::new()];
        let location = |number: usize, on_server: bool| match on_server {
            true => directories[number].database(),
            false => Location::Directory(directories[number].0.clone()),
        };
        let [from, through, to] = [location(0, of_server), location(1, !of_server), location(2, of_server)];
        for dump in Dump::all(&from).iter().filter(|dump| dump.version != "empty") {
            for place in [&through, &to] {
                wait(Dump::empty().load(place));
            }
            wait(dump.load(&from));
            let counts = wait(migrate(&from, &through)).unwrap();
            assert_eq!(wait(migrate(&through, &to)).unwrap(), counts, "{}", dump.version);
            // The first one was upgraded before it was copied.
            let (before, after) = (rows(wait(contents(&from))), rows(wait(contents(&to))));
            assert_eq!(before, after, "{}", dump.version);
            assert!(before["nodes"].len() > 6 && before["meta"].len() > 2, "{}", dump.version);
            assert_eq!(wait(findings(&to)).unwrap(), [""; 0]);
        }
    }
}
