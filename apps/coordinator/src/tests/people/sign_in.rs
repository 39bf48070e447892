//! Set-up, signing in, sessions, one-time codes.

use std::sync::atomic::{AtomicUsize, Ordering};

use ring::hmac;
use serde_json::{Value, json};

use super::super::world::{Directory, TestCoordinator};
use super::client::{Client, PASSWORD, person, secret_of, set_up};
use crate::clock::unix_now;
use crate::state::new_set_up_link;

/// Returns the code of a secret in base32, some steps from now.
fn code(secret: &str, steps: i64) -> String {
    const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let bits: String = secret.chars().map(|letter| format!("{:05b}", LETTERS.find(letter).unwrap())).collect();
    let bytes: Vec<u8> = bits
        .as_bytes()
        .chunks_exact(8)
        .map(|byte| u8::from_str_radix(str::from_utf8(byte).unwrap(), 2).unwrap())
        .collect();
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &bytes);
    let tag = hmac::sign(&key, &(unix_now() / 30 + steps).to_be_bytes());
    let offset = usize::from(tag.as_ref()[19] & 15);
    let number = u32::from_be_bytes(tag.as_ref()[offset..offset + 4].try_into().unwrap()) & 0x7fff_ffff;
    format!("{:06}", number % 1_000_000)
}

#[test]
fn fault_e7_the_set_up_link_works_once_and_nothing_opens_before() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    for (name, password) in [("admin", "admin"), ("admin", "password"), ("owner", ""), ("root", "changeme"), ("", "")] {
        let body = json!({ "name": name, "password": password });
        let answer = Client::new(&coordinator).send("POST", "/api/v1/sign-in", &body);
        assert_eq!((answer.status, answer.code()), (401, "sign-in-failed"), "{name}");
    }
    for secret in ["", "x", &"A".repeat(43)] {
        let body = json!({ "secret": secret, "name": "eve", "password": PASSWORD });
        let answer = Client::new(&coordinator).send("POST", "/api/v1/set-up", &body);
        assert_eq!((answer.status, answer.code()), (400, "bad-link"), "{secret}");
    }
    // A password that is refused does not use the link up.
    let secret = secret_of(&coordinator.first.as_ref().unwrap().set_up).to_owned();
    let weak = json!({ "secret": secret, "name": "ann", "password": "short" });
    assert_eq!(Client::new(&coordinator).send("POST", "/api/v1/set-up", &weak).code(), "bad-password");
    let successes = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for number in 0..12 {
            let (coordinator, successes) = (&coordinator, &successes);
            scope.spawn(move || {
                if set_up(coordinator, &format!("ann{number}x")).status == 201 {
                    successes.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(successes.into_inner(), 1, "one of many at once");
    assert_eq!(set_up(&coordinator, "late").code(), "bad-link");
    let users = Client::operator(&coordinator).done("GET", "/api/v1/users", &Value::Null);
    assert_eq!(users["users"].as_array().unwrap().len(), 1);
    assert_eq!(users["users"][0]["roles"], json!([{ "network": null, "role": "owner" }]));
    // The link for a password is no set-up link, and an expired one is worth nothing.
    let link = coordinator.wait(new_set_up_link(&directory.database(), "http://a")).unwrap();
    assert!(link.starts_with("http://a/link#set-up."), "{link}");
    coordinator.wait(coordinator.state.store().edit("UPDATE links SET expires_at = 1"));
    let body = json!({ "secret": secret_of(&link), "name": "eve", "password": PASSWORD });
    assert_eq!(Client::new(&coordinator).send("POST", "/api/v1/set-up", &body).code(), "bad-link");
}

#[test]
fn fault_e13_all_failures_to_sign_in_have_one_answer() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    for name in ["ann", "off", "bob"] {
        person(&coordinator, name, None, None);
    }
    Client::operator(&coordinator).done("PATCH", "/api/v1/users/off", &json!({ "disabled": true }));
    Client::operator(&coordinator).done("POST", "/api/v1/users", &json!({ "name": "invited" }));
    let bob = Client::of(&coordinator, "bob");
    let secret = bob.done("POST", "/api/v1/account/codes", &json!({ "password": PASSWORD }));
    let secret = secret["secret"].as_str().unwrap();
    let first = code(secret, 0);
    bob.done("POST", "/api/v1/account/codes/confirm", &json!({ "code": first }));
    let right = json!({ "name": "bob", "password": PASSWORD, "code": code(secret, 1) });
    assert_eq!(Client::new(&coordinator).send("POST", "/api/v1/sign-in", &right).status, 201);
    let bodies = [
        json!({ "name": "nobody", "password": PASSWORD }),
        json!({ "name": "ann", "password": "wrong password" }),
        json!({ "name": "ann", "password": "" }),
        json!({ "name": "off", "password": PASSWORD }),
        json!({ "name": "invited", "password": PASSWORD }),
        json!({ "name": "bob", "password": PASSWORD }),
        json!({ "name": "bob", "password": PASSWORD, "code": "000000" }),
        json!({ "name": "bob", "password": "wrong password", "code": code(secret, 1) }),
        // The request that succeeded is replayed: its code was used.
        right,
        json!({ "name": "bob", "password": PASSWORD, "code": first }),
        json!({ "name": "ann' OR '1'='1", "password": PASSWORD }),
    ];
    let mut one = None;
    for body in bodies {
        let answer = Client::new(&coordinator).send("POST", "/api/v1/sign-in", &body);
        assert_eq!((answer.status, answer.header("set-cookie")), (401, None), "{body}");
        assert_eq!(*one.get_or_insert(answer.plain()), answer.plain(), "{body}");
    }
    assert_eq!(Client::new(&coordinator).sign_in("ann", None).status, 201);
}

#[test]
fn fault_e13_guessing_is_limited_per_source_and_per_account() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    person(&coordinator, "ann", None, None);
    let guess = |client: &Client<'_>, name: &str| {
        client.send("POST", "/api/v1/sign-in", &json!({ "name": name, "password": "wrong password" })).status
    };
    let one = Client::new(&coordinator);
    let statuses: Vec<u16> = (0..25).map(|number| guess(&one, &format!("user{number}x"))).collect();
    assert!(statuses.starts_with(&[401; 20]) && statuses.ends_with(&[429]), "{statuses:?}");
    let familiar = Client::of(&coordinator, "ann");
    let statuses: Vec<u16> = (0..15).map(|_| guess(&Client::new(&coordinator), "ann")).collect();
    assert!(statuses.contains(&401) && statuses.ends_with(&[429]), "{statuses:?}");
    let right = json!({ "name": "ann", "password": PASSWORD });
    let elsewhere = Client::new(&coordinator).send("POST", "/api/v1/sign-in", &right);
    assert_eq!((elsewhere.status, elsewhere.code()), (429, "too-many-attempts"), "also the right one from elsewhere");
    assert_eq!(familiar.send("POST", "/api/v1/sign-in", &right).status, 201, "not where the person signed in before");
}

