//! Signing in at an OpenID provider that may lie (faults E14, E15).

mod groups;
mod provider;
mod real;
mod terminal;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::world::{Directory, TestCoordinator};
use super::client::{Answer, Client, person};
use provider::{FakeProvider, LIES, Lie, Refresh, SECRET};

/// Name under which browsers reach the coordinator of a test.
const HOST: (&str, &str) = ("host", "127.0.0.1:8288");

/// Timeout of what happens in the background, 20 s; only a failing test reaches it.
const SOON: Duration = Duration::from_secs(20);

fn get(client: &Client<'_>, path: &str) -> Answer {
    client.send_with("GET", path, &Value::Null, &[HOST])
}

/// Begins to sign in. The client keeps the cookie. Returns the provider's page.
fn begin(client: &mut Client<'_>) -> String {
    let answer = get(client, "/oidc/begin?return=/nodes");
    assert_eq!(answer.status, 303, "{}", answer.body);
    client.cookie = answer.cookie("taut-oidc");
    answer.header("location").unwrap().to_owned()
}

fn callback(client: &Client<'_>, code: &str, state: &str) -> Answer {
    get(client, &format!("/oidc/callback?code={code}&state={state}"))
}

/// Signs in. Returns the last page; the client has the session if there is one.
fn sign_in(client: &mut Client<'_>, provider: &FakeProvider) -> Answer {
    let (code, state) = provider.consent(&begin(client));
    let answer = callback(client, &code, &state);
    client.cookie = answer.cookie("taut-session");
    answer
}

/// Returns the user of a client's session; null without a valid one.
fn own(client: &Client<'_>) -> Value {
    get(client, "/api/v1/session").body["user"].clone()
}

fn users(coordinator: &TestCoordinator) -> Vec<Value> {
    Client::operator(coordinator).done("GET", "/api/v1/users", &Value::Null)["users"].as_array().unwrap().clone()
}

