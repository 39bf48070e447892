//! Users: creation, roles, removal, and changes that no request can make to them.

use serde_json::{Value, json};

use super::super::world::{Directory, TestCoordinator};
use super::client::{Client, PASSWORD, person, secret_of, set_up};

#[test]
fn the_last_owner_stays() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    assert_eq!(set_up(&coordinator, "ann").status, 201);
    let operator = Client::operator(&coordinator);
    // An owner who has no password yet does not count: nobody could sign in as it.
    operator.done("POST", "/api/v1/users", &json!({ "name": "invited", "role": "owner" }));
    person(&coordinator, "lab", Some("default"), Some("owner"));
    let attempts = || {
        [
            operator.send("DELETE", "/api/v1/users/ann", &Value::Null),
            operator.send("PATCH", "/api/v1/users/ann", &json!({ "disabled": true })),
            operator.send("POST", "/api/v1/users/ann/role", &json!({ "role": "admin" })),
            operator.send("POST", "/api/v1/users/ann/role", &json!({ "role": null })),
        ]
    };
    for answer in attempts() {
        assert_eq!((answer.status, answer.code()), (409, "last-owner"), "{}", answer.body);
    }
    assert_eq!(Client::new(&coordinator).sign_in("ann", None).status, 201, "nothing was changed");
    person(&coordinator, "bob", None, Some("owner"));
    operator.done("PATCH", "/api/v1/users/bob", &json!({ "disabled": true }));
    assert_eq!(attempts()[0].code(), "last-owner", "a disabled owner does not count");
    operator.done("PATCH", "/api/v1/users/bob", &json!({ "disabled": false }));
    operator.done("DELETE", "/api/v1/users/ann", &Value::Null);
    assert_eq!(operator.send("DELETE", "/api/v1/users/bob", &Value::Null).code(), "last-owner");
}

#[test]
fn fault_e3_fields_that_nobody_asked_for_change_nothing() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    person(&coordinator, "owner", None, Some("owner"));
    let operator = Client::operator(&coordinator);
    let more = json!({
        "name": "ann", "id": 1, "owner": true, "admin": true, "roles": [{ "network": null, "role": "owner" }], "issuer": "https://x",
        "password": PASSWORD, "password_hash": "x", "disabled": true, "version": 9, "can_sign_in": true, "created_at": 1,
        "groups": ["admins"], "member_of": ["admins"], "lapsed": true, "checked_at": 1, "subject": "x",
    });
    let user = operator.done("POST", "/api/v1/users", &more)["user"].clone();
    assert_eq!((&user["roles"], &user["issuer"], &user["disabled"]), (&json!([]), &json!("local"), &json!(false)));
    assert_eq!((&user["can_sign_in"], &user["id"]), (&json!(false), &json!(2)));
    let edit = json!({ "display_name": "Ann", "name": "root", "role": "owner", "roles": [{ "role": "owner" }], "id": 1, "version": 77 });
    let edited = operator.done("PATCH", "/api/v1/users/ann", &edit)["user"].clone();
    let expected = json!({ "id": 2, "issuer": "local", "name": "ann", "display_name": "Ann", "email": null, "disabled": false,
        "lapsed": false, "groups": [], "checked_at": null, "can_sign_in": false, "codes": false, "roles": [], "created_at": user["created_at"], "seen_at": null, "version": 2 });
    assert_eq!(edited, expected);
    person(&coordinator, "bob", None, Some("member"));
    let bob = Client::of(&coordinator, "bob");
    let token = json!({ "name": "t", "scopes": "read", "person": 1, "user": "owner", "id": 99, "role": "owner" });
    let made = bob.done("POST", "/api/v1/tokens", &token);
    assert_eq!(made["token"]["user"], json!("bob"));
    let token = Client::with_token(&coordinator, made["secret"].as_str().unwrap());
    assert_eq!(token.send("GET", "/api/v1/users", &Value::Null).status, 403, "a member's token is a member's");
}

