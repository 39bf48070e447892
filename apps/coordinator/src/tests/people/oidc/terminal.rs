//! Signing in in a terminal at a provider that may lie (RFC 8628; faults E13, E14, E15).

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::super::world::{Directory, TestCoordinator};
use super::super::client::{Answer, Client};
use super::provider::{Device, FakeProvider, LIES, Lie, Refresh};
use super::{SOON, refreshed, users};
use crate::cli::run_words;

const BEGIN: &str = "/api/v1/sign-in/terminal";
const FINISH: &str = "/api/v1/sign-in/terminal/finish";

pub(super) fn begin(terminal: &Client<'_>) -> Value {
    let answer = terminal.send("POST", BEGIN, &json!({}));
    assert_eq!(answer.status, 201, "{}", answer.body);
    answer.body
}

pub(super) fn finish(terminal: &Client<'_>, begun: &Value) -> Answer {
    terminal.send("POST", FINISH, &json!({ "secret": begun["secret"] }))
}

/// Asks for the result after the person has signed in. Returns the client with the token.
pub(super) fn finished<'a>(terminal: &Client<'a>, begun: &Value) -> Client<'a> {
    let answer = finish(terminal, begun);
    assert_eq!((answer.status, &answer.body["state"]), (201, &json!("done")), "{}", answer.body);
    Client::with_token(terminal.coordinator, answer.body["secret"].as_str().unwrap())
}

/// Signs in. Returns the client with the token.
fn signed_in<'a>(coordinator: &'a TestCoordinator, provider: &FakeProvider) -> Client<'a> {
    provider.script().device = Device::Approved;
    let terminal = Client::new(coordinator);
    let begun = begin(&terminal);
    finished(&terminal, &begun)
}

fn own(client: &Client<'_>) -> Answer {
    client.send("GET", "/api/v1/session", &Value::Null)
}

#[test]
fn a_person_signs_in_in_a_terminal_and_gets_a_token_with_its_roles() {
    let (directory, provider) = (Directory::new(), FakeProvider::start());
    let coordinator = TestCoordinator::start_with_provider(&directory, provider.options());
    let terminal = Client::new(&coordinator);
    let wanted = json!({ "name": "laptop", "scopes": "users:read", "expires_in": 3_600 });
    let begun = terminal.done("POST", BEGIN, &wanted);
    let page = format!("{}/activate", provider.issuer());
    assert_eq!((&begun["code"], &begun["page"]), (&json!("WDJB-MJHT"), &json!(page)));
    assert_eq!(begun["page_with_code"], json!(format!("{page}?user_code=WDJB-MJHT")));
    assert_eq!((&begun["expires_in"], &begun["interval"]), (&json!(600), &json!(5)));
    let waiting = finish(&terminal, &begun);
    assert_eq!((&waiting.body["state"], &waiting.body["token"]), (&json!("pending"), &Value::Null));
    assert_eq!(users(&coordinator), [] as [Value; 0], "nothing is stored yet");
    provider.script().device = Device::Approved;
    let answer = finish(&terminal, &begun).body;
    assert_eq!((&answer["state"], &answer["token"]["name"]), (&json!("done"), &json!("laptop")));
    assert_eq!((&answer["token"]["scopes"], &answer["token"]["user"]), (&json!("users:read"), &json!("248289761001")));
    let life = answer["token"]["expires_at"].as_i64().unwrap() - answer["token"]["created_at"].as_i64().unwrap();
    assert_eq!(life, 3_600);
    let token = Client::with_token(&coordinator, answer["secret"].as_str().unwrap());
    let session = own(&token).body;
    assert_eq!(session["user"]["groups"], json!(["staff"]));
    assert_eq!((&session["user"]["issuer"], &session["user"]["roles"]), (&json!(provider.issuer()), &json!([])));
    assert!(session["user"]["seen_at"].is_i64());
    let list = |client: &Client<'_>| client.send("GET", "/api/v1/users", &Value::Null).status;
    assert_eq!(list(&token), 403, "no role yet");
    let operator = Client::operator(&coordinator);
    let id = session["user"]["id"].clone();
    operator.done("POST", &format!("/api/v1/users/{id}/role"), &json!({ "role": "owner" }));
    assert_eq!((list(&token), token.send("POST", "/api/v1/keys", &json!({})).status), (200, 403), "its scopes");
    // The record names the person, its address and the token, and no secret.
    let entries = operator.done("GET", "/api/v1/audit?limit=500", &Value::Null);
    let of = |action: &str| {
        let all = entries["entries"].as_array().unwrap().iter().filter(|entry| entry["action"] == action);
        all.cloned().collect::<Vec<_>>()
    };
    for action in ["signed-in", "token-created"] {
        let [entry] = of(action).try_into().unwrap();
        assert_eq!((&entry["actor"]["kind"], &entry["actor"]["id"]), (&json!("person"), &id), "{action}");
        assert_eq!(entry["source"], json!(*terminal.source.borrow()), "{action}");
    }
    assert_eq!(of("signed-in")[0]["after"]["token"], answer["token"]["id"]);
    let text = entries.to_string();
    for secret in ["device-", "refresh-", answer["secret"].as_str().unwrap(), begun["secret"].as_str().unwrap()] {
        assert!(!text.contains(secret), "{text}");
    }
}

