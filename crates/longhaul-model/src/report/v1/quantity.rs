//! The quantities that are tracked over time.

use serde::{Deserialize, Serialize};

/// The quantity of a series, with one value per run and direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Goodput of the steady part of a bulk run, counted by the receiver, bit/s.
    Goodput,
    /// Available bandwidth, bit/s of IP.
    Available,
    /// Capacity of the narrow link, bit/s of IP.
    Capacity,
    /// Minimum RTT of a run, us.
    RttFloor,
    /// Loss of probes or packets, 0 to 1.
    Loss,
    /// Share of the segments of a bulk run that were retransmitted, 0 to 1.
    Retransmits,
    /// Routers, plus the destination.
    Hops,
}

/// The scale on which changes of a quantity are tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// As a ratio: the logarithm has uniform noise.
    Ratio,
    /// As a share: the arcsine of the square root has uniform noise.
    Share,
    /// Unchanged.
    Count,
}

impl Quantity {
    pub const ALL: [Quantity; 7] = [
        Quantity::Goodput,
        Quantity::Available,
        Quantity::Capacity,
        Quantity::RttFloor,
        Quantity::Loss,
        Quantity::Retransmits,
        Quantity::Hops,
    ];

    /// Returns the word used in JSON, in the archive and in URLs.
    pub const fn word(self) -> &'static str {
        match self {
            Quantity::Goodput => "goodput",
            Quantity::Available => "available",
            Quantity::Capacity => "capacity",
            Quantity::RttFloor => "rtt_floor",
            Quantity::Loss => "loss",
            Quantity::Retransmits => "retransmits",
            Quantity::Hops => "hops",
        }
    }

    /// Returns the quantity with this word.
    pub fn of_word(word: &str) -> Option<Quantity> {
        Quantity::ALL.into_iter().find(|it| it.word() == word)
    }

    /// Returns the name shown to users.
    pub const fn title(self) -> &'static str {
        match self {
            Quantity::Goodput => "throughput",
            Quantity::Available => "available bandwidth",
            Quantity::Capacity => "capacity",
            Quantity::RttFloor => "RTT floor",
            Quantity::Loss => "loss",
            Quantity::Retransmits => "retransmitted",
            Quantity::Hops => "hops",
        }
    }

    /// Returns the unit suffix of JSON names: `bps`, `us`, `ratio`, `count`.
    pub const fn unit(self) -> &'static str {
        match self {
            Quantity::Goodput | Quantity::Available | Quantity::Capacity => "bps",
            Quantity::RttFloor => "us",
            Quantity::Loss | Quantity::Retransmits => "ratio",
            Quantity::Hops => "count",
        }
    }

    pub const fn scale(self) -> Scale {
        match self {
            Quantity::Loss | Quantity::Retransmits => Scale::Share,
            Quantity::Hops => Scale::Count,
            _ => Scale::Ratio,
        }
    }

    /// Returns true if larger is better; `None` for quantities without a preference.
    pub const fn more_is_better(self) -> Option<bool> {
        match self {
            Quantity::Goodput | Quantity::Available | Quantity::Capacity => Some(true),
            Quantity::RttFloor | Quantity::Loss | Quantity::Retransmits => Some(false),
            Quantity::Hops => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Quantity;

    #[test]
    fn words_come_back() {
        for quantity in Quantity::ALL {
            assert_eq!(Quantity::of_word(quantity.word()), Some(quantity));
        }
        assert_eq!(Quantity::of_word("speed"), None);
    }
}
