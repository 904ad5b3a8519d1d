use super::parse_path_file;
use crate::path_catalogue;
use crate::path_spec::{ChangeSpec, CrossPattern, LinkPlace, PathSpec};
use longhaul_model::units::{Bytes, Rate};
use proptest::prelude::*;
use std::time::Duration;

const SMALL: &str = r#"
name = "a small path"
[[hops]]
name = "r1.example.net"
delay = "5 ms"
rate = "100 Mbit/s"
queue = "50 ms"
[[hops]]
name = "far"
delay = "5 ms"
loss = "0.1 %"
forward = { cross = { rate = "1M", pattern = "tcp" }, rate = "10 Mbit/s" }
reverse = { delay = "15 ms" }
[routes]
alt = [{ delay = "1 ms" }, { name = "far", delay = "2 ms" }]
[[events]]
at = "3 s"
hop = "far"
set = { loss = 0.5 }
[[events]]
at = "2 s"
hop = 2
direction = "forward"
set = { rate = "none", cross = "none", policer = { rate = "5M", burst = "64 KiB" } }
[[events]]
at = "1 s"
route = "alt"
"#;

fn read(text: &str, sets: &[&str]) -> Result<PathSpec, String> {
    let sets: Vec<String> = sets.iter().map(|&set| set.to_owned()).collect();
    parse_path_file("a.toml", "a", text, &sets).map_err(|error| error.to_string())
}

fn small(sets: &[&str]) -> PathSpec {
    read(SMALL, sets).expect("the small path")
}

#[test]
fn a_direction_overrides_its_hop_and_a_queue_in_time_takes_the_rate_of_its_link() {
    let path = small(&[]);
    assert_eq!(path.hops[0].forward.queue, Some(Bytes(625_000)));
    let far = &path.hops[1];
    assert_eq!(far.forward.rate, Some(Rate::bits_per_second(10_000_000)));
    assert_eq!(far.reverse.rate, None);
    assert_eq!(far.reverse.delay, Duration::from_millis(15));
    assert!((far.reverse.loss - 0.001).abs() < 1e-12);
    let cross = far.forward.cross.expect("cross traffic");
    assert_eq!(cross.pattern, CrossPattern::Tcp);
}

#[test]
fn a_router_may_have_labels_ways_manners_and_a_dislike_of_options() {
    use crate::path_spec::{IcmpValidity, OptionRewrite};
    let path = small(&[
        "hops.1.mpls=[16001, 24]",
        "hops.1.balance=4",
        "hops.1.icmp=forged",
        "hops.1.strip=[\"sack\", \"timestamps\"]",
        "hops.1.clamp_mss=1380",
        "far.batch=125 us",
    ]);
    let router = &path.hops[0];
    assert_eq!(router.mpls, [16_001, 24]);
    assert_eq!((router.balance, router.icmp), (4, IcmpValidity::Forged));
    let rewrite = OptionRewrite {
        sack: true,
        timestamps: true,
        clamp_mss: Some(1380),
        ..OptionRewrite::default()
    };
    assert_eq!(router.rewrite, rewrite);
    assert_eq!(path.far.batch, Duration::from_micros(125));
    let page = crate::path_description::describe_path(&path);
    for text in [
        "MPLS 16001 24",
        "4 parallel routers, balanced by flow",
        "strips sack, timestamps; clamps the MSS to 1380 bytes",
        "answers about packets that were not sent",
        "far gets its packets every 125 µs",
    ] {
        assert!(page.contains(text), "{text} is missing in\n{page}");
    }
}

#[test]
fn events_come_in_order_of_time_and_each_stands_on_those_before_it() {
    let path = small(&[]);
    let at: Vec<u64> = path.events.iter().map(|event| event.at.as_secs()).collect();
    assert_eq!(at, [1, 2, 3, 3]);
    assert_eq!(path.events[0].change, ChangeSpec::Route("alt".to_owned()));
    let ChangeSpec::Link { place: LinkPlace { forward: true, .. }, to } = &path.events[2].change
    else {
        panic!("the forward half of the third event");
    };
    assert_eq!(to.rate, None, "as the second event left it");
    assert!(to.policer.is_some(), "as the second event left it");
    assert!((to.loss - 0.5).abs() < 1e-12);
}

