//! The configuration file of a node, against another parser of TOML.

use taut_base::{MAX_TOML_ITEMS, TomlEntry, TomlValue, quote_toml, read_toml};
use toml::de::{DeTable, DeValue};

/// Longest problem in bytes: it repeats at most the start of a line.
const LONGEST_PROBLEM: usize = 1_000;

/// What is accepted is TOML with the same meaning, what is refused has a place in the text, and a text that is written is read again.
pub(crate) fn settings_file(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let read = read_toml(&text);
    let lines = text.split('\n').count();
    let places = read.iter().map(|read| read.as_ref().map_or_else(|problem| problem.at, |entry| entry.at));
    assert!(places.clone().all(|at| (1..=lines).contains(&at.line) && at.column >= 1));
    let problems = read.iter().filter_map(|read| read.as_ref().err());
    assert!(problems.clone().all(|problem| problem.what.len() < LONGEST_PROBLEM && !problem.what.contains('\n')));
    let entries: Vec<&TomlEntry> = read.iter().filter_map(|read| read.as_ref().ok()).collect();
    if entries.len() == read.len() {
        compare(&text, &entries);
    }
    let quoted = format!("a = {}", quote_toml(&text));
    assert!(
        matches!(&read_toml(&quoted)[..], [Ok(TomlEntry { value: TomlValue::Text(again), .. })] if *again == *text),
        "{quoted}"
    );
}

/// Compares a text without problems with what another parser reads.
fn compare(text: &str, entries: &[&TomlEntry]) {
    let table = DeTable::parse(text);
    let table = table.unwrap_or_else(|error| unreachable!("{text:?} is not TOML: {error}")).into_inner();
    assert_eq!(table.len(), entries.len(), "{text:?}");
    for entry in entries {
        let other = table.get(entry.name.as_str()).map(toml::Spanned::get_ref);
        let same = match (&entry.value, other) {
            (TomlValue::Text(text), Some(DeValue::String(other))) => text == other.as_ref(),
            (TomlValue::Switch(on), Some(DeValue::Boolean(other))) => on == other,
            (TomlValue::Number(number), Some(DeValue::Integer(other))) => {
                other.radix() == 10 && other.as_str().parse() == Ok(*number)
            }
            (TomlValue::List(items), Some(DeValue::Array(others))) => {
                let texts = others.iter().map(|item| item.get_ref().as_str());
                items.len() <= MAX_TOML_ITEMS && items.iter().map(|item| Some(item.as_str())).eq(texts)
            }
            _ => false,
        };
        assert!(same, "{text:?}: {entry:?} is {other:?}");
    }
}

/// Files of a node.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    [
        "# /etc/taut/taut.toml\nlanes = 4\nlog-level = \"info,path=debug\"\nportmap = false\n",
        "state = '/srv/taut'\r\nmtu = 1_300 # why\r\nadvertise-routes = [\n  \"10.0.0.0/8\", # one\n  'x',\n]\r\n",
        "a = \"\\u00e9\\U0001F600\\n\\\"\\\\\"\nb = -0\nc = +7\nd = []\n",
        "[node]\na.b = 1\n\"c\" = 2\nd = { e = 1 }\nf = 1.5\ng = 2026-11-28\nh = \"\"\"i\"\"\"\n",
        "a = 1\na = 2\nb\nc =\nd = info, path=debug\ne = ['f' 'g'\n",
        "\u{feff}a = true\t# b\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}
