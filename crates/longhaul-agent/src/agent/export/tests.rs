//! From the outbox of one archive into another: over TLS on loopback, into a database, and into an
//! archive of perfSONAR.

mod perfsonar;
pub(in crate::agent) mod place;

use super::batch_sender::CollectorClient;
use super::{DeliveryError, database_delivery, spawn_export};
use crate::agent::agent_log::AgentLog;
use crate::agent::clocks::read_wall_us;
use longhaul_store::history_store::AgentDelivery;
use longhaul_store::sqlite::outbox::MAIN_DESTINATION;
use place::{ExportFolder, holds_all, measured, on_loopback, run, until, waits, whole};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

const QUIET: AgentLog = AgentLog { format: crate::event_log::LogFormat::Json };

#[test]
fn what_is_measured_arrives_over_tls_with_its_plans_and_events() {
    whole(async {
        let place = ExportFolder::new();
        let collector = place.collector(on_loopback()).await;
        let here = measured(&place);
        let (stop, stopped) = watch::channel(false);
        let state = place.sender(collector.at, "dtn2.token");
        let forwarder = spawn_export(&state, QUIET, &stopped);
        let there = place.archive("there");
        until("all is there", || holds_all(&there)).await;
        until("nothing waits", || waits(&here) == 0).await;
        let _ = stop.send(true);
        forwarder.await.expect("no panic");
        collector.end().await;
    });
}

#[test]
fn a_collector_that_was_away_gets_all_of_it() {
    whole(async {
        let place = ExportFolder::new();
        let here = measured(&place);
        // Nobody listens where somebody has just listened.
        let first = place.collector(on_loopback()).await;
        let at = first.at;
        first.end().await;
        let (_stop, stopped) = watch::channel(false);
        let state = place.sender(at, "dtn2.token");
        let _forwarder = spawn_export(&state, QUIET, &stopped);
        until("it is counted", || state.read_counters().to_send.is_some_and(|it| it > 0)).await;
        assert!(waits(&here) > 0);
        let second = place.collector(at).await;
        let there = place.archive("there");
        until("all is there", || holds_all(&there)).await;
        until("nothing waits", || waits(&here) == 0).await;
        second.end().await;
    });
}

#[test]
fn what_is_refused_stands_aside_and_stops_nothing() {
    whole(async {
        let place = ExportFolder::new();
        let collector = place.collector(on_loopback()).await;
        let mut here = place.archive("here");
        here.set_destinations(&[MAIN_DESTINATION]).expect("destinations");
        here.append_runs(&[run("of-tomorrow", "2199-01-01T00:00:00Z")]).expect("a run");
        drop(here);
        let here = measured(&place);
        let (_stop, stopped) = watch::channel(false);
        let state = place.sender(collector.at, "dtn2.token");
        let _forwarder = spawn_export(&state, QUIET, &stopped);
        let there = place.archive("there");
        until("all is there", || holds_all(&there)).await;
        until("nothing waits", || waits(&here) == 0).await;
        assert_eq!(here.backlog().expect("a backlog").set_aside, 1);
        assert!(here.report("of-tomorrow").expect("a report").is_some());
        collector.end().await;
    });
}

#[test]
fn whom_the_collector_does_not_know_keeps_everything() {
    whole(async {
        let place = ExportFolder::new();
        let collector = place.collector(on_loopback()).await;
        let here = measured(&place);
        let outgoing =
            here.next_outgoing(MAIN_DESTINATION, 0, 10, u64::MAX).expect("read").expect("some");
        let state = place.sender(collector.at, "wrong.token");
        let file = state.file();
        let section = file.collector.as_ref().expect("a collector");
        let way =
            CollectorClient::new(section, &place.0, &place.0.join("own.token")).expect("a way");
        let answer = way.send_batch("dtn2", read_wall_us(), &outgoing.items).await;
        let Err(DeliveryError::Temporary(why)) = answer else {
            panic!("{answer:?}");
        };
        assert!(why.contains("401") && why.contains("token"), "{why}");
        assert!(!why.contains("of nobody"), "{why}");
        collector.end().await;
    });
}

