//! Settings, as users see them.

use serde::Serialize;

/// The settings of the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, taut_json::Deserialize)]
pub struct SettingsStatus {
    /// [`super::SCHEMA`].
    pub schema: u32,
    /// All of them.
    pub settings: Vec<SettingStatus>,
    /// Whether what `taut set` keeps is on the disk.
    pub saved: bool,
}

/// A setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, taut_json::Deserialize)]
pub struct SettingStatus {
    /// Its name, such as `lanes`.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Where the value comes from: `flag`, `environment`, `set`, `file`, `network` (the device of a further network); `null` for the default.
    pub origin: Option<String>,
    /// Whether the value takes effect only when the network starts again.
    pub waits: bool,
}

/// A change of a setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, taut_json::Deserialize)]
pub struct SettingChange {
    /// Its name.
    pub name: String,
    /// The value to keep; `null` to keep none.
    pub value: Option<String>,
}
