//! A slice of the matrix of `cargo xtask bench matrix`: Debian's iperf3 and longhaul in both roles over
//! 0, 50 and 172 ms, and whatever other peers are installed already. Needs root.

use longhaul_bench::interop_matrix;
use longhaul_bench::interop_matrix::interop_peer::InteropPeer;

crate::virtual_tests!(
    peers_agree_with_the_devices_over_0_ms,
    peers_agree_with_the_devices_over_50_ms,
    peers_agree_with_the_devices_over_172_ms,
);

/// The rows of a test that takes seconds, not minutes.
const QUICK_ROWS: &[&str] =
    &["-t 1 -P 2", "-t 1 -R", "-t 1 --bidir", "-n 2M", "-u -t 1 -b 10M", "-u -t 1 -b 5M -P 2 -R"];
/// Paths at one time.
const PARALLEL_PATHS: usize = 4;

fn peers_agree_with_the_devices_over_0_ms() {
    play_slice(0);
}

fn peers_agree_with_the_devices_over_50_ms() {
    play_slice(50);
}

fn peers_agree_with_the_devices_over_172_ms() {
    play_slice(172);
}

/// Plays the slice at one delay: each row ends in time, and both ends count what the devices carried.
fn play_slice(delay_ms: u32) {
    let longhaul = xtask::program_runner::build_longhaul_for_tests().expect("the program builds");
    let peers = InteropPeer::list(&longhaul, false).expect("longhaul and Debian's iperf3");
    let names: Vec<String> = peers.iter().map(told).collect();
    println!("with {}", names.join(", "));
    let units: Vec<_> = interop_matrix::list_pairs(&peers)
        .into_iter()
        .filter(interop_matrix::PairOnPath::has_longhaul)
        .filter(|unit| unit.rtt_ms == delay_ms)
        // Its own client against its own server is not about other people's programs.
        .filter(|unit| !(unit.client.is_longhaul() && unit.server.is_longhaul()))
        .collect();
    assert!(units.len() >= 2, "both roles: {names:?}");
    let played = interop_matrix::run_all_pairs(&longhaul, &units, QUICK_ROWS, PARALLEL_PATHS)
        .expect("paths");
    let tried: usize = played.iter().map(|played| played.rows.len()).sum();
    assert!(tried >= 2 * units.len(), "{tried} rows of {}", units.len());
    let missed = interop_matrix::list_missed_rows(&played);
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

fn told(peer: &InteropPeer) -> String {
    format!("{} ({})", peer.name, peer.version)
}
