//! Writes values.

use std::fmt::{Display, Write as _};

use serde::ser::{self, Serialize, Serializer};

use crate::error::Error;
use crate::shortest::Decimal;
use crate::text;

/// JSON that is being written.
#[derive(Default)]
pub(crate) struct Writer {
    pub(crate) text: String,
    /// The value is the name of a field: text, or a number or a variant that becomes one.
    is_key: bool,
}

impl Writer {
    /// Writes a number or a word, between quotation marks as a key.
    fn plain(&mut self, value: &dyn Display) -> Result<(), Error> {
        let mark = if self.is_key { "\"" } else { "" };
        // Writing into a String cannot fail.
        let _ = write!(self.text, "{mark}{value}{mark}");
        Ok(())
    }

    /// Refuses what cannot be a key.
    fn value(&mut self) -> Result<&mut String, Error> {
        if self.is_key { Err(Error::new("a key has to be text or a number")) } else { Ok(&mut self.text) }
    }

    fn word(&mut self, word: &str) -> Result<(), Error> {
        self.value()?.push_str(word);
        Ok(())
    }

    /// Begins an array or an object; `end` is what ends it.
    fn open<'a>(&'a mut self, start: &str, end: &'static str) -> Result<Open<'a>, Error> {
        self.value()?.push_str(start);
        Ok(Open { writer: self, is_first: true, end })
    }

    /// Begins the value of a variant: an object with one field, and in it an array or an object.
    fn open_variant(&mut self, name: &str, start: &str, end: &'static str) -> Result<Open<'_>, Error> {
        self.value()?.push('{');
        text::write(&mut self.text, name);
        self.text.push(':');
        self.open(start, end)
    }

    fn number(&mut self, number: f64) -> Result<(), Error> {
        if !number.is_finite() {
            return self.word("null");
        }
        let text = Decimal(number).to_string();
        // A reader sees no integer.
        let point = if text.bytes().any(|byte| matches!(byte, b'.' | b'e')) { "" } else { ".0" };
        self.word(&text)?;
        self.word(point)
    }
}

/// An array or an object that is not ended.
pub(crate) struct Open<'a> {
    writer: &'a mut Writer,
    is_first: bool,
    end: &'static str,
}

impl Open<'_> {
    /// Goes to the next element.
    fn next(&mut self) {
        if !std::mem::take(&mut self.is_first) {
            self.writer.text.push(',');
        }
    }

    fn name(&mut self, name: &str) {
        self.next();
        text::write(&mut self.writer.text, name);
        self.writer.text.push(':');
    }

    fn close(self) {
        self.writer.text.push_str(self.end);
    }
}

macro_rules! integers {
    ($($name:ident: $type:ty),*) => {
        $(fn $name(self, number: $type) -> Result<(), Error> {
            self.plain(&number)
        })*
    };
}

impl<'a> Serializer for &'a mut Writer {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Open<'a>;
    type SerializeTuple = Open<'a>;
    type SerializeTupleStruct = Open<'a>;
    type SerializeTupleVariant = Open<'a>;
    type SerializeMap = Open<'a>;
    type SerializeStruct = Open<'a>;
    type SerializeStructVariant = Open<'a>;

    integers! {
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64, serialize_u8: u8,
        serialize_u16: u16, serialize_u32: u32, serialize_u64: u64
    }

    fn serialize_bool(self, is_true: bool) -> Result<(), Error> {
        self.plain(&is_true)
    }

    fn serialize_f32(self, number: f32) -> Result<(), Error> {
        self.number(f64::from(number))
    }

    fn serialize_f64(self, number: f64) -> Result<(), Error> {
        self.number(number)
    }

    fn serialize_char(self, character: char) -> Result<(), Error> {
        self.serialize_str(character.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Result<(), Error> {
        text::write(&mut self.text, value);
        Ok(())
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<(), Error> {
        self.collect_seq(bytes)
    }

    fn serialize_none(self) -> Result<(), Error> {
        self.word("null")
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        self.word("null")
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Error> {
        self.word("null")
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, name: &'static str) -> Result<(), Error> {
        self.serialize_str(name)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        name: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        let open = self.open_variant(name, "", "}")?;
        value.serialize(&mut *open.writer)?;
        open.close();
        Ok(())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Open<'a>, Error> {
        self.open("[", "]")
    }

    fn serialize_tuple(self, _: usize) -> Result<Open<'a>, Error> {
        self.open("[", "]")
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Open<'a>, Error> {
        self.open("[", "]")
    }

    fn serialize_tuple_variant(self, _: &'static str, _: u32, name: &'static str, _: usize) -> Result<Open<'a>, Error> {
        self.open_variant(name, "[", "]}")
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Open<'a>, Error> {
        self.open("{", "}")
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Open<'a>, Error> {
        self.open("{", "}")
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        name: &'static str,
        _: usize,
    ) -> Result<Open<'a>, Error> {
        self.open_variant(name, "{", "}}")
    }

    fn collect_str<T: Display + ?Sized>(self, value: &T) -> Result<(), Error> {
        text::write(&mut self.text, &value.to_string());
        Ok(())
    }
}

macro_rules! elements {
    ($($trait:ident $method:ident),*) => {
        $(impl ser::$trait for Open<'_> {
            type Ok = ();
            type Error = Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                self.next();
                value.serialize(&mut *self.writer)
            }

            fn end(self) -> Result<(), Error> {
                self.close();
                Ok(())
            }
        })*
    };
}

elements! {
    SerializeSeq serialize_element, SerializeTuple serialize_element, SerializeTupleStruct serialize_field,
    SerializeTupleVariant serialize_field
}

macro_rules! fields {
    ($($trait:ident),*) => {
        $(impl ser::$trait for Open<'_> {
            type Ok = ();
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Error> {
                self.name(name);
                value.serialize(&mut *self.writer)
            }

            fn end(self) -> Result<(), Error> {
                self.close();
                Ok(())
            }
        })*
    };
}

fields! { SerializeStruct, SerializeStructVariant }

impl ser::SerializeMap for Open<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.next();
        self.writer.is_key = true;
        let written = key.serialize(&mut *self.writer);
        self.writer.is_key = false;
        self.writer.text.push(':');
        written
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        value.serialize(&mut *self.writer)
    }

    fn end(self) -> Result<(), Error> {
        self.close();
        Ok(())
    }
}
