//! Times beyond 2038 and 2106, where seconds in 31 and 32 bits end (fault M7). Leases and limits of rates take a monotonic time, and nothing reads a time zone.

use taut_netmap::ProblemCode;

use super::world::{Directory, TestCoordinator, TestHost};
use crate::clock::unix_now;
use crate::state::Expiry;
use crate::store::{Location, MARKED, execute, execute_on_file};

/// Seconds since 1970 in the year 2038, in 2106, in 2514 and in 36812.
const LATE: [i64; 4] = [1 << 31, 1 << 32, 1 << 34, 1 << 40];

/// Executes statements on a database that a coordinator is serving.
fn edit(coordinator: &TestCoordinator, database: &Location, statements: &str) {
    coordinator.wait(async {
        match database {
            Location::Directory(directory) => execute_on_file(directory, statements).await,
            Location::Server(_) => execute(database, statements).await.unwrap(),
        }
    });
}

#[test]
fn fault_m7_times_beyond_2038_and_2106_are_stored_shown_and_compared() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let (database, operator) = (directory.database(), coordinator.operator_token().to_owned());
    let node = coordinator.join("a");
    for late in LATE {
        // The widest values of each column with a time.
        let set = format!(
            "UPDATE nodes SET created_at = {late}, last_seen_at = {late}, keys_full_at = {late}; UPDATE networks SET created_at = {late}; \
             UPDATE keys SET created_at = {late}, expires_at = {late} + 1; UPDATE operators SET created_at = {late}"
        );
        edit(&coordinator, &database, &set);
        let shown = |path: &str, list: &str, field: &str| {
            let (status, answer) = coordinator.ask("GET", &format!("/api/v1/{path}"), Some(&operator), None);
            assert_eq!(status, 200, "{answer}");
            answer[list][0][field].as_i64().unwrap()
        };
        assert_eq!(shown("nodes", "nodes", "created_at"), late);
        assert_eq!(shown("nodes", "nodes", "last_seen_at"), late);
        assert_eq!(shown("networks", "networks", "created_at"), late);
        assert_eq!(shown("keys", "keys", "expires_at"), late + 1);
        assert_eq!(shown("operator-tokens", "operator_tokens", "created_at"), late);
        coordinator.state.forget_views();
        assert!(node.host.resume(&coordinator, &coordinator.token(), None).is_ok());
        // A key that ends then is valid now.
        coordinator.join("late");
        // A mark and a revocation of that time are kept for as long as any other.
        let host = coordinator.join("gone").host;
        coordinator.wait(coordinator.state.remove_node(None, "gone")).unwrap();
        edit(&coordinator, &database, &format!("UPDATE nodes SET removed_at = {late} WHERE removed_at IS NOT NULL"));
        edit(&coordinator, &database, &format!("UPDATE revocations SET revoked_at = {late}"));
        let revocations = || {
            let tx = async {
                let mut tx = coordinator.state.store().read(crate::store::Party::Coordinator).await.unwrap();
                tx.revocations(0, 10).await.unwrap().rows
            };
            coordinator.wait(tx).iter().map(|row| row.revoked_at).collect::<Vec<_>>()
        };
        for now in [late, late + MARKED] {
            coordinator.wait(coordinator.state.forget_marks(now)).unwrap();
            assert_eq!(revocations(), [late]);
        }
        let refused = host.resume(&coordinator, &coordinator.token(), None).err().unwrap();
        assert_eq!(refused.code, ProblemCode::NotAMember);
        // As after the versions of its time are forgotten.
        edit(&coordinator, &database, "UPDATE nodes SET version = 0 WHERE removed_at IS NOT NULL");
        coordinator.wait(coordinator.state.forget_marks(late + MARKED + 1)).unwrap();
        assert_eq!(revocations(), [0_i64; 0]);
    }
    // A key that ended long ago, and one that ends in ten years.
    let (_, expired) = coordinator.key(true, Expiry::Seconds(1));
    edit(&coordinator, &database, &format!("UPDATE keys SET expires_at = {} WHERE id > 1", unix_now() - 1));
    assert_eq!(TestHost::new().join(&coordinator, &expired, "x").err().unwrap().code, ProblemCode::Enrolment);
    let (_, longest) = coordinator.key(true, Expiry::Seconds(crate::state::LONGEST_EXPIRY));
    TestHost::new().join(&coordinator, &longest, "x").unwrap();
}
