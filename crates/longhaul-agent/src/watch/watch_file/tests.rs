#[cfg(feature = "clickhouse")]
mod database_section;
mod perfsonar_archive_section;

use super::{
    CatchUpPolicy, MeasureKind, SecretFileState, WatchFile, WatchFileContext, parse_watch_file,
};
use crate::watch::watch_forecast;
use proptest::prelude::*;
use std::path::Path;
use std::time::Duration;

const EXAMPLE: &str = include_str!("../../../../../contrib/watch.toml");

fn read_as(text: &str, agent: Option<&str>) -> Result<WatchFile, Vec<String>> {
    let look = |_: &Path| SecretFileState::Private;
    let here = WatchFileContext { agent, check_secret: &look };
    parse_watch_file("w", text, &here)
        .map_err(|problems| problems.to_string().lines().map(str::to_owned).collect())
}

fn read(text: &str) -> Result<WatchFile, Vec<String>> {
    read_as(text, None)
}

/// A small file that is right, with more at its end.
fn small(more: &str) -> String {
    format!(
        "[agent]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[host]]\nname = \"c\"\n\
         [[group]]\nname = \"g\"\nhosts = [\"b\", \"c\"]\n{more}"
    )
}

/// The problems of the small file with one measurement.
fn measured(lines: &str) -> Vec<String> {
    let text = small(&format!("[[measure]]\nname = \"m\"\n{lines}\n"));
    read(&text).err().unwrap_or_default()
}

#[test]
fn the_example_holds_what_it_says() {
    let file = read(EXAMPLE).expect("the example");
    assert_eq!(file.own_host().name, "slac");
    assert_eq!(file.agent.catch_up, CatchUpPolicy::Latest);
    assert_eq!(file.hosts.len(), 4, "the agent has a host of its own");
    let europe = file.sets.iter().find(|set| set.name == "europe");
    assert_eq!(europe.expect("the group").hosts.len(), 2);
    let bulk = file.measures.iter().find(|it| it.name == "bulk");
    let bulk = bulk.expect("the measurement");
    assert_eq!(bulk.every, Duration::from_secs(5400));
    assert_eq!((bulk.kind, bulk.time().as_secs()), (MeasureKind::Throughput, 10));
    assert_eq!(bulk.sets.len(), 2, "every set where none is named");
}

#[test]
fn each_mistake_is_told_with_its_line_key_and_remedy() {
    for (lines, told) in [
        ("kind = \"path\"", "w:10: measure.m.every: missing; write the interval"),
        (
            "kind = \"path\"\nevry = \"1 h\"",
            "w:13: measure.m.evry: unknown key; did you mean `every`?",
        ),
        (
            "kind = \"path\"\nevery = 0.5",
            "w:13: measure.m.every: `0.5` is out of range; allowed: 1 s to 366 d",
        ),
        ("kind = \"path\"\nevery = \"1 fortnight\"", "`1 fortnight` is not a duration"),
        ("kind = \"path\"\nevery = [1]", "w:13: measure.m.every: a list is not allowed here"),
        (
            "kind = \"paht\"\nevery = \"1 h\"",
            "w:12: measure.m.kind: unknown kind `paht`; did you mean `path`?",
        ),
        (
            "kind = \"path\"\nevery = \"1 h\"\nstreams = 4",
            "w:14: measure.m.streams: does not apply to kind `path`; options of `path`: count, protocol",
        ),
        ("kind = \"host\"\nevery = \"1 h\"\ntime = \"5 s\"", "`host` has no options"),
        (
            "kind = \"flows\"\nevery = \"5 s\"",
            "5 s is shorter than its runs: 1 x 10 s; write at least 10 s",
        ),
        (
            "kind = \"flows\"\nevery = \"1 h\"\nwhat = \"4711\"",
            "w:14: measure.m.what: `4711` is the number of a process, which does not last; write a \
             program, `:443` for a port, or a peer",
        ),
        (
            "kind = \"latency\"\nevery = \"1 h\"\ntwamp_control = 0",
            "w:14: measure.m.twamp_control: `0` is invalid; write a whole number from 1 to 65535",
        ),
        (
            "kind = \"latency\"\nevery = \"1 h\"\ntwamp_light = true\ntwamp_control = 862",
            "w:15: measure.m.twamp_control: `862` does not go with `twamp_light`; remove one of them",
        ),
        (
            "kind = \"latency\"\nevery = \"1 h\"\ntwamp_light = true\nkey_file = \"k\"",
            "w:15: measure.m.key_file: `k` does not go with `twamp_light`; remove one of them",
        ),
        ("kind = \"flows\"\nevery = \"1 h\"\nstreams = 4", "options of `flows`: time, what, flows"),
        (
            "kind = \"path\"\nevery = \"1 h\"\ndirections = \"forward\"",
            "remove it: one run covers everything",
        ),
        (
            "kind = \"path\"\nevery = \"1 h\"\njitter = \"40 min\"",
            "w:14: measure.m.jitter: `40 min` is too large; write at most half",
        ),
        (
            "kind = \"throughput\"\nevery = \"20 s\"",
            "20 s is shorter than its runs: 2 x 15 s, one for each direction; write at least 30 s",
        ),
        (
            "kind = \"throughput\"\nevery = \"1 h\"\nbytes_per_day = \"1 GB\"",
            "is less than one run of `m` can send, 1.164 GiB; raise it",
        ),
        (
            "kind = \"throughput\"\nevery = \"50 s\"",
            "host a would be busy 120 % of the time: `m` 6912 runs a day x 15 s, and a day has \
             86400 s; measure less often, or shorter",
        ),
        (
            "kind = \"path\"\nevery = \"1 h\"\ngroups = [\"G\"]",
            "unknown group `G`; did you mean `g`? known: g",
        ),
    ] {
        let problems = measured(lines);
        let found = problems.iter().any(|problem| problem.contains(told));
        assert!(found, "{lines}\nwanted {told}\ngot {problems:#?}");
    }
}

