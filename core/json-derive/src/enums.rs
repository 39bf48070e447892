//! Enums whose variants have no values: strings.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{DataEnum, DeriveInput, Error, Fields, Result};

use crate::attributes::Attributes;

pub(crate) fn read(input: &DeriveInput, data: &DataEnum) -> Result<TokenStream> {
    let all = Attributes::read(&input.attrs)?;
    let ident = &input.ident;
    let (mut names, mut variants, mut other) = (vec![], vec![], None);
    for variant in &data.variants {
        if !matches!(variant.fields, Fields::Unit) {
            return Err(Error::new_spanned(variant, "a variant with values: derive serde::Deserialize instead"));
        }
        let own = Attributes::read(&variant.attrs)?;
        if own.is_other {
            other = Some(&variant.ident);
        } else {
            names.push(own.name(&variant.ident.to_string(), &all));
            variants.push(&variant.ident);
        }
    }
    let function = if other.is_some() { quote!(known) } else { quote!(variant) };
    // Without a variant for unknown names, the last number is the only one that is left.
    let Some(last) = other.or_else(|| variants.pop()) else {
        return Err(Error::new_spanned(ident, "an enum without variants"));
    };
    let numbers = 0..variants.len();
    Ok(quote! {
        const _: () = {
            const NAMES: &[&str] = &[#(#names),*];

            impl<'de> ::serde::Deserialize<'de> for #ident {
                fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> ::core::result::Result<Self, D::Error> {
                    ::core::result::Result::Ok(match ::taut_json::derive::#function(deserializer, NAMES)? {
                        #(#numbers => #ident::#variants,)*
                        _ => #ident::#last,
                    })
                }
            }
        };
    })
}