#[test]
fn a_terminals_token_ends_with_the_access_of_its_person() {
    let (directory, provider) = (Directory::new(), FakeProvider::start());
    let coordinator = TestCoordinator::start_with_provider(&directory, provider.options());
    let token = signed_in(&coordinator, &provider);
    let id = own(&token).body["user"]["id"].clone();
    // The refresh token of a terminal's sign-in confirms the person, as that of a browser's.
    provider.script().groups = json!(["admins", "staff"]);
    refreshed(&coordinator, || own(&token).body["user"]["groups"] == json!(["admins", "staff"]));
    provider.script().refresh = Refresh::Removed;
    refreshed(&coordinator, || own(&token).status == 401);
    provider.script().refresh = Refresh::Confirmed;
    signed_in(&coordinator, &provider);
    assert_eq!(own(&token).status, 200, "it came back");
    let disabled = json!({ "disabled": true });
    Client::operator(&coordinator).done("PATCH", &format!("/api/v1/users/{id}"), &disabled);
    assert_eq!(own(&token).status, 401);
    let terminal = Client::new(&coordinator);
    let refused = finish(&terminal, &begin(&terminal));
    assert_eq!((refused.status, refused.code()), (401, "sign-in-failed"), "a disabled person");
    Client::operator(&coordinator).done("PATCH", &format!("/api/v1/users/{id}"), &json!({ "disabled": false }));
    token.done("DELETE", &format!("/api/v1/tokens/{}", own(&token).body["actor"]["id"]), &Value::Null);
    assert_eq!(own(&token).status, 401, "it signed out");
}

#[test]
fn fault_e14_no_lie_of_a_provider_gives_a_terminal_a_token() {
    let (directory, provider) = (Directory::new(), FakeProvider::start());
    let coordinator = TestCoordinator::start_with_provider(&directory, provider.options());
    provider.script().device = Device::Approved;
    let mut refusals = Vec::new();
    for (lie, status) in LIES {
        provider.script().lie = lie;
        let terminal = Client::new(&coordinator);
        let answer = finish(&terminal, &begin(&terminal));
        assert_eq!(answer.status, status, "{lie:?}: {}", answer.body);
        assert!(!answer.body.to_string().contains("tautapi-"), "{lie:?}");
        if status == 401 {
            refusals.push(answer.plain());
        }
    }
    for device in [Device::Denied, Device::Expired] {
        (provider.script().lie, provider.script().device) = (Lie::None, device);
        let terminal = Client::new(&coordinator);
        refusals.push(finish(&terminal, &begin(&terminal)).plain());
    }
    assert!(refusals.windows(2).all(|two| two[0] == two[1]), "one answer for all: {refusals:?}");
    assert_eq!(users(&coordinator), [] as [Value; 0]);
    assert_eq!(own(&signed_in(&coordinator, &provider)).status, 200, "the test itself can sign in");
}

