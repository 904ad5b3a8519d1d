//! A slice of the matrix of `cargo xtask interop`: Debian's iperf3 and longhaul in both roles over
//! 0, 50 and 172 ms, and whatever other peers are installed already. Needs root.

use xtask::interop::peer::Peer;
use xtask::interop::{self, rows};

crate::virtual_tests!(
    peers_end_in_time_and_count_what_their_devices_carry,
);

/// Paths at one time: what two cores carry beside other tests.
const LANES: usize = 6;

fn peers_end_in_time_and_count_what_their_devices_carry() {
    let longhaul = xtask::process::longhaul_for_tests().expect("the program builds");
    let peers = interop::peers(&longhaul, false).expect("longhaul and Debian's iperf3");
    let names: Vec<String> = peers.iter().map(told).collect();
    println!("with {}", names.join(", "));
    let units: Vec<_> = interop::units(&peers)
        .into_iter()
        .filter(interop::Unit::has_longhaul)
        // Its own client against its own server is not about other people's programs.
        .filter(|unit| !(unit.client.is_longhaul() && unit.server.is_longhaul()))
        .collect();
    assert!(units.len() >= 6, "both roles at three delays: {names:?}");
    let played = interop::play_all(&longhaul, &units, rows::SLICE, LANES).expect("paths");
    let tried: usize = played.iter().map(|played| played.rows.len()).sum();
    assert!(tried >= 2 * units.len(), "{tried} rows of {}", units.len());
    interop::missed(&played).expect("every row passes");
}

fn told(peer: &Peer) -> String {
    format!("{} ({})", peer.name, peer.version)
}
