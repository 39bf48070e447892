//! The same types with this derive and with serde's: both read the same.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

use proptest::prelude::*;
use serde::{Deserialize, Serialize};

macro_rules! types {
    ($($derive:tt)*) => {
        #[derive(Debug, Default, PartialEq, Serialize, $($derive)*)]
        #[serde(rename_all = "kebab-case")]
        pub(crate) struct Whole {
            #[serde(default)]
            pub(crate) number_of_it: u16,
            #[serde(rename = "self", skip_serializing_if = "Option::is_none")]
            pub(crate) own: Option<String>,
            pub(crate) list: Vec<Small>,
            #[serde(default = "seven")]
            pub(crate) seven: u8,
            #[serde(with = "twice")]
            pub(crate) twice: u32,
            #[serde(default, with = "twice")]
            pub(crate) twice_or_none: u32,
            pub(crate) r#type: bool,
        }

        #[derive(Debug, Default, PartialEq, Serialize, $($derive)*)]
        pub(crate) struct Small {
            pub(crate) kind: Kind,
            pub(crate) open: Open,
        }

        #[derive(Debug, Default, PartialEq, Serialize, $($derive)*)]
        #[serde(rename_all = "kebab-case")]
        pub(crate) enum Kind {
            #[default]
            TwoWords,
            #[serde(rename = "2")]
            Two,
        }

        #[derive(Debug, Default, PartialEq, Serialize, $($derive)*)]
        #[serde(rename_all = "lowercase")]
        pub(crate) enum Open {
            Known,
            #[default]
            #[serde(other)]
            Unknown,
        }

        /// Types of serde's derive around those of another.
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "kind", rename_all = "kebab-case")]
        pub(crate) enum Message {
            Whole(Whole),
            Flat {
                #[serde(flatten)]
                inner: Box<Small>,
            },
        }

        fn seven() -> u8 {
            7
        }

        /// Numbers that are half as large in JSON.
        mod twice {
            use serde::{Deserialize, Deserializer, Serialize, Serializer};

            pub(super) fn serialize<S: Serializer>(number: &u32, serializer: S) -> Result<S::Ok, S::Error> {
                (number / 2).serialize(serializer)
            }

            pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
                Ok(u32::deserialize(deserializer)? * 2)
            }
        }
    };
}

mod ours {
    use super::{Deserialize, Serialize};

    types! { taut_json::Deserialize }
}

mod theirs {
    use super::{Deserialize, Serialize};

    types! { Deserialize }
}

/// Reads with both, and compares what they read.
#[track_caller]
fn same(text: &str) -> bool {
    let ours = taut_json::from_slice::<ours::Whole>(text.as_bytes());
    let theirs = taut_json::from_slice::<theirs::Whole>(text.as_bytes());
    match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => assert_eq!(format!("{ours:?}"), format!("{theirs:?}"), "{text}"),
        (Err(_), Err(_)) => return false,
        (ours, theirs) => panic!("{text}: {ours:?}, and {theirs:?}"),
    }
    // From a tree of values, as an enum with a tag is read.
    let tree: serde_json::Value = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::from_value::<ours::Whole>(tree).ok(), taut_json::from_slice(text.as_bytes()).ok());
    true
}

const GOOD: &str =
    r#"{"list":[{"kind":"two-words","open":"known"},{"open":"later","kind":"2"}],"later":[{}],"twice":4,"type":true}"#;

#[test]
fn fields_variants_and_what_is_absent() {
    assert!(same(GOOD));
    let whole: ours::Whole = taut_json::from_slice(GOOD.as_bytes()).unwrap();
    assert_eq!(
        (whole.twice, whole.seven, whole.twice_or_none, whole.own.as_deref(), whole.r#type),
        (8, 7, 0, None, true)
    );
    assert_eq!(whole.list[1], ours::Small { kind: ours::Kind::Two, open: ours::Open::Unknown });
    assert!(same(
        &GOOD.replace("\"twice\":4", "\"twice\":4,\"twice-or-none\":2,\"seven\":1,\"number-of-it\":3,\"self\":\"me\"")
    ));
    assert!(same(&GOOD.replace("\"twice\":4", "\"twice\":4,\"self\":null")));
    for (from, to) in [
        ("\"twice\":4,", ""),
        ("\"twice\":4", "\"twice\":4,\"twice\":4"),
        ("\"twice\":4", "\"twice\":null"),
        ("\"list\"", "\"lists\""),
        ("\"2\"", "\"3\""),
        ("\"2\"", "2"),
        ("\"later\",", "5,"),
        ("true", "[]"),
    ] {
        assert!(!same(&GOOD.replace(from, to)), "{to}");
    }
    assert!(!same("[]") && !same("{}") && !same("null"));
}

#[test]
fn errors_name_what_is_wrong() {
    let read = |from: &str, to: &str| {
        taut_json::from_slice::<ours::Whole>(GOOD.replace(from, to).as_bytes()).unwrap_err().to_string()
    };
    assert_eq!(read("\"twice\":4,", ""), "missing field `twice` at byte 98");
    assert_eq!(read("\"twice\":4", "\"twice\":4,\"twice\":4"), "duplicate field `twice` at byte 105");
    assert_eq!(read("\"2\"", "\"3\""), "unknown variant `3`, expected `two-words` or `2` at byte 71");
    assert_eq!(read("\"2\"", "2"), "invalid type: number, expected a name in quotation marks at byte 68");
    assert_eq!(read(GOOD, "7"), "invalid type: number, expected struct Whole at byte 0");
}

#[test]
fn messages_of_serdes_derive() {
    for text in [
        GOOD.replacen('{', "{\"kind\":\"whole\",", 1),
        String::from("{\"kind\":\"flat\",\"kind\":\"two-words\",\"open\":\"known\"}"),
        String::from("{\"open\":\"known\",\"x\":1,\"kind\":\"flat\"}"),
        String::from("{\"kind\":\"whole\"}"),
    ] {
        let ours = taut_json::from_slice::<ours::Message>(text.as_bytes());
        let theirs = taut_json::from_slice::<theirs::Message>(text.as_bytes());
        assert_eq!(format!("{:?}", ours.ok()), format!("{:?}", theirs.ok()), "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn changed_text(at: prop::sample::Index, letter in "[ -~]", is_cut: bool) {
        let at = at.index(GOOD.len());
        let rest = if is_cut { "" } else { &GOOD[at + 1..] };
        same(&format!("{}{letter}{rest}", &GOOD[..at]));
    }
}
