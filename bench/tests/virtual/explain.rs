//! Transfers of other programs that must be explained rightly at both ends, live and from captures. The
//! whole is
//! `cargo xtask bench explain`.

use longhaul_bench::explain_matrix::check_cell;

crate::virtual_tests!(
    a_full_path_is_no_fault_of_the_application,
    windows_and_buffers_of_foreign_programs_are_named,
    an_application_that_writes_little_and_a_paced_one_are_told_apart,
    requests_are_found_with_their_bytes_per_round_trip,
    a_policer_is_named_from_counters_and_from_packets,
    a_slow_reader_is_named_although_its_bursts_fill_the_path,
);

/// The kind, seed and number of cells.
fn check_cells(cells: &[(&str, u64, usize)]) {
    let longhaul = xtask::program_runner::build_longhaul_for_tests().expect("the program builds");
    let wrong: Vec<String> = cells
        .iter()
        .filter_map(|(kind, seed, number)| check_cell(&longhaul, kind, *seed, *number).err())
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn a_full_path_is_no_fault_of_the_application() {
    check_cells(&[("full path", 1, 0), ("random loss", 1, 0)]);
}

fn windows_and_buffers_of_foreign_programs_are_named() {
    check_cells(&[("tcp_rmem", 1, 0), ("tcp_wmem", 1, 0)]);
}

fn an_application_that_writes_little_and_a_paced_one_are_told_apart() {
    check_cells(&[("slow writer", 1, 0), ("pacing", 1, 0)]);
}

fn requests_are_found_with_their_bytes_per_round_trip() {
    check_cells(&[("requests in lockstep", 1, 0), ("pipelined requests", 1, 0)]);
}

fn a_policer_is_named_from_counters_and_from_packets() {
    check_cells(&[("policer", 1, 2)]);
}

fn a_slow_reader_is_named_although_its_bursts_fill_the_path() {
    check_cells(&[("slow reader", 2, 1)]);
}
