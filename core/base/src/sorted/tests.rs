//! The maps against those of the standard library.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::counted::{Counted, comparisons};

/// One use of a map.
#[derive(Clone, Debug)]
enum Step {
    Insert(u8, u32),
    Entry(u8, u32),
    Remove(u8),
    Change(u8),
    ChangeAll,
    Extend(Vec<(u8, u32)>),
    Collect(Vec<(u8, u32)>),
    Retain(u32),
    Clear,
}

fn step() -> impl Strategy<Value = Step> {
    let entry = || (0..24u8, any::<u32>());
    let entries = || prop::collection::vec(entry(), 0..40);
    prop_oneof![
        8 => entry().prop_map(|(key, value)| Step::Insert(key, value)),
        4 => entry().prop_map(|(key, value)| Step::Entry(key, value)),
        6 => (0..24u8).prop_map(Step::Remove),
        3 => (0..24u8).prop_map(Step::Change),
        1 => Just(Step::ChangeAll),
        2 => entries().prop_map(Step::Extend),
        1 => entries().prop_map(Step::Collect),
        1 => (1..4u32).prop_map(Step::Retain),
        1 => Just(Step::Clear),
    ]
}

fn apply(step: Step, ours: &mut SortedMap<u8, u32>, theirs: &mut BTreeMap<u8, u32>) {
    match step {
        Step::Insert(key, value) => assert_eq!(ours.insert(key, value), theirs.insert(key, value)),
        Step::Entry(key, value) => {
            let (our, their) = (ours.entry(key).or_insert(value), theirs.entry(key).or_insert(value));
            assert_eq!(our, their);
            (*our, *their) = (our.wrapping_add(1), their.wrapping_add(1));
            assert_eq!(ours.entry(key).or_default(), theirs.entry(key).or_default());
        }
        Step::Remove(key) => assert_eq!(ours.remove(&key), theirs.remove(&key)),
        Step::Change(key) => {
            let (our, their) = (ours.get_mut(&key), theirs.get_mut(&key));
            assert_eq!(our, their);
            our.into_iter().chain(their).for_each(|value| *value /= 2);
        }
        Step::ChangeAll => {
            ours.values_mut().chain(theirs.values_mut()).for_each(|value| *value ^= 1);
            ours.iter_mut().chain(theirs.iter_mut()).for_each(|(key, value)| *value ^= u32::from(*key));
        }
        Step::Extend(entries) => {
            ours.extend(entries.clone());
            theirs.extend(entries);
        }
        Step::Collect(entries) => {
            *ours = entries.clone().into_iter().collect();
            *theirs = entries.into_iter().collect();
        }
        Step::Retain(part) => {
            ours.retain(|key, value| (u32::from(*key) ^ *value) % part == 0);
            theirs.retain(|key, value| (u32::from(*key) ^ *value) % part == 0);
        }
        Step::Clear => {
            ours.clear();
            theirs.clear();
        }
    }
}

fn check_same(ours: &SortedMap<u8, u32>, theirs: &BTreeMap<u8, u32>) {
    assert!(ours.iter().eq(theirs) && ours.iter().rev().eq(theirs.iter().rev()));
    assert!(ours.into_iter().eq(theirs) && ours.clone().into_iter().eq(theirs.clone()));
    assert!(ours.keys().eq(theirs.keys()) && ours.values().eq(theirs.values()));
    assert!(ours.clone().into_values().eq(theirs.values().copied()));
    assert_eq!((ours.len(), ours.is_empty()), (theirs.len(), theirs.is_empty()));
    assert_eq!(ours.first_key_value(), theirs.first_key_value());
    for key in 0..24 {
        assert_eq!((ours.get(&key), ours.contains_key(&key)), (theirs.get(&key), theirs.contains_key(&key)));
    }
    assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
    assert_eq!(*ours, theirs.iter().map(|(key, value)| (*key, *value)).collect());
    let shifted: SortedMap<u8, u32> = theirs.iter().map(|(key, value)| (*key, value ^ 1)).collect();
    assert_eq!(*ours == shifted, theirs.is_empty());
}

