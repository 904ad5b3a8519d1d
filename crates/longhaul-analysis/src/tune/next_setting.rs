//! Chooses the next setting by the limiter of the best one.
//!
//! Source: limiter-guided search (docs/methods/tune.md); parallel streams after Altman 2006 and
//! Hacker 2002. Units: bit/s, bytes. Error: a wrong verdict costs one probe: if the setting it
//! names gives nothing, more streams are tried once before the search settles.
//! Wrong when: two limits apply at once, and only changing both would help.

use super::probe_trial::{WindowLimits, compute_in_flight_bytes};
use super::{
    AllowedSettings, MAX_SAMPLES, MAX_STREAMS, ProbeTrial, SettingAggregate, compute_gain,
};
use crate::limit::window_range;
use crate::throughput::{limiter_label, to_rate};
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::scan::TransferSetting;
use longhaul_model::units::{Bytes, Rate, count_of};

/// The minimum and maximum factors of a single step.
const MIN_FACTOR: f64 = 2.0;
const MAX_FACTOR: f64 = 8.0;
const MAX_LOSS_FACTOR: f64 = 4.0;
/// Margin over the bound, so that the bound itself does not limit again.
const MARGIN: f64 = 1.1;
/// The minimum ratio of a window that counts as larger.
const LARGER_RATIO: f64 = 1.3;
/// The minimum ratio of streams at which more streams count as tried.
const TRIED_RATIO: f64 = 1.5;
/// A window overshot if it lost this share, and a smaller one less than a tenth of that.
const OVERSHOT_LOSS_RATIO: f64 = 0.001;
/// The maximum of all windows together, in bandwidth-delay products: more only costs memory, and
/// the kernels take back what they granted.
const MAX_BDP_RATIO: f64 = 2.0;
/// Windows that together exceed the path's volume by this ratio are not the limit.
const FILLING_RATIO: f64 = 1.2;
/// The maximum number of streams tried on a full path, where more only take the share of others.
const MAX_SHARING_STREAMS: u32 = 48;
/// The paced rate relative to that of the bucket, so that it never runs empty.
const PACED_RATIO: f64 = 0.95;
/// If RTTs grow by more than this, a gain of a few per cent is not worth it.
const LONGER_TRIP_RATIO: f64 = 1.5;
/// A loaded RTT that exceeds the idle RTT by this ratio shows a queue.
const QUEUED_TRIP_RATIO: f64 = 1.1;
pub const BBR: &str = "bbr";

/// The input of the steps.
pub struct SearchView<'s> {
    pub allowed: &'s AllowedSettings,
    pub trials: &'s [ProbeTrial],
    pub tallies: Vec<SettingAggregate<'s>>,
    pub windows: WindowLimits,
}

/// The next setting and the reason for it.
#[derive(Debug, Clone, PartialEq)]
pub struct NextSetting {
    pub setting: TransferSetting,
    pub why: String,
}

/// Returns the next step up from the best choice so far; `None` if no gain is expected.
pub fn find_step_up(view: &SearchView, from: &SettingAggregate) -> Option<NextSetting> {
    let special = match from.limiter() {
        Limiter::ReceiveWindow | Limiter::SendBuffer => try_wider_window(view, from),
        Limiter::Loss => try_bbr(view, from),
        Limiter::Unknown if has_loss(from) => try_bbr(view, from),
        Limiter::PathCapacity if has_loss(from) && !has_standing_queue(from) => try_bbr(view, from),
        Limiter::Policer | Limiter::Shaper => try_pacing(view, from),
        _ => None,
    };
    special.filter(|m| view.is_new(&m.setting)).or_else(|| try_more_streams(view, from))
}

