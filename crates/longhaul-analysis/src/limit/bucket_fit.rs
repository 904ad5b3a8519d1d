//! The token buckets that a run can reveal: a shaper and a policer.
//!
//! Source: [`super::shaper_fit`], [`super::policer_fit`]. Units: bit/s, bytes, microseconds.
//! Error: that of the two fits.
//! Wrong when: the two fits are; both state when that is.
//! Error, and wrong when: see there.

/// A token bucket as seen from the receiver.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ShaperFit {
    pub knee_us: u64,
    pub peak_bps: f64,
    pub sustained_bps: f64,
    pub burst_bytes: f64,
}

/// A policer: the excess over its rate is dropped.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PolicerFit {
    pub from_us: u64,
    pub rate_bps: f64,
    pub burst_bytes: f64,
    pub loss_ratio: f64,
    /// Goodput divided by the bound of random loss at this ratio.
    pub over_bound: f64,
    pub loss_slots: usize,
    /// Most intervals had no loss: the rate is that of TCP growing back, and the policer's rate may
    /// be higher.
    pub sparse: bool,
}
