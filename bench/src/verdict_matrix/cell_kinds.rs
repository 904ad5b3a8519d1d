//! The kinds of cells: each draws a path, does something to it, and knows what must be said.

use super::matrix_cell::{CellTruth, DrawnPath, MatrixCell, log_between};
use crate::guest_cells::CellKind;
use longhaul_analysis::limit::loss_response::loss_bound_bps;
use longhaul_model::splitmix::SplitMix64;

/// The maximum threshold of RED: the kernel refuses larger ones of long bursts.
const MAX_RED_BYTES: u64 = 4 << 20;

pub const KINDS: [CellKind<MatrixCell>; 42] = [
    ("full path", 14, draw_full_path),
    ("parallel streams", 6, draw_parallel_streams),
    ("shallow queue", 6, draw_shallow_queue),
    ("deep queue", 4, draw_deep_queue),
    ("queue management", 12, draw_managed_queue),
    ("ECN", 4, draw_ecn),
    ("bucket of a usual size", 6, draw_usual_bucket),
    ("random loss", 10, draw_random_loss),
    ("bursts of loss", 6, draw_burst_loss),
    ("corruption", 3, draw_corruption),
    ("bbr under loss", 3, draw_bbr_under_loss),
    ("policer, egress", 10, draw_egress_policer),
    ("policer, ingress", 8, draw_ingress_policer),
    ("shaper", 8, draw_shaper),
    ("receive buffer", 6, draw_receive_buffer),
    ("tcp_rmem", 5, draw_tcp_rmem),
    ("send buffer", 6, draw_send_buffer),
    ("slow writer", 5, draw_slow_writer),
    ("slow reader", 5, draw_slow_reader),
    ("pacing", 5, draw_pacing),
    ("reordering", 5, draw_reordering),
    ("duplicates", 4, draw_duplicates),
    ("jitter", 4, draw_jitter),
    ("lost acknowledgements", 4, draw_lost_acknowledgements),
    ("return path full", 6, draw_full_return_path),
    ("other datagrams", 5, draw_other_datagrams),
    ("other streams", 5, draw_other_streams),
    ("datagrams arrive", 5, draw_arriving_datagrams),
    ("streams arrive", 5, draw_arriving_streams),
    ("traffic leaves", 5, draw_leaving_traffic),
    ("traffic on and off", 4, draw_on_off_traffic),
    ("short flows of others", 4, draw_short_flows),
    ("capacity rises", 5, draw_rising_capacity),
    ("capacity falls", 5, draw_falling_capacity),
    ("outage", 8, draw_outage),
    ("short run", 6, draw_short_run),
    ("UDP below the capacity", 4, draw_slow_datagrams),
    ("UDP above the capacity", 6, draw_fast_datagrams),
    ("window and loss", 12, draw_window_and_loss),
    ("window and shaper", 12, draw_window_and_shaper),
    ("both directions", 12, draw_both_directions),
    ("short queue on a short path", 8, draw_short_queue),
];

const PATH: CellTruth = CellTruth::limited_by(&["path_capacity"]);
const LOSS: CellTruth = CellTruth::limited_by(&["loss"]);
const POLICER: CellTruth = CellTruth::limited_by(&["policer"]);
const CHANGED: CellTruth = PATH.with_finding(&["path_changed"]);

pub fn draw_full_path(random: &mut SplitMix64) -> MatrixCell {
    let path = DrawnPath::draw(random);
    let queue = path.queue_bytes(log_between(random, 1.0, 4.0));
    let narrow = match random.below(3) {
        0 => path.link_with_queue(queue),
        1 => path.htb(queue),
        _ => path.netem_rate(queue),
    };
    MatrixCell::new(path, narrow, PATH)
}

pub fn draw_parallel_streams(random: &mut SplitMix64) -> MatrixCell {
    let mut path = DrawnPath::draw(random);
    path.streams = 2 + random.below(15) as u64;
    let queue = path.queue_bytes(log_between(random, 1.0, 3.0));
    let narrow = path.link_with_queue(queue);
    MatrixCell::new(path, narrow, PATH)
}