#[test]
fn fault_e14_a_sign_in_works_once_and_in_the_terminal_that_began_it() {
    let (directory, provider) = (Directory::new(), FakeProvider::start());
    let coordinator = TestCoordinator::start_with_provider(&directory, provider.options());
    let terminal = Client::new(&coordinator);
    let begun = begin(&terminal);
    provider.script().device = Device::Approved;
    let secret = begun["secret"].as_str().unwrap();
    let other = if secret[40..].starts_with('A') { "B" } else { "A" };
    let browser = super::get(&Client::new(&coordinator), "/oidc/begin");
    let cookie = browser.cookie("taut-oidc").unwrap();
    let wrong = [
        ("the code that a person sees", String::from("WDJB-MJHT")),
        ("nothing", String::new()),
        ("a changed secret", format!("{}{other}{}", &secret[..40], &secret[41..])),
        ("a secret that was cut", secret[..secret.len() - 4].to_owned()),
        ("a secret that is too long", "A".repeat(16_384)),
        ("a browser's sign-in", cookie.trim_start_matches("taut-oidc=").to_owned()),
        ("too late", coordinator.state.expired_terminal(secret)),
    ];
    for (what, secret) in wrong {
        let answer = finish(&Client::new(&coordinator), &json!({ "secret": secret }));
        assert_eq!((answer.status, answer.code()), (401, "sign-in-failed"), "{what}");
    }
    // Another coordinator on the same database finishes it.
    let (source, operator) = (terminal.source.clone(), coordinator.operator_token().to_owned());
    drop(coordinator);
    let coordinator = TestCoordinator::start_with_provider(&directory, provider.options());
    let terminal = Client { source, ..Client::new(&coordinator) };
    finished(&terminal, &begun);
    let asked = provider.script().seen.len();
    let again = finish(&terminal, &begun);
    assert_eq!((again.status, again.code()), (401, "sign-in-failed"), "although the provider gives tokens twice");
    assert_eq!(provider.script().seen.len(), asked, "a provider may take a second use for theft");
    let all = Client::with_token(&coordinator, &operator).done("GET", "/api/v1/users", &Value::Null);
    assert_eq!(all["users"].as_array().unwrap().len(), 1);
}

#[test]
#[ignore = "needs a PostgreSQL server: tools/with_postgres"]
fn a_terminals_sign_in_on_server_is_finished_by_any_coordinator_and_once() {
    let (directories, provider) = ([Directory::new(), Directory::new()], FakeProvider::start());
    let database = directories[0].database();
    let [one, other] = [&directories[0], &directories[1]]
        .map(|directory| TestCoordinator::start_with_provider_on(directory, &database, provider.options()));
    let begun = begin(&Client::new(&one));
    assert_eq!(finish(&Client::new(&other), &begun).body["state"], json!("pending"));
    provider.script().device = Device::Approved;
    let token = finished(&Client::new(&other), &begun);
    for coordinator in [&one, &other] {
        assert_eq!(finish(&Client::new(coordinator), &begun).status, 401);
        let client = Client { token: token.token.clone(), ..Client::new(coordinator) };
        assert_eq!(own(&client).status, 200);
    }
}

#[test]
fn a_terminal_waits_while_the_provider_is_away_and_asks_less_often_when_it_is_told_to() {
    let (directory, provider) = (Directory::new(), FakeProvider::start());
    let coordinator = TestCoordinator::start_with_provider(&directory, provider.options());
    let terminal = Client::new(&coordinator);
    let begun = begin(&terminal);
    provider.script().device = Device::SlowDown;
    assert_eq!(finish(&terminal, &begun).body["state"], json!("slow-down"));
    for device in [Device::Broken, Device::Client] {
        provider.script().device = device;
        let terminal = Client::new(&coordinator);
        assert_eq!(finish(&terminal, &begin(&terminal)).status, 503, "{device:?}");
    }
    provider.script().device = Device::Approved;
    finished(&terminal, &begun);
    let taken = begin(&terminal);
    provider.script().email = json!("eve@evil.example");
    assert_eq!(finish(&terminal, &taken).status, 403, "not of the domain");
}

