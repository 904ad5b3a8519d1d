//! The metrics with their names and help texts.

use super::{PAIRS, Stored};
use crate::agent::desk::Figures;
use longhaul_model::report::v1::quantity::Quantity;
use longhaul_store::watched::GridCell;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use std::sync::atomic::AtomicU64;

type Labels = Vec<(&'static str, String)>;
type Decimal = Gauge<f64, AtomicU64>;

/// The metrics of one scrape.
pub struct Page {
    registry: Registry,
}

impl Page {
    pub fn new(figures: &Figures, stored: Option<&Stored>, started_us: i64) -> Page {
        let mut page = Page {
            registry: Registry::with_prefix("longhaul"),
        };
        page.program(started_us);
        page.runs(figures);
        page.sending(figures);
        page.decimal(
            "archive_up",
            "1 where the archive answered, else 0",
            f64::from(u8::from(stored.is_some())),
        );
        if let Some(stored) = stored {
            page.archive(stored);
            page.pairs(&stored.grids);
        }
        page
    }

    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        let counter: Counter = Counter::default();
        counter.inc_by(value);
        self.registry.register(name, help, counter);
    }

    fn decimal(&mut self, name: &str, help: &str, value: f64) {
        let gauge = Decimal::default();
        gauge.set(value);
        self.registry.register(name, help, gauge);
    }

    fn program(&mut self, started_us: i64) {
        let labels: Labels = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
        let info = Info::new(labels);
        self.registry.register("build", "The program", info);
        let help = "When the agent started, seconds since 1970";
        self.decimal("start_time_seconds", help, started_us as f64 / 1e6);
    }

    fn runs(&mut self, figures: &Figures) {
        let tally = figures.tally;
        for (name, help, value) in [
            (
                "runs_planned",
                "Runs that came due or were asked for",
                tally.planned,
            ),
            ("runs_done", "Runs that gave a result", tally.done),
            (
                "runs_failed",
                "Runs that were tried and gave none",
                tally.failed,
            ),
        ] {
            self.counter(name, &format!("{help}, since the start"), value);
        }
        let missed = Family::<Labels, Counter>::default();
        for (reason, runs) in &figures.missed {
            let labels = vec![("reason", reason.clone())];
            missed.get_or_create(&labels).inc_by(*runs);
        }
        let help = "Runs that were not made, by reason, since the start";
        self.registry.register("runs_missed", help, missed);
        let help = "Runs that wait for their turn";
        self.decimal("runs_waiting", help, tally.waiting as f64);
        let help = "Runs under way";
        self.decimal("runs_running", help, tally.running as f64);
        let help = "Bytes sent and set aside since midnight, UTC";
        self.decimal("today_bytes", help, figures.bytes_today as f64);
    }

    fn sending(&mut self, figures: &Figures) {
        if let Some(to_send) = figures.to_send {
            let help = "Items that a collector or database has not acknowledged";
            self.decimal("to_send_runs", help, to_send as f64);
        }
        if let Some(set_aside) = figures.set_aside {
            let help = "Items that a collector or database refused";
            self.decimal("set_aside_items", help, set_aside as f64);
        }
        for (name, help, value) in [
            (
                "notices",
                "Notices of events that were taken",
                figures.notified,
            ),
            (
                "notices_failed",
                "Notices that nobody took",
                figures.notices_failed,
            ),
            ("reloads", "Changes of the watch file", figures.reloads),
            (
                "reloads_refused",
                "Watch files that were wrong",
                figures.reloads_refused,
            ),
        ] {
            self.counter(name, &format!("{help}, since the start"), value);
        }
    }

    fn archive(&mut self, stored: &Stored) {
        if let Some(bytes) = stored.bytes {
            let size = Family::<Labels, Decimal>::default();
            let labels = vec![("kind", stored.kind.to_owned())];
            size.get_or_create(&labels).set(bytes as f64);
            let help = "Size of the archive on disk";
            self.registry.register("archive_bytes", help, size);
        }
        let events = Family::<Labels, Decimal>::default();
        for (state, count) in [
            ("suspected", stored.suspected),
            ("confirmed", stored.confirmed),
        ] {
            let labels = vec![("state", state.to_owned())];
            events.get_or_create(&labels).set(count as f64);
        }
        let help = "Events that are not recovered from, by state";
        self.registry.register("events_open", help, events);
    }

    fn pairs(&mut self, grids: &[(Quantity, Vec<GridCell>)]) {
        let newest = Family::<Labels, Decimal>::default();
        let mut left_out = 0;
        for (quantity, cells) in grids {
            let values = Family::<Labels, Decimal>::default();
            left_out = left_out.max(cells.len().saturating_sub(PAIRS));
            for cell in cells.iter().take(PAIRS) {
                let Some(point) = cell.newest else {
                    continue;
                };
                let mut labels: Labels = vec![
                    ("from", cell.pair.from.clone()),
                    ("to", cell.pair.to.clone()),
                ];
                values.get_or_create(&labels).set(point.value);
                labels.push(("quantity", quantity.word().to_owned()));
                newest.get_or_create(&labels).set(point.at_us as f64 / 1e6);
            }
            let help = format!("Newest {} of a pair, {}", quantity.title(), unit(*quantity));
            self.registry.register(name(*quantity), help, values);
        }
        let help = "When the run of a pair's newest value began, seconds since 1970";
        self.registry
            .register("newest_timestamp_seconds", help, newest);
        let help = "Pairs whose values are not told here, because there are too many";
        self.decimal("pairs_left_out", help, left_out as f64);
    }
}

/// Returns the metric name, for example `goodput_bps`, `rtt_floor_us`, `loss_ratio` or `hops`.
fn name(quantity: Quantity) -> String {
    match quantity.unit() {
        "count" => quantity.word().to_owned(),
        unit => format!("{}_{unit}", quantity.word()),
    }
}

fn unit(quantity: Quantity) -> &'static str {
    match quantity.unit() {
        "bps" => "bit/s",
        "us" => "microseconds",
        "ratio" => "0 to 1",
        _ => "counted",
    }
}