pub fn draw_shallow_queue(random: &mut SplitMix64) -> MatrixCell {
    let path = DrawnPath::draw(random).recovering_soon();
    let queue = path.queue_bytes(log_between(random, 0.1, 0.6));
    let (narrow, seconds) = (path.link_with_queue(queue), path.recovering_run_seconds());
    MatrixCell::new(path, narrow, PATH).lasting(seconds)
}

pub fn draw_deep_queue(random: &mut SplitMix64) -> MatrixCell {
    let path = DrawnPath::draw(random);
    let queue = path.queue_bytes(log_between(random, 4.0, 10.0));
    let narrow = path.link_with_queue(queue);
    MatrixCell::new(path, narrow, PATH)
}

pub fn draw_managed_queue(random: &mut SplitMix64) -> MatrixCell {
    let path = DrawnPath::draw(random).recovering_soon();
    let queue = path.queue_bytes(1.0);
    let (rate, packets) = (path.rate_bps, queue / path.mtu + 10);
    let narrow = match random.below(5) {
        0 => path.managed("fq_codel"),
        1 => format!("narrow cake bandwidth {rate}bit"),
        2 => path.managed("codel"),
        3 => path.managed(&format!("pie limit {}", packets * 3)),
        _ => {
            let max = queue.clamp(15 * path.mtu, MAX_RED_BYTES);
            let limit = (queue * 4).max(60 * path.mtu);
            let (min, mean) = (max / 3, path.mtu * 2 / 3);
            let burst = (2 * min + max) / (3 * mean) + 1;
            path.managed(&format!(
                "red limit {limit} min {min} max {max} avpkt {mean} burst {burst} probability 0.05 \
                 bandwidth {rate}bit"
            ))
        }
    };
    let seconds = path.recovering_run_seconds();
    MatrixCell::new(path, narrow, PATH).lasting(seconds)
}

/// Draws a path on which a queue adds so little to the RTT that its losses look like a policer's.
fn draw_short_queue(random: &mut SplitMix64) -> MatrixCell {
    let mut path = DrawnPath::draw_within(random, [10e6, 2e9], [1.0, 12.0]);
    path.congestion = ["cubic", "reno", "htcp"][random.below(3)];
    let narrow = match random.below(3) {
        0 => path.managed("fq_codel"),
        1 => format!("narrow cake bandwidth {}bit besteffort", path.rate_bps),
        _ => path.link_with_queue(path.queue_bytes(log_between(random, 0.1, 0.4))),
    };
    MatrixCell::new(path, narrow, PATH)
}

pub fn draw_ecn(random: &mut SplitMix64) -> MatrixCell {
    let mut path = DrawnPath::draw(random);
    path.limits.push("net.ipv4.tcp_ecn=1");
    path.congestion = ["cubic", "reno", "cubic", "dctcp"][random.below(4)];
    let narrow = path.managed("fq_codel ecn");
    MatrixCell::new(path, narrow, PATH)
}

pub fn draw_usual_bucket(random: &mut SplitMix64) -> MatrixCell {
    let path = DrawnPath::draw(random);
    let bucket = (log_between(random, 5e3, 64e3) as u64).max(path.mtu * 2);
    let queue = path.queue_bytes(log_between(random, 1.0, 4.0));
    let narrow = path.tbf(bucket, queue);
    MatrixCell::new(path, narrow, PATH)
}

/// Draws a path and a loss ratio that limits the streams on it to half of the rate or less, if losses
/// come in bursts of so many segments.
fn draw_lossy_path(random: &mut SplitMix64, ratios: [f64; 2], burst: f64) -> (DrawnPath, f64) {
    loop {
        let mut path = DrawnPath::draw(random);
        path.congestion = ["cubic", "reno"][random.below(2)];
        let ratio = log_between(random, ratios[0], ratios[1]);
        let mss = path.mtu as f64 - 60.0;
        let one = loss_bound_bps(mss, path.rtt_ms / 1e3, ratio / burst).unwrap_or(f64::INFINITY);
        let bound = one * path.streams as f64;
        let lost = bound * path.seconds() as f64 / 8.0 / mss * ratio;
        if bound < 0.5 * path.rate_bps as f64 && lost > 20.0 {
            return (path, ratio);
        }
    }
}

