//! The settings that may be tried: by the plan's lists, if any, and the program's own limits.

use crate::limit::window_range;
use longhaul_model::report::v1::scan::{ScanPlan, TransferSetting};

/// The maximum number of streams of one run.
pub const MAX_STREAMS: u32 = 128;

/// The permitted settings; an empty list permits all values.
#[derive(Debug, Clone)]
pub struct AllowedSettings {
    windows: Vec<Option<u64>>,
    streams: Vec<u32>,
    controls: Vec<Option<String>>,
}

impl AllowedSettings {
    pub fn from_plan(plan: &ScanPlan) -> AllowedSettings {
        let mut streams = plan.streams.clone();
        streams.sort_unstable();
        streams.dedup();
        AllowedSettings {
            windows: plan.windows_bytes.clone(),
            streams,
            controls: plan.congestion_controls.clone(),
        }
    }

    pub fn permits(&self, setting: &TransferSetting) -> bool {
        self.allows_streams(setting.streams)
            && self.allows_window(setting.window_bytes)
            && self.allows_control(setting.congestion_control.as_deref())
    }

    pub fn allows_window(&self, window: Option<u64>) -> bool {
        window.is_none_or(|w| (1..=window_range::MAX_WINDOW).contains(&w))
            && (self.windows.is_empty() || self.windows.contains(&window))
    }

    pub fn allows_control(&self, name: Option<&str>) -> bool {
        self.controls.is_empty() || self.controls.iter().any(|c| c.as_deref() == name)
    }

    /// Returns the congestion controls that the plan names.
    pub fn named_controls(&self) -> impl Iterator<Item = &str> {
        self.controls.iter().flatten().map(String::as_str)
    }

    fn allows_streams(&self, streams: u32) -> bool {
        (1..=MAX_STREAMS).contains(&streams)
            && (self.streams.is_empty() || self.streams.contains(&streams))
    }

    /// Returns the default setting if it is permitted, else the minimum of each list.
    pub fn first_setting(&self) -> Option<TransferSetting> {
        let window = if self.allows_window(None) {
            None
        } else {
            let usable = self.windows.iter().filter(|w| self.allows_window(**w));
            *usable.min()?
        };
        let control = if self.allows_control(None) { None } else { self.controls.first()?.clone() };
        Some(TransferSetting {
            window_bytes: window,
            streams: self.permitted_streams(1, MAX_STREAMS).next()?,
            congestion_control: control,
            pacing_bps: None,
        })
    }

    /// Returns the permitted numbers of streams from `least` to `most`, rising.
    fn permitted_streams(
        &self,
        least: u32,
        most: u32,
    ) -> impl DoubleEndedIterator<Item = u32> + '_ {
        (least.max(1)..=most.min(MAX_STREAMS)).filter(|n| self.allows_streams(*n))
    }

    /// Returns `wanted` streams or the nearest permitted number, above `above` and at most `most`.
    pub fn more_streams(&self, wanted: u32, above: u32, most: u32) -> Option<u32> {
        let top = wanted.min(most);
        let below = self.permitted_streams(above.saturating_add(1), top).next_back();
        below.or_else(|| self.permitted_streams(top.max(above.saturating_add(1)), most).next())
    }

    /// Returns `wanted` streams or the nearest permitted number, strictly between the two.
    pub fn streams_between(&self, wanted: u32, low: u32, high: u32) -> Option<u32> {
        self.permitted_streams(low.saturating_add(1), high.saturating_sub(1))
            .min_by_key(|n| n.abs_diff(wanted))
    }

    /// Returns the smallest permitted window from `wanted` to `most`, or else the largest.
    pub fn explicit_window(&self, wanted: u64, most: u64) -> Option<u64> {
        let most = most.min(window_range::MAX_WINDOW);
        if self.windows.is_empty() {
            return Some(wanted.min(most));
        }
        let listed = self.windows.iter().flatten().copied();
        let fitting = listed.filter(|w| (1..=most).contains(w));
        let enough = fitting.clone().filter(|w| *w >= wanted).min();
        enough.or_else(|| fitting.max())
    }
}
