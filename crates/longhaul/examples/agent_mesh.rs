//! What scheduling costs, on virtual time: a mesh of agents, and one agent with many targets.
//! Prints one JSON object; `cargo xtask bench agent` makes tables of it.

use longhaul_watch::watch::hash_random::draw_number;
use longhaul_watch::watch::measure_jobs::MeshTurns;
use longhaul_watch::watch::path_resources::PathResource;
use longhaul_watch::watch::run_schedule::{
    AttemptOutcome, ClockTimes, RunId, RunSchedule, RunStart,
};
use longhaul_watch::watch::watch_file::{
    SecretFileState, WatchFile, WatchFileContext, parse_watch_file,
};
use longhaul_watch::watch::{DAY_US, SECOND_US};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::path::Path;
use std::time::{Duration, Instant};

const BEGIN_US: i64 = 1_790_000_000 * SECOND_US;
const TARGETS: usize = 50;
const DAYS: i64 = 30;

fn main() {
    let agents = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let mesh = mesh(agents.unwrap_or(1000));
    println!("{}", json!({ "mesh": mesh, "star": star() }));
}

fn read(text: &str, agent: Option<&str>) -> WatchFile {
    let look = |_: &Path| SecretFileState::Private;
    let here = WatchFileContext { agent, check_secret: &look };
    parse_watch_file("bench", text, &here).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Agents on one time, and what their heavy runs hold.
struct Play {
    agents: Vec<RunSchedule>,
    agenda: BinaryHeap<Reverse<(i64, usize, Option<RunId>)>>,
    /// When each agent looks next; other looks in the agenda are out of date.
    wakes: Vec<i64>,
    /// Who holds what until when.
    held: HashMap<PathResource, i64>,
    collisions: u64,
    runs: u64,
    looks: u64,
    cost: Duration,
    latest_us: i64,
    pairs: HashSet<(String, String)>,
    first_us: Option<i64>,
    last_us: i64,
}

impl Play {
    fn new(agents: Vec<RunSchedule>) -> Self {
        let agenda = (0..agents.len()).map(|n| Reverse((0, n, None))).collect();
        Play {
            wakes: vec![0; agents.len()],
            agents,
            agenda,
            held: HashMap::new(),
            collisions: 0,
            runs: 0,
            looks: 0,
            cost: Duration::ZERO,
            latest_us: 0,
            pairs: HashSet::new(),
            first_us: None,
            last_us: 0,
        }
    }

    fn run(&mut self, until_us: i64) {
        while let Some(Reverse((us, n, ended))) = self.agenda.pop() {
            if us > until_us {
                return;
            }
            if ended.is_none() && self.wakes[n] != us {
                continue;
            }
            let now = ClockTimes { wall_us: BEGIN_US + us, steady_us: us };
            let agent = &mut self.agents[n];
            let began = Instant::now();
            if let Some(id) = ended {
                let done = AttemptOutcome::Done { sent_bytes: 1_250_000_000 };
                agent.finish_run(&id, done, now);
            }
            let started = agent.start_due(now);
            let next = agent.next_at();
            agent.take_notes();
            self.cost += began.elapsed();
            self.looks += 1;
            for start in started {
                self.begin(&start, n, us);
            }
            if let Some(next) = next {
                self.wakes[n] = next - BEGIN_US;
                self.agenda.push(Reverse((self.wakes[n], n, None)));
            }
        }
    }

    fn begin(&mut self, start: &RunStart, agent: usize, us: i64) {
        self.runs += 1;
        // Between a half and all of the longest time.
        let chance = draw_number(7, &[self.runs]) % 50;
        let lasts_us = start.job.max_duration_us * (50 + chance as i64) / 100;
        let end_us = us + lasts_us;
        if start.job.heavy {
            for need in &start.job.exclusive {
                let before = self.held.insert(need.clone(), end_us);
                self.collisions += u64::from(before.is_some_and(|until| until > us));
            }
            let key = &start.job.key;
            self.pairs.insert((key.from.to_string(), key.to.to_string()));
            self.first_us.get_or_insert(us);
            self.last_us = self.last_us.max(us + start.job.max_duration_us);
            self.latest_us = self.latest_us.max(BEGIN_US + us - start.due_us);
        }
        self.agenda.push(Reverse((end_us, agent, Some(start.id.clone()))));
    }

    fn figures(&self) -> Value {
        let tallies = self.agents.iter().map(RunSchedule::run_counts);
        let missed: u64 = tallies.clone().map(|it| it.missed).sum();
        let planned: u64 = tallies.clone().map(|it| it.planned).sum();
        let ended: u64 =
            tallies.map(|it| it.done + it.failed + it.missed + it.waiting + it.running).sum();
        json!({
            "runs": self.runs, "planned": planned, "accounted_for": ended, "missed": missed,
            "collisions": self.collisions, "looks": self.looks,
            "look_us": self.cost.as_secs_f64() * 1e6 / self.looks.max(1) as f64,
            "latest_us": self.latest_us, "pairs": self.pairs.len(),
            "round_us": self.last_us - self.first_us.unwrap_or(0),
        })
    }
}

fn mesh(number: usize) -> Value {
    let hosts = (0..number)
        .map(|n| format!("[[host]]\nname = \"h{n}\"\ngroups = [\"all\"]\n"))
        .collect::<Vec<_>>()
        .concat();
    let text = format!(
        "[agent]\n{hosts}[[mesh]]\nname = \"all\"\n[[measure]]\nname = \"bulk\"\n\
         kind = \"throughput\"\nevery = \"12 h\"\n"
    );
    let began = Instant::now();
    let first = read(&text, Some("h0"));
    let checking = began.elapsed();
    let began = Instant::now();
    let turns = MeshTurns::from_file(&first).expect("a mesh has turns");
    let arranging = began.elapsed();
    let agents = (0..number).map(|n| {
        let mut file = first.clone();
        file.agent.host = n;
        file.agent.name.clone_from(&file.hosts[n].name);
        RunSchedule::with_turns(&file, Some(&turns), n as u64)
    });
    let mut play = Play::new(agents.collect());
    // Rounds begin where intervals do, counted from 1970: all of one, and nothing of the next.
    let every_us = play.agents[0].jobs().next().map_or(DAY_US, |job| job.every_us);
    play.run(every_us - BEGIN_US % every_us + turns.cycle_us() - 1);
    // Each host takes part in so many runs, one after another.
    let lasts_us = play.agents[0].jobs().next().map_or(0, |job| job.max_duration_us);
    let least_us = 2 * (number as i64 - 1) * lasts_us;
    let mut figures = play.figures();
    figures["agents"] = number.into();
    figures["rounds"] = turns.rounds.count.into();
    figures["least_rounds"] = turns.rounds.min_count.into();
    figures["turn_us"] = turns.turn_us.into();
    figures["cycle_us"] = turns.cycle_us().into();
    figures["least_us"] = least_us.into();
    figures["checking_us"] = (checking.as_micros() as u64).into();
    figures["arranging_us"] = (arranging.as_micros() as u64).into();
    figures
}

fn star() -> Value {
    let hosts = (0..TARGETS)
        .map(|n| {
            format!("[[host]]\nname = \"h{n}\"\nlinks = [\"l\"]\n[[target]]\nhost = \"h{n}\"\n")
        })
        .collect::<Vec<_>>()
        .concat();
    let text = format!(
        "[agent]\nname = \"a\"\n[[link]]\nname = \"l\"\n{hosts}\
         [[measure]]\nname = \"route\"\nkind = \"path\"\nevery = \"10 min\"\n\
         [[measure]]\nname = \"avail\"\nkind = \"available\"\nevery = \"5 min\"\n\
         [[measure]]\nname = \"bulk\"\nkind = \"throughput\"\nevery = \"90 min\"\n\
         [[measure]]\nname = \"tune\"\nkind = \"tune\"\nevery = \"7 d\"\nprobes = 8\n"
    );
    let mut play = Play::new(vec![RunSchedule::new(&read(&text, None), 1)]);
    play.run(DAYS * DAY_US);
    let mut figures = play.figures();
    figures["targets"] = TARGETS.into();
    figures["days"] = DAYS.into();
    figures
}
