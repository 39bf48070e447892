//! An OpenID provider that lies as a test wants.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};
use taut_base::{decode_base64url, encode_base64url};

use crate::clock::unix_now;
use crate::oidc::OidcOptions;
use crate::state::random;

pub(super) const CLIENT: &str = "taut";
pub(super) const SECRET: &str = "the-client-secret";

/// What the provider does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lie {
    None,
    Audience,
    MoreAudiences,
    Issuer,
    Nonce,
    NoNonce,
    /// `alg: none` without a signature.
    Unsigned,
    /// HMAC with the client secret.
    Hmac,
    /// HMAC with the public key as its key.
    HmacOfPublicKey,
    Expired,
    OtherKey,
    ChangedClaims,
    AccessToken,
    NoIdToken,
    UserInfoOfAnother,
    NoSubject,
    LongSubject,
    NotJson,
    Huge,
}

/// The lies that every kind of sign-in meets, each with the status of the coordinator's answer.
pub(super) const LIES: [(Lie, u16); 17] = [
    (Lie::Audience, 401),
    (Lie::MoreAudiences, 401),
    (Lie::Issuer, 401),
    (Lie::Nonce, 401),
    (Lie::Unsigned, 401),
    (Lie::Hmac, 401),
    (Lie::HmacOfPublicKey, 401),
    (Lie::Expired, 401),
    (Lie::OtherKey, 401),
    (Lie::ChangedClaims, 401),
    (Lie::AccessToken, 401),
    (Lie::NoIdToken, 401),
    (Lie::UserInfoOfAnother, 401),
    (Lie::NoSubject, 401),
    (Lie::LongSubject, 401),
    (Lie::NotJson, 503),
    (Lie::Huge, 503),
];

/// How refresh tokens are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refresh {
    Confirmed,
    Removed,
    /// Status 500.
    Broken,
    /// The client secret is refused.
    Client,
    /// Tokens of another person.
    Another,
    WithoutIdToken,
}

/// The answer of the provider to a terminal that asks for its tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Device {
    Pending,
    SlowDown,
    Approved,
    Denied,
    Expired,
    /// Status 500.
    Broken,
    /// The client secret is refused.
    Client,
}

/// The kind of request that an ID token answers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Occasion<'a> {
    /// A sign-in with this nonce.
    Browser(&'a str),
    Terminal,
    Refresh,
}

/// What the test can change and see.
pub(super) struct Script {
    pub(super) lie: Lie,
    pub(super) subject: String,
    pub(super) email: Value,
    pub(super) is_confirmed: bool,
    pub(super) groups: Value,
    pub(super) refresh: Refresh,
    pub(super) gives_refresh_tokens: bool,
    /// True if codes are bound to the coordinator that began (PKCE).
    pub(super) checks_challenges: bool,
    pub(super) device: Device,
    /// Status and replaced members of the answer with which a sign-in in a terminal begins.
    pub(super) device_answer: (u16, Value),
    /// Replaces members of the metadata.
    pub(super) metadata: Value,
    /// The path of each request.
    pub(super) seen: Vec<String>,
    /// Refresh tokens that were used.
    pub(super) refreshed: Vec<String>,
    /// Nonce and challenge by code. A code can be used often: the coordinator must not rely on the provider.
    codes: BTreeMap<String, (String, String)>,
}

/// A running provider.
pub(super) struct FakeProvider {
    pub(super) address: SocketAddr,
    script: Arc<Mutex<Script>>,
}

