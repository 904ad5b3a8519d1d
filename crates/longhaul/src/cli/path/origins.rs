//! Who the hops are: names, autonomous systems and places, set into what was observed.

use super::names::Names;
use crate::cli::args::ArchiveArgs;
use crate::cli::data::folder::{Folder, Known};
use longhaul_model::report::v1::Caveat;
use longhaul_model::report::v1::path::{Missing, Observation, Route};
use std::net::IpAddr;
use std::time::Duration;

/// Names that have not come this long after the measurement do not come.
const PATIENCE: Duration = Duration::from_millis(1500);

/// What can be said of an address.
pub struct Origins {
    pub names: Names,
    known: Known,
    unusable: Vec<String>,
}

impl Origins {
    /// The imported sets beside the archive; names where `wanted`.
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

    /// Asks for the names of all hops, and does not wait.
    pub fn ask(&mut self, route: &Route) {
        let answers = route.hops.iter().flat_map(|hop| &hop.answers);
        for address in answers.filter_map(|answer| answer.address.parse().ok()) {
            self.names.ask(address);
        }
    }

    /// Sets what is known into every route, and tells what is not.
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
