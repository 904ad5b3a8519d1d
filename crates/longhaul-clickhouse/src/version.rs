//! Which versions of the server serve.

/// Year and release of the oldest ClickHouse that is taken: the first one kept for long that has
/// every setting of [`crate::door`]; `lightweight_deletes_sync` is of 24.4.
pub const FLOOR: (u32, u32) = (24, 8);

/// Whether a version, as the server says it, is at least [`FLOOR`]. One that cannot be read is
/// not.
pub fn is_enough(version: &str) -> bool {
    let mut parts = version.split('.').map(str::parse::<u32>);
    match (parts.next(), parts.next()) {
        (Some(Ok(year)), Some(Ok(release))) => (year, release) >= FLOOR,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::is_enough;

    #[test]
    fn versions_are_compared_as_numbers() {
        for version in ["24.8.1.2684", "24.10.1", "26.9.2.1", "100.1"] {
            assert!(is_enough(version), "{version}");
        }
        for version in ["24.7.9", "24.3.2", "9.8", "18.16.1", "24", "", "x.y"] {
            assert!(!is_enough(version), "{version}");
        }
    }
}
