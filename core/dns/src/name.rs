//! Domain names: as they are in a message, and as this node owns them.

/// Longest name in a message, 255 bytes with the lengths of its labels (RFC 1035 section 2.3.4).
const MAX_NAME: usize = 255;
/// Longest label, 63 bytes (RFC 1035 section 2.3.4). Greater lengths are compression pointers and reserved kinds (section 4.1.4).
const MAX_LABEL: usize = 63;

/// A name in a message: each label after its length, and the empty label of the root at the end. It has no compression pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WireName<'a>(&'a [u8]);

impl<'a> WireName<'a> {
    /// Reads the name at the start of `bytes`. Returns `None` for a name that is cut off or too long, and for one with a pointer: a question is the first
    /// name of its message, so there is nothing to point to.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let mut at = 0;
        loop {
            let length = usize::from(*bytes.get(at)?);
            at += 1 + length;
            if length > MAX_LABEL || at > MAX_NAME {
                return None;
            }
            if length == 0 {
                return bytes.get(..at).map(Self);
            }
        }
    }

    /// Returns a name of this node in this form.
    pub(crate) fn of(name: &'a Name) -> Self {
        Self(&name.0)
    }

    /// Returns the bytes of the name.
    pub(crate) fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// Returns the labels with their offsets in the name, without the root.
    pub(crate) fn labels(self) -> impl Iterator<Item = (usize, &'a [u8])> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let start = at;
            let (length, rest) = self.0.get(at..)?.split_first()?;
            let label = rest.get(..usize::from(*length)).filter(|label| !label.is_empty())?;
            at += 1 + label.len();
            Some((start, label))
        })
    }

    /// Returns the offset at which `domain` begins in this name, if the name is the domain or below it. Letters are compared without regard to case (RFC 4343); the
    /// lengths of labels are no letters.
    pub(crate) fn offset_of(self, domain: &Name) -> Option<usize> {
        self.offset_in(WireName::of(domain))
    }

    /// Returns the offset at which `domain` begins in this name, as [`Self::offset_of`] does.
    pub(crate) fn offset_in(self, domain: WireName<'_>) -> Option<usize> {
        let at = self.0.len().checked_sub(domain.0.len())?;
        let is_boundary = at + 1 == self.0.len() || self.labels().any(|(offset, _)| offset == at);
        (is_boundary && self.0.get(at..)?.eq_ignore_ascii_case(domain.0)).then_some(at)
    }
}

/// A name of this node, in the form of [`WireName`] and in lower case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name(Box<[u8]>);

impl Name {
    /// Returns the name with the labels of `text`, which are separated by dots; `None` if a label or the name is empty or too long.
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let mut bytes = Vec::with_capacity(text.len() + 2);
        for label in text.split('.') {
            push_label(&mut bytes, label.as_bytes())?;
        }
        bytes.push(0);
        (bytes.len() <= MAX_NAME).then(|| Self(bytes.into()))
    }

    /// Returns the name one label below this one.
    pub(crate) fn child(&self, label: &[u8]) -> Option<Self> {
        let mut bytes = Vec::with_capacity(1 + label.len() + self.0.len());
        push_label(&mut bytes, label)?;
        bytes.extend_from_slice(&self.0);
        (bytes.len() <= MAX_NAME).then(|| Self(bytes.into()))
    }

    /// Returns the bytes of the name.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

fn push_label(bytes: &mut Vec<u8>, label: &[u8]) -> Option<()> {
    let length = u8::try_from(label.len()).ok().filter(|length| (1..=MAX_LABEL).contains(&usize::from(*length)))?;
    bytes.push(length);
    bytes.extend(label.iter().map(u8::to_ascii_lowercase));
    Some(())
}

/// Skips the name at `at`, which may end in a compression pointer, and returns the offset behind it. The pointer is not followed, so it cannot lead in a circle.
pub(crate) fn skip(bytes: &[u8], mut at: usize) -> Option<usize> {
    let start = at;
    loop {
        let length = usize::from(*bytes.get(at)?);
        at += 1 + length;
        match length {
            0 => return Some(at),
            1..=MAX_LABEL if at - start <= MAX_NAME => {}
            // Two high bits and 14 of an offset (RFC 1035 section 4.1.4).
            0xc0..=0xff => return (at - length < bytes.len()).then_some(at - length + 1),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(text: &str) -> Name {
        Name::from_text(text).unwrap()
    }

    #[test]
    fn a_name_is_in_its_domain_at_a_label_and_in_any_case() {
        let zone = name("home.taut.internal");
        for (text, offset) in [
            ("home.taut.internal", Some(0)),
            ("WEB.Home.tAUT.INTERNAL", Some(4)),
            ("a.web.home.taut.internal", Some(6)),
            ("xhome.taut.internal", None),
            ("taut.internal", None),
            ("home.taut.internal.example", None),
        ] {
            let mut bytes = name(text).bytes().to_vec();
            bytes.iter_mut().step_by(2).for_each(|byte| *byte = byte.to_ascii_uppercase());
            assert_eq!(WireName::parse(&bytes).unwrap().offset_of(&zone), offset, "{text}");
        }
        // A label whose content looks like the zone is not the zone.
        let mut inside = vec![23, b'x', b'x', b'x', b'x'];
        inside.extend_from_slice(zone.bytes());
        assert_eq!(WireName::parse(&inside).map(|name| name.offset_of(&zone)), Some(None));
    }

    #[test]
    fn fault_h2_names_have_bounds_and_no_pointers() {
        let long = "x".repeat(63);
        assert!(Name::from_text(&format!("{long}.{long}.{long}.{}", "x".repeat(61))).is_some());
        assert!(Name::from_text(&format!("{long}.{long}.{long}.{}", "x".repeat(62))).is_none());
        for text in ["", ".", "a..b", &"x".repeat(64)] {
            assert!(Name::from_text(text).is_none(), "{text}");
        }
        for bytes in [&[][..], &[1], &[1, b'a'], &[0xc0, 0], &[1, b'a', 0xc0, 0], &[64], &[0x80, 1]] {
            assert_eq!(WireName::parse(bytes), None, "{bytes:?}");
        }
        let endless = [&[63][..], &[b'x'; 63]].concat().repeat(5);
        let too_long = [&endless[..4 * 64], &[0]].concat();
        for bytes in [&endless, &too_long] {
            assert_eq!((WireName::parse(bytes), skip(bytes, 0)), (None, None));
        }
        // A pointer to itself, and one that is cut off.
        assert_eq!((skip(&[0xc0, 0], 0), skip(&[0xc0], 0), skip(&[0xff, 0], 0)), (Some(2), None, Some(2)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(prop_oneof![0..5_u8, any::<u8>()], 0..300), at in 0..300_usize) {
            if let Some(name) = WireName::parse(&bytes) {
                prop_assert!(name.bytes().len() <= MAX_NAME);
                prop_assert_eq!(name.labels().map(|(_, label)| label.len() + 1).sum::<usize>() + 1, name.bytes().len());
                prop_assert_eq!(skip(&bytes, 0), Some(name.bytes().len()));
            }
            if let Some(end) = skip(&bytes, at) {
                prop_assert!(at < end && end <= bytes.len());
            }
        }
    }
}
