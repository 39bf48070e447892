//! The maps against those of the standard library.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::size_of;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use proptest::prelude::*;

use super::order::{CHUNK, JOINED};
use super::*;
use crate::counted::{Counted, comparisons};

/// One use of a map. Runs of keys fill chunks and empty them.
#[derive(Clone, Copy, Debug)]
enum Step {
    Insert(u16, u32),
    InsertRun(u16, u16, u16),
    GetOrInsert(u16, u32),
    Remove(u16),
    RemoveRun(u16, u16, u16),
    Change(u16),
    Retain(u32),
    Clear,
}

/// One more than the greatest key.
const KEYS: u16 = 1_500;

fn step() -> impl Strategy<Value = Step> {
    let key = || 0..KEYS;
    let run = || (0..KEYS, 0..600_u16, 1..4_u16);
    prop_oneof![
        8 => (key(), any::<u32>()).prop_map(|(key, value)| Step::Insert(key, value)),
        8 => run().prop_map(|(from, count, by)| Step::InsertRun(from, count, by)),
        4 => (key(), any::<u32>()).prop_map(|(key, value)| Step::GetOrInsert(key, value)),
        8 => key().prop_map(Step::Remove),
        8 => run().prop_map(|(from, count, by)| Step::RemoveRun(from, count, by)),
        3 => key().prop_map(Step::Change),
        2 => (1..4_u32).prop_map(Step::Retain),
        1 => Just(Step::Clear),
    ]
}

/// Returns the keys of a run, which goes on from 0 behind the greatest key.
fn run(from: u16, count: u16, by: u16) -> impl Iterator<Item = u16> {
    (0..count).map(move |each| (from + each * by) % KEYS)
}

fn apply(step: Step, ours: &mut ChunkedMap<u16, u32>, theirs: &mut BTreeMap<u16, u32>) {
    match step {
        Step::Insert(key, value) => assert_eq!(ours.insert(key, value), theirs.insert(key, value)),
        Step::InsertRun(from, count, by) => {
            run(from, count, by).for_each(|key| assert_eq!(ours.insert(key, 7), theirs.insert(key, 7)));
        }
        Step::GetOrInsert(key, value) => {
            let (our, their) = (ours.get_or_insert(key, value), theirs.entry(key).or_insert(value));
            assert_eq!(our, their);
            (*our, *their) = (our.wrapping_add(1), their.wrapping_add(1));
        }
        Step::Remove(key) => assert_eq!(ours.remove(&key), theirs.remove(&key)),
        Step::RemoveRun(from, count, by) => {
            run(from, count, by).for_each(|key| assert_eq!(ours.remove(&key), theirs.remove(&key)));
        }
        Step::Change(key) => {
            let (our, their) = (ours.get_mut(&key), theirs.get_mut(&key));
            assert_eq!(our, their);
            our.into_iter().chain(their).for_each(|value| *value /= 2);
        }
        Step::Retain(part) => {
            let mut asked = BTreeSet::new();
            ours.retain(|key, value| {
                assert!(asked.insert(*key), "asked once");
                *value ^= 1;
                (u32::from(*key) ^ *value) % part == 0
            });
            assert!(asked.iter().eq(theirs.keys()), "asked about each");
            theirs.retain(|key, value| {
                *value ^= 1;
                (u32::from(*key) ^ *value) % part == 0
            });
        }
        Step::Clear => {
            ours.clear();
            theirs.clear();
        }
    }
}

fn check_same(ours: &ChunkedMap<u16, u32>, theirs: &BTreeMap<u16, u32>) {
    check_form(ours);
    assert!(ours.iter().eq(theirs) && ours.into_iter().eq(theirs) && ours.clone().iter().eq(theirs));
    assert!(ours.keys().eq(theirs.keys()) && ours.values().eq(theirs.values()));
    assert_eq!((ours.len(), ours.is_empty()), (theirs.len(), theirs.is_empty()));
    assert_eq!(ours.first_key_value(), theirs.first_key_value());
    for key in (0..=KEYS).step_by(41) {
        assert_eq!((ours.get(&key), ours.contains_key(&key)), (theirs.get(&key), theirs.contains_key(&key)));
        assert!(ours.range_from(&key).eq(theirs.range(key..)), "from {key}");
    }
}

