use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

/// Returns a directory in memory, where thousands of small files cost neither wear nor time.
pub(crate) fn in_memory() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    if memory.is_dir() { memory } else { std::env::temp_dir() }
}

/// A directory that is removed at the end of the test.
pub(super) struct Scratch(pub(super) PathBuf);

impl Scratch {
    pub(super) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = in_memory().join(format!("taut-disk-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(super) fn live(&self) -> PathBuf {
        self.0.join("identity.json")
    }

    pub(super) fn load(&self) -> Result<Option<(Vec<u8>, bool)>, Unusable> {
        let loaded = StateFile::new(self.live()).load()?;
        Ok(loaded.map(|loaded| (loaded.body.to_vec(), !loaded.notes.is_empty())))
    }

    /// Saves `bodies` in sequence, as one run of the program would.
    fn save(&self, bodies: &[&str]) {
        let mut file = StateFile::new(self.live());
        let _ = file.load();
        for body in bodies {
            file.save(body.as_bytes()).unwrap();
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_missing_file_is_not_an_error() {
    assert_eq!(Scratch::new().load(), Ok(None));
}

#[test]
fn reads_back_a_save_and_keeps_the_previous_copy() {
    let scratch = Scratch::new();
    scratch.save(&["one"]);
    assert_eq!(scratch.load(), Ok(Some((b"one".to_vec(), false))));
    scratch.save(&["two", "three"]);
    assert_eq!(scratch.load(), Ok(Some((b"three".to_vec(), false))));
    fs::remove_file(scratch.live()).unwrap();
    assert_eq!(scratch.load(), Ok(Some((b"two".to_vec(), true))));
}

#[test]
fn only_the_owner_may_read_the_file_and_no_temporary_file_remains() {
    let scratch = Scratch::new();
    scratch.save(&["one", "two"]);
    let mut names: Vec<String> = Vec::new();
    for entry in fs::read_dir(&scratch.0).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        names.push(entry.file_name().into_string().unwrap());
    }
    names.sort();
    assert_eq!(names, ["identity.json", "identity.json.prev"]);
}

#[test]
fn fault_k2_cut_at_every_byte() {
    let scratch = Scratch::new();
    scratch.save(&["old", "{\"new\":1}"]);
    let whole = fs::read(scratch.live()).unwrap();
    for length in 0..whole.len() {
        fs::write(scratch.live(), &whole[..length]).unwrap();
        assert_eq!(scratch.load(), Ok(Some((b"old".to_vec(), true))), "cut to {length} bytes");
    }
    fs::remove_file(beside(&scratch.live(), "prev")).unwrap();
    for length in 0..whole.len() {
        fs::write(scratch.live(), &whole[..length]).unwrap();
        assert!(scratch.load().is_err(), "cut to {length} bytes, without a previous copy");
    }
}

#[test]
fn fault_k2_every_flipped_bit() {
    let scratch = Scratch::new();
    scratch.save(&["old", "{\"new\":1}"]);
    let whole = fs::read(scratch.live()).unwrap();
    for bit in 0..whole.len() * 8 {
        let mut damaged = whole.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        fs::write(scratch.live(), &damaged).unwrap();
        assert_eq!(scratch.load(), Ok(Some((b"old".to_vec(), true))), "bit {bit}");
    }
}

#[test]
fn both_copies_damaged_is_an_error_that_names_both() {
    let scratch = Scratch::new();
    scratch.save(&["old", "new"]);
    fs::write(scratch.live(), "").unwrap();
    fs::write(beside(&scratch.live(), "prev"), "garbage").unwrap();
    let text = scratch.load().unwrap_err().to_string();
    assert!(text.contains("identity.json is empty") && text.contains("identity.json.prev is cut or altered"), "{text}");
}

#[test]
fn a_save_over_a_damaged_file_spares_the_previous_copy() {
    let scratch = Scratch::new();
    scratch.save(&["old", "new"]);
    fs::write(scratch.live(), "").unwrap();
    scratch.save(&["newest"]);
    assert_eq!(scratch.load(), Ok(Some((b"newest".to_vec(), false))));
    fs::remove_file(scratch.live()).unwrap();
    assert_eq!(scratch.load(), Ok(Some((b"old".to_vec(), true))));
}

#[test]
fn an_entry_that_is_no_regular_file_does_not_count_as_missing() {
    for make in [
        |path: &Path| fs::create_dir(path).unwrap(),
        |path: &Path| std::os::unix::fs::symlink("/etc/hostname", path).unwrap(),
        |path: &Path| drop(std::os::unix::net::UnixListener::bind(path).unwrap()),
    ] {
        let scratch = Scratch::new();
        make(&scratch.live());
        assert_eq!(scratch.load().unwrap_err().live, Damage::NotAFile);
    }
}

#[test]
fn fault_l2_a_file_of_a_later_format_is_not_changed() {
    let scratch = Scratch::new();
    scratch.save(&["old", "new"]);
    fs::write(scratch.live(), format!("{}body", header(FORMAT + 1, b"body"))).unwrap();
    let error = scratch.load().unwrap_err();
    assert!(error.is_later_format(), "{error}");
    assert!(error.to_string().contains("format 2"), "{error}");
}

#[test]
fn a_first_save_that_was_cut_off() {
    let scratch = Scratch::new();
    scratch.save(&["first"]);
    let new = beside(&scratch.live(), "new");
    fs::rename(scratch.live(), &new).unwrap();
    assert_eq!(scratch.load(), Ok(Some((b"first".to_vec(), true))), "whole: nothing is lost");
    fs::write(&new, "taut-state 1 ab").unwrap();
    assert_eq!(scratch.load(), Ok(None), "cut off: that save was never acknowledged");
    scratch.save(&["again"]);
    assert_eq!(scratch.load(), Ok(Some((b"again".to_vec(), false))));
}

#[test]
fn fault_k3_a_full_disk_leaves_the_old_copy() {
    let scratch = Scratch::new();
    scratch.save(&["old"]);
    let mut file = StateFile::new(scratch.live());
    let _ = file.load();
    // A directory in place of the new file makes the save fail as a full disk would, also for root.
    let new = beside(&scratch.live(), "new");
    fs::create_dir(&new).unwrap();
    assert!(file.save(b"new").is_err());
    assert_eq!(scratch.load(), Ok(Some((b"old".to_vec(), false))));
    fs::remove_dir(&new).unwrap();
    file.save(b"new").unwrap();
    assert_eq!(scratch.load(), Ok(Some((b"new".to_vec(), false))));
}

#[test]
fn fault_k1_a_file_system_that_forgot_the_content_of_a_renamed_file() {
    let scratch = Scratch::new();
    scratch.save(&["old", "new"]);
    for content in ["", "\0\0\0\0"] {
        fs::write(scratch.live(), content).unwrap();
        assert_eq!(scratch.load(), Ok(Some((b"old".to_vec(), true))));
    }
}

#[test]
fn fault_k2_a_file_of_another_user_is_not_trusted() {
    if effective_uid() != 0 {
        println!("skipped: needs root");
        return;
    }
    let scratch = Scratch::new();
    scratch.save(&["old", "new"]);
    std::os::unix::fs::chown(scratch.live(), Some(65534), None).unwrap();
    assert_eq!(scratch.load(), Ok(Some((b"old".to_vec(), true))));
    fs::remove_file(beside(&scratch.live(), "prev")).unwrap();
    let text = scratch.load().unwrap_err().to_string();
    assert!(text.contains("belongs to another user (uid 65534"), "{text}");
}

#[test]
fn fault_k2_a_file_that_was_open_to_other_users_is_closed_and_reported() {
    let scratch = Scratch::new();
    scratch.save(&["old", "new"]);
    for path in [scratch.live(), beside(&scratch.live(), "prev")] {
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let loaded = StateFile::new(scratch.live()).load().unwrap().unwrap();
        assert_eq!(loaded.body.as_slice(), b"new");
        assert!(loaded.notes.len() == 1 && loaded.notes[0].contains("0644"), "{:?}", loaded.notes);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }
}
