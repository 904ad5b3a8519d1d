//! The identity of a path: name, address and environment. Runs in the lab and on loopback stay out
//! of what is said about other networks.

use crate::support::{Folder, fixture, longhaul, reported};
use longhaul_model::report::v1::{PathReport, RunEnvironment, ThroughputReport};
use longhaul_store::Archive;
use std::path::Path;

/// A throughput run to this address of `far`, in an environment; an empty one is unknown.
fn throughput_run(id: &str, address: &str, environment: &str) -> ThroughputReport {
    let text = fixture("slac-daresbury-window.json");
    let mut report: ThroughputReport = serde_json::from_str(&text).expect("a report");
    report.run.id = id.into();
    report.run.initiator.host = "near".into();
    report.run.responder.host = "far".into();
    report.run.responder.address = Some(address.to_owned());
    report.run.environment =
        Some(environment).filter(|it| !it.is_empty()).map(|it| RunEnvironment::from(it.to_owned()));
    report
}

/// A path run to this address of `far`, whose route has this number of hops.
fn path_run(id: &str, address: &str, environment: &str, hops: usize) -> PathReport {
    let text = fixture("path-sanjose-lulea.json");
    let mut report: PathReport = serde_json::from_str(&text).expect("a report");
    report.run = throughput_run(id, address, environment).run;
    report.observation.address = address.into();
    let route = report.observation.route.as_mut().expect("a route");
    route.to = address.into();
    route.hops.truncate(hops);
    report
}

fn archive_throughput(file: &Path, runs: &[(&str, &str, &str)]) {
    let mut archive = Archive::open(file).expect("an archive");
    for (id, address, environment) in runs {
        archive.append(&throughput_run(id, address, environment)).expect("append");
    }
}

const LAB: (&str, &str, &str) = ("lab-1", "10.77.0.2", "lab:la-geneva");
const LOOPBACK: (&str, &str, &str) = ("lo-1", "127.0.0.1", "loopback");
const NETWORK: (&str, &str, &str) = ("net-1", "192.0.2.7", "network");

#[test]
fn the_site_has_no_runs_of_the_lab_and_of_loopback_unless_they_are_requested() {
    let folder = Folder::new("identity_site");
    let file = folder.file("archive.sqlite3");
    archive_throughput(&file, &[LAB, LOOPBACK, NETWORK]);
    let site = |options: &[&str]| {
        let words = [&["site", "--json"], options].concat();
        let text = reported(&file, &words, 0);
        let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let paths = report["paths"].as_array().expect("paths").clone();
        paths.iter().map(|path| path["pair"]["to"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(site(&[]), ["far"]);
    assert_eq!(site(&["--environment", "lab:la-geneva"]), ["far"]);
    assert!(site(&["--environment", "lab:slac-sdsc"]).is_empty());
    let all = ["far (10.77.0.2)", "far (127.0.0.1)", "far (192.0.2.7)"];
    assert_eq!(site(&["--environment", "all"]), all);
}

#[test]
fn runs_of_an_earlier_version_are_read_with_a_caveat() {
    let folder = Folder::new("identity_old");
    let file = folder.file("archive.sqlite3");
    archive_throughput(&file, &[("old-1", "192.0.2.7", "")]);
    let text = reported(&file, &["site", "--json"], 0);
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(report["paths"][0]["pair"]["to"], "far");
    assert_eq!(report["caveats"][0]["code"], "environment_unknown");
    let lab = reported(&file, &["site", "--json", "--environment", "lab"], 0);
    let report: serde_json::Value = serde_json::from_str(&lab).expect("JSON");
    assert!(report["paths"].as_array().expect("paths").is_empty());
}

/// Returns the names of the paths that `longhaul host` judges.
fn audited_paths(file: &Path, lab: Option<&str>) -> Vec<String> {
    let mut command = longhaul();
    command.args(["host", "--json", "--no-save", "--archive"]).arg(file);
    command.envs(lab.map(|name| ("LONGHAUL_LAB", name)));
    let output = command.assert().success().get_output().stdout.clone();
    let report: serde_json::Value = serde_json::from_slice(&output).expect("JSON");
    let paths = report["plan"]["paths"].as_array().cloned().unwrap_or_default();
    paths.iter().map(|path| path["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_audit_of_a_host_is_not_for_the_lab_or_loopback() {
    let folder = Folder::new("identity_host");
    let file = folder.file("archive.sqlite3");
    archive_throughput(&file, &[LAB, LOOPBACK]);
    assert!(audited_paths(&file, None).is_empty());
    assert_eq!(audited_paths(&file, Some("la-geneva")), ["far"]);
    archive_throughput(&file, &[NETWORK]);
    assert_eq!(audited_paths(&file, None), ["far"]);
}

#[test]
fn the_addresses_of_a_name_are_paths_of_their_own_in_an_audit() {
    let folder = Folder::new("identity_host_dual");
    let file = folder.file("archive.sqlite3");
    archive_throughput(&file, &[NETWORK, ("net-2", "2001:db8::7", "network")]);
    let mut names = audited_paths(&file, None);
    names.sort();
    assert_eq!(names, ["far (192.0.2.7)", "far (2001:db8::7)"]);
}

#[test]
fn the_routes_of_the_two_families_of_a_name_are_no_changes_of_each_other() {
    let folder = Folder::new("identity_routes");
    let file = folder.file("archive.sqlite3");
    let mut archive = Archive::open(&file).expect("an archive");
    for report in [
        path_run("path-1", "192.0.2.7", "network", 5),
        path_run("path-2", "2001:db8::7", "network", 8),
        path_run("path-3", "10.77.0.2", "lab:la-geneva", 3),
    ] {
        archive.append(&report).expect("append");
    }
    let routes = |options: &[&str]| {
        let words = [&["routes", "far", "--since", "2000-01-01", "--json"], options].concat();
        let text = reported(&file, &words, 0);
        let tables: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let tables = tables.as_array().expect("tables").clone();
        let summary = |table: &serde_json::Value| {
            let routes = table["routes"].as_array().expect("routes").len();
            (table["host"].as_str().unwrap().to_owned(), routes)
        };
        tables.iter().map(summary).collect::<Vec<_>>()
    };
    let both = [("far (192.0.2.7)".to_owned(), 1), ("far (2001:db8::7)".to_owned(), 1)];
    assert_eq!(routes(&[]), both);
    assert_eq!(routes(&["--environment", "lab"]), [("far".to_owned(), 1)]);
}

#[test]
fn a_host_with_routes_in_another_network_only_is_named_with_that_network() {
    let folder = Folder::new("identity_elsewhere");
    let file = folder.file("archive.sqlite3");
    let mut archive = Archive::open(&file).expect("an archive");
    archive.append(&path_run("path-1", "10.77.0.2", "lab:la-geneva", 3)).expect("append");
    let text = reported(&file, &["routes", "far", "--since", "2000-01-01"], 6);
    assert!(text.contains("show those in another network with `--environment lab:la-geneva`"));
}

#[test]
fn an_unknown_environment_is_a_usage_error() {
    let mut command = longhaul();
    let failed = command.args(["report", "site", "--environment", "moon"]).assert().code(2);
    let text = String::from_utf8_lossy(&failed.get_output().stderr).into_owned();
    assert!(text.contains("must be network, loopback, lab, lab:NAME or all"), "{text}");
}