#[test]
fn fault_e4_no_answer_to_a_reader_has_a_secret() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let up = set_up(&coordinator, "ann");
    let mut ann = Client::new(&coordinator);
    ann.keep(&up);
    let operator = Client::operator(&coordinator);
    let codes = ann.done("POST", "/api/v1/account/codes", &json!({ "password": PASSWORD }));
    let token = ann.done("POST", "/api/v1/tokens", &json!({ "name": "t", "scopes": "all" }));
    let link = operator.done("POST", "/api/v1/users", &json!({ "name": "new" }));
    let key = operator.done("POST", "/api/v1/keys", &json!({}));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut secrets = vec![
        text(&codes["secret"]),
        text(&token["secret"]),
        secret_of(link["password_link"].as_str().unwrap()).to_owned(),
        text(&key["join_token"]),
        ann.cookie.clone().unwrap().split_once('=').unwrap().1.to_owned(),
        coordinator.operator_token().to_owned(),
        String::from("$argon2"),
        String::from(PASSWORD),
    ];
    // The stored hashes of these secrets must not appear either.
    let hashed: Vec<String> = secrets[1..5]
        .iter()
        .filter_map(|secret| {
            let bytes = taut_base::decode_base64url(secret.rsplit('-').next()?).ok()?;
            Some(taut_noise::hash(&[&bytes]).iter().map(|byte| format!("{byte:02x}")).collect())
        })
        .collect();
    secrets.extend(hashed);
    person(&coordinator, "auditor", None, Some("auditor"));
    let auditor = Client::of(&coordinator, "auditor");
    for reader in [&auditor, &ann, &operator] {
        for (path, item) in crate::api::document()["paths"].as_object().unwrap() {
            if item.get("get").is_none() || path.ends_with("relay-token") {
                continue;
            }
            let path = path.replace("{name}", if path.contains("network") { "default" } else { "ann" });
            let answer = reader.send("GET", &path, &Value::Null).body.to_string();
            for secret in &secrets {
                assert!(!answer.contains(secret.as_str()), "{path}: {secret} in {answer}");
            }
        }
    }
}

#[test]
fn a_change_from_an_old_version_is_refused() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let operator = Client::operator(&coordinator);
    let created = operator.send("POST", "/api/v1/users", &json!({ "name": "ann" }));
    let etag = created.header("etag").unwrap().to_owned();
    assert_eq!(operator.send("GET", "/api/v1/users/ann", &Value::Null).header("etag"), Some(&*etag));
    let edit = |name: &str, etag: &str| {
        operator.send_with("PATCH", "/api/v1/users/ann", &json!({ "display_name": name }), &[("if-match", etag)])
    };
    let first = edit("Ann", &etag);
    assert_eq!((first.status, first.header("etag") == Some(&*etag)), (200, false));
    let second = edit("Anna", &etag);
    assert_eq!((second.status, second.code()), (412, "changed"));
    assert_eq!(edit("Anna", "*").status, 200);
    assert_eq!(edit("Anna", "nonsense").status, 400);
    let role = operator.send("POST", "/api/v1/users/ann/role", &json!({ "role": "admin" }));
    assert_ne!(role.header("etag"), Some(&*etag), "a role is part of a user");
}

#[test]
fn fault_e2_an_owner_of_one_network_learns_nothing_else_of_a_person() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let operator = Client::operator(&coordinator);
    operator.done("POST", "/api/v1/networks", &json!({ "name": "lab" }));
    person(&coordinator, "lee", Some("lab"), Some("owner"));
    person(&coordinator, "ann", Some("default"), Some("auditor"));
    operator.done("PATCH", "/api/v1/users/ann", &json!({ "email": "ann@example.com", "disabled": true }));
    let lee = Client::of(&coordinator, "lee");
    let set = |role: Value| {
        lee.done("POST", "/api/v1/users/ann/role", &json!({ "network": "lab", "role": role }))["user"].clone()
    };
    let user = set(json!("admin"));
    assert_eq!(user["roles"], json!([{ "network": "lab", "role": "admin" }]));
    let hidden = ["email", "seen_at", "disabled", "can_sign_in", "codes"].map(|field| user[field].clone());
    assert_eq!(hidden, [json!(null), json!(null), json!(false), json!(false), json!(false)]);
    assert_eq!(set(json!("admin"))["version"], user["version"], "nothing changed");
    set(Value::Null);
    let audit = lee.done("GET", "/api/v1/audit?limit=500", &Value::Null)["entries"].as_array().unwrap().clone();
    let changes: Vec<_> = audit
        .iter()
        .filter(|entry| entry["action"] == "role-changed" && entry["actor"]["name"] == "lee")
        .map(|entry| (entry["before"].clone(), entry["after"].clone()))
        .collect();
    let (none, admin) = (json!({ "role": null }), json!({ "role": "admin" }));
    assert_eq!(changes, [(none.clone(), admin.clone()), (admin, none)]);
    let whole = operator.done("GET", "/api/v1/users/ann", &Value::Null)["user"].clone();
    assert_eq!((&whole["email"], &whole["disabled"]), (&json!("ann@example.com"), &json!(true)));
}

