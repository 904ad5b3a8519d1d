//! Assembles a record from a transfer, a path measurement and a legs file.

use super::airports::Airports;
use super::globe::Wgs84;
use super::legs_file::Legs;
use super::{books, imported, route_cities};
use crate::cli::filing;
use crate::fail::{Fail, USAGE};
use jiff::Timestamp;
use longhaul_analysis::record::conclude;
use longhaul_analysis::record::distance::point;
use longhaul_model::report::v1::path::Route;
use longhaul_model::report::v1::plan::{Direction, Mode, Transport};
use longhaul_model::report::v1::record::{
    About, Observation, Payload, Record, Router, Rules, SCHEMA,
};
use longhaul_model::report::v1::{Caveat, Imported, Path, Run, Throughput};
use std::net::{IpAddr, SocketAddr};

/// The runs of a record.
#[derive(Debug)]
pub struct Runs {
    pub transfer: Transfer,
    pub path: Option<Path>,
}

/// The transfer, by the program that measured it.
#[derive(Debug)]
pub enum Transfer {
    Ours(Box<Throughput>),
    Imported(Box<Imported>),
}

impl Transfer {
    pub fn run(&self) -> &Run {
        match self {
            Transfer::Ours(run) => &run.run,
            Transfer::Imported(run) => &run.run,
        }
    }

    fn forward(&self) -> bool {
        match self {
            Transfer::Ours(run) => run.observation.forward,
            Transfer::Imported(run) => run.observation.forward != Some(false),
        }
    }
}

impl Runs {
    /// Returns true if both ends are one machine, whatever path is between them.
    fn on_one_machine(&self) -> bool {
        match &self.transfer {
            Transfer::Ours(run) => {
                let seen = &run.observation;
                seen.same_host || seen.same_boot == Some(true)
            }
            Transfer::Imported(_) => false,
        }
    }

    /// Returns the route of the data, and whether it was traced in that direction.
    fn route(&self) -> Option<(&Route, bool)> {
        let seen = &self.path.as_ref()?.observation;
        let (own, other) = (seen.route.as_ref(), seen.route_reverse.as_ref());
        let (wanted, instead) = if self.transfer.forward() {
            (own, other)
        } else {
            (other, own)
        };
        wanted
            .map(|route| (route, true))
            .or(instead.map(|route| (route, false)))
    }
}

/// Fails unless the run has one direction and received bytes.
fn fits(run: &Throughput) -> Result<(), Fail> {
    let no = |why: &str| {
        let fail = Fail::new(USAGE, format!("run {} makes no record: {why}", run.run.id));
        Err(fail.hint(Some("a record is of one run in one direction")))
    };
    if run.plan.direction == Direction::Both {
        return no("data flowed both ways at once");
    }
    if received_bytes(run) == 0 || run.observation.elapsed_us == 0 {
        return no("nothing arrived");
    }
    Ok(())
}

fn received_bytes(run: &Throughput) -> u64 {
    let streams = run.observation.streams.iter();
    streams.fold(0, |sum, it| sum.saturating_add(it.receiver.bytes))
}

pub fn record(
    runs: &Runs,
    legs: Option<Legs>,
    rules: &Rules,
    payload: Option<Payload>,
) -> Result<Record, Fail> {
    let mut observation = observation(runs, payload)?;
    let (airports, globe) = (Airports::read(), Wgs84::new());
    let (about, stops) = legs.map_or((About::default(), Vec::new()), |it| (it.about, it.stops));
    let mut caveats = caveats(runs);
    rtt(runs, &mut observation);
    observation.path_run = runs.path.as_ref().map(|path| path.run.id.clone());
    if let Some((route, same_way)) = runs.route() {
        // A route traced against the data begins at the end of the data's route.
        let near = if same_way {
            stops.first()
        } else {
            stops.last()
        };
        let mut found = route_cities::of(route, near.map(point), &airports, &globe);
        if !same_way {
            found.routers.reverse();
            let text =
                "only the route against the data was traced: cities are those of the way back";
            caveats.push(Caveat::new("other_way", text));
        }
        observation.unplaced_hops = found.unplaced_hops;
        observation.routers = found.routers;
    }
    if stops.is_empty() {
        let stops = route_cities::stops(&observation.routers, &globe);
        if stops.len() > 1 {
            observation.distance_by = Some(known_by(&observation.routers));
            observation.stops = stops;
        }
    } else {
        observation.distance_by = Some("legs_file".to_owned());
        observation.stops = stops;
    }
    caveats.extend(of_distance(&observation));
    let analysis = conclude(&observation, &globe, (rules, &books::history()));
    Ok(Record {
        schema: SCHEMA.to_owned(),
        longhaul: env!("CARGO_PKG_VERSION").to_owned(),
        made_at: filing::rfc3339(Timestamp::now()),
        about,
        observation,
        analysis,
        caveats,
    })
}

