//! PostgreSQL: a server that refuses changes in the middle or at their end, has no connection left, or stalls (fault O6). `tools/with_postgres` runs these tests.

use std::time::{Duration, Instant};

use serde_json::json;
use taut_netmap::{ProblemCode, ToCoordinator, ToNode};
use zeroize::Zeroizing;

use super::world::{Directory, TestCoordinator, TestHost, TestNode};
use crate::store::{Location, SilentLine, end_connections, execute};

const KEYS: &str = "/api/v1/keys";
const NEEDS_SERVER: &str = "tools/with_postgres runs this test with a server";

/// Longest wait until changes are stored again, 60 s.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(60);

/// Makes a role that is no superuser, so that limits apply to it, and returns the database, which belongs to it, as it sees it.
async fn with_role(database: &Location, name: &str) -> Option<Location> {
    let Location::Server(url) = database else { return None };
    let make = format!(
        "CREATE ROLE {name} LOGIN; \
         DO $$ BEGIN EXECUTE format('ALTER DATABASE %I OWNER TO {name}', current_database()); END $$; \
         ALTER SCHEMA public OWNER TO {name}"
    );
    execute(database, &make).await?;
    Some(Location::Server(Zeroizing::new(url.replace("://taut@", &format!("://{name}@")))))
}

