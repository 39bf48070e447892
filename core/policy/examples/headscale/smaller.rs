//! Makes a case smaller as long as both still disagree about it.

use crate::case::Case;

/// Returns the smallest case that can be reached by leaving out one part after the other, such that `differs` is true for each.
pub(crate) fn smallest(mut case: Case, mut differs: impl FnMut(&Case) -> bool) -> Case {
    loop {
        let smaller = without_one(&case).find(&mut differs);
        match smaller {
            Some(smaller) => case = smaller,
            None => return case,
        }
    }
}

/// Leaves out the part of this number. Returns false if there is none.
type Part = fn(&mut Case, usize) -> bool;

/// Returns each case that lacks one part of this one: a packet, a rule, a word of a rule, a member of a group, a tag or route of a node.
fn without_one(case: &Case) -> impl Iterator<Item = Case> {
    const PARTS: [Part; 6] = [
        |case, index| cut(&mut case.packets, index),
        |case, index| cut(&mut case.acls, index),
        |case, index| cut(&mut case.grants, index),
        word,
        of_node,
        last_node,
    ];
    PARTS.into_iter().flat_map(move |part| {
        (0..).map_while(move |index| {
            let mut smaller = case.clone();
            part(&mut smaller, index).then_some(smaller)
        })
    })
}

/// Leaves out the element of this number.
fn cut<T>(list: &mut Vec<T>, index: usize) -> bool {
    let has = index < list.len();
    if has {
        list.remove(index);
    }
    has
}

/// Leaves out the word of this number, counted through all rules and groups.
fn word(case: &mut Case, mut index: usize) -> bool {
    let acls = case.acls.iter_mut().flat_map(|acl| [&mut acl.src, &mut acl.dst]);
    let grants = case.grants.iter_mut().flat_map(|grant| [&mut grant.src, &mut grant.dst, &mut grant.ip]);
    let groups = case.groups.iter_mut().map(|(_, members)| members);
    acls.chain(grants).chain(groups).any(|words| cut_here(words, &mut index))
}

/// Leaves out the tag or route of this number, counted through all nodes.
fn of_node(case: &mut Case, mut index: usize) -> bool {
    case.nodes.iter_mut().any(|node| cut_here(&mut node.tags, &mut index) || cut_here(&mut node.routes, &mut index))
}

/// Leaves out the element of this number if the list is long enough. Otherwise counts on behind the list.
fn cut_here<T>(list: &mut Vec<T>, index: &mut usize) -> bool {
    let done = cut(list, *index);
    if !done {
        *index -= list.len();
    }
    done
}

/// Leaves out the last node, if no packet is received by it.
fn last_node(case: &mut Case, index: usize) -> bool {
    let last = case.nodes.len().saturating_sub(1);
    if index > 0 || last == 0 || case.packets.iter().any(|packet| packet.node == last) {
        return false;
    }
    case.nodes.pop();
    true
}