impl SearchView<'_> {
    pub fn is_new(&self, setting: &TransferSetting) -> bool {
        self.allowed.permits(setting) && self.trials.iter().all(|t| t.setting != *setting)
    }

    /// Returns true if a setting has not been probed as often as any may be.
    pub fn may_repeat(&self, setting: &TransferSetting) -> bool {
        self.trials.iter().filter(|trial| trial.setting == *setting).count() < MAX_SAMPLES
    }

    /// Returns true if `other` differs only in streams: as wide a window, same control, unpaced.
    pub fn is_similar(&self, this: &TransferSetting, other: &TransferSetting) -> bool {
        let (a, b) = (self.windows.usable_bytes(this), self.windows.usable_bytes(other));
        let as_wide = this.window_bytes == other.window_bytes
            || a.zip(b).is_some_and(|(this, other)| other >= this)
            || self.fills_the_path(other);
        as_wide && this.congestion_control == other.congestion_control && other.pacing_bps.is_none()
    }

    /// Returns the bytes in flight per idle RTT at the best rate so far, all streams together.
    fn path_bytes(&self) -> Option<f64> {
        let trip = self.trials.iter().filter_map(|t| t.idle_rtt).min()?;
        let best = self.trials.iter().filter_map(|t| t.goodput_bps).max()?;
        Some(best as f64 * trip.as_secs_f64() / 8.0)
    }

    /// Returns true if all windows together exceed the path's volume, so they are not the limit.
    fn fills_the_path(&self, setting: &TransferSetting) -> bool {
        let all =
            self.windows.usable_bytes(setting).map(|each| each as f64 * f64::from(setting.streams));
        all.zip(self.path_bytes()).is_some_and(|(all, path)| all >= FILLING_RATIO * path)
    }

    /// Returns the ratio of the next limit to the goodput, if that limit has been measured.
    fn headroom(from: &SettingAggregate) -> Option<f64> {
        let next = from.latest().next_limit.as_ref()?;
        let measured = next.limiter == Limiter::PathCapacity && !next.why.contains("unknown");
        measured.then(|| next.rate_bps as f64 / from.goodput_bps().max(1.0))
    }
}

fn try_wider_window(view: &SearchView, from: &SettingAggregate) -> Option<NextSetting> {
    let in_flight = compute_in_flight_bytes(from.latest())?;
    let setting = from.setting;
    let present =
        setting.window_bytes.map_or(in_flight, |asked| asked.min(view.windows.explicit_bytes));
    let factor = SearchView::headroom(from)
        .map_or(MAX_FACTOR, |f| (MARGIN * f).clamp(MIN_FACTOR, MAX_FACTOR));
    let wanted = (present as f64 * factor) as u64;
    let wanted = window_range::round_window(wanted);
    let explicit = view.allowed.explicit_window(wanted, view.windows.explicit_bytes);
    let automatic = view
        .windows
        .automatic_bytes
        .filter(|_| setting.window_bytes.is_some() && view.allowed.allows_window(None));
    let enough = |bytes: &u64| *bytes as f64 >= LARGER_RATIO * present as f64;
    let (window_bytes, usable) = match (explicit.filter(enough), automatic.filter(enough)) {
        (Some(explicit), Some(automatic)) if automatic > explicit => (None, automatic),
        (Some(explicit), _) => (Some(explicit), explicit),
        (None, Some(automatic)) => (None, automatic),
        (None, None) => return None,
    };
    let how = if window_bytes.is_some() {
        format!("request {}", Bytes(usable))
    } else {
        format!("let autotuning reach {}", Bytes(usable))
    };
    Some(NextSetting {
        why: format!(
            "the {} limits the rate to {} with {} in flight per stream; {how}",
            limiter_label(from.limiter()),
            convert_rate(from.goodput_bps()),
            Bytes(in_flight),
        ),
        setting: TransferSetting { window_bytes, ..setting.clone() },
    })
}

/// Returns a narrower window if the last one was so large that slow start overran the path and lost
/// a burst, while a smaller one lost nothing: the best one is in between.
pub fn try_narrower_window(view: &SearchView) -> Option<NextSetting> {
    let last = view.trials.last()?;
    let asked = last.setting.window_bytes?;
    let lost = last.loss_ratio.filter(|r| *r >= OVERSHOT_LOSS_RATIO)?;
    let calmer = view.trials.iter().filter(|t| {
        let alike = TransferSetting { window_bytes: Some(asked), ..t.setting.clone() };
        alike == last.setting && t.limiter.is_window() && t.loss_ratio.unwrap_or(0.0) < lost / 10.0
    });
    let below = calmer.max_by_key(|t| t.setting.window_bytes)?;
    let wanted = (MARGIN * view.path_bytes()? / f64::from(last.setting.streams)) as u64;
    let wanted = window_range::round_window(wanted);
    let bytes = view.allowed.explicit_window(wanted, view.windows.explicit_bytes)?;
    let setting = TransferSetting { window_bytes: Some(bytes), ..last.setting.clone() };
    let between = bytes < asked && below.setting.window_bytes.unwrap_or(0) < bytes;
    (between && view.is_new(&setting)).then(|| NextSetting {
        why: format!(
            "{} lost {:.1} % of the segments by overrunning the path, {} almost none; request {}",
            Bytes(asked),
            100.0 * lost,
            below
                .setting
                .window_bytes
                .map_or_else(|| String::from("autotuning"), |b| Bytes(b).to_string()),
            Bytes(bytes)
        ),
        setting,
    })
}

