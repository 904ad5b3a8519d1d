//! Text from outside: whatever a peer or a stored report contains, no terminal is steered and no
//! text is longer than the limit.

use crate::json_pointers::{find_pointers, name_field};
use crate::report_rendering::render_report;
use crate::support::{Folder, fixture, longhaul};
use longhaul_iperf3::iperf3_messages::{TestParameters, TestResults, decode_body};
use longhaul_model::foreign_text::MAX_FOREIGN_CHARS;
use longhaul_model::report::v1::AnyReport;
use longhaul_model::sanitize::is_unsafe_char;
use longhaul_probe::wire::{ControlMessage, parse_json_body};
use longhaul_store::archived_report;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// ESC, BEL, C1, a bidirectional override, line breaks.
const UNSAFE: &str = "\u{1b}]0;x\u{7}\u{9b}2J\u{202e}txt\r\n";
/// The characters of the longest text.
const LONG_CHARS: usize = 1 << 20;

/// Fills every text that may be any text: the others, such as words of an enumeration, make `parse`
/// fail. Texts in the same field of several items are alike. Returns the pointers of the filled
/// texts.
fn fill_texts(value: &mut Value, parse: impl Fn(&Value) -> bool) -> Vec<String> {
    let long = format!("{UNSAFE}{}", "x".repeat(2 * MAX_FOREIGN_CHARS));
    let mut is_any_text = BTreeMap::new();
    let mut filled = find_pointers(value, Value::is_string);
    filled.retain(|pointer| {
        let fits = *is_any_text.entry(name_field(pointer)).or_insert_with(|| {
            let mut changed = value.clone();
            *changed.pointer_mut(pointer).expect("a text") = Value::from(UNSAFE);
            parse(&changed)
        });
        if fits {
            *value.pointer_mut(pointer).expect("a text") = Value::from(long.as_str());
        }
        fits
    });
    if let Some(first) = filled.first() {
        *value.pointer_mut(first).expect("a text") = Value::from(UNSAFE.repeat(LONG_CHARS / 16));
    }
    filled
}

fn assert_clean_texts(name: &str, value: &Value) {
    for pointer in find_pointers(value, Value::is_string) {
        let text = value.pointer(&pointer).and_then(Value::as_str).expect("a text");
        assert!(!text.contains(is_unsafe_char), "{name}{pointer}");
        assert!(text.chars().count() <= MAX_FOREIGN_CHARS, "{name}{pointer}");
    }
}

/// Fills the texts of a message, decodes it, and checks what it has become. Returns the number of
/// filled texts.
fn check_message<T: serde::Serialize>(
    name: &str,
    mut message: Value,
    decode: impl Fn(&[u8]) -> Option<T>,
) -> usize {
    let bytes = |value: &Value| serde_json::to_vec(value).expect("JSON");
    assert!(decode(&bytes(&message)).is_some(), "{name} is a message");
    let filled = fill_texts(&mut message, |value| decode(&bytes(value)).is_some());
    let decoded = decode(&bytes(&message)).unwrap_or_else(|| panic!("{name} with its texts"));
    assert_clean_texts(name, &serde_json::to_value(decoded).expect("JSON"));
    filled.len()
}

fn fixture_value(name: &str) -> Value {
    serde_json::from_str(&fixture(name)).expect("JSON")
}

/// Returns messages that hold texts, one of each kind; parts are those of stored reports.
fn messages_with_texts() -> Vec<Value> {
    let run = fixture_value("la-geneva-9-streams.json");
    let route = fixture_value("path-sanjose-lulea.json");
    let party = json!({"host": "far", "address": "192.0.2.1", "longhaul": "1.0.0"});
    let mut end = run["observation"]["ends"]["receiver"].clone();
    end["program"] = json!({"longhaul": "1.0.0", "command": "longhaul serve", "log": ["a", "b"]});
    let mut stream = run["observation"]["streams"][0]["sender"].clone();
    stream["error"] = json!("broken pipe");
    stream["congestion_control"] = json!("cubic");
    let caveats = json!([{"code": "c", "text": "t"}]);
    let trains = json!([{"index": 0, "micro_burst_packets": 1, "spoilt": "late",
        "times": {"first_ns": 0, "steps": [0]}}]);
    let status = json!({"over": true, "failed": "why", "lost": false, "moved_bytes": 1,
        "held_bytes": 1, "blake3": "sum",
        "end": fixture_value("copy-narrow.json")["observation"]["source"]});
    let mut messages = vec![
        json!({"hello": {"versions": {"least": 4, "most": 4}, "longhaul": "1.0.0"}}),
        json!({"proof": {"token_proof": "p"}}),
        json!({"welcome": {"token_proof": "p", "party": party, "boot_proof": "b"}}),
        json!({"propose": {"plan": run["plan"], "party": party, "boot_proof": "b"}}),
        json!({"probe": {"bounds": {"flows": 1, "most_bytes": 1, "most_time_us": 1},
            "party": party, "boot_proof": "b"}}),
        json!({"stream": {"forward": true, "index": 0, "end": stream}}),
        json!({"end": {"forward": true, "end": end, "caveats": caveats}}),
        json!({"answer": {"failed": "why"}}),
        json!({"answer": {"seen": {"clock": "kernel", "trains": []}}}),
        json!({"answer": {"sent": {"trains": trains}}}),
        json!({"answer": {"route": route["observation"]["route"]}}),
        json!({"ask": {"files": {"open": {"forward": true, "streams": 1,
            "congestion_control": "cubic"}}}}),
        json!({"answer": {"files": {"status": status}}}),
    ];
    let reasons = ["refused", "violation", "timeout", "failed"];
    messages.extend(reasons.map(|reason| json!({"bye": {reason: "why"}})));
    messages
}

