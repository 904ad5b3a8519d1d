//! How far cities are apart. Whoever asks for a check knows where they are.

/// The way between the points that stand for two cities.
#[derive(Debug, Clone, PartialEq)]
pub struct Between {
    /// Of the geodesic.
    pub metres: f64,
    /// Which points: `LAX-SJC`.
    pub points: String,
}

/// Knows where cities are.
pub trait Places {
    /// `None` where one of the cities is not known.
    fn between(&self, from: &str, to: &str) -> Option<Between>;
}