/// Returns true if the latest probe lost segments: its window may still have been growing back.
fn has_loss(from: &SettingAggregate) -> bool {
    from.latest().loss_ratio.is_some_and(|ratio| ratio > 0.0)
}

/// Returns true if the latest probe made its round trips longer: its losses may come from a full queue.
fn has_standing_queue(from: &SettingAggregate) -> bool {
    let latest = from.latest();
    let trips = latest.idle_rtt.zip(latest.loaded_rtt);
    trips.is_none_or(|(idle, loaded)| loaded > idle.mul_f64(QUEUED_TRIP_RATIO))
}

/// Tries BBR once, if the sender uses another congestion control and permits anyone to choose BBR.
fn try_bbr(view: &SearchView, from: &SettingAggregate) -> Option<NextSetting> {
    let permitted = view.trials.iter().any(|t| t.permitted.iter().any(|name| name == BBR));
    let tried = view.trials.iter().any(|t| t.congestion_control.as_deref() == Some(BBR));
    if !permitted || tried || !view.allowed.allows_control(Some(BBR)) {
        return None;
    }
    let loss = from
        .latest()
        .loss_ratio
        .map_or_else(|| String::from("loss"), |ratio| format!("loss of {:.3} %", 100.0 * ratio));
    Some(NextSetting {
        why: format!(
            "{} with {loss}; BBR does not slow down for single losses",
            convert_rate(from.goodput_bps())
        ),
        setting: TransferSetting {
            congestion_control: Some(BBR.to_owned()),
            ..from.setting.clone()
        },
    })
}

/// Paces few streams just below the rate of the bucket.
fn try_pacing(view: &SearchView, from: &SettingAggregate) -> Option<NextSetting> {
    let already = view.trials.iter().any(|t| t.setting.pacing_bps.is_some());
    let bucket = from.latest().bucket_bps.unwrap_or(from.goodput_bps() as u64);
    let streams = view.allowed.more_streams(1, 0, MAX_STREAMS)?;
    let each = (PACED_RATIO * bucket as f64 / f64::from(streams)) as u64;
    (!already && each > 0).then(|| NextSetting {
        why: format!(
            "a {} passes {}; stay {:.0} % below it",
            limiter_label(from.limiter()),
            convert_rate(bucket as f64),
            100.0 * (1.0 - PACED_RATIO)
        ),
        setting: TransferSetting { streams, pacing_bps: Some(each), ..from.setting.clone() },
    })
}

fn try_more_streams(view: &SearchView, from: &SettingAggregate) -> Option<NextSetting> {
    let setting = TransferSetting { pacing_bps: None, ..from.setting.clone() };
    let present = setting.streams;
    let (factor, most) = find_stream_reach(view, from)?;
    let most = find_failed_streams(view, present)
        .map_or(most, |failed| geometric_mean(present, failed).min(most));
    let tried = view.trials.iter().any(|t| {
        let enough = (f64::from(present) * TRIED_RATIO).min(f64::from(most));
        t.goodput_bps.is_some()
            && t.setting.streams > present
            && f64::from(t.setting.streams) >= enough
            && view.is_similar(&setting, &t.setting)
    });
    let wanted = (f64::from(present) * factor).ceil().min(f64::from(most)) as u32;
    let streams = view.allowed.more_streams(wanted, present, most).filter(|_| !tried)?;
    Some(NextSetting {
        why: explain_streams(from, streams),
        setting: TransferSetting {
            streams,
            window_bytes: compute_shared_window(view, from, streams),
            ..setting
        },
    })
    .filter(|m| view.is_new(&m.setting))
}

/// Returns the window of each of more streams: unchanged if the window is the limit, else no more
/// than all of them together can use.
fn compute_shared_window(view: &SearchView, from: &SettingAggregate, streams: u32) -> Option<u64> {
    let asked = from.setting.window_bytes?;
    let path = view.path_bytes().filter(|_| !from.limiter().is_window());
    let enough = path.map_or(asked, |path| {
        let each = (MAX_BDP_RATIO * path / f64::from(streams)) as u64;
        window_range::round_window(each)
    });
    let narrower = Some(asked.min(enough)).filter(|bytes| view.allowed.allows_window(Some(*bytes)));
    narrower.or(Some(asked))
}

