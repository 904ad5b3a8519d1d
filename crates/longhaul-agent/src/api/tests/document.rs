//! What is published beside the program says what the program says.

use super::openapi_document::document_text;
use super::scene::Scene;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// `LONGHAUL_BLESS=1` writes the file anew.
#[test]
fn the_published_description_is_that_of_the_program() {
    let said = document_text();
    if std::env::var_os("LONGHAUL_BLESS").is_some() {
        fs::write(root().join("docs/openapi.json"), &said).expect("written");
    }
    assert!(
        text("docs/openapi.json") == said,
        "docs/openapi.json is not what the program says; write it with \
         `LONGHAUL_BLESS=1 cargo test -p longhaul-agent published`, then `npm run types` in web"
    );
}

#[test]
fn every_address_is_described_with_its_failures_and_without_null() {
    let document: Value = serde_json::from_str(&document_text()).expect("JSON");
    let paths = document["paths"].as_object().expect("paths");
    for path in ["/api/v1/about", "/api/v1/series", "/api/v1/runs/{id}", "/api/v1/live", "/metrics"]
    {
        assert!(paths.contains_key(path), "{path}");
    }
    for (path, methods) in paths {
        for (method, operation) in methods.as_object().into_iter().flatten() {
            for status in ["400", "401", "503"] {
                assert!(operation["responses"].get(status).is_some(), "{method} {path}: {status}");
            }
        }
    }
    assert!(!document_text().contains("\"null\""));
    assert!(text("docs/api.md").contains("openapi.json"));
}

#[test]
fn the_manual_lists_every_address_and_every_metric() {
    let manual = text("docs/api.md");
    let document: Value = serde_json::from_str(&document_text()).expect("JSON");
    for path in document["paths"].as_object().into_iter().flat_map(|it| it.keys()) {
        assert!(manual.contains(&format!("`{path}`")), "docs/api.md does not list {path}");
    }
    for name in known_names() {
        // The series of a histogram.
        let series = ["_bucket", "_sum", "_count"].iter().find_map(|it| name.strip_suffix(it));
        let name = series.unwrap_or(&name);
        assert!(manual.contains(&format!("`{name}`")), "docs/api.md does not list {name}");
    }
}

/// Every family with its suffix, as a query names it.
fn names(metrics: &str) -> BTreeSet<String> {
    let samples = metrics.lines().filter(|line| !line.starts_with('#'));
    samples.filter_map(|line| line.split(['{', ' ']).next()).map(str::to_owned).collect()
}

/// The names of all metrics.
fn known_names() -> BTreeSet<String> {
    let scene = Scene::new();
    scene.desk.observe_duration("bulk", std::time::Duration::from_secs(3));
    names(&scene.get("/metrics").body)
}

/// The metrics that a query names.
fn named_metrics(query: &str) -> Vec<&str> {
    let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("longhaul_")).collect()
}

#[test]
fn the_alerts_ask_for_metrics_that_exist() {
    let (known, rules) = (known_names(), text("contrib/prometheus/rules.yml"));
    let named = named_metrics(&rules);
    assert!(named.len() > 5, "{named:?}");
    for name in named {
        assert!(known.contains(name), "{name}");
    }
}

#[test]
fn the_dashboard_asks_for_metrics_that_exist() {
    let known = known_names();
    let dashboard: Value =
        serde_json::from_str(&text("contrib/grafana/prometheus.json")).expect("JSON");
    let mut queries = Vec::new();
    collect(&dashboard, &mut queries);
    assert!(queries.len() > 10, "{queries:?}");
    for query in queries {
        for name in named_metrics(&query) {
            assert!(known.contains(name), "{name} of {query}");
        }
    }
    assert!(dashboard["templating"]["list"][0]["type"] == "datasource");
}

/// Every PromQL of a dashboard.
fn collect(value: &Value, queries: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|it| collect(it, queries)),
        Value::Object(fields) => {
            for (key, inner) in fields {
                match inner.as_str() {
                    Some(text) if key == "expr" || key == "query" || key == "definition" => {
                        queries.push(text.to_owned());
                    }
                    _ => collect(inner, queries),
                }
            }
        }
        _ => {}
    }
}
