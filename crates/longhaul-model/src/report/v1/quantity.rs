//! The quantities that are followed over time.

use serde::{Deserialize, Serialize};

/// What a series is of. One value a run and direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Of the steady part of a bulk run, by the receiver, bit/s.
    Goodput,
    /// Available bandwidth, bit/s of IP.
    Available,
    /// Of the narrow link, bit/s of IP.
    Capacity,
    /// Least round-trip time of a run, us.
    RttFloor,
    /// Of probes or packets, 0 to 1.
    Loss,
    /// Of segments sent by a bulk run, 0 to 1.
    Retransmits,
    /// Routers and the end itself.
    Hops,
}

/// How differences of a quantity are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// By ratio: the logarithm has even noise.
    Ratio,
    /// A share of many: the arcsine of its root has even noise.
    Share,
    /// As it is.
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

    /// The word in JSON, in the archive and in an address.
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

    /// The quantity of that word.
    pub fn of_word(word: &str) -> Option<Quantity> {
        Quantity::ALL.into_iter().find(|it| it.word() == word)
    }

    /// For people.
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

    /// The ending of a JSON name of a value: `bps`, `us`, `ratio`, `count`.
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

    /// Whether more of it is better; absent: neither way is.
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
