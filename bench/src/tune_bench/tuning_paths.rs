//! The paths of fixtures/tuning.toml.

use crate::narrow_path::NarrowPath;
use serde::Deserialize;
use toml::Table;
use xtask::checkout;

/// Relative to the root of the checkout.
const FILE: &str = "fixtures/tuning.toml";
/// The autotuning limit of paths that do not set one.
const DEFAULT_BUFFER_BYTES: u64 = 64 << 20;
const CONGESTION_CONTROL: (&str, &str) = ("net.ipv4.tcp_congestion_control", "cubic");

/// The contents of the file.
#[derive(Debug, Clone, Deserialize)]
pub struct TuneFixturePaths {
    /// The paths on which the search is judged.
    #[serde(rename = "path")]
    pub tune: Vec<TuneFixturePath>,
    /// The paths on which predictions are judged.
    pub predict: Vec<TuneFixturePath>,
}

/// An emulated path.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct TuneFixturePath {
    pub name: String,
    pub rtt_ms: u64,
    pub rate_mbps: u64,
    /// The payload time of a cell of the grid.
    pub seconds: u64,
    /// The autotuning limit of the far host's receive buffer, as stored bytes.
    #[serde(default = "default_buffer_bytes")]
    receive: u64,
    /// The autotuning limit of the near host's send buffer.
    #[serde(default = "default_buffer_bytes")]
    send: u64,
    link: Table,
}

fn default_buffer_bytes() -> u64 {
    DEFAULT_BUFFER_BYTES
}

impl TuneFixturePaths {
    pub fn read() -> Result<Self, String> {
        let file = checkout::find_root().join(FILE);
        let text =
            std::fs::read_to_string(&file).map_err(|e| format!("cannot read {FILE}: {e}"))?;
        let mut paths: Self = toml::from_str(&text).map_err(|e| format!("{FILE}: {e}"))?;
        for path in paths.tune.iter_mut().chain(&mut paths.predict) {
            let rate = format!("{} Mbit/s", path.rate_mbps);
            path.link.insert("rate".to_owned(), rate.into());
        }
        Ok(paths)
    }
}

impl TuneFixturePath {
    /// Returns the name of the path's file.
    pub fn key(&self) -> String {
        let word = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        self.name.chars().map(word).collect()
    }

    /// Returns the BDP of the narrow link.
    fn bdp_bytes(&self) -> u64 {
        self.rate_mbps * self.rtt_ms * 125
    }

    /// Returns windows worth measuring, as command line words: the kernel's own, and `count` around
    /// the BDP by factors of four, none above `cap`, the largest buffer that kernels grant on
    /// request.
    pub fn windows(&self, count: u32, cap: u64) -> String {
        let most = (4 * self.bdp_bytes().next_power_of_two()).min(cap);
        let asked = (0..count).rev().map(|k| (most >> (2 * k)).max(16 << 10));
        let mut words = vec!["auto".to_owned()];
        words.extend(asked.map(|bytes| format!("{}K", bytes >> 10)));
        words.dedup();
        words.join(",")
    }

    /// Formats the path as a path file for `longhaul lab`.
    pub fn file(&self) -> Result<String, String> {
        let buffer = |most: u64| format!("4096 65536 {most}");
        let (free, receive, send) =
            (buffer(DEFAULT_BUFFER_BYTES), buffer(self.receive), buffer(self.send));
        let rmem = "net.ipv4.tcp_rmem";
        let wmem = "net.ipv4.tcp_wmem";
        let narrow = NarrowPath {
            title: &self.name,
            rtt_ms: self.rtt_ms,
            link: &self.link,
            near: &[CONGESTION_CONTROL, (rmem, &free), (wmem, &send)],
            far: &[CONGESTION_CONTROL, (rmem, &receive), (wmem, &free)],
        };
        narrow.path_file()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paths_of_the_checkout_are_as_many_as_the_gates_speak_of() {
        let paths = TuneFixturePaths::read().expect("the file of the checkout");
        assert_eq!((paths.tune.len(), paths.predict.len()), (12, 3));
        let mut keys: Vec<String> =
            paths.tune.iter().chain(&paths.predict).map(TuneFixturePath::key).collect();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 15, "{keys:?}");
        for path in paths.tune.iter().chain(&paths.predict) {
            let file = path.file().expect(&path.name);
            assert!(file.contains(&format!("{} Mbit/s", path.rate_mbps)), "{file}");
        }
    }

    #[test]
    fn windows_lie_around_the_product_of_rate_and_delay_and_below_what_is_granted() {
        let paths = TuneFixturePaths::read().expect("the file of the checkout");
        let long = paths.tune.iter().find(|path| path.name == "clean and long");
        let long = long.expect("the clean path");
        assert_eq!(long.bdp_bytes(), 1_250_000);
        assert_eq!(long.windows(3, 64 << 20), "auto,512K,2048K,8192K");
        assert_eq!(long.windows(3, 4 << 20), "auto,256K,1024K,4096K");
    }
}
