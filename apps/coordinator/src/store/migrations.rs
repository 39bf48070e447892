//! The migrations of each database, embedded in the program. They are listed here, because the macro of sqlx that reads their folder compiles SQLite a second
//! time.

use std::sync::LazyLock;

use sqlx::SqlSafeStr;
use sqlx::migrate::{Migration, MigrationType, Migrator};

/// Lists files of the folder `migrations` by version and description.
macro_rules! files {
    ($($version:literal $description:literal $file:literal)+) => {
        [$(($version, $description, include_str!(concat!("../../migrations/", $file)))),+]
    };
}

/// Version, description and statements of each migration. A released one is never edited: its checksum is checked at every start.
const FOR_SQLITE: [(i64, &str, &str); 15] = files! {
    1 "first" "sqlite/0001_first.sql"
    2 "operators" "sqlite/0002_operators.sql"
    3 "relays" "sqlite/0003_relays.sql"
    4 "key changes" "sqlite/0004_key_changes.sql"
    5 "removed networks" "sqlite/0005_removed_networks.sql"
    6 "joined from" "sqlite/0006_joined_from.sql"
    7 "revocations" "sqlite/0007_revocations.sql"
    8 "people" "sqlite/0008_people.sql"
    9 "devices" "sqlite/0009_devices.sql"
    10 "policies" "sqlite/0010_policies.sql"
    11 "oidc" "sqlite/0011_oidc.sql"
    12 "webhooks" "sqlite/0012_webhooks.sql"
    13 "logins" "sqlite/0013_logins.sql"
    14 "routes" "sqlite/0014_routes.sql"
    15 "names" "sqlite/0015_names.sql"
};

/// The same for PostgreSQL, which begins with the tables that SQLite has after its sixth.
const FOR_POSTGRES: [(i64, &str, &str); 10] = files! {
    6 "first" "postgres/0006_first.sql"
    7 "revocations" "postgres/0007_revocations.sql"
    8 "people" "postgres/0008_people.sql"
    9 "devices" "postgres/0009_devices.sql"
    10 "policies" "postgres/0010_policies.sql"
    11 "oidc" "postgres/0011_oidc.sql"
    12 "webhooks" "postgres/0012_webhooks.sql"
    13 "logins" "postgres/0013_logins.sql"
    14 "routes" "postgres/0014_routes.sql"
    15 "names" "postgres/0015_names.sql"
};

/// The migrations, which update a database of any earlier version.
pub(super) static SQLITE: LazyLock<Migrator> = LazyLock::new(|| migrator(&FOR_SQLITE));

/// The same for PostgreSQL.
pub(super) static POSTGRES: LazyLock<Migrator> = LazyLock::new(|| migrator(&FOR_POSTGRES));

fn migrator(files: &'static [(i64, &'static str, &'static str)]) -> Migrator {
    let migration = |&(version, description, sql): &(i64, &'static str, &'static str)| {
        Migration::new(version, description.into(), MigrationType::Simple, sql.into_sql_str(), false)
    };
    Migrator::with_migrations(files.iter().map(migration).collect())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[tokio::test]
    async fn every_file_of_the_folder_is_listed() {
        let facts = |migrator: &Migrator| {
            let facts = |one: &Migration| (one.version, one.description.to_string(), one.checksum.to_vec());
            migrator.iter().map(facts).collect::<Vec<_>>()
        };
        for (name, listed) in [("sqlite", &SQLITE), ("postgres", &POSTGRES)] {
            let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations")).join(name);
            assert_eq!(facts(listed), facts(&Migrator::new(folder.as_path()).await.unwrap()), "{name}");
        }
        let last = |migrator: &Migrator| migrator.iter().map(|one| one.version).max();
        assert_eq!(last(&SQLITE), last(&POSTGRES), "both databases have the same tables");
    }
}
