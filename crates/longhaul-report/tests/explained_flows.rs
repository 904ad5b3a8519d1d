//! Conclusions from a recorded transfer of another program: rclone over SFTP at 100 ms.

use longhaul_analysis::flow_analysis::conclude_flows;
use longhaul_model::report::v1::FlowsReport;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::flows::ProcessActivity;

fn read_fixture() -> FlowsReport {
    let text = include_str!("../../../fixtures/reports/flows-rclone.json");
    serde_json::from_str(text).expect("a report")
}

fn conclude_with(activity: ProcessActivity) -> Vec<String> {
    let mut report = read_fixture();
    report.observation.transfers[0].activity = Some(activity);
    let findings = conclude_flows(&report.observation).findings;
    findings.into_iter().map(|found| found.cause).collect()
}

const SECOND: ProcessActivity = ProcessActivity {
    elapsed_us: 1_000_000,
    threads: 8,
    cpu_us: 300_000,
    busiest_thread_us: 200_000,
    samples: 20,
    disk_wait_samples: 0,
    disk_wait_us: None,
    io_stall_us: None,
    memory_stall_us: None,
    disk_read_bytes: Some(0),
    disk_write_bytes: Some(0),
    throttled_us: None,
    quota_core_permille: None,
};

#[test]
fn requests_that_wait_for_answers_bound_the_rate_by_bytes_per_round_trip() {
    let report = read_fixture();
    let concluded = conclude_flows(&report.observation);
    let transfer = &concluded.analysis.transfers[0];
    assert_eq!(transfer.run.limited_by, Limiter::Application);
    let requests = transfer.requests.expect("requests");
    // rclone keeps 64 requests of 32 KiB outstanding.
    let error = requests.round_trip_bytes as f64 / (2 << 20) as f64 - 1.0;
    assert!(error.abs() < 0.1, "{requests:?}");
    let goodput = transfer.run.goodput_bps.expect("a goodput") as f64;
    assert!((requests.bound_bps as f64 / goodput - 1.0).abs() < 0.1);
    assert_eq!(concluded.findings[0].cause, "request_response");
    let mut advice = concluded.findings[0].advice.iter();
    assert!(advice.any(|it| it.text.contains("`--transfers 16`")));
}

#[test]
fn requests_over_ssh_that_move_less_than_its_window_are_not_the_limit() {
    // sftp keeps 2 MiB outstanding; over this path of 15.8 Mbit/s and 150 ms moved 283 kB per round trip.
    let text = include_str!("../../../fixtures/reports/flows-sftp-receiver.json");
    let mut report: FlowsReport = serde_json::from_str(text).expect("a report");
    let limiter = |report: &FlowsReport| {
        conclude_flows(&report.observation).analysis.transfers[0].run.limited_by
    };
    assert_ne!(limiter(&report), Limiter::Application);
    let process = report.observation.transfers[0].process.as_mut().expect("a process");
    process.name = "python3".to_owned();
    assert_eq!(limiter(&report), Limiter::Application, "its window is unknown");
}

#[test]
fn a_disk_a_quota_and_a_busy_thread_come_before_requests() {
    assert_eq!(conclude_with(SECOND), ["request_response"]);
    assert_eq!(conclude_with(ProcessActivity { disk_wait_samples: 12, ..SECOND }), ["slow_disk"]);
    let throttled = ProcessActivity {
        throttled_us: Some(400_000),
        quota_core_permille: Some(250),
        disk_wait_samples: 12,
        ..SECOND
    };
    assert_eq!(conclude_with(throttled), ["cpu_quota"]);
    let waiting = ProcessActivity { disk_wait_us: Some(400_000), ..SECOND };
    assert_eq!(conclude_with(waiting), ["slow_disk"], "between two samples");
    let thrashing =
        ProcessActivity { memory_stall_us: Some(300_000), disk_wait_samples: 12, ..SECOND };
    assert_eq!(conclude_with(thrashing), ["memory_pressure"]);
    let busy = ProcessActivity { busiest_thread_us: 950_000, ..SECOND };
    assert_eq!(conclude_with(busy), ["cpu_sender"]);
}

#[test]
fn several_transfers_are_named_in_their_findings() {
    let mut report = read_fixture();
    let copy = report.observation.transfers[0].clone();
    report.observation.transfers.push(copy);
    for found in conclude_flows(&report.observation).findings {
        assert!(found.summary.starts_with("rclone ("), "{}", found.summary);
    }
}

#[test]
fn each_transfer_names_its_own_findings() {
    let mut report = read_fixture();
    let mut other = report.observation.transfers[0].clone();
    other.peer = "192.0.2.9".to_owned();
    report.observation.transfers.push(other);
    let concluded = conclude_flows(&report.observation);
    let peers = concluded.analysis.transfers.iter().zip(["to 10.77.0.2", "to 192.0.2.9"]);
    for (transfer, peer) in peers {
        assert!(!transfer.finding_index.is_empty(), "{peer}");
        for at in &transfer.finding_index {
            let finding = &concluded.findings[*at as usize];
            assert!(finding.summary.contains(peer), "{peer}: {}", finding.summary);
        }
    }
}
