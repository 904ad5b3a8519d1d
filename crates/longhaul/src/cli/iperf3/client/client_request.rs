//! What the options ask for, as a plan of ours and what goes beyond it.

use crate::cli::args::{Iperf3Args, Iperf3ClientArgs, choose_padding};
use crate::cli::iperf3::value::HostAndDevice;
use crate::cli::iperf3::{Refusal, password};
use longhaul_iperf3::client_run::LoginCredentials;
use longhaul_iperf3::text_output::text_opening::PrintedLimit;
use longhaul_model::report::v1::plan::{
    CoreAffinity, ReceiveMode, RunDirection, RunTransport, StopCondition, ThroughputPlan,
};
use longhaul_probe::plan_limits::{DATAGRAM_BYTES, MAX_RATE_BPS};
use longhaul_probe::throughput::{AddressFamily, LocalBind, TargetHost};
use std::net::IpAddr;
use std::time::Duration;

/// iperf3's own, which is 1024 times 1024.
const UDP_RATE_BPS: u64 = 1 << 20;
/// The least rate that our engine keeps.
const LEAST_RATE_BPS: u64 = 1000;
const DEFAULT_SECONDS: u32 = 10;
const DEFAULT_BLOCK_BYTES: u64 = 128 << 10;
const MOST_BLOCK_BYTES: u64 = 1 << 20;
const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);
/// As long as TCP itself tries by default would be minutes.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// iperf3's idle timeout.
const SILENCE: Duration = Duration::from_secs(120);

/// A test as it was asked for.
#[derive(Debug)]
pub struct ClientRequest {
    pub target: TargetHost,
    pub plan: ThroughputPlan,
    pub login: Option<LoginCredentials>,
    pub omit_s: u32,
    pub limit: PrintedLimit,
    /// Bits per second of each stream; 0: no limit.
    pub rate_bps: u64,
    pub burst: Option<u32>,
    pub tos: u8,
    pub udp: bool,
    /// `None`: one interval.
    pub every: Option<Duration>,
    pub silence: Duration,
}

impl ClientRequest {
    /// # Errors
    /// What cannot be, or is not done here.
    pub fn of(args: &Iperf3Args, place: &HostAndDevice) -> Result<ClientRequest, Refusal> {
        refuse_what_is_not_done(args)?;
        let client = &args.client;
        let limit = limit(client)?;
        let omit_s = client.omit.unwrap_or(0);
        if omit_s > 0 && !matches!(limit, PrintedLimit::Seconds(_)) {
            return Err(not_done("--omit together with -n or -k", "use -t"));
        }
        let rate = client.bitrate.map(|burst| burst.bps);
        let rate_bps = rate.unwrap_or(if client.udp { UDP_RATE_BPS } else { 0 });
        let every = args.interval.unwrap_or(DEFAULT_INTERVAL);
        Ok(ClientRequest {
            target: target(args, place)?,
            plan: plan(args, limit, rate_bps)?,
            login: login(args)?,
            omit_s,
            limit,
            rate_bps,
            burst: burst(client)?,
            tos: client.tos.or(client.dscp).unwrap_or(0),
            udp: client.udp,
            every: Some(every).filter(|every| !every.is_zero()),
            silence: args.rcv_timeout.unwrap_or(SILENCE),
        })
    }

    /// Of a write, as far as the options tell.
    pub fn block_bytes(&self, datagram_bytes: u64) -> u64 {
        if self.udp {
            datagram_bytes
        } else {
            self.plan.write_bytes.unwrap_or(DEFAULT_BLOCK_BYTES)
        }
    }
}

fn not_done(what: &str, instead: &str) -> Refusal {
    Refusal::parameter(format!("{what} is not done by longhaul: {instead}"))
}

fn refuse_what_is_not_done(args: &Iperf3Args) -> Result<(), Refusal> {
    let client = &args.client;
    let sends_datagrams = client.udp && !client.reverse;
    let asked = [
        (
            client.sctp || client.xbind.is_some() || client.nstreams.is_some(),
            "SCTP",
            "use TCP or -u",
        ),
        (args.mptcp, "MPTCP", "leave -m out"),
        (
            args.file.is_some(),
            "-F (a file as payload)",
            "`longhaul copy` moves files",
        ),
        (
            client.flowlabel.is_some(),
            "-L (a flow label)",
            "leave it out",
        ),
        (
            client.cport.is_some(),
            "--cport (a local port)",
            "leave it out",
        ),
        (
            client.dont_fragment && sends_datagrams,
            "--dont-fragment of a sender",
            "choose -l below the path MTU",
        ),
    ];
    for (is_asked, what, instead) in asked {
        if is_asked {
            return Err(not_done(what, instead));
        }
    }
    if client.reverse && client.bidir {
        return Err(Refusal::parameter(
            "cannot be both reverse and bidirectional",
        ));
    }
    if args.version4 && args.version6 {
        return Err(Refusal::parameter("only one of -4 and -6 may be specified"));
    }
    Ok(())
}

fn limit(client: &Iperf3ClientArgs) -> Result<PrintedLimit, Refusal> {
    match (client.time, client.bytes, client.blockcount) {
        (Some(0), None, None) => Err(not_done("-t 0 (a test without an end)", "say how long")),
        (time, None, None) => Ok(PrintedLimit::Seconds(
            time.unwrap_or(DEFAULT_SECONDS).into(),
        )),
        (None, Some(bytes), None) => Ok(PrintedLimit::Bytes(bytes)),
        (None, None, Some(blocks)) => Ok(PrintedLimit::Blocks(blocks)),
        _ => Err(Refusal::parameter(
            "only one test end condition (-t, -n, -k) may be specified",
        )),
    }
}

