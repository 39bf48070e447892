//! Structs: objects.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{DeriveInput, Error, Field, FieldsNamed, Result, Type};

use crate::attributes::{Attributes, Default};

/// Fields that one number has bits for.
const MAX_FIELDS: usize = 64;

pub(crate) fn read(input: &DeriveInput, fields: &FieldsNamed) -> Result<TokenStream> {
    let all = Attributes::read(&input.attrs)?;
    if all.default.is_some() || all.with.is_some() || fields.named.len() > MAX_FIELDS {
        return Err(Error::new_spanned(&input.ident, "not supported here: derive serde::Deserialize instead"));
    }
    let (ident, expecting) = (&input.ident, format!("struct {}", input.ident));
    let (mut names, mut places, mut starts, mut reads, mut ends) = (vec![], vec![], vec![], vec![], vec![]);
    for (number, field) in fields.named.iter().enumerate() {
        let own = Attributes::read(&field.attrs)?;
        let Field { ident: Some(field_ident), ty, .. } = field else { continue };
        let name = own.name(&field_ident.to_string(), &all);
        // A field that may be absent begins with what it is then; any other begins empty.
        let start = match &own.default {
            Some(Default::OfType) => Some(quote!(::core::default::Default::default())),
            Some(Default::Of(function)) => Some(quote!(#function())),
            None if is_option(ty) && own.with.is_none() => Some(quote!(::core::option::Option::None)),
            None => None,
        };
        let read = match (&own.with, &start) {
            (None, Some(_)) => quote!(::taut_json::derive::field(&mut map, &mut parts.#field_ident)?),
            (None, None) => quote!(::taut_json::derive::some(&mut map, &mut parts.#field_ident)?),
            (Some(module), start) => {
                let value = quote!(map.next_value::<With>()?.0);
                let value = if start.is_some() { value } else { quote!(::core::option::Option::Some(#value)) };
                quote!({
                    struct With(#ty);
                    impl<'de> ::serde::Deserialize<'de> for With {
                        fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> ::core::result::Result<Self, D::Error> {
                            #module::deserialize(deserializer).map(With)
                        }
                    }
                    parts.#field_ident = #value;
                })
            }
        };
        reads.push(quote!(#number => #read));
        match start {
            Some(start) => {
                places.push(quote!(#field_ident: #ty));
                starts.push(quote!(#field_ident: #start));
                ends.push(quote!(#field_ident: parts.#field_ident));
            }
            None => {
                places.push(quote!(#field_ident: ::core::option::Option<#ty>));
                starts.push(quote!(#field_ident: ::core::option::Option::None));
                ends.push(quote!(#field_ident: ::taut_json::derive::required(parts.#field_ident, #name)?));
            }
        }
        names.push(name);
    }
    Ok(quote! {
        const _: () = {
            const NAMES: &[&str] = &[#(#names),*];

            struct Parts {
                #(#places,)*
            }

            struct Reading;

            impl<'de> ::serde::de::Visitor<'de> for Reading {
                type Value = #ident;

                fn expecting(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                    f.write_str(#expecting)
                }

                fn visit_map<M: ::serde::de::MapAccess<'de>>(self, mut map: M) -> ::core::result::Result<#ident, M::Error> {
                    let mut parts = Parts { #(#starts,)* };
                    let mut names = ::taut_json::derive::Names::new(NAMES);
                    while let ::core::option::Option::Some(number) = map.next_key_seed(&mut names)? {
                        match number {
                            #(#reads,)*
                            _ => ::taut_json::derive::unknown(&mut map)?,
                        }
                    }
                    ::core::result::Result::Ok(#ident { #(#ends,)* })
                }
            }

            impl<'de> ::serde::Deserialize<'de> for #ident {
                fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> ::core::result::Result<Self, D::Error> {
                    deserializer.deserialize_struct(#expecting, NAMES, Reading)
                }
            }
        };
    })
}

fn is_option(ty: &Type) -> bool {
    let Type::Path(path) = ty else { return false };
    path.path.segments.last().is_some_and(|segment| segment.ident == "Option")
}