/// Checks the form of a map: full blocks but for the last, and chunks that are neither empty, nor too large, nor small beside each other.
fn check_form<K, V>(map: &ChunkedMap<K, V>) {
    let (blocks, chunks) = (&map.blocks, map.order.chunks());
    assert_eq!(blocks.iter().map(Vec::len).sum::<usize>(), map.len());
    assert!(blocks.iter().rev().skip(1).all(|block| block.len() == BLOCK));
    assert!(blocks.iter().all(|block| !block.is_empty() && block.capacity() <= BLOCK));
    assert_eq!(chunks.iter().map(Vec::len).sum::<usize>(), map.len());
    assert!(chunks.iter().all(|chunk| (1..=CHUNK).contains(&chunk.len())));
    assert!(chunks.windows(2).all(|pair| pair[0].len() + pair[1].len() > JOINED));
}

/// Returns the bytes that a map has allocated.
fn memory<K, V>(map: &ChunkedMap<K, V>) -> usize {
    let (blocks, chunks) = (&map.blocks, map.order.chunks());
    let lists = (blocks.capacity() + chunks.capacity()) * size_of::<Vec<u32>>();
    let entries: usize = blocks.iter().map(|block| block.capacity() * size_of::<(K, V)>()).sum();
    let numbers: usize = chunks.iter().map(|chunk| chunk.capacity() * size_of::<u32>()).sum();
    lists + entries + numbers
}

proptest! {
    #[test]
    fn a_map_does_what_a_b_tree_does(steps in prop::collection::vec(step(), 0..40)) {
        let (mut ours, mut theirs) = (ChunkedMap::new(), BTreeMap::new());
        for step in steps {
            apply(step, &mut ours, &mut theirs);
            check_same(&ours, &theirs);
        }
    }
}

/// Returns all numbers below `count` in an order without a pattern that a chunk would follow.
fn scattered(count: u32) -> impl Iterator<Item = u32> + Clone {
    (0..count).map(move |each| (u64::from(each) * 2_654_435_761 % u64::from(count)) as u32)
}

const MANY: u32 = 100_000;

#[test]
fn a_hundred_thousand_entries_come_and_go_in_any_order() {
    let mut map: ChunkedMap<u32, [u8; 36]> = ChunkedMap::new();
    let value = |key: u32| [key.to_le_bytes()[0]; 36];
    for round in 0..2 {
        scattered(MANY).for_each(|key| assert_eq!(map.insert(key, value(key)), None));
        check_form(&map);
        assert!(map.keys().copied().eq(0..MANY));
        assert!(memory(&map) < MANY as usize * 50, "{} bytes for entries of 40", memory(&map));
        // A tenth stays, spread over all chunks.
        for key in scattered(MANY).filter(|key| key % 10 != 0) {
            assert_eq!(map.remove(&key), Some(value(key)));
        }
        check_form(&map);
        assert!(map.keys().copied().eq((0..MANY).step_by(10)));
        assert!(memory(&map) < MANY as usize / 10 * 60, "{} bytes for a tenth", memory(&map));
        match round {
            0 => (0..MANY).rev().step_by(10).for_each(|key| assert!(map.remove(&(key / 10 * 10)).is_some())),
            _ => map.retain(|_, _| false),
        }
        assert_eq!((map.len(), memory(&map)), (0, 0), "nothing is kept for an empty map");
    }
}

