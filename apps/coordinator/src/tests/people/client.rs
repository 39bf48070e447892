//! Clients of the API with cookies and headers, and people with roles.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

use super::super::document::check_answer;
use super::super::world::TestCoordinator;

/// Password of all people in these tests.
pub(in crate::tests) const PASSWORD: &str = "correct horse battery";

/// An answer.
pub(in crate::tests) struct Answer {
    pub(in crate::tests) status: u16,
    pub(in crate::tests) body: Value,
    headers: Vec<(String, String)>,
}

impl Answer {
    pub(in crate::tests) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the cookie of this name that the answer sets, as a browser sends it; `None` if it deletes it or does not set it.
    pub(in crate::tests) fn cookie(&self, name: &str) -> Option<String> {
        let set = self.headers.iter().filter(|(known, _)| known == "set-cookie");
        let pair =
            set.filter_map(|(_, line)| line.split(';').next()).find(|pair| pair.starts_with(&format!("{name}=")));
        pair.filter(|pair| !pair.ends_with('=')).map(String::from)
    }

    pub(in crate::tests) fn code(&self) -> &str {
        self.body["error"]["code"].as_str().unwrap_or_default()
    }

    /// Returns the body without what differs in each answer.
    pub(in crate::tests) fn plain(&self) -> Value {
        let mut body = self.body.clone();
        body["error"]["request_id"] = Value::Null;
        body
    }
}

/// A client with the credentials that it sends.
pub(in crate::tests) struct Client<'a> {
    pub(in crate::tests) coordinator: &'a TestCoordinator,
    pub(in crate::tests) token: Option<String>,
    pub(in crate::tests) cookie: Option<String>,
    pub(in crate::tests) csrf: Option<String>,
    /// Address that the client appears to have.
    pub(in crate::tests) source: RefCell<String>,
}

impl<'a> Client<'a> {
    /// Returns a client without credentials, with an address of its own.
    pub(in crate::tests) fn new(coordinator: &'a TestCoordinator) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let [_, b, c, d] = NUMBER.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let source = RefCell::new(format!("10.{b}.{c}.{d}"));
        Self { coordinator, token: None, cookie: None, csrf: None, source }
    }

    pub(in crate::tests) fn with_token(coordinator: &'a TestCoordinator, token: &str) -> Self {
        Self { token: Some(String::from(token)), ..Self::new(coordinator) }
    }

    pub(in crate::tests) fn operator(coordinator: &'a TestCoordinator) -> Self {
        Self::with_token(coordinator, coordinator.operator_token())
    }

    /// Sends a request. The answer is checked against the OpenAPI document.
    pub(in crate::tests) fn send(&self, method: &str, path: &str, body: &Value) -> Answer {
        self.send_with(method, path, body, &[])
    }

    pub(in crate::tests) fn send_with(&self, method: &str, path: &str, body: &Value, more: &[(&str, &str)]) -> Answer {
        let config = ureq::Agent::config_builder().http_status_as_error(false).proxy(None).max_redirects(0);
        let agent: ureq::Agent = config.allow_non_standard_methods(true).build().into();
        let url = format!("http://{}{path}", self.coordinator.address);
        let mut request = ureq::http::Request::builder().method(method).uri(url);
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let bearer = self.token.as_ref().map(|token| format!("Bearer {token}"));
        let source = self.source.borrow().clone();
        let own = [
            ("content-type", (!body.is_null()).then_some("application/json")),
            ("authorization", bearer.as_deref()),
            ("cookie", self.cookie.as_deref()),
            ("x-csrf-token", self.csrf.as_deref()),
            ("x-forwarded-for", Some(source.as_str())),
        ];
        for (name, value) in own.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            if !more.iter().any(|(other, _)| *other == name) {
                request = request.header(name, value);
            }
        }
        for (name, value) in more {
            request = request.header(*name, *value);
        }
        let mut response = agent.run(request.body(text).unwrap()).unwrap();
        let status = response.status().as_u16();
        let headers = response.headers().iter();
        let headers =
            headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap_or_default().to_owned())).collect();
        let text = response.body_mut().read_to_string().unwrap();
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        if path.starts_with("/api/") && path != "/api/v1/openapi.json" {
            check_answer(method, path, status, &body);
        }
        Answer { status, body, headers }
    }

    /// Sends a request that succeeds.
    pub(in crate::tests) fn done(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.send(method, path, body);
        assert!(answer.status < 300, "{method} {path} {body}: {} {}", answer.status, answer.body);
        answer.body
    }

    /// Keeps the session of an answer.
    pub(in crate::tests) fn keep(&mut self, answer: &Answer) {
        let cookie = answer.header("set-cookie").expect("a cookie");
        self.cookie = Some(cookie.split(';').next().unwrap().to_owned());
        self.csrf = answer.body["csrf_token"].as_str().map(String::from);
    }

    /// Signs in.
    pub(in crate::tests) fn sign_in(&mut self, name: &str, code: Option<&str>) -> Answer {
        let body = json!({ "name": name, "password": PASSWORD, "code": code });
        let answer = self.send("POST", "/api/v1/sign-in", &body);
        if answer.status == 201 {
            self.keep(&answer);
        }
        answer
    }

    /// Returns a client with a session of a person.
    pub(in crate::tests) fn of(coordinator: &'a TestCoordinator, name: &str) -> Self {
        let mut client = Self::new(coordinator);
        let answer = client.sign_in(name, None);
        assert_eq!(answer.status, 201, "{name}: {}", answer.body);
        client
    }
}

/// Returns the secret of a link.
pub(in crate::tests) fn secret_of(link: &str) -> &str {
    link.rsplit_once('.').unwrap().1
}

/// Creates a person with a password and a role in a network, or in all.
pub(in crate::tests) fn person(coordinator: &TestCoordinator, name: &str, network: Option<&str>, role: Option<&str>) {
    let operator = Client::operator(coordinator);
    let created = operator.done("POST", "/api/v1/users", &json!({ "name": name }));
    if let Some(role) = role {
        let body = json!({ "network": network, "role": role });
        operator.done("POST", &format!("/api/v1/users/{name}/role"), &body);
    }
    let secret = secret_of(created["password_link"].as_str().unwrap());
    Client::new(coordinator).done("POST", "/api/v1/password", &json!({ "secret": secret, "password": PASSWORD }));
}

/// Uses the set-up link of the first start.
pub(in crate::tests) fn set_up(coordinator: &TestCoordinator, name: &str) -> Answer {
    let link = &coordinator.first.as_ref().unwrap().set_up;
    let body = json!({ "secret": secret_of(link), "name": name, "password": PASSWORD });
    Client::new(coordinator).send("POST", "/api/v1/set-up", &body)
}
