//! Cells of the matrix of verdicts that must be right, at least one for each kind of fault that was
//! once named wrongly. The whole is `cargo xtask bench verdicts`.

use longhaul_bench::verdict_matrix::check_cell;

crate::virtual_tests!(
    a_full_path_is_named_whatever_its_queue,
    windows_buffers_and_requested_rates_are_named,
    a_send_buffer_whose_bursts_queue_is_named,
    random_and_bursty_loss_is_named,
    policers_with_small_and_large_buckets_are_named,
    policers_whose_losses_look_random_to_counters_are_named_at_either_end,
    a_shaper_is_named_and_a_fall_of_the_capacity_is_not_one,
    a_path_that_changes_in_mid_run_is_named_with_its_change,
    an_outage_is_named_and_nothing_is_called_healthy,
    a_full_way_back_is_named,
    datagrams_over_the_capacity_find_a_full_path,
    other_traffic_and_disorder_leave_a_full_path,
    a_run_that_ends_in_its_overshoot_accuses_nobody,
    a_queue_too_short_for_the_rtt_is_a_full_path,
    a_queue_that_never_empties_and_one_of_others_are_full_paths,
    of_two_limits_the_lower_is_named,
);

/// Runs cells of seed 1, each a kind and a number.
fn check_cells(cells: &[(&str, usize)]) {
    check_cells_of_seed(1, cells);
}

fn check_cells_of_seed(seed: u64, cells: &[(&str, usize)]) {
    let longhaul = xtask::program_runner::build_longhaul_for_tests().expect("the program builds");
    let wrong: Vec<String> = cells
        .iter()
        .filter_map(|(kind, number)| check_cell(&longhaul, kind, seed, *number).err())
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn a_full_path_is_named_whatever_its_queue() {
    check_cells(&[("full path", 6), ("queue management", 8), ("ECN", 1)]);
}

fn windows_buffers_and_requested_rates_are_named() {
    check_cells(&[("receive buffer", 1), ("send buffer", 5), ("slow writer", 0), ("pacing", 0)]);
}

fn a_send_buffer_whose_bursts_queue_is_named() {
    check_cells_of_seed(2, &[("send buffer", 1)]);
}

fn random_and_bursty_loss_is_named() {
    check_cells(&[("random loss", 9), ("bursts of loss", 4), ("corruption", 0)]);
}

fn policers_with_small_and_large_buckets_are_named() {
    check_cells(&[("policer, egress", 3), ("policer, ingress", 5), ("policer, ingress", 6)]);
}

fn policers_whose_losses_look_random_to_counters_are_named_at_either_end() {
    // Buckets of 9 and 6 packets: the client sends to one, the server to the other.
    check_cells_of_seed(10, &[("policer, egress", 2), ("policer, egress", 4)]);
}
fn a_shaper_is_named_and_a_fall_of_the_capacity_is_not_one() {
    check_cells(&[("shaper", 1), ("capacity falls", 2)]);
}

fn a_path_that_changes_in_mid_run_is_named_with_its_change() {
    check_cells(&[("datagrams arrive", 1), ("traffic leaves", 1), ("capacity rises", 1)]);
    check_cells_of_seed(5, &[("capacity rises", 4)]);
}

fn an_outage_is_named_and_nothing_is_called_healthy() {
    check_cells(&[("outage", 0), ("outage", 1)]);
}

fn a_full_way_back_is_named() {
    check_cells(&[("return path full", 4), ("return path full", 5)]);
    // No acknowledgement is lost: only their delay shows the queue.
    check_cells_of_seed(2, &[("return path full", 4)]);
}

fn datagrams_over_the_capacity_find_a_full_path() {
    check_cells(&[("UDP above the capacity", 0), ("UDP above the capacity", 1)]);
}

fn other_traffic_and_disorder_leave_a_full_path() {
    check_cells(&[("other datagrams", 0), ("reordering", 1), ("lost acknowledgements", 0)]);
    check_cells(&[("streams arrive", 2), ("short flows of others", 2)]);
}

fn a_run_that_ends_in_its_overshoot_accuses_nobody() {
    check_cells(&[("short run", 1), ("short run", 5)]);
}

fn a_queue_too_short_for_the_rtt_is_a_full_path() {
    check_cells(&[("short queue on a short path", 2)]);
    check_cells_of_seed(3, &[("short queue on a short path", 1)]);
}

fn a_queue_that_never_empties_and_one_of_others_are_full_paths() {
    check_cells_of_seed(2, &[("full path", 9), ("parallel streams", 1), ("datagrams arrive", 1)]);
    check_cells_of_seed(3, &[("other streams", 1)]);
}

fn of_two_limits_the_lower_is_named() {
    check_cells(&[("window and loss", 0), ("window and shaper", 0), ("both directions", 0)]);
}
