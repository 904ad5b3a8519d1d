//! The flow label of IPv6 packets (RFC 6437), chosen by the program.
//!
//! The label of a connection is fixed when it is connected. An accepted TCP connection cannot be
//! given one: the kernel has no call for it.

use crate::sockopt::set_option;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

/// `linux/in6.h`: lease a label, and create the lease if there is none.
const IPV6_FL_A_GET: u8 = 0;
const IPV6_FL_F_CREATE: u16 = 1;
/// `linux/in6.h`: any socket may lease the same label.
const IPV6_FL_S_ANY: u8 = 255;

/// `struct in6_flowlabel_req` of `linux/in6.h`.
#[derive(Clone, Copy)]
#[repr(C)]
struct FlowLabelRequest {
    destination: [u8; 16],
    /// In network byte order.
    label: u32,
    action: u8,
    share: u8,
    flags: u16,
    expires: u16,
    linger: u16,
    padding: u32,
}

/// Leases a label of 20 bits for an unconnected socket. Returns the address to connect to, which
/// carries the label; an IPv4 address is returned as it is.
///
/// # Errors
/// `PermissionDenied` for a label that another program leased for itself. ERANGE for one with the
/// uppermost bit, which Linux keeps for labels of its own (`net.ipv6.flowlabel_state_ranges`).
pub fn lease_flow_label(socket: impl AsFd, to: SocketAddr, label: u32) -> io::Result<SocketAddr> {
    let SocketAddr::V6(mut to) = to else { return Ok(to) };
    if to.ip().to_ipv4_mapped().is_some() {
        return Ok(SocketAddr::V6(to));
    }
    let request = FlowLabelRequest {
        destination: to.ip().octets(),
        label: label.to_be(),
        action: IPV6_FL_A_GET,
        share: IPV6_FL_S_ANY,
        flags: IPV6_FL_F_CREATE,
        expires: 0,
        linger: 0,
        padding: 0,
    };
    set_option(&socket, libc::IPPROTO_IPV6, libc::IPV6_FLOWLABEL_MGR, request)?;
    set_option(&socket, libc::IPPROTO_IPV6, libc::IPV6_FLOWINFO_SEND, 1_i32)?;
    to.set_flowinfo(label.to_be());
    Ok(SocketAddr::V6(to))
}