impl FakeProvider {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let script = Arc::new(Mutex::new(Script {
            lie: Lie::None,
            subject: String::from("248289761001"),
            email: json!("ann@example.com"),
            is_confirmed: true,
            groups: json!(["staff"]),
            refresh: Refresh::Confirmed,
            gives_refresh_tokens: true,
            checks_challenges: true,
            device: Device::Pending,
            device_answer: (200, json!({})),
            metadata: json!({}),
            seen: Vec::new(),
            refreshed: Vec::new(),
            codes: BTreeMap::new(),
        }));
        let server =
            Server { issuer: format!("http://{address}"), key: key(), other: key(), script: Arc::clone(&script) };
        std::thread::spawn(move || listener.incoming().flatten().for_each(|stream| server.answer(stream)));
        Self { address, script }
    }

    pub(super) fn issuer(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap()
    }

    /// Returns what `serve` is told about this provider.
    pub(super) fn options(&self) -> OidcOptions {
        OidcOptions {
            issuer: self.issuer(),
            client_id: String::from(CLIENT),
            client_secret: String::from(SECRET).into(),
            scopes: vec![String::from("email")],
            parameters: Vec::new(),
            groups_claim: String::from("groups"),
            domains: vec![String::from("example.com")],
            groups: Vec::new(),
            refresh_every: Duration::from_secs(3_600),
            allow_private: true,
        }
    }

    /// Signs a person in at the page to which `location` leads. Returns code and state.
    pub(super) fn consent(&self, location: &str) -> (String, String) {
        let (page, query) = location.split_once('?').unwrap();
        assert_eq!(page, format!("{}/authorize", self.issuer()));
        let of = |name: &str| {
            let found = query.split('&').find_map(|pair| pair.strip_prefix(&format!("{name}=")));
            found.unwrap_or_else(|| panic!("no {name} in {query}")).replace("%3A", ":").replace("%2F", "/")
        };
        assert_eq!((of("response_type").as_str(), of("client_id").as_str()), ("code", CLIENT));
        assert_eq!(of("redirect_uri"), "http://127.0.0.1:8288/oidc/callback");
        assert_eq!((of("code_challenge_method").as_str(), of("scope").as_str()), ("S256", "openid+email"));
        let code = encode_base64url(&random::<16>());
        self.script().codes.insert(code.clone(), (of("nonce"), of("code_challenge")));
        (code, of("state"))
    }
}

fn key() -> EcdsaKeyPair {
    let random = SystemRandom::new();
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &random).unwrap()
}

struct Server {
    issuer: String,
    key: EcdsaKeyPair,
    other: EcdsaKeyPair,
    script: Arc<Mutex<Script>>,
}