#[test]
fn an_answer_that_was_lost_costs_nothing() {
    whole(async {
        let place = ExportFolder::new();
        let collector = place.collector(on_loopback()).await;
        let here = measured(&place);
        let outgoing =
            here.next_outgoing(MAIN_DESTINATION, 0, 10, u64::MAX).expect("read").expect("some");
        let state = place.sender(collector.at, "dtn2.token");
        let file = state.file();
        let section = file.collector.as_ref().expect("a collector");
        let way =
            CollectorClient::new(section, &place.0, &place.0.join("own.token")).expect("a way");
        for (new, already) in [(2, 0), (0, 2), (0, 2)] {
            let answer = way.send_batch("dtn2", read_wall_us(), &outgoing.items).await;
            let answer = answer.expect("taken");
            assert_eq!((answer.new, answer.already), (new, already));
            assert_eq!(answer.refused, []);
        }
        assert!(holds_all(&place.archive("there")));
        collector.end().await;
    });
}

#[test]
fn whoever_speaks_no_tls_is_not_answered_and_keeps_nobody_out() {
    whole(async {
        let place = ExportFolder::new();
        let collector = place.collector(on_loopback()).await;
        let here = measured(&place);
        let mut plain = TcpStream::connect(collector.at).await.expect("connects");
        let asked = b"GET /api/v1/about HTTP/1.1\r\nHost: localhost\r\n\r\n";
        plain.write_all(asked).await.expect("written");
        let mut answer = Vec::new();
        let _ = plain.read_to_end(&mut answer).await;
        assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
        // One that says nothing holds a place, and no more.
        let _silent = TcpStream::connect(collector.at).await.expect("connects");
        let outgoing =
            here.next_outgoing(MAIN_DESTINATION, 0, 10, u64::MAX).expect("read").expect("some");
        let state = place.sender(collector.at, "dtn2.token");
        let file = state.file();
        let section = file.collector.as_ref().expect("a collector");
        let way =
            CollectorClient::new(section, &place.0, &place.0.join("own.token")).expect("a way");
        let answer = way.send_batch("dtn2", read_wall_us(), &outgoing.items).await;
        assert_eq!(answer.expect("taken").new, 2);
        collector.end().await;
    });
}

#[test]
fn a_collector_that_nobody_vouches_for_gets_nothing() {
    whole(async {
        let (place, other) = (ExportFolder::new(), ExportFolder::new());
        let collector = place.collector(on_loopback()).await;
        let state = other.sender(collector.at, "dtn2.token");
        let here = measured(&other);
        let file = state.file();
        let section = file.collector.as_ref().expect("a collector");
        let way =
            CollectorClient::new(section, &other.0, &other.0.join("own.token")).expect("a way");
        let outgoing =
            here.next_outgoing(MAIN_DESTINATION, 0, 10, u64::MAX).expect("read").expect("some");
        let answer = way.send_batch("dtn2", read_wall_us(), &outgoing.items).await;
        let Err(DeliveryError::Temporary(why)) = answer else {
            panic!("{answer:?}");
        };
        assert!(why.contains("certificate"), "{why}");
        collector.end().await;
    });
}

#[test]
fn a_database_gets_the_same() {
    let place = ExportFolder::new();
    let here = measured(&place);
    let outgoing =
        here.next_outgoing(MAIN_DESTINATION, 0, 10, u64::MAX).expect("read").expect("some");
    let mut there = place.archive("there");
    for _ in 0..2 {
        let batch = database_delivery::build_batch("dtn2", outgoing.clone());
        let mut receive = |delivery: &AgentDelivery| there.receive(delivery).map(drop);
        let answer = database_delivery::deliver_batch(batch, &mut receive);
        assert_eq!(answer.expect("stored").refused, []);
        assert!(holds_all(&there));
    }
}
