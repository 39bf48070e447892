//! Tests with a disk that records its calls, refuses them on demand, and enumerates the possible contents after a power cut.

use std::collections::BTreeMap;
use std::io::Write;

use super::tests::Scratch;
use super::*;
use crate::state::StateDir;

/// One completed system call of a save. Names are relative to the directory.
#[derive(Clone, Debug)]
enum Step {
    Remove(String),
    Create(String),
    Write(String, Vec<u8>),
    Force(String),
    Overwrite(String),
    Link(String, String),
    Rename(String, String),
    ForceDirectory,
}

/// The real disk with a record of its calls.
#[derive(Default)]
struct RecordingDisk {
    steps: Vec<Step>,
    /// Numbers of the calls that are refused, from 0.
    refused: std::ops::Range<usize>,
    calls: usize,
    /// True for a file system without hard links, such as FAT.
    no_links: bool,
}

impl RecordingDisk {
    fn call(&mut self, done: impl FnOnce() -> io::Result<()>, step: Step) -> io::Result<()> {
        self.calls += 1;
        if self.refused.contains(&(self.calls - 1)) {
            if let Step::Write(name, bytes) = step {
                // A full disk takes part of the bytes.
                self.steps.push(Step::Write(name, bytes[..bytes.len() / 2].to_vec()));
            }
            return Err(io::ErrorKind::StorageFull.into());
        }
        done()?;
        self.steps.push(step);
        Ok(())
    }
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

impl Disk for RecordingDisk {
    type File = (File, String);

    fn create(&mut self, path: &Path) -> io::Result<Self::File> {
        let mut file = None;
        self.call(|| System.create(path).map(|made| file = Some(made)), Step::Create(name(path)))?;
        Ok((file.unwrap(), name(path)))
    }

    fn write(&mut self, (file, name): &mut Self::File, bytes: &[u8]) -> io::Result<()> {
        self.call(|| file.write_all(bytes), Step::Write(name.clone(), bytes.to_vec()))
    }

    fn force(&mut self, (_, name): &mut Self::File) -> io::Result<()> {
        // The call is only recorded: real ones for thousands of saves take minutes.
        self.call(|| Ok(()), Step::Force(name.clone()))
    }

    fn overwrite(&mut self, path: &Path) -> io::Result<()> {
        // As in `force`, the function does not wait for the disk.
        let zeros = vec![0; usize::try_from(fs::metadata(path)?.len()).unwrap()];
        self.call(|| fs::write(path, zeros), Step::Overwrite(name(path)))
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.call(|| System.remove(path), Step::Remove(name(path)))
    }

    fn link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let no_links = self.no_links;
        let done = || if no_links { Err(io::ErrorKind::Unsupported.into()) } else { System.link(from, to) };
        self.call(done, Step::Link(name(from), name(to)))
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.call(|| System.rename(from, to), Step::Rename(name(from), name(to)))
    }

    fn force_directory(&mut self, _: &Path) -> io::Result<()> {
        self.call(|| Ok(()), Step::ForceDirectory)
    }
}

/// The content that is on the disk for certain, and the changes that may have reached it.
#[derive(Clone, Default)]
struct Model {
    /// Content of each file ever made, and whether all of it was forced to the disk.
    files: Vec<(Vec<u8>, bool)>,
    /// Names as a running program sees them, and as the disk has them for certain.
    seen: BTreeMap<String, usize>,
    sure: BTreeMap<String, usize>,
    /// Changes of names since the last force of the directory: the names that each of them sets or removes.
    open: Vec<Vec<(String, Option<usize>)>>,
}

impl Model {
    fn step(&mut self, step: &Step) {
        match step {
            Step::Create(name) => {
                self.files.push((Vec::new(), false));
                self.change(vec![(name.clone(), Some(self.files.len() - 1))]);
            }
            Step::Write(name, bytes) => {
                let file = &mut self.files[self.seen[name]];
                file.0.extend_from_slice(bytes);
                file.1 = false;
            }
            Step::Overwrite(name) => {
                let file = &mut self.files[self.seen[name]];
                *file = (vec![0; file.0.len()], false);
            }
            Step::Force(name) => self.files[self.seen[name]].1 = true,
            Step::Remove(name) => self.change(vec![(name.clone(), None)]),
            Step::Link(from, to) => self.change(vec![(to.clone(), Some(self.seen[from]))]),
            Step::Rename(from, to) => self.change(vec![(from.clone(), None), (to.clone(), Some(self.seen[from]))]),
            Step::ForceDirectory => {
                self.sure = self.seen.clone();
                self.open.clear();
            }
        }
    }

