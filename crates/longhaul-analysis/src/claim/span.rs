//! The interval of values that a printed figure may stand for.

/// A non-negative interval; the upper end may be infinite.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    pub low: f64,
    pub high: f64,
}

impl Span {
    pub const NOTHING: Span = Span {
        low: 0.0,
        high: 0.0,
    };

    pub fn holds(self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    pub fn meets(self, other: Span) -> bool {
        self.low <= other.high && other.low <= self.high
    }

    pub fn times(self, other: Span) -> Span {
        Span {
            low: self.low * other.low,
            high: self.high * other.high,
        }
    }

    pub fn by(self, factor: f64) -> Span {
        Span {
            low: self.low * factor,
            high: self.high * factor,
        }
    }

    pub fn plus(self, other: Span) -> Span {
        Span {
            low: self.low + other.low,
            high: self.high + other.high,
        }
    }

    /// Divides two intervals; the result is never negative.
    pub fn over(self, other: Span) -> Span {
        Span {
            low: self.low / other.high,
            high: self.high / other.low,
        }
    }
}
