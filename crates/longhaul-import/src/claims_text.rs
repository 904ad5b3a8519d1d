//! Parses transfer claims: one claim or a list, as TOML or JSON.

use longhaul_model::report::v1::claim::{ClaimsFile, PublishedClaim};
use serde_json::Value;

/// The maximum size of a claims text in bytes: the history of all records is a hundredth of it.
pub const MAX_CLAIMS_BYTES: u64 = 1 << 20;
/// The maximum number of claims in one text.
const MAX_CLAIMS: usize = 1000;

/// Parses the claims in a text, or returns the reason why it has none.
pub fn parse_claims(text: &str, is_json: bool) -> Result<Vec<PublishedClaim>, String> {
    let claims = if is_json {
        parse_json_claims(text)?
    } else {
        parse_toml_claims(text)?
    };
    if claims.len() > MAX_CLAIMS {
        return Err(format!("more than {MAX_CLAIMS} claims"));
    }
    match claims.iter().find(|claim| has_control_chars(claim)) {
        Some(_) => Err("a text contains control characters".to_owned()),
        None => Ok(claims),
    }
}

fn parse_json_claims(text: &str) -> Result<Vec<PublishedClaim>, String> {
    let read = || {
        let value: Value = serde_json::from_str(text)?;
        if value.get("claims").is_some() {
            let listed: ClaimsFile = serde_json::from_str(text)?;
            return Ok(listed.claims);
        }
        Ok(vec![serde_json::from_str(text)?])
    };
    read().map_err(|error: serde_json::Error| error.to_string())
}

fn parse_toml_claims(text: &str) -> Result<Vec<PublishedClaim>, String> {
    let read = || {
        let table: toml::Table = toml::from_str(text)?;
        if table.contains_key("claims") {
            let listed: ClaimsFile = toml::from_str(text)?;
            return Ok(listed.claims);
        }
        Ok(vec![toml::from_str(text)?])
    };
    read().map_err(|error: toml::de::Error| error.to_string())
}

/// Reports whether a text of the claim has control characters: texts are shown on terminals and
/// pages.
fn has_control_chars(claim: &PublishedClaim) -> bool {
    fn bad(value: &Value) -> bool {
        match value {
            Value::String(text) => text.contains(char::is_control),
            Value::Array(all) => all.iter().any(bad),
            Value::Object(all) => all.values().any(bad),
            _ => false,
        }
    }
    serde_json::to_value(claim).is_ok_and(|value| bad(&value))
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
        assert_eq!(
            parse_claims("{\"name\": \"x\"}", true),
            parse_claims(one, false)
        );
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
        }
    }
}
