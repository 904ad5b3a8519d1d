//! Tests the interoperability of programs that speak iperf3's protocol, over three distances: the
//! matrix of docs/iperf3-matrix.md.
//!
//! Each pair of a client and a server runs each row of options over emulated paths of three delays.
//! A row passes if it ends in time, with exit code 0, and both ends' byte counts agree with what
//! the devices of the path carried, see [`check`].
//!
//! - [`peer`]: the programs and their command lines
//! - [`rows`]: the options
//! - [`lane`], [`marks`]: a path, and the counters of its devices
//! - [`claims`], [`check`]: the reported counts, and their check
//! - [`pair`]: the rows of one pair on one path
//! - [`sheet`]: the table

pub mod check;
pub mod claims;
pub mod lane;
pub mod marks;
pub mod pair;
pub mod peer;
pub mod rows;
pub mod sheet;

use crate::{Outcome, needs, process};
use lane::Lane;
use pair::{Played, play};
use peer::Peer;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The RTT of an emulated path in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delay(pub u32);

impl Delay {
    pub fn round_trip(self) -> Duration {
        Duration::from_millis(u64::from(self.0))
    }
}

/// Loopback-like, across a continent, and Los Angeles to Geneva.
pub const DELAYS: [Delay; 3] = [Delay(0), Delay(50), Delay(172)];
/// The delay at which pairs without longhaul are also tested.
const COMPARED: Delay = Delay(50);
/// The number of paths in use at once. Each carries 50 Mbit/s at most.
const LANES: usize = 8;

/// Options of `cargo xtask interop`.
#[derive(Debug, Default, PartialEq)]
struct Options {
    only: String,
    out: Option<PathBuf>,
    lanes: Option<usize>,
}

impl Options {
    fn read(mut words: &[&str]) -> Result<Options, String> {
        let mut options = Options::default();
        while let [key, value, rest @ ..] = words {
            match *key {
                "--only" => (*value).clone_into(&mut options.only),
                "--out" => options.out = Some(PathBuf::from(*value)),
                "--lanes" => {
                    let lanes = value.parse().ok().filter(|lanes| *lanes > 0);
                    options.lanes = Some(lanes.ok_or("`--lanes` takes a number above 0")?);
                }
                _ => break,
            }
            words = rest;
        }
        match words {
            [] => Ok(options),
            [unknown, ..] => Err(format!(
                "`{unknown}`: interop takes `--only TEXT` (of `CLIENT -> SERVER, 50 ms`), \
                 `--out FILE`, `--lanes N`"
            )),
        }
    }
}

/// Runs the matrix, prints it, and fails if a pair with longhaul missed a row.
pub fn run(words: &[&str]) -> Outcome {
    let options = Options::read(words)?;
    needs::namespaces()?;
    let longhaul = process::longhaul()?;
    let peers = peers(&longhaul, true)?;
    let units: Vec<Unit> = units(&peers)
        .into_iter()
        .filter(|unit| unit.title().contains(&options.only))
        .collect();
    let played = play_all(
        &longhaul,
        &units,
        rows::ROWS,
        options.lanes.unwrap_or(LANES),
    )?;
    let text = sheet::markdown(&peers, &played);
    print!("{text}");
    if let Some(file) = &options.out {
        std::fs::write(file, &text).map_err(|e| format!("cannot write {}: {e}", file.display()))?;
    }
    missed(&played)
}

/// Returns all available peers, longhaul first; with `install` it installs missing ones if
/// possible.
pub fn peers(longhaul: &Path, install: bool) -> Result<Vec<Peer>, String> {
    let mut all = vec![Peer::longhaul(longhaul)?];
    match Peer::personality(longhaul) {
        Ok(peer) => all.push(peer),
        Err(why) => eprintln!("longhaul iperf3 is left out: {why}"),
    }
    all.extend(Peer::foreign(install)?);
    Ok(all)
}

/// One pair on one path.
#[derive(Debug, Clone)]
pub struct Unit {
    pub client: Peer,
    pub server: Peer,
    pub delay: Delay,
}

impl Unit {
    pub fn title(&self) -> String {
        let (client, server) = (&self.client.name, &self.server.name);
        format!("{client} -> {server}, {} ms", self.delay.0)
    }

    fn has_personality(&self) -> bool {
        self.client.is_personality() || self.server.is_personality()
    }

    pub fn has_longhaul(&self) -> bool {
        self.client.is_longhaul() || self.server.is_longhaul()
    }
}

/// Returns every pair with longhaul on every path, and for comparison, on one path, the pairs of
/// others with Debian's iperf3. The iperf3 personality shares both roles' code with longhaul, so it
/// is paired only with Debian's.
pub fn units(peers: &[Peer]) -> Vec<Unit> {
    let mut all = Vec::new();
    for delay in DELAYS {
        for client in peers {
            all.extend(peers.iter().map(|server| Unit {
                client: client.clone(),
                server: server.clone(),
                delay,
            }));
        }
    }
    let is_compared = |unit: &Unit| {
        let has_debians = unit.client.is_debians() || unit.server.is_debians();
        has_debians && unit.delay == COMPARED
    };
    all.retain(|unit| match (unit.has_personality(), unit.has_longhaul()) {
        (true, _) => unit.client.is_debians() || unit.server.is_debians(),
        (false, own) => own || is_compared(unit),
    });
    // Longest first, so that no path ends up alone with a long unit.
    all.sort_by_key(|unit| std::cmp::Reverse((unit.has_longhaul(), unit.delay.0)));
    all
}

/// Runs the units on `lanes` paths at once.
pub fn play_all(
    longhaul: &Path,
    units: &[Unit],
    rows: &'static [&'static str],
    lanes: usize,
) -> Result<Vec<Played>, String> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Result<Played, String>)>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..lanes.min(units.len()) {
            scope.spawn(|| {
                while let Some((at, unit)) = next_of(&next, units) {
                    let played = on_a_lane(longhaul, unit, at, rows);
                    report(unit, &played);
                    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                    done.push((at, played));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, played)| played).collect()
}

fn next_of<'a>(next: &AtomicUsize, units: &'a [Unit]) -> Option<(usize, &'a Unit)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    Some((at, units.get(at)?))
}

fn on_a_lane(
    longhaul: &Path,
    unit: &Unit,
    at: usize,
    rows: &'static [&'static str],
) -> Result<Played, String> {
    let lane = Lane::lay(longhaul, unit.delay, &format!("longhaul-interop-{at}"))?;
    Ok(play(&lane, unit, rows))
}

fn report(unit: &Unit, played: &Result<Played, String>) {
    match played {
        Ok(played) => eprintln!("{}: {}", unit.title(), played.summary()),
        Err(why) => eprintln!("{}: {why}", unit.title()),
    }
}

/// Fails with the rows missed by pairs with longhaul.
pub fn missed(played: &[Played]) -> Outcome {
    let own = played.iter().filter(|played| played.unit.has_longhaul());
    let misses: Vec<String> = own.flat_map(Played::misses).collect();
    if misses.is_empty() {
        Ok(())
    } else {
        Err(misses.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_others_refused() {
        let options = Options::read(&["--only", "50 ms", "--out", "f", "--lanes", "3"]);
        let expected = Options {
            only: "50 ms".to_owned(),
            out: Some(PathBuf::from("f")),
            lanes: Some(3),
        };
        assert_eq!(options, Ok(expected));
        assert!(Options::read(&["--lanes", "0"]).is_err());
        assert!(Options::read(&["--ony", "x"]).is_err());
    }
}
