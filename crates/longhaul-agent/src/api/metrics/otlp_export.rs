//! Sends the metrics of `/metrics` to a receiver of OTLP (OpenTelemetry) over HTTP, as JSON.
//!
//! Source: <https://opentelemetry.io/docs/specs/otlp/> (OTLP/HTTP, JSON encoding: 64-bit integers are
//! texts). Units: as in `/metrics`. Failures are counted; the next export has the newest values, so
//! that nothing is repeated.

use super::metrics_registry::MetricsPage;
use super::read_snapshot;
use crate::agent::export::{format_error_chain, read_wall_us};
use crate::api::ApiState;
use crate::http_client::http_client_builder;
use crate::secret_file;
use crate::watch::watch_file::OtlpSection;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// The timeout of one export.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// The interval without `[otlp]`, in which it may appear by a reload.
const IDLE_INTERVAL: Duration = Duration::from_secs(10);
/// The aggregation temporality of sums since the start of the agent.
const CUMULATIVE: u32 = 2;

/// Exports the metrics at the interval of the watch file until the page stops.
pub async fn export_metrics(shared: Arc<ApiState>) {
    let mut stop = shared.stop.clone();
    loop {
        let section = shared.state.file().otlp.clone();
        let wait = section.as_ref().map_or(IDLE_INTERVAL, |it| it.every);
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            () = sleep(wait) => {}
        }
        let Some(section) = section else { continue };
        let sent = timeout(EXPORT_TIMEOUT, send_metrics(&shared, &section)).await;
        let is_sent = matches!(sent, Ok(Ok(())));
        let mut counters = shared.state.counters.write();
        if is_sent {
            counters.otlp_exports += 1;
        } else {
            counters.otlp_exports_failed += 1;
        }
    }
}

async fn send_metrics(shared: &ApiState, section: &OtlpSection) -> Result<(), String> {
    let stored = shared.archive.query(read_snapshot).await.ok();
    let text = {
        let figures = shared.state.read_counters();
        MetricsPage::new(&shared.state, &figures, stored.as_ref()).text()
    };
    let host = shared.state.file().agent.name.clone();
    let body = convert_to_otlp(&text, &host, shared.state.started_us, read_wall_us());
    let web =
        http_client_builder(EXPORT_TIMEOUT).build().map_err(|error| format_error_chain(&error))?;
    let mut request = web.post(&section.url).json(&body);
    if let Some(token) = &section.token_file {
        let path = shared.state.folder.join(token);
        request =
            request.bearer_auth(secret_file::read_secret(&path).map_err(|it| it.to_string())?);
    }
    let answer = request.send().await.map_err(|error| format_error_chain(&error.without_url()))?;
    answer.error_for_status().map(|_| ()).map_err(|error| error.without_url().to_string())
}

/// A sample of OpenMetrics text.
struct MetricSample<'a> {
    name: &'a str,
    labels: Vec<(String, String)>,
    value: f64,
}

/// A metric of OpenMetrics text.
struct MetricFamily<'a> {
    name: &'a str,
    help: &'a str,
    kind: &'a str,
    samples: Vec<MetricSample<'a>>,
}

/// Converts OpenMetrics text of this program into the body of an OTLP export.
fn convert_to_otlp(openmetrics: &str, host: &str, started_us: i64, now_us: i64) -> Value {
    let families = parse_families(openmetrics);
    let times = [started_us, now_us].map(|us| us.saturating_mul(1000).to_string());
    let metrics = families.iter().map(|family| convert_family(family, &times));
    json!({ "resourceMetrics": [{
        "resource": { "attributes": [
            attribute("service.name", "longhaul"),
            attribute("service.version", env!("CARGO_PKG_VERSION")),
            attribute("host.name", host),
        ] },
        "scopeMetrics": [{
            "scope": { "name": "longhaul", "version": env!("CARGO_PKG_VERSION") },
            "metrics": metrics.collect::<Vec<_>>(),
        }],
    }] })
}

fn attribute(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn parse_families(openmetrics: &str) -> Vec<MetricFamily<'_>> {
    let mut families: Vec<MetricFamily<'_>> = Vec::new();
    for line in openmetrics.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.splitn(3, ' ');
            let (Some(word), Some(name), Some(rest)) = (words.next(), words.next(), words.next())
            else {
                continue;
            };
            if families.last().is_none_or(|last| last.name != name) {
                families.push(MetricFamily { name, help: "", kind: "", samples: Vec::new() });
            }
            match (word, families.last_mut()) {
                ("HELP", Some(last)) => last.help = rest,
                ("TYPE", Some(last)) => last.kind = rest,
                _ => {}
            }
        } else if let Some((last, sample)) = families.last_mut().zip(parse_sample(line)) {
            last.samples.push(sample);
        }
    }
    families
}

fn parse_sample(line: &str) -> Option<MetricSample<'_>> {
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = Vec::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        while !rest.starts_with('}') {
            let (label, text) = rest.trim_start_matches(',').split_once("=\"")?;
            let (value, after) = read_quoted(text)?;
            labels.push((label.to_owned(), value));
            rest = after;
        }
        rest = &rest[1..];
    }
    let value = rest.trim_start().split(' ').next()?.parse().ok()?;
    Some(MetricSample { name, labels, value })
}

/// Reads a text up to its closing quote; returns it without escapes, and what follows.
fn read_quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((place, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, &text[place + 1..])),
            '\\' => match letters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

