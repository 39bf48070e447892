//! Words for what a JSON value looks like (JSON Schema 2020-12, as OpenAPI 3.1 has it).

use serde_json::{Map, Value, json};

/// An object that has all of `fields`, and may have more in a later version.
pub(super) fn object(fields: &[(&str, Value)]) -> Value {
    let properties: Map<String, Value> =
        fields.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    let required: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    json!({ "type": "object", "properties": properties, "required": required })
}

/// An object of which `optional` may be left out.
pub(super) fn with_optional(mut object: Value, optional: &[(&str, Value)]) -> Value {
    for (name, schema) in optional {
        object["properties"][*name] = schema.clone();
    }
    object
}

pub(super) fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

pub(super) fn one_of(words: &[&str]) -> Value {
    json!({ "type": "string", "enum": words })
}

/// A number of something, which is never negative.
pub(super) fn count(description: &str) -> Value {
    json!({ "type": "integer", "minimum": 0, "description": description })
}

pub(super) fn boolean(description: &str) -> Value {
    json!({ "type": "boolean", "description": description })
}

pub(super) fn time(description: &str) -> Value {
    json!({ "type": "integer", "description": format!("{description}, in seconds since 1970") })
}

pub(super) fn list(items: &Value) -> Value {
    json!({ "type": "array", "items": items })
}

/// One of the components of the document.
pub(super) fn component(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

pub(super) fn or_null(mut schema: Value) -> Value {
    schema["type"] = json!([schema["type"], "null"]);
    schema
}

/// The number of a key or a token in a path.
pub(super) fn number() -> Value {
    json!({ "type": "integer", "format": "int64", "minimum": i64::MIN, "maximum": i64::MAX })
}

/// A name that may be given: one label of a DNS name (`taut_netmap::check_name`).
pub(super) fn label() -> Value {
    json!({
        "type": "string",
        "minLength": 1,
        "maxLength": taut_netmap::MAX_NAME,
        "pattern": "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$",
        "description": "a DNS label; of nodes and networks none that is reserved, such as localhost",
    })
}
