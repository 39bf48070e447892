use std::sync::atomic::{AtomicU32, Ordering};

use taut_base::{NodeId, PublicKey, SortedMap};
use taut_netmap::{JoinToken, LocalMember, NetworkInfo};

use super::*;
use crate::disk::tests::in_memory;

/// A directory that is removed at the end of the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self(in_memory().join(format!("taut-state-{}-{number}", std::process::id())))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn mode(&self, name: &str) -> u32 {
        fs::metadata(self.file(name)).unwrap().permissions().mode() & 0o777
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Opens a state directory. The tests make a pipe with a child process, which for a moment holds a copy of every lock of this process; this function waits
/// until the lock is free.
fn open(path: &Path) -> Result<(StateDir, LoadedState), StartError> {
    for _ in 0..200 {
        match StateDir::open(path) {
            Err(StartError::Locked { .. }) => std::thread::sleep(Duration::from_millis(10)),
            other => return other,
        }
    }
    StateDir::open(path)
}

fn token(network: u8) -> JoinToken {
    JoinToken {
        network: [network; 16],
        coordinator: PublicKey([2; 32]),
        urls: vec![String::from("http://10.0.0.1:8288")],
        secret: [3; 32],
    }
}

fn map() -> NetworkMap {
    NetworkMap {
        version: 7,
        network: NetworkInfo {
            name: String::from("home"),
            ipv4: "100.64.0.0/10".parse().unwrap(),
            ipv6: "fd00::/48".parse().unwrap(),
            naming: taut_netmap::Naming::default(),
        },
        me: LocalMember {
            id: NodeId(1),
            name: String::from("a"),
            key: PublicKey([9; 32]),
            addresses: vec!["100.64.0.1".parse().unwrap()],
            routes: Vec::new(),
        },
        peers: SortedMap::new(),
        relays: Vec::new(),
        filter: None,
    }
}

/// Returns a membership of network 1.
pub(crate) fn member() -> Membership {
    Membership::new(&token(1), String::from("a"), Some(8288)).unwrap()
}

/// Returns a directory with only an identity of network 1: the state of a node that joined and has not received a map yet.
fn joined() -> (Scratch, Membership) {
    let scratch = Scratch::new();
    let membership = member();
    let (mut state, _) = open(&scratch.0).unwrap();
    state.save_membership(&membership).unwrap();
    (scratch, membership)
}

/// Returns a directory with an identity of network 1 and a map of network `of`.
fn filled(of: u8) -> (Scratch, Membership) {
    let (scratch, membership) = joined();
    let (mut state, _) = open(&scratch.0).unwrap();
    state.save_map([of; 16], &map(), &[], &[PublicKey([9; 32])]).unwrap();
    (scratch, membership)
}

#[test]
fn stamps_continue_after_a_restart_and_damage_loses_only_the_stamps() {
    let (scratch, _) = filled(1);
    let (mut state, found) = StateDir::open(&scratch.0).unwrap();
    assert_eq!(found.ceiling, None);
    state.save_ceiling(Duration::from_millis(1_700_000_000_500)).unwrap();
    assert_eq!(scratch.mode(STAMPS), 0o600);
    drop(state);
    let (mut state, found) = StateDir::open(&scratch.0).unwrap();
    assert_eq!(found.ceiling, Some(Duration::from_secs(1_700_000_001)));
    state.save_ceiling(Duration::from_secs(1_800_000_000)).unwrap();
    drop(state);
    fs::write(scratch.file(STAMPS), "no stamps").unwrap();
    let (state, found) = StateDir::open(&scratch.0).unwrap();
    assert_eq!(found.ceiling, Some(Duration::from_secs(1_700_000_001)), "the copy before");
    assert!(found.membership.is_some() && found.notes.len() == 1);
    drop(state);
    fs::remove_file(beside(&scratch.file(STAMPS), "prev")).unwrap();
    let (_state, found) = StateDir::open(&scratch.0).unwrap();
    assert!(found.ceiling.is_none() && found.membership.is_some() && found.notes.len() == 1);
}

