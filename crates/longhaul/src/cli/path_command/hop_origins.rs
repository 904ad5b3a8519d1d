//! Adds names, autonomous systems and places of hops to the observation.

use super::reverse_lookups::ReverseLookups;
use crate::cli::args::ArchiveArgs;
use crate::cli::data::folder::{Folder, Known};
use longhaul_model::report::v1::ReportCaveat;
use longhaul_model::report::v1::path::{MissingPart, ObservedRoute, PathObservation};
use std::net::IpAddr;
use std::time::Duration;

/// The time to wait for names after the measurement.
const NAME_TIMEOUT: Duration = Duration::from_millis(1500);

/// The sources of data about addresses.
pub struct HopOrigins {
    pub names: ReverseLookups,
    address_data: Known,
    unusable: Vec<String>,
}

impl HopOrigins {
    /// Loads the imported sets next to the archive. Looks up names if `wanted`.
    pub fn new(args: &ArchiveArgs, wanted: bool) -> HopOrigins {
        let (known, unusable) = match Folder::of(args) {
            Ok(folder) => Known::load(&folder),
            Err(fail) => (Known::default(), vec![fail.message]),
        };
        HopOrigins {
            names: ReverseLookups::new(wanted),
            address_data: known,
            unusable,
        }
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
                    "the resolver did not answer for {without} addresses in time; --no-names \
                     does without"
                ),
            });
        }
        let caveats = self.unusable.into_iter();
        caveats
            .map(|why| ReportCaveat::new("address_data_unusable", why))
            .collect()
    }

    fn annotate_route(&self, route: &mut ObservedRoute) {
        let answers = route.hops.iter_mut().flat_map(|hop| &mut hop.answers);
        for answer in answers {
            let Ok(address) = answer.address.parse::<IpAddr>() else {
                continue;
            };
            let says = self.address_data.find(address);
            answer.name = self.names.get(address).or(answer.name.take());
            answer.autonomous_system = says.autonomous_system.or(answer.autonomous_system);
            answer.place = says.place.or(answer.place.take());
        }
    }
}
