//! The table of routes × roles × kinds of credentials (fault E2).

use std::collections::BTreeSet;

use serde_json::{Value, json};
use taut_base::encode_base64url;
use taut_netmap::{Hello, Request, ToCoordinator};
use taut_noise::public_key;

use super::super::world::{Directory, TestCoordinator, TestHost};
use super::client::{Client, PASSWORD, person, secret_of};
use crate::api::document;
use crate::state::{Asked, Secret, new_operator_token};

/// Credential that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    /// No credential.
    Nothing,
    /// Any credential.
    Any,
    /// A session.
    Session,
    /// Any role in one network, and the named scope if the caller is a token: members make it for devices of their own.
    Own(&'static str),
    /// At least this role in one network (1 auditor, 2 admin, 3 owner), and the named scope if the caller is a token.
    Role(u8, &'static str),
    /// At least this role in all networks, and the named scope if the caller is a token.
    Everywhere(u8, &'static str),
}
use Needs::{Any, Everywhere, Nothing, Own, Role, Session};

const NONE: &str = "none";

/// Every route. `{…}` names something that does not exist, so that nothing changes.
const ROUTES: [(&str, &str, Needs); 52] = [
    ("GET", "/healthz", Nothing),
    ("GET", "/readyz", Nothing),
    ("POST", "/api/v1/sign-in", Nothing),
    ("POST", "/api/v1/set-up", Nothing),
    ("POST", "/api/v1/password", Nothing),
    ("GET", "/api/v1/openapi.json", Any),
    ("GET", "/api/v1/session", Any),
    ("DELETE", "/api/v1/session", Session),
    ("GET", "/api/v1/account/export", Session),
    ("POST", "/api/v1/account/password", Session),
    ("POST", "/api/v1/account/codes", Session),
    ("POST", "/api/v1/account/codes/confirm", Session),
    ("POST", "/api/v1/account/codes/end", Session),
    ("GET", "/api/v1/account/sessions", Session),
    ("DELETE", "/api/v1/account/sessions", Session),
    ("DELETE", "/api/v1/account/sessions/{id}", Session),
    ("GET", "/api/v1/tokens", Any),
    ("POST", "/api/v1/tokens", Session),
    ("DELETE", "/api/v1/tokens/{id}", Any),
    ("GET", "/api/v1/networks", Role(1, "networks:read")),
    ("GET", "/api/v1/networks/{name}", Role(1, "networks:read")),
    ("POST", "/api/v1/networks", Everywhere(3, "networks:write")),
    ("DELETE", "/api/v1/networks/{name}", Role(3, "networks:write")),
    ("PATCH", "/api/v1/networks/{name}", Role(3, "networks:write")),
    ("GET", "/api/v1/keys", Role(1, "keys:read")),
    ("POST", "/api/v1/keys", Role(2, "keys:write")),
    ("DELETE", "/api/v1/keys/{id}", Role(2, "keys:write")),
    ("GET", "/api/v1/nodes", Own("nodes:read")),
    ("PATCH", "/api/v1/nodes/{name}", Own("nodes:write")),
    ("DELETE", "/api/v1/nodes/{name}", Own("nodes:write")),
    ("GET", "/api/v1/requests", Role(1, "nodes:read")),
    ("POST", "/api/v1/requests/{code}/approve", Own("nodes:write")),
    ("DELETE", "/api/v1/requests/{code}", Role(2, "nodes:write")),
    ("GET", "/api/v1/policy", Role(1, "policy:read")),
    ("POST", "/api/v1/policy", Role(2, "policy:write")),
    ("GET", "/api/v1/policy/versions", Role(1, "policy:read")),
    ("GET", "/api/v1/policy/versions/{version}", Role(1, "policy:read")),
    ("GET", "/api/v1/relays", Role(1, "relays:read")),
    ("POST", "/api/v1/relays", Role(2, "relays:write")),
    ("DELETE", "/api/v1/relays/{name}", Role(2, "relays:write")),
    ("GET", "/api/v1/relay-token", Role(1, "relays:read")),
    ("GET", "/api/v1/ticket-key", Role(1, "relays:read")),
    ("GET", "/api/v1/operator-tokens", Everywhere(1, "tokens:read")),
    ("DELETE", "/api/v1/operator-tokens/{id}", Everywhere(3, "tokens:write")),
    ("GET", "/api/v1/users", Everywhere(1, "users:read")),
    ("POST", "/api/v1/users", Everywhere(3, "users:write")),
    ("GET", "/api/v1/users/{name}", Everywhere(1, "users:read")),
    ("PATCH", "/api/v1/users/{name}", Everywhere(3, "users:write")),
    ("DELETE", "/api/v1/users/{name}", Everywhere(3, "users:write")),
    ("POST", "/api/v1/users/{name}/role", Role(3, "users:write")),
    ("POST", "/api/v1/users/{name}/password-link", Everywhere(3, "users:write")),
    ("DELETE", "/api/v1/users/{name}/sessions", Everywhere(3, "users:write")),
];

/// Further routes, in a second table so that the first one stays short.
const MORE: [(&str, &str, Needs); 12] = [
    ("GET", "/api/v1/names", Role(1, "networks:read")),
    ("PATCH", "/api/v1/names", Role(3, "networks:write")),
    ("POST", "/api/v1/sign-in/terminal", Nothing),
    ("POST", "/api/v1/sign-in/terminal/finish", Nothing),
    ("GET", "/api/v1/requests/{code}", Own("nodes:read")),
    ("DELETE", "/api/v1/users/{name}/codes", Everywhere(3, "users:write")),
    ("GET", "/api/v1/users/{name}/export", Everywhere(3, "users:write")),
    ("GET", "/api/v1/audit", Role(1, "audit:read")),
    ("GET", "/api/v1/webhooks", Role(3, "audit:write")),
    ("POST", "/api/v1/webhooks", Role(3, "audit:write")),
    ("DELETE", "/api/v1/webhooks/{id}", Role(3, "audit:write")),
    ("POST", "/api/v1/webhooks/{id}/test", Role(3, "audit:write")),
];

fn table() -> impl Iterator<Item = (&'static str, &'static str, Needs)> {
    ROUTES.into_iter().chain(MORE)
}

/// A kind of credential.
struct Holder {
    what: &'static str,
    /// Role in all networks, and role in one: 0 member, 1 auditor, 2 admin, 3 owner.
    everywhere: Option<u8>,
    in_one: Option<u8>,
    is_session: bool,
    /// Scopes; empty for all.
    scopes: &'static [&'static str],
}

impl Holder {
    fn may(&self, needs: Needs) -> bool {
        let of_role = |role: Option<u8>, least: u8| role.is_some_and(|role| role >= least);
        let has = |scope: &str| self.scopes.is_empty() || self.scopes.contains(&scope);
        match needs {
            Nothing | Any => true,
            Session => self.is_session,
            Own(scope) => has(scope) && (self.everywhere.is_some() || self.in_one.is_some()),
            Role(least, scope) => has(scope) && (of_role(self.everywhere, least) || of_role(self.in_one, least)),
            Everywhere(least, scope) => has(scope) && of_role(self.everywhere, least),
        }
    }
}

const fn session(what: &'static str, everywhere: Option<u8>, in_one: Option<u8>) -> Holder {
    Holder { what, everywhere, in_one, is_session: true, scopes: &[] }
}

const READ: [&str; 8] = [
    "networks:read",
    "keys:read",
    "nodes:read",
    "relays:read",
    "policy:read",
    "tokens:read",
    "users:read",
    "audit:read",
];

/// The kinds of credentials that are valid.
const HOLDERS: [Holder; 12] = [
    session("owner", Some(3), None),
    session("admin", Some(2), None),
    session("auditor", Some(1), None),
    session("member", Some(0), None),
    session(NONE, None, None),
    session("lab-owner", None, Some(3)),
    session("lab-admin", None, Some(2)),
    session("lab-auditor", None, Some(1)),
    Holder { what: "operator token", everywhere: Some(3), in_one: None, is_session: false, scopes: &[] },
    Holder { what: "owner's token", everywhere: Some(3), in_one: None, is_session: false, scopes: &[] },
    Holder { what: "reading token", everywhere: Some(3), in_one: None, is_session: false, scopes: &READ },
    Holder {
        what: "token for nodes",
        everywhere: Some(3),
        in_one: None,
        is_session: false,
        scopes: &["nodes:read", "nodes:write"],
    },
];

const PEOPLE: [(&str, Option<&str>, Option<&str>); 8] = [
    ("owner", None, Some("owner")),
    ("admin", None, Some("admin")),
    ("auditor", None, Some("auditor")),
    ("member", None, Some("member")),
    (NONE, None, None),
    ("lab-owner", Some("lab"), Some("owner")),
    ("lab-admin", Some("lab"), Some("admin")),
    ("lab-auditor", Some("lab"), Some("auditor")),
];

fn client<'a>(coordinator: &'a TestCoordinator, holder: &Holder) -> Client<'a> {
    let scopes = match holder.what {
        "operator token" => return Client::operator(coordinator),
        "owner's token" => "all",
        "reading token" => "read",
        "token for nodes" => "nodes:write",
        name => return Client::of(coordinator, name),
    };
    let owner = Client::of(coordinator, "owner");
    let made = owner.done("POST", "/api/v1/tokens", &json!({ "name": holder.what, "scopes": scopes }));
    Client::with_token(coordinator, made["secret"].as_str().unwrap())
}