    fn change(&mut self, change: Vec<(String, Option<usize>)>) {
        apply(&mut self.seen, &change);
        self.open.push(change);
    }

    /// Returns every possible content of the disk after a power cut now: any choice of the open changes, and of each file that was not forced
    /// nothing, half, all, or zeros.
    fn outcomes(&self) -> Vec<BTreeMap<String, Vec<u8>>> {
        let mut outcomes = Vec::new();
        for choice in 0..1_u32 << self.open.len() {
            let mut names = self.sure.clone();
            for (place, change) in self.open.iter().enumerate() {
                if choice >> place & 1 == 1 {
                    apply(&mut names, change);
                }
            }
            for loss in 0..4 {
                let content = |file: usize| {
                    let (bytes, forced) = &self.files[file];
                    match loss {
                        _ if *forced => bytes.clone(),
                        0 => Vec::new(),
                        1 => bytes[..bytes.len() / 2].to_vec(),
                        2 => bytes.clone(),
                        _ => vec![0; bytes.len()],
                    }
                };
                outcomes.push(names.iter().map(|(name, file)| (name.clone(), content(*file))).collect());
            }
        }
        outcomes.sort();
        outcomes.dedup();
        outcomes
    }
}

fn apply(names: &mut BTreeMap<String, usize>, change: &[(String, Option<usize>)]) {
    for (name, file) in change {
        match file {
            Some(file) => names.insert(name.clone(), *file),
            None => names.remove(name),
        };
    }
}

/// Returns the body that a program reads when it starts on this disk; `None` on a first start.
fn read(content: &BTreeMap<String, Vec<u8>>) -> Result<Option<Vec<u8>>, Unusable> {
    let scratch = Scratch::new();
    for (name, bytes) in content {
        fs::write(scratch.0.join(name), bytes).unwrap();
    }
    let body = scratch.load()?.map(|(body, _)| body);
    // A save on this disk succeeds.
    let mut file = StateFile::new(scratch.live());
    let _ = file.load();
    file.save_on(&mut RecordingDisk::default(), b"next").unwrap();
    assert_eq!(scratch.load().unwrap().unwrap().0, b"next");
    Ok(body)
}

/// Cuts the power after every step of `saves`, and checks that a start then reads either the save that was under way or the last acknowledged one.
/// Returns the number of different disk contents.
fn cut_everywhere(no_links: bool, saves: &[(&str, std::ops::Range<usize>)]) -> usize {
    let scratch = Scratch::new();
    let mut file = StateFile::new(scratch.live());
    let mut disk = RecordingDisk { no_links, ..RecordingDisk::default() };
    let (mut model, mut allowed, mut seen) = (Model::default(), vec![None], BTreeMap::new());
    for (body, refused) in saves {
        (disk.calls, disk.refused) = (0, refused.clone());
        let acknowledged = file.save_on(&mut disk, body.as_bytes()).is_ok();
        allowed.push(Some(body.as_bytes().to_vec()));
        let steps = std::mem::take(&mut disk.steps);
        let count = steps.len();
        for (number, step) in steps.iter().enumerate() {
            model.step(step);
            if acknowledged && number + 1 == count {
                allowed.drain(..allowed.len() - 1);
            }
            for outcome in model.outcomes() {
                let body = seen.entry(outcome.clone()).or_insert_with(|| read(&outcome));
                let body =
                    body.as_ref().unwrap_or_else(|error| panic!("{error} after {step:?} in {saves:?}: {outcome:?}"));
                assert!(allowed.contains(body), "{body:?}, not {allowed:?}, after {step:?} in {saves:?}: {outcome:?}");
            }
        }
    }
    seen.len()
}

#[test]
fn fault_k1_the_power_goes_after_every_step_of_a_save() {
    for no_links in [false, true] {
        let disks = cut_everywhere(no_links, &[("first", 0..0), ("second", 0..0), ("third", 0..0)]);
        assert!(disks > 20, "only {disks} different disks were tried");
    }
}

#[test]
fn fault_k1_k3_the_power_goes_after_a_save_that_the_disk_refused() {
    for no_links in [false, true] {
        for first in 0..9 {
            for refused in [first..first + 1, first..usize::MAX] {
                cut_everywhere(no_links, &[("first", 0..0), ("second", refused), ("third", 0..0)]);
            }
        }
    }
}

