//! The quantities that are tracked over time.

use crate::serde_name;
use serde::{Deserialize, Serialize};

/// The quantity of a series, with one value per run and direction: `goodput`, `available`,
/// `capacity` in bit/s; `rtt_floor`, `rtt_median`, `rtt_p95`, `one_way_delay`, `delay_variation` in us; `loss`, `retransmits`, `host_share` as ratios; `hops` as a count.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = Quantity))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathQuantity {
    /// Goodput of the steady part of a bulk run, counted by the receiver, bit/s.
    Goodput,
    /// Available bandwidth, bit/s of IP.
    Available,
    /// Capacity of the narrow link, bit/s of IP.
    Capacity,
    /// Minimum RTT of a run, us.
    RttFloor,
    /// Median RTT of the probes of a path run, us.
    RttMedian,
    /// 95th percentile of the RTT of the probes of a path run, us.
    RttP95,
    /// Minimum one-way delay of a latency run whose clocks allow it, us.
    OneWayDelay,
    /// 95th percentile of the one-way delay above its minimum, us.
    DelayVariation,
    /// Loss of probes or packets, 0 to 1.
    Loss,
    /// Share of the segments of a bulk run that were retransmitted, 0 to 1.
    Retransmits,
    /// Routers, plus the destination.
    Hops,
    /// Share of the time in which a host limited a transfer and not the network, 0 to 1.
    HostShare,
}

/// The scale on which changes of a quantity are tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuantityScale {
    /// As a ratio: the logarithm has uniform noise.
    Ratio,
    /// As a share: the arcsine of the square root has uniform noise.
    Share,
    /// Unchanged.
    Count,
}

impl PathQuantity {
    pub const ALL: [PathQuantity; 12] = [
        PathQuantity::Goodput,
        PathQuantity::Available,
        PathQuantity::Capacity,
        PathQuantity::RttFloor,
        PathQuantity::RttMedian,
        PathQuantity::RttP95,
        PathQuantity::OneWayDelay,
        PathQuantity::DelayVariation,
        PathQuantity::Loss,
        PathQuantity::Retransmits,
        PathQuantity::Hops,
        PathQuantity::HostShare,
    ];

    /// The quantities in which changes are detected unless others are chosen: the median and the
    /// percentile of the RTT and the delay variation follow the load of the path, and the floor of the RTT
    /// follows the route; one-way delays also follow the clocks.
    pub const DETECTED: [PathQuantity; 8] = [
        PathQuantity::Goodput,
        PathQuantity::Available,
        PathQuantity::Capacity,
        PathQuantity::RttFloor,
        PathQuantity::Loss,
        PathQuantity::Retransmits,
        PathQuantity::Hops,
        PathQuantity::HostShare,
    ];

    /// Returns the word used in JSON, in the archive and in URLs.
    pub fn word(self) -> &'static str {
        serde_name::name_variant(&self)
    }

    /// Returns the quantity with this word.
    pub fn from_word(word: &str) -> Option<PathQuantity> {
        serde_name::parse_variant(word)
    }

    /// Returns the name shown to users.
    pub const fn title(self) -> &'static str {
        match self {
            PathQuantity::Goodput => "throughput",
            PathQuantity::Available => "available bandwidth",
            PathQuantity::Capacity => "capacity",
            PathQuantity::RttFloor => "RTT floor",
            PathQuantity::RttMedian => "RTT median",
            PathQuantity::RttP95 => "RTT p95",
            PathQuantity::OneWayDelay => "one-way delay",
            PathQuantity::DelayVariation => "delay variation",
            PathQuantity::Loss => "loss",
            PathQuantity::Retransmits => "retransmitted",
            PathQuantity::Hops => "hops",
            PathQuantity::HostShare => "time limited by a host",
        }
    }

    /// Returns the unit suffix of JSON names: `bps`, `us`, `ratio`, `count`.
    pub const fn unit(self) -> &'static str {
        match self {
            PathQuantity::Goodput | PathQuantity::Available | PathQuantity::Capacity => "bps",
            PathQuantity::RttFloor
            | PathQuantity::RttMedian
            | PathQuantity::RttP95
            | PathQuantity::OneWayDelay
            | PathQuantity::DelayVariation => "us",
            PathQuantity::Loss | PathQuantity::Retransmits | PathQuantity::HostShare => "ratio",
            PathQuantity::Hops => "count",
        }
    }

    pub const fn scale(self) -> QuantityScale {
        match self {
            PathQuantity::Loss | PathQuantity::Retransmits | PathQuantity::HostShare => {
                QuantityScale::Share
            }
            PathQuantity::Hops => QuantityScale::Count,
            _ => QuantityScale::Ratio,
        }
    }

    /// Returns true if larger is better; `None` for quantities without a preference.
    pub const fn more_is_better(self) -> Option<bool> {
        match self {
            PathQuantity::Goodput | PathQuantity::Available | PathQuantity::Capacity => Some(true),
            PathQuantity::RttFloor
            | PathQuantity::RttMedian
            | PathQuantity::RttP95
            | PathQuantity::OneWayDelay
            | PathQuantity::DelayVariation
            | PathQuantity::Loss
            | PathQuantity::Retransmits => Some(false),
            PathQuantity::Hops | PathQuantity::HostShare => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::PathQuantity;

    #[test]
    fn words_come_back() {
        for quantity in PathQuantity::ALL {
            assert_eq!(PathQuantity::from_word(quantity.word()), Some(quantity));
        }
        assert_eq!(PathQuantity::from_word("speed"), None);
    }

    #[test]
    fn changes_are_detected_in_the_floor_of_the_rtt_alone() {
        let rtt = PathQuantity::DETECTED.into_iter().filter(|it| it.unit() == "us");
        assert_eq!(rtt.collect::<Vec<_>>(), [PathQuantity::RttFloor]);
    }
}
