//! The two kinds of DER (ITU-T X.690) that keys and signatures consist of: a sequence of positive integers.

/// Reads a sequence of exactly `N` integers. Each is returned as big-endian bytes without leading zeros; zero has none.
pub(crate) fn integers<const N: usize>(bytes: &[u8]) -> Option<[&[u8]; N]> {
    const SEQUENCE: u8 = 0x30;
    let mut found = [&[][..]; N];
    let (mut content, rest) = value(SEQUENCE, bytes)?;
    for place in &mut found {
        (*place, content) = integer(content)?;
    }
    (content.is_empty() && rest.is_empty()).then_some(found)
}

/// Reads an integer and returns what follows it.
fn integer(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    const INTEGER: u8 = 2;
    let (content, rest) = value(INTEGER, bytes)?;
    match content {
        // A zero is there only where the number would be negative without it.
        [0, after @ ..] if after.first().is_none_or(|byte| *byte >= 0x80) => Some((after, rest)),
        [1..=0x7f, ..] => Some((content, rest)),
        _ => None,
    }
}

/// Reads a value with a tag, whose length is encoded as shortly as possible. Returns its content and what follows.
fn value(tag: u8, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = match *bytes.strip_prefix(&[tag])? {
        [len @ 0..=0x7f, ref rest @ ..] => (usize::from(len), rest),
        [0x81, len @ 0x80..=0xff, ref rest @ ..] => (usize::from(len), rest),
        [0x82, high @ 1..=0xff, low, ref rest @ ..] => (usize::from(u16::from_be_bytes([high, low])), rest),
        _ => return None,
    };
    rest.split_at_checked(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_have_one_form() {
        let two = |text: &[u8]| integers::<2>(text).map(|[a, b]| (a.to_vec(), b.to_vec()));
        assert_eq!(two(&[0x30, 7, 2, 1, 5, 2, 2, 0, 0x80]), Some((vec![5], vec![0x80])));
        assert_eq!(two(&[0x30, 6, 2, 1, 0, 2, 1, 1]), Some((vec![], vec![1])));
        for wrong in [
            &[0x30, 6, 2, 1, 0x80, 2, 1, 1][..],   // negative
            &[0x30, 7, 2, 2, 0, 1, 2, 1, 1],       // a zero too many
            &[0x30, 5, 2, 0, 2, 1, 1],             // no content
            &[0x30, 0x81, 6, 2, 1, 1, 2, 1, 1],    // a longer length than needed
            &[0x30, 0x82, 0, 6, 2, 1, 1, 2, 1, 1], // the same
            &[0x30, 0x80, 2, 1, 1, 2, 1, 1, 0, 0], // no length
            &[0x30, 6, 2, 1, 1, 2, 1, 1, 0],       // a byte too many
            &[0x30, 9, 2, 1, 1, 2, 1, 1, 2, 1, 1], // an integer too many
            &[0x30, 3, 2, 1, 1],                   // one too few
            &[0x30, 7, 2, 1, 1, 2, 1, 1],          // cut
            &[0x31, 6, 2, 1, 1, 2, 1, 1],          // no sequence
            &[0x30, 6, 2, 1, 1, 3, 1, 1],          // no integer
            &[],
        ] {
            assert_eq!(two(wrong), None, "{wrong:x?}");
        }
    }
}