fn check_same_set(ours: &SortedSet<u8>, theirs: &BTreeSet<u8>) {
    assert!(ours.iter().eq(theirs) && ours.into_iter().eq(theirs) && ours.clone().into_iter().eq(theirs.clone()));
    assert_eq!((ours.len(), ours.is_empty(), ours.first()), (theirs.len(), theirs.is_empty(), theirs.first()));
    assert!((0..24).all(|member| ours.contains(&member) == theirs.contains(&member)));
    assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
}

proptest! {
    #[test]
    fn a_map_does_what_a_b_tree_does(steps in prop::collection::vec(step(), 0..60)) {
        let (mut ours, mut theirs) = (SortedMap::new(), BTreeMap::new());
        for step in steps {
            apply(step, &mut ours, &mut theirs);
            check_same(&ours, &theirs);
        }
    }

    #[test]
    fn a_set_does_what_a_b_tree_does(
        first in prop::collection::vec(0..24u8, 0..40),
        steps in prop::collection::vec((0..5u8, 0..24u8), 0..60),
    ) {
        let (mut ours, mut theirs): (SortedSet<u8>, BTreeSet<u8>) = (first.iter().copied().collect(), first.iter().copied().collect());
        for (kind, member) in steps {
            check_same_set(&ours, &theirs);
            match kind {
                0 => prop_assert_eq!(ours.insert(member), theirs.insert(member)),
                1 => prop_assert_eq!(ours.remove(&member), theirs.remove(&member)),
                2 => prop_assert_eq!(ours.pop_last(), theirs.pop_last()),
                3 => {
                    ours.extend([member, member / 2]);
                    theirs.extend([member, member / 2]);
                }
                _ => {
                    ours.retain(|other| other % 3 != member % 3);
                    theirs.retain(|other| other % 3 != member % 3);
                }
            }
        }
        check_same_set(&ours, &theirs);
    }

    #[test]
    fn entries_of_any_order_are_sorted_and_the_last_of_a_key_counts(entries in prop::collection::vec((any::<u16>(), any::<u32>()), 0..300)) {
        let entries: Vec<_> = entries.into_iter().map(|(key, value)| (key % 200, value.to_string())).collect();
        let (ours, theirs): (SortedMap<u16, String>, BTreeMap<u16, String>) = (entries.clone().into(), entries.into_iter().collect());
        prop_assert!(ours.into_iter().eq(theirs));
    }
}

#[test]
fn many_entries_cost_no_more_comparisons_than_a_sort() {
    const COUNT: u32 = 10_000;
    let scattered = || (0..COUNT).map(|number| (Counted(number.wrapping_mul(2_654_435_761)), number));
    let mut map = SortedMap::new();
    assert!(comparisons(|| map = scattered().collect()) < 400_000, "collect: n log n is 130,000");
    assert_eq!(map.len(), 10_000);
    assert!(comparisons(|| map.extend(scattered())) < 800_000, "extend");
    assert!(comparisons(|| assert_eq!(map.get(&Counted(1)), None)) < 20, "look up");
    let rising = comparisons(|| map = (0..COUNT).map(|number| (Counted(number), number)).collect());
    assert!(rising < 10_000, "{rising}: entries in order");
}

#[test]
fn a_map_reads_and_writes_what_a_b_tree_does() {
    let theirs = BTreeMap::from([(String::from("b"), 2), (String::from("a"), 1)]);
    let ours = SortedMap::from([(String::from("b"), 2), (String::from("a"), 0), (String::from("a"), 1)]);
    let text = serde_json::to_string(&theirs).unwrap();
    assert_eq!(serde_json::to_string(&ours).unwrap(), text);
    assert_eq!(serde_json::from_str::<SortedMap<String, i32>>(&text).unwrap(), ours);
    assert_eq!(serde_json::from_str::<SortedMap<String, i32>>(r#"{"b":0,"a":1,"b":2}"#).unwrap(), ours);
    assert!(serde_json::from_str::<SortedMap<String, i32>>("[]").is_err());
    assert_eq!((ours.get("b"), ours["b"]), (Some(&2), 2), "found by a borrowed key");
}
