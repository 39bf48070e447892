//! The document of the API: OpenAPI 3.1, made from the table of routes. Committed as `docs/spec/openapi.json`.

use std::collections::BTreeMap;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use super::failure::Code;
use super::routes::{Route, routes};
use super::schema::{object, one_of, text};
use super::{keys, networks, nodes, relays, tokens};
use crate::api::SCHEMA;

const ABOUT: &str = "For operators. Every path below /api wants `Authorization: Bearer tautop-…`, paths that do not exist included. \
    Every answer has `schema`; fields that are not known are to be ignored, in both directions. Times are seconds since 1970. \
    A path that is not here is answered by 404 `no-such-path`, another method by 405 `no-such-method`; what is not HTTP/1.1 or has \
    headers that are too large is refused without a body.";

/// What may go wrong with every request that wants a token.
const ALWAYS: [Code; 3] = [Code::Unauthorized, Code::Slow, Code::Unavailable];

/// `GET`: the document.
pub(super) async fn show() -> Response {
    (StatusCode::OK, Json(document())).into_response()
}

/// The whole document.
pub(crate) fn document() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    // What goes wrong in the same way is said once.
    let mut failures: Map<String, Value> = Map::new();
    for route in routes() {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str().to_lowercase()] = operation(&route, &mut failures);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Taut coordinator",
            "description": ABOUT,
            "version": format!("v{SCHEMA}"),
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "security": [{ "operatorToken": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": { "operatorToken": { "type": "http", "scheme": "bearer", "bearerFormat": "tautop-…" } },
            "responses": failures,
            "schemas": {
                "Network": networks::schema(),
                "Key": keys::schema(),
                "Node": nodes::schema(),
                "Relay": relays::schema(),
                "OperatorToken": tokens::schema(),
            },
        },
    })
}

/// The schema of a good answer.
pub(super) fn answer(fields: &[(&str, Value)]) -> Value {
    let schema = ("schema", json!({ "const": SCHEMA }));
    object(&fields.iter().cloned().chain([schema]).collect::<Vec<_>>())
}

fn operation(route: &Route, failures: &mut Map<String, Value>) -> Value {
    let mut operation =
        json!({ "operationId": route.id, "summary": route.about, "responses": responses(route, failures) });
    let mut parameters = Vec::new();
    if let Some((name, schema)) = &route.place {
        parameters.push(json!({ "name": name, "in": "path", "required": true, "schema": schema }));
    }
    if route.in_network {
        let schema = text(
            "name or number of a network; may be left out where one network alone has what is named, and in lists",
        );
        parameters.push(json!({ "name": "network", "in": "query", "schema": schema }));
    }
    if let Some((name, schema)) = &route.query {
        parameters.push(json!({ "name": name, "in": "query", "schema": schema }));
    }
    if !parameters.is_empty() {
        operation["parameters"] = Value::Array(parameters);
    }
    if let Some(body) = &route.body {
        operation["requestBody"] = json!({ "required": true, "content": { "application/json": { "schema": body } } });
    }
    if route.open {
        operation["security"] = json!([]);
    }
    operation
}

fn responses(route: &Route, known: &mut Map<String, Value>) -> Value {
    let always = if route.open { &ALWAYS[2..] } else { &ALWAYS[..] };
    let mut failures: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
    for code in always.iter().chain(&route.failures) {
        let codes = failures.entry(code.status().as_u16()).or_default();
        if !codes.contains(&code.name()) {
            codes.push(code.name());
        }
    }
    let mut responses = Map::new();
    let (status, schema) = &route.good;
    responses.insert(status.to_string(), response(if *status == 201 { "made" } else { "done" }, schema));
    for (status, codes) in failures {
        let name = codes.join(".");
        let reference = json!({ "$ref": format!("#/components/responses/{name}") });
        known.entry(name).or_insert_with(|| response(&codes.join(", "), &failure(&codes)));
        responses.insert(status.to_string(), reference);
    }
    Value::Object(responses)
}

fn response(description: &str, schema: &Value) -> Value {
    json!({ "description": description, "content": { "application/json": { "schema": schema } } })
}

fn failure(codes: &[&str]) -> Value {
    let error = [("code", one_of(codes)), ("message", text("what happened, and why")), ("hint", text("what to do"))];
    answer(&[("error", object(&error))])
}
