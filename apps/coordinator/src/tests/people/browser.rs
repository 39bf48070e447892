//! Protection of browsers against other sites, other host names and scripts (faults E8, E9).

use serde_json::{Value, json};

use super::super::world::{Directory, TestCoordinator};
use super::client::{Client, PASSWORD, person};
use crate::api::document;

#[test]
fn fault_e9_no_change_without_the_token_of_the_session_or_from_another_site() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    person(&coordinator, "ann", None, Some("owner"));
    let ann = Client::of(&coordinator, "ann");
    let other = Client::of(&coordinator, "ann");
    let other_csrf = other.csrf.clone().unwrap();
    let forgeries: [(&str, &str); 7] = [
        ("x-csrf-token", ""),
        ("x-csrf-token", "x"),
        ("x-csrf-token", &other_csrf),
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ];
    for (path, item) in document()["paths"].as_object().unwrap() {
        for method in ["post", "patch", "delete"] {
            let Some(operation) = item.get(method) else { continue };
            if operation["security"] == json!([]) {
                continue;
            }
            let path = path.replace("{name}", "nothing").replace("{id}", "999999");
            for header in forgeries {
                let answer = ann.send_with(&method.to_uppercase(), &path, &json!({}), &[header]);
                assert_eq!((answer.status, answer.code()), (403, "wrong-site"), "{method} {path} {header:?}");
            }
        }
    }
    assert_eq!(ann.send("GET", "/api/v1/session", &Value::Null).status, 200, "nothing was changed");
    let own = format!("http://{}", coordinator.address);
    let headers = [("origin", &*own), ("sec-fetch-site", "same-origin")];
    let answer = ann.send_with("POST", "/api/v1/keys", &json!({}), &headers);
    assert_eq!(answer.status, 201, "its own page: {}", answer.body);
    // A page of another site cannot sign a user in.
    let body = json!({ "name": "ann", "password": PASSWORD });
    let stranger = Client::new(&coordinator);
    for headers in [[("origin", "https://evil.example")], [("sec-fetch-site", "cross-site")]] {
        let answer = stranger.send_with("POST", "/api/v1/sign-in", &body, &headers);
        assert_eq!((answer.code(), answer.header("set-cookie")), ("wrong-site", None));
    }
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
        let answer = stranger.send_with("POST", "/api/v1/sign-in", &body, &[("content-type", kind)]);
        assert_eq!(answer.code(), "bad-request", "{kind}: a form could send it");
    }
}

#[test]
fn fault_e8_a_name_that_points_to_this_host_is_not_this_coordinator() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    person(&coordinator, "ann", None, Some("owner"));
    let ann = Client::of(&coordinator, "ann");
    let body = json!({ "name": "ann", "password": PASSWORD });
    for host in ["evil.example", "evil.example:8288", "127.0.0.1.evil.example"] {
        let read = ann.send_with("GET", "/api/v1/users", &Value::Null, &[("host", host)]);
        assert_eq!((read.status, read.code()), (403, "wrong-site"), "{host}");
        let sign_in = Client::new(&coordinator).send_with("POST", "/api/v1/sign-in", &body, &[("host", host)]);
        assert_eq!((sign_in.code(), sign_in.header("set-cookie")), ("wrong-site", None), "{host}");
        // A token is no ambient credential: today's clients come by any name.
        let token = Client::operator(&coordinator).send_with("GET", "/api/v1/users", &Value::Null, &[("host", host)]);
        assert_eq!(token.status, 200, "{host}");
    }
}

#[test]
fn fault_e9_every_answer_has_the_headers_that_keep_browsers_from_doing_harm() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let operator = Client::operator(&coordinator);
    for path in ["/healthz", "/api/v1/users", "/api/v1/nothing", "/nothing", "/link", "/link.js", "/metrics"] {
        for client in [&operator, &Client::new(&coordinator)] {
            let answer = client.send("GET", path, &Value::Null);
            let header = |name: &str| answer.header(name).unwrap_or_else(|| panic!("{path} has no {name}"));
            let policy = header("content-security-policy");
            assert!(
                policy.starts_with("default-src 'none'") && policy.contains("frame-ancestors 'none'"),
                "{path}: {policy}"
            );
            assert!(
                !policy.contains("unsafe") && !policy.contains('*') && !policy.contains("http"),
                "{path}: {policy}"
            );
            assert_eq!(header("x-content-type-options"), "nosniff");
            assert_eq!((header("x-frame-options"), header("referrer-policy")), ("DENY", "no-referrer"));
            assert_eq!(header("cache-control"), "no-store");
            assert_eq!(answer.header("access-control-allow-origin"), None, "{path}: no other site reads it");
        }
    }
    let page = Client::new(&coordinator).send("GET", "/link", &Value::Null);
    let text = page.body.as_str().unwrap();
    assert!(
        !text.contains("style=") && !text.contains("onclick") && !text.contains("<script>"),
        "the policy forbids it"
    );
}
