//! serde's attributes of types, fields and variants.

use syn::{Attribute, ExprPath, LitStr, Result, Token};

/// The attributes of a type, field or variant that matter for reading.
#[derive(Default)]
pub(crate) struct Attributes {
    /// The name in JSON.
    pub(crate) rename: Option<String>,
    /// How the names of all fields or variants are written.
    pub(crate) rename_all: Option<String>,
    /// The field may be absent.
    pub(crate) default: Option<Default>,
    /// A module that reads the field.
    pub(crate) with: Option<ExprPath>,
    /// The variant for all unknown names.
    pub(crate) is_other: bool,
}

/// The value of an absent field.
pub(crate) enum Default {
    /// The default of its type.
    OfType,
    /// The value that this function returns.
    Of(ExprPath),
}

impl Attributes {
    pub(crate) fn read(attributes: &[Attribute]) -> Result<Self> {
        let mut read = Self::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("serde")) {
            attribute.parse_nested_meta(|meta| {
                let name = meta.path.require_ident()?.to_string();
                let has_value = meta.input.peek(Token![=]);
                match name.as_str() {
                    "rename" => read.rename = Some(meta.value()?.parse::<LitStr>()?.value()),
                    "rename_all" => read.rename_all = Some(meta.value()?.parse::<LitStr>()?.value()),
                    "default" if has_value => {
                        read.default = Some(Default::Of(meta.value()?.parse::<LitStr>()?.parse()?));
                    }
                    "default" => read.default = Some(Default::OfType),
                    "with" => read.with = Some(meta.value()?.parse::<LitStr>()?.parse()?),
                    "other" => read.is_other = true,
                    "skip_serializing_if" => drop(meta.value()?.parse::<LitStr>()?),
                    _ => return Err(meta.error("not supported here: derive serde::Deserialize instead")),
                }
                Ok(())
            })?;
        }
        Ok(read)
    }

    /// Returns the name in JSON of a field or variant, whose type has the attributes `all`.
    pub(crate) fn name(&self, ident: &str, all: &Self) -> String {
        let ident = ident.strip_prefix("r#").unwrap_or(ident);
        match (&self.rename, all.rename_all.as_deref()) {
            (Some(name), _) => name.clone(),
            (None, Some("kebab-case")) => kebab(ident),
            (None, Some("lowercase")) => ident.to_lowercase(),
            (None, _) => String::from(ident),
        }
    }
}

/// Returns `TwoWords` and `two_words` as `two-words`.
fn kebab(ident: &str) -> String {
    let mut name = String::new();
    for (at, letter) in ident.chars().enumerate() {
        if letter.is_uppercase() && at > 0 {
            name.push('-');
        }
        name.extend(letter.to_lowercase());
    }
    name.replace('_', "-")
}
