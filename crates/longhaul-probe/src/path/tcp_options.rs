//! TCP options that this host offers, and those that remain in effect on the path.

use longhaul_model::report::v1::observation::TcpOptions;
use longhaul_model::report::v1::path::PathTcpOptions;
use longhaul_sys::sockopt::SockRef;
use longhaul_sys::tcp_transfer::UnconnectedTcp;
use longhaul_sys::{host, tcp_info};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Values of `net.ipv4.tcp_ecn` with which a host requests ECN when it connects (classic or
/// accurate), as of Linux 6.18; older kernels know 0 to 2.
const ECN_ASKS: [u64; 3] = [1, 3, 4];

/// Returns the options that this host would offer when it connects or, with `accepts`, when it
/// accepts a connection. `None` if its settings cannot be read.
pub(crate) fn read_offered_options(accepts: bool) -> Option<TcpOptions> {
    options_from_settings(&|name| host::read_number(name), accepts)
}

fn options_from_settings(
    setting: &dyn Fn(&str) -> Option<u64>,
    accepts: bool,
) -> Option<TcpOptions> {
    let ecn = setting("net.ipv4.tcp_ecn")?;
    Some(TcpOptions {
        timestamps: setting("net.ipv4.tcp_timestamps")? != 0,
        sack: setting("net.ipv4.tcp_sack")? != 0,
        window_scaling: setting("net.ipv4.tcp_window_scaling")? != 0,
        ecn: if accepts { ecn != 0 } else { ECN_ASKS.contains(&ecn) },
        send_window_shift: None,
        receive_window_shift: None,
    })
}

/// Returns the options in effect on a new connection to `to`, which is closed at once.
///
/// # Errors
/// Errors of the connection; blocks for at most `timeout`.
pub(super) fn probe_local_options(
    to: SocketAddr,
    source: Option<IpAddr>,
    device: Option<&str>,
    timeout: Duration,
) -> io::Result<PathTcpOptions> {
    let socket = open_tcp(to, source, device)?;
    let stream = socket.connect(timeout)?;
    let info = tcp_info::read_tcp_info(&stream)?;
    Ok(PathTcpOptions {
        here: Some(info.options),
        mss_here_bytes: Some(info.reading.mss_bytes as u32),
        offered_here: read_offered_options(false),
        ..PathTcpOptions::default()
    })
}

/// Creates a TCP socket to connect to `to`, bound to this address and interface.
pub(super) fn open_tcp(
    to: SocketAddr,
    source: Option<IpAddr>,
    device: Option<&str>,
) -> io::Result<UnconnectedTcp> {
    let socket = UnconnectedTcp::new(to)?;
    if let Some(device) = device {
        SockRef::from(&socket).bind_device(Some(device.as_bytes()))?;
    }
    if let Some(source) = source {
        socket.bind(SocketAddr::new(source, 0))?;
    }
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn settings_become_offers_of_each_side() {
        let settings = |ecn: u64| {
            move |name: &str| match name {
                "net.ipv4.tcp_ecn" => Some(ecn),
                "net.ipv4.tcp_sack" => Some(0),
                _ => Some(1),
            }
        };
        for (ecn, asks, accepts) in [(0, false, false), (1, true, true), (2, false, true)] {
            let offers = options_from_settings(&settings(ecn), false).expect("all settings");
            assert_eq!((offers.ecn, offers.sack, offers.timestamps), (asks, false, true));
            let takes = options_from_settings(&settings(ecn), true).expect("all settings");
            assert_eq!((takes.ecn, takes.window_scaling), (accepts, true));
        }
        assert_eq!(options_from_settings(&|_| None, true), None);
    }

    #[test]
    fn a_connection_to_this_host_has_what_this_host_offers() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let to = listener.local_addr().expect("its address");
        let options =
            probe_local_options(to, None, None, Duration::from_secs(5)).expect("a connection");
        let (force, offer) =
            (options.here.expect("in force"), options.offered_here.expect("offered"));
        assert_eq!(
            (force.sack, force.timestamps, force.window_scaling),
            (offer.sack, offer.timestamps, offer.window_scaling)
        );
        assert!(options.mss_here_bytes > Some(500));
        drop(listener);
        let refused =
            probe_local_options(to, None, None, Duration::from_secs(5)).expect_err("nobody there");
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }
}