#[test]
fn users_come_in_pages() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let operator = Client::operator(&coordinator);
    for number in 0..5 {
        operator.done("POST", "/api/v1/users", &json!({ "name": format!("user{number}x") }));
    }
    let (mut seen, mut after) = (Vec::new(), json!(0));
    while !after.is_null() {
        let page = operator.done("GET", &format!("/api/v1/users?limit=2&after={after}"), &Value::Null);
        let users = page["users"].as_array().unwrap();
        assert!(users.len() <= 2);
        seen.extend(users.iter().map(|user| user["id"].as_i64().unwrap()));
        after = page["next"].clone();
    }
    assert_eq!(seen, [1, 2, 3, 4, 5]);
}

#[test]
fn a_removed_person_leaves_no_data_and_an_export_has_all() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let operator = Client::operator(&coordinator);
    person(&coordinator, "ann", None, Some("admin"));
    operator.done("PATCH", "/api/v1/users/ann", &json!({ "display_name": "Ann Example", "email": "ann@example.com" }));
    let ann = Client::of(&coordinator, "ann");
    ann.done("POST", "/api/v1/tokens", &json!({ "name": "laptop", "scopes": "read" }));
    ann.done("POST", "/api/v1/keys", &json!({}));
    ann.done("POST", "/api/v1/policy", &json!({ "text": "{\"acls\": []}" }));
    let export = ann.done("GET", "/api/v1/account/export", &Value::Null);
    assert_eq!(export, operator.done("GET", "/api/v1/users/ann/export", &Value::Null));
    let export = &export["export"];
    assert_eq!((&export["email"], &export["display_name"]), (&json!("ann@example.com"), &json!("Ann Example")));
    assert_eq!(
        (export["sessions"].as_array().unwrap().len(), export["tokens"][0]["name"].as_str()),
        (1, Some("laptop"))
    );
    assert!(export["audit"].to_string().contains("key-created"), "{export}");
    operator.done("DELETE", "/api/v1/users/ann", &Value::Null);
    let rows = super::super::world::dump(&directory.database()).join("\n");
    let bytes = |text: &str| text.bytes().map(|byte| byte.to_string()).collect::<Vec<_>>().join(", ");
    for text in ["Ann Example", "ann@example.com", "laptop", &*ann.source.borrow()] {
        assert!(!rows.contains(&bytes(text)), "{text} is still in the database");
    }
    let audit = operator.done("GET", "/api/v1/audit?limit=500", &Value::Null);
    let created = audit["entries"].as_array().unwrap().iter().find(|entry| entry["action"] == "key-created").unwrap();
    assert_eq!(created["actor"], json!({ "kind": "person", "id": 1, "name": "removed user 1" }), "what it did stays");
    let policy = operator.done("GET", "/api/v1/policy", &Value::Null);
    assert_eq!(policy["policy"]["author"], "removed user 1");
    operator.done("POST", "/api/v1/users", &json!({ "name": "ann" }));
    assert_eq!(operator.done("GET", "/api/v1/users/ann", &Value::Null)["user"]["id"], json!(2), "another person");
}

#[test]
fn fault_e16_names_and_paths_are_data() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let operator = Client::operator(&coordinator);
    let markup = "<img src=x onerror=alert(1)>'; DROP TABLE people; --";
    let body = json!({ "name": "ann", "display_name": markup });
    let answer = operator.send("POST", "/api/v1/users", &body);
    assert_eq!(answer.body["user"]["display_name"], json!(markup), "kept as it is");
    assert_eq!(answer.header("content-type"), Some("application/json"), "and never a page");
    for name in ["ann' OR 1=1", "../keys", "ann%00", "ann\r\nx-y: z", "*", "ann%25"] {
        let path: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let answer = operator.send("GET", &format!("/api/v1/users/{path}"), &Value::Null);
        assert_eq!((answer.status, answer.code()), (404, "no-such-user"), "{name:?}");
        assert_eq!(answer.header("x-y"), None);
        let create = operator.send("POST", "/api/v1/users", &json!({ "name": name }));
        assert_eq!(create.code(), "bad-name", "{name:?}");
    }
    for page in ["link", "link.js", "link/../api/v1/users", "link%2f..%2fetc%2fpasswd", "%2e%2e/etc/passwd"] {
        let answer = Client::new(&coordinator).send("GET", &format!("/{page}"), &Value::Null);
        assert!(
            answer.status
                == if page.ends_with("link") || page.ends_with("link.js") { 200 } else { answer.status.max(401) },
            "{page}: {}",
            answer.status
        );
    }
    assert_eq!(operator.done("GET", "/api/v1/users", &Value::Null)["users"].as_array().unwrap().len(), 1);
}
