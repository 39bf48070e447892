//! Values of the configuration file, each of the kind that its setting has.

use taut_base::TomlValue;

use super::{Kind, Setting};

impl Setting {
    /// Checks a value of the configuration file, and returns it as it is shown.
    ///
    /// # Errors
    /// What to write instead.
    pub fn check_file(&self, value: &TomlValue) -> Result<String, String> {
        let name = self.name;
        let text = match (self.kind, value) {
            (Kind::Switch | Kind::OnOff, TomlValue::Switch(on)) => on.to_string(),
            (Kind::Number, TomlValue::Number(number)) => number.to_string(),
            // A number in quotes has the wrong kind, as the coordinator's file has it.
            (Kind::Number, TomlValue::Text(text)) if text.parse::<i64>().is_err() => text.clone(),
            (Kind::OnOff | Kind::Text | Kind::List, TomlValue::Text(text)) => text.clone(),
            (Kind::List, TomlValue::List(items)) => {
                // An empty array is no value, as the default of every list has a word for that.
                let empty = || String::from(if name == "suites" { "ChaCha20Poly1305" } else { "" });
                if items.is_empty() { empty() } else { items.join(",") }
            }
            (_, other) => return Err(format!("`{name}` is {}, and has to be {}", other.kind(), self.wanted())),
        };
        self.check(&text).map_err(|what| format!("{name} = {text}: {what}"))
    }

    /// Returns what its value in the file has to be.
    fn wanted(&self) -> String {
        let name = self.name;
        match self.kind {
            Kind::Switch | Kind::OnOff => format!("true or false: {name} = true"),
            Kind::Number => String::from("a whole number, or a word in quotes"),
            Kind::Text => format!("a text in quotes: {name} = \"…\""),
            Kind::List => format!("an array of texts: {name} = [\"…\"]"),
        }
    }
}
