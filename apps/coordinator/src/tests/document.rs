//! The OpenAPI document, and the check of all answers in these tests against it.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use serde_json::{Value, json};

use super::world::{Directory, TestCoordinator};
use crate::api::document;

/// Returns the operation of a request; `None` if the document has none.
fn operation<'a>(document: &'a Value, method: &str, path: &str) -> Option<&'a Value> {
    let path = path.split('?').next().unwrap_or(path);
    let fits = |template: &str| {
        let (asked, known): (Vec<_>, Vec<_>) = (path.split('/').collect(), template.split('/').collect());
        asked.len() == known.len()
            && asked
                .iter()
                .zip(known)
                .all(|(asked, known)| *asked == known || (known.starts_with('{') && !asked.is_empty()))
    };
    let (_, item) = document["paths"].as_object().unwrap().iter().find(|(template, _)| fits(template))?;
    // Methods are case-sensitive (RFC 9110 section 9.1): `gET` is another method than `GET`.
    item.get(method.to_lowercase()).filter(|_| method.bytes().all(|byte| byte.is_ascii_uppercase()))
}

/// Panics if an answer does not fit the document.
pub(super) fn check_answer(method: &str, path: &str, status: u16, body: &Value) {
    static DOCUMENT: LazyLock<Value> = LazyLock::new(document);
    let document = &*DOCUMENT;
    let Some(operation) = operation(document, method, path) else {
        let is_named = matches!(
            (status, body["error"]["code"].as_str()),
            (404, Some("no-such-path")) | (405, Some("no-such-method")) | (401, Some("unauthorized"))
        );
        assert!(is_named, "{method} {path} is not in the document, and is answered by {status} {body}");
        return;
    };
    let response = operation["responses"].get(status.to_string());
    let response = response.unwrap_or_else(|| panic!("{method} {path}: {status} is not in the document: {body}"));
    let response = resolved(document, response);
    if let Err(why) = fits(document, &response["content"]["application/json"]["schema"], body) {
        panic!("{method} {path}: {status} {body} is not as the document says: {why}");
    }
}

/// Returns the target of a reference, or the value itself if it is not a reference.
fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    let Some(reference) = value["$ref"].as_str() else { return value };
    document.pointer(reference.trim_start_matches('#')).unwrap_or_else(|| panic!("{reference} leads nowhere"))
}

/// Checks a value against a schema. Supports the part of JSON Schema that the document uses. Stricter than JSON Schema: fields that are not described are not
/// allowed.
fn fits(document: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    // A schema with only a description allows any JSON, such as the values of the audit log.
    if schema.as_object().is_some_and(|schema| schema.keys().all(|key| key == "description")) {
        return Ok(());
    }
    let schema = resolved(document, schema);
    if let Some(constant) = schema.get("const") {
        return if constant == value { Ok(()) } else { Err(format!("{value} is not {constant}")) };
    }
    if let Some(either) = schema["oneOf"].as_array() {
        let found: Vec<_> = either.iter().map(|one| fits(document, one, value)).collect();
        return if found.iter().any(Result::is_ok) { Ok(()) } else { Err(format!("none fits: {found:?}")) };
    }
    let kinds: Vec<&str> = match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        other => return Err(format!("a schema without a type: {other} in {schema}")),
    };
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    if !kinds.contains(&kind) {
        return Err(format!("{value} is no {kinds:?}"));
    }
    if let Some(words) = schema["enum"].as_array()
        && !words.contains(value)
    {
        return Err(format!("{value} is none of {words:?}"));
    }
    if let (Some(minimum), Some(number)) = (schema["minimum"].as_i64(), value.as_i64())
        && number < minimum
    {
        return Err(format!("{number} is below {minimum}"));
    }
    for item in value.as_array().into_iter().flatten() {
        fits(document, &schema["items"], item)?;
    }
    let Some(object) = value.as_object() else { return Ok(()) };
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !object.contains_key(name) {
            return Err(format!("{name} is missing"));
        }
    }
    for (name, value) in object {
        let schema = schema["properties"].get(name).ok_or(format!("{name} is not described"))?;
        fits(document, schema, value).map_err(|why| format!("{name}: {why}"))?;
    }
    Ok(())
}

#[test]
fn the_committed_document_is_the_generated_one_and_is_served() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/spec/openapi.json");
    let committed = fs::read_to_string(path).unwrap();
    let made = format!("{:#}\n", document());
    assert_eq!(committed, made, "run `taut-coordinator openapi > docs/spec/openapi.json`");
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let token = Some(coordinator.operator_token());
    let (status, served) = coordinator.ask_unchecked("GET", "/api/v1/openapi.json", token, None);
    assert_eq!((status, served), (200, document()));
}

#[test]
fn answers_that_do_not_fit_the_document_are_found() {
    let document = document();
    let good = json!({ "schema": 1, "status": "ok", "warnings": [] });
    let schema = |status: &str| {
        &resolved(&document, &document["paths"]["/healthz"]["get"]["responses"][status])["content"]["application/json"]
            ["schema"]
    };
    assert_eq!(fits(&document, schema("200"), &good), Ok(()));
    for wrong in [
        json!({ "schema": 2, "status": "ok", "warnings": [] }),
        json!({ "schema": 1, "status": "bad", "warnings": [] }),
        json!({ "schema": 1, "status": "ok", "warnings": [1] }),
        json!({ "schema": 1, "status": "ok" }),
        json!({ "schema": 1, "status": "ok", "warnings": [], "more": 1 }),
        json!([]),
    ] {
        assert!(fits(&document, schema("200"), &wrong).is_err(), "{wrong}");
    }
    let ready = json!({ "schema": 1, "status": "ready", "warnings": ["a"] });
    let answer = &document["paths"]["/readyz"]["get"]["responses"]["200"];
    assert_eq!(fits(&document, &answer["content"]["application/json"]["schema"], &ready), Ok(()));
    let wrong = json!({ "schema": 1, "error": { "code": "bad-name", "message": "", "hint": "" } });
    assert!(fits(&document, schema("503"), &wrong).is_err(), "a code that this request cannot have");
}
