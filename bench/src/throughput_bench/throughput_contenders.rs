//! The compared programs, and their command lines.
//!
//! A class is defined by the handling of the payload at both ends; programs are compared only
//! within a class.

use crate::bench_cases::read_cases;
use crate::interop_matrix::interop_peer;
use serde::Deserialize;
use std::path::Path;

/// A contender of `cases.toml`, with the programs filled in by [`list_contenders`].
#[derive(Debug, Clone, Deserialize)]
pub struct ThroughputContender {
    pub class: String,
    pub name: String,
    far: String,
    near: String,
    #[serde(skip)]
    longhaul: String,
    #[serde(skip)]
    newest: String,
}

/// Returns all contenders, without those of the newest libiperf if it is missing.
pub fn list_contenders(longhaul: &Path) -> Result<Vec<ThroughputContender>, String> {
    let newest = interop_peer::find_newest_iperf3();
    let mut all: Vec<ThroughputContender> = read_cases("contender")?;
    all.retain(|contender| newest.is_some() || !contender.far.contains("NEWEST"));
    for contender in &mut all {
        contender.longhaul = longhaul.to_string_lossy().into_owned();
        contender.newest = newest.clone().unwrap_or_default();
    }
    Ok(all)
}

impl ThroughputContender {
    /// Returns the command that starts the far end.
    pub fn far(&self) -> Vec<String> {
        self.far.split(' ').map(|word| self.fill_program(word)).collect()
    }

    /// Returns the command that starts the near end.
    pub fn near(&self, address: &str, streams: u32) -> Vec<String> {
        let fill = |word: &str| {
            let word = word.replace("ADDRESS", address).replace("STREAMS", &streams.to_string());
            self.fill_program(&word)
        };
        self.near.split(' ').map(fill).collect()
    }

    fn fill_program(&self, word: &str) -> String {
        word.replace("LONGHAUL", &self.longhaul).replace("NEWEST", &self.newest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_begins_with_longhaul() {
        let all: Vec<ThroughputContender> = read_cases("contender").expect("contenders");
        let classes: Vec<&str> =
            all.chunk_by(|a, b| a.class == b.class).map(|it| &*it[0].far).collect();
        assert_eq!(classes, ["LONGHAUL serve"; 3]);
        let words = all[3].near("10.77.1.2", 8).join(" ");
        assert_eq!(words, "nuttcp -t -T4 -N8 10.77.1.2");
    }
}
