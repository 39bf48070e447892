//! A client of the operator's API.

use std::time::Duration;

use serde_json::Value;
use ureq::Agent;

use super::arguments::Arguments;
use super::{Failed, show};

/// Longest wait for an answer; the coordinator itself gives up a request after 30 s.
const PATIENCE: Duration = Duration::from_secs(35);

/// A coordinator, and how its answers are shown.
pub(super) struct Remote {
    agent: Agent,
    api: String,
    token: String,
    json: bool,
}

impl Remote {
    /// From `--api`, `--token`, `--json` and their variables.
    pub(super) fn new(arguments: &mut Arguments) -> Result<Self, Failed> {
        let or_variable = |value: Option<String>, name| value.or_else(|| std::env::var(name).ok());
        let api =
            or_variable(arguments.value("api")?, "TAUT_API").unwrap_or_else(|| String::from("http://127.0.0.1:8288"));
        if !api.starts_with("http://") {
            return Err(Failed::Usage(format!(
                "`{api}` cannot be reached: this command speaks plain http only; run it on the coordinator's host, or over `ssh -L 8288:127.0.0.1:8288`"
            )));
        }
        let token = or_variable(arguments.value("token")?, "TAUT_OPERATOR_TOKEN").ok_or_else(|| {
            Failed::Usage(String::from(
                "no operator token: give --token or TAUT_OPERATOR_TOKEN; the first `serve` printed one, `taut-coordinator operator-token create` makes another",
            ))
        })?;
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(PATIENCE))
            // The token is for the coordinator alone, not for a proxy that the environment names.
            .proxy(None)
            .max_redirects(0)
            .build();
        let api = String::from(api.trim_end_matches('/'));
        Ok(Self { agent: config.into(), api, token, json: arguments.switch("json") })
    }

    pub(super) fn get(&self, path: &str) -> Result<Value, Failed> {
        let request = self.agent.get(self.address(path)).header("Authorization", self.bearer());
        self.read(request.call())
    }

    pub(super) fn delete(&self, path: &str) -> Result<Value, Failed> {
        let request = self.agent.delete(self.address(path)).header("Authorization", self.bearer());
        self.read(request.call())
    }

    pub(super) fn post(&self, path: &str, body: &Value) -> Result<Value, Failed> {
        let request = self.agent.post(self.address(path)).header("Authorization", self.bearer());
        self.read(request.send_json(body))
    }

    pub(super) fn patch(&self, path: &str, body: &Value) -> Result<Value, Failed> {
        let request = self.agent.patch(self.address(path)).header("Authorization", self.bearer());
        self.read(request.send_json(body))
    }

    /// Shows an answer: as it came with `--json`, else in words.
    pub(super) fn show(&self, answer: &Value, words: impl FnOnce(&Value) -> String) -> Result<(), Failed> {
        if self.json {
            return show(&format!("{answer:#}\n"));
        }
        show(&words(answer))
    }

    fn address(&self, path: &str) -> String {
        format!("{}/api/v1/{path}", self.api)
    }

    fn bearer(&self) -> String {
        format!("Bearer {}", self.token)
    }

    fn read(&self, response: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<Value, Failed> {
        let unreachable = |error: ureq::Error| {
            Failed::Run(format!(
                "no answer from {}: {error}; is `taut-coordinator serve` running there? see --api",
                self.api
            ))
        };
        let mut response = response.map_err(unreachable)?;
        let status = response.status();
        let body: Value = response.body_mut().read_json().map_err(|_| {
            Failed::Run(format!("what answers at {} is no taut-coordinator (status {status}); check --api", self.api))
        })?;
        if status.is_success() {
            return Ok(body);
        }
        let part = |name: &str| body["error"][name].as_str().unwrap_or("unknown").to_owned();
        Err(Failed::Run(format!("{}; {}", part("message"), part("hint"))))
    }
}

/// One part of a path or query, escaped (RFC 3986 section 2.1).
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => escaped.push(char::from(byte)),
            other => escaped.push_str(&format!("%{other:02X}")),
        }
    }
    escaped
}

/// `?network=NAME`, or nothing.
pub(super) fn in_network(network: Option<&str>) -> String {
    network.map(|name| format!("?network={}", escape(name))).unwrap_or_default()
}

/// A field as words.
pub(super) fn word(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::from("-"),
        other => other.to_string(),
    }
}
