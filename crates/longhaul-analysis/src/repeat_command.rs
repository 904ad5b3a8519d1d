//! Commands of tests: that of a plan, and the one that repeats a run with one option changed.

use longhaul_model::report::v1::SERVER_PLACEHOLDER;
use longhaul_model::report::v1::plan::{
    DEFAULT_PRECISION_PERMILLE, ReceiveMode, RunDirection, RunTransport, StopCondition,
    ThroughputPlan,
};
use longhaul_model::units::format_option_size;

/// The options that end a run: a run has at most one of them.
const STOP_OPTIONS: [&str; 3] = ["-t", "-n", "-k"];

/// Returns the command of this plan with one option changed or added. The observation does not
/// name the server: [`SERVER_PLACEHOLDER`] stands for it until the report is complete.
pub fn format_repeat_command(plan: &ThroughputPlan, option: &str, value: &str) -> String {
    let same = |other: &str| {
        other == option || (STOP_OPTIONS.contains(&option) && STOP_OPTIONS.contains(&other))
    };
    let mut options = list_test_options(plan);
    options.retain(|(flag, _)| !same(flag));
    format!("{} {option} {value}", join_options(SERVER_PLACEHOLDER, &options))
}

/// Returns the command of this plan.
pub fn format_test_command(server: &str, plan: &ThroughputPlan) -> String {
    join_options(server, &list_test_options(plan))
}

fn join_options(server: &str, options: &[(&str, String)]) -> String {
    let mut command = format!("longhaul test {server}");
    for (flag, value) in options {
        command.push_str(format!(" {flag} {value}").trim_end());
    }
    command
}

/// Returns the options of a plan that differ from the defaults; a switch has an empty value.
fn list_test_options(plan: &ThroughputPlan) -> Vec<(&'static str, String)> {
    let default = ThroughputPlan::default();
    let size = |bytes: Option<u64>| bytes.map(format_option_size);
    let number = |value: Option<u64>| value.map(|it| it.to_string());
    let switch = |is_set: bool| is_set.then(String::new);
    let is_usual = |it: &u32| *it == DEFAULT_PRECISION_PERMILLE && plan.stop == default.stop;
    let until = plan.precision_permille.filter(|it| !is_usual(it));
    let until = until.map(|it| format!("{}%", f64::from(it) / 10.0));
    let (time_us, bytes, blocks) = match plan.stop {
        _ if plan.until_stopped => (Some(0), None, None),
        stop if stop == default.stop => (None, None, None),
        StopCondition::TimeUs(us) => (Some(us), None, None),
        StopCondition::Bytes(bytes) => (None, Some(bytes), None),
        StopCondition::Blocks(blocks) => (None, None, Some(blocks)),
    };
    let both = plan.send_buffer_bytes.filter(|it| Some(*it) == plan.receive_buffer_bytes);
    let udp_bps = match plan.transport {
        RunTransport::Udp { rate_bps } => Some(rate_bps),
        RunTransport::Tcp => None,
    };
    let options = [
        ("-R", switch(plan.direction == RunDirection::Reverse)),
        ("--bidir", switch(plan.direction == RunDirection::Both)),
        ("-u", switch(udp_bps.is_some())),
        ("-P", (plan.streams != default.streams).then(|| plan.streams.to_string())),
        ("--until", until),
        ("-t", time_us.map(|us| (us as f64 / 1e6).to_string())),
        ("-n", size(bytes)),
        ("-k", number(blocks)),
        ("-w", size(both)),
        ("--send-buffer", size(plan.send_buffer_bytes.filter(|_| both.is_none()))),
        ("--receive-buffer", size(plan.receive_buffer_bytes.filter(|_| both.is_none()))),
        ("-l", number(plan.write_bytes)),
        ("--read-length", number(plan.read_bytes)),
        ("-C", plan.congestion_control.clone()),
        ("--pacing", number(plan.pacing_bps)),
        ("-b", number(plan.write_rate_bps.or(udp_bps))),
        ("--read-rate", number(plan.read_rate_bps)),
        ("-M", plan.mss_bytes.map(|it| it.to_string())),
        ("--dscp", plan.dscp.map(|it| it.to_string())),
        ("--scavenger", switch(plan.scavenger)),
        ("--dont-fragment", switch(plan.dont_fragment)),
        ("-N", switch(plan.no_delay)),
        ("--wire", switch(plan.mode == ReceiveMode::Wire)),
        ("-Z", switch(plan.zero_copy)),
        ("-O", plan.warm_up_us.map(|us| format!("{us}us"))),
    ];
    options.into_iter().filter_map(|(flag, value)| Some((flag, value?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_repeats_the_run_with_one_option_changed() {
        let plan = ThroughputPlan {
            direction: RunDirection::Reverse,
            streams: 4,
            stop: StopCondition::Bytes(3 << 20),
            send_buffer_bytes: Some(64 << 20),
            receive_buffer_bytes: Some(64 << 20),
            congestion_control: Some("bbr".to_owned()),
            warm_up_us: Some(1_000_000),
            ..ThroughputPlan::default()
        };
        for (option, value, command) in [
            ("-P", "13", "longhaul test HOST -R -n 3M -w 64M -C bbr -O 1000000us -P 13"),
            ("-t", "31", "longhaul test HOST -R -P 4 -w 64M -C bbr -O 1000000us -t 31"),
        ] {
            assert_eq!(format_repeat_command(&plan, option, value), command);
        }
        let command = format_repeat_command(&ThroughputPlan::default(), "--pacing", "100");
        assert_eq!(command, "longhaul test HOST --pacing 100");
    }
}