#[test]
fn a_set_reaches_every_kind_of_value_by_number_name_or_beginning_of_a_name() {
    let path = small(&[
        "mtu=9000",
        "hops.1.rate=1G",
        "hops.r1.example.net.delay=7 ms",
        "hops.r1.jitter=1ms",
        "hops.last.reverse.policer.rate=2 Mbit/s",
        "hops.last.reverse.policer.burst=64K",
        "hops.all.overhead=20",
        "far.sysctl.net.ipv4.tcp_rmem=4096 131072 6291456",
        "machine.sysctl.net.core.rmem_max=65536",
        "machine.required=true",
        "routes.alt.1.delay=3 ms",
        "events.1.at=4 s",
    ]);
    assert_eq!(path.mtu, 9000);
    let first = &path.hops[0].forward;
    assert_eq!(first.rate, Some(Rate::bits_per_second(1_000_000_000)));
    assert_eq!(first.delay, Duration::from_millis(7));
    assert_eq!(first.jitter, Duration::from_millis(1));
    let policer = path.hops[1].reverse.policer.expect("the new policer");
    assert_eq!(policer.burst, Bytes(65_536));
    assert!(path.hops.iter().all(|hop| hop.forward.overhead == 20));
    assert_eq!(path.far.sysctl["net.ipv4.tcp_rmem"], "4096 131072 6291456");
    assert_eq!(path.machine.sysctl["net.core.rmem_max"], "65536");
    assert!(path.machine.required);
    assert_eq!(path.routes["alt"][0].forward.delay, Duration::from_millis(3));
    assert_eq!(path.events[3].at, Duration::from_secs(4));
}

#[test]
fn a_wrong_value_is_refused_with_its_place_its_key_and_what_is_allowed() {
    let hop = |line: &str| format!("[[hops]]\ndelay = \"5 ms\"\n{line}\n");
    let router = |line: &str| format!("[[hops]]\n{line}\n[[hops]]\nname = \"far\"\n");
    let cases = [
        (hop("rte = 1"), "a.toml:3: hops.1.rte: unknown key; did you mean `rate`? known: name,"),
        (hop("rate = \"fast\""), "a.toml:3: hops.1.rate: `fast` is not a rate"),
        (hop("rate = 0"), "a.toml:3: hops.1.rate: `0` is out of range; allowed: 1 bit/s"),
        (
            hop("loss = 1.5"),
            "a.toml:3: hops.1.loss: `1.5` is invalid; write a share from 0 % to 100 %",
        ),
        (hop("delay = 1"), "a.toml:3: duplicate key"),
        (
            hop("queue = \"50 ms\""),
            "a.toml:3: hops.1.queue: `50 ms` is a time, which needs a `rate`",
        ),
        (hop("jitter = \"6 ms\""), "a.toml:3: hops.1.jitter: `6 ms` is more than the delay"),
        (
            hop("silent = 1"),
            "a.toml:3: hops.1.silent: `1` is neither true nor false; write true or false",
        ),
        (hop("policer = { rate = \"1M\" }"), "a.toml:3: hops.1.policer.burst: missing"),
        (
            hop("rate = \"1M\"\ncross = { rate = \"1M\", pattern = \"udp\" }"),
            "a.toml:4: hops.1.cross.pattern: unknown pattern `udp`; did you mean `tcp`? known: cbr, poisson, onoff, tcp",
        ),
        (hop("forward = { delya = 1 }"), "did you mean `delay`?"),
        (
            router("icmp = \"rude\""),
            "a.toml:2: hops.1.icmp: unknown icmp `rude`; known: honest, garbage, forged",
        ),
        (
            router("mpls = [1048576]"),
            "a.toml:2: hops.1.mpls: a list is not allowed here; write a list of at most 8 labels",
        ),
        (
            router("balance = 65"),
            "a.toml:2: hops.1.balance: `65` is invalid; write a whole number from 1 to 64",
        ),
        (
            router("strip = [\"mss\"]"),
            "a.toml:2: hops.1.strip: unknown entry `mss`; known: sack, window_scale",
        ),
        (
            hop("balance = 2"),
            "a.toml:3: hops.1.balance: the last hop is host far, and only routers have this",
        ),
        (hop("[near]\nbatch = \"1 s\""), "near.batch: `1 s` is longer than the 100 ms allowed"),
        (
            hop("[near.sysctl]\n\"kernel.panic\" = 1"),
            "near.sysctl: `kernel.panic` is not the name of a network sysctl",
        ),
        (hop("[[events]]\nat = 1"), "events.1: not an event; allowed: `route` alone"),
        (
            hop("[[events]]\nat = 1\nroute = \"b\""),
            "events.1.route: `b` is not a route; allowed: main",
        ),
        (
            hop("[[events]]\nat = 1\nhop = 2\nset = {}"),
            "events.1.hop: `2` is not a hop of this route; allowed: 1 to 1",
        ),
        ("hops = []".to_owned(), "a.toml:1: hops: 0 hops; allowed: 1 to 63"),
        ("mtu = 10".to_owned(), "a.toml:1: mtu: `10` is invalid; write a whole number from 68"),
        (String::new(), "a.toml:1: hops: missing; write [[hops]]"),
        ("x".to_owned(), "a.toml:1: "),
    ];
    for (text, expected) in cases {
        let error = read(&text, &[]).expect_err(&text);
        assert!(error.contains(expected), "{text:?}\n  gave     {error}\n  expected {expected}");
    }
}

