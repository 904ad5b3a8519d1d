//! The supported server versions.

/// Year and release of the oldest supported ClickHouse: the first long-term release with every
/// setting of [`crate::endpoint`]; `lightweight_deletes_sync` was added in 24.4.
pub const MIN_VERSION: (u32, u32) = (24, 8);

/// Returns true if a version string of the server is at least [`MIN_VERSION`], and false if it cannot be
/// parsed.
pub fn is_supported(version: &str) -> bool {
    let mut parts = version.split('.').map(str::parse::<u32>);
    match (parts.next(), parts.next()) {
        (Some(Ok(year)), Some(Ok(release))) => (year, release) >= MIN_VERSION,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::is_supported;

    #[test]
    fn versions_are_compared_as_numbers() {
        for version in ["24.8.1.2684", "24.10.1", "26.9.2.1", "100.1"] {
            assert!(is_supported(version), "{version}");
        }
        for version in ["24.7.9", "24.3.2", "9.8", "18.16.1", "24", "", "x.y"] {
            assert!(!is_supported(version), "{version}");
        }
    }
}