/// Returns a path for a template, of something that does not exist.
fn nothing(template: &str) -> String {
    let named = template.replace("{id}", "999999").replace("{name}", "nothing");
    named.replace("{code}", "BCDF-GHJK").replace("{version}", "999999")
}

#[test]
fn fault_e2_every_route_for_every_role_and_kind_of_credential() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    Client::operator(&coordinator).done("POST", "/api/v1/networks", &json!({ "name": "lab" }));
    for (name, network, role) in PEOPLE {
        person(&coordinator, name, network, role);
    }
    let paths = document()["paths"].clone();
    let listed: BTreeSet<(String, String)> = paths
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, item)| item.as_object().unwrap().keys().map(|method| (method.to_uppercase(), path.clone())))
        .collect();
    let known: BTreeSet<_> = table().map(|(method, path, _)| (String::from(method), String::from(path))).collect();
    assert_eq!(known, listed, "each route has its line in this table");
    for holder in &HOLDERS {
        let mut client = client(&coordinator, holder);
        for (method, path, needs) in table() {
            let body = match (method, path.ends_with("/role")) {
                ("POST", true) => json!({ "network": holder.in_one.map(|_| "lab") }),
                ("POST" | "PATCH", _) => json!({}),
                _ => Value::Null,
            };
            let answer = client.send(method, &nothing(path), &body);
            let is_refused = [401, 403].contains(&answer.status);
            let (status, body) = (answer.status, &answer.body);
            assert_eq!(!is_refused, holder.may(needs), "{} {method} {path}: {status} {body}", holder.what);
            assert_ne!(status, 401, "{} {method} {path}: the credential is known", holder.what);
            let ends = method == "DELETE" && ["/api/v1/session", "/api/v1/account/sessions"].contains(&path);
            if ends && holder.is_session {
                client = self::client(&coordinator, holder);
            }
        }
    }
}

