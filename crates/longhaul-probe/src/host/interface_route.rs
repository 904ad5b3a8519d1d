//! Selects the interface to read, and reads the route that leads to it.

use super::readings_builder::{ReadingsBuilder, error_text};
use longhaul_sys::host::kernel_route::{self, KernelRoute};
use longhaul_sys::netlink;
use std::net::IpAddr;

/// Returns the given interface, otherwise that of the route. If there is none, returns `None` and
/// records the reason under `interface.name`.
pub(super) fn select_interface(
    notes: &mut ReadingsBuilder,
    interface: Option<&str>,
    towards: Option<IpAddr>,
) -> Option<String> {
    let route = towards.map_or_else(kernel_route::query_default_route, kernel_route::query_route);
    let by_route = route.as_ref().ok().and_then(|route| route.interface.clone());
    if let Some(route) = notes.check("route.interface", route) {
        describe_route(notes, route);
    }
    let Some(name) = interface.map(str::to_owned).or(by_route) else {
        notes.missing("interface.name", "no interface was given, and no route leads to one");
        return None;
    };
    match netlink::interface_index(&name) {
        Ok(_) => Some(name),
        Err(error) => {
            let why = format!("interface {name} does not exist: {}", error_text(&error));
            notes.missing("interface.name", why);
            None
        }
    }
}

fn describe_route(notes: &mut ReadingsBuilder, route: KernelRoute) {
    notes.put_optional("route.interface", route.interface);
    notes.put_optional("route.gateway", route.gateway);
    notes.put_optional("route.source", route.source);
    notes.put_optional("route.mtu", route.mtu_bytes);
    notes.put_optional("route.window", route.window_bytes);
    notes.put_optional("route.initcwnd", route.initial_window_segments);
    notes.put_optional("route.initrwnd", route.initial_receive_window_segments);
    notes.put_optional("route.congestion_control", route.congestion_control);
}
