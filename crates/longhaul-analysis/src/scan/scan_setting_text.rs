//! Formatting of settings in sentences.

use longhaul_model::report::v1::scan::TransferSetting;
use longhaul_model::units::{Bytes, Rate, count_of};

/// Formats a setting: `8 streams of 1 MiB`, `1 stream with auto window and bbr`.
pub fn format_setting_phrase(setting: &TransferSetting) -> String {
    let streams = count_of(u64::from(setting.streams), "stream");
    let window = setting.window_bytes.map_or_else(
        || format!("{streams} with auto window"),
        |bytes| format!("{streams} of {}", Bytes(bytes)),
    );
    let control = setting.congestion_control.as_ref();
    let control = control.map_or(String::new(), |name| format!(" and {name}"));
    let pacing = setting
        .pacing_bps
        .map_or(String::new(), |bps| format!(", each paced at {}", Rate::bits_per_second(bps)));
    format!("{window}{control}{pacing}")
}

pub fn name_direction(forward: bool) -> &'static str {
    if forward { "forward" } else { "reverse" }
}
