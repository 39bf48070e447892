//! Settings as text, one `name = value` per line: the configuration file, and what `taut set` keeps. It is the part of TOML that settings need: names, booleans, numbers, texts in
//! double quotes or without, and comments.

use std::fmt;

use super::{Setting, find, meant};

/// A line that is no setting.
#[derive(Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Its number, from 1 on.
    pub line: usize,
    /// What is wrong, and what to write instead.
    pub what: String,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

/// Parses the lines of a file; each is a setting, or what is wrong with it. Empty lines and comments are left out.
pub fn read_lines(text: &str) -> Vec<Result<(&'static Setting, String), BadLine>> {
    let mut names: Vec<&str> = Vec::new();
    let lines = text.lines().enumerate().map(|(number, line)| (number + 1, line.trim()));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let read = lines.map(|(number, line)| {
        let read = read_line(line).and_then(|(setting, value)| match names.contains(&setting.name) {
            true => Err(format!("`{}` is set a second time", setting.name)),
            false => {
                names.push(setting.name);
                Ok((setting, value))
            }
        });
        read.map_err(|what| BadLine { line: number, what })
    });
    read.collect()
}

fn read_line(line: &str) -> Result<(&'static Setting, String), String> {
    let (name, value) = line.split_once('=').ok_or_else(|| format!("`{line}` has no `=`; write `name = value`"))?;
    let name = name.trim();
    let setting = find(name).ok_or_else(|| format!("there is no setting `{name}`{}", meant(name)))?;
    let value = bare(value.trim())?;
    setting.check(value).map_err(|what| format!("{name} = {value}: {what}"))?;
    Ok((setting, String::from(value)))
}

/// Returns a value without its quotes, and without a comment behind it.
fn bare(value: &str) -> Result<&str, String> {
    let Some(rest) = value.strip_prefix('"') else {
        return Ok(value.split_once('#').map_or(value, |(value, _)| value).trim_end());
    };
    let Some((text, behind)) = rest.split_once('"') else { return Err(String::from("the second `\"` is missing")) };
    let behind = behind.trim_start();
    match behind.is_empty() || behind.starts_with('#') {
        true => Ok(text),
        false => Err(format!("`{behind}` behind the value is not expected")),
    }
}

/// Returns the lines of these settings.
pub fn write_lines<'a>(settings: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    settings.map(|(name, value)| format!("{name} = \"{value}\"\n")).collect()
}