pub fn draw_random_loss(random: &mut SplitMix64) -> MatrixCell {
    let (mut path, ratio) = draw_lossy_path(random, [1e-4, 2e-2], 1.0);
    path.delay_out = format!("loss {:.4}%", ratio * 100.0);
    MatrixCell::on_plain_link(path, LOSS)
}

pub fn draw_burst_loss(random: &mut SplitMix64) -> MatrixCell {
    // Gilbert: bursts of 1/r packets begin with probability p; the loss ratio is p / (p + r).
    let leave = random.between(0.2, 0.6);
    let (mut path, ratio) = draw_lossy_path(random, [1e-3, 1e-2], 1.0 / leave);
    let enter = ratio * leave / (1.0 - ratio);
    path.delay_out = format!("loss gemodel {:.5}% {:.1}%", enter * 100.0, leave * 100.0);
    MatrixCell::on_plain_link(path, LOSS)
}

pub fn draw_corruption(random: &mut SplitMix64) -> MatrixCell {
    let (mut path, ratio) = draw_lossy_path(random, [3e-4, 1e-2], 1.0);
    path.delay_out = format!("corrupt {:.4}%", ratio * 100.0);
    MatrixCell::on_plain_link(path, LOSS)
}

pub fn draw_bbr_under_loss(random: &mut SplitMix64) -> MatrixCell {
    let mut path = DrawnPath::draw(random);
    path.congestion = "bbr";
    path.delay_out = format!("loss {:.3}%", log_between(random, 0.01, 1.0));
    MatrixCell::on_plain_link(path, PATH)
}

fn draw_policer(random: &mut SplitMix64, place: &str) -> MatrixCell {
    let mut path = DrawnPath::draw_within(random, [2e6, 400e6], [1.0, 200.0]);
    path.mtu = 1500;
    // From a few packets, or a millisecond of the rate, to two seconds of it.
    let bytes_per_second = path.rate_bps as f64 / 8.0;
    let bucket =
        log_between(random, (bytes_per_second * 1e-3).max(5e3), bytes_per_second * 2.0) as u64;
    let link = path.rate_bps as f64 * random.between(3.0, 6.0);
    path.first_bps = link as u64;
    let narrow = format!("police {place} {}bit {bucket}", path.rate_bps);
    let title = format!("bucket {} kB", bucket / 1000);
    MatrixCell::new(path, narrow, POLICER).titled(title).policed_with(bucket)
}

pub fn draw_egress_policer(random: &mut SplitMix64) -> MatrixCell {
    draw_policer(random, "leave")
}

pub fn draw_ingress_policer(random: &mut SplitMix64) -> MatrixCell {
    draw_policer(random, "enter")
}

pub fn draw_shaper(random: &mut SplitMix64) -> MatrixCell {
    let mut path = DrawnPath::draw_within(random, [5e6, 300e6], [1.0, 60.0]);
    path.congestion = ["cubic", "reno"][random.below(2)];
    let peak = random.between(1.5, 4.0);
    let seconds_at_peak = random.between(1.5, 4.0);
    let bucket = (path.rate_bps as f64 * (peak - 1.0) * seconds_at_peak / 8.0) as u64;
    path.first_bps = (path.rate_bps as f64 * peak) as u64;
    let queue = path.queue_bytes(random.between(1.0, 4.0));
    let narrow = path.tbf(bucket, queue);
    MatrixCell::new(path, narrow, CellTruth::limited_by(&["shaper"]))
        .titled(format!("peak {peak:.1}x for {seconds_at_peak:.1} s"))
}

/// Draws a path with little delay variation and a window that allows a part of its rate.
pub fn draw_window(random: &mut SplitMix64) -> (DrawnPath, u64) {
    loop {
        let path = DrawnPath::draw(random);
        let share = random.between(0.1, 0.6);
        let bytes = (path.bdp_bytes() * share) as u64 / path.streams;
        if bytes >= 6 * path.mtu {
            return (path, bytes);
        }
    }
}

