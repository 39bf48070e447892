//! Reads values. The code of each type is in the calls that name a visitor; what they call is the same for all types.

use std::borrow::Cow;

use serde::de::{self, DeserializeSeed, Deserializer, Expected, Unexpected, Visitor};

use crate::error::Error;
use crate::key::Key;
use crate::number::Number;
use crate::text;

/// Objects and arrays in each other: as many as `serde_json` reads, and a bound for the stack.
pub const MAX_DEPTH: u32 = 127;

/// A position in JSON.
pub(crate) struct Reader<'de> {
    text: &'de str,
    at: usize,
    depth: u32,
}

impl<'de> Reader<'de> {
    pub(crate) fn new(bytes: &'de [u8]) -> Result<Self, Error> {
        let text = std::str::from_utf8(bytes).map_err(|error| Error::new("not UTF-8").at(error.valid_up_to()))?;
        Ok(Self { text, at: 0, depth: 0 })
    }

    /// Returns an error with the position.
    pub(crate) fn at(&self, error: Error) -> Error {
        error.at(self.at)
    }

    /// Checks that nothing follows.
    pub(crate) fn end(&mut self) -> Result<(), Error> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.at(Error::new("something follows the value"))),
        }
    }

    /// Returns the next byte that is no white space, and stays before it.
    fn peek(&mut self) -> Option<u8> {
        let rest = &self.text.as_bytes()[self.at..];
        let space = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\n' | b'\r' | b'\t')).count();
        self.at += space;
        rest.get(space).copied()
    }

    /// Takes a character that has to be next.
    fn take(&mut self, wanted: u8) -> Result<(), Error> {
        match self.peek() == Some(wanted) {
            true => self.at += 1,
            false => return Err(Error::new(&format!("expected `{}`", char::from(wanted)))),
        }
        Ok(())
    }

    /// Takes a word that has to be next.
    fn word(&mut self, word: &str) -> Result<(), Error> {
        match self.text[self.at..].starts_with(word) {
            true => self.at += word.len(),
            false => return Err(Error::new("expected a value")),
        }
        Ok(())
    }

    /// Begins an object or an array, which what is read has to be.
    fn open(&mut self, bracket: u8, expected: &dyn Expected) -> Result<(), Error> {
        if self.peek() != Some(bracket) {
            return Err(self.unexpected(expected));
        }
        self.at += 1;
        self.depth += 1;
        match self.depth > MAX_DEPTH {
            true => Err(Error::new("too many objects and arrays in each other")),
            false => Ok(()),
        }
    }

    /// Ends an object or an array.
    fn close(&mut self, bracket: u8) -> Result<(), Error> {
        self.depth -= 1;
        self.take(bracket)
    }

    /// Goes to the next element, or returns false before the closing bracket.
    fn next(&mut self, bracket: u8, is_first: &mut bool) -> Result<bool, Error> {
        if self.peek() == Some(bracket) {
            return Ok(false);
        }
        if !std::mem::take(is_first) {
            self.take(b',')?;
        }
        Ok(true)
    }

    /// Reads a string, which what is read has to be.
    pub(crate) fn string(&mut self, expected: &dyn Expected) -> Result<Cow<'de, str>, Error> {
        if self.peek() != Some(b'"') {
            return Err(self.unexpected(expected));
        }
        let (string, length) = text::read(&self.text[self.at + 1..]).ok_or_else(|| Error::new("a malformed string"))?;
        self.at += 1 + length;
        Ok(string)
    }

    /// Reads the name of a field, and the colon after it.
    pub(crate) fn name(&mut self) -> Result<Cow<'de, str>, Error> {
        let name = self.string(&"the name of a field in quotation marks")?;
        self.take(b':').map(|()| name)
    }

    fn number(&mut self, expected: &dyn Expected) -> Result<Number, Error> {
        match self.peek() {
            Some(b'-' | b'0'..=b'9') => {
                let malformed = || Error::new("a malformed number");
                let (number, length) = Number::read(&self.text[self.at..]).ok_or_else(malformed)?;
                self.at += length;
                Ok(number)
            }
            _ => Err(self.unexpected(expected)),
        }
    }

    fn boolean(&mut self, expected: &dyn Expected) -> Result<bool, Error> {
        match self.peek() {
            Some(b't') => self.word("true").map(|()| true),
            Some(b'f') => self.word("false").map(|()| false),
            _ => Err(self.unexpected(expected)),
        }
    }

    /// Takes `null` if it is next.
    fn null(&mut self) -> Result<bool, Error> {
        match self.peek() {
            Some(b'n') => self.word("null").map(|()| true),
            _ => Ok(false),
        }
    }

    /// Passes over a value.
    fn skip(&mut self) -> Result<(), Error> {
        let mut is_first = true;
        match self.peek() {
            Some(b'{') => {
                self.open(b'{', &"")?;
                while self.next(b'}', &mut is_first)? {
                    self.name()?;
                    self.skip()?;
                }
                self.close(b'}')
            }
            Some(b'[') => {
                self.open(b'[', &"")?;
                while self.next(b']', &mut is_first)? {
                    self.skip()?;
                }
                self.close(b']')
            }
            Some(b'"') => self.string(&"").map(drop),
            Some(b't' | b'f') => self.boolean(&"").map(drop),
            Some(b'n') => self.word("null"),
            _ => self.number(&"a value").map(drop),
        }
    }

    /// Returns the error for a value that is not what a type expects.
    fn unexpected(&mut self, expected: &dyn Expected) -> Error {
        let found = match self.peek() {
            Some(b'{') => Unexpected::Map,
            Some(b'[') => Unexpected::Seq,
            Some(b'"') => Unexpected::Other("string"),
            Some(b't' | b'f') => Unexpected::Other("boolean"),
            Some(b'n') => Unexpected::Other("null"),
            Some(b'-' | b'0'..=b'9') => Unexpected::Other("number"),
            Some(_) => return Error::new("expected a value"),
            None => return Error::new("it ends too early"),
        };
        de::Error::invalid_type(found, expected)
    }
}

