//! The variables of a template in the specification of a test, such as `{% address[1] %}`.

use super::address_pairs::{OwnTest, SeenAddress};
use serde_json::Value;

/// Replaces the variables of a specification for one test. A text that is one variable becomes the
/// value of the variable, which may be a boolean; others are part of their text.
///
/// # Errors
/// An unknown variable, or an index without a participant.
pub fn expand_variables(value: &Value, test: &OwnTest<'_>) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) => expand_text(text, test)?,
        Value::Array(items) => {
            items.iter().map(|item| expand_variables(item, test)).collect::<Result<_, _>>()?
        }
        Value::Object(members) => {
            let expand = |(name, value): (&String, &Value)| {
                Ok((name.clone(), expand_variables(value, test)?))
            };
            Value::Object(members.iter().map(expand).collect::<Result<_, String>>()?)
        }
        other => other.clone(),
    })
}

fn expand_text(text: &str, test: &OwnTest<'_>) -> Result<Value, String> {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some((before, variable)) = rest.split_once("{%") {
        let Some((variable, after)) = variable.split_once("%}") else { break };
        let value = find_value(variable.trim(), test)?;
        if before.is_empty() && after.is_empty() && expanded.is_empty() {
            return Ok(value);
        }
        expanded.push_str(before);
        match value {
            Value::String(text) => expanded.push_str(&text),
            other => expanded.push_str(&other.to_string()),
        }
        rest = after;
    }
    expanded.push_str(rest);
    Ok(expanded.into())
}

fn find_value(variable: &str, test: &OwnTest<'_>) -> Result<Value, String> {
    let own = test.participants.get(test.own_index).map(SeenAddress::address);
    match variable {
        "flip" => return Ok(test.flip.into()),
        "scheduled_by_address" => return Ok(own.into()),
        "localhost" => return Ok(if test.flip { own.into() } else { "localhost".into() }),
        _ => {}
    }
    let parts = variable.strip_suffix(']').and_then(|it| it.split_once('['));
    let unknown = || format!("the variable {variable} is not replaced");
    let (name, index) = parts.ok_or_else(unknown)?;
    let participant = index.parse::<usize>().ok().and_then(|index| test.participants.get(index));
    let participant = participant.ok_or_else(|| format!("{variable} has no address"))?;
    match name {
        "address" => Ok(participant.address().into()),
        "pscheduler_address" => Ok(participant.pscheduler_address().into()),
        "lead_bind_address" => Ok(participant.lead_bind_address().into()),
        _ => Err(unknown()),
    }
}