#[test]
fn fault_e2_credentials_that_are_no_longer_valid_open_nothing() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let operator = Client::operator(&coordinator);
    for name in ["owner", "gone", "off", "late", "idle"] {
        person(&coordinator, name, None, Some("owner"));
    }
    let token = |of: &Client<'_>, name: &str| {
        let made = of.done("POST", "/api/v1/tokens", &json!({ "name": name, "scopes": "all", "expires_in": 3_600 }));
        (made["token"]["id"].as_i64().unwrap(), made["secret"].as_str().unwrap().to_owned())
    };
    let owner = Client::of(&coordinator, "owner");
    let (revoked, revoked_token) = token(&owner, "revoked");
    let (_, expired_token) = token(&owner, "expired");
    owner.done("DELETE", &format!("/api/v1/tokens/{revoked}"), &Value::Null);
    let clients: Vec<Client<'_>> = ["gone", "off", "late", "idle"].map(|name| Client::of(&coordinator, name)).into();
    let tokens: Vec<String> = clients[..2].iter().map(|client| token(client, "a").1).collect();
    let signed_out = Client::of(&coordinator, "owner");
    signed_out.done("DELETE", "/api/v1/session", &Value::Null);
    operator.done("DELETE", "/api/v1/users/gone", &Value::Null);
    operator.done("PATCH", "/api/v1/users/off", &json!({ "disabled": true }));
    let store = coordinator.state.store();
    coordinator.wait(store.edit("UPDATE tokens SET expires_at = 1 WHERE name = 'expired'"));
    let late = "UPDATE sessions SET expires_at = 1 WHERE person IN (SELECT id FROM people WHERE subject = 'late')";
    coordinator.wait(store.edit(late));
    let idle =
        "UPDATE sessions SET used_at = used_at - 50000 WHERE person IN (SELECT id FROM people WHERE subject = 'idle')";
    coordinator.wait(store.edit(idle));
    let ended = coordinator.wait(new_operator_token(&directory.database())).unwrap();
    coordinator.wait(coordinator.state.revoke_operator(2)).unwrap();
    let created = operator.done("POST", "/api/v1/users", &json!({ "name": "new" }));
    let link = secret_of(created["password_link"].as_str().unwrap()).to_owned();
    let cookie = |text: &str| Client { cookie: Some(format!("taut-session={text}")), ..Client::new(&coordinator) };
    let stranger = encode_base64url(Secret::new().expose());
    let mut bad: Vec<(&str, Client<'_>)> = vec![
        ("nothing", Client::new(&coordinator)),
        ("a revoked API token", Client::with_token(&coordinator, &revoked_token)),
        ("an expired API token", Client::with_token(&coordinator, &expired_token)),
        ("an API token of a removed person", Client::with_token(&coordinator, &tokens[0])),
        ("an API token of a disabled person", Client::with_token(&coordinator, &tokens[1])),
        ("an unknown API token", Client::with_token(&coordinator, &format!("tautapi-{stranger}"))),
        (
            "an API token as an operator token",
            Client::with_token(&coordinator, &revoked_token.replace("tautapi", "tautop")),
        ),
        ("a revoked operator token", Client::with_token(&coordinator, &ended)),
        ("a session that was signed out", signed_out),
        ("an unknown session", cookie(&stranger)),
        ("a password link as a session", cookie(&link)),
        ("a password link as a token", Client::with_token(&coordinator, &format!("tautapi-{link}"))),
        ("an operator token as a session", cookie(coordinator.operator_token().trim_start_matches("tautop-"))),
        ("an empty session", cookie("")),
        ("a password", Client::with_token(&coordinator, PASSWORD)),
    ];
    let names =
        ["a session of a removed person", "a session of a disabled person", "an expired session", "an idle session"];
    bad.extend(names.into_iter().zip(clients));
    let mut first = None;
    for (what, client) in &bad {
        for (method, path, needs) in table().filter(|(_, _, needs)| *needs != Nothing) {
            let body = if ["POST", "PATCH"].contains(&method) { json!({}) } else { Value::Null };
            let answer = client.send(method, &nothing(path), &body);
            assert_eq!((answer.status, answer.code()), (401, "unauthorized"), "{what} {method} {path} {needs:?}");
            // All refusals have the same answer.
            assert_eq!(*first.get_or_insert(answer.plain()), answer.plain(), "{what} {method} {path}");
        }
    }
    assert_eq!(owner.send("GET", "/api/v1/users", &Value::Null).status, 200);
}

