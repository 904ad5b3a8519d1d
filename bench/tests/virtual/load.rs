//! The delay of a full queue under load, and the share that a yielding sender leaves to others. Needs
//! root.

use crate::lab_report::lab_report;
use serde_json::Value;
use std::path::PathBuf;

crate::virtual_tests!(
    round_trips_rise_by_what_the_queue_holds,
    a_sender_that_yields_leaves_the_competitor_nine_tenths,
    delays_under_load_are_those_of_ping,
);

/// Writes a path with one narrow link between two wide ones.
fn path_file(name: &str, rate: &str, queue: &str) -> PathBuf {
    let host = |end: &str| {
        format!(
            "[{end}.sysctl]\n\"net.ipv4.tcp_congestion_control\" = \"cubic\"\n\
             \"net.ipv4.tcp_rmem\" = \"4096 131072 33554432\"\n\
             \"net.ipv4.tcp_wmem\" = \"4096 65536 33554432\"\n"
        )
    };
    let hops = format!(
        "[[hops]]\nname = \"access\"\ndelay = \"1 ms\"\nrate = \"10 Gbit/s\"\n\
         [[hops]]\nname = \"narrow\"\ndelay = \"9 ms\"\nrate = \"{rate}\"\nqueue = \"{queue}\"\n\
         [[hops]]\nname = \"far\"\ndelay = \"1 ms\"\nrate = \"10 Gbit/s\"\n"
    );
    let folder = std::env::temp_dir().join(format!("longhaul-load-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the path");
    let file = folder.join(format!("{name}.toml"));
    std::fs::write(&file, host("near") + &host("far") + &hops).expect("the path file");
    file
}

/// Returns the report of `longhaul load` on such a path, and the path's truth.
fn load(name: &str, rate: &str, queue: &str, options: &[&str]) -> (Value, Value) {
    let file = path_file(name, rate, queue);
    let truth = file.with_extension("json");
    let lab = [&file, &truth].map(|it| it.to_str().expect("UTF-8"));
    let lab = [lab[0], "--truth", lab[1]];
    let report = lab_report(&lab, &[&["load", "far"], options].concat());
    let truth = std::fs::read_to_string(&truth).expect("the truth");
    (report, serde_json::from_str(&truth).expect("JSON"))
}

fn round_trips_rise_by_what_the_queue_holds() {
    let (report, truth) = load("queue", "25 Mbit/s", "1 MB", &["-t", "5s", "--idle", "1s"]);
    let link = &truth["routes"][0]["hops"][1]["forward"];
    let queue = link["queue_peak_bytes"].as_f64().expect("a queue");
    assert!(queue > 0.975e6, "the load fills the queue: {queue} bytes");
    let step = &report["analysis"]["steps"][0];
    let found = step["queue_bytes"].as_f64();
    let found = found.unwrap_or_else(|| panic!("no queue: {step:#}"));
    // The round trip counts IP, the queue the wire: 38 bytes more for each packet of 1500.
    assert!((found / queue - 1.0).abs() <= 0.05, "{found} for {queue}: {step:#}");
    assert_eq!(step["grew"], "forward", "{step:#}");
}

fn a_sender_that_yields_leaves_the_competitor_nine_tenths() {
    let options = ["-t", "4s", "--idle", "1s", "--scavenger", "--competitor"];
    let (report, _) = load("scavenger", "10 Mbit/s", "100 kB", &options);
    let it = &report["analysis"]["scavenger"];
    let kept = it["competitor_kept_yielding_ratio"].as_f64();
    assert!(kept >= Some(0.90), "{:#}", report["analysis"]);
    assert_eq!((&it["plain_step"], &it["yielding_step"]), (&1.into(), &2.into()), "{it:#}");
}

fn delays_under_load_are_those_of_ping() {
    crate::path::check_path_cell("delay under load", 3);
    crate::path::check_path_cell("delay under load, managed queue", 4);
}
