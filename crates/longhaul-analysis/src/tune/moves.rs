//! Chooses the next setting by the limiter of the best one.
//!
//! Source: limiter-guided search (docs/methods/tune.md); parallel streams after Altman 2006 and
//! Hacker 2002. Units: bit/s, bytes. Error: a wrong verdict costs one probe: if the setting it
//! names gives nothing, more streams are tried once before the search settles.
//! Wrong when: two limits apply at once, and only changing both would help.

use super::allowed::{Allowed, MOST_STREAMS};
use super::tally::{Tally, gain};
use super::windows::{Windows, in_flight_bytes};
use super::{Trial, words};
use crate::limit::window;
use crate::throughput::words as shared;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::scan::Setting;
use longhaul_model::units::{Bytes, Rate};

/// The minimum and maximum factors of a single step.
const LEAST_FACTOR: f64 = 2.0;
const MOST_FACTOR: f64 = 8.0;
const MOST_LOSS_FACTOR: f64 = 4.0;
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
const MOST_PRODUCTS: f64 = 2.0;
/// Windows that together exceed the path's volume by this ratio are not the limit.
const FILLING_RATIO: f64 = 1.2;
/// The maximum number of streams tried on a full path, where more only take the share of others.
const MOST_SHARING: u32 = 48;
/// The paced rate relative to that of the bucket, so that it never runs empty.
const PACED_RATIO: f64 = 0.95;
/// If RTTs grow by more than this, a gain of a few per cent is not worth it.
const LONGER_TRIP_RATIO: f64 = 1.5;
pub const BBR: &str = "bbr";

/// The input of the steps.
pub struct View<'s> {
    pub allowed: &'s Allowed,
    pub trials: &'s [Trial],
    pub tallies: Vec<Tally<'s>>,
    pub windows: Windows,
}

/// The next setting and the reason for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Move {
    pub setting: Setting,
    pub why: String,
}

/// Returns the next step up from the best choice so far; `None` if no gain is expected.
pub fn climb(view: &View, from: &Tally) -> Option<Move> {
    let special = match from.limiter() {
        Limiter::ReceiveWindow | Limiter::SendBuffer => wider_window(view, from),
        Limiter::Loss => other_control(view, from),
        Limiter::Policer | Limiter::Shaper => paced(view, from),
        _ => None,
    };
    special
        .filter(|m| view.is_new(&m.setting))
        .or_else(|| more_streams(view, from))
}

impl View<'_> {
    pub fn is_new(&self, setting: &Setting) -> bool {
        self.allowed.permits(setting) && self.trials.iter().all(|t| t.setting != *setting)
    }

    /// Returns true if `other` differs only in streams: as wide a window, same control, unpaced.
    pub fn is_kin(&self, this: &Setting, other: &Setting) -> bool {
        let (a, b) = (
            self.windows.usable_bytes(this),
            self.windows.usable_bytes(other),
        );
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
    fn fills_the_path(&self, setting: &Setting) -> bool {
        let all = self
            .windows
            .usable_bytes(setting)
            .map(|each| each as f64 * f64::from(setting.streams));
        all.zip(self.path_bytes())
            .is_some_and(|(all, path)| all >= FILLING_RATIO * path)
    }

    /// Returns the ratio of the next limit to the goodput, if that limit has been measured.
    fn headroom(from: &Tally) -> Option<f64> {
        let next = from.latest().next_limit.as_ref()?;
        let measured = next.limiter == Limiter::PathCapacity && !next.why.contains("unknown");
        measured.then(|| next.rate_bps as f64 / from.goodput_bps().max(1.0))
    }
}

fn wider_window(view: &View, from: &Tally) -> Option<Move> {
    let in_flight = in_flight_bytes(from.latest())?;
    let setting = from.setting;
    let present = setting
        .window_bytes
        .map_or(in_flight, |asked| asked.min(view.windows.explicit_bytes));
    let factor = View::headroom(from).map_or(MOST_FACTOR, |f| {
        (MARGIN * f).clamp(LEAST_FACTOR, MOST_FACTOR)
    });
    let wanted = (present as f64 * factor) as u64;
    let wanted = window::rounded(wanted);
    let explicit = view
        .allowed
        .explicit_window(wanted, view.windows.explicit_bytes);
    let automatic = view
        .windows
        .automatic_bytes
        .filter(|_| setting.window_bytes.is_some() && view.allowed.window(None));
    let enough = |bytes: &u64| *bytes as f64 >= LARGER_RATIO * present as f64;
    let (window_bytes, usable) = match (explicit.filter(enough), automatic.filter(enough)) {
        (Some(explicit), Some(automatic)) if automatic > explicit => (None, automatic),
        (Some(explicit), _) => (Some(explicit), explicit),
        (None, Some(automatic)) => (None, automatic),
        (None, None) => return None,
    };
    let how = if window_bytes.is_some() {
        format!("ask for {}", Bytes(usable))
    } else {
        format!("let the kernels go to {}", Bytes(usable))
    };
    Some(Move {
        why: format!(
            "the {} holds {} with {} in flight on a stream; {how}",
            words(from.limiter()),
            rate(from.goodput_bps()),
            Bytes(in_flight),
        ),
        setting: Setting {
            window_bytes,
            ..setting.clone()
        },
    })
}

