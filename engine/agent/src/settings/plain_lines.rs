//! The module that replaces `lines` in a program built without the feature `config`, which has no reader of TOML: it reads the lines that it writes.

use taut_base::{TextPlace, TomlProblem};

use super::{Setting, find, meant};

/// Parses the lines that [`super::write_lines`] wrote; each is a setting, or what is wrong with it: a later version may have kept it.
pub fn read_lines(text: &str) -> Vec<Result<(&'static Setting, String), TomlProblem>> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let read = lines.map(|(number, line)| {
        let wrong = |what| TomlProblem { at: TextPlace { line: number + 1, column: 1 }, what };
        let Some((name, value)) = line.split_once('=').map(|(name, value)| (name.trim(), value.trim())) else {
            return Err(wrong(String::from("a line is a name, `=` and a value")));
        };
        let unknown = || wrong(format!("there is no setting `{name}`{}", meant(name)));
        let setting = find(name).ok_or_else(unknown)?;
        // Its quotes and escapes are those of JSON, too.
        let value = match value.starts_with('"') {
            true => taut_json::from_slice(value.as_bytes()).map_err(|error| wrong(format!("{name}: {error}")))?,
            false => String::from(value),
        };
        setting.check(&value).map_err(|what| wrong(format!("{name} = {value}: {what}")))?;
        Ok((setting, value))
    });
    read.collect()
}
