//! `/api/v1/keys`: enrolment keys.

use axum::body::Bytes;
use axum::extract::{Path, Query, State as Shared};
use axum::response::Response;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::{Number, Value, json};

use super::schema::{boolean, count, number, object, one_of, or_null, text, time, with_optional};
use super::{Failure, InNetwork, answer, created, parse};
use crate::api::Context;
use crate::clock::unix_now;
use crate::state::{Expiry, LONGEST_EXPIRY};
use crate::store::KeyRow;

/// Up to here floating-point numbers are exact: 2^53.
const LARGEST_WHOLE: f64 = 9_007_199_254_740_992.0;

#[derive(Deserialize)]
pub(super) struct Create {
    network: Option<String>,
    #[serde(default)]
    one_off: bool,
    /// Seconds; left out for 90 days, null for never.
    #[serde(default, deserialize_with = "present")]
    expires_in: Option<Option<i64>>,
}

/// `GET`: all keys. Their secrets cannot be shown: only hashes are stored.
pub(super) async fn list(
    Shared(context): Shared<Context>,
    Query(wanted): Query<InNetwork>,
) -> Result<Response, Failure> {
    let keys = context.state.keys(wanted.network.as_deref()).await?;
    let keys: Vec<Value> = keys.iter().map(|(network, row)| value(network, row)).collect();
    Ok(answer(json!({ "keys": keys })))
}

/// `POST`: a new key. The answer holds the join token, which cannot be shown again.
pub(super) async fn create(Shared(context): Shared<Context>, body: Bytes) -> Result<Response, Failure> {
    let create: Create = parse(&body)?;
    let expiry = match create.expires_in {
        None => Expiry::Default,
        Some(None) => Expiry::Never,
        Some(Some(seconds)) => Expiry::Seconds(seconds),
    };
    let (network, row, join_token) =
        context.state.create_key(create.network.as_deref(), !create.one_off, expiry).await?;
    Ok(created(json!({ "key": value(&network, &row), "join_token": join_token })))
}

/// `DELETE …/{id}`: the key opens nothing any more.
pub(super) async fn revoke(Shared(context): Shared<Context>, Path(id): Path<String>) -> Result<Response, Failure> {
    let id = id
        .parse()
        .map_err(|_| Failure::bad_request("a key is named by its number", "`taut-coordinator keys list` shows them"))?;
    context.state.revoke_key(id).await?;
    Ok(answer(json!({ "revoked": id })))
}

/// What [`create`] takes.
pub(super) fn create_schema() -> Value {
    let seconds = json!({
        "type": "integer",
        "minimum": 1,
        "maximum": LONGEST_EXPIRY,
        "description": "seconds; left out for 90 days, null for never",
    });
    let fields = [
        ("network", or_null(text("name or number; may be left out while there is one network"))),
        ("one_off", boolean("whether it opens the network for one node only; false unless told otherwise")),
        ("expires_in", or_null(seconds)),
    ];
    with_optional(object(&[]), &fields)
}

/// What [`value`] looks like.
pub(super) fn schema() -> Value {
    object(&[
        ("id", number()),
        ("network", text("its network's name")),
        ("one_off", boolean("whether it opens the network for one node only")),
        ("used", count("nodes that joined with it")),
        ("state", one_of(&["valid", "used", "expired", "revoked"])),
        ("expires_at", or_null(time("when it ends"))),
        ("created_at", time("when it was made")),
    ])
}

fn value(network: &str, row: &KeyRow) -> Value {
    json!({
        "id": row.id,
        "network": network,
        "one_off": !row.reusable,
        "used": row.used,
        "state": state(row),
        "expires_at": row.expires_at,
        "created_at": row.created_at,
    })
}

fn state(row: &KeyRow) -> &'static str {
    if row.revoked_at.is_some() {
        "revoked"
    } else if !row.reusable && row.used > 0 {
        "used"
    } else if row.expires_at.is_some_and(|end| end <= unix_now()) {
        "expired"
    } else {
        "valid"
    }
}

/// Tells a field that is null from one that is left out. A whole number is one, however it is written: 3600.0 is what some programs make
/// of 3600, and an integer to JSON Schema.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<i64>>, D::Error> {
    let Some(number) = Option::<Number>::deserialize(deserializer)? else { return Ok(Some(None)) };
    let whole = || number.as_f64().filter(|seconds| seconds.fract() == 0.0 && seconds.abs() < LARGEST_WHOLE);
    let seconds = number.as_i64().or_else(|| whole().map(|seconds| seconds as i64));
    seconds.map(|seconds| Some(Some(seconds))).ok_or_else(|| D::Error::custom("`expires_in` is not a whole number"))
}
