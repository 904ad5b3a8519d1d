//! The metrics with their names and help texts.

use super::{MAX_PAIRS, MetricsSnapshot};
use crate::agent::shared_state::AgentCounters;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_store::history_store::GridPair;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use std::sync::atomic::AtomicU64;

type MetricLabels = Vec<(&'static str, String)>;
type FloatGauge = Gauge<f64, AtomicU64>;

/// The metrics of one scrape.
pub struct MetricsPage {
    registry: Registry,
}

impl MetricsPage {
    pub fn new(
        figures: &AgentCounters,
        stored: Option<&MetricsSnapshot>,
        started_us: i64,
    ) -> MetricsPage {
        let mut page = MetricsPage { registry: Registry::with_prefix("longhaul") };
        page.add_program(started_us);
        page.add_runs(figures);
        page.add_sending(figures);
        page.add_gauge(
            "archive_up",
            "1 if the archive answered, otherwise 0",
            f64::from(u8::from(stored.is_some())),
        );
        if let Some(stored) = stored {
            page.add_archive(stored);
            page.add_pairs(&stored.grids);
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
            ("runs_failed", "Runs that started but gave no result", tally.failed),
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
        let help = "Bytes sent and reserved since midnight UTC";
        self.add_gauge("today_bytes", help, figures.bytes_today as f64);
    }

    fn add_sending(&mut self, figures: &AgentCounters) {
        if let Some(to_send) = figures.to_send {
            let help = "Items that the collector or database has not acknowledged";
            self.add_gauge("to_send_runs", help, to_send as f64);
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
            ("reloads", "Reloads of the watch file", figures.reloads),
            ("reloads_refused", "Reloads with an invalid watch file", figures.reloads_refused),
        ] {
            self.add_counter(name, &format!("{help}, since the agent started"), value);
        }
    }

    fn add_archive(&mut self, stored: &MetricsSnapshot) {
        let size = Family::<MetricLabels, FloatGauge>::default();
        let labels = vec![("kind", "SQLite".to_owned())];
        size.get_or_create(&labels).set(stored.bytes as f64);
        let help = "Size of the archive on disk in bytes";
        self.registry.register("archive_bytes", help, size);
        let events = Family::<MetricLabels, FloatGauge>::default();
        for (state, count) in [("suspected", stored.suspected), ("confirmed", stored.confirmed)] {
            let labels = vec![("state", state.to_owned())];
            events.get_or_create(&labels).set(count as f64);
        }
        let help = "Events that have not recovered, by state";
        self.registry.register("events_open", help, events);
    }

    fn add_pairs(&mut self, grids: &[(PathQuantity, Vec<GridPair>)]) {
        let newest = Family::<MetricLabels, FloatGauge>::default();
        let mut left_out = 0;
        for (quantity, cells) in grids {
            let values = Family::<MetricLabels, FloatGauge>::default();
            left_out = left_out.max(cells.len().saturating_sub(MAX_PAIRS));
            for cell in cells.iter().take(MAX_PAIRS) {
                let Some((value, at_us)) = cell.value.zip(cell.at_us) else {
                    continue;
                };
                let mut labels: MetricLabels =
                    vec![("from", cell.pair.from.clone()), ("to", cell.pair.to.clone())];
                values.get_or_create(&labels).set(value);
                labels.push(("quantity", quantity.word().to_owned()));
                newest.get_or_create(&labels).set(at_us as f64 / 1e6);
            }
            let help =
                format!("Newest {} of a pair, {}", quantity.title(), describe_unit(*quantity));
            self.registry.register(format_metric_name(*quantity), help, values);
        }
        let help = "Start of the run with the newest value of a pair, seconds since 1970";
        self.registry.register("newest_timestamp_seconds", help, newest);
        let help = "Pairs whose values are not exported, because there are too many";
        self.add_gauge("pairs_left_out", help, left_out as f64);
    }
}

/// Returns the metric name, for example `goodput_bps`, `rtt_floor_us`, `loss_ratio` or `hops`.
fn format_metric_name(quantity: PathQuantity) -> String {
    match quantity.unit() {
        "count" => quantity.word().to_owned(),
        unit => format!("{}_{unit}", quantity.word()),
    }
}

fn describe_unit(quantity: PathQuantity) -> &'static str {
    match quantity.unit() {
        "bps" => "bit/s",
        "us" => "microseconds",
        "ratio" => "ratio from 0 to 1",
        _ => "count",
    }
}