#[test]
fn fault_e13_sign_ins_and_questions_of_terminals_are_limited() {
    let (directory, provider) = (Directory::new(), FakeProvider::start());
    let coordinator = TestCoordinator::start_with_provider(&directory, provider.options());
    let terminal = Client::new(&coordinator);
    let begun = begin(&terminal);
    let asked = || provider.script().seen.iter().filter(|path| *path == "/token").count();
    let states: Vec<Value> = (0..10).map(|_| finish(&terminal, &begun).body["state"].clone()).collect();
    assert!(states[..3].iter().all(|state| *state == "pending"), "{states:?}");
    assert!(states[4..].iter().all(|state| *state == "slow-down") && asked() <= 4, "{states:?}");
    let statuses: Vec<u16> = (0..25).map(|_| terminal.send("POST", BEGIN, &json!({})).status).collect();
    assert!(statuses[..19].iter().all(|status| *status == 201) && statuses.contains(&429), "{statuses:?}");
    begin(&Client::new(&coordinator));
    // Refused before anything is asked.
    let before = provider.script().seen.len();
    for (wrong, code) in [
        (json!({ "name": "" }), "bad-name"),
        (json!({ "scopes": "everything" }), "bad-scope"),
        (json!({ "expires_in": 0 }), "bad-expiry"),
        (json!({ "expires_in": 604_801 }), "bad-expiry"),
    ] {
        let answer = Client::new(&coordinator).send("POST", BEGIN, &wrong);
        assert_eq!((answer.status, answer.code()), (400, code), "{wrong}");
    }
    assert_eq!(provider.script().seen.len(), before);
}

#[test]
fn fault_e13_junk_from_the_address_of_an_honest_terminal_does_not_delay_it() {
    let (directory, provider) = (Directory::new(), FakeProvider::start());
    let coordinator = TestCoordinator::start_with_provider(&directory, provider.options());
    let terminal = Client::new(&coordinator);
    let begun = begin(&terminal);
    let junk: Vec<u16> = (0..60).map(|_| finish(&terminal, &json!({ "secret": "junk" })).status).collect();
    assert!(junk[..30].iter().all(|status| *status == 401) && junk.contains(&201), "{junk:?}");
    provider.script().device = Device::Approved;
    finished(&terminal, &begun);
}

#[test]
fn fault_e14_a_device_code_goes_to_no_other_client_than_the_one_that_it_was_given_to() {
    let (directory, provider) = (Directory::new(), FakeProvider::start());
    let coordinator = TestCoordinator::start_with_provider(&directory, provider.options());
    let begun = begin(&Client::new(&coordinator));
    provider.script().device = Device::Approved;
    drop(coordinator);
    let other = crate::oidc::OidcOptions { client_id: String::from("another"), ..provider.options() };
    let coordinator = TestCoordinator::start_with_provider(&directory, other);
    let before = provider.script().seen.len();
    assert_eq!(finish(&Client::new(&coordinator), &begun).status, 401);
    assert_eq!(provider.script().seen.len(), before, "the provider is not asked");
}

#[test]
fn scopes_that_are_said_many_times_are_said_once() {
    let (directory, provider) = (Directory::new(), FakeProvider::start());
    let coordinator = TestCoordinator::start_with_provider(&directory, provider.options());
    let terminal = Client::new(&coordinator);
    let begun = terminal.done("POST", BEGIN, &json!({ "scopes": "nodes:read ".repeat(2_000) }));
    provider.script().device = Device::Approved;
    let answer = finish(&terminal, &begun);
    assert_eq!((answer.status, &answer.body["token"]["scopes"]), (201, &json!("nodes:read")), "{}", answer.body);
}

#[test]
fn a_provider_without_sign_in_for_terminals_says_so() {
    let (directory, provider) = (Directory::new(), FakeProvider::start());
    let tried = |coordinator: &TestCoordinator| {
        let answer = Client::new(coordinator).send("POST", BEGIN, &json!({}));
        let hint = answer.body["error"]["hint"].as_str().unwrap_or_default().to_owned();
        (answer.status, hint.contains("API token"))
    };
    let coordinator = TestCoordinator::start_with_provider(&directory, provider.options());
    provider.script().device_answer = (400, json!({ "error": "unauthorized_client" }));
    assert_eq!(tried(&coordinator), (404, true), "the client has not this grant");
    provider.script().device_answer = (401, json!({ "error": "invalid_client" }));
    assert_eq!(tried(&coordinator), (503, false));
    drop(coordinator);
    for none in [Value::Null, json!(7)] {
        provider.script().metadata = json!({ "device_authorization_endpoint": none });
        let coordinator = TestCoordinator::start_with_provider(&directory, provider.options());
        assert_eq!(tried(&coordinator), (404, true), "no endpoint");
    }
    let coordinator = TestCoordinator::start(&directory);
    assert_eq!(tried(&coordinator).0, 404, "no provider");
    assert_eq!(finish(&Client::new(&coordinator), &json!({ "secret": "x" })).status, 404);
}

