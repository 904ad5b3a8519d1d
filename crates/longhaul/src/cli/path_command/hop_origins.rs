//! Adds names, autonomous systems and places of hops to the observation.

use super::reverse_lookups::ReverseLookups;
use crate::cli::address_data::{AddressDataFolder, AddressDatabase, find_address_facts};
use crate::cli::args::ArchiveArgs;
use longhaul_model::report::v1::ReportCaveat;
use longhaul_model::report::v1::path::{MissingPart, ObservedRoute, PathObservation};
use std::net::IpAddr;
use std::time::Duration;

/// The time to wait for names after the measurement.
const NAME_TIMEOUT: Duration = Duration::from_millis(1500);

/// The sources of data about addresses.
pub struct HopOrigins {
    pub names: ReverseLookups,
    address_data: Vec<AddressDatabase>,
    unusable: Vec<String>,
}

impl HopOrigins {
    /// Opens the databases next to the archive. Looks up names if `wanted`.
    pub fn new(args: &ArchiveArgs, wanted: bool) -> HopOrigins {
        let (databases, unusable) = match AddressDataFolder::new(args) {
            Ok(folder) => folder.open_all(),
            Err(failure) => (Vec::new(), vec![failure.message]),
        };
        HopOrigins { names: ReverseLookups::new(wanted), address_data: databases, unusable }
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
        let routes = [&observation.route, &observation.route_reverse];
        for route in routes.into_iter().flatten() {
            self.request_names(route);
        }
        let without = self.names.wait(NAME_TIMEOUT);
        let routes = [&mut observation.route, &mut observation.route_reverse];
        for route in routes.into_iter().flatten() {
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

    fn annotate_route(&self, route: &mut ObservedRoute) {
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
