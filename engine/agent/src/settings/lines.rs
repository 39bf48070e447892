//! What `taut set` keeps, as text: one `name = "value"` per line, with the values as the flags have them.

use taut_base::{TomlProblem, TomlValue, read_toml};

use super::{Setting, find, meant};

/// Parses the lines that [`super::write_lines`] wrote; each is a setting, or what is wrong with it: a later version may have kept it.
pub fn read_lines(text: &str) -> Vec<Result<(&'static Setting, String), TomlProblem>> {
    let entries = read_toml(text).into_iter();
    let read = entries.map(|entry| {
        let entry = entry?;
        let name = &entry.name;
        let unknown = || TomlProblem { at: entry.at, what: format!("there is no setting `{name}`{}", meant(name)) };
        let setting = find(name).ok_or_else(unknown)?;
        let value = match entry.value {
            TomlValue::Text(text) => text,
            TomlValue::Number(number) => number.to_string(),
            TomlValue::Switch(on) => on.to_string(),
            TomlValue::List(items) => items.join(","),
        };
        let wrong = |what| TomlProblem { at: entry.value_at, what: format!("{name} = {value}: {what}") };
        setting.check(&value).map_err(wrong)?;
        Ok((setting, value))
    });
    read.collect()
}
