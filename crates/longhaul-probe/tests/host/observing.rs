//! Reading a host whose truth is known: this namespace was made a moment ago.

use crate::Test;
use crate::namespace::{VETH, elsewhere};
use crate::settings::exactly;
use longhaul_model::report::v1::host::AuditObservation;
use longhaul_probe::host::{observe_host, observe_host_with_buffer};
use longhaul_sys::host;
use std::net::Ipv4Addr;

pub const TESTS: &[Test] = &[
    ("a_virtual_cable_tells_what_it_has_and_why_not_the_rest", cable),
    ("the_route_leads_to_the_interface", route),
    ("without_a_loopback_the_live_socket_is_told_as_not_tried", no_loopback),
    ("the_live_socket_shows_what_the_settings_allow", granted),
    ("an_interface_that_is_not_there_is_told", no_interface),
];

fn reading<'a>(observation: &'a AuditObservation, name: &str) -> Option<&'a str> {
    observation.readings.get(name).map(String::as_str)
}

fn cable() {
    let seen = observe_host(Some(VETH), None);
    assert_eq!(reading(&seen, "interface.name"), Some(VETH));
    assert_eq!(reading(&seen, "interface.driver"), Some("veth"));
    assert_eq!(reading(&seen, "interface.mtu"), Some("1500"));
    assert_eq!(reading(&seen, "interface.carrier"), Some("on"));
    assert_eq!(reading(&seen, "interface.feature.tso"), Some("on"));
    assert_eq!(reading(&seen, "interface.feature.lro"), Some("off"));
    assert_eq!(reading(&seen, "interface.qdisc"), Some("noqueue"));
    assert_eq!(reading(&seen, "interface.ring.rx"), None);
    assert!(seen.unread["interface.ring.rx"].contains("not supported"));
    assert!(seen.unread.contains_key("interface.pci.width"));
    let rmem = exactly("net.ipv4.tcp_rmem");
    assert_eq!(reading(&seen, "net.ipv4.tcp_rmem"), Some(rmem.as_str()));
    let interface = seen.host.interface.as_ref().expect("an interface");
    assert_eq!(interface.mtu_bytes, Some(1500));
    for name in seen.unread.keys() {
        assert!(!seen.readings.contains_key(name), "{name} is in both");
    }
}

fn route() {
    let seen = observe_host(None, Some(Ipv4Addr::LOCALHOST.into()));
    assert_eq!(reading(&seen, "route.interface"), Some("lo"));
    assert_eq!(reading(&seen, "interface.name"), Some("lo"));
    let lost = observe_host(None, None);
    assert!(lost.unread.contains_key("route.interface"), "no default route");
    assert!(lost.unread.contains_key("interface.name"));
    assert!(lost.readings.contains_key("net.ipv4.tcp_rmem"));
}

fn no_loopback() {
    let seen = elsewhere(|| observe_host(Some("lo"), None));
    assert!(seen.effective.is_empty());
    assert!(seen.unread.contains_key("effective"), "{:?}", seen.unread);
    assert_eq!(reading(&seen, "interface.carrier"), Some("off"));
}

fn granted() {
    let ceiling = host::read_number("net.core.rmem_max").expect("rmem_max");
    let seen = observe_host_with_buffer(Some("lo"), None, 2 * ceiling);
    let entry = |what: &str| {
        let found = seen.effective.iter().find(|entry| entry.what == what);
        found.unwrap_or_else(|| panic!("{what} in {:?}", seen.effective))
    };
    assert_eq!(entry("receive_buffer").got, ceiling.to_string());
    assert!(!entry("receive_buffer").granted);
    assert_eq!(entry("receive_buffer").asked, (2 * ceiling).to_string());
    // How wide the window grows before the time for it is over, the machine decides.
    let window = seen.effective.iter().find(|it| it.what == "receive_window");
    assert!(window.is_none_or(|it| it.got.parse::<u64>().is_ok()));
}

fn no_interface() {
    let seen = observe_host(Some("no-such"), None);
    assert!(seen.unread["interface.name"].contains("no-such"));
    assert!(!seen.readings.keys().any(|name| name.starts_with("interface.")));
}
