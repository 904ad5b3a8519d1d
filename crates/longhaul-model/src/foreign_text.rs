//! Deserialization of data from outside: each text is sanitized and cut where it enters.
//!
//! [`ForeignDeserializer`] wraps the deserializer of a format. Every string that passes through it,
//! map keys and names of variants included, loses its unsafe characters and all characters after
//! [`MAX_FOREIGN_CHARS`]. A text that must keep its bytes, such as a file name, has the type
//! [`ExactText`].

use crate::sanitize::{is_unsafe_char, sanitize, truncate_chars};
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess, Visitor,
};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;

/// The maximum number of characters of a text from outside.
pub const MAX_FOREIGN_CHARS: usize = 4096;

/// A text whose bytes have a meaning, such as a file name. It is sanitized when it is displayed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize)]
#[serde(transparent)]
pub struct ExactText(String);

impl ExactText {
    /// Returns the text as it was received. Do not show it.
    pub fn as_received(&self) -> &str {
        &self.0
    }
}

impl From<String> for ExactText {
    fn from(text: String) -> Self {
        ExactText(text)
    }
}

impl From<&str> for ExactText {
    fn from(text: &str) -> Self {
        ExactText(text.to_owned())
    }
}

impl fmt::Display for ExactText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&sanitize_foreign(&self.0))
    }
}

impl fmt::Debug for ExactText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl<'de> Deserialize<'de> for ExactText {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        // As bytes, because `ForeignDeserializer` changes strings only.
        source.deserialize_byte_buf(ExactTextVisitor)
    }
}

struct ExactTextVisitor;

impl Visitor<'_> for ExactTextVisitor {
    type Value = ExactText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<ExactText, E> {
        let text = std::str::from_utf8(bytes).map_err(|_| E::custom("a text that is no UTF-8"))?;
        Ok(text.into())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<ExactText, E> {
        Ok(text.into())
    }
}

/// Returns the text without unsafe characters, cut after [`MAX_FOREIGN_CHARS`]. Tabs stay: they
/// separate the values of kernel settings.
pub fn sanitize_foreign(text: &str) -> Cow<'_, str> {
    // Most texts are short and printable ASCII.
    if text.len() <= MAX_FOREIGN_CHARS && text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return text.into();
    }
    let text = truncate_chars(text, MAX_FOREIGN_CHARS);
    if text.contains('\t') {
        return text.split('\t').map(sanitize).collect::<Vec<_>>().join("\t").into();
    }
    sanitize(text)
}

/// A deserializer that sanitizes and cuts every string of the one that it wraps.
///
/// The serde traits of the inner values are wrapped in the same type.
#[derive(Debug)]
pub struct ForeignDeserializer<T>(pub T);

macro_rules! forward_deserialize {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method(ForeignDeserializer(visitor))
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for ForeignDeserializer<D> {
    type Error = D::Error;

    forward_deserialize! {
        deserialize_any deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32
        deserialize_i64 deserialize_i128 deserialize_u8 deserialize_u16 deserialize_u32
        deserialize_u64 deserialize_u128 deserialize_f32 deserialize_f64 deserialize_char
        deserialize_str deserialize_string deserialize_option deserialize_unit deserialize_seq
        deserialize_map deserialize_identifier deserialize_ignored_any
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_bytes(visitor)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_byte_buf(visitor)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_unit_struct(name, ForeignDeserializer(visitor))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_newtype_struct(name, ForeignDeserializer(visitor))
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_tuple(length, ForeignDeserializer(visitor))
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_tuple_struct(name, length, ForeignDeserializer(visitor))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_struct(name, fields, ForeignDeserializer(visitor))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_enum(name, variants, ForeignDeserializer(visitor))
    }

    fn is_human_readable(&self) -> bool {
        self.0.is_human_readable()
    }
}

macro_rules! forward_visit {
    ($($method:ident($value:ty))*) => {$(
        fn $method<E: Error>(self, value: $value) -> Result<V::Value, E> {
            self.0.$method(value)
        }
    )*};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for ForeignDeserializer<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    forward_visit! {
        visit_bool(bool) visit_i8(i8) visit_i16(i16) visit_i32(i32) visit_i64(i64) visit_i128(i128)
        visit_u8(u8) visit_u16(u16) visit_u32(u32) visit_u64(u64) visit_u128(u128) visit_f32(f32)
        visit_f64(f64) visit_bytes(&[u8]) visit_byte_buf(Vec<u8>)
    }

    fn visit_char<E: Error>(self, value: char) -> Result<V::Value, E> {
        self.0.visit_char(if is_unsafe_char(value) { crate::sanitize::REPLACEMENT } else { value })
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<V::Value, E> {
        self.0.visit_str(&sanitize_foreign(text))
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<V::Value, E> {
        match sanitize_foreign(text) {
            Cow::Borrowed(clean) => self.0.visit_borrowed_str(clean),
            Cow::Owned(clean) => self.0.visit_string(clean),
        }
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, source: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(ForeignDeserializer(source))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, source: D) -> Result<V::Value, D::Error> {
        self.0.visit_newtype_struct(ForeignDeserializer(source))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<V::Value, A::Error> {
        self.0.visit_seq(ForeignDeserializer(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(ForeignDeserializer(entries))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, variant: A) -> Result<V::Value, A::Error> {
        self.0.visit_enum(ForeignDeserializer(variant))
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for ForeignDeserializer<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(ForeignDeserializer(source))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for ForeignDeserializer<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.0.next_element_seed(ForeignDeserializer(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for ForeignDeserializer<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.0.next_key_seed(ForeignDeserializer(seed))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.0.next_value_seed(ForeignDeserializer(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: EnumAccess<'de>> EnumAccess<'de> for ForeignDeserializer<A> {
    type Error = A::Error;
    type Variant = ForeignDeserializer<A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, Self::Variant), A::Error> {
        let (value, variant) = self.0.variant_seed(ForeignDeserializer(seed))?;
        Ok((value, ForeignDeserializer(variant)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for ForeignDeserializer<A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.0.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        self.0.newtype_variant_seed(ForeignDeserializer(seed))
    }

    fn tuple_variant<V: Visitor<'de>>(
        self,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.0.tuple_variant(length, ForeignDeserializer(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.0.struct_variant(fields, ForeignDeserializer(visitor))
    }
}