impl Server {
    fn answer(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream);
        let (mut first, mut length, mut authorization) = (String::new(), 0, String::new());
        let _ = reader.read_line(&mut first);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) <= 2 {
                break;
            }
            let (name, value) = line.trim().split_once(':').unwrap();
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.trim().parse().unwrap(),
                "authorization" => value.trim().clone_into(&mut authorization),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        let _ = reader.read_exact(&mut body);
        let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
        self.script.lock().unwrap().seen.push(path.clone());
        let (status, text) = self.respond(&path, &String::from_utf8(body).unwrap(), &authorization);
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            text.len()
        );
        let mut stream = reader.into_inner();
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(text.as_bytes()));
    }

    fn respond(&self, path: &str, body: &str, authorization: &str) -> (u16, String) {
        let script = self.script.lock().unwrap();
        let is_huge = script.lie == Lie::Huge && path == "/token";
        let answer = match path {
            "/.well-known/openid-configuration" => (200, self.metadata(&script)),
            "/keys" => (200, self.keys()),
            "/token" => self.token(script, body, authorization),
            "/device" => self.device(&script, body, authorization),
            "/userinfo" => (200, self.user_info(&script)),
            _ => (404, json!({})),
        };
        match is_huge {
            true => (200, format!("{{\"x\":\"{}\"}}", "a".repeat(2 << 20))),
            false => (answer.0, if answer.1.is_null() { String::from("<html>") } else { answer.1.to_string() }),
        }
    }

    fn metadata(&self, script: &Script) -> Value {
        let at = |path: &str| format!("{}{path}", self.issuer);
        let mut metadata = json!({
            "issuer": self.issuer,
            "authorization_endpoint": at("/authorize"),
            "token_endpoint": at("/token"),
            "userinfo_endpoint": at("/userinfo"),
            "device_authorization_endpoint": at("/device"),
            "jwks_uri": at("/keys"),
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256", "HS256", "none"],
        });
        metadata.as_object_mut().unwrap().extend(script.metadata.as_object().unwrap().clone());
        metadata
    }

    fn keys(&self) -> Value {
        let public = self.key.public_key().as_ref();
        let (x, y) = (encode_base64url(&public[1..33]), encode_base64url(&public[33..]));
        json!({ "keys": [{ "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": "1", "x": x, "y": y }] })
    }

    fn token(&self, mut script: MutexGuard<'_, Script>, body: &str, authorization: &str) -> (u16, Value) {
        let of = |name: &str| {
            body.split('&').find_map(|pair| pair.strip_prefix(&format!("{name}="))).unwrap_or_default().to_owned()
        };
        assert!(authorization.starts_with("Basic "), "the client says who it is: {authorization}");
        if of("grant_type") == "refresh_token" {
            script.refreshed.push(of("refresh_token"));
            return match script.refresh {
                Refresh::Removed => (400, json!({ "error": "invalid_grant" })),
                Refresh::Broken => (500, json!({ "error": "oops" })),
                Refresh::Client => (401, json!({ "error": "invalid_client" })),
                _ => (200, self.tokens(&script, Occasion::Refresh)),
            };
        }
        if of("grant_type").ends_with("device_code") {
            assert!(of("device_code").starts_with("device-"), "{body}");
            return self.of_device(&script);
        }
        let Some((nonce, challenge)) = script.codes.get(&of("code")).cloned() else {
            return (400, json!({ "error": "invalid_grant" }));
        };
        let hash = digest(&SHA256, of("code_verifier").as_bytes());
        if script.checks_challenges && encode_base64url(hash.as_ref()) != challenge {
            return (400, json!({ "error": "invalid_grant" }));
        }
        match script.lie {
            Lie::NotJson => (200, Value::Null),
            _ => (200, self.tokens(&script, Occasion::Browser(&nonce))),
        }
    }

    /// Begins a sign-in in a terminal.
    fn device(&self, script: &Script, body: &str, authorization: &str) -> (u16, Value) {
        assert!(authorization.starts_with("Basic "), "the client says who it is: {authorization}");
        assert!(body.contains("scope=openid+email"), "{body}");
        let mut answer = json!({
            "device_code": format!("device-{}", encode_base64url(&random::<16>())),
            "user_code": "WDJB-MJHT",
            "verification_uri": format!("{}/activate", self.issuer),
            "verification_uri_complete": format!("{}/activate?user_code=WDJB-MJHT", self.issuer),
            "expires_in": 1_800,
        });
        let (status, replaced) = script.device_answer.clone();
        answer.as_object_mut().unwrap().extend(replaced.as_object().unwrap().clone());
        (status, answer)
    }

    /// Answers a terminal that asks for its tokens. One that has them gets others each time: the coordinator must not rely on the provider.
    fn of_device(&self, script: &Script) -> (u16, Value) {
        let failed = |error: &str| (400, json!({ "error": error }));
        match script.device {
            Device::Pending => failed("authorization_pending"),
            Device::SlowDown => failed("slow_down"),
            Device::Denied => failed("access_denied"),
            Device::Expired => failed("expired_token"),
            Device::Broken => (500, json!({ "error": "oops" })),
            Device::Client => (401, json!({ "error": "invalid_client" })),
            Device::Approved if script.lie == Lie::NotJson => (200, Value::Null),
            Device::Approved => (200, self.tokens(script, Occasion::Terminal)),
        }
    }

    fn tokens(&self, script: &Script, occasion: Occasion<'_>) -> Value {
        let is_sign_in = occasion != Occasion::Refresh;
        let access = encode_base64url(&random::<16>());
        let mut tokens = json!({ "access_token": access, "token_type": "Bearer", "expires_in": 300 });
        if script.gives_refresh_tokens {
            tokens["refresh_token"] = json!(format!("refresh-{}", encode_base64url(&random::<16>())));
        }
        let lie = if is_sign_in { script.lie } else { Lie::None };
        if lie != Lie::NoIdToken && (is_sign_in || script.refresh != Refresh::WithoutIdToken) {
            tokens["id_token"] = json!(self.id_token(script, lie, occasion, &access));
        }
        tokens
    }

    fn id_token(&self, script: &Script, lie: Lie, occasion: Occasion<'_>, access: &str) -> String {
        let now = unix_now();
        let another = occasion == Occasion::Refresh && script.refresh == Refresh::Another;
        let hashed = if lie == Lie::AccessToken { "another" } else { access };
        let mut claims = json!({
            "iss": self.issuer,
            "sub": if another { "another" } else { &script.subject },
            "aud": CLIENT,
            "exp": now + 300,
            "iat": now,
            "at_hash": encode_base64url(&digest(&SHA256, hashed.as_bytes()).as_ref()[..16]),
        });
        if let Occasion::Browser(nonce) = occasion {
            claims["nonce"] = json!(nonce);
        }
        match lie {
            Lie::Audience => claims["aud"] = json!("another-client"),
            Lie::MoreAudiences => claims["aud"] = json!([CLIENT, "another-client"]),
            Lie::Issuer => claims["iss"] = json!("http://127.0.0.1:1"),
            Lie::Nonce => claims["nonce"] = json!("of-another-sign-in"),
            Lie::NoNonce => _ = claims.as_object_mut().unwrap().remove("nonce"),
            Lie::Expired => claims["exp"] = json!(now - 1),
            // Without the hash, so that nothing but the algorithm is wrong.
            Lie::Unsigned | Lie::Hmac | Lie::HmacOfPublicKey => _ = claims.as_object_mut().unwrap().remove("at_hash"),
            Lie::NoSubject => claims["sub"] = json!(""),
            Lie::LongSubject => claims["sub"] = json!("a".repeat(300)),
            _ => {}
        }
        self.signed(lie, &claims)
    }

    fn signed(&self, lie: Lie, claims: &Value) -> String {
        let algorithm = match lie {
            Lie::Unsigned => "none",
            Lie::Hmac | Lie::HmacOfPublicKey => "HS256",
            _ => "ES256",
        };
        let part = |value: &Value| encode_base64url(value.to_string().as_bytes());
        let text = format!("{}.{}", part(&json!({ "alg": algorithm, "typ": "JWT", "kid": "1" })), part(claims));
        let hmac = |key: &[u8]| {
            ring::hmac::sign(&ring::hmac::Key::new(ring::hmac::HMAC_SHA256, key), text.as_bytes()).as_ref().to_vec()
        };
        let of = |key: &EcdsaKeyPair| key.sign(&SystemRandom::new(), text.as_bytes()).unwrap().as_ref().to_vec();
        let signature = match lie {
            Lie::Unsigned => Vec::new(),
            Lie::Hmac => hmac(SECRET.as_bytes()),
            Lie::HmacOfPublicKey => hmac(self.key.public_key().as_ref()),
            Lie::OtherKey => of(&self.other),
            _ => of(&self.key),
        };
        let token = format!("{text}.{}", encode_base64url(&signature));
        if lie != Lie::ChangedClaims {
            return token;
        }
        let mut parts: Vec<String> = token.split('.').map(String::from).collect();
        let mut changed: Value = serde_json::from_slice(&decode_base64url(&parts[1]).unwrap()).unwrap();
        changed["sub"] = json!("the-owner");
        parts[1] = part(&changed);
        parts.join(".")
    }

    fn user_info(&self, script: &Script) -> Value {
        let subject = if script.lie == Lie::UserInfoOfAnother { "the-owner" } else { &script.subject };
        json!({
            "sub": subject,
            "name": "Ann Example",
            "email": script.email,
            "email_verified": script.is_confirmed,
            "groups": script.groups,
        })
    }
}
