//! Selects the interface to read, and reads the route that leads to it.

use super::notes::{Notes, reason};
use longhaul_sys::host::route::{self, Route};
use longhaul_sys::netlink;
use std::net::IpAddr;

/// Returns the given interface, otherwise that of the route. If there is none, returns `None` and
/// records the reason under `interface.name`.
pub(super) fn read(
    notes: &mut Notes,
    interface: Option<&str>,
    towards: Option<IpAddr>,
) -> Option<String> {
    let route = towards.map_or_else(route::default, route::towards);
    let by_route = route
        .as_ref()
        .ok()
        .and_then(|route| route.interface.clone());
    notes.take(&["route.interface"], route, describe);
    let Some(name) = interface.map(str::to_owned).or(by_route) else {
        notes.missing(
            "interface.name",
            "no interface is named, and no route leads to one",
        );
        return None;
    };
    match netlink::index_of(&name) {
        Ok(_) => Some(name),
        Err(error) => {
            let why = format!("there is no interface {name} here: {}", reason(&error));
            notes.missing("interface.name", why);
            None
        }
    }
}

fn describe(notes: &mut Notes, route: Route) {
    notes.optional("route.interface", route.interface);
    notes.optional("route.gateway", route.gateway);
    notes.optional("route.source", route.source);
    notes.optional("route.mtu", route.mtu_bytes);
    notes.optional("route.window", route.window_bytes);
    notes.optional("route.initcwnd", route.initial_window_segments);
    notes.optional("route.initrwnd", route.initial_receive_window_segments);
    notes.optional("route.congestion_control", route.congestion_control);
}
