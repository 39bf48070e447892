//! The OpenAPI 3.1 document of the API, made from its routes and the types of [`crate::contract`].

use std::collections::BTreeMap;

use axum::http::Method;
use utoipa::PartialSchema;
use utoipa::openapi::path::{HttpMethod, OperationBuilder, PathItem, PathsBuilder};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{ComponentsBuilder, ObjectBuilder, Schema, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    Content, InfoBuilder, License, OpenApi, OpenApiBuilder, Ref, RefOr, Required, Response, ResponseBuilder,
    ResponsesBuilder, Server,
};

use super::route::Route;
use crate::contract::{ErrorAnswer, ErrorBody, ErrorCode, SCHEMA, SchemaVersion};

const ABOUT: &str = "The API of the coordinator for operators. Every path below /api, also an unknown one, needs \
    `Authorization: Bearer tautop-…`. Every answer has the field `schema`. Clients and servers ignore unknown fields. \
    Times are seconds since 1970. The answer to an unknown path is 404 `no-such-path`, to an unknown method 405 \
    `no-such-method`. A request that is not HTTP/1.1, or whose headers are too large, is refused without a body. Every answer has the header \
    `X-Request-Id`, which the lines of the coordinator's log about the request have, too.";

/// Name of the security scheme.
const TOKEN: &str = "operatorToken";

/// Failures of every request that needs a token.
const ALWAYS: [ErrorCode; 5] =
    [ErrorCode::Unauthorized, ErrorCode::Forbidden, ErrorCode::WrongSite, ErrorCode::Slow, ErrorCode::Unavailable];

/// Returns the document of these routes.
pub(super) fn document(routes: &[Route]) -> OpenApi {
    let mut paths = PathsBuilder::new();
    // Answers with the same set of codes share a component.
    let mut failures = BTreeMap::new();
    for route in routes {
        paths = paths.path(route.path, PathItem::new(method(&route.method), operation(route, &mut failures)));
    }
    let mut license = License::new("Apache-2.0");
    license.identifier = Some(String::from("Apache-2.0"));
    let info = InfoBuilder::new().title("Taut coordinator").description(Some(ABOUT)).version(format!("v{SCHEMA}"));
    let token = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).bearer_format("tautop-…").build();
    let components = ComponentsBuilder::new()
        .security_scheme(TOKEN, SecurityScheme::Http(token))
        .schema("SchemaVersion", SchemaVersion::schema())
        .schemas_from_iter(routes.iter().flat_map(|route| route.schemas.iter().cloned()))
        .responses_from_iter(failures);
    OpenApiBuilder::new()
        .info(info.license(Some(license)).build())
        .servers(Some([Server::new("/")]))
        .security(Some([SecurityRequirement::new(TOKEN, [""; 0])]))
        .paths(paths)
        .components(Some(components.build()))
        .build()
}

fn method(method: &Method) -> HttpMethod {
    match *method {
        Method::POST => HttpMethod::Post,
        Method::PATCH => HttpMethod::Patch,
        Method::DELETE => HttpMethod::Delete,
        _ => HttpMethod::Get,
    }
}

fn operation(route: &Route, failures: &mut BTreeMap<String, Response>) -> OperationBuilder {
    let mut operation = OperationBuilder::new()
        .operation_id(Some(route.id))
        .summary(Some(route.summary))
        .responses(responses(route, failures));
    if !route.parameters.is_empty() {
        operation = operation.parameters(Some(route.parameters.clone()));
    }
    if let Some(body) = &route.body {
        let body = RequestBodyBuilder::new().content("application/json", Content::new(Some(body.clone())));
        operation = operation.request_body(Some(body.required(Some(Required::True)).build()));
    }
    if route.open { operation.securities(Some([])) } else { operation }
}

fn responses(route: &Route, known: &mut BTreeMap<String, Response>) -> ResponsesBuilder {
    let always = if route.open { &ALWAYS[4..] } else { &ALWAYS[..] };
    let mut failures: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
    // Failures that the header Idempotency-Key can cause. Only POST requests with a credential accept it.
    let of_keys = [ErrorCode::BadRequest, ErrorCode::RepeatedKey, ErrorCode::TooLarge];
    let of_keys = of_keys.iter().filter(|_| route.method == Method::POST && !route.open);
    for code in always.iter().chain(&route.failures).chain(of_keys) {
        let codes = failures.entry(code.status()).or_default();
        if !codes.contains(&code.name()) {
            codes.push(code.name());
        }
    }
    let description = if route.status == 201 { "created" } else { "success" };
    let answer = response(description, route.answer.clone());
    let mut responses = ResponsesBuilder::new().response(route.status.to_string(), answer);
    for (status, codes) in failures {
        let name = codes.join(".");
        responses = responses.response(status.to_string(), Ref::from_response_name(&name));
        known.entry(name).or_insert_with(|| response(&codes.join(", "), failure(&codes)));
    }
    responses
}

fn response(description: &str, schema: RefOr<Schema>) -> Response {
    ResponseBuilder::new().description(description).content("application/json", Content::new(Some(schema))).build()
}

/// Returns the schema of an error answer that has one of these codes.
fn failure(codes: &[&str]) -> RefOr<Schema> {
    let codes = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(codes.iter().copied()));
    with_property(ErrorAnswer::schema(), "error", with_property(ErrorBody::schema(), "code", codes.into()))
}

/// Replaces the schema of one field of an object.
fn with_property(object: RefOr<Schema>, name: &str, schema: RefOr<Schema>) -> RefOr<Schema> {
    match object {
        RefOr::T(Schema::Object(mut object)) => {
            object.properties.insert(String::from(name), schema);
            RefOr::T(Schema::Object(object))
        }
        other => other,
    }
}
