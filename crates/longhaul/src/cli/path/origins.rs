//! Adds names, autonomous systems and places of hops to the observation.

use super::names::Names;
use crate::cli::args::ArchiveArgs;
use crate::cli::data::folder::{Folder, Known};
use longhaul_model::report::v1::Caveat;
use longhaul_model::report::v1::path::{Missing, Observation, Route};
use std::net::IpAddr;
use std::time::Duration;

/// The time to wait for names after the measurement.
const PATIENCE: Duration = Duration::from_millis(1500);

/// The sources of data about addresses.
pub struct Origins {
    pub names: Names,
    known: Known,
    unusable: Vec<String>,
}

impl Origins {
    /// Loads the imported sets next to the archive. Looks up names if `wanted`.
    pub fn new(args: &ArchiveArgs, wanted: bool) -> Origins {
        let (known, unusable) = match Folder::of(args) {
            Ok(folder) => Known::load(&folder),
            Err(fail) => (Known::default(), vec![fail.message]),
        };
        Origins {
            names: Names::new(wanted),
            known,
            unusable,
        }
    }

    /// Requests the names of all hops, without waiting.
    pub fn ask(&mut self, route: &Route) {
        let answers = route.hops.iter().flat_map(|hop| &hop.answers);
        for address in answers.filter_map(|answer| answer.address.parse().ok()) {
            self.names.ask(address);
        }
    }

    /// Adds the known data to every route, and notes missing names. Returns caveats.
    pub fn settle(mut self, observation: &mut Observation) -> Vec<Caveat> {
        let routes = [&observation.route, &observation.route_reverse];
        for route in routes.into_iter().flatten() {
            self.ask(route);
        }
        let without = self.names.wait(PATIENCE);
        let routes = [&mut observation.route, &mut observation.route_reverse];
        for route in routes.into_iter().flatten() {
            self.set(route);
        }
        if without > 0 {
            observation.missing.push(Missing {
                what: "names".to_owned(),
                why: format!(
                    "the resolver did not answer for {without} addresses in time; --no-names \
                     does without"
                ),
            });
        }
        let caveats = self.unusable.into_iter();
        caveats
            .map(|why| Caveat::new("address_data_unusable", why))
            .collect()
    }

    fn set(&self, route: &mut Route) {
        let answers = route.hops.iter_mut().flat_map(|hop| &mut hop.answers);
        for answer in answers {
            let Ok(address) = answer.address.parse::<IpAddr>() else {
                continue;
            };
            let says = self.known.find(address);
            answer.name = self.names.get(address).or(answer.name.take());
            answer.autonomous_system = says.autonomous_system.or(answer.autonomous_system);
            answer.place = says.place.or(answer.place.take());
        }
    }
}
