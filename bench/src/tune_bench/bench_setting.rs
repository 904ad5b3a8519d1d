//! Settings as in a scan's report, and the options of `longhaul test` for them.

use serde_json::Value;

/// A setting: by default one stream, with everything left to the kernel.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BenchSetting {
    pub window_bytes: Option<u64>,
    pub streams: u64,
    pub congestion_control: Option<String>,
    pub pacing_bps: Option<u64>,
}

impl BenchSetting {
    pub fn default_of_kernel() -> Self {
        BenchSetting { streams: 1, ..BenchSetting::default() }
    }

    /// Reads the `setting` of a choice; `None` if there is none.
    pub fn read(setting: &Value) -> Option<Self> {
        Some(BenchSetting {
            window_bytes: setting["window_bytes"].as_u64(),
            streams: setting["streams"].as_u64()?,
            congestion_control: setting["congestion_control"].as_str().map(str::to_owned),
            pacing_bps: setting["pacing_bps"].as_u64(),
        })
    }

    /// Returns the options of `longhaul test`.
    pub fn options(&self) -> Vec<String> {
        let mut options = vec!["-P".to_owned(), self.streams.to_string()];
        let others = [
            ("--window", self.window_bytes.map(|n| n.to_string())),
            ("-C", self.congestion_control.clone()),
            ("--pacing", self.pacing_bps.map(|n| n.to_string())),
        ];
        for (option, value) in others {
            options.extend(value.into_iter().flat_map(|value| [option.to_owned(), value]));
        }
        options
    }

    /// Formats `8 x 1 MiB bbr` for a table.
    pub fn format_short(&self) -> String {
        let window = match self.window_bytes {
            None => "auto".to_owned(),
            Some(bytes) if bytes >= 1 << 20 => {
                format!("{:.3} MiB", bytes as f64 / f64::from(1 << 20))
            }
            Some(bytes) => format!("{} KiB", bytes >> 10),
        };
        let window = window.replace(".000", "");
        let control = self.congestion_control.iter().map(|name| format!(" {name}"));
        let pace = self.pacing_bps.map(|bps| format!(" at {:.1} Mbit/s", bps as f64 / 1e6));
        let rest: String = control.chain(pace).collect();
        format!("{} x {window}{rest}", self.streams)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_setting_is_asked_for_as_it_was_reported() {
        let setting = json!({"streams": 8, "window_bytes": 1_048_576, "congestion_control": "bbr",
            "pacing_bps": 5_000_000});
        let setting = BenchSetting::read(&setting).expect("a setting");
        assert_eq!(setting.format_short(), "8 x 1 MiB bbr at 5.0 Mbit/s");
        let options = setting.options().join(" ");
        assert_eq!(options, "-P 8 --window 1048576 -C bbr --pacing 5000000");
        let plain = BenchSetting::default_of_kernel();
        assert_eq!(
            (plain.format_short(), plain.options().join(" ")),
            ("1 x auto".to_owned(), "-P 1".to_owned())
        );
        assert_eq!(BenchSetting::read(&json!(null)), None);
    }
}
