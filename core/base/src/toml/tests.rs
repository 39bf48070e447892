use super::*;

fn entries(text: &str) -> Vec<(String, TomlValue)> {
    read_toml(text).into_iter().map(|read| read.unwrap()).map(|entry| (entry.name, entry.value)).collect()
}

fn problems(text: &str) -> Vec<(usize, usize, String)> {
    let read = read_toml(text).into_iter().filter_map(Result::err);
    read.map(|problem| (problem.at.line, problem.at.column, problem.what)).collect()
}

#[test]
fn every_kind_of_value_is_read() {
    let text = "# a comment\n\nlanes = 4 # why\r\n\tname=\"a \\\"b\\\" \\u00e9\\U0001F600\\t\"\nraw = 'C:\\d'\non = true\noff=false\n\
                far = -1_000\nlist = [\n  \"a\", # first\n  'b',\n]\nempty = []";
    let text_of = |text: &str| TomlValue::Text(String::from(text));
    let list = |items: &[&str]| TomlValue::List(items.iter().map(|item| String::from(*item)).collect());
    let expected = [
        ("lanes", TomlValue::Number(4)),
        ("name", text_of("a \"b\" é😀\t")),
        ("raw", text_of("C:\\d")),
        ("on", TomlValue::Switch(true)),
        ("off", TomlValue::Switch(false)),
        ("far", TomlValue::Number(-1000)),
        ("list", list(&["a", "b"])),
        ("empty", list(&[])),
    ];
    assert_eq!(entries(text), expected.map(|(name, value)| (String::from(name), value)));
    assert_eq!(entries("\u{feff}a = 1\n"), [(String::from("a"), TomlValue::Number(1))]);
}

#[test]
fn names_and_values_have_places() {
    let read = read_toml("\n  é = 1\n  a = 'x'\nlist = [\n 'y']");
    assert_eq!(read[0].as_ref().unwrap_err().at, TextPlace { line: 2, column: 3 });
    let entry = read[1].as_ref().unwrap();
    assert_eq!((entry.at, entry.value_at), (TextPlace { line: 3, column: 3 }, TextPlace { line: 3, column: 7 }));
    assert_eq!(read[2].as_ref().unwrap().value_at.to_string(), "line 4, column 8");
}

#[test]
fn a_wrong_line_has_its_place_and_what_to_write_and_the_others_are_read() {
    for (line, column, part) in [
        ("lanes 4", 1, "`lanes` has no `=`"),
        ("= 4", 1, "a name is expected, found `= 4`"),
        ("[node]", 1, "tables are not used"),
        ("\"a\" = 1", 1, "without quotes"),
        ("a.b = 1", 1, "dots"),
        ("a =", 4, "`a` has no value"),
        ("a = # none", 5, "`a` has no value"),
        ("log-level = warn, path=debug # x", 13, "log-level = \"warn, path=debug\""),
        ("a = b\"c", 5, "a text needs quotes around it"),
        ("a = 1.5", 5, "`1.5` is not a whole number"),
        ("a = 0x10", 5, "`0x10` is not a whole number"),
        ("a = 01", 5, "`01` is not a whole number"),
        ("a = 1__0", 5, "not a whole number"),
        ("a = 2026-11-28", 5, "not a whole number"),
        ("a = 99999999999999999999", 5, "too large"),
        ("a = \"x", 5, "the second `\"` is missing"),
        ("a = 'x", 5, "the second `'` is missing"),
        ("a = \"\"\"x\"\"\"", 5, "several lines"),
        ("a = \"\\x\"", 6, "escape"),
        ("a = \"\\ud800\"", 6, "escape"),
        ("a = \"x\u{1}\"", 7, "control character"),
        ("a = 1 # \u{7f}", 9, "control character"),
        ("a = 1 2", 7, "`2` behind the value"),
        ("a = 1\rb = 2", 6, "behind the value"),
        ("a = { b = 1 }", 5, "tables"),
        ("a = [1]", 6, "an item of an array has to be a text"),
        ("a = ['x' 'y']", 10, "`,` or `]`"),
        ("mtu = 1", 1, "`mtu` is set a second time; the first is in line 1"),
    ] {
        let read = read_toml(&format!("mtu = 1300\n{line}\nlast = true"));
        assert_eq!(read.len(), 3, "{line}: {read:?}");
        let bad = read[1].as_ref().unwrap_err();
        assert!((bad.at.line, bad.at.column) == (2, column) && bad.what.contains(part), "{line}: {bad}");
        assert!(read[0].is_ok() && read[2].is_ok(), "{line}");
    }
    assert_eq!(problems("a = ['x',\n'y'"), [(1, 5, String::from("the `]` of this array is missing"))]);
}

#[test]
fn an_array_and_what_a_problem_repeats_are_bounded() {
    let list = |count| format!("a = [{}]", "'x',".repeat(count));
    assert!(read_toml(&list(MAX_TOML_ITEMS))[0].is_ok());
    assert!(problems(&list(MAX_TOML_ITEMS + 1))[0].2.contains("256 items"));
    for text in ["a".repeat(10_000), "a=".repeat(10_000), format!("a = 1{}", "?".repeat(10_000))] {
        assert!(problems(&text).iter().all(|(.., what)| what.len() < 1_000));
    }
}

#[test]
fn a_text_is_read_as_it_was_quoted() {
    for text in ["", "plain", "a \"b\" \\ c", "é\t\n\r\u{0}\u{7f}", "'#'"] {
        assert_eq!(entries(&format!("a = {}", quote_toml(text))), [(String::from("a"), TomlValue::Text(text.into()))]);
    }
}