#[test]
fn saved_keys_and_map_are_loaded() {
    let (scratch, before) = filled(1);
    let (_state, found) = open(&scratch.0).unwrap();
    let after = found.membership.unwrap();
    assert!(after.machine_key == before.machine_key && after.node_key == before.node_key);
    assert!(after.network == before.network && after.coordinator == before.coordinator && after.urls == before.urls);
    assert!(after.enrol() == before.enrol() && after.is_enrolling());
    assert_eq!((after.port, after.wanted, after.accepted), (Some(8288), true, false));
    assert_eq!(found.map, Some(map()));
    assert_eq!(found.recent, [PublicKey([9; 32])]);
    assert_eq!(found.notes, Vec::<String>::new());
}

#[test]
fn other_users_have_no_access() {
    let (scratch, _) = filled(1);
    for (name, mode) in [("", 0o700), (IDENTITY, 0o600), (MAP, 0o600), (LOCK, 0o600)] {
        assert_eq!(scratch.mode(name), mode, "{name}");
    }
}

#[test]
fn an_open_directory_is_closed_unless_it_holds_files_of_other_programs() {
    let scratch = Scratch::new();
    fs::create_dir(&scratch.0).unwrap();
    fs::set_permissions(&scratch.0, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(scratch.file("hosts"), "").unwrap();
    drop(open(&scratch.0).unwrap());
    assert_eq!(scratch.mode(""), 0o755, "a directory with files of other programs keeps its mode");
    fs::remove_file(scratch.file("hosts")).unwrap();
    drop(open(&scratch.0).unwrap());
    assert_eq!(scratch.mode(""), 0o700);
}

#[test]
fn fault_k4_a_second_daemon_reports_the_process_id_of_the_first() {
    let scratch = Scratch::new();
    let (_first, _) = StateDir::open(&scratch.0).unwrap();
    let text = StateDir::open(&scratch.0).err().unwrap().to_string();
    assert!(text.contains(&format!("process {}", std::process::id())), "{text}");
}

#[test]
fn the_lock_is_released_with_its_owner() {
    let scratch = Scratch::new();
    for _ in 0..2 {
        drop(open(&scratch.0).unwrap());
    }
}

#[test]
fn fault_k2_a_damaged_identity_is_never_replaced_by_a_new_one() {
    let (scratch, before) = filled(1);
    let whole = fs::read(scratch.file(IDENTITY)).unwrap();
    for length in 0..whole.len() {
        fs::write(scratch.file(IDENTITY), &whole[..length]).unwrap();
        assert!(matches!(open(&scratch.0), Err(StartError::Damaged { .. })), "cut to {length} bytes");
    }
    fs::remove_file(scratch.file(IDENTITY)).unwrap();
    assert!(matches!(open(&scratch.0), Err(StartError::Damaged { .. })), "removed, but the map is there");
    fs::write(scratch.file("identity.json.prev"), &whole).unwrap();
    let (_state, found) = open(&scratch.0).unwrap();
    assert!(found.membership.unwrap().node_key == before.node_key);
    assert!(found.notes.iter().any(|note| note.contains("previous copy")), "the user is told: {:?}", found.notes);
}

/// A way to damage a file: its name, and the function that does it.
type Damager = (&'static str, fn(&Path));

const DAMAGERS: [Damager; 9] = [
    ("gone", |path| fs::remove_file(path).unwrap()),
    ("empty", |path| fs::write(path, "").unwrap()),
    ("zeros", |path| fs::write(path, [0; 4096]).unwrap()),
    ("huge", |path| File::create(path).and_then(|file| file.set_len(1 << 32)).unwrap()),
    ("of another user", |path| std::os::unix::fs::chown(path, Some(65534), None).unwrap()),
    ("a link", |path| in_place(path, |path| std::os::unix::fs::symlink("/dev/zero", path).unwrap())),
    ("a pipe", |path| {
        in_place(path, |path| assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success()));
    }),
    ("a directory", |path| in_place(path, |path| fs::create_dir(path).unwrap())),
    ("a socket", |path| in_place(path, |path| drop(std::os::unix::net::UnixListener::bind(path).unwrap()))),
];

fn in_place(path: &Path, make: impl Fn(&Path)) {
    fs::remove_file(path).unwrap();
    make(path);
}

/// Returns the kinds of damage that the current user is able to cause.
fn damagers() -> impl Iterator<Item = &'static Damager> {
    DAMAGERS.iter().filter(|(what, _)| *what != "of another user" || taut_event::effective_uid() == 0)
}

/// The files that a state directory may hold beside the identity.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Beside {
    Nothing,
    Map,
    Stamps,
    Ticket,
}

