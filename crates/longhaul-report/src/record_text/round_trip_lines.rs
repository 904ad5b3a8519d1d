//! All RTTs of a path measurement, line by line.

use longhaul_model::report::v1::PathReport;
use longhaul_model::report::v1::path::{PathRtt, RoundTripSeries};
use std::fmt::Write;

/// Renders the RTTs from here, and those measured by the responder.
pub fn render_round_trips(path: &PathReport) -> String {
    let (seen, found) = (&path.observation, &path.analysis);
    let mut text = String::new();
    for (way, echoes, rtt) in [
        ("from the client", &seen.round_trips, &found.rtt),
        ("from the server", &seen.round_trips_reverse, &found.rtt_reverse),
    ] {
        match echoes {
            Some(echoes) => write_round_trips(&mut text, way, echoes, rtt.as_ref()),
            None => {
                let _ = writeln!(text, "round trips {way}: not measured\n");
            }
        }
    }
    text
}

fn write_round_trips(to: &mut String, way: &str, echoes: &RoundTripSeries, rtt: Option<&PathRtt>) {
    let protocol = echoes.protocol.word();
    // Writing to a string cannot fail.
    let _ = writeln!(
        to,
        "round trips {way}: {protocol}, {} bytes, timestamps: {}",
        echoes.packet_bytes,
        echoes.clock.replace('_', " ")
    );
    for (number, echo) in echoes.echoes.iter().enumerate() {
        let at = echo.at_us as f64 / 1e6;
        let _ = match echo.rtt_ns {
            Some(ns) => {
                let ttl = echo.ttl.map_or_else(String::new, |it| format!(" ttl={it}"));
                let ms = ns as f64 / 1e6;
                writeln!(to, "seq={number}{ttl} at={at:.6} s time={ms:.3} ms")
            }
            None => writeln!(to, "seq={number} at={at:.6} s no answer"),
        };
    }
    if let Some(rtt) = rtt {
        let ms = |ns: u64| ns as f64 / 1e6;
        let _ = writeln!(
            to,
            "{} sent, {} answered, {:.1} % lost; min/avg/max/stddev = {:.3}/{:.3}/{:.3}/{:.3} ms",
            rtt.sent,
            rtt.answered,
            100.0 * rtt.loss_ratio,
            ms(rtt.min_ns),
            ms(rtt.avg_ns),
            ms(rtt.max_ns),
            ms(rtt.stddev_ns)
        );
    }
    to.push('\n');
}