#[test]
fn sessions_end_one_by_one_and_all_at_once() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    person(&coordinator, "ann", None, Some("member"));
    let clients: Vec<Client<'_>> = (0..4).map(|_| Client::of(&coordinator, "ann")).collect();
    let is_open = |client: &Client<'_>| client.send("GET", "/api/v1/session", &Value::Null).status == 200;
    let listed = clients[0].done("GET", "/api/v1/account/sessions", &Value::Null);
    let sessions = listed["sessions"].as_array().unwrap();
    assert_eq!(
        sessions.iter().map(|session| session["current"].as_bool().unwrap()).collect::<Vec<_>>(),
        [true, false, false, false]
    );
    clients[0].done("DELETE", &format!("/api/v1/account/sessions/{}", sessions[1]["id"]), &Value::Null);
    let answer = clients[2].send("DELETE", "/api/v1/session", &Value::Null);
    assert!(answer.header("set-cookie").unwrap().contains("Max-Age=0"));
    assert_eq!(clients.iter().map(is_open).collect::<Vec<_>>(), [true, false, false, true]);
    // A new password ends all other sessions.
    let change = json!({ "password": PASSWORD, "new_password": "another horse battery" });
    assert_eq!(clients[3].done("POST", "/api/v1/account/password", &change)["ended"], json!(1));
    assert_eq!(clients.iter().map(is_open).collect::<Vec<_>>(), [false, false, false, true]);
    assert_eq!(Client::new(&coordinator).sign_in("ann", None).status, 401, "the old password");
    assert_eq!(clients[3].done("DELETE", "/api/v1/account/sessions", &Value::Null)["ended"], json!(1));
    assert!(!is_open(&clients[3]));
}

#[test]
fn a_person_has_a_bounded_number_of_sessions() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    person(&coordinator, "ann", None, None);
    let first = Client::of(&coordinator, "ann");
    for _ in 0..5 {
        // Each round doubles the sessions, up to 32.
        coordinator.wait(coordinator.state.store().edit(
            "INSERT INTO sessions (hash, person, created_at, used_at, expires_at, source) \
             SELECT randomblob(32), person, created_at, used_at, expires_at, source FROM sessions",
        ));
    }
    assert_eq!(first.send("GET", "/api/v1/session", &Value::Null).status, 200);
    let last = Client::of(&coordinator, "ann");
    assert_eq!(first.send("GET", "/api/v1/session", &Value::Null).status, 401, "the oldest ended");
    assert_eq!(last.done("GET", "/api/v1/account/sessions", &Value::Null)["sessions"].as_array().unwrap().len(), 32);
}

#[test]
fn one_time_codes_and_recovery_codes() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    person(&coordinator, "ann", None, None);
    let ann = Client::of(&coordinator, "ann");
    let wrong = ann.send("POST", "/api/v1/account/codes", &json!({ "password": "wrong password" }));
    assert_eq!(wrong.code(), "sign-in-failed", "a stolen session alone does not turn codes on");
    let begun = ann.done("POST", "/api/v1/account/codes", &json!({ "password": PASSWORD }));
    let secret = begun["secret"].as_str().unwrap();
    assert!(begun["uri"].as_str().unwrap().starts_with("otpauth://totp/Taut:ann?secret="));
    assert_eq!(Client::new(&coordinator).sign_in("ann", None).status, 201, "not on before a first code");
    let confirm = |code: &str| ann.send("POST", "/api/v1/account/codes/confirm", &json!({ "code": code }));
    assert_eq!(confirm("000000").code(), "bad-code");
    let answer = confirm(&code(secret, 0));
    let recovery: Vec<&str> =
        answer.body["recovery_codes"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(recovery.len(), 10);
    assert_eq!(Client::new(&coordinator).sign_in("ann", None).status, 401);
    assert_eq!(Client::new(&coordinator).sign_in("ann", Some(&recovery[0].to_lowercase())).status, 201);
    assert_eq!(Client::new(&coordinator).sign_in("ann", Some(recovery[0])).status, 401, "each works once");
    assert_eq!(Client::new(&coordinator).sign_in("ann", Some(recovery[1])).status, 201);
    let again = ann.send("POST", "/api/v1/account/codes", &json!({ "password": PASSWORD }));
    assert_eq!(again.code(), "codes", "the secret is not replaced silently");
    ann.done("POST", "/api/v1/account/codes/end", &json!({ "password": PASSWORD }));
    assert_eq!(Client::new(&coordinator).sign_in("ann", None).status, 201);
}
