//! A slice of the matrix of `cargo xtask bench matrix`: Debian's iperf3 and longhaul in both roles over
//! 0, 50 and 172 ms, and whatever other peers are installed already. Needs root.

use longhaul_bench::interop_matrix::interop_peer::InteropPeer;
use longhaul_bench::interop_matrix::{self, PairOnPath};

crate::virtual_tests!(
    longhaul_as_client_agrees_with_the_devices_over_172_ms,
    longhaul_as_sending_server_agrees_with_the_devices_over_172_ms,
    longhaul_agrees_with_the_devices_over_50_ms,
    longhaul_agrees_with_the_devices_over_0_ms,
);

/// The rows of a test that takes seconds, not minutes.
const QUICK_ROWS: &[&str] =
    &["-t 1 -P 2", "-t 1 -R", "-t 1 --bidir", "-n 2M", "-u -t 1 -b 10M", "-u -t 1 -b 5M -P 2 -R"];
/// The rows in which the server sends. A client of iperf3 3.12 that sends polls without a pause from
/// the connection to the begin of the test, for two RTTs; in virtual time, 172 ms of that take
/// minutes. The other rows run over 50 ms.
const REVERSE_ROWS: &[&str] = &["-t 1 -R", "-u -t 1 -b 5M -P 2 -R"];
/// Paths at one time.
const PARALLEL_PATHS: usize = 4;

fn longhaul_as_client_agrees_with_the_devices_over_172_ms() {
    play_slice(172, QUICK_ROWS, |pair| pair.client.is_longhaul());
}

fn longhaul_as_sending_server_agrees_with_the_devices_over_172_ms() {
    play_slice(172, REVERSE_ROWS, |pair| pair.server.is_longhaul());
}

fn longhaul_agrees_with_the_devices_over_50_ms() {
    play_slice(50, QUICK_ROWS, PairOnPath::has_longhaul);
}

fn longhaul_agrees_with_the_devices_over_0_ms() {
    play_slice(0, QUICK_ROWS, PairOnPath::has_longhaul);
}

/// Plays the slice of these pairs at one RTT: each row ends in time, and both ends count what the
/// devices carried.
fn play_slice(rtt_ms: u32, rows: &[&'static str], takes_part: impl Fn(&PairOnPath) -> bool) {
    let longhaul = xtask::program_runner::build_longhaul_for_tests().expect("the program builds");
    let peers = InteropPeer::list(&longhaul, false).expect("longhaul and Debian's iperf3");
    let names: Vec<String> = peers.iter().map(describe_peer).collect();
    println!("with {}", names.join(", "));
    let pairs: Vec<_> = interop_matrix::list_pairs(&peers)
        .into_iter()
        .filter(|pair| pair.rtt_ms == rtt_ms && takes_part(pair))
        // Its own client against its own server is not about other people's programs.
        .filter(|pair| !(pair.client.is_longhaul() && pair.server.is_longhaul()))
        .collect();
    assert!(!pairs.is_empty(), "no pair of {names:?}");
    let results =
        interop_matrix::run_all_pairs(&longhaul, &pairs, rows, PARALLEL_PATHS).expect("paths");
    let tried: usize = results.iter().map(|result| result.rows.len()).sum();
    assert!(tried >= 2 * pairs.len(), "{tried} rows of {}", pairs.len());
    let missed = interop_matrix::list_missed_rows(&results);
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

fn describe_peer(peer: &InteropPeer) -> String {
    format!("{} ({})", peer.name, peer.version)
}
