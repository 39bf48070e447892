//! Parts that all answers share, and the health check.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

/// Version of the operator's API.
pub(crate) const SCHEMA: u32 = 1;

/// The field `schema` of every answer, always [`SCHEMA`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SchemaVersion;

impl Serialize for SchemaVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(SCHEMA)
    }
}

impl<'de> Deserialize<'de> for SchemaVersion {
    /// Accepts any version: an answer below `/api/v1` has the fields of version 1.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u32::deserialize(deserializer).map(|_| Self)
    }
}

impl PartialSchema for SchemaVersion {
    fn schema() -> RefOr<Schema> {
        let version = ObjectBuilder::new().schema_type(Type::Integer).enum_values(Some([SCHEMA]));
        version.description(Some("version of the API")).into()
    }
}

impl ToSchema for SchemaVersion {}

/// `GET /healthz`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct HealthAnswer {
    pub(crate) schema: SchemaVersion,
    pub(crate) status: HealthStatus,
    /// conditions that need the operator, as far as they are known without asking the database
    pub(crate) warnings: Vec<String>,
}

/// The process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum HealthStatus {
    Ok,
}

/// `GET /readyz`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct ReadyAnswer {
    pub(crate) schema: SchemaVersion,
    pub(crate) status: ReadyStatus,
    /// conditions that need the operator before the coordinator stops answering
    pub(crate) warnings: Vec<String>,
}

/// Result of a check that succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ReadyStatus {
    Ready,
}
