//! The conclusions of any report, for tests and fuzzing with hostile reports.

use longhaul_analysis::audit::audit_host;
use longhaul_analysis::available_bandwidth::conclude_available;
use longhaul_analysis::copy_analysis::conclude_copy;
use longhaul_analysis::flow_analysis::conclude_flows;
use longhaul_analysis::imported::conclude_imported;
use longhaul_analysis::latency::conclude_latency;
use longhaul_analysis::load::conclude_load;
use longhaul_analysis::path::conclude_path;
use longhaul_analysis::predict::predict_goodput;
use longhaul_analysis::scan::conclude_scan;
use longhaul_analysis::throughput::conclude_throughput;
use longhaul_model::report::v1::{AnyReport, ThroughputReport};

/// Draws the conclusions of a report again from its plan and its observation; `runs` are those of a
/// scan.
pub fn conclude_again(report: &mut AnyReport, runs: &[ThroughputReport]) {
    match report {
        AnyReport::Throughput(run) => {
            let found = conclude_throughput(&run.plan, &run.observation);
            run.analysis = found.analysis;
            (run.findings, run.caveats) = (found.findings, found.caveats);
        }
        AnyReport::Scan(scan) => {
            let found = conclude_scan(&scan.plan, &scan.observation, runs, "grid_done");
            scan.analysis = found.analysis;
            (scan.findings, scan.caveats) = (found.findings, found.caveats);
        }
        AnyReport::Path(path) => {
            let found = conclude_path(&path.plan, &path.observation, &[], None);
            path.analysis = found.analysis;
            (path.findings, path.caveats) = (found.findings, found.caveats);
        }
        AnyReport::Available(available) => {
            let found = conclude_available(&available.plan, &available.observation);
            available.analysis = found.analysis;
            (available.findings, available.caveats) = (found.findings, found.caveats);
        }
        AnyReport::Load(load) => {
            let found = conclude_load(&load.plan, &load.observation);
            load.analysis = found.analysis;
            (load.findings, load.caveats) = (found.findings, found.caveats);
        }
        AnyReport::Imported(imported) => {
            let found = conclude_imported(&imported.observation);
            imported.analysis = found.analysis;
            (imported.findings, imported.caveats) = (found.findings, found.caveats);
        }
        AnyReport::Copy(copy) => {
            (copy.analysis, copy.findings) = conclude_copy(&copy.observation);
        }
        AnyReport::Flows(flows) => {
            let found = conclude_flows(&flows.observation);
            flows.analysis = found.analysis;
            (flows.findings, flows.caveats) = (found.findings, found.caveats);
        }
        AnyReport::Latency(latency) => {
            let found = conclude_latency(&latency.plan, &latency.observation);
            latency.analysis = found.analysis;
            (latency.findings, latency.caveats) = (found.findings, found.caveats);
        }
        AnyReport::Host(host) => {
            (host.analysis, host.findings, host.caveats) =
                audit_host(&host.plan, &host.observation);
        }
        AnyReport::Predict(prediction) => {
            prediction.analysis = predict_goodput(&prediction.plan, &prediction.observation);
        }
    }
}
