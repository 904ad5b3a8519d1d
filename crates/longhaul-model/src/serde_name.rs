//! The names that serde gives to the variants of enums without fields. Text, tables and URLs use
//! the same words as JSON.

use serde::de::value::Error;
use serde::de::{DeserializeOwned, Deserializer, Error as _, IntoDeserializer, Visitor};

/// Returns the name of a variant of an enum without aliases: serde lists aliases as names.
pub fn name_variant<T: DeserializeOwned + PartialEq>(variant: &T) -> &'static str {
    let mut names = list_names::<T>().iter().copied();
    names.find(|name| parse_variant(name).as_ref() == Some(variant)).unwrap_or_default()
}

/// Returns the variant with this name.
pub fn parse_variant<T: DeserializeOwned>(name: &str) -> Option<T> {
    T::deserialize(IntoDeserializer::<Error>::into_deserializer(name)).ok()
}

/// Returns the names of all variants.
fn list_names<T: DeserializeOwned>() -> &'static [&'static str] {
    let mut names: &'static [&'static str] = &[];
    // Fails always: the list is asked for before a value.
    let _ = T::deserialize(VariantNames(&mut names));
    names
}

/// A deserializer that has no value and only stores the names that an enum accepts.
struct VariantNames<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for VariantNames<'_> {
    type Error = Error;

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        *self.0 = variants;
        self.deserialize_any(visitor)
    }

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Error> {
        Err(Error::custom("no value"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::{name_variant, parse_variant};
    use serde::Deserialize;

    #[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum LinkColour {
        DarkBlue,
        #[serde(rename = "gray")]
        Grey,
    }

    #[test]
    fn variants_have_their_serde_names() {
        assert_eq!(name_variant(&LinkColour::DarkBlue), "dark_blue");
        assert_eq!(name_variant(&LinkColour::Grey), "gray");
        assert_eq!(parse_variant("gray"), Some(LinkColour::Grey));
        assert_eq!(parse_variant::<LinkColour>("DarkBlue"), None);
    }
}
