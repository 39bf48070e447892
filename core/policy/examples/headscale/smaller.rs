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

/// A list of a case, of which parts can be left out.
type Part = fn(&mut Case, usize) -> bool;

/// Returns each case that lacks one part of this one: a packet, a rule, a word of a rule, a member of a group, a tag or route of a node.
fn without_one(case: &Case) -> impl Iterator<Item = Case> {
    const PARTS: [Part; 5] = [
        |case, index| cut(&mut case.packets, index),
        |case, index| cut(&mut case.acls, index),
        |case, index| cut(&mut case.grants, index),
        |case, index| nth(case, index),
        |case, index| last_node(case, index),
    ];
    PARTS.into_iter().flat_map(move |part| {
        (0..).map_while(move |index| {
            let mut smaller = case.clone();
            part(&mut smaller, index).then_some(smaller)
        })
    })
}

fn cut<T>(list: &mut Vec<T>, index: usize) -> bool {
    let has = index < list.len();
    if has {
        list.remove(index);
    }
    has
}

/// Leaves out the element of this number, counted through all inner lists.
fn nth(case: &mut Case, index: usize) -> bool {
    let acls = case.acls.iter_mut().flat_map(|acl| [&mut acl.src, &mut acl.dst]);
    let grants = case.grants.iter_mut().flat_map(|grant| [&mut grant.src, &mut grant.dst, &mut grant.ip]);
    let groups = case.groups.iter_mut().map(|(_, members)| members);
    let tags = case.nodes.iter_mut();
    let mut left = index;
    for words in acls.chain(grants).chain(groups) {
        if left < words.len() {
            words.remove(left);
            return true;
        }
        left -= words.len();
    }
    for node in tags {
        if left < node.tags.len() {
            node.tags.remove(left);
            return true;
        }
        left -= node.tags.len();
        if left < node.routes.len() {
            node.routes.remove(left);
            return true;
        }
        left -= node.routes.len();
    }
    false
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