fn draw_receive_buffer(random: &mut SplitMix64) -> MatrixCell {
    let (path, window) = draw_window(random);
    MatrixCell::on_plain_link(path, CellTruth::limited_by(&["receive_window"]))
        .option(format!("--receive-buffer {window}"))
}

pub fn draw_tcp_rmem(random: &mut SplitMix64) -> MatrixCell {
    let (path, window) = draw_window(random);
    // Up to nine tenths of it become the window, which must not fill the path.
    let max = window * 3 / 2;
    let default = max.min(16_384);
    let command = format!(
        "ip netns exec far sysctl -qw net.ipv4.tcp_rmem='4096 {default} {max}'\n\
         kill $SERVE; wait $SERVE || true; serve"
    );
    MatrixCell::on_plain_link(path, CellTruth::limited_by(&["receive_window"])).before(command)
}

fn draw_send_buffer(random: &mut SplitMix64) -> MatrixCell {
    let (path, window) = draw_window(random);
    MatrixCell::on_plain_link(path, CellTruth::limited_by(&["send_buffer"]))
        .option(format!("--send-buffer {window}"))
}

/// Draws a path and a rate that is a part of its own.
pub fn draw_requested_rate(random: &mut SplitMix64) -> (DrawnPath, u64) {
    let path = DrawnPath::draw_within(random, [4e6, 1e9], [1.0, 200.0]);
    let rate = (path.rate_bps as f64 * random.between(0.1, 0.7)) as u64;
    (path, rate)
}

fn draw_slow_writer(random: &mut SplitMix64) -> MatrixCell {
    let (path, rate) = draw_requested_rate(random);
    MatrixCell::on_plain_link(path, CellTruth::limited_by(&["application"]))
        .option(format!("--bitrate {rate}"))
}

fn draw_slow_reader(random: &mut SplitMix64) -> MatrixCell {
    let (path, rate) = draw_requested_rate(random);
    MatrixCell::on_plain_link(path, CellTruth::limited_by(&["application"]))
        .option(format!("--read-rate {rate}"))
}

fn draw_pacing(random: &mut SplitMix64) -> MatrixCell {
    let (path, rate) = draw_requested_rate(random);
    let each = rate / path.streams;
    MatrixCell::on_plain_link(path, CellTruth::limited_by(&["pacing"]))
        .option(format!("--pacing {each}"))
}

pub fn draw_reordering(random: &mut SplitMix64) -> MatrixCell {
    let mut path = DrawnPath::draw_within(random, [2e6, 300e6], [10.0, 200.0]);
    path.delay_out = format!("reorder {:.2}% 50%", 100.0 - log_between(random, 0.1, 1.0));
    // Nearly all packets are sent at once, after a delay line of their own; the others are late.
    path.late_ms = Some(random.between(1.0, 5.0));
    MatrixCell::on_plain_link(path, PATH)
}

pub fn draw_duplicates(random: &mut SplitMix64) -> MatrixCell {
    let mut path = DrawnPath::draw(random);
    path.delay_out = format!("duplicate {:.2}%", log_between(random, 0.1, 2.0));
    MatrixCell::on_plain_link(path, PATH)
}

pub fn draw_jitter(random: &mut SplitMix64) -> MatrixCell {
    let mut path = DrawnPath::draw_within(random, [2e6, 300e6], [10.0, 300.0]);
    path.jitter_ms = random.between(0.2, 2.0);
    MatrixCell::on_plain_link(path, PATH)
}

pub fn draw_lost_acknowledgements(random: &mut SplitMix64) -> MatrixCell {
    let mut path = DrawnPath::draw(random);
    path.delay_back = format!("loss {:.1}%", log_between(random, 1.0, 30.0));
    MatrixCell::on_plain_link(path, PATH)
}

