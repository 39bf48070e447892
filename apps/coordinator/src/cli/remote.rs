//! Client of the operator's API.

use std::io::{self, IsTerminal};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use taut_netmap::{OPERATOR_PREFIX, TOKEN_PREFIX};
use ureq::Agent;
use ureq::config::Config;
use ureq::http::{StatusCode, Uri};
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};

use super::arguments::Arguments;
use super::shown::{json_text, shown_lines};
use super::target::{ApiTarget, check_target};
use super::{CommandError, show, tls, token_file};
use crate::contract::ErrorAnswer;
use crate::state::API_PREFIX;

/// Timeout of a request, 35 s: the coordinator itself gives up after 30 s.
const TIMEOUT: Duration = Duration::from_secs(35);

/// A coordinator, and the form in which its answers are printed.
pub(super) struct Remote {
    agent: Agent,
    api: String,
    /// The operator token or API token; `None` for requests that need none.
    token: Option<String>,
    json: bool,
}

impl Remote {
    /// Reads `--api`, `--token`, `--ca`, `--insecure`, `--json` and their variables. Sends nothing.
    pub(super) fn new(arguments: &mut Arguments) -> Result<Self, CommandError> {
        let or_variable = |value: Option<String>, name| value.or_else(|| std::env::var(name).ok());
        let api =
            or_variable(arguments.value("api")?, "TAUT_API").unwrap_or_else(|| String::from("http://127.0.0.1:8288"));
        let token = or_variable(arguments.value("token")?, "TAUT_OPERATOR_TOKEN").map(token_file::read).transpose()?;
        let (agent, api) = connection(arguments, &api, "the operator token")?;
        let token = token.ok_or_else(|| {
            CommandError::Usage(String::from(
                "no operator token: give --token or TAUT_OPERATOR_TOKEN; the first start of `serve` made one, \
                 `taut-coordinator operator-token create` makes another; users of an OpenID provider have `taut-coordinator sign-in`",
            ))
        })?;
        check_token(&token)?;
        Ok(Self { agent, api, token: Some(token), json: arguments.switch("json") })
    }

    /// Returns a client without a token, for a coordinator at this URL and requests that need no token. `secret` is the secret that they have instead.
    pub(super) fn without_token(arguments: &mut Arguments, api: &str, secret: &str) -> Result<Self, CommandError> {
        let (agent, api) = connection(arguments, api, secret)?;
        Ok(Self { agent, api, token: None, json: arguments.switch("json") })
    }

    /// Returns true if answers are printed as JSON.
    pub(super) fn prints_json(&self) -> bool {
        self.json
    }

    pub(super) fn get(&self, path: &str) -> Result<Value, CommandError> {
        let mut request = self.agent.get(self.address(path));
        if let Some(bearer) = self.bearer() {
            request = request.header("Authorization", bearer);
        }
        self.read(request.call())
    }

    /// Sends a `GET` with a token that the coordinator has just made.
    pub(super) fn get_as(&self, token: &str, path: &str) -> Result<Value, CommandError> {
        self.read(self.agent.get(self.address(path)).header("Authorization", format!("Bearer {token}")).call())
    }

    /// Sends a `GET` for a path outside the API, which needs no token.
    pub(super) fn get_open(&self, path: &str) -> Result<Value, CommandError> {
        self.read(self.agent.get(format!("{}/{path}", self.api)).call())
    }

    pub(super) fn delete(&self, path: &str) -> Result<Value, CommandError> {
        let mut request = self.agent.delete(self.address(path));
        if let Some(bearer) = self.bearer() {
            request = request.header("Authorization", bearer);
        }
        self.read(request.call())
    }

    pub(super) fn post(&self, path: &str, body: &impl Serialize) -> Result<Value, CommandError> {
        let mut request = self.agent.post(self.address(path));
        if let Some(bearer) = self.bearer() {
            request = request.header("Authorization", bearer);
        }
        self.read(request.send_json(body))
    }

    /// Sends a `POST`. Returns `None` if there is no answer, or one that a later attempt may not get, because the coordinator or a server behind it is away.
    pub(super) fn post_patiently(&self, path: &str, body: &impl Serialize) -> Result<Option<Value>, CommandError> {
        let is_passing = |status: StatusCode| {
            status.is_server_error() || [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS].contains(&status)
        };
        match self.agent.post(self.address(path)).send_json(body) {
            Ok(response) if !is_passing(response.status()) => self.read(Ok(response)).map(Some),
            Ok(_) | Err(_) => Ok(None),
        }
    }

    pub(super) fn patch(&self, path: &str, body: &impl Serialize) -> Result<Value, CommandError> {
        let mut request = self.agent.patch(self.address(path));
        if let Some(bearer) = self.bearer() {
            request = request.header("Authorization", bearer);
        }
        self.read(request.send_json(body))
    }

    /// Prints an answer: with `--json` unchanged, otherwise as text. Characters that could move the cursor are escaped.
    pub(super) fn show<A: DeserializeOwned>(
        &self,
        answer: &Value,
        text: impl FnOnce(A) -> String,
    ) -> Result<(), CommandError> {
        if self.json {
            return show(&json_text(answer));
        }
        show(&shown_lines(&text(self.typed(answer)?)))
    }

    /// Prints an answer like [`Remote::show`], but the text is changed for a terminal only. For a document that is edited and sent back.
    pub(super) fn show_document<A: DeserializeOwned>(
        &self,
        answer: &Value,
        text: impl FnOnce(A) -> String,
    ) -> Result<(), CommandError> {
        if self.json || io::stdout().is_terminal() {
            return self.show(answer, text);
        }
        show(&text(self.typed(answer)?))
    }

