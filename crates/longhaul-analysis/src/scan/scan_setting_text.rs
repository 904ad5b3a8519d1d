//! Formatting of settings in sentences.

use crate::throughput::limiter_text::format_stream_count;
use longhaul_model::report::v1::scan::TransferSetting;
use longhaul_model::units::{Bytes, Rate};

/// Formats a setting: `8 streams of 1 MiB`, `1 stream with auto window and bbr`.
pub fn format_setting_phrase(setting: &TransferSetting) -> String {
    let streams = format_stream_count(setting.streams);
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
