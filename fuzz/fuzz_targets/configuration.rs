//! Any text as a watch file, a list of hosts, a template of pSConfig or a path file: no reader panics, every problem has its
//! text, and what is accepted can be forecast, scheduled and emulated.

#![no_main]

use libfuzzer_sys::fuzz_target;
use longhaul_agent::included_files::parse_host_list;
use longhaul_agent::psconfig::convert_template;
use longhaul_agent::watch::measure_jobs::{MeshTurns, build_jobs};
use longhaul_agent::watch::run_schedule::{ClockTimes, RunSchedule};
use longhaul_agent::watch::watch_file::{
    SecretFileState, WatchFile, WatchFileContext, list_value_problems, parse_watch_file,
};
use longhaul_agent::watch::{DAY_US, watch_forecast};
use longhaul_agent::watch_cost::build_watch_cost_document;
use longhaul_lab::emulation_engine::{EmulationEngine, Nanos};
use longhaul_lab::path_description::describe_path;
use longhaul_lab::path_file::parse_path_file;
use longhaul_lab::path_spec;
use longhaul_model::sanitize::is_unsafe_char;
use longhaul_model::units::{Bytes, Rate, parse_duration};

fuzz_target!(|bytes: &[u8]| {
    let Some((&kind, rest)) = bytes.split_first() else {
        return;
    };
    let text = String::from_utf8_lossy(rest);
    match kind % 5 {
        0 => read_watch_file(&text),
        1 => read_path_file(&text),
        2 => read_host_list(&text),
        3 => read_template(&text),
        _ => read_value(&text),
    }
});

fn check_problems(problems: &impl ToString) {
    let text = problems.to_string();
    assert!(!text.is_empty());
    assert!(!text.contains(|it| it != '\n' && is_unsafe_char(it)), "{text:?}");
}

fn read_watch_file(text: &str) {
    if let Some(problems) = list_value_problems("watch.toml", text) {
        check_problems(&problems);
    }
    let check_secret = |_: &std::path::Path| SecretFileState::Private;
    let context = WatchFileContext { agent: None, check_secret: &check_secret };
    match parse_watch_file("watch.toml", text, &context) {
        Ok(file) => use_watch_file(&file),
        Err(problems) => check_problems(&problems),
    }
}

/// Two days of the file's schedule, none of whose runs ends.
fn use_watch_file(file: &WatchFile) {
    let forecast = watch_forecast::build_forecast(file);
    assert!(!build_watch_cost_document(file, &forecast).text().is_empty());
    let turns = MeshTurns::from_file(file);
    let jobs = build_jobs(file, turns.as_ref(), 7);
    let mut schedule = RunSchedule::with_turns(file, turns.as_ref(), 7);
    let mut now_us = 0;
    for _ in 0..100 {
        let now = ClockTimes { wall_us: now_us, steady_us: now_us };
        let started = schedule.start_due(now);
        assert!(started.len() <= jobs.len());
        schedule.take_notes();
        match schedule.next_at() {
            Some(at) if at < 2 * DAY_US => now_us = at.max(now_us + 1),
            _ => break,
        }
    }
}

fn read_host_list(text: &str) {
    if let Err(problems) = parse_host_list("hosts.json", text, &|value| value, "") {
        check_problems(&problems);
    }
}

/// What a template becomes is a watch file, right or with problems.
fn read_template(text: &str) {
    match convert_template("mesh.json", text, &["a".to_owned(), "192.0.2.1".to_owned()]) {
        Ok(converted) => {
            assert!(!converted.notes.iter().any(|note| note.contains(is_unsafe_char)));
            read_watch_file(&format!("[agent]\nname = \"a\"\n{}", converted.tables));
        }
        Err(problems) => check_problems(&problems),
    }
}

fn read_path_file(text: &str) {
    let path = match parse_path_file("path.toml", "path", text, &[]) {
        Ok(path) => path,
        Err(problems) => return check_problems(&problems),
    };
    assert!(!describe_path(&path).is_empty());
    path_spec::compute_rtt(&path);
    path_spec::compute_bdp_bytes(&path);
    for forward in [true, false] {
        path_spec::find_path_mtu(&path, forward);
        path_spec::compute_goodput_limit(&path, forward);
    }
    let mut engine = EmulationEngine::new(&path, Nanos::default());
    for _ in 0..100 {
        let Some(due) = engine.next_due() else { break };
        while engine.advance(due).is_some() {}
    }
}

/// The values that options and files share.
fn read_value(text: &str) {
    if let Ok(rate) = text.parse::<Rate>() {
        assert!(rate.to_string().parse::<Rate>().is_ok(), "{rate}");
    }
    if let Ok(bytes) = text.parse::<Bytes>() {
        assert!(bytes.to_string().parse::<Bytes>().is_ok(), "{bytes}");
    }
    let _ = parse_duration(text);
}
