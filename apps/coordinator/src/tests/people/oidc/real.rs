//! Signing in at a real provider: npm's `oidc-provider`, which the OpenID Foundation has certified. It needs nothing but Node.js, takes a second to start, rotates
//! refresh tokens, and puts email and groups at the user info endpoint only, as the specification has it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use super::super::super::world::{Directory, TestCoordinator};
use super::super::client::Client;
use super::provider::{FakeProvider, SECRET};
use super::terminal::{begin as begin_terminal, finish, finished};
use super::{begin, get, own, refreshed};
use crate::oidc::OidcOptions;

/// Redirects and pages of one sign-in, 20: there are about eight.
const MOST_STEPS: usize = 20;

struct RealProvider {
    child: Child,
    /// Kept open: the provider writes more, and ends if it cannot.
    _output: BufReader<ChildStdout>,
    issuer: String,
}

impl RealProvider {
    fn start() -> Self {
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oidc/provider.mjs");
        let mut command = Command::new("node");
        command.args([program, "http://127.0.0.1:8288/oidc/callback", SECRET]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut issuer = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut issuer).unwrap();
        assert!(
            issuer.starts_with("http://"),
            "the provider does not start; TAUT_TEST_OIDC names a folder with its packages"
        );
        Self { child, _output: output, issuer: issuer.trim().to_owned() }
    }

    fn options(&self) -> OidcOptions {
        OidcOptions {
            issuer: self.issuer.clone(),
            scopes: ["profile", "email", "groups", "offline_access"].map(String::from).to_vec(),
            parameters: vec![(String::from("prompt"), String::from("consent"))],
            groups: vec![String::from("staff")],
            ..FakeProvider::start().options()
        }
    }

    /// Changes something at the provider.
    fn change(&self, path: &str) {
        let agent: ureq::Agent = ureq::Agent::config_builder().proxy(None).build().into();
        agent.post(format!("{}/test/{path}", self.issuer)).send_empty().unwrap();
    }

    /// Signs a person in and agrees to everything, as a browser does. Returns path and query of the coordinator's page to which it comes back, or the provider's last page.
    fn sign_in(&self, first: &str, name: &str) -> String {
        let config = ureq::Agent::config_builder().http_status_as_error(false).proxy(None).max_redirects(0);
        let agent: ureq::Agent = config.build().into();
        let (mut url, mut form, mut jar) = (first.to_owned(), None, BTreeMap::new());
        for _ in 0..MOST_STEPS {
            if let Some(back) = url.strip_prefix("http://127.0.0.1:8288") {
                return back.to_owned();
            }
            let cookies: Vec<String> = jar.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let cookies = cookies.join("; ");
            let mut answer = match form.take() {
                None => agent.get(&url).header("cookie", cookies).call().unwrap(),
                Some(form) => {
                    let kind = "application/x-www-form-urlencoded";
                    agent.post(&url).header("cookie", cookies).header("content-type", kind).send(form).unwrap()
                }
            };
            for line in answer.headers().get_all("set-cookie") {
                let (name, value) = line.to_str().unwrap().split(';').next().unwrap().split_once('=').unwrap();
                jar.insert(name.to_owned(), value.to_owned());
            }
            if let Some(location) = answer.headers().get("location") {
                let location = location.to_str().unwrap();
                url =
                    if location.starts_with('/') { format!("{}{location}", self.issuer) } else { location.to_owned() };
                continue;
            }
            let page = answer.body_mut().read_to_string().unwrap();
            let of = |page: &str, text: &str| {
                page.split_once(text).map(|(_, rest)| rest.split('"').next().unwrap_or_default().to_owned())
            };
            let Some(action) = of(&page, "action=\"") else { return page };
            url = action;
            let hidden = page.split("type=\"hidden\"").skip(1);
            let hidden = hidden.filter_map(|rest| Some((of(rest, "name=\"")?, of(rest, "value=\"")?)));
            let mut fields: Vec<String> = hidden.map(|(name, value)| format!("{name}={value}")).collect();
            if page.contains("name=\"login\"") {
                fields.push(format!("login={name}&password=any"));
            }
            form = Some(fields.join("&"));
        }
        panic!("the provider leads in circles: {url}");
    }
}

impl Drop for RealProvider {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "needs Node.js and npm's packages: tools/with_oidc_provider"]
fn a_person_signs_in_at_a_real_provider_and_loses_access_when_it_is_removed_there() {
    let (directory, provider) = (Directory::new(), RealProvider::start());
    let coordinator = TestCoordinator::start_with_provider(&directory, provider.options());
    let mut browser = Client::new(&coordinator);
    let page = begin(&mut browser);
    let answer = get(&browser, &provider.sign_in(&page, "ann"));
    assert_eq!(answer.status, 200, "{}", answer.body);
    browser.cookie = answer.cookie("taut-session");
    let user = own(&browser);
    assert_eq!((&user["issuer"], &user["name"]), (&json!(provider.issuer), &json!("ann")));
    assert_eq!((&user["display_name"], &user["email"]), (&json!("ann of the test"), &json!("ann@example.com")));
    assert_eq!(user["groups"], json!(["staff"]));
    // Twice, because each refresh token works once.
    for more in ["admins", "builders"] {
        provider.change(&format!("groups/ann/staff,{more}"));
        refreshed(&coordinator, || own(&browser)["groups"].as_array().is_some_and(|all| all.contains(&json!(more))));
    }
    provider.change("remove/ann");
    refreshed(&coordinator, || own(&browser) == Value::Null);
    assert_eq!(get(&browser, "/api/v1/session").status, 401);
}

#[test]
#[ignore = "needs Node.js and npm's packages: tools/with_oidc_provider"]
fn a_person_signs_in_in_a_terminal_at_a_real_provider() {
    let (directory, provider) = (Directory::new(), RealProvider::start());
    let coordinator = TestCoordinator::start_with_provider(&directory, provider.options());
    let terminal = Client::new(&coordinator);
    let begun = begin_terminal(&terminal);
    assert_eq!(finish(&terminal, &begun).body["state"], json!("pending"));
    let page = provider.sign_in(begun["page_with_code"].as_str().unwrap(), "ann");
    assert!(page.contains("Sign-in Success"), "{page}");
    let token = finished(&terminal, &begun);
    let user = || token.send("GET", "/api/v1/session", &Value::Null).body["user"].clone();
    assert_eq!((&user()["issuer"], &user()["name"]), (&json!(provider.issuer), &json!("ann")));
    assert_eq!((&user()["email"], &user()["groups"]), (&json!("ann@example.com"), &json!(["staff"])));
    // This provider withdraws everything if a device code is used twice.
    assert_eq!(finish(&terminal, &begun).status, 401);
    provider.change("groups/ann/staff,admins");
    refreshed(&coordinator, || user()["groups"] == json!(["admins", "staff"]));
    provider.change("remove/ann");
    refreshed(&coordinator, || user() == Value::Null);
}