#[test]
fn fault_e15_a_terminal_shows_no_link_and_no_code_that_could_deceive() {
    let (directory, provider) = (Directory::new(), FakeProvider::start());
    let coordinator = TestCoordinator::start_with_provider(&directory, provider.options());
    let long = format!("https://a/{}", "a".repeat(512));
    for wrong in [
        json!({ "verification_uri": "javascript:alert(1)" }),
        json!({ "verification_uri": "file:///etc/passwd" }),
        json!({ "verification_uri": long }),
        json!({ "verification_uri_complete": "https://a/\u{1b}[2J" }),
        json!({ "verification_uri_complete": "ssh://a" }),
        json!({ "user_code": "" }),
        json!({ "user_code": "1\n2" }),
        json!({ "user_code": "\u{1b}[2J" }),
        json!({ "user_code": "1".repeat(65) }),
        json!({ "device_code": "1".repeat(2_049) }),
        json!({ "device_code": null }),
        json!({ "device_code": "device-\u{1b}" }),
        json!({ "expires_in": -1 }),
        json!({ "expires_in": 0 }),
        json!({ "expires_in": 1_000_000_000_000_000_000_u64 }),
        json!({ "interval": "often" }),
        json!({ "interval": u64::MAX }),
    ] {
        provider.script().device_answer = (200, wrong.clone());
        let answer = Client::new(&coordinator).send("POST", BEGIN, &json!({}));
        assert_eq!((answer.status, answer.code()), (503, "unavailable"), "{wrong}");
    }
    for (given, interval) in [(json!(0), 5), (json!(7), 7), (json!(86_400), 60), (Value::Null, 5)] {
        provider.script().device_answer = (200, json!({ "interval": given, "expires_in": 86_400 }));
        let begun = begin(&Client::new(&coordinator));
        assert_eq!((&begun["interval"], &begun["expires_in"]), (&json!(interval), &json!(600)), "{given}");
    }
    drop(coordinator);
    for url in ["http://169.254.169.254/latest/meta-data/", "file:///etc/passwd", "", "gopher://127.0.0.1/"] {
        provider.script().metadata = json!({ "device_authorization_endpoint": url });
        let coordinator = TestCoordinator::start_with_provider(&directory, provider.options());
        assert_eq!(Client::new(&coordinator).send("POST", BEGIN, &json!({})).status, 503, "{url}");
    }
}

#[test]
fn the_command_writes_the_token_where_other_commands_read_it() {
    let (directory, provider) = (Directory::new(), FakeProvider::start());
    let coordinator = TestCoordinator::start_with_provider(&directory, provider.options());
    let (api, file) = (format!("http://{}", coordinator.address), directory.0.join("token"));
    let file = file.to_str().unwrap();
    provider.script().device = Device::Denied;
    let words = ["sign-in", "--api", &api, "--token-file", file, "--name", "laptop", "--expires", "1h"];
    assert!(run_words(&words).unwrap_err().to_string().contains("did not succeed"));
    assert!(!std::path::Path::new(file).exists());
    // The provider is away at the first question.
    provider.script().device = Device::Broken;
    let asked = || provider.script().seen.iter().filter(|path| *path == "/token").count();
    let before = asked();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let begin = Instant::now();
            while asked() == before && begin.elapsed() < SOON {
                std::thread::sleep(Duration::from_millis(50));
            }
            provider.script().device = Device::Approved;
        });
        run_words(&words).unwrap();
    });
    assert_eq!(asked(), before + 2);
    assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    let token = format!("file:{file}");
    run_words(&["users", "whoami", "--api", &api, "--token", &token]).unwrap();
    let listed = Client::operator(&coordinator).done("GET", "/api/v1/tokens", &Value::Null);
    assert_eq!(listed["tokens"][0]["name"], json!("laptop"));
    for wrong in [&["sign-in", "--expires", "never"][..], &["sign-in", "--token-file", "/"], &["sign-in", "word"]] {
        assert!(run_words(wrong).is_err(), "{wrong:?}");
    }
}