    /// Reads an answer as a type of the contract.
    pub(super) fn typed<A: DeserializeOwned>(&self, answer: &Value) -> Result<A, CommandError> {
        A::deserialize(answer).map_err(|error| {
            CommandError::Run(format!(
                "the answer of {} is not understood: {error}; the coordinator is of another release; --json prints the answer unchanged",
                self.api
            ))
        })
    }

    fn address(&self, path: &str) -> String {
        format!("{}/api/v1/{path}", self.api)
    }

    fn bearer(&self) -> Option<String> {
        self.token.as_ref().map(|token| format!("Bearer {token}"))
    }

    fn read(&self, response: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<Value, CommandError> {
        let unreachable = |error: ureq::Error| {
            CommandError::Run(tls::explain(&self.api, &error).unwrap_or_else(|| {
                format!("no answer from {}: {error}; is `taut-coordinator serve` running there? see --api", self.api)
            }))
        };
        let mut response = response.map_err(unreachable)?;
        let status = response.status();
        if status.is_redirection() {
            let place = response.headers().get("location").and_then(|place| place.to_str().ok()).unwrap_or("nowhere");
            return Err(CommandError::Run(format!(
                "{} redirects to {place}, which is not followed, because another server could read the secrets of the request; give the right address by --api",
                self.api
            )));
        }
        let text = response.body_mut().read_to_string().unwrap_or_default();
        let body: Value = serde_json::from_str(&text).map_err(|_| {
            // Servers of TLS answer a plain request in words of their own, which name https.
            let wants_tls = self.api.starts_with("http://") && text.to_ascii_lowercase().contains("https");
            CommandError::Run(match wants_tls && status.as_u16() == 400 {
                true => format!("the server at {} speaks https at this port; write https:// into --api", self.api),
                false => {
                    format!("the server at {} is not a taut-coordinator (status {status}); check --api", self.api)
                }
            })
        })?;
        if status.is_success() {
            return Ok(body);
        }
        if status.as_u16() == 401 && self.token.is_some() {
            let message = format!("the token of --token or TAUT_OPERATOR_TOKEN is not known at {}", self.api);
            let hint = "check the token and --api; `taut-coordinator operator-token create` makes a token on the coordinator's host, and `taut-coordinator sign-in` one of a user of the OpenID provider";
            return Err(CommandError::Refused { message, hint: Some(String::from(hint)) });
        }
        let error = serde_json::from_value::<ErrorAnswer>(body).map(|answer| (answer.error.message, answer.error.hint));
        let (message, hint) = error.unwrap_or_default();
        let message = if message.is_empty() { format!("{} answers with status {status}", self.api) } else { message };
        Err(CommandError::Refused { message, hint: Some(hint).filter(|hint| !hint.is_empty()) })
    }
}

/// Returns the client for the coordinator at a URL to which `secret` is sent, and the URL up to `/api/v1`. Reads `--ca` and `--insecure`.
fn connection(arguments: &mut Arguments, api: &str, secret: &str) -> Result<(Agent, String), CommandError> {
    let ca = arguments.value("ca")?.or_else(|| std::env::var("TAUT_CA").ok()).map(PathBuf::from);
    let localhost = |port| ("localhost", port).to_socket_addrs().map(Iterator::collect);
    let ApiTarget { url, addresses, is_https } = check_target(api, secret, arguments.switch("insecure"), localhost)?;
    let mut config = Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(TIMEOUT))
        // Only the coordinator may get the token: no proxy of the environment, and no target of a redirect.
        .proxy(None)
        .max_redirects(0);
    if is_https {
        config = config.tls_config(tls::config(ca.as_deref())?);
    }
    let agent = match addresses {
        Some(addresses) => Agent::with_parts(config.build(), DefaultConnector::default(), Pinned(addresses)),
        None => config.build().into(),
    };
    Ok((agent, url))
}

/// Returns a usage error if the text is neither an operator token nor an API token. It may be another secret, such as a join token, which must not be sent.
fn check_token(token: &str) -> Result<(), CommandError> {
    if token.starts_with(OPERATOR_PREFIX) || token.starts_with(API_PREFIX) {
        return Ok(());
    }
    let what = if token.starts_with(TOKEN_PREFIX) {
        "this is a join token, for `taut up --join`"
    } else {
        "this is not an operator token"
    };
    Err(CommandError::Usage(format!(
        "{what}; an operator token starts with `{OPERATOR_PREFIX}`, and `taut-coordinator operator-token create` makes one on the coordinator's host"
    )))
}

/// Resolver that returns the checked addresses for every name.
#[derive(Debug)]
struct Pinned(Vec<SocketAddr>);

impl Resolver for Pinned {
    fn resolve(&self, _: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let mut addresses = self.empty();
        // The array has 16 places.
        self.0.iter().take(16).for_each(|address| addresses.push(*address));
        if addresses.is_empty() { Err(ureq::Error::HostNotFound) } else { Ok(addresses) }
    }
}

/// Escapes a part of a path or query (RFC 3986 section 2.1).
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

/// Returns `?network=NAME`, or an empty text.
pub(super) fn in_network(network: Option<&str>) -> String {
    network.map(|name| format!("?network={}", escape(name))).unwrap_or_default()
}

/// Returns the items separated by spaces.
pub(super) fn joined(items: &[impl ToString]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}
