//! All requests that there are: the one table from which the router and the document of the API (OpenAPI) are made, so that neither has
//! what the other lacks.

use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{MethodFilter, MethodRouter, on};
use serde_json::Value;

use super::failure::Code;
use super::schema::{boolean, component, list, number, object, one_of, text};
use super::{document, keys, networks, nodes, relays, tokens};
use crate::api::{Context, healthz};

/// One request that may be made, and what is said of it in the document.
pub(in crate::api) struct Route {
    pub(in crate::api) method: Method,
    pub(in crate::api) path: &'static str,
    pub(in crate::api) handler: MethodRouter<Context>,
    /// Whether it may be asked without a token.
    pub(in crate::api) open: bool,
    /// Name of the operation, for generated clients.
    pub(super) id: &'static str,
    pub(super) about: &'static str,
    /// Whether `?network=` is understood.
    pub(super) in_network: bool,
    /// Another parameter of the query.
    pub(super) query: Option<(&'static str, Value)>,
    /// Schema of the path's `{…}`.
    pub(super) place: Option<(&'static str, Value)>,
    /// Schema of the body.
    pub(super) body: Option<Value>,
    /// Status of a good answer, and its schema.
    pub(super) good: (u16, Value),
    /// What may go wrong with this one, besides what may go wrong with all.
    pub(super) failures: Vec<Code>,
}

impl Route {
    fn new<H, T>(method: Method, path: &'static str, id: &'static str, about: &'static str, handler: H) -> Self
    where
        H: Handler<T, Context>,
        T: 'static,
    {
        let filter = MethodFilter::try_from(method.clone()).expect("the table has methods of HTTP only");
        let handler = on(filter, handler);
        let good = (200, object(&[]));
        let mut route = Self {
            method,
            path,
            handler,
            open: false,
            id,
            about,
            in_network: false,
            query: None,
            place: None,
            body: None,
            good,
            failures: Vec::new(),
        };
        if path.contains('{') {
            route.failures.push(Code::BadRequest);
        }
        route
    }

    fn get<H: Handler<T, Context>, T: 'static>(
        path: &'static str,
        id: &'static str,
        about: &'static str,
        handler: H,
    ) -> Self {
        Self::new(Method::GET, path, id, about, handler)
    }

    fn post<H: Handler<T, Context>, T: 'static>(
        path: &'static str,
        id: &'static str,
        about: &'static str,
        handler: H,
    ) -> Self {
        let mut route = Self::new(Method::POST, path, id, about, handler);
        route.good.0 = 201;
        route
    }

    fn patch<H: Handler<T, Context>, T: 'static>(
        path: &'static str,
        id: &'static str,
        about: &'static str,
        handler: H,
    ) -> Self {
        Self::new(Method::PATCH, path, id, about, handler)
    }

    fn delete<H: Handler<T, Context>, T: 'static>(
        path: &'static str,
        id: &'static str,
        about: &'static str,
        handler: H,
    ) -> Self {
        Self::new(Method::DELETE, path, id, about, handler)
    }

    /// No token is asked for.
    fn open(mut self) -> Self {
        self.open = true;
        self
    }

    fn in_network(mut self) -> Self {
        self.in_network = true;
        self.fails(&[Code::BadRequest, Code::NoSuchNetwork])
    }

    fn query(mut self, name: &'static str, schema: Value) -> Self {
        self.query = Some((name, schema));
        self.fails(&[Code::BadRequest])
    }

    fn place(mut self, name: &'static str, schema: Value) -> Self {
        self.place = Some((name, schema));
        self
    }

    fn body(mut self, schema: Value) -> Self {
        self.body = Some(schema);
        self.fails(&[Code::BadRequest, Code::TooLarge])
    }

    /// The fields of a good answer, besides `schema`.
    fn answers(mut self, fields: &[(&str, Value)]) -> Self {
        self.good.1 = document::answer(fields);
        self
    }

    fn fails(mut self, codes: &[Code]) -> Self {
        self.failures.extend(codes);
        self
    }
}