/// Returns the sources in use, such as `imported_data+hop_names`.
fn known_by(routers: &[Router]) -> String {
    let by = |word: &str| routers.iter().any(|it| it.known_by == word);
    match (by("imported_data"), by("hop_name")) {
        (true, true) => "imported_data+hop_names",
        (true, false) => "imported_data",
        _ => "hop_names",
    }
    .to_owned()
}

/// Builds the observation from the transfer alone, without the path.
fn observation(runs: &Runs, payload: Option<Payload>) -> Result<Observation, Fail> {
    let run = match &runs.transfer {
        Transfer::Ours(run) => run,
        Transfer::Imported(run) => return imported::observation(run),
    };
    fits(run)?;
    let seen = &run.observation;
    Ok(Observation {
        throughput_run: run.run.id.clone(),
        started_at: run.run.started_at.clone(),
        initiator: run.run.initiator.clone(),
        responder: run.run.responder.clone(),
        forward: seen.forward,
        transport: match run.plan.transport {
            Transport::Tcp => "tcp",
            Transport::Udp { .. } => "udp",
        }
        .to_owned(),
        ip_version: ip_version(run),
        streams: seen.streams.len() as u32,
        received_bytes: received_bytes(run),
        elapsed_us: seen.elapsed_us,
        same_host: runs.on_one_machine(),
        same_boot: seen.same_boot,
        payload,
        ..Observation::default()
    })
}

/// Returns the IP version of the connections, or else of the responder's address.
fn ip_version(run: &Throughput) -> Option<u8> {
    let socket = |text: &String| text.parse::<SocketAddr>().ok().map(|it| it.ip());
    let streams = run.observation.streams.iter();
    let mut peers = streams.filter_map(|it| it.sender.peer.as_ref().and_then(socket));
    let named = run.run.responder.address.as_ref();
    let address = peers.next().or(named.and_then(|it| it.parse().ok()))?;
    Some(match address.to_canonical() {
        IpAddr::V4(_) => 4,
        IpAddr::V6(_) => 6,
    })
}

/// Sets the minimum round-trip time measured without load.
fn rtt(runs: &Runs, to: &mut Observation) {
    let path = runs.path.as_ref();
    let rtts = path.map(|it| {
        [
            ("path", it.analysis.rtt),
            ("far end", it.analysis.rtt_reverse),
        ]
    });
    let measured = rtts.into_iter().flatten().filter_map(|(who, it)| {
        let it = it?;
        let text = format!("least of {} round trips of the {who}'s probes", it.answered);
        Some((it.min_ns, text))
    });
    let told = match &runs.transfer {
        Transfer::Ours(run) => run.observation.idle_rtt_us.map(|us| {
            let text = "least round trip of the control connection, before load";
            (us.saturating_mul(1000), text.to_owned())
        }),
        Transfer::Imported(run) => imported::rtt(run),
    };
    if let Some((ns, by)) = measured.chain(told).min_by_key(|(ns, _)| *ns) {
        to.rtt_min_ns = Some(ns);
        to.rtt_by = Some(by);
    }
}

fn caveats(runs: &Runs) -> Vec<Caveat> {
    let mut caveats = Vec::new();
    if let Transfer::Ours(run) = &runs.transfer {
        caveats.extend(of_counts(run));
    }
    if runs.on_one_machine() {
        let text = "both ends are one machine: the path is emulated or leads back, and the distance \
                    is that of the path it stands for";
        caveats.push(Caveat::new("same_host", text));
    }
    if runs.path.is_none() {
        let text = "the path was not looked at: no route and no round trips are in the bundle";
        caveats.push(Caveat::new("no_path", text));
    }
    caveats.extend(match &runs.transfer {
        Transfer::Ours(run) => run.caveats.clone(),
        Transfer::Imported(run) => imported::caveats(run),
    });
    caveats
}

fn of_counts(run: &Throughput) -> Vec<Caveat> {
    let mut caveats = Vec::new();
    let totals = &run.observation.ends.receiver;
    let counted = received_bytes(run);
    if totals.bytes != counted {
        let text = format!(
            "the receiver counted {} bytes in all and {counted} in its streams; the record has the \
             latter",
            totals.bytes
        );
        caveats.push(Caveat::new("counts_differ", text));
    }
    if run.plan.mode == Mode::Wire {
        let text = "the receiver discarded the payload in its kernel: no program ever had it";
        caveats.push(Caveat::new("discarded", text));
    }
    caveats
}

fn of_distance(seen: &Observation) -> Option<Caveat> {
    match seen.distance_by.as_deref() {
        None => Some(Caveat::new(
            "no_distance",
            "no distance is known, so there is no mark: give the cities on the way with --legs FILE",
        )),
        Some("legs_file") => None,
        Some(by) => Some(Caveat::new(
            "guessed_distance",
            format!(
                "the cities are known by {} of the routers that answered, and ends that no router \
                 stands near are not counted; --legs FILE says the way exactly",
                by.replace('_', " ").replace('+', " and ")
            ),
        )),
    }
}
