//! JSON of coordinators, daemons and state files, against another reader.

use serde::de::IgnoredAny;
use serde_json::Value;

/// Both read the same values and refuse the same texts, and what is written is read again.
pub(crate) fn json(data: &[u8]) {
    let (ours, theirs) = (taut_json::from_slice::<Value>(data), serde_json::from_slice::<Value>(data));
    assert_eq!(ours.is_ok(), theirs.is_ok(), "{ours:?}, and {theirs:?}");
    assert_eq!(taut_json::from_slice::<IgnoredAny>(data).is_ok(), ours.is_ok());
    let (Ok(ours), Ok(theirs)) = (ours, theirs) else { return };
    assert!(is_same(&ours, &theirs), "{ours}, and {theirs}");
    for value in [ours, theirs] {
        let Ok(text) = taut_json::to_string(&value) else { unreachable!("every value has keys of text") };
        assert!(taut_json::from_slice::<Value>(text.as_bytes()).is_ok_and(|again| again == value), "{text}");
        let pretty = taut_json::pretty(&text);
        assert!(taut_json::from_slice::<Value>(pretty.as_bytes()).is_ok_and(|again| again == value), "{pretty}");
    }
}

/// Compares values. The other reader is a bit off at some numbers with a fraction.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(a), Value::Number(b)) if a.is_f64() && b.is_f64() => {
            let [a, b] = [a, b].map(|number| number.as_f64().unwrap_or(f64::NAN));
            (a - b).abs() <= a.abs() * 1e-12 + f64::MIN_POSITIVE
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|((name, a), (other, b))| name == other && is_same(a, b))
        }
        _ => one == other,
    }
}

/// Texts with everything that JSON has.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    [
        "{\"a\":[1,-2,3.5,1e-7,18446744073709551615,18446744073709551616,-0],\"b\":{\"c\":null,\"d\":true,\"e\":false}}",
        " { \"\\u00e9\\ud83d\\ude00\\n\\\"\\\\\\/\" : \"é\u{7f}\" ,\t\"a\":1,\"a\":2 }\r\n",
        "[[[[[[[[[[{\"a\":[]}]]]]]]]]],{}]",
        "\"\\ud83d\"",
        "[01,1.,.5,1e,+1,tru,1e999]",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}