fn convert_family(family: &MetricFamily<'_>, times: &[String; 2]) -> Value {
    let mut metric = Map::new();
    metric.insert("name".to_owned(), json!(family.name));
    metric.insert("description".to_owned(), json!(family.help));
    let points: Vec<Value> = match family.kind {
        "histogram" => convert_histogram(&family.samples, times),
        _ => family.samples.iter().map(|sample| convert_point(sample, times)).collect(),
    };
    let (kind, data) = match family.kind {
        "histogram" => {
            ("histogram", json!({ "dataPoints": points, "aggregationTemporality": CUMULATIVE }))
        }
        "counter" => {
            let data = json!({
                "dataPoints": points, "aggregationTemporality": CUMULATIVE, "isMonotonic": true,
            });
            ("sum", data)
        }
        _ => ("gauge", json!({ "dataPoints": points })),
    };
    metric.insert(kind.to_owned(), data);
    Value::Object(metric)
}

fn convert_labels<'a>(labels: impl Iterator<Item = &'a (String, String)>) -> Vec<Value> {
    labels.map(|(name, value)| attribute(name, value)).collect()
}

fn convert_point(sample: &MetricSample<'_>, times: &[String; 2]) -> Value {
    json!({
        "attributes": convert_labels(sample.labels.iter()),
        "startTimeUnixNano": times[0], "timeUnixNano": times[1], "asDouble": sample.value,
    })
}

/// The point of one set of labels, while its samples are read.
struct HistogramPoint<'a> {
    labels: Vec<&'a (String, String)>,
    json: Value,
    /// The count of all buckets so far.
    below: f64,
}

/// Converts the samples of a histogram. Those of one set of labels stand together: sum, count, and
/// the buckets, whose counts are cumulative, with the limit in `le`.
fn convert_histogram(samples: &[MetricSample<'_>], times: &[String; 2]) -> Vec<Value> {
    let mut points: Vec<HistogramPoint<'_>> = Vec::new();
    for sample in samples {
        let labels: Vec<_> = sample.labels.iter().filter(|(name, _)| name != "le").collect();
        if points.last().is_none_or(|last| last.labels != labels) {
            let json = json!({
                "attributes": convert_labels(labels.iter().copied()),
                "startTimeUnixNano": times[0], "timeUnixNano": times[1],
                "bucketCounts": [], "explicitBounds": [],
            });
            points.push(HistogramPoint { labels, json, below: 0.0 });
        }
        let Some(HistogramPoint { json: point, below, .. }) = points.last_mut() else { continue };
        let limit = sample.labels.iter().find(|(name, _)| name == "le");
        let limit = limit.and_then(|(_, limit)| limit.parse::<f64>().ok());
        if sample.name.ends_with("_sum") {
            point["sum"] = json!(sample.value);
        } else if sample.name.ends_with("_count") {
            point["count"] = json!((sample.value as u64).to_string());
        } else if let (Some(limit), Some(counts)) = (limit, point["bucketCounts"].as_array_mut()) {
            counts.push(json!(((sample.value - *below) as u64).to_string()));
            *below = sample.value;
            if limit.is_finite()
                && let Some(bounds) = point["explicitBounds"].as_array_mut()
            {
                bounds.push(json!(limit));
            }
        }
    }
    points.into_iter().map(|point| point.json).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
    use opentelemetry_proto::tonic::metrics::v1::metric::Data;
    use opentelemetry_proto::tonic::metrics::v1::number_data_point;

    const TEXT: &str = "# HELP longhaul_up Whether it is up.\n# TYPE longhaul_up gauge\n\
        longhaul_up{from=\"a\\\"b,c}\",to=\"d\"} 1.0\n\
        # HELP longhaul_runs_done Runs.\n# TYPE longhaul_runs_done counter\n\
        longhaul_runs_done_total 7\n\
        # HELP longhaul_run_duration_seconds Duration.\n\
        # TYPE longhaul_run_duration_seconds histogram\n\
        longhaul_run_duration_seconds_sum{measure=\"m\"} 12.5\n\
        longhaul_run_duration_seconds_count{measure=\"m\"} 3\n\
        longhaul_run_duration_seconds_bucket{le=\"1.0\",measure=\"m\"} 1\n\
        longhaul_run_duration_seconds_bucket{le=\"10.0\",measure=\"m\"} 3\n\
        longhaul_run_duration_seconds_bucket{le=\"+Inf\",measure=\"m\"} 3\n# EOF\n";

    #[test]
    fn a_receiver_parses_gauges_counters_and_histograms() {
        let body = convert_to_otlp(TEXT, "host", 1_000_000, 2_000_000);
        let parsed: ExportMetricsServiceRequest = serde_json::from_value(body).expect("OTLP");
        let metrics = &parsed.resource_metrics[0].scope_metrics[0].metrics;
        let [up, done, durations] = &metrics[..] else { panic!("{metrics:?}") };
        let Some(Data::Gauge(gauge)) = &up.data else { panic!("{up:?}") };
        let point = &gauge.data_points[0];
        assert_eq!(point.value, Some(number_data_point::Value::AsDouble(1.0)));
        assert_eq!(point.time_unix_nano, 2_000_000_000);
        let first = point.attributes[0].value.as_ref().and_then(|it| it.value.as_ref());
        assert!(format!("{first:?}").contains(r#"a\"b,c}"#), "{first:?}");
        let Some(Data::Sum(sum)) = &done.data else { panic!("{done:?}") };
        assert!(sum.is_monotonic && sum.aggregation_temporality == 2);
        let Some(Data::Histogram(histogram)) = &durations.data else { panic!("{durations:?}") };
        let point = &histogram.data_points[0];
        assert_eq!((point.count, point.sum), (3, Some(12.5)));
        assert_eq!(point.bucket_counts, [1, 2, 0]);
        assert_eq!(point.explicit_bounds, [1.0, 10.0]);
    }
}