pub fn draw_full_return_path(random: &mut SplitMix64) -> MatrixCell {
    let mut path = DrawnPath::draw_within(random, [5e6, 400e6], [1.0, 150.0]);
    path.congestion = ["cubic", "reno"][random.below(2)];
    let narrow = path.plain_link();
    let back = path.rate_bps as f64 / random.between(80.0, 200.0) * 1500.0 / path.mtu as f64;
    // Both hold a packet of the largest size, or none would ever pass.
    let bucket = path.mtu * 2;
    let queue = (back / 8.0 * log_between(random, 0.05, 0.4)).max(bucket as f64);
    let back_link = format!("narrow_back tbf rate {back:.0}bit burst {bucket} limit {queue:.0}");
    let narrow = format!("{narrow}\n{back_link}");
    let truth = CellTruth::limited_by(&["path_capacity", "loss", "unknown"])
        .with_finding(&["return_path_full"]);
    MatrixCell::new(path, narrow, truth).titled(format!("back {:.0} kbit/s", back / 1e3))
}

/// Draws a path on which others send, too, and a share of its rate for them.
fn draw_shared_path(random: &mut SplitMix64) -> (DrawnPath, f64) {
    let mut path = DrawnPath::draw_within(random, [5e6, 200e6], [5.0, 150.0]);
    path.congestion = ["cubic", "reno"][random.below(2)];
    let share = random.between(0.35, 0.65);
    (path, share)
}

fn shared_narrow(random: &mut SplitMix64, path: &DrawnPath) -> String {
    let queue = path.queue_bytes(log_between(random, 1.0, 2.0));
    path.link_with_queue(queue)
}

/// Returns the command of other datagrams at this share of the rate.
fn other_datagrams(path: &DrawnPath, share: f64, seconds: u64) -> String {
    let rate = path.rate_bps as f64 * share;
    format!("others -u -b {rate:.0} -l {} -t {seconds}", path.mtu - 100)
}

pub fn draw_other_datagrams(random: &mut SplitMix64) -> MatrixCell {
    let (path, share) = draw_shared_path(random);
    let narrow = shared_narrow(random, &path);
    let others = other_datagrams(&path, share, path.seconds() + 20);
    MatrixCell::new(path, narrow, PATH).before(format!("{others} &\nsleep 2"))
}

pub fn draw_other_streams(random: &mut SplitMix64) -> MatrixCell {
    let (path, _) = draw_shared_path(random);
    let narrow = shared_narrow(random, &path);
    let (count, seconds) = (1 + random.below(4), path.seconds() + 30);
    MatrixCell::new(path, narrow, PATH).before(format!("others -P {count} -t {seconds} &\nsleep 8"))
}

fn draw_arriving_datagrams(random: &mut SplitMix64) -> MatrixCell {
    let (path, share) = draw_shared_path(random);
    let narrow = shared_narrow(random, &path);
    let at = path.seconds() as f64 * random.between(0.35, 0.65);
    let others = other_datagrams(&path, share, path.seconds());
    MatrixCell::new(path, narrow, CHANGED).at(at, &others)
}

fn draw_arriving_streams(random: &mut SplitMix64) -> MatrixCell {
    let (path, _) = draw_shared_path(random);
    let narrow = shared_narrow(random, &path);
    let at = path.seconds() as f64 * random.between(0.35, 0.65);
    let others = format!("others -P {} -t {}", 1 + random.below(4), path.seconds());
    MatrixCell::new(path, narrow, PATH).at(at, &others)
}

fn draw_leaving_traffic(random: &mut SplitMix64) -> MatrixCell {
    let (path, share) = draw_shared_path(random);
    let narrow = shared_narrow(random, &path);
    let at = (path.seconds() as f64 * random.between(0.35, 0.65)) as u64;
    let others = other_datagrams(&path, share, at + 3);
    MatrixCell::new(path, narrow, CHANGED).before(format!("{others} &\nsleep 2"))
}

fn draw_on_off_traffic(random: &mut SplitMix64) -> MatrixCell {
    let (path, share) = draw_shared_path(random);
    let narrow = shared_narrow(random, &path);
    let others = other_datagrams(&path, share, 1);
    MatrixCell::new(path, narrow, PATH)
        .at(0.0, &format!("for i in 1 2 3 4 5 6 7 8 9 10; do {others}; sleep 1; done"))
}

