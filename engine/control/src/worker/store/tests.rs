use std::fs;
use std::path::PathBuf;

use taut_netmap::JoinToken;

use super::*;

/// A directory that is removed at the end of the test.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn fault_k3_a_save_succeeds_automatically_after_an_hour_with_a_full_disk() {
    let scratch = Scratch(std::env::temp_dir().join(format!("taut-store-{}", std::process::id())));
    let token = JoinToken {
        network: [1; 16],
        coordinator: PublicKey([2; 32]),
        urls: vec![String::from("http://10.0.0.1:8288")],
        secret: [3; 32],
    };
    let mut membership = Membership::new(&token, String::from("a"), Some(1)).unwrap();
    let (state, mut found) = StateDir::open(&scratch.0).unwrap();
    let mut store = Store::new(state, &mut found);
    store.save_membership(&membership).unwrap();

    // A directory in place of the new file makes the save fail as a full disk does, also for root.
    let obstacle = scratch.0.join("identity.json.new");
    fs::create_dir(&obstacle).unwrap();
    membership.port = Some(2);
    let start = Time::ZERO;
    store.membership_changed(start);
    let mut complaints = 0;
    while let Some(due) = store.deadline().filter(|due| due.since(start) < Duration::from_secs(3600)) {
        let problems = store.save_due(Some(&membership), None, due);
        assert!(problems.iter().all(|text| text.contains("free or repair the disk")), "{problems:?}");
        complaints += problems.len();
        assert!(!store.works_again(!problems.is_empty()));
    }
    assert_eq!(complaints, 120, "one try and one message every 30 s");
    fs::remove_dir(&obstacle).unwrap();
    assert!(!store.works_again(false), "the state is still unsaved");
    let due = store.deadline().unwrap();
    assert_eq!(store.save_due(Some(&membership), None, due), Vec::<String>::new());
    assert_eq!(store.deadline(), None);
    assert_eq!([store.works_again(false), store.works_again(false)], [true, false], "told once");
    drop(store);
    let saved = fs::read_to_string(scratch.0.join("identity.json")).unwrap();
    assert!(saved.contains("\"port\":2"), "{saved}");
}
