//! Samples of messages, made from their types: all fields and variants that a type declares.

use serde::Serialize;
use serde::de::value::Error;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess,
    SeqAccess, VariantAccess, Visitor,
};
use serde_json::Value;
use std::collections::BTreeSet;

/// Every text: hexadecimal for a nonce, base64 for bytes.
const TEXT: &str = "00112233445566778899aabbccddeeff";
/// Every number, which is also the version of the protocol.
const NUMBER: u8 = 4;
/// Types within types; no message has more, but an observation may hold another one.
const MAX_DEPTH: usize = 12;
/// The combinations of variants that are tried: more than the kinds of any message have.
const ROUNDS: usize = 4000;

/// Returns samples that together have every field and every variant of the type.
pub fn make_samples<T: DeserializeOwned + Serialize>() -> Vec<Value> {
    let (mut declared, mut used) = (BTreeSet::new(), BTreeSet::new());
    let mut samples: Vec<Value> = Vec::new();
    for choices in 0..ROUNDS {
        let mut source =
            SampleSource { choices, depth: 0, declared: &mut declared, used: &mut used };
        let sample = T::deserialize(&mut source).expect("a value of every type");
        let sample = serde_json::to_value(sample).expect("JSON");
        if !samples.contains(&sample) {
            samples.push(sample);
        }
    }
    assert_eq!(declared, used, "variants without a sample");
    samples
}

/// A deserializer that invents the data: the first variants are chosen by the lowest digits.
struct SampleSource<'a> {
    choices: usize,
    depth: usize,
    declared: &'a mut BTreeSet<(&'static str, &'static str)>,
    used: &'a mut BTreeSet<(&'static str, &'static str)>,
}

/// The items of a list, or the members of an object, that are still to be invented.
struct SampleItems<'s, 'a> {
    source: &'s mut SampleSource<'a>,
    names: &'static [&'static str],
    left: usize,
}

impl<'s, 'a> SampleItems<'s, 'a> {
    fn list(source: &'s mut SampleSource<'a>, left: usize) -> Self {
        SampleItems { source, names: &[], left }
    }

    fn object(source: &'s mut SampleSource<'a>, names: &'static [&'static str]) -> Self {
        SampleItems { source, names, left: names.len() }
    }

    fn invent<'de, S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        self.source.depth += 1;
        let value = seed.deserialize(&mut *self.source);
        self.source.depth -= 1;
        value
    }
}

macro_rules! invent {
    ($($method:ident $visit:ident($($value:expr)?))*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            visitor.$visit($($value)?)
        }
    )*};
}

impl<'de> Deserializer<'de> for &mut SampleSource<'_> {
    type Error = Error;

    invent! {
        deserialize_any visit_u8(NUMBER)
        deserialize_bool visit_bool(true)
        deserialize_i8 visit_u8(NUMBER) deserialize_i16 visit_u8(NUMBER)
        deserialize_i32 visit_u8(NUMBER) deserialize_i64 visit_u8(NUMBER)
        deserialize_u8 visit_u8(NUMBER) deserialize_u16 visit_u8(NUMBER)
        deserialize_u32 visit_u8(NUMBER) deserialize_u64 visit_u8(NUMBER)
        deserialize_f32 visit_f64(0.5) deserialize_f64 visit_f64(0.5)
        deserialize_char visit_char('x')
        deserialize_str visit_str(TEXT) deserialize_string visit_str(TEXT)
        deserialize_identifier visit_str(TEXT)
        deserialize_bytes visit_bytes(TEXT.as_bytes())
        deserialize_byte_buf visit_bytes(TEXT.as_bytes())
        deserialize_unit visit_unit() deserialize_ignored_any visit_unit()
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.depth > MAX_DEPTH { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_seq(SampleItems::list(self, 2))
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_seq(SampleItems::list(self, length))
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_seq(SampleItems::list(self, length))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(SampleItems::object(self, &[TEXT]))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_map(SampleItems::object(self, fields))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.declared.extend(variants.iter().map(|variant| (name, *variant)));
        let chosen = self.choices % variants.len();
        self.choices /= variants.len();
        self.used.insert((name, variants[chosen]));
        visitor.visit_enum(SampleItems::object(self, &variants[chosen..=chosen]))
    }
}

impl<'de> SeqAccess<'de> for SampleItems<'_, '_> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Error> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        self.invent(seed).map(Some)
    }
}

impl<'de> MapAccess<'de> for SampleItems<'_, '_> {
    type Error = Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Error> {
        let Some((name, rest)) = self.names.split_first() else {
            return Ok(None);
        };
        self.names = rest;
        let name: serde::de::value::StrDeserializer<'_, Error> = name.into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        self.invent(seed)
    }
}

impl<'de> EnumAccess<'de> for SampleItems<'_, '_> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), Error> {
        let name: serde::de::value::StrDeserializer<'_, Error> = self.names[0].into_deserializer();
        Ok((seed.deserialize(name)?, self))
    }
}

impl<'de> VariantAccess<'de> for SampleItems<'_, '_> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(mut self, seed: S) -> Result<S::Value, Error> {
        self.invent(seed)
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_seq(SampleItems::list(self.source, length))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_map(SampleItems::object(self.source, fields))
    }
}