macro_rules! numbers {
    ($($name:ident)*) => {
        $(fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            self.number(&visitor)?.visit(visitor)
        })*
    };
}

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.peek() {
            Some(b'{') => self.deserialize_map(visitor),
            Some(b'[') => self.deserialize_seq(visitor),
            Some(b'"') => self.deserialize_string(visitor),
            Some(b't' | b'f') => self.deserialize_bool(visitor),
            Some(b'n') => self.deserialize_unit(visitor),
            _ => self.deserialize_u64(visitor),
        }
    }

    numbers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_u8 deserialize_u16 deserialize_u32
        deserialize_u64 deserialize_f32 deserialize_f64
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let is_true = self.boolean(&visitor)?;
        visitor.visit_bool(is_true)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_string(visitor)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.string(&visitor)? {
            Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
            Cow::Owned(text) => visitor.visit_string(text),
        }
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let name = self.string(&visitor)?;
        visitor.visit_str(&name)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.null()? { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.null()? { visitor.visit_unit() } else { Err(self.unexpected(&visitor)) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.open(b'[', &visitor)?;
        let value = visitor.visit_seq(Elements { reader: self, is_first: true })?;
        self.close(b']').map(|()| value)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.open(b'{', &visitor)?;
        let value = visitor.visit_map(Elements { reader: self, is_first: true })?;
        self.close(b'}').map(|()| value)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if self.peek() == Some(b'"') {
            return visitor.visit_enum(de::value::StringDeserializer::new(self.string(&"")?.into_owned()));
        }
        self.open(b'{', &visitor)?;
        let value = visitor.visit_enum(Variant(self))?;
        self.close(b'}').map(|()| value)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.skip()?;
        visitor.visit_unit()
    }

    // Without `deserialize_unit_struct`, `char` and bytes: no message has them. They are read as what they look like.
    serde::forward_to_deserialize_any! { i128 u128 char bytes byte_buf unit_struct }
}

/// The elements of an array, or the fields of an object.
struct Elements<'a, 'de> {
    reader: &'a mut Reader<'de>,
    is_first: bool,
}

impl<'de> de::SeqAccess<'de> for Elements<'_, 'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        match self.reader.next(b']', &mut self.is_first)? {
            true => seed.deserialize(&mut *self.reader).map(Some),
            false => Ok(None),
        }
    }
}

impl<'de> de::MapAccess<'de> for Elements<'_, 'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        match self.reader.next(b'}', &mut self.is_first)? {
            true => seed.deserialize(Key(self.reader.name()?)).map(Some),
            false => Ok(None),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(&mut *self.reader)
    }
}

/// A variant of an enum that has a value: an object with one field.
struct Variant<'a, 'de>(&'a mut Reader<'de>);

impl<'de> de::EnumAccess<'de> for Variant<'_, 'de> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Error> {
        let name = self.0.name()?;
        seed.deserialize(Key(name)).map(|value| (value, self))
    }
}

impl<'de> de::VariantAccess<'de> for Variant<'_, 'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        match self.0.null()? {
            true => Ok(()),
            false => Err(self.0.unexpected(&"null")),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(self.0)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.0.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], visitor: V) -> Result<V::Value, Error> {
        self.0.deserialize_map(visitor)
    }
}
