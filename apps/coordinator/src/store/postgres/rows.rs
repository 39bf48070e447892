//! Values and rows as sqlx has them for PostgreSQL.

use std::sync::Arc;

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{Column, Postgres, Row as _, TypeInfo, ValueRef, query};

use super::StoreError;
use crate::store::value::{Cell, Row, Value};

pub(super) fn bound<'q>(sql: &'static str, values: &[Value<'_>]) -> Query<'q, Postgres, PgArguments> {
    values.iter().fold(query(sql), |query, value| match *value {
        Value::Integer(number) => query.bind(number),
        // A NUL is in no text of PostgreSQL. Names are checked before they are stored; one that is only looked up is not found.
        Value::Text(text) => query.bind(text.map(|text| text.replace('\0', "\u{fffd}"))),
        Value::Bytes(bytes) => query.bind(bytes.map(<[u8]>::to_vec)),
    })
}

pub(super) fn rows(found: &[PgRow]) -> Result<Vec<Row>, StoreError> {
    let Some(first) = found.first() else { return Ok(Vec::new()) };
    let columns: Arc<[String]> = first.columns().iter().map(|column| column.name().to_owned()).collect();
    let row = |row| Ok(Row { columns: Arc::clone(&columns), cells: cells(row, columns.len())? });
    found.iter().map(row).collect()
}

fn cells(row: &PgRow, count: usize) -> Result<Vec<Cell>, StoreError> {
    let cell = |place| {
        let value = row.try_get_raw(place)?;
        Ok(match value.type_info().name() {
            _ if value.is_null() => Cell::Null,
            "INT8" => Cell::Integer(row.try_get(place)?),
            "INT4" => Cell::Integer(row.try_get::<i32, _>(place)?.into()),
            "BOOL" => Cell::Integer(row.try_get::<bool, _>(place)?.into()),
            "BYTEA" => Cell::Bytes(row.try_get(place)?),
            "TEXT" => Cell::Bytes(row.try_get::<String, _>(place)?.into_bytes()),
            _ => return Err(StoreError::Damaged("a column of another type")),
        })
    };
    (0..count).map(cell).collect()
}