#[test]
fn rising_and_falling_keys_leave_full_and_half_full_chunks() {
    let mut map = ChunkedMap::new();
    (0..MANY).for_each(|key| assert!(map.insert(key, ()).is_none()));
    assert_eq!(map.order.chunks().len(), (MANY as usize).div_ceil(CHUNK));
    // A queue: the oldest leave as others come.
    for key in 0..MANY {
        let oldest = map.first_key_value().map(|(key, ())| *key);
        assert_eq!((oldest, map.remove(&key), map.insert(MANY + key, ())), (Some(key), Some(()), None));
    }
    check_form(&map);
    assert!(map.order.chunks().len() <= (MANY as usize).div_ceil(CHUNK) + 1);
    map.clear();
    (0..MANY).rev().for_each(|key| assert!(map.insert(key, ()).is_none()));
    check_form(&map);
    assert!(map.order.chunks().len() <= 2 * (MANY as usize).div_ceil(CHUNK));
}

#[test]
fn chunks_that_split_do_not_join_at_once() {
    let mut map = ChunkedMap::new();
    let full = CHUNK as u32;
    (0..full).for_each(|key| assert!(map.insert(2 * key, ()).is_none()));
    assert_eq!(map.insert(1, ()), None);
    assert_eq!(map.order.chunks().len(), 2, "split");
    // More than a quarter of a chunk has to leave before they are joined, and more than a quarter to come before they split again.
    for key in 0..full / 4 {
        map.remove(&(2 * key));
        map.remove(&(2 * (full - 1 - key)));
    }
    assert_eq!((map.len(), map.order.chunks().len()), (JOINED + 1, 2));
    map.remove(&1);
    assert_eq!((map.len(), map.order.chunks().len()), (JOINED, 1), "joined");
    (0..full / 2).for_each(|key| assert!(map.insert(2 * key + 1, ()).is_none()));
    assert_eq!((map.len(), map.order.chunks().len()), (CHUNK, 1));
}

#[test]
fn no_use_compares_more_than_two_searches_do() {
    // 2^17 is more than 100,000, and each of the two levels of a search compares once more.
    const SEARCH: usize = 17 + 2;
    let mut most = 0;
    let mut counted = |bound: usize, work: &mut dyn FnMut()| {
        let count = comparisons(work);
        most = most.max(count);
        assert!(count <= bound);
    };
    let mut map = ChunkedMap::new();
    for key in scattered(MANY) {
        counted(SEARCH, &mut || assert!(map.insert(Counted(key), ()).is_none()));
        counted(SEARCH, &mut || assert!(map.contains_key(&Counted(key))));
    }
    counted(0, &mut || assert_eq!(map.first_key_value(), Some((&Counted(0), &()))));
    for key in scattered(MANY) {
        counted(2 * SEARCH, &mut || assert_eq!(map.remove(&Counted(key)), Some(())));
    }
    assert!(most > 25, "{most}: it was counted");
}

#[test]
fn each_entry_is_dropped_once() {
    let whole = Rc::new(());
    let mut map = ChunkedMap::new();
    let held = || Rc::strong_count(&whole) - 1;
    scattered(3_000).for_each(|key| assert!(map.insert(key, Rc::clone(&whole)).is_none()));
    scattered(3_000).step_by(3).for_each(|key| drop(map.insert(key, Rc::clone(&whole))));
    assert_eq!(held(), map.len());
    scattered(3_000).step_by(2).for_each(|key| drop(map.remove(&key)));
    map.retain(|key, _| key % 5 != 0);
    assert_eq!(held(), map.len());
    let copy = map.clone();
    assert_eq!(held(), 2 * copy.len());
    map.clear();
    drop(copy);
    assert_eq!(held(), 0);
}

#[test]
fn a_map_is_whole_after_a_panic_in_retain() {
    let mut map: ChunkedMap<u32, u32> =
        scattered(3_000).map(|key| (key, key)).fold(ChunkedMap::new(), |mut map, (key, value)| {
            map.insert(key, value);
            map
        });
    let mut asked = 0;
    let retained = catch_unwind(AssertUnwindSafe(|| {
        map.retain(|key, _| {
            asked += 1;
            assert!(asked < 2_000, "the test's own");
            key % 3 == 0
        });
    }));
    assert!(retained.is_err());
    check_form(&map);
    assert!(map.keys().is_sorted() && (0..3_000).step_by(3).all(|key| map.remove(&key) == Some(key)));
    check_form(&map);
}
