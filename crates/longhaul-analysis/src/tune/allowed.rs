//! The settings that may be tried: by the plan's lists, if any, and the program's own limits.

use crate::limit::window;
use longhaul_model::report::v1::scan::{Plan, Setting};

/// The maximum number of streams of one run.
pub const MOST_STREAMS: u32 = 128;

/// The permitted settings; an empty list permits all values.
#[derive(Debug, Clone)]
pub struct Allowed {
    windows: Vec<Option<u64>>,
    streams: Vec<u32>,
    controls: Vec<Option<String>>,
}

impl Allowed {
    pub fn by(plan: &Plan) -> Allowed {
        let mut streams = plan.streams.clone();
        streams.sort_unstable();
        streams.dedup();
        Allowed {
            windows: plan.windows_bytes.clone(),
            streams,
            controls: plan.congestion_controls.clone(),
        }
    }

    pub fn permits(&self, setting: &Setting) -> bool {
        self.count(setting.streams)
            && self.window(setting.window_bytes)
            && self.control(setting.congestion_control.as_deref())
    }

    pub fn window(&self, window: Option<u64>) -> bool {
        window.is_none_or(|w| (1..=window::MOST).contains(&w))
            && (self.windows.is_empty() || self.windows.contains(&window))
    }

    pub fn control(&self, name: Option<&str>) -> bool {
        self.controls.is_empty() || self.controls.iter().any(|c| c.as_deref() == name)
    }

    /// Returns the congestion controls that the plan names.
    pub fn named_controls(&self) -> impl Iterator<Item = &str> {
        self.controls.iter().flatten().map(String::as_str)
    }

    fn count(&self, streams: u32) -> bool {
        (1..=MOST_STREAMS).contains(&streams)
            && (self.streams.is_empty() || self.streams.contains(&streams))
    }

    /// Returns the default setting if it is permitted, else the minimum of each list.
    pub fn first(&self) -> Option<Setting> {
        let window = if self.window(None) {
            None
        } else {
            let usable = self.windows.iter().filter(|w| self.window(**w));
            *usable.min()?
        };
        let control = if self.control(None) {
            None
        } else {
            self.controls.first()?.clone()
        };
        Some(Setting {
            window_bytes: window,
            streams: self.counts(1, MOST_STREAMS).next()?,
            congestion_control: control,
            pacing_bps: None,
        })
    }

    /// Returns the permitted numbers of streams from `least` to `most`, rising.
    fn counts(&self, least: u32, most: u32) -> impl DoubleEndedIterator<Item = u32> + '_ {
        (least.max(1)..=most.min(MOST_STREAMS)).filter(|n| self.count(*n))
    }

    /// Returns `wanted` streams or the nearest permitted number, above `above` and at most `most`.
    pub fn more_streams(&self, wanted: u32, above: u32, most: u32) -> Option<u32> {
        let top = wanted.min(most);
        let below = self.counts(above.saturating_add(1), top).next_back();
        below.or_else(|| self.counts(top.max(above.saturating_add(1)), most).next())
    }

    /// Returns `wanted` streams or the nearest permitted number, strictly between the two.
    pub fn streams_between(&self, wanted: u32, low: u32, high: u32) -> Option<u32> {
        self.counts(low.saturating_add(1), high.saturating_sub(1))
            .min_by_key(|n| n.abs_diff(wanted))
    }

    /// Returns the smallest permitted window from `wanted` to `most`, or else the largest.
    pub fn explicit_window(&self, wanted: u64, most: u64) -> Option<u64> {
        let most = most.min(window::MOST);
        if self.windows.is_empty() {
            return Some(wanted.min(most));
        }
        let listed = self.windows.iter().flatten().copied();
        let fitting = listed.filter(|w| (1..=most).contains(w));
        let enough = fitting.clone().filter(|w| *w >= wanted).min();
        enough.or_else(|| fitting.max())
    }
}
