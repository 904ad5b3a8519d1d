//! The paths of fixtures/tuning.toml.

use serde::Deserialize;
use toml::Table;
use xtask::checkout;

/// Relative to the root of the checkout.
const FILE: &str = "fixtures/tuning.toml";
/// The autotuning limit of paths that do not set one.
pub const DEFAULT_BUFFER_BYTES: u64 = 64 << 20;

#[derive(Deserialize)]
struct TuneFixtureFile {
    path: Vec<TuneFixturePath>,
}

/// An emulated path.
#[derive(Debug, Clone, Deserialize)]
pub struct TuneFixturePath {
    pub name: String,
    pub rtt_ms: u64,
    pub rate_mbps: u64,
    /// The payload time of a cell of the grid.
    pub seconds: u64,
    /// The autotuning limit of the far host's receive buffer, as stored bytes.
    #[serde(default = "default_buffer_bytes")]
    pub receive: u64,
    /// The autotuning limit of the near host's send buffer.
    #[serde(default = "default_buffer_bytes")]
    pub send: u64,
    pub link: Table,
}

fn default_buffer_bytes() -> u64 {
    DEFAULT_BUFFER_BYTES
}

/// Returns all paths.
pub fn read_tune_paths() -> Result<Vec<TuneFixturePath>, String> {
    let file = checkout::find_root().join(FILE);
    let text = std::fs::read_to_string(&file).map_err(|e| format!("cannot read {FILE}: {e}"))?;
    let file: TuneFixtureFile = toml::from_str(&text).map_err(|e| format!("{FILE}: {e}"))?;
    let mut paths = file.path;
    for path in &mut paths {
        path.link.insert("rate".to_owned(), format!("{} Mbit/s", path.rate_mbps).into());
    }
    Ok(paths)
}

impl TuneFixturePath {
    /// Returns the BDP of the narrow link.
    fn bdp_bytes(&self) -> u64 {
        self.rate_mbps * self.rtt_ms * 125
    }

    /// Returns windows worth measuring, as command line words: the kernel's own, and `count` around
    /// the BDP by factors of four, none above `cap`, the largest buffer that kernels grant on
    /// request.
    pub fn windows(&self, count: u32, cap: u64) -> String {
        let most = (4 * self.bdp_bytes().next_power_of_two()).min(cap);
        let buffers = (0..count).rev().map(|k| (most >> (2 * k)).max(16 << 10));
        let mut words = vec!["auto".to_owned()];
        words.extend(buffers.map(|bytes| format!("{}K", bytes >> 10)));
        words.dedup();
        words.join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paths_of_the_checkout_are_as_many_as_the_gates_speak_of() {
        let paths = read_tune_paths().expect("the file of the checkout");
        let mut names: Vec<&str> = paths.iter().map(|path| path.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 12, "{names:?}");
    }

    #[test]
    fn windows_lie_around_the_product_of_rate_and_delay_and_below_what_is_granted() {
        let paths = read_tune_paths().expect("the file of the checkout");
        let long = paths.iter().find(|path| path.name == "clean and long");
        let long = long.expect("the clean path");
        assert_eq!(long.bdp_bytes(), 1_250_000);
        assert_eq!(long.windows(3, 64 << 20), "auto,512K,2048K,8192K");
        assert_eq!(long.windows(3, 4 << 20), "auto,256K,1024K,4096K");
    }
}