#[test]
fn runs_on_a_shared_link_add_up() {
    let text = |every: &str| {
        format!(
            "[agent]\nname = \"a\"\n[[link]]\nname = \"l\"\n\
             [[host]]\nname = \"b\"\nlinks = [\"l\"]\n[[host]]\nname = \"c\"\nlinks = [\"l\"]\n\
             [[target]]\nhost = \"b\"\n[[target]]\nhost = \"c\"\n\
             [[measure]]\nname = \"m\"\nkind = \"throughput\"\nevery = \"{every}\"\n"
        )
    };
    let file = read(&text("2 min")).expect("half of the time");
    let shares = watch_forecast::compute_shares(&file);
    let link = shares.iter().find(|it| it.resource == "link l");
    assert!((link.expect("the link").share - 0.5).abs() < 1e-9);
    assert!(read(&text("1 min")).is_ok(), "all of the time, just");
    assert!(read(&text("59 s")).is_err());
}

#[test]
fn a_mesh_of_unknown_hosts_alone_is_told() {
    let mesh = "[[mesh]]\nname = \"m\"\nhosts = [\"nowhere\"]\n";
    let measure = "[[measure]]\nname = \"bulk\"\nkind = \"throughput\"\nevery = \"1 h\"\n";
    let problems = read(&small(&format!("{mesh}{measure}"))).expect_err("no such host");
    assert!(problems.join("\n").contains("unknown host `nowhere`"), "{problems:#?}");
}

#[test]
fn a_mesh_says_how_often_its_pairs_can_have_their_turn() {
    let hosts: Vec<String> = (0..20).map(|n| format!("\"h{n}\"")).collect();
    let each =
        hosts.iter().map(|name| format!("[[host]]\nname = {name}\n")).collect::<Vec<_>>().concat();
    let text = |every: &str| {
        format!(
            "[agent]\n{each}[[mesh]]\nname = \"m\"\nhosts = [{}]\n\
             [[measure]]\nname = \"bulk\"\nkind = \"throughput\"\nevery = \"{every}\"\n",
            hosts.join(", ")
        )
    };
    let problems = read_as(&text("11 min"), Some("h0")).expect_err("too often");
    let told = "a pair has one turn in 12 min: 19 rounds of 38 s; `bulk` every 11 min would take";
    assert!(problems[0].contains(told), "{problems:#?}");
    let file = read_as(&text("13 min"), Some("h0")).expect("often enough");
    let turns = watch_forecast::forecast_mesh(&file).expect("turns");
    assert_eq!((turns.agents, turns.rounds, turns.min_rounds), (20, 19, 19));
}

#[test]
fn secrets_in_addresses_are_refused_and_not_repeated() {
    let text = small("[notify.webhook]\nurl = \"https://me:hunter2@hooks.example.net\"\n");
    let problems = read(&text).expect_err("a secret").join("\n");
    assert!(problems.contains("put user and password into a token file"), "{problems}");
    assert!(!problems.contains("hunter2"), "{problems}");
}

