//! The interval of values that a printed figure may stand for.

/// A non-negative interval; the upper end may be infinite.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FigureInterval {
    pub low: f64,
    pub high: f64,
}

impl FigureInterval {
    pub const NOTHING: FigureInterval = FigureInterval {
        low: 0.0,
        high: 0.0,
    };

    pub fn contains(self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    pub fn overlaps(self, other: FigureInterval) -> bool {
        self.low <= other.high && other.low <= self.high
    }

    pub fn times(self, other: FigureInterval) -> FigureInterval {
        FigureInterval {
            low: self.low * other.low,
            high: self.high * other.high,
        }
    }

    pub fn scaled(self, factor: f64) -> FigureInterval {
        FigureInterval {
            low: self.low * factor,
            high: self.high * factor,
        }
    }

    pub fn plus(self, other: FigureInterval) -> FigureInterval {
        FigureInterval {
            low: self.low + other.low,
            high: self.high + other.high,
        }
    }

    /// Divides two intervals; the result is never negative.
    pub fn divided(self, other: FigureInterval) -> FigureInterval {
        FigureInterval {
            low: self.low / other.high,
            high: self.high / other.low,
        }
    }
}
