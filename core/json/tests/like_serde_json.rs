//! Every answer is compared with `serde_json`'s: of values, of types with everything that serde derives here, and of malformed text.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

use std::collections::BTreeMap;
use std::fmt::Debug;

use proptest::prelude::*;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Plain,
    One(u8),
    Two(i32, String),
    Named {
        a: bool,
        b: Option<f64>,
    },
    #[serde(other)]
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
enum Message {
    Empty,
    Numbers { list: Vec<u64> },
    Inner(Box<Inner>),
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Inner {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(default)]
    map: BTreeMap<String, Wrapped>,
    unit: (),
    pair: (i8, u16),
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Wrapped(String);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Whole {
    #[serde(rename = "self")]
    kind: Kind,
    messages: Vec<Message>,
    #[serde(flatten)]
    inner: Inner,
    by_number: BTreeMap<u32, i64>,
    letter: char,
    float: f32,
}

/// Reads with both, and compares.
#[track_caller]
fn same<T: DeserializeOwned + Serialize + Debug>(text: &[u8]) -> Option<T> {
    let (ours, theirs) = (taut_json::from_slice::<T>(text), serde_json::from_slice::<T>(text));
    match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => {
            let values = [&ours, &theirs].map(|read| serde_json::to_value(read).unwrap());
            assert!(is_close(&values[0], &values[1]), "{}: {values:?}", String::from_utf8_lossy(text));
            Some(ours)
        }
        (Err(_), Err(_)) => None,
        (ours, theirs) => panic!("{}: {ours:?}, and {theirs:?}", String::from_utf8_lossy(text)),
    }
}

/// Compares values. serde_json is a bit off at many numbers with a fraction, and so are those of 32 bits that are made of them.
fn is_close(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(a), Value::Number(b)) if a.is_f64() && b.is_f64() => {
            let [a, b] = [a, b].map(|number| number.as_f64().unwrap());
            (a - b).abs() <= a.abs() * 1e-6 + f64::MIN_POSITIVE
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_close(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|((name, a), (other, b))| name == other && is_close(a, b))
        }
        _ => one == other,
    }
}

/// A number with a fraction that both read exactly: serde_json is a bit off at many others.
fn eighths(number: i32) -> f64 {
    f64::from(number) / 8.0
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i32>().prop_map(|number| Value::from(eighths(number))),
        "\\PC*".prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn inner() -> impl Strategy<Value = Inner> {
    (
        any::<Option<String>>(),
        prop::collection::btree_map(any::<String>(), any::<String>().prop_map(Wrapped), 0..3),
        any::<(i8, u16)>(),
    )
        .prop_map(|(text, map, pair)| Inner { text, map, unit: (), pair })
}

fn whole() -> impl Strategy<Value = Whole> {
    let kind = prop_oneof![
        Just(Kind::Plain),
        any::<u8>().prop_map(Kind::One),
        any::<(i32, String)>().prop_map(|(number, text)| Kind::Two(number, text)),
        (any::<bool>(), any::<Option<i32>>()).prop_map(|(a, b)| Kind::Named { a, b: b.map(eighths) }),
    ];
    let message = prop_oneof![
        Just(Message::Empty),
        any::<Vec<u64>>().prop_map(|list| Message::Numbers { list }),
        inner().prop_map(|inner| Message::Inner(Box::new(inner))),
    ];
    let numbers = prop::collection::btree_map(any::<u32>(), any::<i64>(), 0..3);
    (
        kind,
        prop::collection::vec(message, 0..4),
        inner(),
        numbers,
        any::<char>(),
        any::<i16>().prop_map(|number| f32::from(number) / 8.0),
    )
        .prop_map(|(kind, messages, inner, by_number, letter, float)| Whole {
            kind,
            messages,
            inner,
            by_number,
            letter,
            float,
        })
}

/// Text that is nearly JSON.
fn nearly() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\\",
        "\\u",
        "d83d",
        "\\ude00",
        "\"a\"",
        "\"\\n\"",
        "0",
        "01",
        "-",
        "-0",
        "1.",
        "1.5",
        "1e",
        "1e5",
        "1e999",
        "18446744073709551616",
        "-9223372036854775809",
        "true",
        "tru",
        "false",
        "null",
        "nul",
        " ",
        "\n",
        "\t",
        "\u{b}",
        "é",
        "\u{1}",
        "\"self\":",
        "\"type\":\"empty\"",
    ]);
    let text = prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat().into_bytes());
    prop_oneof![text, any::<Vec<u8>>()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn values(value in value()) {
        let text = taut_json::to_string(&value).unwrap();
        prop_assert_eq!(same::<Value>(text.as_bytes()).unwrap(), value.clone());
        let theirs = serde_json::to_string(&value).unwrap();
        prop_assert_eq!(same::<Value>(theirs.as_bytes()).unwrap(), value);
        prop_assert!(same::<Value>(serde_json::to_string_pretty(&text).unwrap().as_bytes()).is_some());
        // The same but for how floating-point numbers are written.
        prop_assert_eq!(taut_json::pretty(&theirs), serde_json::to_string_pretty(&serde_json::from_str::<Value>(&theirs).unwrap()).unwrap());
        prop_assert!(taut_json::from_slice::<IgnoredAny>(text.as_bytes()).is_ok());
    }

    #[test]
    fn fractions(number: f64) {
        let text = taut_json::to_string(&number).unwrap();
        let again = taut_json::from_slice::<Option<f64>>(text.as_bytes()).unwrap();
        prop_assert_eq!(again, number.is_finite().then_some(number));
    }

    #[test]
    fn types(whole in whole()) {
        let text = taut_json::to_string(&whole).unwrap();
        prop_assert_eq!(same::<Whole>(text.as_bytes()).unwrap(), whole.clone());
        prop_assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), serde_json::to_value(&whole).unwrap());
        same::<Whole>(serde_json::to_string_pretty(&whole).unwrap().as_bytes()).unwrap();
    }

    #[test]
    fn changed_types(whole in whole(), at: prop::sample::Index, byte: u8, is_cut: bool) {
        let mut text = taut_json::to_vec(&whole).unwrap();
        let at = at.index(text.len());
        text[at] = byte;
        if is_cut { text.truncate(at) }
        same::<Whole>(&text);
        same::<Value>(&text);
    }

    #[test]
    fn malformed_text(text in nearly()) {
        same::<Value>(&text);
        same::<Vec<Kind>>(&text);
        same::<Message>(&text);
        same::<BTreeMap<u32, Option<u8>>>(&text);
        let skipped = (taut_json::from_slice::<IgnoredAny>(&text).is_ok(), serde_json::from_slice::<IgnoredAny>(&text).is_ok());
        // serde_json passes over a number that is no finite one, and over text that is not UTF-8 in a string.
        prop_assert!(skipped.0 == skipped.1 || !skipped.0 && serde_json::from_slice::<Value>(&text).is_err());
    }
}

