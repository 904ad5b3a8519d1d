//! The names that serde gives to the variants of enums without fields. Text, tables and URLs use
//! the same words as JSON.

use serde::Serialize;
use serde::de::value::Error;
use serde::de::{DeserializeOwned, IntoDeserializer};

/// Returns the name of a variant.
pub fn name_variant<T: Serialize>(variant: &T) -> &'static str {
    // Fails only for types that are no enums.
    serde_variant::to_variant_name(variant).unwrap_or_default()
}

/// Returns the variant with this name.
pub fn parse_variant<T: DeserializeOwned>(name: &str) -> Option<T> {
    T::deserialize(IntoDeserializer::<Error>::into_deserializer(name)).ok()
}

#[cfg(test)]
mod tests {
    use super::{name_variant, parse_variant};
    use serde::{Deserialize, Serialize};

    #[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
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
