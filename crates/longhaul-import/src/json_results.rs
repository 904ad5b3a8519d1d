//! JSON output of other programs: one object or several concatenated ones.

use crate::{
    ImportFormat, ImportedResult, MAX_RESULTS, flent, iperf3_json_output, ndt7, pscheduler,
    sanitize_text,
};
use longhaul_model::report::v1::imported::PrintedFigure;
use serde_json::Value;

/// Parses the results of the wanted formats, in the order of the text.
pub(crate) fn parse_json_results(
    text: &str,
    wanted: &[ImportFormat],
) -> Result<Vec<ImportedResult>, String> {
    let wants = |format| wanted.contains(&format);
    let mut found = Vec::new();
    let mut events = iperf3_json_output::Iperf3EventStream::default();
    let mut subtests = ndt7::Ndt7EventStream::default();
    let mut unread = None;
    // serde_json limits the depth, and no value is larger than the file.
    for value in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
        let value = value.map_err(|error| format!("not valid JSON: {error}"))?;
        if found.len() > MAX_RESULTS {
            break;
        }
        if wants(ImportFormat::Iperf3Json) && iperf3_json_output::is_iperf3_value(&value) {
            found.extend(events.push(value));
        } else if wants(ImportFormat::Ndt7) && ndt7::is_ndt7_value(&value) {
            found.extend(subtests.push(&value));
        } else if wants(ImportFormat::Flent) && flent::is_flent_value(&value) {
            match flent::parse_flent_results(&value) {
                Ok(results) => found.extend(results),
                Err(why) => unread = Some(why),
            }
        } else if wants(ImportFormat::Pscheduler) {
            match pscheduler::parse_pscheduler_result(&value) {
                Ok(result) => found.extend(result),
                Err(why) => unread = Some(why),
            }
        }
    }
    found.extend(events.finish());
    found.extend(subtests.finish());
    if found.is_empty() {
        return Err(unread.unwrap_or_else(|| describe_unknown_json(wanted)));
    }
    Ok(found)
}

fn describe_unknown_json(wanted: &[ImportFormat]) -> String {
    let marks = wanted.iter().filter_map(|format| match format {
        ImportFormat::Iperf3Json => Some("not from iperf3: no `start` with `version` iperf"),
        ImportFormat::Pscheduler => Some("not from pScheduler: no `succeeded`"),
        ImportFormat::Ndt7 => Some("not from ndt7: no `StartTime` with `Download` or `Upload`"),
        ImportFormat::Flent => Some("not from flent: no `metadata` with `NAME`"),
        _ => None,
    });
    let marks: Vec<&str> = marks.collect();
    format!("JSON, but {}", marks.join(", and "))
}

/// Stores a value as printed.
pub(crate) fn store_printed_value(one: &mut ImportedResult, name: &str, value: &Value) {
    let text = match value {
        Value::String(text) => sanitize_text(text),
        Value::Number(number) => number.to_string(),
        Value::Bool(yes) => yes.to_string(),
        _ => return,
    };
    one.observation.printed.push(PrintedFigure { name: name.to_owned(), text });
}

/// Reads a JSON number and multiplies it by `scale`; negative numbers mean "not known".
pub(crate) fn read_scaled_number(value: &Value, scale: f64) -> Option<u64> {
    let scaled = (value.as_f64()? * scale).round();
    (0.0..9e15).contains(&scaled).then_some(scaled as u64)
}

/// Reads a count exactly.
pub(crate) fn read_count(value: &Value) -> Option<u64> {
    let whole = value.as_u64().filter(|it| *it < 1 << 62);
    whole.or_else(|| read_scaled_number(value, 1.0))
}