fn draw_short_flows(random: &mut SplitMix64) -> MatrixCell {
    let (path, share) = draw_shared_path(random);
    let narrow = shared_narrow(random, &path);
    let bytes = (path.rate_bps as f64 / 8.0 * share * 0.3) as u64;
    let flows = format!("for i in $(seq 30); do others -n {bytes}; sleep 0.3; done");
    MatrixCell::new(path, narrow, PATH).at(0.0, &flows)
}

/// Draws a path whose capacity changes by this factor in the middle of the run.
fn draw_changing_capacity(random: &mut SplitMix64, factor: f64) -> MatrixCell {
    let mut path = DrawnPath::draw_within(random, [5e6, 200e6], [1.0, 150.0]);
    path.congestion = ["cubic", "reno", "bbr"][random.below(3)];
    let queue = path.queue_bytes(log_between(random, 1.0, 3.0));
    let narrow = path.link_with_queue(queue);
    let at = path.seconds() as f64 * random.between(0.35, 0.65);
    let rate = (path.rate_bps as f64 * factor) as u64;
    let change = format!("narrow tbf rate {rate}bit burst {} limit {queue}", path.mtu * 2);
    // A link whose rate falls once, and a shaper whose burst ends, are the same to a sender that filled
    // the path before.
    let truth = if factor < 1.0 {
        CellTruth::limited_by(&["path_capacity", "shaper"]).with_finding(&["path_changed"])
    } else {
        CHANGED
    };
    MatrixCell::new(path, narrow, truth)
        .at(at, &change)
        .titled(format!("x{factor:.2} at {at:.0} s"))
}

fn draw_rising_capacity(random: &mut SplitMix64) -> MatrixCell {
    let factor = random.between(1.5, 3.0);
    draw_changing_capacity(random, factor)
}

fn draw_falling_capacity(random: &mut SplitMix64) -> MatrixCell {
    let factor = random.between(0.3, 0.7);
    draw_changing_capacity(random, factor)
}

fn draw_outage(random: &mut SplitMix64) -> MatrixCell {
    let path = DrawnPath::draw_within(random, [2e6, 300e6], [1.0, 200.0]);
    let at = path.seconds() as f64 * random.between(0.3, 0.6);
    let seconds = random.between(1.0, 3.0);
    let cut = format!("outage {seconds:.2}");
    let truth = CellTruth::limited_by(&["path_capacity", "loss"]).with_finding(&["outage"]);
    MatrixCell::on_plain_link(path, truth).at(at, &cut).titled(format!("{seconds:.1} s"))
}

fn draw_short_run(random: &mut SplitMix64) -> MatrixCell {
    let path = DrawnPath::draw_within(random, [50e6, 2e9], [60.0, 400.0]);
    let seconds = path.rtt_ms / 1e3 * random.between(5.0, 14.0);
    // Few samples remain after the ramp: that the limit cannot be told is right, too.
    let truth =
        CellTruth::limited_by(&["ramp", "path_capacity", "unknown"]).with_finding(&["short_run"]);
    MatrixCell::on_plain_link(path, truth).lasting(seconds.max(0.5))
}

fn draw_slow_datagrams(random: &mut SplitMix64) -> MatrixCell {
    let (path, rate) = draw_requested_rate(random);
    MatrixCell::on_plain_link(path, CellTruth::limited_by(&["application"]))
        .option(format!("-u -b {rate}"))
}

fn draw_fast_datagrams(random: &mut SplitMix64) -> MatrixCell {
    let path = DrawnPath::draw_within(random, [4e6, 400e6], [1.0, 200.0]);
    let rate = (path.rate_bps as f64 * random.between(1.3, 3.0)) as u64;
    let narrow = path.link_with_queue(path.queue_bytes(log_between(random, 0.5, 3.0)));
    MatrixCell::new(path, narrow, PATH).option(format!("-u -b {rate}"))
}