#[test]
fn all_errors_of_a_file_are_reported_with_their_lines() {
    let text = "mtu = 1\n[[hops]]\ndelya = 1\nloss = 2\nforward = { rate = \"x\" }\n";
    let error = read(text, &["seed=-1"]).expect_err(text);
    let places: Vec<&str> = error.lines().map(|line| line.split(": ").next().unwrap()).collect();
    assert_eq!(
        places,
        ["a.toml:1", "a.toml:3", "a.toml:4", "a.toml:5", "--set seed=-1"],
        "{error}"
    );
}

#[test]
fn a_wrong_set_is_refused_as_it_was_typed() {
    let cases = [
        ("mtu", "--set mtu: no `=` in it"),
        ("mut=1500", "--set mut=1500: mut: unknown key; did you mean `mtu`?"),
        (
            "hops.9.rate=1G",
            "--set hops.9.rate=1G: hops.9.rate: there is no `9`; allowed: 1 to 2, `last`, `all`, or a name: r1.example.net, far",
        ),
        ("hops.1.rate=fast", "--set hops.1.rate=fast: hops.1.rate: `fast` is not a rate"),
        ("hops.1.rate.x=1", "hops.1.rate: a table"),
    ];
    for (set, expected) in cases {
        let error = read(SMALL, &[set]).expect_err(set);
        assert!(
            error.starts_with(expected) || error.contains(expected),
            "{set}\n  gave     {error}\n  expected {expected}"
        );
    }
}

#[test]
fn every_shipped_path_loads_and_is_the_path_of_its_record() {
    use crate::path_spec::{compute_goodput_limit, compute_rtt, find_narrow_link};
    let cases = [
        ("la-geneva", 9, 172_000, 6_250_000_000, 6_187_762_779),
        ("sanjose-lulea", 43, 436_600, 4_222_000_000, 4_137_709_849),
        ("slac-sdsc", 6, 29_000, 130_000_000, 122_392_717),
        ("slac-daresbury", 7, 160_000, 10_000_000, 9_414_824),
        ("slac-cesnet", 17, 165_000, 400_000_000, 376_592_977),
        ("slac-in2p3", 17, 150_000, 155_000_000, 145_929_778),
        ("slac-upgrade", 6, 50_000, 33_000_000, 31_856_000),
    ];
    assert_eq!(path_catalogue::list_shipped_paths().count(), cases.len());
    for (key, hops, rtt_us, rate_bps, goodput_bps) in cases {
        let path = path_catalogue::load_path(key, &[]).expect(key);
        assert_eq!(path.hops.len(), hops, "{key}");
        assert_eq!(compute_rtt(&path), Duration::from_micros(rtt_us), "{key}");
        let narrow = find_narrow_link(&path, true).expect(key);
        assert_eq!(narrow.rate.as_bps(), rate_bps, "{key}");
        let limit = compute_goodput_limit(&path, true).expect(key).as_bps();
        assert_eq!(limit, goodput_bps, "{key}");
        assert!(path.machine.required == (key == "slac-daresbury"), "{key}");
    }
}

#[test]
fn the_route_to_prague_changes_between_its_second_and_its_last_six_hops() {
    use crate::path_spec::{compute_rtt, find_narrow_link, resolve_hops_at_begin};
    let names = |path: &PathSpec| -> Vec<String> {
        let hops = resolve_hops_at_begin(path);
        hops.iter().map(|hop| hop.name.clone()).collect()
    };
    let before = path_catalogue::load_path("slac-cesnet", &[]).expect("the path");
    let after = path_catalogue::load_path("slac-cesnet", &["begin_at=61 s".to_owned()])
        .expect("the path later");
    let (old, new) = (names(&before), names(&after));
    assert_eq!((old.len(), new.len()), (17, 13));
    assert_eq!(old[..2], new[..2]);
    assert_eq!(old[11..], new[7..]);
    assert!(old[2..11].iter().all(|name| !new.contains(name)));
    assert_eq!(compute_rtt(&before), compute_rtt(&after));
    let capacity = |path| find_narrow_link(path, true).expect("a narrow link").rate;
    assert!(capacity(&after) > capacity(&before));
}