/// Makes it time to ask the provider, and waits until `is_done`.
fn refreshed(coordinator: &TestCoordinator, is_done: impl Fn() -> bool) {
    let store = coordinator.state.store();
    coordinator.wait(store.edit("UPDATE people SET checked_at = checked_at - 7200 WHERE issuer <> 'local'"));
    coordinator.wait(store.edit("UPDATE oidc_refreshes SET tried_at = tried_at - 7200"));
    let begin = Instant::now();
    loop {
        coordinator.wait(coordinator.state.refresh_now()).unwrap();
        if is_done() {
            return;
        }
        assert!(begin.elapsed() < SOON, "the refresh has no effect");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn fault_e14_a_person_is_issuer_and_subject_and_nothing_else() {
    let (directory, provider) = (Directory::new(), FakeProvider::start());
    let coordinator = TestCoordinator::start_with_provider(&directory, provider.options());
    person(&coordinator, "ann", None, Some("owner"));
    let operator = Client::operator(&coordinator);
    operator.done("PATCH", "/api/v1/users/ann", &json!({ "email": "ann@example.com" }));
    let mut browser = Client::new(&coordinator);
    let page = sign_in(&mut browser, &provider);
    assert_eq!(page.status, 200, "{}", page.body);
    assert!(page.body.as_str().unwrap().contains("url=/nodes"), "{}", page.body);
    let first = own(&browser);
    assert_eq!((&first["issuer"], &first["name"]), (&json!(provider.issuer()), &json!("248289761001")));
    assert_eq!((&first["display_name"], &first["email"]), (&json!("Ann Example"), &json!("ann@example.com")));
    assert_eq!((&first["groups"], &first["roles"]), (&json!(["staff"]), &json!([])), "not the owner of this address");
    assert_eq!(get(&browser, "/api/v1/users").status, 403);
    // The same person with another address, and another person with the same one.
    provider.script().email = json!("ann@EXAMPLE.com");
    let mut again = Client::new(&coordinator);
    sign_in(&mut again, &provider);
    assert_eq!((&own(&again)["id"], &own(&again)["email"]), (&first["id"], &json!("ann@EXAMPLE.com")));
    provider.script().subject = String::from("2");
    let mut other = Client::new(&coordinator);
    sign_in(&mut other, &provider);
    assert_ne!(own(&other)["id"], first["id"]);
    // A subject that is the name of a local person.
    provider.script().subject = String::from("ann");
    let mut named = Client::new(&coordinator);
    sign_in(&mut named, &provider);
    assert_eq!(own(&named)["roles"], json!([]));
    assert_eq!(users(&coordinator).len(), 4);
    let disabled = format!("/api/v1/users/{}", first["id"]);
    operator.done("PATCH", &disabled, &json!({ "disabled": true }));
    provider.script().subject = String::from("248289761001");
    let refused = sign_in(&mut browser, &provider);
    assert_eq!((refused.status, browser.cookie.as_deref()), (401, None), "a disabled person");
}

#[test]
fn fault_e14_the_same_subject_and_address_at_another_issuer_is_another_person() {
    let (directory, first, second) = (Directory::new(), FakeProvider::start(), FakeProvider::start());
    let coordinator = TestCoordinator::start_with_provider(&directory, first.options());
    let mut browser = Client::new(&coordinator);
    sign_in(&mut browser, &first);
    let id = own(&browser)["id"].clone();
    assert!(id.is_number());
    Client::operator(&coordinator).done("POST", &format!("/api/v1/users/{id}/role"), &json!({ "role": "owner" }));
    assert_eq!(get(&browser, "/api/v1/users").status, 200);
    let (token, cookie) = (coordinator.operator_token().to_owned(), browser.cookie.clone());
    drop(coordinator);
    let coordinator = TestCoordinator::start_with_provider(&directory, second.options());
    let old = Client { cookie, ..Client::new(&coordinator) };
    assert_eq!(get(&old, "/api/v1/session").status, 401, "its provider is not asked any more");
    let mut browser = Client::new(&coordinator);
    sign_in(&mut browser, &second);
    assert_ne!(own(&browser)["id"], id);
    assert_eq!(get(&browser, "/api/v1/users").status, 403);
    let all = Client::with_token(&coordinator, &token).done("GET", "/api/v1/users", &Value::Null);
    assert_eq!(all["users"].as_array().unwrap().len(), 2);
}

#[test]
fn fault_e14_no_lie_of_a_provider_opens_a_session() {
    let (directory, provider) = (Directory::new(), FakeProvider::start());
    let coordinator = TestCoordinator::start_with_provider(&directory, provider.options());
    let mut pages = Vec::new();
    for (lie, status) in LIES.into_iter().chain([(Lie::NoNonce, 401)]) {
        provider.script().lie = lie;
        let mut browser = Client::new(&coordinator);
        let page = sign_in(&mut browser, &provider);
        assert_eq!((page.status, browser.cookie.as_deref()), (status, None), "{lie:?}: {}", page.body);
        if status == 401 {
            pages.push(page.body);
        }
    }
    assert!(pages.windows(2).all(|two| two[0] == two[1]), "one answer for all");
    assert_eq!(users(&coordinator), [] as [Value; 0]);
    provider.script().lie = Lie::None;
    assert_eq!(sign_in(&mut Client::new(&coordinator), &provider).status, 200, "the test itself can sign in");
}

#[test]
fn fault_e14_a_sign_in_works_once_and_in_the_browser_that_began_it() {
    let (directory, provider) = (Directory::new(), FakeProvider::start());
    let coordinator = TestCoordinator::start_with_provider(&directory, provider.options());
    let (mut ann, mut eve) = (Client::new(&coordinator), Client::new(&coordinator));
    let (code, state) = provider.consent(&begin(&mut ann));
    let (eves_code, eves_state) = provider.consent(&begin(&mut eve));
    let refused = |client: &Client<'_>, code: &str, state: &str, what: &str| {
        let page = callback(client, code, state);
        assert_eq!((page.status, page.cookie("taut-session")), (401, None), "{what}");
    };
    refused(&ann, &eves_code, &eves_state, "the state of another browser");
    refused(&ann, &eves_code, &state, "the code of another browser");
    provider.script().checks_challenges = false;
    refused(&ann, &eves_code, &state, "the code of another browser, which the provider does not notice");
    refused(&Client::new(&coordinator), &code, &state, "no cookie");
    refused(&ann, &code, "", "no state");
    refused(&ann, "unknown", &state, "an unknown code");
    let cookie = ann.cookie.clone().unwrap();
    let mut changed = cookie.clone().into_bytes();
    let last = changed.len() - 2;
    changed[last] = if changed[last] == b'A' { b'B' } else { b'A' };
    let forged = Client { cookie: String::from_utf8(changed).ok(), ..Client::new(&coordinator) };
    refused(&forged, &code, &state, "a changed cookie");
    let late = coordinator.state.expired_sign_in(cookie.trim_start_matches("taut-oidc="));
    let late = Client { cookie: Some(format!("taut-oidc={late}")), ..Client::new(&coordinator) };
    refused(&late, &code, &state, "too late");
    let mixed = get(&ann, &format!("/oidc/callback?code={code}&state={state}&iss=https://evil.example"));
    assert_eq!(mixed.status, 401, "an answer of another issuer");
    let denied = get(&ann, &format!("/oidc/callback?error=access_denied&state={state}"));
    assert_eq!(denied.status, 401);
    assert_eq!(get(&ann, "/oidc/callback").status, 401);
    let twice = get(&ann, &format!("/oidc/callback?code={code}&code={eves_code}&state={state}"));
    assert_eq!(twice.status, 401, "two codes");
    let page = callback(&ann, &code, &state);
    assert_eq!(page.status, 200, "nothing of it used the sign-in up");
    let set = page.header("set-cookie").unwrap();
    assert!(set.starts_with("taut-oidc=; ") && set.contains("Max-Age=0"), "{set}");
    refused(&ann, &code, &state, "replayed, although the provider takes the code twice");
    assert_eq!(users(&coordinator).len(), 1);
}

#[test]
fn fault_e14_nobody_is_sent_to_another_site() {
    let (directory, provider) = (Directory::new(), FakeProvider::start());
    let coordinator = TestCoordinator::start_with_provider(&directory, provider.options());
    let browser = Client::new(&coordinator);
    for wrong in
        ["//evil.example", "https://evil.example", "/%5cevil.example", "%2f%2fevil.example", "/%0d%0aset-cookie:x"]
    {
        let answer = get(&browser, &format!("/oidc/begin?return={wrong}"));
        assert_eq!((answer.status, answer.header("location")), (400, None), "{wrong}");
    }
    for host in ["evil.example", "127.0.0.1:9999", "localhost"] {
        let answer = browser.send_with("GET", "/oidc/begin", &Value::Null, &[("host", host)]);
        assert_eq!((answer.status, answer.header("location")), (403, None), "{host}");
    }
    let begun = get(&browser, "/oidc/begin");
    let cookie = begun.header("set-cookie").unwrap();
    assert!(cookie.contains("; HttpOnly; SameSite=Lax") && cookie.contains("Max-Age=600"), "{cookie}");
    assert!(!begun.header("location").unwrap().contains(SECRET) && !begun.body.to_string().contains(SECRET));
    // A page to sign in that is none.
    provider.script().metadata = json!({ "authorization_endpoint": "javascript:alert(1)" });
    drop(coordinator);
    let coordinator = TestCoordinator::start_with_provider(&directory, provider.options());
    assert_eq!(get(&Client::new(&coordinator), "/oidc/begin").status, 503);
}

#[test]
fn fault_e14_only_people_of_the_domains_and_groups_are_let_in() {
    let (directory, provider) = (Directory::new(), FakeProvider::start());
    let options = crate::oidc::OidcOptions { groups: vec![String::from("staff")], ..provider.options() };
    let coordinator = TestCoordinator::start_with_provider(&directory, options);
    let tried = |email: Value, is_confirmed, groups: Value| {
        let mut script = provider.script();
        (script.email, script.is_confirmed, script.groups) = (email, is_confirmed, groups);
        drop(script);
        sign_in(&mut Client::new(&coordinator), &provider).status
    };
    assert_eq!(tried(json!("eve@evil.example"), true, json!(["staff"])), 403);
    assert_eq!(tried(json!("eve@example.com"), false, json!(["staff"])), 403, "an address that anyone can write");
    assert_eq!(tried(Value::Null, true, json!(["staff"])), 403);
    assert_eq!(tried(json!("eve@example.com"), true, json!(["guests"])), 403);
    assert_eq!(tried(json!("eve@example.com"), true, json!([])), 403);
    assert_eq!(users(&coordinator), [] as [Value; 0]);
    assert_eq!(tried(json!("ann@example.com"), true, json!(["staff"])), 200);
}

#[test]
fn fault_e14_people_whom_the_provider_removed_lose_access_at_the_next_refresh() {
    let (directory, provider) = (Directory::new(), FakeProvider::start());
    let coordinator = TestCoordinator::start_with_provider(&directory, provider.options());
    let mut browser = Client::new(&coordinator);
    sign_in(&mut browser, &provider);
    browser.csrf = get(&browser, "/api/v1/session").body["csrf_token"].as_str().map(String::from);
    let body = json!({ "name": "mine", "scopes": "all" });
    let made = browser.send_with("POST", "/api/v1/tokens", &body, &[HOST]).body;
    let token = Client::with_token(&coordinator, made["secret"].as_str().unwrap());
    let works = |client: &Client<'_>| get(client, "/api/v1/session").status == 200;
    assert!(works(&browser) && works(&token));
    // Other groups; the token rotates.
    provider.script().groups = json!(["staff", "admins"]);
    refreshed(&coordinator, || own(&browser)["groups"] == json!(["admins", "staff"]));
    provider.script().refresh = Refresh::WithoutIdToken;
    provider.script().groups = json!([]);
    refreshed(&coordinator, || own(&browser)["groups"] == json!([]));
    let used = provider.script().refreshed.clone();
    assert!(used.len() == 2 && used[0] != used[1], "{used:?}");
    // Failures that say nothing about the person.
    for refresh in [Refresh::Broken, Refresh::Client, Refresh::Another] {
        provider.script().refresh = refresh;
        let before = provider.script().refreshed.len();
        refreshed(&coordinator, || provider.script().refreshed.len() > before);
        assert!(works(&browser) && works(&token), "{refresh:?}");
    }
    provider.script().refresh = Refresh::Removed;
    refreshed(&coordinator, || !works(&browser));
    assert!(!works(&token), "its tokens, too");
    assert_eq!(users(&coordinator)[0]["lapsed"], json!(true));
    let entries = Client::operator(&coordinator).done("GET", "/api/v1/audit?limit=500", &Value::Null);
    let of =
        |action: &str| entries["entries"].as_array().unwrap().iter().filter(|entry| entry["action"] == action).count();
    assert_eq!((of("user-created"), of("user-confirmed"), of("user-lapsed")), (1, 3, 1));
    assert!(!entries.to_string().contains("refresh-"), "no secret in the audit log");
    // It comes back by signing in.
    provider.script().refresh = Refresh::Confirmed;
    sign_in(&mut browser, &provider);
    assert!(works(&browser) && works(&token));
    // Out of the domain: as if it were removed.
    provider.script().email = json!("ann@evil.example");
    refreshed(&coordinator, || !works(&browser));
}

#[test]
fn fault_e14_people_who_cannot_be_confirmed_have_access_for_a_bounded_time() {
    let (directory, provider) = (Directory::new(), FakeProvider::start());
    provider.script().gives_refresh_tokens = false;
    let coordinator = TestCoordinator::start_with_provider(&directory, provider.options());
    let mut browser = Client::new(&coordinator);
    sign_in(&mut browser, &provider);
    assert!(own(&browser)["id"].is_number());
    refreshed(&coordinator, || own(&browser).is_null());
    assert_eq!(provider.script().refreshed, [] as [String; 0], "there was nothing to ask with");
    // The provider is away for more than three days.
    provider.script().gives_refresh_tokens = true;
    provider.script().refresh = Refresh::Broken;
    sign_in(&mut browser, &provider);
    assert!(own(&browser)["id"].is_number());
    let store = coordinator.state.store();
    coordinator.wait(store.edit("UPDATE people SET checked_at = checked_at - 259201"));
    assert!(own(&browser).is_null());
}

#[test]
fn a_copy_of_the_database_has_no_refresh_token_that_can_be_used() {
    let (directory, provider) = (Directory::new(), FakeProvider::start());
    let coordinator = TestCoordinator::start_with_provider(&directory, provider.options());
    sign_in(&mut Client::new(&coordinator), &provider);
    drop(coordinator);
    let text = super::super::world::dump(&directory.database()).join("\n");
    let bytes = format!("{:?}", b"refresh-");
    let bytes = bytes.trim_matches(['[', ']']);
    assert!(text.contains("oidc_refreshes [") && !text.contains("refresh-") && !text.contains(bytes), "{text}");
    // With another client secret it cannot be opened: the person signs in again.
    let options = crate::oidc::OidcOptions { client_secret: String::from("new").into(), ..provider.options() };
    let coordinator = TestCoordinator::start_with_provider(&directory, options);
    refreshed(&coordinator, || {
        let (people, _) = coordinator.wait(coordinator.state.users(0, 10)).unwrap();
        people[0].row.lapsed_at.is_some()
    });
    assert_eq!(provider.script().refreshed, [] as [String; 0]);
}

#[test]
fn fault_e15_no_private_address_is_asked_without_the_flag() {
    let (directory, provider) = (Directory::new(), FakeProvider::start());
    for issuer in [provider.issuer(), format!("http://localhost:{}", provider.address.port())] {
        let options = crate::oidc::OidcOptions { allow_private: false, issuer, ..provider.options() };
        let coordinator = TestCoordinator::start_with_provider(&directory, options);
        let answer = get(&Client::new(&coordinator), "/oidc/begin");
        assert_eq!((answer.status, answer.header("location")), (503, None));
        assert_eq!(provider.script().seen, [] as [String; 0], "not even a connection with a request");
    }
}

#[test]
fn fault_e15_addresses_that_a_provider_names_are_checked_as_well() {
    let (directory, provider) = (Directory::new(), FakeProvider::start());
    let bad = [
        ("jwks_uri", "http://169.254.169.254/latest/meta-data/"),
        ("jwks_uri", "file:///etc/passwd"),
        ("token_endpoint", "http://169.254.169.254/latest/meta-data/"),
        ("token_endpoint", "http://[fe80::1]/token"),
        ("token_endpoint", "gopher://127.0.0.1/"),
        ("userinfo_endpoint", "http://[::ffff:169.254.169.254]/"),
        ("issuer", "http://127.0.0.1:1"),
    ];
    for (name, url) in bad {
        provider.script().metadata = json!({ name: url });
        let coordinator = TestCoordinator::start_with_provider(&directory, provider.options());
        let mut browser = Client::new(&coordinator);
        let answer = get(&browser, "/oidc/begin");
        let status = match answer.status {
            303 => {
                browser.cookie = answer.cookie("taut-oidc");
                let (code, state) = provider.consent(answer.header("location").unwrap());
                callback(&browser, &code, &state).status
            }
            other => other,
        };
        assert_eq!(status, 503, "{name} {url}");
    }
}

#[test]
fn fault_e13_attempts_at_the_provider_are_limited_per_source() {
    let (directory, provider) = (Directory::new(), FakeProvider::start());
    let coordinator = TestCoordinator::start_with_provider(&directory, provider.options());
    let browser = Client::new(&coordinator);
    let statuses: Vec<u16> = (0..25).map(|_| get(&browser, "/oidc/begin").status).collect();
    assert!(statuses[..20].iter().all(|status| *status == 303) && statuses.contains(&429), "{statuses:?}");
    assert_eq!(get(&Client::new(&coordinator), "/oidc/begin").status, 303, "others are not affected");
    assert_eq!(provider.script().seen.len(), 2, "metadata and keys are read once");
}

#[test]
fn without_a_provider_there_is_nothing_to_sign_in_at() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    for path in ["/oidc/begin", "/oidc/callback?code=x&state=y"] {
        let answer = get(&Client::new(&coordinator), path);
        assert_eq!((answer.status, answer.header("set-cookie")), (404, None), "{path}");
    }
}