/// A limit that is this much lower than another one is the limit of the run; of two that are closer, both
/// are right. The rate that random losses allow is known to a factor of two.
const LOWER_THAN_LOSS: f64 = 2.0;
const LOWER_THAN_SHAPER: f64 = 1.15;

/// Returns the limiters that are right if the window allows so much of the other limit's rate.
fn lower_limit(
    window_ratio: f64,
    margin: f64,
    [window, both, other]: [&'static [&'static str]; 3],
) -> CellTruth {
    CellTruth::limited_by(if window_ratio * margin < 1.0 {
        window
    } else if window_ratio > margin {
        other
    } else {
        both
    })
}

fn draw_window_and_loss(random: &mut SplitMix64) -> MatrixCell {
    loop {
        let (mut path, ratio) = draw_lossy_path(random, [1e-4, 1e-2], 1.0);
        let window_ratio = log_between(random, 0.25, 4.0);
        let rtt_s = path.rtt_ms / 1e3;
        let bound = loss_bound_bps(path.mtu as f64 - 60.0, rtt_s, ratio).unwrap_or(f64::INFINITY);
        let window = (bound * window_ratio / 8.0 * rtt_s) as u64;
        if window < 6 * path.mtu || window as f64 * path.streams as f64 > 0.6 * path.bdp_bytes() {
            continue;
        }
        path.delay_out = format!("loss {:.4}%", ratio * 100.0);
        let limiters: [&[&str]; 3] = [&["receive_window"], &["receive_window", "loss"], &["loss"]];
        return MatrixCell::on_plain_link(
            path,
            lower_limit(window_ratio, LOWER_THAN_LOSS, limiters),
        )
        .option(format!("--receive-buffer {window}"))
        .titled(format!("window x{window_ratio:.2} of the loss"));
    }
}

fn draw_window_and_shaper(random: &mut SplitMix64) -> MatrixCell {
    loop {
        let mut path = DrawnPath::draw_within(random, [5e6, 300e6], [5.0, 60.0]);
        path.congestion = ["cubic", "reno"][random.below(2)];
        let (peak, seconds_at_peak) = (random.between(2.0, 4.0), random.between(1.5, 3.0));
        let window_ratio = log_between(random, 0.4, 1.8);
        let window = (path.bdp_bytes() * window_ratio) as u64 / path.streams;
        if window < 6 * path.mtu {
            continue;
        }
        // The bucket empties in this time, at the rate that the window allows beyond the shaper's.
        let excess = (window_ratio - 1.0).max(0.1);
        let bucket = (path.rate_bps as f64 * excess * seconds_at_peak / 8.0) as u64;
        path.first_bps = (path.rate_bps as f64 * peak) as u64;
        let narrow = path.tbf(bucket.max(path.mtu * 2), path.queue_bytes(2.0));
        // The window also limits how much the shaper can queue, so that a small rest of it fills no queue.
        let limiters: [&[&str]; 3] =
            [&["receive_window"], &["receive_window", "shaper", "path_capacity"], &["shaper"]];
        return MatrixCell::new(
            path,
            narrow,
            lower_limit(window_ratio, LOWER_THAN_SHAPER, limiters),
        )
        .option(format!("--receive-buffer {window}"))
        .titled(format!("window x{window_ratio:.2} of the shaper"));
    }
}

fn draw_both_directions(random: &mut SplitMix64) -> MatrixCell {
    let mut path = DrawnPath::draw_within(random, [5e6, 300e6], [1.0, 150.0]);
    path.is_reverse = false;
    let queue = path.queue_bytes(log_between(random, 1.0, 3.0));
    let back = (path.rate_bps as f64 * random.between(0.3, 1.0)) as u64;
    let back_link =
        format!("narrow_back tbf rate {back}bit burst {} limit {queue}", path.mtu * 2 + 100);
    let narrow = format!("{}\n{back_link}", path.link_with_queue(queue));
    MatrixCell::new(path, narrow, PATH)
        .option("--both".to_owned())
        .titled(format!("back {:.1} Mbit/s", back as f64 / 1e6))
}