/// Returns a ticket of this member.
fn ticket(of: &Membership, expires: u64) -> Ticket {
    let bind_key = public_key(&of.bind_key());
    let numbered = Some(String::from("bnVtYmVyZWQ"));
    Ticket { network: of.network, bind_key, ticket: String::from("dGlja2V0"), numbered, expires }
}

#[test]
fn fault_k2_any_damage_to_the_identity_leads_to_the_previous_copy_or_an_error() {
    for (what, harm) in damagers() {
        for (both, beside) in [false, true].into_iter().flat_map(|both| {
            [Beside::Nothing, Beside::Map, Beside::Stamps, Beside::Ticket].map(|beside| (both, beside))
        }) {
            if both && *what == "gone" && beside == Beside::Nothing {
                // The directory is empty, which is the same as a first start.
                continue;
            }
            let (scratch, before) = joined();
            let (mut state, _) = open(&scratch.0).unwrap();
            state.save_membership(&before).unwrap();
            match beside {
                Beside::Nothing => {}
                Beside::Map => assert!(state.save_map([1; 16], &map(), &[], &[]).is_ok()),
                Beside::Stamps => state.save_ceiling(Duration::from_secs(1)).unwrap(),
                Beside::Ticket => state.save_ticket(&ticket(&before, 1)).unwrap(),
            }
            drop(state);
            let what = format!("{what}, {beside:?} beside it");
            harm(&scratch.file(IDENTITY));
            if both {
                harm(&scratch.file("identity.json.prev"));
            }
            match open(&scratch.0) {
                Ok((_, found)) if !both => {
                    assert!(found.membership.unwrap().node_key == before.node_key, "{what}");
                    assert!(found.notes.iter().any(|note| note.contains("previous copy")), "{what}: {:?}", found.notes);
                }
                Err(error @ StartError::Damaged { .. }) if both => {
                    assert!(error.to_string().contains(IDENTITY), "{what}: {error}");
                }
                Ok((_, found)) => panic!("{what}, both copies, and still: {:?}", found.notes),
                Err(error) => panic!("{what}: {error}"),
            }
        }
    }
}

#[test]
fn fault_k2_k7_any_damage_to_the_map_is_reported_and_loses_only_the_map() {
    for (what, harm) in damagers() {
        for both in [false, true] {
            let (scratch, before) = filled(1);
            let (mut state, _) = open(&scratch.0).unwrap();
            state.save_map([1; 16], &map(), &[], &[]).unwrap();
            state.save_map([1; 16], &map(), &[], &[]).unwrap();
            drop(state);
            harm(&scratch.file(MAP));
            if both {
                harm(&scratch.file("map.json.prev"));
            }
            let (_state, found) = open(&scratch.0).unwrap();
            assert!(found.membership.unwrap().node_key == before.node_key, "{what}");
            assert_eq!(found.map.is_some(), !both, "{what}");
            assert!(!found.notes.is_empty() || both && *what == "gone", "{what}");
        }
    }
}

#[test]
fn fault_k2_any_damage_to_the_stamps_is_reported_and_loses_only_the_stamps() {
    for (what, harm) in damagers() {
        for both in [false, true] {
            let (scratch, before) = filled(1);
            let (mut state, _) = open(&scratch.0).unwrap();
            state.save_ceiling(Duration::from_secs(6)).unwrap();
            state.save_ceiling(Duration::from_secs(7)).unwrap();
            drop(state);
            harm(&scratch.file(STAMPS));
            if both {
                harm(&scratch.file("stamps.json.prev"));
            }
            let (_state, found) = open(&scratch.0).unwrap();
            assert!(found.membership.unwrap().node_key == before.node_key && found.map.is_some(), "{what}");
            assert_eq!(found.ceiling, (!both).then(|| Duration::from_secs(7)), "{what}");
            assert!(!found.notes.is_empty() || both && *what == "gone", "{what}");
        }
    }
}

