//! The paths of fixtures/tuning.toml.

use crate::narrow_path::NarrowPath;
use toml::{Table, Value};
use xtask::checkout;

/// Relative to the root of the checkout.
const FILE: &str = "fixtures/tuning.toml";
/// The autotuning limit of paths that do not set one.
const DEFAULT_BUFFER_BYTES: u64 = 64 << 20;
const CONGESTION_CONTROL: (&str, &str) = ("net.ipv4.tcp_congestion_control", "cubic");

/// The contents of the file.
#[derive(Debug, Clone)]
pub struct TuneFixturePaths {
    /// The paths on which the search is judged.
    pub tune: Vec<TuneFixturePath>,
    /// The paths on which predictions are judged.
    pub predict: Vec<TuneFixturePath>,
}

/// An emulated path.
#[derive(Debug, Clone, PartialEq)]
pub struct TuneFixturePath {
    pub name: String,
    pub rtt_ms: u64,
    pub rate_mbps: u64,
    /// The payload time of a cell of the grid.
    pub seconds: u64,
    /// The autotuning limit of the far host's receive buffer, as stored bytes.
    receive: u64,
    /// The autotuning limit of the near host's send buffer.
    send: u64,
    link: Table,
}

impl TuneFixturePaths {
    pub fn read() -> Result<Self, String> {
        let file = checkout::find_root().join(FILE);
        let text =
            std::fs::read_to_string(&file).map_err(|e| format!("cannot read {FILE}: {e}"))?;
        Self::parse(&text).map_err(|why| format!("{FILE}: {why}"))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let root: Table = text.parse().map_err(|e: toml::de::Error| e.to_string())?;
        Ok(TuneFixturePaths {
            tune: parse_paths(&root, "path")?,
            predict: parse_paths(&root, "predict")?,
        })
    }
}

fn parse_paths(root: &Table, key: &str) -> Result<Vec<TuneFixturePath>, String> {
    let list = root.get(key).and_then(Value::as_array);
    let list = list.ok_or_else(|| format!("no [[{key}]]"))?;
    list.iter()
        .map(|item| parse_path(item).map_err(|why| format!("a [[{key}]] has {why}")))
        .collect()
}

fn parse_path(item: &Value) -> Result<TuneFixturePath, String> {
    let number = |key: &str| {
        let number = item.get(key).and_then(Value::as_integer);
        number.and_then(|number| u64::try_from(number).ok())
    };
    let needed = |key: &str| number(key).ok_or_else(|| format!("no `{key}`"));
    let name = item.get("name").and_then(Value::as_str).ok_or("no name")?;
    let rate_mbps = needed("rate_mbps")?;
    let link = item.get("link").and_then(Value::as_table);
    let mut link = link.cloned().ok_or("no link")?;
    let rate = Value::from(format!("{rate_mbps} Mbit/s"));
    link.insert("rate".to_owned(), rate);
    Ok(TuneFixturePath {
        name: name.to_owned(),
        rtt_ms: needed("rtt_ms")?,
        rate_mbps,
        seconds: needed("seconds")?,
        receive: number("receive").unwrap_or(DEFAULT_BUFFER_BYTES),
        send: number("send").unwrap_or(DEFAULT_BUFFER_BYTES),
        link,
    })
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
        let (free, receive, send) = (
            buffer(DEFAULT_BUFFER_BYTES),
            buffer(self.receive),
            buffer(self.send),
        );
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
        let mut keys: Vec<String> = paths
            .tune
            .iter()
            .chain(&paths.predict)
            .map(TuneFixturePath::key)
            .collect();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 15, "{keys:?}");
        for path in paths.tune.iter().chain(&paths.predict) {
            let file = path.file().expect(&path.name);
            assert!(
                file.contains(&format!("{} Mbit/s", path.rate_mbps)),
                "{file}"
            );
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