/// The table.
pub(in crate::api) fn routes() -> Vec<Route> {
    let node = || ("name", text("the node's name or number"));
    let network = || text("the network's name or number");
    vec![
        Route::get("/healthz", "health", "Whether the database answers, and what somebody should look at.", healthz)
            .open()
            .answers(&[("status", one_of(&["ok"])), ("warnings", list(&text("what to look at")))]),
        Route::get("/api/v1/openapi.json", "describe", "This document.", document::show),
        Route::get("/api/v1/networks", "listNetworks", "All networks.", networks::list)
            .answers(&[("networks", list(&component("Network")))]),
        Route::post("/api/v1/networks", "createNetwork", "Makes a network.", networks::create)
            .body(networks::create_schema())
            .answers(&[("network", component("Network"))])
            .fails(&[Code::BadName, Code::BadPrefix, Code::NetworkExists]),
        Route::get("/api/v1/networks/{name}", "showNetwork", "One network.", networks::show)
            .place("name", network())
            .answers(&[("network", component("Network"))])
            .fails(&[Code::NoSuchNetwork]),
        Route::delete("/api/v1/networks/{name}", "removeNetwork", "Removes a network.", networks::remove)
            .place("name", network())
            .query("force", boolean("true to remove its members with it; each of them is told"))
            .answers(&[("removed", component("Network"))])
            .fails(&[Code::NoSuchNetwork, Code::NetworkNotEmpty]),
        Route::get("/api/v1/keys", "listKeys", "All enrolment keys.", keys::list)
            .in_network()
            .answers(&[("keys", list(&component("Key")))]),
        Route::post(
            "/api/v1/keys",
            "createKey",
            "Makes an enrolment key; its join token is shown this once.",
            keys::create,
        )
        .body(keys::create_schema())
        .answers(&[("key", component("Key")), ("join_token", text("the line for `taut up --join`"))])
        .fails(&[Code::BadExpiry, Code::WhichNetwork, Code::NoSuchNetwork]),
        Route::delete("/api/v1/keys/{id}", "revokeKey", "Ends a key; nodes that used it stay.", keys::revoke)
            .place("id", number())
            .answers(&[("revoked", number())])
            .fails(&[Code::NoSuchKey]),
        Route::get("/api/v1/nodes", "listNodes", "All nodes.", nodes::list)
            .in_network()
            .answers(&[("nodes", list(&component("Node")))]),
        Route::patch("/api/v1/nodes/{name}", "renameNode", "Gives a node another name.", nodes::rename)
            .place(node().0, node().1)
            .in_network()
            .body(nodes::rename_schema())
            .answers(&[("node", component("Node"))])
            .fails(&[Code::WhichNetwork, Code::NoSuchNode, Code::BadName, Code::NameTaken]),
        Route::delete("/api/v1/nodes/{name}", "removeNode", "Ends a node's membership.", nodes::remove)
            .place(node().0, node().1)
            .in_network()
            .answers(&[("removed", component("Node"))])
            .fails(&[Code::WhichNetwork, Code::NoSuchNode]),
        Route::get("/api/v1/relays", "listRelays", "All relays, the coordinator's own first.", relays::list)
            .in_network()
            .answers(&[("relays", list(&component("Relay")))]),
        Route::post("/api/v1/relays", "addRelay", "Names a relay to the members of a network.", relays::add)
            .body(relays::add_schema())
            .answers(&[("relay", component("Relay"))])
            .fails(&[Code::BadName, Code::BadRelay, Code::RelayExists, Code::WhichNetwork, Code::NoSuchNetwork]),
        Route::delete("/api/v1/relays/{name}", "removeRelay", "Members are told of a relay no more.", relays::remove)
            .place("name", text("the relay's name or number"))
            .in_network()
            .answers(&[("removed", component("Relay"))])
            .fails(&[Code::WhichNetwork, Code::NoSuchRelay, Code::OwnRelay]),
        Route::get(
            "/api/v1/ticket-key",
            "showTicketKey",
            "The key by which relays know this coordinator's tickets: `taut-relay serve --trust`.",
            relays::ticket_key,
        )
        .answers(&[("ticket_key", text("an Ed25519 public key, base64"))]),
        Route::get(
            "/api/v1/operator-tokens",
            "listTokens",
            "All operator tokens, without what is secret.",
            tokens::list,
        )
        .answers(&[("operator_tokens", list(&component("OperatorToken")))]),
        Route::delete(
            "/api/v1/operator-tokens/{id}",
            "revokeToken",
            "Ends an operator token; the last valid one stays.",
            tokens::revoke,
        )
        .place("id", number())
        .answers(&[("revoked", number()), ("current", boolean("whether it was the token of this request"))])
        .fails(&[Code::NoSuchToken, Code::LastToken]),
    ]
}
