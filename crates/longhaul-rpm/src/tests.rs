//! Both ends over loopback, and peers that break the protocol.

use crate::rpm_client::{build_config_url, run_test};
use crate::rpm_config::{SMALL_PATH, WELL_KNOWN_PATH};
use crate::rpm_service::RpmHandler;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use longhaul_model::report::v1::load::{LoadPlan, ResponsivenessPlan, ResponsivenessRun};
use longhaul_probe::load_run::LoadOutcome;
use longhaul_probe::measurement_server::{
    AnonymousLimits, MeasurementServer, ServeEvent, ServeOptions,
};
use longhaul_probe::secure::TlsIdentity;
use longhaul_probe::throughput::TargetHost;
use parking_lot::Mutex;
use rustls::ServerConfig;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use tokio_rustls::TlsAcceptor;

/// Runs `client` against a server with these limits; returns its result and the server's events.
fn with_server<R>(
    limits: AnonymousLimits,
    client: impl FnOnce(SocketAddr) -> R,
) -> (R, Vec<ServeEvent>) {
    let identity = TlsIdentity::generate().expect("a certificate");
    let server = MeasurementServer::bind(ServeOptions {
        addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
        port: 0,
        anonymous: Some(limits),
        handlers: vec![Arc::new(RpmHandler::new(&identity))],
        ..ServeOptions::default()
    });
    let server = server.expect("a free port");
    let address = server.addresses()[0];
    let stop = AtomicBool::new(false);
    let events = Mutex::new(Vec::new());
    let result = thread::scope(|scope| {
        let running = scope.spawn(|| server.run(|event| events.lock().push(event), &stop));
        let result = client(address);
        stop.store(true, Ordering::Relaxed);
        running.join().expect("no panic").expect("it served");
        result
    });
    (result, events.into_inner())
}

/// Runs a test whose directions end after one interval of 0.3 s in which `is_enough` is true.
fn measure(
    address: SocketAddr,
    is_enough: impl Fn(&ResponsivenessRun) -> bool,
) -> Result<LoadOutcome, String> {
    let target = TargetHost { port: address.port(), ..TargetHost::new(address.ip().to_string()) };
    let plan = LoadPlan {
        forward: false,
        steps: Vec::new(),
        probe_interval_us: 20_000,
        probe_bytes: 6000,
        idle_us: 0,
        load_us: 30_000_000,
        responsiveness: Some(ResponsivenessPlan {
            config_url: build_config_url(&target, WELL_KNOWN_PATH),
            interval_us: 300_000,
            connections: 3,
        }),
    };
    let stop = AtomicBool::new(false);
    let outcome = run_test(&target, &plan, &stop, &mut |_, run| is_enough(run));
    outcome.map_err(|error| error.to_string())
}

/// Returns whether all connections and both kinds of probes have been used.
fn is_complete(run: &ResponsivenessRun) -> bool {
    run.interval_bytes.len() >= 4
        && run.interval_bytes.last().is_some_and(|bytes| *bytes > 0)
        && !run.foreign_probes.is_empty()
        && !run.self_probes.is_empty()
}

#[test]
fn both_directions_move_data_while_both_kinds_of_probes_are_answered() {
    let (outcome, events) =
        with_server(AnonymousLimits::default(), |address| measure(address, is_complete));
    let outcome = outcome.expect("a result");
    let seen = outcome.observation.responsiveness.expect("a test");
    for run in [seen.download, seen.upload] {
        let run = run.expect("a direction");
        assert_eq!((run.error.as_deref(), run.failed_probes), (None, 0));
        assert!(is_complete(&run), "{run:?}");
        assert!(run.connections >= 1, "{run:?}");
    }
    let opened = |event: &&ServeEvent| matches!(event, ServeEvent::SessionOpened { .. });
    assert_eq!(events.iter().filter(opened).count(), 1, "{events:?}");
}

#[test]
fn the_bytes_of_a_client_are_limited_over_all_its_connections() {
    let limits = AnonymousLimits { bytes: Some(8 << 20), ..AnonymousLimits::default() };
    let (outcome, events) = with_server(limits, |address| measure(address, |_| false));
    let moved = events.iter().find_map(|event| match event {
        ServeEvent::SessionClosed { bytes, .. } => Some(*bytes),
        _ => None,
    });
    // Each connection may finish the write that it has begun.
    assert!(moved.is_some_and(|bytes| bytes < 10 << 20), "{moved:?}");
    let error = match outcome {
        Ok(outcome) => outcome.observation.responsiveness.and_then(|it| it.download?.error),
        Err(why) => Some(why),
    };
    assert!(error.is_some());
}

#[test]
fn a_client_above_the_number_of_tests_is_told_the_limit() {
    let limits = AnonymousLimits { concurrent: 0, ..AnonymousLimits::default() };
    let (outcome, _) = with_server(limits, |address| measure(address, |_| true));
    let why = outcome.expect_err("no slot");
    assert!(why.contains("without a token, at most 0 runs"), "{why}");
}

/// Runs a test against a server of HTTP/2 whose objects are what `answer` returns for their path.
fn against(answer: fn(&str, &str) -> Option<String>) -> Result<LoadOutcome, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("its address");
    let identity = TlsIdentity::generate().expect("a certificate");
    let mut config = ServerConfig::clone(&identity.server_config());
    config.alpn_protocols = vec![b"h2".to_vec()];
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.expect("threads");
    let authority = address.to_string();
    runtime.spawn(async move {
        listener.set_nonblocking(true).expect("an option");
        let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
        let tls = TlsAcceptor::from(Arc::new(config));
        while let Ok((stream, _)) = listener.accept().await {
            let (tls, authority) = (tls.clone(), authority.clone());
            tokio::spawn(async move {
                let Ok(stream) = tls.accept(stream).await else { return };
                let service = service_fn(|request: Request<Incoming>| {
                    let text = answer(request.uri().path(), &authority);
                    async move {
                        let body = match text {
                            Some(text) => Full::from(text).boxed(),
                            None => crate::load_body::LoadBody::new(Arc::default()).boxed(),
                        };
                        Ok::<Response<_>, Infallible>(Response::new(body))
                    }
                });
                let served = http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service);
                let _ = served.await;
            });
        }
    });
    let outcome = measure(address, |run| run.interval_bytes.len() >= 3);
    runtime.shutdown_background();
    outcome
}

fn config_for(authority: &str, upload_host: &str) -> String {
    format!(
        r#"{{"version":1,"urls":{{"small_download_url":"https://{authority}{SMALL_PATH}",
        "large_download_url":"https://{authority}/large",
        "upload_url":"https://{upload_host}/up"}}}}"#
    )
}

#[test]
fn a_configuration_that_is_wrong_or_has_no_end_is_an_error() {
    let why = against(|_, _| Some("{\"version\":".to_owned())).expect_err("wrong JSON");
    assert!(why.contains("configuration is invalid"), "{why}");
    let why = against(|_, _| None).expect_err("a body without end");
    assert!(why.contains("length limit exceeded"), "{why}");
    let why = against(|_, authority| Some(config_for(authority, "other"))).expect_err("two hosts");
    assert!(why.contains("different hosts"), "{why}");
}

#[test]
fn small_objects_without_end_are_failed_probes() {
    let outcome = against(|path, authority| match path {
        WELL_KNOWN_PATH => Some(config_for(authority, authority)),
        _ => None,
    });
    let seen = outcome.expect("a result").observation.responsiveness.expect("a test");
    let download = seen.download.expect("a download");
    assert!(download.failed_probes > 0 && download.foreign_probes.is_empty(), "{download:?}");
}