#[test]
fn nesting_has_a_bound() {
    for depth in [1, 127, 128, 100_000] {
        let arrays = [b"[".repeat(depth), b"]".repeat(depth)].concat();
        let objects = [b"{\"a\":".repeat(depth), b"1".to_vec(), b"}".repeat(depth)].concat();
        for text in [arrays, objects] {
            assert_eq!(same::<Value>(&text).is_some(), depth <= 127, "{depth}");
            assert_eq!(taut_json::from_slice::<IgnoredAny>(&text).is_ok(), depth <= 127, "{depth}");
        }
    }
}

#[test]
fn errors_tell_what_is_wrong_and_where() {
    let read = |text: &str| taut_json::from_slice::<Inner>(text.as_bytes()).unwrap_err().to_string();
    assert_eq!(read(""), "it ends too early at byte 0");
    assert_eq!(read("[1]"), "invalid type: sequence, expected struct Inner at byte 0");
    assert_eq!(read("{\"unit\":null}"), "missing field `pair` at byte 12");
    assert_eq!(read("{\"text\":3}"), "invalid type: number, expected a string at byte 8");
    assert_eq!(read("{\"pair\":[1,70000]}"), "invalid value: integer `70000`, expected u16 at byte 16");
    assert_eq!(read("{\"pair\":[1,2.5]}"), "invalid type: floating point `2.5`, expected u16 at byte 14");
    assert_eq!(read("{\"pair\":[1,2,3]}"), "expected `]` at byte 12");
    assert_eq!(read("{\"text\":\"\\x\"}"), "a malformed string at byte 8");
    assert_eq!(read("{\"text\" 1}"), "expected `:` at byte 8");
    assert_eq!(read("{\"unit\":null,\"pair\":[1,2]} x"), "something follows the value at byte 27");
    assert_eq!(taut_json::from_slice::<Value>(b"\"\xff\"").unwrap_err().to_string(), "not UTF-8 at byte 1");
}

#[test]
fn keys_are_text_or_numbers() {
    assert_eq!(taut_json::to_string(&BTreeMap::from([(7_u64, Some(1)), (9, None)])).unwrap(), "{\"7\":1,\"9\":null}");
    assert_eq!(taut_json::to_string(&BTreeMap::from([(Letter::A, 1)])).unwrap(), "{\"A\":1}");
    assert!(taut_json::to_string(&BTreeMap::from([(vec![1], 1)])).is_err());
    assert!(taut_json::to_string(&BTreeMap::from([((), 1)])).is_err());
}

#[derive(PartialEq, Eq, PartialOrd, Ord, Serialize)]
enum Letter {
    A,
}
