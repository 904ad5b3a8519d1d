//! Adds names, autonomous systems and places of hops to the observation.
//!
//! The resolver's call blocks for many seconds if no server answers, and it cannot be cancelled. It
//! therefore runs in separate threads; a measurement requests names and collects them later.

use crate::cli::address_data::{AddressDatabase, find_address_facts, open_address_databases};
use crate::cli::args::ArchiveArgs;
use longhaul_model::report::v1::ReportCaveat;
use longhaul_model::report::v1::path::{MissingPart, ObservedRoute, PathObservation};
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// The time to wait for names after the measurement.
const NAME_TIMEOUT: Duration = Duration::from_millis(1500);

/// The sources of data about addresses.
pub struct HopOrigins {
    names: ReverseLookups,
    address_data: Vec<AddressDatabase>,
    unusable: Vec<String>,
}

impl HopOrigins {
    /// Opens the databases next to the archive. Looks up names if `wanted`.
    pub fn new(args: &ArchiveArgs, wanted: bool) -> HopOrigins {
        let (address_data, unusable) = open_address_databases(args);
        HopOrigins { names: ReverseLookups::new(wanted), address_data, unusable }
    }

    /// Requests the names of all hops, without waiting.
    pub fn request_names(&mut self, route: &ObservedRoute) {
        let answers = route.hops.iter().flat_map(|hop| &hop.answers);
        for address in answers.filter_map(|answer| answer.address.parse().ok()) {
            self.names.request(address);
        }
    }

    /// Adds the known data to every route, and notes missing names. Returns caveats.
    pub fn annotate_routes(mut self, observation: &mut PathObservation) -> Vec<ReportCaveat> {
        let mut routes = [&mut observation.route, &mut observation.route_reverse];
        for route in routes.iter().filter_map(|route| route.as_ref()) {
            self.request_names(route);
        }
        let without = self.names.wait(NAME_TIMEOUT);
        for route in routes.iter_mut().filter_map(|route| route.as_mut()) {
            self.annotate_route(route);
        }
        if without > 0 {
            observation.missing.push(MissingPart {
                what: "names".to_owned(),
                why: format!(
                    "the resolver did not answer for {without} addresses in time; disable \
                     lookups with --no-names"
                ),
            });
        }
        let caveats = self.unusable.into_iter();
        caveats.map(|why| ReportCaveat::new("address_data_unusable", why)).collect()
    }

    pub fn annotate_route(&mut self, route: &mut ObservedRoute) {
        let answers = route.hops.iter_mut().flat_map(|hop| &mut hop.answers);
        for answer in answers {
            let Ok(address) = answer.address.parse::<IpAddr>() else {
                continue;
            };
            let facts = find_address_facts(&self.address_data, address);
            answer.name = self.names.get(address).or(answer.name.take());
            answer.autonomous_system = facts.autonomous_system.or(answer.autonomous_system);
            answer.place = facts.place.or(answer.place.take());
        }
    }
}

/// The maximum number of addresses per run, each with a thread; most routes have fewer.
const MAX_ADDRESSES: usize = 256;
/// The maximum length of a DNS name.
const MAX_NAME_LENGTH: usize = 253;

/// Resolves an address to a name: the system's resolver, or a substitute in tests.
type ReverseResolver = fn(IpAddr) -> Option<String>;

/// The reverse lookups of one run.
pub struct ReverseLookups {
    resolver: ReverseResolver,
    tell: Sender<(IpAddr, Option<String>)>,
    answers: Receiver<(IpAddr, Option<String>)>,
    wanted: bool,
    requested: HashSet<IpAddr>,
    names: HashMap<IpAddr, Option<String>>,
}

impl ReverseLookups {
    /// No name is looked up if `wanted` is false.
    pub fn new(wanted: bool) -> ReverseLookups {
        ReverseLookups::with_resolver(resolve_by_system, wanted)
    }

    fn with_resolver(resolver: ReverseResolver, wanted: bool) -> ReverseLookups {
        let (tell, answers) = channel();
        let (requested, names) = (HashSet::new(), HashMap::new());
        ReverseLookups { resolver, tell, answers, wanted, requested, names }
    }

    /// Requests the name once, without waiting. A slow answer blocks only its own thread.
    pub fn request(&mut self, address: IpAddr) {
        let room = self.requested.len() < MAX_ADDRESSES;
        if self.wanted && room && self.requested.insert(address) {
            let (tell, resolver) = (self.tell.clone(), self.resolver);
            std::thread::spawn(move || {
                let name = resolver(address).filter(|name| is_plausible_name(name));
                // After the run, nobody reads the answer.
                let _ = tell.send((address, name));
            });
        }
    }

    /// Returns the name if it is known by now.
    pub fn get(&mut self, address: IpAddr) -> Option<String> {
        self.names.extend(self.answers.try_iter());
        self.names.get(&address).cloned().flatten()
    }

    /// Waits up to `patience` for all requested names. Returns the number of missing answers.
    pub fn wait(&mut self, patience: Duration) -> usize {
        let deadline = Instant::now() + patience;
        while self.names.len() < self.requested.len() {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok((address, name)) = self.answers.recv_timeout(left) else {
                break;
            };
            self.names.insert(address, name);
        }
        self.requested.len() - self.names.len()
    }
}

fn resolve_by_system(address: IpAddr) -> Option<String> {
    dns_lookup::lookup_addr(&address).ok()
}

/// Returns true for valid host names: the owner of an address controls the content of its name.
fn is_plausible_name(name: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty()
        && name.len() <= MAX_NAME_LENGTH
        && name.chars().all(fine)
        && name.parse::<IpAddr>().is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made_up(address: IpAddr) -> Option<String> {
        match address.to_string().as_str() {
            "192.0.2.1" => Some("one.example.net".to_owned()),
            "192.0.2.2" => Some("two\u{1b}[2J".to_owned()),
            "192.0.2.3" => {
                // This resolver never answers, and the test does not wait for it.
                std::thread::park_timeout(Duration::from_secs(3600));
                None
            }
            other => Some(other.to_owned()),
        }
    }

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn names_come_in_their_own_time_and_only_good_ones() {
        let mut names = ReverseLookups::with_resolver(made_up, true);
        for last in [1, 2, 4] {
            names.request(address(last));
        }
        assert_eq!(names.wait(Duration::from_secs(60)), 0);
        assert_eq!(names.get(address(1)).as_deref(), Some("one.example.net"));
        assert_eq!(names.get(address(2)), None, "escapes are no name");
        assert_eq!(names.get(address(4)), None, "an address is no name");
        assert_eq!(names.get(address(9)), None, "never asked");
    }

    #[test]
    fn a_resolver_that_hangs_costs_its_own_name_only() {
        let mut names = ReverseLookups::with_resolver(made_up, true);
        names.request(address(3));
        names.request(address(1));
        assert!(names.wait(Duration::from_millis(300)) >= 1);
        assert_eq!(names.get(address(1)).as_deref(), Some("one.example.net"));
    }

    #[test]
    fn unwanted_names_are_not_asked() {
        let mut names = ReverseLookups::with_resolver(made_up, false);
        names.request(address(1));
        assert_eq!(names.wait(Duration::from_secs(60)), 0);
        assert_eq!(names.get(address(1)), None);
    }
}
