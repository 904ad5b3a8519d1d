//! The metrics with their names and help texts.

use super::{MAX_PAIRS, MetricsSnapshot};
use crate::agent::job_status::JobStatus;
use crate::agent::shared_state::{AgentCounters, MetricLabels, SharedState};
use crate::watch::measure_jobs::JobKey;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_store::history_store::SeriesReading;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

/// The maximum number of exported reasons. Those of other agents are in their words.
const MAX_REASONS: usize = 100;

type FloatGauge = Gauge<f64, AtomicU64>;

/// The metrics of one scrape.
pub struct MetricsPage {
    registry: Registry,
}

impl MetricsPage {
    pub fn new(
        state: &SharedState,
        figures: &AgentCounters,
        stored: Option<&MetricsSnapshot>,
    ) -> MetricsPage {
        let mut page = MetricsPage { registry: Registry::with_prefix("longhaul") };
        page.add_program(state.started_us);
        page.add_runs(figures);
        page.add_jobs(&figures.jobs);
        let help = "Duration of finished runs by measurement, since the agent started";
        page.registry.register("run_duration_seconds", help, state.durations.clone());
        page.add_server(figures);
        page.add_sending(figures);
        page.add_gauge(
            "archive_up",
            "1 if the archive answered, otherwise 0",
            f64::from(u8::from(stored.is_some())),
        );
        if let Some(stored) = stored {
            page.add_archive(stored);
            page.add_pairs(&stored.newest);
        }
        page
    }

    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }

    fn add_counter(&mut self, name: &str, help: &str, value: u64) {
        let counter: Counter = Counter::default();
        counter.inc_by(value);
        self.registry.register(name, help, counter);
    }

    fn add_gauge(&mut self, name: &str, help: &str, value: f64) {
        let gauge = FloatGauge::default();
        gauge.set(value);
        self.registry.register(name, help, gauge);
    }

    fn add_program(&mut self, started_us: i64) {
        let labels: MetricLabels = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
        let info = Info::new(labels);
        self.registry.register("build", "Version of longhaul", info);
        let help = "Start time of the agent, seconds since 1970";
        self.add_gauge("start_time_seconds", help, started_us as f64 / 1e6);
    }

    fn add_runs(&mut self, figures: &AgentCounters) {
        let tally = figures.runs;
        for (name, help, value) in [
            ("runs_planned", "Runs that came due or were requested", tally.planned),
            ("runs_done", "Runs with a result", tally.done),
        ] {
            self.add_counter(name, &format!("{help}, since the agent started"), value);
        }
        let missed = Family::<MetricLabels, Counter>::default();
        for (reason, runs) in &figures.missed {
            let labels = vec![("reason", (*reason).to_owned())];
            missed.get_or_create(&labels).inc_by(*runs);
        }
        let help = "Planned runs that did not start, by reason, since the agent started";
        self.registry.register("runs_missed", help, missed);
        let help = "Runs in the queue";
        self.add_gauge("runs_waiting", help, tally.waiting as f64);
        let help = "Runs in progress";
        self.add_gauge("runs_running", help, tally.running as f64);
        let help = "Last time at which the agent looked for due runs, seconds since 1970";
        self.add_gauge("loop_timestamp_seconds", help, figures.loop_us as f64 / 1e6);
        let help = "1 if no run starts because the disk of the archive is full, otherwise 0";
        self.add_gauge("disk_full", help, f64::from(u8::from(figures.disk_is_full)));
        let help = "Bytes sent and reserved since midnight UTC";
        self.add_gauge("today_bytes", help, figures.bytes_today as f64);
    }

    fn add_server(&mut self, figures: &AgentCounters) {
        if let Some(is_up) = figures.server_is_up {
            let help = "1 if the server of [serve] listens, otherwise 0";
            self.add_gauge("serve_up", help, f64::from(u8::from(is_up)));
            let help = "Sessions of clients of the server of [serve], since the agent started";
            self.add_counter("serve_sessions", help, figures.served_sessions);
        }
        if let Some(fireflies) = figures.fireflies {
            let help = "Fireflies that were understood, since the agent started";
            self.add_counter("fireflies", help, fireflies.taken);
            let help = "Datagrams that were no fireflies, or came too fast";
            self.add_counter("fireflies_refused", help, fireflies.refused);
            let help = "Flows without an end, payload or room";
            self.add_counter("firefly_flows_lost", help, fireflies.lost_flows);
        }
    }

    fn add_sending(&mut self, figures: &AgentCounters) {
        if let Some(to_send) = figures.to_send {
            let help = "Items that collector, database or archive have not acknowledged";
            self.add_gauge("to_send_items", help, to_send as f64);
        }
        if let Some(set_aside) = figures.set_aside {
            let help = "Items that the collector or database rejected";
            self.add_gauge("set_aside_items", help, set_aside as f64);
        }
        for (name, help, value) in [
            ("notices", "Notifications of events that were delivered", figures.notified),
            (
                "notices_failed",
                "Notifications of events that could not be delivered",
                figures.notices_failed,
            ),
            ("otlp_exports", "Exports of metrics by OTLP", figures.otlp_exports),
            (
                "otlp_exports_failed",
                "Exports of metrics by OTLP that failed",
                figures.otlp_exports_failed,
            ),
            ("reloads", "Reloads of the watch file", figures.reloads),
            ("reloads_refused", "Reloads with an invalid watch file", figures.reloads_refused),
        ] {
            self.add_counter(name, &format!("{help}, since the agent started"), value);
        }
    }

    fn add_family(
        &mut self,
        name: impl Into<String>,
        help: impl Into<String>,
        values: impl IntoIterator<Item = (MetricLabels, f64)>,
    ) {
        let family = Family::<MetricLabels, FloatGauge>::default();
        for (labels, value) in values {
            family.get_or_create(&labels).set(value);
        }
        self.registry.register(name, help, family);
    }

    /// Adds the state of each job, so that an alert can tell that a target is down.
    fn add_jobs(&mut self, jobs: &BTreeMap<JobKey, JobStatus>) {
        let exported = || {
            jobs.iter().take(MAX_PAIRS).map(|(key, status)| {
                let JobKey { measure, from, to } = key;
                let labels = [("measure", measure), ("from", from), ("to", to)];
                let labels = labels.map(|(name, value)| (name, value.to_string()));
                (Vec::from(labels), status)
            })
        };
        let up =
            exported().filter_map(|(labels, it)| Some((labels, f64::from(u8::from(it.is_up?)))));
        let help = "1 if the last run of the job succeeded and its target answered, otherwise 0; \
                    absent before the first run";
        self.add_family("up", help, up);
        let last =
            exported().filter_map(|(labels, it)| Some((labels, it.last_success_us? as f64 / 1e6)));
        let help = "End of the last run of the job that succeeded since the agent started, seconds \
                    since 1970";
        self.add_family("last_success_timestamp_seconds", help, last);
        let every = exported().map(|(labels, it)| (labels, it.every_us as f64 / 1e6));
        self.add_family("interval_seconds", "Interval between runs of the job", every);
        let failed = Family::<MetricLabels, Counter>::default();
        for (labels, status) in exported() {
            for (reason, runs) in &status.failed {
                let mut labels = labels.clone();
                labels.push(("reason", reason.word().to_owned()));
                failed.get_or_create(&labels).inc_by(*runs);
            }
        }
        let help =
            "Runs that gave no result or no answer, by job and reason, since the agent started";
        self.registry.register("runs_failed", help, failed);
        let help = "Jobs whose state is not exported, because there are too many";
        self.add_gauge("jobs_left_out", help, jobs.len().saturating_sub(MAX_PAIRS) as f64);
    }

    fn add_archive(&mut self, stored: &MetricsSnapshot) {
        let size = [(vec![("kind", "SQLite".to_owned())], stored.bytes as f64)];
        self.add_family("archive_bytes", "Size of the archive on disk in bytes", size);
        let missed = stored.missed_today.iter().take(MAX_REASONS);
        let missed = missed.map(|it| (vec![("reason", it.reason.clone())], it.runs as f64));
        let help = "Runs without a result that were due since midnight UTC, by reason, as in \
                    /api/v1/about";
        self.add_family("today_missed_runs", help, missed);
        let mut events: BTreeMap<MetricLabels, f64> = BTreeMap::new();
        for event in &stored.open_events {
            let fell = event.after.median < event.before.median;
            let labels = vec![
                ("state", event.state.word().to_owned()),
                ("from", event.pair.from.clone()),
                ("to", event.pair.to.clone()),
                ("quantity", event.quantity.word().to_owned()),
                ("change", if fell { "fell" } else { "rose" }.to_owned()),
            ];
            if events.len() < MAX_PAIRS || events.contains_key(&labels) {
                *events.entry(labels).or_insert(0.0) += 1.0;
            }
        }
        let help = "Events that have not recovered, by state, pair, quantity and direction of the \
                    change";
        self.add_family("events_open", help, events);
    }

    fn add_pairs(&mut self, readings: &[SeriesReading]) {
        let by_pair = || readings.chunk_by(|a, b| a.pair == b.pair);
        let mut newest = Vec::new();
        for quantity in PathQuantity::ALL {
            let (unit, factor) = find_base_unit(quantity);
            let mut values = Vec::new();
            let exported = by_pair().take(MAX_PAIRS).flatten();
            for reading in exported.filter(|it| it.quantity == quantity) {
                let (pair, point) = (&reading.pair, reading.point);
                let mut labels: MetricLabels =
                    vec![("from", pair.from.clone()), ("to", pair.to.clone())];
                values.push((labels.clone(), point.value * factor));
                labels.push(("quantity", quantity.word().to_owned()));
                newest.push((labels, point.at_us as f64 / 1e6));
            }
            let help = format!("Newest {} of a pair", quantity.title());
            self.add_family(format!("{}{unit}", quantity.word()), help, values);
        }
        let help = "Start of the run with the newest value of a pair, seconds since 1970";
        self.add_family("newest_timestamp_seconds", help, newest);
        let help = "Pairs whose values are not exported, because there are too many";
        let left_out = by_pair().count().saturating_sub(MAX_PAIRS);
        self.add_gauge("pairs_left_out", help, left_out as f64);
    }
}

/// Returns the suffix of the metric name and the factor of the values. Prometheus's base units are
/// seconds and bytes; its checker refuses bits.
fn find_base_unit(quantity: PathQuantity) -> (&'static str, f64) {
    match quantity.unit() {
        "bps" => ("_bytes_per_second", 0.125),
        "us" => ("_seconds", 1e-6),
        "ratio" => ("_ratio", 1.0),
        _ => ("", 1.0),
    }
}
