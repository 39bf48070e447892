//! `#[derive(taut_json::Deserialize)]`: serde's trait, in little code.
//!
//! serde's own derive makes for each type a search for the field's name, a reader from arrays, and a variable for each field that every error has to drop.
//! This one makes a table of names, which one function searches for all types, and keeps what was read in one place.
//!
//! For structs with named fields, and enums whose variants have no values. Of serde's attributes: `rename`, `rename_all = "kebab-case"` or `"lowercase"`,
//! `default`, `with`, `other`, and those for writing alone. Anything else is an error, for which serde's derive is there.

mod attributes;
mod enums;
mod structs;

use proc_macro::TokenStream;
use syn::{Data, DeriveInput, Error, Fields};

/// See the crate's documentation.
#[proc_macro_derive(Deserialize, attributes(serde))]
pub fn deserialize(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    let made = match (&input.data, input.generics.params.is_empty()) {
        (Data::Struct(data), true) => match &data.fields {
            Fields::Named(fields) => structs::read(&input, fields),
            _ => Err(unsupported(&input, "structs without named fields")),
        },
        (Data::Enum(data), true) => enums::read(&input, data),
        _ => Err(unsupported(&input, "unions, and types with parameters")),
    };
    made.unwrap_or_else(Error::into_compile_error).into()
}

fn unsupported(input: &DeriveInput, what: &str) -> Error {
    Error::new_spanned(&input.ident, format!("{what}: derive serde::Deserialize instead"))
}
