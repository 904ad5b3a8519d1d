//! Distances between cities, provided by the caller of a check.

/// The distance between the points that stand for two cities.
#[derive(Debug, Clone, PartialEq)]
pub struct CityDistance {
    /// The length of the geodesic.
    pub metres: f64,
    /// The points used, such as `LAX-SJC`.
    pub points: String,
}

/// Locates cities.
pub trait CityLocator {
    /// Returns the distance between two cities; `None` if one of them is unknown.
    fn between(&self, from: &str, to: &str) -> Option<CityDistance>;
}