#[test]
fn every_text_of_a_peers_message_is_clean_once_it_is_decoded() {
    let decode = |bytes: &[u8]| parse_json_body::<ControlMessage>(bytes).ok();
    for message in messages_with_texts() {
        let name = message.to_string().chars().take(40).collect::<String>();
        assert!(check_message(&name, message, decode) > 0, "{name} has texts");
    }
}

#[test]
fn every_text_of_iperf3s_messages_is_clean_once_it_is_decoded() {
    let results = json!({"cpu_util_total": 1.5, "cpu_util_user": 1.0, "cpu_util_system": 0.5,
        "sender_has_retransmits": 1, "congestion_used": "cubic", "server_output_text": "out",
        "streams": []});
    let parameters = json!({"tcp": true, "congestion": "cubic", "authtoken": "t",
        "client_version": "3.12"});
    let decode_results = |bytes: &[u8]| decode_body::<TestResults>(bytes).ok();
    let decode_parameters = |bytes: &[u8]| decode_body::<TestParameters>(bytes).ok();
    assert_eq!(check_message("results", results, decode_results), 2);
    assert_eq!(check_message("parameters", parameters, decode_parameters), 3);
}

#[test]
fn the_names_of_files_keep_their_bytes_and_are_clean_when_they_are_shown() {
    let entry = json!({"path": UNSAFE, "folder": false, "mode": 0, "modified_ns": 0});
    let message = json!({"answer": {"files": {"entries": [entry]}}});
    let decoded: ControlMessage = parse_json_body(message.to_string().as_bytes()).expect("entries");
    assert_eq!(
        serde_json::to_value(&decoded).expect("JSON")["answer"]["files"]["entries"][0]["path"],
        UNSAFE
    );
    let name = longhaul_model::foreign_text::ExactText::from(UNSAFE);
    assert_eq!(name.as_received(), UNSAFE);
    assert!(!name.to_string().contains(is_unsafe_char));
}

#[test]
fn an_error_does_not_quote_what_steers_a_terminal() {
    let error = |body: &str| {
        parse_json_body::<ControlMessage>(body.as_bytes()).expect_err("no message").to_string()
    };
    let unknown = error("{\"\\u001b]0;x\\u0007\\u009b2J\\u202e\":1}");
    assert!(!unknown.contains(is_unsafe_char), "{unknown:?}");
    let unknown = error("{\"bye\":{\"\\u001b[2J\\u202e\":1}}");
    assert!(!unknown.contains(is_unsafe_char), "{unknown:?}");
}

fn parse_report(value: &Value) -> Option<AnyReport> {
    archived_report::parse_report("id", &value.to_string()).ok()
}

/// Checks that a rendered text has no unsafe characters besides its line breaks (CSV has those of
/// RFC 4180) and styles.
fn assert_clean_rendering(name: &str, text: &str) {
    let text = &text.replace("\r\n", "\n");
    let plain = anstream::adapter::strip_str(text).to_string();
    let styles = text.matches("\u{1b}[").count();
    assert_eq!(text.matches('\u{1b}').count(), styles, "{name}");
    let found = plain.chars().find(|c| *c != '\n' && is_unsafe_char(*c));
    assert_eq!(found, None, "{name}");
}

#[test]
fn a_stored_report_full_of_hostile_texts_is_shown_clean_in_every_form() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/reports");
    let mut count = 0;
    for entry in fixtures.read_dir().expect("the fixtures") {
        let file = entry.expect("a fixture").file_name();
        let name = file.to_str().expect("UTF-8");
        let mut value = fixture_value(name);
        let filled = fill_texts(&mut value, |value| parse_report(value).is_some());
        assert!(filled.len() > 5, "{name} has texts: {filled:?}");
        println!("attack: tried {}", filled.len());
        let report = parse_report(&value).expect("a report");
        let rendered = render_report(&report);
        for text in rendered.texts.iter().chain([&rendered.html]) {
            assert_clean_rendering(name, text);
            assert!(!text.contains(&"x".repeat(MAX_FOREIGN_CHARS + 1)), "{name}");
        }
        assert_clean_texts(name, &serde_json::from_str(&rendered.json).expect("valid JSON"));
        if let Some(json) = &rendered.iperf3_json {
            assert!(!json.contains(is_unsafe_char) && !json.contains("\\u00"), "{name}: {json}");
        }
        count += 1;
    }
    assert!(count > 0, "there are fixtures");
}

#[test]
fn a_claims_file_that_steers_a_terminal_is_not_quoted_as_it_is() {
    let folder = Folder::new("foreign_claims");
    let file = folder.file("claims.toml");
    std::fs::write(&file, format!("name = {UNSAFE}")).expect("written");
    let output = longhaul().args(["record", "check"]).arg(&file).output().expect("ended");
    let error = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(2), "{error:?}");
    assert!(!error.contains(|c: char| c != '\n' && is_unsafe_char(c)), "{error:?}");
}