/// Returns the lowest number of streams above `present` that failed: an end that refuses so many.
fn find_failed_streams(view: &SearchView, present: u32) -> Option<u32> {
    let failed = view.trials.iter().filter(|t| t.goodput_bps.is_none());
    let streams = failed.map(|t| t.setting.streams);
    streams.filter(|n| *n > present).min()
}

/// Returns the geometric mean.
pub fn geometric_mean(low: u32, high: u32) -> u32 {
    (f64::from(low) * f64::from(high)).sqrt().round() as u32
}

/// Returns the factor and the maximum number of streams of the next step.
fn find_stream_reach(view: &SearchView, from: &SettingAggregate) -> Option<(f64, u32)> {
    let present = from.setting.streams;
    let headroom = SearchView::headroom(from);
    Some(match from.limiter() {
        Limiter::ReceiveWindow | Limiter::SendBuffer => {
            let factor =
                headroom.map_or(MAX_FACTOR, |f| (MARGIN * f).clamp(MIN_FACTOR, MAX_FACTOR));
            (factor, MAX_STREAMS)
        }
        Limiter::Loss => {
            let factor = headroom.unwrap_or(MAX_LOSS_FACTOR);
            (factor.clamp(MIN_FACTOR, MAX_LOSS_FACTOR), MAX_STREAMS)
        }
        Limiter::CpuSender | Limiter::CpuReceiver => {
            let latest = from.latest();
            let weaker = latest.sender.cores.into_iter().chain(latest.receiver.cores);
            let weaker = weaker.min().unwrap_or(MAX_STREAMS);
            // A single verdict with as many streams as cores may be wrong.
            let doubled = if is_limiter_repeated(view, from) { present } else { 2 * present };
            (2.0, weaker.max(doubled))
        }
        Limiter::PathCapacity => (find_sharing_factor(view, from)?, MAX_SHARING_STREAMS),
        _ => (MAX_LOSS_FACTOR, MAX_SHARING_STREAMS),
    })
}

/// Returns true if another probe has the same limiter.
fn is_limiter_repeated(view: &SearchView, from: &SettingAggregate) -> bool {
    let limiter = from.limiter();
    view.trials.iter().filter(|t| t.limiter == limiter).count() > 1
}

/// Returns the factor on a full path: 4, then by the last gain; `None` if only queues grew.
fn find_sharing_factor(view: &SearchView, from: &SettingAggregate) -> Option<f64> {
    let lower = view.tallies.iter().filter(|t| {
        t.setting.streams < from.setting.streams && view.is_similar(t.setting, from.setting)
    });
    let Some(lower) = lower.max_by_key(|t| t.setting.streams) else {
        return Some(4.0);
    };
    let (more, _) = compute_gain(lower, from);
    let longer = lower.loaded_s().zip(from.loaded_s());
    let full_before = lower.limiter() == Limiter::PathCapacity;
    if full_before
        && longer.is_some_and(|(before, now)| now > LONGER_TRIP_RATIO * before)
        && more < 0.5
    {
        return None;
    }
    let steps = (f64::from(from.setting.streams) / f64::from(lower.setting.streams)).log2();
    let each = (1.0 + more).max(1.0).powf(1.0 / steps.max(1.0));
    Some(match each {
        _ if !full_before => MIN_FACTOR,
        much if much >= 1.3 => 12.0,
        some if some >= 1.05 => 4.0,
        _ => 2.0,
    })
}

fn explain_streams(from: &SettingAggregate, streams: u32) -> String {
    let now = convert_rate(from.goodput_bps());
    let present = count_of(u64::from(from.setting.streams), "stream");
    match from.limiter() {
        Limiter::ReceiveWindow | Limiter::SendBuffer => format!(
            "{present} gave {now}, limited by the {}, and no larger window is available; {streams} may carry more",
            limiter_label(from.limiter())
        ),
        Limiter::PathCapacity => {
            format!(
                "{present} filled the path at {now}; check whether {streams} get a larger share"
            )
        }
        Limiter::Unknown => {
            format!("{present} gave {now}, limit unknown; try {streams}")
        }
        Limiter::Policer | Limiter::Shaper | Limiter::Application | Limiter::Pacing => format!(
            "{present} gave {now}, limited by the {}; check whether {streams} exceed it",
            limiter_label(from.limiter())
        ),
        other => format!(
            "{present} gave {now}, limited by the {}; spread the load over {streams}",
            limiter_label(other)
        ),
    }
}

/// Formats a rate; the search calculates with floating-point values.
pub fn convert_rate(bps: f64) -> Rate {
    to_rate(bps as u64)
}