#[test]
fn fault_k3_a_disk_that_is_full_at_any_step_keeps_a_whole_copy_and_accepts_the_next_save() {
    for no_links in [false, true] {
        for first in 0..9 {
            let scratch = Scratch::new();
            let mut file = StateFile::new(scratch.live());
            let mut disk = RecordingDisk { no_links, ..RecordingDisk::default() };
            file.save_on(&mut disk, b"old").unwrap();
            (disk.calls, disk.refused) = (0, first..usize::MAX);
            for _ in 0..3 {
                let saved = file.save_on(&mut disk, b"new");
                let (body, _) = scratch.load().unwrap().unwrap();
                assert!(body == b"new" || saved.is_err() && body == b"old", "refused from call {first} on: {body:?}");
            }
            disk.refused = 0..0;
            file.save_on(&mut disk, b"new").unwrap();
            assert_eq!(scratch.load(), Ok(Some((b"new".to_vec(), false))));
        }
    }
}

/// Starts on a state directory with these files. Returns true if the node is a member, and the names of its files afterwards.
fn start_on(content: &BTreeMap<String, Vec<u8>>) -> (bool, Vec<String>) {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new();
    fs::set_permissions(&scratch.0, Permissions::from_mode(0o700)).unwrap();
    for (name, bytes) in content {
        fs::write(scratch.0.join(name), bytes).unwrap();
    }
    let (state, found) =
        StateDir::open(&scratch.0).unwrap_or_else(|error| panic!("{error}: {:?}", content.keys().collect::<Vec<_>>()));
    drop(state);
    let files = fs::read_dir(&scratch.0).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    (found.membership.is_some(), files.filter(|name| name != "lock").collect())
}

/// Returns the state directory of a member with two copies of every file, and the model of its files.
fn member(scratch: &Scratch) -> (StateDir, Model) {
    let (mut state, _) = StateDir::open(&scratch.0).unwrap();
    let membership = crate::state::tests::member();
    for _ in 0..2 {
        state.save_membership(&membership).unwrap();
        state.save_ceiling(std::time::Duration::from_secs(1)).unwrap();
    }
    let mut model = Model::default();
    for entry in fs::read_dir(&scratch.0).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if name != "lock" {
            model.files.push((fs::read(entry.path()).unwrap(), true));
            model.seen.insert(name, model.files.len() - 1);
        }
    }
    model.sure = model.seen.clone();
    (state, model)
}

#[test]
fn fault_k1_the_power_goes_after_every_step_of_leaving() {
    let scratch = Scratch::new();
    let (mut state, mut model) = member(&scratch);
    let whole: Vec<String> = model.seen.keys().cloned().collect();
    let mut disk = RecordingDisk::default();
    state.begin_leave_on(&mut disk).unwrap();
    let decided = disk.steps.len();
    state.finish_leave_on(&mut disk).unwrap();
    assert!(disk.steps.iter().any(|step| matches!(step, Step::Overwrite(name) if name == "identity.json")));
    let mut seen = BTreeMap::new();
    for (number, step) in disk.steps.iter().enumerate() {
        model.step(step);
        for outcome in model.outcomes() {
            let (is_member, files) = seen.entry(outcome.clone()).or_insert_with(|| start_on(&outcome));
            match is_member {
                true => {
                    assert!(number + 1 < decided, "a member again after {step:?}");
                    assert!(whole.iter().all(|name| files.contains(name)), "half a member after {step:?}: {files:?}");
                }
                false => assert!(files.is_empty(), "after {step:?}: {files:?}"),
            }
        }
    }
    assert!(seen.len() > 50, "only {} different disks were tried", seen.len());
}

#[test]
fn fault_k3_a_disk_that_refuses_any_step_of_leaving_leaves_a_member_or_none() {
    for first in 0..30 {
        let scratch = Scratch::new();
        let (mut state, _) = member(&scratch);
        let mut disk = RecordingDisk { refused: first..usize::MAX, ..RecordingDisk::default() };
        let begun = state.begin_leave_on(&mut disk).is_ok();
        let done = begun && state.finish_leave_on(&mut disk).is_ok();
        drop(state);
        let (mut state, found) = StateDir::open(&scratch.0).unwrap();
        assert!(!begun || found.membership.is_none(), "refused from call {first} on");
        if found.membership.is_none() {
            // A new membership is not removed with the one that was given up.
            state.save_membership(&crate::state::tests::member()).unwrap();
            drop(state);
            assert!(StateDir::open(&scratch.0).unwrap().1.membership.is_some());
        }
        if done {
            break;
        }
    }
}
