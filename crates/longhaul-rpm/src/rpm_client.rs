//! A whole test against a server: its configuration, a download and an upload.

use crate::direction_run::DirectionTest;
use crate::http_connection::HttpEndpoint;
use crate::rpm_config::{MAX_CONFIG_BYTES, RpmConfig, is_internal};
use hyper::Uri;
use longhaul_model::report::v1::RunParty;
use longhaul_model::report::v1::load::{
    LoadObservation, LoadPlan, ResponsivenessObservation, ResponsivenessRun,
};
use longhaul_probe::canonical_address;
use longhaul_probe::host_endpoint::HostEndpoint;
use longhaul_probe::load_run::LoadOutcome;
use longhaul_probe::probe_error::ProbeError;
use longhaul_probe::throughput::{TargetConnection, TargetHost, connect_target, initiator_party};
use longhaul_sys::tcp_info::read_tcp_info;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};
use tokio::runtime::{Builder, Runtime};

const WORKERS: usize = 2;
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Decides after each interval whether a direction, named by the first argument, is over.
pub type DirectionJudge<'a> = &'a mut dyn FnMut(&'static str, &ResponsivenessRun) -> bool;

/// Returns the URL of a server's configuration at this path.
pub fn build_config_url(target: &TargetHost, path: &str) -> String {
    // An address of IPv6 has brackets, and no interface.
    let host = target.host.split('%').next().unwrap_or_default();
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    format!("https://{host}:{}{path}", target.port)
}

/// Runs a test and blocks until it ends.
///
/// After `stop`, or when a connection fails, the outcome is what was measured until then.
///
/// # Errors
/// No connection to the server, or it does not speak the protocol.
pub fn run_test(
    target: &TargetHost,
    plan: &LoadPlan,
    stop: &AtomicBool,
    judge: DirectionJudge<'_>,
) -> Result<LoadOutcome, ProbeError> {
    let (began, started_at) = (Instant::now(), SystemTime::now());
    let TargetConnection { stream, address, target } = connect_target(target)?;
    let local = stream.local_addr().ok();
    let idle_rtt_us = read_tcp_info(&stream).ok().map(|info| info.rtt().as_micros() as u64);
    let failed = |what: String| ProbeError::OtherProtocol {
        address,
        what: format!("no test of responsiveness: {what}"),
        advice: Some(
            "start `longhaul serve --rpm` there, or name the port of another server, and the path \
             of its configuration with `--rpm=PATH`",
        ),
        is_lost: false,
    };
    let runtime = Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build();
    let runtime =
        runtime.map_err(|error| ProbeError::local("cannot start threads", Some(error)))?;
    let found = find_test_server(&runtime, &target, address, stream, plan).map_err(failed)?;
    let mut seen = ResponsivenessObservation {
        address: canonical_address(found.endpoint.address).ip().to_string(),
        ..ResponsivenessObservation::default()
    };
    let mut measure = |name: &'static str| {
        let test = DirectionTest {
            endpoint: &found.endpoint,
            config: &found.config,
            is_upload: name == "upload",
            plan,
            stop,
        };
        runtime.block_on(test.run(&mut |run| judge(name, run)))
    };
    let download = measure("download");
    if let Some(why) = &download.error
        && download.interval_bytes.is_empty()
    {
        return Err(failed(why.clone()));
    }
    seen.download = Some(download);
    wait_idle(Duration::from_micros(plan.idle_us), stop);
    if !stop.load(Ordering::Relaxed) {
        seen.upload = Some(measure("upload"));
    }
    runtime.shutdown_background();
    let observation = LoadObservation {
        clock: "user".to_owned(),
        idle_rtt_us,
        responsiveness: Some(seen),
        ..LoadObservation::default()
    };
    Ok(LoadOutcome {
        observation,
        initiator: initiator_party(local.map(canonical_address)),
        responder: RunParty {
            host: target.host.clone(),
            address: Some(canonical_address(address).ip().to_string()),
            port: target.changed_port(),
            failed_addresses: target.failed_addresses(),
            ..RunParty::default()
        },
        started_at,
        duration: began.elapsed(),
        caveats: Vec::new(),
        runs: Vec::new(),
        stopped: stop.load(Ordering::Relaxed),
    })
}

/// Waits until the queues have drained, or `stop` is set.
fn wait_idle(time: Duration, stop: &AtomicBool) {
    let until = Instant::now() + time;
    while Instant::now() < until && !stop.load(Ordering::Relaxed) {
        std::thread::sleep(STOP_POLL_INTERVAL.min(until.saturating_duration_since(Instant::now())));
    }
}

/// The server of the URLs.
struct TestServer {
    config: RpmConfig,
    endpoint: HttpEndpoint,
}

/// Fetches the configuration on a connection, and finds the server that it names.
fn find_test_server(
    runtime: &Runtime,
    target: &TargetHost,
    address: SocketAddr,
    stream: TcpStream,
    plan: &LoadPlan,
) -> Result<TestServer, String> {
    let url = plan.responsiveness.as_ref().map_or("", |it| it.config_url.as_str());
    let uri: Uri = url.parse().map_err(|error| format!("{url}: {error}"))?;
    let limit = target.connect_timeout;
    let endpoint = HttpEndpoint::new(address, &target.host, target.bind.clone(), limit)?;
    let document = runtime.block_on(async {
        let connection = endpoint.secure(stream, Duration::ZERO).await?;
        connection.get(&uri, MAX_CONFIG_BYTES, limit).await
    })?;
    let config = RpmConfig::parse(&document.0)?;
    let host = config.test_endpoint.as_ref().unwrap_or(&config.host);
    let is_same = host.eq_ignore_ascii_case(&target.host) && config.port == target.port;
    if is_same {
        return Ok(TestServer { config, endpoint });
    }
    let HostEndpoint { host, .. } = host.parse().map_err(|error| format!("{host}: {error}"))?;
    let other = TargetHost { host, port: config.port, chosen: None, ..target.clone() };
    let found = connect_target(&other).map_err(|error| error.to_string())?;
    if is_internal(found.address.ip()) && !is_internal(address.ip()) {
        return Err(format!("its configuration names an internal address, {}", found.address));
    }
    let endpoint = HttpEndpoint::new(found.address, &config.host, target.bind.clone(), limit)?;
    Ok(TestServer { config, endpoint })
}