#[test]
fn fault_e2_a_role_in_one_network_shows_and_changes_nothing_of_another() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let operator = Client::operator(&coordinator);
    operator.done("POST", "/api/v1/networks", &json!({ "name": "lab" }));
    let node = coordinator.join("secret-host").id().0;
    let foreign =
        operator.done("POST", "/api/v1/keys", &json!({ "network": "default" }))["key"]["id"].as_i64().unwrap();
    let own = operator.done("POST", "/api/v1/keys", &json!({ "network": "lab" }))["key"]["id"].as_i64().unwrap();
    person(&coordinator, "lee", Some("lab"), Some("owner"));
    let lee = Client::of(&coordinator, "lee");
    // A machine asks for no network.
    let code = {
        let host = TestHost::new();
        let ToCoordinator::Hello(hello) = host.hello(None, 0) else { panic!() };
        let hello = Hello { request: Some(Request { name: String::from("secret-host") }), ..hello };
        let asked = coordinator.state.ask_to_join(public_key(&host.machine), &hello, [192, 0, 2, 1].into());
        match coordinator.wait(asked).unwrap() {
            Asked::Waits(row) => row.code,
            other => panic!("{other:?}"),
        }
    };
    for path in ["networks", "nodes", "requests", "keys", "relays", "audit"] {
        let text = lee.done("GET", &format!("/api/v1/{path}"), &Value::Null).to_string();
        assert!(!text.contains("default") && !text.contains("secret-host"), "{path}: {text}");
    }
    let refused = [
        ("GET", String::from("networks/default"), Value::Null),
        ("GET", String::from("nodes?network=default"), Value::Null),
        ("DELETE", String::from("networks/default?force=true"), Value::Null),
        ("DELETE", format!("nodes/{node}"), Value::Null),
        ("DELETE", String::from("nodes/secret-host"), Value::Null),
        ("PATCH", format!("nodes/{node}"), json!({ "name": "mine" })),
        ("DELETE", format!("keys/{foreign}"), Value::Null),
        ("DELETE", format!("requests/{code}"), Value::Null),
        ("POST", String::from("keys"), json!({ "network": "default" })),
        ("POST", String::from("users/lee/role"), json!({ "network": "default", "role": "owner" })),
    ];
    for (method, path, body) in refused {
        let answer = lee.send(method, &format!("/api/v1/{path}"), &body);
        assert_eq!(answer.status, 404, "{method} {path}: {}", answer.body);
    }
    let seen = operator.done("GET", "/api/v1/requests", &Value::Null);
    assert_eq!(seen["requests"][0]["code"], json!(code), "an owner of the coordinator sees it");
    let approved = lee.done("POST", &format!("/api/v1/requests/{code}/approve"), &json!({}));
    assert_eq!(approved["node"]["network"], "lab", "the code alone is enough for its own network");
    let answer = lee.send("POST", "/api/v1/users/lee/role", &json!({ "role": "owner" }));
    assert_eq!((answer.status, answer.code()), (403, "forbidden"), "no role in the coordinator itself");
    assert_eq!(lee.send("DELETE", &format!("/api/v1/keys/{own}"), &Value::Null).status, 200, "its own network");
    assert_eq!(lee.send("POST", "/api/v1/keys", &json!({})).status, 201, "the only network that it sees");
    assert_eq!(coordinator.wait(coordinator.state.nodes(None)).unwrap().len(), 2);
}