#[test]
fn the_route_to_lyon_takes_ten_milliseconds_more_through_a_shaper_until_it_is_repaired() {
    use crate::path_spec::{compute_link_capacity, compute_rtt, resolve_hops_at_begin};
    let at = |begin: &str| {
        let path =
            path_catalogue::load_path("slac-in2p3", &[format!("begin_at={begin}")]).expect(begin);
        let hops = resolve_hops_at_begin(&path).into_owned();
        let shaper = hops.iter().find_map(|hop| hop.forward.shaper);
        let narrow = hops.iter().filter_map(|hop| compute_link_capacity(&hop.forward)).min();
        (hops.len(), compute_rtt(&path), shaper, narrow)
    };
    let (before, shaped, repaired) = (at("0 s"), at("61 s"), at("121 s"));
    assert_eq!((before.0, shaped.0, repaired.0), (17, 15, 12));
    assert_eq!(shaped.1, before.1 + Duration::from_millis(10));
    assert_eq!(repaired.1, before.1);
    assert_eq!((before.2, repaired.2), (None, None));
    assert_eq!(before.3, repaired.3);
    let shaper = shaped.2.expect("the shaper");
    let cells = |cells: u64| Bytes(53 * cells);
    assert_eq!(shaper.burst, cells(100));
    let ip = |rate: Rate| rate.as_bps() * 1500 / (1500 + 196);
    let mbps = [shaper.peak, shaper.sustained].map(|rate| ip(rate) / 100_000);
    assert_eq!(mbps, [1193, 592]);
}

#[test]
fn the_link_to_esnet_changes_its_load_first_and_its_capacity_later() {
    use crate::path_spec::resolve_hops_at_begin;
    let at = |begin: &str| {
        let path =
            path_catalogue::load_path("slac-upgrade", &[format!("begin_at={begin}")]).expect(begin);
        let link = resolve_hops_at_begin(&path)[1].forward.clone();
        let cross = link.cross.expect("others' traffic").rate;
        let rates = [link.rate.expect("a rate"), cross].map(|rate| rate.as_bps() / 1_000_000);
        (rates, link.queue.expect("a queue"))
    };
    assert_eq!(at("0 s"), ([33, 27], Bytes(247_500)));
    assert_eq!(at("60 s"), ([33, 9], Bytes(247_500)));
    assert_eq!(at("120 s"), ([155, 9], Bytes(1_162_500)));
}

#[test]
fn a_path_that_begins_later_has_its_earlier_events_behind_it() {
    use crate::path_spec::resolve_hops_at_begin;
    let rate_of_far = |begin_at: &str| {
        let path = small(&["events.3.at=9 s", &format!("begin_at={begin_at}")]);
        let hops = resolve_hops_at_begin(&path).into_owned();
        (hops.len(), hops[1].forward.rate.is_some())
    };
    assert_eq!(rate_of_far("0"), (2, true));
    assert_eq!(rate_of_far("2 s"), (2, false), "the event at 2 s is done");
    let error = read(SMALL, &["begin_at=8 days"]).expect_err("no such time");
    assert!(error.contains("begin_at"), "{error}");
}

#[test]
fn the_example_of_the_documentation_is_a_path() {
    let page = include_str!("../../../../docs/path-files.md");
    let example = page.split("```toml").nth(1).and_then(|rest| rest.split("```").next());
    let path = read(example.expect("an example"), &[]).expect("a path");
    assert_eq!((path.routes.len(), path.events.len()), (1, 2));
}

#[test]
fn an_unknown_path_is_told_from_the_shipped_ones() {
    let error = path_catalogue::load_path("la-genva", &[]).expect_err("no such path").to_string();
    assert!(
        error.starts_with("la-genva: no such path; did you mean `la-geneva`? known: "),
        "{error}"
    );
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in ".{0,400}") {
        let _ = read(&text, &[]);
        println!("attack: tried 1");
    }

    #[test]
    fn no_value_in_the_place_of_another_makes_the_reader_panic(
        cut in 0..SMALL.len(), piece in "[\\[\\]{}=\"a-z0-9.% \n-]{0,40}"
    ) {
        let text = format!("{}{piece}{}", &SMALL[..cut], &SMALL[cut..]);
        let _ = read(&text, &[]);
        println!("attack: tried 1");
    }

    #[test]
    fn no_set_makes_the_reader_panic(key in "[a-z0-9.]{0,30}", value in ".{0,30}") {
        let _ = read(SMALL, &[&format!("{key}={value}")]);
        let _ = read(SMALL, &[&format!("hops.1.{key}={value}")]);
        println!("attack: tried 1");
    }
}
