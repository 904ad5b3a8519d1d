//! Formatting of settings, time spans and limiters for scans.

use crate::number_format::join_parts;
use longhaul_analysis::repeat_command;
use longhaul_analysis::scan::build_probe_plan;
use longhaul_model::report::v1::plan::ThroughputPlan;
use longhaul_model::report::v1::scan::{ScanConclusion, SettingChoice, TransferSetting};
use longhaul_model::units::{Bytes, Rate, count_of};

/// Formats a window: `auto`, `64 KiB`.
pub fn format_window(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "auto".to_owned(), |bytes| Bytes(bytes).to_string())
}

/// Formats a setting for a table, streams x window: `8 x 1 MiB bbr`.
pub fn format_setting(setting: &TransferSetting) -> String {
    let size = format_window(setting.window_bytes);
    let control = setting.congestion_control.as_ref();
    let pacing = setting.pacing_bps.map(Rate::bits_per_second);
    let parts = [
        Some(format!("{} x {size}", setting.streams)),
        control.cloned(),
        pacing.map(|rate| format!("at {rate}")),
    ];
    join_parts(" ", parts)
}

/// Describes a setting for a sentence: `8 streams, window 1 MiB, bbr`.
pub fn describe_setting(setting: &TransferSetting) -> String {
    let window = setting.window_bytes;
    let window = window.map_or("autotuned window".to_owned(), |it| format!("window {}", Bytes(it)));
    let pacing = setting.pacing_bps.map(Rate::bits_per_second);
    let parts = [
        Some(count_of(u64::from(setting.streams), "stream")),
        Some(window),
        setting.congestion_control.clone(),
        pacing.map(|rate| format!("each paced at {rate}")),
    ];
    join_parts(", ", parts)
}

/// Returns `*` for the recommended setting, `+` for another one with the highest goodput.
pub fn choice_mark(setting: &TransferSetting, conclusion: &ScanConclusion) -> char {
    let is =
        |choice: &Option<SettingChoice>| choice.as_ref().is_some_and(|c| c.setting == *setting);
    match (is(&conclusion.recommended), is(&conclusion.best)) {
        (true, _) => '*',
        (_, true) => '+',
        _ => ' ',
    }
}

/// Returns the command that tests this setting.
pub fn format_test_command(host: &str, setting: &TransferSetting, forward: bool) -> String {
    let plan = build_probe_plan(&ThroughputPlan::default(), setting, forward);
    repeat_command::format_test_command(host, &plan)
}

/// Formats a time span: `9.8 s`, `5 min`, `2 h 10 min`.
pub fn format_span(us: u64) -> String {
    let seconds = us.saturating_add(500_000) / 1_000_000;
    let two = |great: u64, name: &str, small: u64, small_name: &str| match small {
        0 => format!("{great} {name}"),
        small => format!("{great} {name} {small} {small_name}"),
    };
    match seconds {
        0..10 => format!("{:.1} s", us as f64 / 1e6).replace(".0 s", " s"),
        10..120 => format!("{seconds} s"),
        120..3600 => two(seconds / 60, "min", seconds % 60, "s"),
        _ => two(seconds / 3600, "h", seconds % 3600 / 60, "min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_becomes_a_command_that_asks_for_exactly_it() {
        let setting = TransferSetting {
            window_bytes: Some(512 << 10),
            streams: 30,
            congestion_control: Some("bbr".to_owned()),
            pacing_bps: Some(95_000_000),
        };
        assert_eq!(
            format_test_command("far", &setting, false),
            "longhaul test far -R -P 30 -w 512K -C bbr --pacing 95000000"
        );
        assert_eq!(
            format_test_command("far", &TransferSetting::default(), true),
            "longhaul test far"
        );
    }

    #[test]
    fn spans_read_as_people_say_them() {
        for (seconds, text) in [
            (0.25, "0.2 s"),
            (1.0, "1 s"),
            (9.4, "9.4 s"),
            (75.0, "75 s"),
            (300.0, "5 min"),
            (3599.9, "1 h"),
            (7800.0, "2 h 10 min"),
        ] {
            assert_eq!(format_span((seconds * 1e6) as u64), text, "{seconds}");
        }
    }
}