/// Returns a narrower window if the last one was so large that slow start overran the path and lost
/// a burst, while a smaller one lost nothing: the best one is in between.
pub fn narrower_window(view: &View) -> Option<Move> {
    let last = view.trials.last()?;
    let asked = last.setting.window_bytes?;
    let lost = last.loss_ratio.filter(|r| *r >= OVERSHOT_LOSS_RATIO)?;
    let calmer = view.trials.iter().filter(|t| {
        let alike = Setting {
            window_bytes: Some(asked),
            ..t.setting.clone()
        };
        alike == last.setting
            && held_by_window(t.limiter)
            && t.loss_ratio.unwrap_or(0.0) < lost / 10.0
    });
    let below = calmer.max_by_key(|t| t.setting.window_bytes)?;
    let wanted = (MARGIN * view.path_bytes()? / f64::from(last.setting.streams)) as u64;
    let wanted = window::rounded(wanted);
    let bytes = view
        .allowed
        .explicit_window(wanted, view.windows.explicit_bytes)?;
    let setting = Setting {
        window_bytes: Some(bytes),
        ..last.setting.clone()
    };
    let between = bytes < asked && below.setting.window_bytes.unwrap_or(0) < bytes;
    (between && view.is_new(&setting)).then(|| Move {
        why: format!(
            "{} lost {:.1} % of the segments in running past the path, {} lost next to none; ask for {}",
            Bytes(asked),
            100.0 * lost,
            below
                .setting
                .window_bytes
                .map_or_else(|| String::from("the kernels' own"), |b| Bytes(b).to_string()),
            Bytes(bytes)
        ),
        setting,
    })
}

/// Tries BBR once, if the sender uses another congestion control and permits anyone to choose BBR.
fn other_control(view: &View, from: &Tally) -> Option<Move> {
    let permitted = view
        .trials
        .iter()
        .any(|t| t.permitted.iter().any(|name| name == BBR));
    let tried = view
        .trials
        .iter()
        .any(|t| t.congestion_control.as_deref() == Some(BBR));
    if !permitted || tried || !view.allowed.control(Some(BBR)) {
        return None;
    }
    let loss = from.latest().loss_ratio.map_or_else(
        || String::from("loss"),
        |ratio| format!("loss of {:.3} %", 100.0 * ratio),
    );
    Some(Move {
        why: format!(
            "{loss} holds {}; BBR does not slow down for single losses",
            rate(from.goodput_bps())
        ),
        setting: Setting {
            congestion_control: Some(BBR.to_owned()),
            ..from.setting.clone()
        },
    })
}

/// Paces few streams just below the rate of the bucket.
fn paced(view: &View, from: &Tally) -> Option<Move> {
    let already = view.trials.iter().any(|t| t.setting.pacing_bps.is_some());
    let bucket = from
        .latest()
        .bucket_bps
        .unwrap_or(from.goodput_bps() as u64);
    let streams = view.allowed.more_streams(1, 0, MOST_STREAMS)?;
    let each = (PACED_RATIO * bucket as f64 / f64::from(streams)) as u64;
    (!already && each > 0).then(|| Move {
        why: format!(
            "a {} lets {} through; stay {:.0} % below it",
            words(from.limiter()),
            rate(bucket as f64),
            100.0 * (1.0 - PACED_RATIO)
        ),
        setting: Setting {
            streams,
            pacing_bps: Some(each),
            ..from.setting.clone()
        },
    })
}

fn more_streams(view: &View, from: &Tally) -> Option<Move> {
    let setting = Setting {
        pacing_bps: None,
        ..from.setting.clone()
    };
    let present = setting.streams;
    let (factor, most) = reach(view, from)?;
    let most =
        failed_streams(view, present).map_or(most, |failed| middle(present, failed).min(most));
    let tried = view.trials.iter().any(|t| {
        let enough = (f64::from(present) * TRIED_RATIO).min(f64::from(most));
        t.goodput_bps.is_some()
            && t.setting.streams > present
            && f64::from(t.setting.streams) >= enough
            && view.is_kin(&setting, &t.setting)
    });
    let wanted = (f64::from(present) * factor).ceil().min(f64::from(most)) as u32;
    let streams = view
        .allowed
        .more_streams(wanted, present, most)
        .filter(|_| !tried)?;
    Some(Move {
        why: why_streams(from, streams),
        setting: Setting {
            streams,
            window_bytes: shared_window(view, from, streams),
            ..setting
        },
    })
    .filter(|m| view.is_new(&m.setting))
}