/// Waits until a key can be made.
fn goes_on(coordinator: &TestCoordinator) {
    let began = Instant::now();
    while coordinator.ask("POST", KEYS, Some(coordinator.operator_token()), Some("{}")).0 != 201 {
        assert!(began.elapsed() < RECOVERY_TIMEOUT, "it does not go on");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Asserts that the channel is open and answers.
#[track_caller]
fn is_served(node: &mut TestNode) {
    node.channel.send(&ToCoordinator::Ping);
    loop {
        match node.channel.receive().expect("an open channel") {
            ToNode::Pong => return,
            message => node.handle(message),
        }
    }
}

#[test]
#[ignore = "needs a PostgreSQL server: tools/with_postgres"]
fn fault_o6_changes_that_fail_by_serialization_are_made_once_when_they_are_repeated() {
    let directory = Directory::new();
    let database = directory.database();
    let coordinator = TestCoordinator::start(&directory);
    let (token, operator) = (coordinator.token(), coordinator.operator_token());
    let mut node = coordinator.join("a");
    // Two of three changes fail, some at their statement and some at their commit, as with another isolation level or a distributed database.
    let trigger = "CREATE SEQUENCE tries; \
         CREATE FUNCTION fails() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN \
         IF nextval('tries') % 3 <> 0 THEN RAISE EXCEPTION 'could not serialize access' USING ERRCODE = TG_ARGV[0]; END IF; RETURN NEW; END $$; \
         CREATE TRIGGER at_statement BEFORE INSERT ON keys FOR EACH ROW EXECUTE FUNCTION fails('40001'); \
         CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON nodes DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fails('40001'); \
         CREATE CONSTRAINT TRIGGER deadlock AFTER UPDATE OF name ON nodes DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fails('40P01')";
    coordinator.wait(execute(&database, trigger)).expect(NEEDS_SERVER);
    let mut failed = 0;
    for number in 0..8 {
        let host = TestHost::new();
        let began = Instant::now();
        let joined = loop {
            match host.join(&coordinator, &token, &format!("n{number}")) {
                Ok(joined) => break joined,
                Err(problem) => {
                    failed += 1;
                    assert_eq!(problem.code, ProblemCode::Unavailable, "{problem}");
                    assert!(began.elapsed() < RECOVERY_TIMEOUT);
                }
            }
        };
        goes_on(&coordinator);
        let id = joined.id().to_string();
        while let Err(error) = coordinator.wait(coordinator.state.rename_node(None, &id, &format!("r{number}"))) {
            failed += 1;
            assert!(began.elapsed() < RECOVERY_TIMEOUT, "{error}");
        }
    }
    assert!(failed >= 8, "{failed} changes failed");
    // As many rows as changes that were acknowledged.
    assert_eq!(coordinator.wait(coordinator.state.nodes(None)).unwrap().len(), 9);
    let keys = coordinator.wait(coordinator.state.keys(None)).unwrap();
    assert_eq!((keys.len(), keys[0].1.used), (9, 9));
    node.hear_until(|node| (0..8).all(|number| node.map.peers.values().any(|peer| peer.name == format!("r{number}"))));
    assert_eq!((node.wholes, node.map.clone()), (1, node.fresh_map(&coordinator)));
    assert_eq!(coordinator.ask("GET", KEYS, Some(operator), None).0, 200);
}

#[test]
#[ignore = "needs a PostgreSQL server: tools/with_postgres"]
fn fault_o6_without_a_free_connection_maps_come_from_memory_and_changes_fail_with_words() {
    let directory = Directory::new();
    let database = directory.database();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let role = format!("role_{}", directory.0.file_name().unwrap().to_string_lossy().replace('-', "_"));
    let own = runtime.block_on(with_role(&database, &role)).expect(NEEDS_SERVER);
    let coordinator = TestCoordinator::start_on(&directory, &own);
    let (token, operator) = (coordinator.token(), coordinator.operator_token());
    let mut node = coordinator.join("a");
    let limit = |connections: i32| {
        let alter = format!("ALTER ROLE {role} CONNECTION LIMIT {connections}");
        runtime.block_on(execute(&database, &alter)).unwrap();
    };
    for round in 0..2 {
        limit(0);
        runtime.block_on(end_connections(&database)).unwrap();
        let (status, answer) = coordinator.ask("POST", KEYS, Some(operator), Some("{}"));
        assert_eq!((status, &answer["error"]["code"]), (503, &json!("unavailable")), "round {round}");
        assert!(answer["error"]["message"].as_str().unwrap().contains("no connection left"), "{answer}");
        is_served(&mut node);
        let back = node.host.resume(&coordinator, &token, Some(node.map.clone()));
        node = back.expect("a member is known");
        let refused = TestHost::new().join(&coordinator, &token, "b").err().unwrap();
        assert!(refused.code == ProblemCode::Unavailable && !refused.code.is_final(), "{refused}");
        // Few connections are enough.
        limit(3);
        goes_on(&coordinator);
        is_served(&mut node);
    }
    limit(-1);
    goes_on(&coordinator);
    assert_eq!(coordinator.wait(coordinator.state.keys(None)).unwrap().len(), 4);
    coordinator.join("b");
    node.hear_until(|node| node.map.peers.len() == 1);
}

#[test]
#[ignore = "needs a PostgreSQL server: tools/with_postgres"]
fn fault_o6_a_server_that_stalls_costs_no_channel_and_nothing_is_done_twice() {
    let directory = Directory::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let line = runtime.block_on(SilentLine::start(&directory.database())).expect(NEEDS_SERVER);
    let coordinator = TestCoordinator::start_on(&directory, line.location());
    let operator = coordinator.operator_token();
    let mut nodes = [coordinator.join("a"), coordinator.join("b")];
    nodes[0].hear_until(|node| node.map.peers.len() == 1);
    let before = nodes.each_ref().map(|node| node.map.clone());
    line.silence(true);
    let stall = Duration::from_secs(taut_testkit::count(8, 30));
    let (began, mut failed) = (Instant::now(), 0);
    while began.elapsed() < stall {
        let (status, answer) = coordinator.ask("POST", KEYS, Some(operator), Some("{}"));
        // The first one may have been stored.
        assert_eq!(status, 503, "{answer}");
        failed += 1;
        nodes.iter_mut().for_each(is_served);
        assert_eq!(nodes.each_ref().map(|node| node.map.clone()), before, "an error is no empty map");
        std::thread::sleep(Duration::from_millis(500));
    }
    line.silence(false);
    goes_on(&coordinator);
    assert!(failed > 0);
    assert_eq!(
        coordinator.wait(coordinator.state.keys(None)).unwrap().len(),
        2,
        "the first one, and the one after the stall"
    );
    coordinator.join("c");
    nodes.iter_mut().for_each(|node| node.hear_until(|node| node.map.peers.len() == 2));
    assert!(nodes.iter().all(|node| node.wholes == 1), "no channel was closed");
}