#[test]
fn fault_k2_any_damage_to_the_ticket_is_reported_and_loses_only_the_ticket() {
    for (what, harm) in damagers() {
        for both in [false, true] {
            let (scratch, before) = filled(1);
            let (mut state, _) = open(&scratch.0).unwrap();
            state.save_ticket(&ticket(&before, 6)).unwrap();
            state.save_ticket(&ticket(&before, 7)).unwrap();
            drop(state);
            harm(&scratch.file(TICKET));
            if both {
                harm(&scratch.file("ticket.json.prev"));
            }
            let (_state, found) = open(&scratch.0).unwrap();
            assert!(found.membership.unwrap().node_key == before.node_key && found.map.is_some(), "{what}");
            assert_eq!(found.ticket.is_some(), !both, "{what}");
            assert!(!found.notes.is_empty() || both && *what == "gone", "{what}");
        }
    }
}

/// A file of release 0.1.0 has no ticket of version 2.
#[test]
fn fault_l1_a_ticket_that_release_0_1_0_saved_is_used() {
    let (scratch, member) = filled(1);
    let mut saved = serde_json::to_value(ticket(&member, 9)).unwrap();
    assert!(saved.as_object_mut().unwrap().remove("numbered").is_some());
    let (mut state, _) = open(&scratch.0).unwrap();
    state.ticket.save(&serde_json::to_vec(&saved).unwrap()).unwrap();
    drop(state);
    let (_state, found) = open(&scratch.0).unwrap();
    assert_eq!(found.ticket, Some(Ticket { numbered: None, ..ticket(&member, 9) }));
}

#[test]
fn fault_k7_a_ticket_of_another_network_or_key_is_not_used() {
    let (scratch, member) = filled(1);
    let good = ticket(&member, 9);
    let others = [
        Ticket { network: [2; 16], ..good.clone() },
        Ticket { bind_key: PublicKey([7; 32]), ..good.clone() },
        Ticket { ticket: String::from("no ticket"), ..good.clone() },
        Ticket { ticket: "A".repeat(MAX_TICKET + 4), ..good.clone() },
    ];
    for (saved, is_used) in others.into_iter().map(|other| (other, false)).chain([(good, true)]) {
        let (mut state, _) = open(&scratch.0).unwrap();
        state.save_ticket(&saved).unwrap();
        drop(state);
        let (_state, found) = open(&scratch.0).unwrap();
        assert_eq!(found.ticket, is_used.then_some(saved));
    }
}

#[test]
fn fault_k2_every_cut_and_every_flipped_bit_of_every_file() {
    // The identity is damaged twice: with other files beside it, which show that an identity existed, and without them.
    for (name, alone) in [(IDENTITY, false), (IDENTITY, true), (MAP, false), (STAMPS, false), (TICKET, false)] {
        let (scratch, before) = if alone { joined() } else { filled(1) };
        if !alone {
            let (mut state, _) = open(&scratch.0).unwrap();
            state.save_ceiling(Duration::from_secs(1)).unwrap();
            state.save_ticket(&ticket(&before, 1)).unwrap();
        }
        let whole = fs::read(scratch.file(name)).unwrap();
        let cuts = (0..whole.len()).map(|length| whole[..length].to_vec());
        let flips = (0..whole.len() * 8).map(|bit| {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            bytes
        });
        for (number, bytes) in cuts.chain(flips).enumerate() {
            fs::write(scratch.file(name), bytes).unwrap();
            match open(&scratch.0) {
                Err(StartError::Damaged { .. }) if name == IDENTITY => {}
                Ok((_, found)) if name != IDENTITY => {
                    assert_eq!(
                        (found.map.is_some(), found.ceiling.is_some(), found.ticket.is_some()),
                        (name != MAP, name != STAMPS, name != TICKET),
                        "{number}"
                    );
                    assert!(found.membership.unwrap().node_key == before.node_key, "{number}");
                }
                _ => panic!("{name}, damage {number}"),
            }
        }
    }
}

#[test]
fn fault_k4_a_lock_that_is_no_regular_file_is_an_error_and_does_not_block() {
    let scratch = Scratch::new();
    fs::create_dir(&scratch.0).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(scratch.file(LOCK)).status().unwrap().success());
    let _other = OpenOptions::new().read(true).write(true).open(scratch.file(LOCK)).unwrap();
    for _ in 0..2 {
        let text = open(&scratch.0).err().unwrap().to_string();
        assert!(text.contains("its lock is not a regular file; remove it"), "{text}");
    }
}

#[test]
fn a_whole_file_without_an_identity_counts_as_damage() {
    let (scratch, _) = filled(1);
    StateFile::new(scratch.file(IDENTITY)).save(b"{}").unwrap();
    assert!(matches!(open(&scratch.0), Err(StartError::Damaged { .. })));
}

