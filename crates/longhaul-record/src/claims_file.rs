//! Reads files of published claims: one claim or a list, as TOML or JSON.

use crate::published_claim::{ClaimsFile, PublishedClaim};
use crate::{RecordError, read_limited_text};
use longhaul_model::sanitize::is_unsafe_char;
use serde_json::Value;
use std::path::Path;

/// The maximum size of a file in bytes: the history of all records is a hundredth of it.
const MAX_CLAIMS_BYTES: u64 = 1 << 20;
/// The maximum number of claims in one file.
const MAX_CLAIMS: usize = 1000;

pub fn read_claims(file: &Path) -> Result<Vec<PublishedClaim>, RecordError> {
    let is_json = file.extension().is_some_and(|it| it.eq_ignore_ascii_case("json"));
    let text = read_limited_text(file, MAX_CLAIMS_BYTES);
    text.and_then(|text| parse_claims(&text, is_json)).map_err(|why| {
        let message = format!("cannot read the claims in {}", file.display());
        let hint = "see docs/claims.md for the fields of a claim";
        RecordError::input(message).cause(why).hint(hint)
    })
}

/// Parses the claims in a text, or returns the reason why it has none.
pub fn parse_claims(text: &str, is_json: bool) -> Result<Vec<PublishedClaim>, String> {
    let claims = if is_json {
        parse_json_claims(text).map_err(|error| error.to_string())?
    } else {
        parse_toml_claims(text).map_err(|error| error.to_string())?
    };
    if claims.len() > MAX_CLAIMS {
        return Err(format!("more than {MAX_CLAIMS} claims"));
    }
    // Texts are shown on terminals and pages.
    let value = serde_json::to_value(&claims).map_err(|error| error.to_string())?;
    if has_control_chars(&value) {
        return Err("a text contains control characters".to_owned());
    }
    Ok(claims)
}

fn parse_json_claims(text: &str) -> Result<Vec<PublishedClaim>, serde_json::Error> {
    let value: Value = serde_json::from_str(text)?;
    if value.get("claims").is_some() {
        return Ok(serde_json::from_str::<ClaimsFile>(text)?.claims);
    }
    Ok(vec![serde_json::from_str(text)?])
}

fn parse_toml_claims(text: &str) -> Result<Vec<PublishedClaim>, toml::de::Error> {
    let table: toml::Table = toml::from_str(text)?;
    if table.contains_key("claims") {
        return Ok(toml::from_str::<ClaimsFile>(text)?.claims);
    }
    Ok(vec![toml::from_str(text)?])
}

fn has_control_chars(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(is_unsafe_char),
        Value::Array(all) => all.iter().any(has_control_chars),
        Value::Object(all) => all.values().any(has_control_chars),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_claim_and_a_list_in_either_form() {
        let one = "name = \"x\"";
        let list = "[[claims]]\nname = \"x\"\n[[claims]]\nname = \"y\"";
        assert_eq!(parse_claims(one, false).map(|it| it.len()), Ok(1));
        assert_eq!(parse_claims(list, false).map(|it| it.len()), Ok(2));
        assert_eq!(parse_claims("{\"name\": \"x\"}", true), parse_claims(one, false));
        let list = "{\"claims\": [{\"name\": \"x\"}]}";
        assert_eq!(parse_claims(list, true), parse_claims(one, false));
    }

    #[test]
    fn texts_that_steer_and_too_many_claims_are_refused() {
        let why = parse_claims("name = \"\\u001b[2J\"", false).expect_err("steers");
        assert!(why.contains("control characters"), "{why}");
        let many = "[[claims]]\nname = \"x\"\n".repeat(MAX_CLAIMS + 1);
        let why = parse_claims(&many, false).expect_err("many");
        assert!(why.contains("more than 1000"), "{why}");
    }

    proptest! {
        #[test]
        fn any_text_is_claims_or_is_refused(
            text in "(name = |\\[\\[claims\\]\\]\n)?[\\PC\n\"\\[\\]=,{}]{0,200}", is_json: bool,
        ) {
            if let Ok(claims) = parse_claims(&text, is_json) {
                prop_assert!(claims.len() <= MAX_CLAIMS);
            }
            println!("attack: tried 1");
        }
    }
}