#[test]
fn a_port_may_stand_in_the_address_of_a_host() {
    for (lines, address, port) in [
        ("address = \"127.0.0.1:17100\"", "127.0.0.1", 17100),
        ("address = \"[::1]:17100\"\nport = 17100", "::1", 17100),
        ("address = \"fe80::1%eth0\"\nport = 9", "fe80::1%eth0", 9),
        ("address = \"far.example.net\"", "far.example.net", 5201),
        ("port = 9", "b", 9),
    ] {
        let measure = "[[measure]]\nname = \"m\"\nkind = \"path\"\nevery = \"1 h\"\n";
        let text = small(measure).replace("name = \"b\"", &format!("name = \"b\"\n{lines}"));
        let file = read(&text).expect("a right file");
        let host = file.hosts.iter().find(|host| host.name == "b").expect("the host");
        assert_eq!((host.address.as_str(), host.port), (address, port), "{lines}");
    }
    for (lines, told) in [
        ("address = \"b:1\"\nport = 2", "has port 1, but the key `port` is 2; give the port once"),
        ("address = \"b:http\"", "is invalid: `http` is not a port"),
        ("address = \"a b\"", "is invalid: not a host name or address"),
    ] {
        let text = small("").replace("name = \"b\"", &format!("name = \"b\"\n{lines}"));
        let problems = read(&text).expect_err("a wrong file").join("\n");
        assert!(problems.contains(told), "{problems}");
        assert!(problems.starts_with("w:5: host"), "{problems}");
    }
}

#[test]
fn more_problems_than_anybody_reads_are_counted() {
    let many = (0..150).map(|n| format!("k{n} = 1\n")).collect::<Vec<_>>().concat();
    let problems = read(&format!("{many}[agent]\nname = \"a\"\n")).expect_err("unknown keys");
    assert_eq!(problems.len(), 101);
    assert!(problems[100].ends_with("50 more"), "{}", problems[100]);
}

/// Whatever the text: an answer, each problem on a line of the file, in one line.
fn survives(text: &str) -> Result<(), TestCaseError> {
    let look = |_: &Path| SecretFileState::Unreadable("gone".to_owned());
    let here = WatchFileContext { agent: None, check_secret: &look };
    let lines = text.matches('\n').count() + 1;
    if let Err(problems) = parse_watch_file("w", text, &here) {
        prop_assert!(!problems.list.is_empty());
        for problem in &problems.list {
            prop_assert!(problem.line <= lines, "{problem:?} of {lines}");
            let clean = |text: &str| !text.contains(char::is_control);
            prop_assert!(clean(&problem.what) && clean(&problem.key), "{problem:?}");
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn arbitrary_text_never_panics(text in any::<String>()) {
        survives(&text)?;
    }

    #[test]
    fn toml_of_any_shape_never_panics(
        lines in prop::collection::vec(
            (
                prop::sample::select(vec![
                    "[agent]", "[[host]]", "[[link]]", "[[group]]", "[[mesh]]", "[[target]]",
                    "[[measure]]", "[detect]", "[notify.webhook]", "[otlp]", "[collector]", "[retain]", "",
                ]),
                prop::sample::select(vec![
                    "name", "address", "kind", "every", "hosts", "groups", "links", "rate",
                    "bytes_per_day", "jitter", "time", "probes", "listen", "latitude", "to",
                ]),
                prop::sample::select(vec![
                    "\"a\"", "\"b\"", "\"path\"", "\"tune\"", "\"load\"", "\"1 h\"", "\"1e400 s\"",
                    "\"99999999 d\"", "-1", "1e308", "nan", "18446744073709551616", "[]",
                    "[\"a\", \"b\"]", "{}", "true", "1979-05-27", "\"\\u0007\"", "\"16 EiB\"",
                ]),
            ),
            0..40,
        ),
    ) {
        let text = lines
            .iter()
            .map(|(header, key, value)| format!("{header}\n{key} = {value}\n"))
            .collect::<Vec<_>>().concat();
        survives(&text)?;
    }

    #[test]
    fn a_file_with_lines_dropped_doubled_or_cut_never_panics(
        edits in prop::collection::vec((0_usize..200, 0_u8..3, 0_usize..40), 1..8),
    ) {
        let mut lines: Vec<String> = EXAMPLE.lines().map(str::to_owned).collect();
        for (at, edit, column) in edits {
            let at = at % lines.len();
            match edit {
                0 => drop(lines.remove(at)),
                1 => lines.insert(at, lines[at].clone()),
                _ => lines[at] = lines[at].chars().take(column).collect(),
            }
            if lines.is_empty() {
                lines.push(String::new());
            }
        }
        survives(&lines.join("\n"))?;
    }
}