/// Returns the window of each of more streams: unchanged if the window is the limit, else no more
/// than all of them together can use.
fn shared_window(view: &View, from: &Tally, streams: u32) -> Option<u64> {
    let asked = from.setting.window_bytes?;
    let path = view
        .path_bytes()
        .filter(|_| !held_by_window(from.limiter()));
    let enough = path.map_or(asked, |path| {
        let each = (MOST_PRODUCTS * path / f64::from(streams)) as u64;
        window::rounded(each)
    });
    let narrower = Some(asked.min(enough)).filter(|bytes| view.allowed.window(Some(*bytes)));
    narrower.or(Some(asked))
}

fn held_by_window(limiter: Limiter) -> bool {
    matches!(limiter, Limiter::ReceiveWindow | Limiter::SendBuffer)
}

/// Returns the lowest number of streams above `present` that failed: an end that refuses so many.
fn failed_streams(view: &View, present: u32) -> Option<u32> {
    let failed = view.trials.iter().filter(|t| t.goodput_bps.is_none());
    let streams = failed.map(|t| t.setting.streams);
    streams.filter(|n| *n > present).min()
}

/// Returns the geometric mean.
pub fn middle(low: u32, high: u32) -> u32 {
    (f64::from(low) * f64::from(high)).sqrt().round() as u32
}

/// Returns the factor and the maximum number of streams of the next step.
fn reach(view: &View, from: &Tally) -> Option<(f64, u32)> {
    let present = from.setting.streams;
    let headroom = View::headroom(from);
    Some(match from.limiter() {
        Limiter::ReceiveWindow | Limiter::SendBuffer => {
            let factor = headroom.map_or(MOST_FACTOR, |f| {
                (MARGIN * f).clamp(LEAST_FACTOR, MOST_FACTOR)
            });
            (factor, MOST_STREAMS)
        }
        Limiter::Loss => {
            let factor = headroom.unwrap_or(MOST_LOSS_FACTOR);
            (factor.clamp(LEAST_FACTOR, MOST_LOSS_FACTOR), MOST_STREAMS)
        }
        Limiter::CpuSender | Limiter::CpuReceiver => {
            let latest = from.latest();
            let weaker = latest.sender.cores.into_iter().chain(latest.receiver.cores);
            let weaker = weaker.min().unwrap_or(MOST_STREAMS);
            // A single verdict with as many streams as cores may be wrong.
            let doubled = if said_before(view, from) {
                present
            } else {
                2 * present
            };
            (2.0, weaker.max(doubled))
        }
        Limiter::PathCapacity => (sharing(view, from)?, MOST_SHARING),
        _ => (MOST_LOSS_FACTOR, MOST_SHARING),
    })
}

/// Returns true if another probe has the same limiter.
fn said_before(view: &View, from: &Tally) -> bool {
    let limiter = from.limiter();
    view.trials.iter().filter(|t| t.limiter == limiter).count() > 1
}

/// Returns the factor on a full path: 4, then by the last gain; `None` if only queues grew.
fn sharing(view: &View, from: &Tally) -> Option<f64> {
    let lower = view.tallies.iter().filter(|t| {
        t.setting.streams < from.setting.streams && view.is_kin(t.setting, from.setting)
    });
    let Some(lower) = lower.max_by_key(|t| t.setting.streams) else {
        return Some(4.0);
    };
    let (more, _) = gain(lower, from);
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
        _ if !full_before => LEAST_FACTOR,
        much if much >= 1.3 => 12.0,
        some if some >= 1.05 => 4.0,
        _ => 2.0,
    })
}

fn why_streams(from: &Tally, streams: u32) -> String {
    let now = rate(from.goodput_bps());
    let present = shared::streams(from.setting.streams);
    match from.limiter() {
        Limiter::ReceiveWindow | Limiter::SendBuffer => format!(
            "{present} gave {now}, held by the {}, and no larger window is to be had; {streams} carry more",
            words(from.limiter())
        ),
        Limiter::PathCapacity => {
            format!("{present} filled the path at {now}; see whether {streams} get more of it")
        }
        Limiter::Unknown => {
            format!("{present} gave {now}, by a limit that is not known; try {streams}")
        }
        Limiter::Policer | Limiter::Shaper | Limiter::Application | Limiter::Pacing => format!(
            "{present} gave {now}, held by the {}; see whether {streams} pass it",
            words(from.limiter())
        ),
        other => format!(
            "{present} gave {now}, held by the {}; spread it over {streams}",
            words(other)
        ),
    }
}

/// Formats a rate; the search calculates with floating-point values.
pub fn rate(bps: f64) -> Rate {
    shared::rate(bps as u64)
}
