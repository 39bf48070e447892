//! "Did you mean …?" for command lines.

/// Returns the word of `known` that `typed` is most likely meant to be: at most one typing mistake in words of up to four letters and two in
/// longer ones; `None` if no word is that close. A mistake is a letter that is missing, added, wrong, or swapped with its neighbour.
pub fn closest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near = known.into_iter().map(|word| (mistakes(typed.as_bytes(), word.as_bytes()), word));
    let allowed = |word: &str| if word.len().max(typed.len()) <= 4 { 1 } else { 2 };
    near.filter(|(mistakes, word)| *mistakes <= allowed(word))
        .min_by_key(|(mistakes, _)| *mistakes)
        .map(|(_, word)| word)
}

/// Returns the number of mistakes between two words (the restricted Damerau-Levenshtein distance), or one that is too large for words whose
/// lengths differ by more than two.
fn mistakes(one: &[u8], other: &[u8]) -> usize {
    if one.len().abs_diff(other.len()) > 2 {
        return usize::MAX;
    }
    // Each row has the distances of one beginning of `one` to all beginnings of `other`; two former rows are needed.
    let mut former: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, b) in other.iter().enumerate() {
            let replaced = row[j] + usize::from(a != b);
            let mut best = replaced.min(row[j + 1] + 1).min(next[j] + 1);
            if i > 0 && j > 0 && *a == other[j - 1] && one[i - 1] == *b {
                best = best.min(former[j - 1] + 1);
            }
            next.push(best);
        }
        former = std::mem::replace(&mut row, next);
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_mistake_is_recognised() {
        let known = ["nodes", "keys", "networks", "relays", "up", "--json", "--listen"];
        for (typed, meant) in [
            ("node", "nodes"),
            ("ndoes", "nodes"),
            ("keyss", "keys"),
            ("netwroks", "networks"),
            ("relay", "relays"),
            ("--jsno", "--json"),
            ("--lisen", "--listen"),
            ("pu", "up"),
            ("u", "up"),
        ] {
            assert_eq!(closest(typed, known), Some(meant), "{typed}");
        }
        for typed in ["", "nonsense", "kill", "on", "--help", "ключи"] {
            assert_eq!(closest(typed, known), None, "{typed}");
        }
    }

    #[test]
    fn the_nearest_word_wins() {
        assert_eq!(closest("list", ["lost", "list"]), Some("list"));
        assert_eq!(mistakes(b"", b"ab"), 2);
        assert_eq!(mistakes(b"abcd", b"badc"), 2);
    }
}