fn burst(client: &Iperf3ClientArgs) -> Result<Option<u32>, Refusal> {
    const MOST: u64 = 1000;
    match client.bitrate.and_then(|burst| burst.count) {
        None | Some(0) => Ok(None),
        Some(count @ 1..=MOST) => Ok(Some(count as u32)),
        Some(_) => Err(Refusal::parameter(format!(
            "invalid burst count (maximum = {MOST})"
        ))),
    }
}

fn target(args: &Iperf3Args, place: &HostAndDevice) -> Result<TargetHost, Refusal> {
    let bind = args.bind.as_ref();
    let address = match bind.map(|bind| (&bind.host, bind.host.parse::<IpAddr>())) {
        None => None,
        Some((_, Ok(address))) => Some(address),
        Some((host, Err(_))) => {
            let text = format!("--bind {host}: an address is wanted, not a name");
            return Err(Refusal::parameter(text));
        }
    };
    let device = args.bind_dev.clone();
    let device = device
        .or_else(|| bind.and_then(|bind| bind.device.clone()))
        .or_else(|| place.device.clone());
    Ok(TargetHost {
        host: place.host.clone(),
        port: args.port,
        family: match (args.version4, args.version6) {
            (true, _) => AddressFamily::V4,
            (_, true) => AddressFamily::V6,
            _ => AddressFamily::Any,
        },
        bind: LocalBind { address, device },
        token: None,
        connect_timeout: args.client.connect_timeout.unwrap_or(CONNECT_TIMEOUT),
    })
}

fn plan(args: &Iperf3Args, limit: PrintedLimit, rate_bps: u64) -> Result<ThroughputPlan, Refusal> {
    let client = &args.client;
    let streams = client.parallel.unwrap_or(1);
    let all = |each: u64| {
        let all = each.max(LEAST_RATE_BPS).saturating_mul(u64::from(streams));
        all.min(MAX_RATE_BPS)
    };
    let rate = Some(rate_bps).filter(|rate| *rate > 0).map(all);
    let omit_us = u64::from(client.omit.unwrap_or(0)) * 1_000_000;
    let window = client.window.filter(|bytes| *bytes > 0);
    Ok(ThroughputPlan {
        direction: match (client.reverse, client.bidir) {
            (true, _) => RunDirection::Reverse,
            (_, true) => RunDirection::Both,
            _ => RunDirection::Forward,
        },
        transport: if client.udp {
            let rate_bps = rate.unwrap_or(MAX_RATE_BPS);
            RunTransport::Udp { rate_bps }
        } else {
            RunTransport::Tcp
        },
        streams,
        stop: match limit {
            PrintedLimit::Seconds(seconds) => StopCondition::TimeUs(seconds * 1_000_000 + omit_us),
            PrintedLimit::Bytes(bytes) => StopCondition::Bytes(bytes),
            PrintedLimit::Blocks(blocks) => StopCondition::Blocks(blocks),
        },
        warm_up_us: Some(omit_us).filter(|us| *us > 0),
        send_buffer_bytes: window,
        receive_buffer_bytes: window,
        write_bytes: length(client)?,
        congestion_control: client.congestion.clone().filter(|_| !client.udp),
        pacing_bps: client
            .fq_rate
            .filter(|rate| *rate > 0)
            .map(|rate| rate.max(LEAST_RATE_BPS)),
        write_rate_bps: rate.filter(|_| !client.udp),
        mss_bytes: client.set_mss.filter(|bytes| *bytes > 0 && !client.udp),
        dscp: client
            .tos
            .or(client.dscp)
            .map(|tos| tos >> 2)
            .filter(|dscp| *dscp > 0),
        no_delay: client.no_delay && !client.udp,
        mode: if client.skip_rx_copy {
            ReceiveMode::Wire
        } else {
            ReceiveMode::Delivered
        },
        zero_copy: client.zerocopy && !client.udp,
        affinity: match args.affinity {
            None => CoreAffinity::Auto,
            Some(cores) => CoreAffinity::Cores {
                initiator: vec![cores.own],
                responder: cores.far.into_iter().collect(),
            },
        },
        ..ThroughputPlan::default()
    })
}

fn length(client: &Iperf3ClientArgs) -> Result<Option<u64>, Refusal> {
    let asked = client.length.filter(|bytes| *bytes > 0);
    let (least, most) = DATAGRAM_BYTES;
    match asked {
        Some(bytes) if client.udp && !(least..=most).contains(&bytes) => Err(Refusal::parameter(
            format!("block size invalid (minimum = {least} bytes, maximum = {most} bytes)"),
        )),
        Some(bytes) if !client.udp && bytes > MOST_BLOCK_BYTES => Err(Refusal::parameter(format!(
            "block size too large (maximum = {MOST_BLOCK_BYTES} bytes)"
        ))),
        other => Ok(other),
    }
}

fn login(args: &Iperf3Args) -> Result<Option<LoginCredentials>, Refusal> {
    let client = &args.client;
    match (&client.username, &client.rsa_public_key_path) {
        (None, None) => Ok(None),
        (Some(user), Some(key)) => {
            let password = password::ask().map_err(Refusal::parameter)?;
            let login =
                LoginCredentials::new(key, user, &password, choose_padding(args.use_pkcs1_padding));
            login
                .map(Some)
                .map_err(|error| Refusal::parameter(error.to_string()))
        }
        _ => Err(Refusal::parameter(
            "you must specify a username, password, and path to a valid RSA public key",
        )),
    }
}
