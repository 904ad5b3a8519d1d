//! The engine alone, both ends in one process over loopback: what it costs to move a byte.
//!
//! `cargo run --release -p longhaul-probe --example loopback -- [SECONDS] [STREAMS…]` prints goodput and
//! CPU seconds per 10^9 bytes of both ends together, for each mode and number of streams.
//! Options: `--affinity-off`, `--congestion-control NAME`, `--only MODE` (copy, zero, wire, wirecopy),
//! `--read-bytes N`, `--write-bytes N`, `--send-buffer N`.

use longhaul_model::report::v1::plan::{CoreAffinity, ReceiveMode, StopCondition, ThroughputPlan};
use longhaul_probe::engine::{
    DataSocket, DatagramFormat, EndRun, EndSpec, LocalBind, StreamEnding, TransferRole,
    open_tcp_socket, prepare_accepted,
};
use std::error::Error;
use std::net::TcpListener;
use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_secs(10);

struct Options {
    seconds: f64,
    streams: Vec<u32>,
    plan: ThroughputPlan,
    only: Option<String>,
}

fn options() -> Result<Options, Box<dyn Error>> {
    let mut numbers = Vec::new();
    let mut plan = ThroughputPlan::default();
    let mut only = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--affinity-off" => plan.affinity = CoreAffinity::Off,
            "--congestion-control" => plan.congestion_control = arguments.next(),
            "--only" => only = arguments.next(),
            "--read-bytes" => plan.read_bytes = Some(bytes(arguments.next())?),
            "--write-bytes" => plan.write_bytes = Some(bytes(arguments.next())?),
            "--send-buffer" => plan.send_buffer_bytes = Some(bytes(arguments.next())?),
            number => numbers.push(number.parse::<f64>()?),
        }
    }
    let seconds = numbers.first().copied().unwrap_or(2.0);
    let streams: Vec<u32> = numbers.iter().skip(1).map(|&count| count as u32).collect();
    plan.stop = StopCondition::TimeUs((seconds * 1e6) as u64);
    Ok(Options {
        seconds,
        streams: if streams.is_empty() { vec![1, 2, 4, 8] } else { streams },
        plan,
        only,
    })
}

fn bytes(argument: Option<String>) -> Result<u64, Box<dyn Error>> {
    Ok(argument.ok_or("a number of bytes is missing")?.parse()?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = options()?;
    for (name, mode, zero_copy) in [
        ("copy", ReceiveMode::Delivered, false),
        ("zero", ReceiveMode::Delivered, true),
        ("wirecopy", ReceiveMode::Wire, false),
        ("wire", ReceiveMode::Wire, true),
    ] {
        if options.only.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        for &streams in &options.streams {
            let plan = ThroughputPlan { mode, zero_copy, streams, ..options.plan.clone() };
            println!("{name:9} {streams:3} streams  {}", measure(&plan, options.seconds)?);
        }
    }
    Ok(())
}

fn measure(plan: &ThroughputPlan, seconds: f64) -> Result<String, Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let to = listener.local_addr()?;
    let (mut near, mut far) = (Vec::new(), Vec::new());
    for _ in 0..plan.streams {
        let socket = open_tcp_socket(plan, TransferRole::Sender, to, &LocalBind::default())?;
        near.push(DataSocket::Tcp(socket.connect(DEADLINE)?));
        let (accepted, _) = listener.accept()?;
        prepare_accepted(&accepted, plan, TransferRole::Receiver)?;
        far.push(DataSocket::Tcp(accepted));
    }
    let spec = |role| EndSpec {
        role,
        plan: plan.clone(),
        initiator: role == TransferRole::Sender,
        idle_rtt: None,
        origin: Instant::now(),
        heads: DatagramFormat::Longhaul,
        ending: StreamEnding::HalfClosed,
    };
    let receiver = EndRun::start(spec(TransferRole::Receiver), far)?;
    let sender = EndRun::start(spec(TransferRole::Sender), near)?;
    receiver.go();
    sender.go();
    sender.wait(Duration::from_secs_f64(seconds) + DEADLINE);
    receiver.stop();
    receiver.wait(DEADLINE);
    let (sender, receiver) = (sender.end(), receiver.end());
    let bytes = receiver.end.bytes as f64;
    let streams = sender.streams.iter().chain(&receiver.streams);
    let cpu_us: u64 = streams.filter_map(|stream| stream.cpu_us).sum();
    let caveats: Vec<_> = sender.caveats.iter().map(|caveat| &caveat.text).collect();
    Ok(format!(
        "{:7.1} Gbit/s  {:.4} CPU s/GB  {caveats:?}",
        bytes * 8e-9 / seconds,
        cpu_us as f64 * 1e3 / bytes,
    ))
}