#[test]
fn an_empty_or_unused_directory_is_a_first_start() {
    let scratch = Scratch::new();
    for _ in 0..2 {
        let (_state, found) = open(&scratch.0).unwrap();
        assert!(found.membership.is_none() && found.map.is_none());
        fs::write(scratch.file("daemon.log"), "started").unwrap();
    }
}

#[test]
fn fault_k7_a_map_that_is_damaged_foreign_or_refused_is_not_used() {
    let (scratch, _) = filled(2);
    let (_state, found) = open(&scratch.0).unwrap();
    assert!(found.map.is_none(), "of another network");

    let (scratch, _) = filled(1);
    fs::write(scratch.file(MAP), "").unwrap();
    let (_state, found) = open(&scratch.0).unwrap();
    assert!(found.membership.is_some() && found.map.is_none() && found.notes.len() == 1, "damaged");

    let (scratch, _) = filled(1);
    let (mut state, _) = open(&scratch.0).unwrap();
    let mut hostile = map();
    hostile.network.ipv4 = "0.0.0.0/0".parse().unwrap();
    state.save_map([1; 16], &hostile, &[], &[]).unwrap();
    drop(state);
    let (_state, found) = open(&scratch.0).unwrap();
    assert!(found.map.is_none() && found.notes.len() == 1, "refused");
}

#[test]
fn fault_e20_a_saved_map_with_a_reserved_name_is_used_without_the_name() {
    let (scratch, _) = filled(1);
    let (mut state, _) = open(&scratch.0).unwrap();
    let mut named = map();
    named.me.name = String::from("localhost");
    state.save_map([1; 16], &named, &[], &[]).unwrap();
    drop(state);
    let (_state, found) = open(&scratch.0).unwrap();
    assert_eq!(found.map.unwrap().me.name, "node-1");
    assert!(found.notes.is_empty());
}

#[test]
fn secrets_leave_the_disk_when_they_are_forgotten() {
    let (scratch, mut membership) = filled(1);
    membership.forget_secret();
    let (mut state, _) = open(&scratch.0).unwrap();
    // The membership is saved twice, because the previous copy is kept, too.
    state.save_membership(&membership).unwrap();
    state.save_membership(&membership).unwrap();
    let secret = token(1).secret;
    let text = taut_base::encode_base64url(&secret);
    for name in [IDENTITY, "identity.json.prev"] {
        assert!(!fs::read_to_string(scratch.file(name)).unwrap().contains(&text), "{name}");
    }
}

#[test]
fn a_damaged_file_leaving_removes_no_keys() {
    for damaged in ["", "{}", "taut-state 1 0000\n{}"] {
        let (scratch, before) = filled(1);
        fs::write(scratch.file(LEAVING), damaged).unwrap();
        let (_state, found) = open(&scratch.0).unwrap();
        assert!(found.membership.unwrap().node_key == before.node_key, "{damaged:?}");
    }
}

#[test]
fn leaving_forgets_the_kill_switch_of_the_next_boot() {
    let (scratch, _) = joined();
    let (mut state, _) = open(&scratch.0).unwrap();
    state.save_small(SmallFile::KillSwitch, "taut0").unwrap();
    assert_eq!(saved_kill_switch(&scratch.0).as_deref(), Some("taut0"));
    state.begin_leave().unwrap();
    state.finish_leave().unwrap();
    assert_eq!(saved_kill_switch(&scratch.0), None);
}

#[test]
fn fault_k2_damaged_settings_are_reported_and_absent_ones_are_not() {
    let (scratch, _) = joined();
    assert_eq!(saved_settings(&scratch.0), (String::new(), Vec::new()));
    let (mut state, _) = open(&scratch.0).unwrap();
    for settings in ["kill-switch = false", "kill-switch = true"] {
        state.save_settings(settings).unwrap();
    }
    fs::write(scratch.file(SETTINGS), [0; 64]).unwrap();
    let (text, notes) = saved_settings(&scratch.0);
    assert_eq!((&*text, notes.len()), ("kill-switch = false", 1), "{notes:?}");
    fs::write(scratch.file("settings.prev"), [0; 64]).unwrap();
    let (text, notes) = saved_settings(&scratch.0);
    assert_eq!((&*text, notes.len()), ("", 1), "{notes:?}");
}
