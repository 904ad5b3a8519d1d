//! Cause: a setting of one of the two hosts was changed.
//!
//! We would see: a sysctl, a route's own window or a queueing discipline that reads differently
//! from the time of the event on, at the host where it affects the rate, and in that direction.
//! Refuted by: a change at the other host, or one that would move the rate the other way.
//! Needs: the host facts of bulk runs, or audits. To do: put it back, or set it on purpose.
//!
//! Units: as the kernel gives them. Wrong when: a setting was changed in response to the event.

use super::candidate::{Candidate, weight};
use super::case::{Case, is_window};
use super::evidence::Place;
use super::host_facts::{self, Changed};
use super::words;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::quantity::Quantity;
use longhaul_model::report::v1::{Advice, Throughput};

/// The maximum number of settings in the sentence.
const TOLD: usize = 4;

pub fn candidate(case: &Case) -> Option<Candidate> {
    if !case.of_transfer() {
        return None;
    }
    let all = host_facts::changed(case, is_setting);
    let score = |c: &Changed| case.timing(c.turn.between_us) * consistency(case, c);
    let first = all.iter().max_by(|a, b| score(a).total_cmp(&score(b)))?;
    // Settings that changed at the same time are listed as well.
    let same_time = all.iter().filter(|c| {
        c.place == first.place
            && c.turn.between_us == first.turn.between_us
            && c.name != first.name
            && consistency(case, c) > 0.0
    });
    let told: Vec<String> = std::iter::once(first)
        .chain(same_time)
        .take(TOLD)
        .map(told)
        .collect();
    let text = format!(
        "Settings of the {} {} changed {}: {}",
        first.place.word(),
        case.host(first.place),
        words::span(first.turn.between_us),
        told.join(", "),
    );
    let mut found = Candidate::new("host_setting", first.turn.between_us, text);
    found.weight = weight::HOST;
    found.consistency = consistency(case, first);
    evidence(case, first, &mut found);
    found.advice.extend(back(case, first));
    Some(found)
}

fn is_setting(name: &str) -> bool {
    const STARTS: [&str; 5] = [
        "net.",
        "route.",
        "interface.qdisc",
        "interface.txqueuelen",
        "cpu.",
    ];
    // Facts about the machine and its addresses are not transfer settings.
    const NOT: [&str; 6] = [
        "route.interface",
        "route.gateway",
        "route.source",
        "cpu.model",
        "cpu.online",
        "cpu.hypervisor",
    ];
    STARTS.iter().any(|start| name.starts_with(start))
        && !NOT.contains(&name)
        && !name.contains("available")
}

pub fn told(changed: &Changed) -> String {
    format!(
        "{} from {} to {}",
        words::quoted(&changed.name),
        words::quoted(&changed.turn.from),
        words::quoted(&changed.turn.to)
    )
}

/// Returns 1 if the change fits, 0 if it contradicts, about 0.5 if that is unknown.
fn consistency(case: &Case, changed: &Changed) -> f64 {
    if !changed.turn.lasted {
        return 0.0;
    }
    if let Some(place) = buffer_of(&changed.name) {
        return if place == changed.place {
            buffer(case, changed)
        } else {
            0.0
        };
    }
    let worse = case.worse() == Some(true);
    match changed.name.as_str() {
        "net.ipv4.tcp_window_scaling"
        | "net.ipv4.tcp_sack"
        | "net.ipv4.tcp_timestamps"
        | "net.ipv4.tcp_moderate_rcvbuf" => {
            let off = changed.turn.to == "0";
            if off == worse { 1.0 } else { 0.0 }
        }
        "net.ipv4.tcp_congestion_control" | "net.core.default_qdisc"
            if changed.place == Place::Receiver =>
        {
            0.0
        }
        "net.ipv4.tcp_congestion_control" => 0.8,
        "interface.qdisc.maxrate_bps" => numeric_way(case, changed),
        name if name.starts_with("interface.qdisc") => 0.7,
        name if name.starts_with("route.") || name == "cpu.governor" => 0.7,
        _ => 0.5,
    }
}

/// Returns the host whose rate that buffer bounds.
fn buffer_of(name: &str) -> Option<Place> {
    match name {
        "net.ipv4.tcp_rmem" | "net.core.rmem_max" => Some(Place::Receiver),
        "net.ipv4.tcp_wmem" | "net.core.wmem_max" => Some(Place::Sender),
        _ => None,
    }
}

fn buffer(case: &Case, changed: &Changed) -> f64 {
    if !case.is(Quantity::Goodput) {
        return 0.5;
    }
    if case
        .run(true)
        .is_some_and(|run| !in_force(run.report, &changed.name))
    {
        return 0.3;
    }
    let way = numeric_way(case, changed);
    match case.limiter(true) {
        Some(limiter) if case.fell() && !is_window(limiter) && limiter != Limiter::Ramp => {
            way * 0.4
        }
        _ => way,
    }
}

/// `rmem_max` bounds requested buffers, `tcp_rmem` autotuned ones; `wmem_max` and `tcp_wmem` do the
/// same at the sender.
fn in_force(run: &Throughput, name: &str) -> bool {
    let asked = match buffer_of(name) {
        Some(Place::Receiver) => run.plan.receive_buffer_bytes,
        _ => run.plan.send_buffer_bytes,
    };
    asked.is_some() == name.starts_with("net.core.")
}

fn numeric_way(case: &Case, changed: &Changed) -> f64 {
    let Some((old, new)) = changed.numbers() else {
        return 0.5;
    };
    if (new < old) == (case.worse() == Some(true)) {
        1.0
    } else {
        0.0
    }
}

fn evidence(case: &Case, first: &Changed, found: &mut Candidate) {
    let (before, after) = (case.limiter(false), case.limiter(true));
    if let (Some(after), Some(_)) = (after, buffer_of(&first.name)) {
        let told = format!(
            "runs are limited by {} since",
            crate::throughput::words::name(after)
        );
        if is_window(after) && before != Some(after) {
            found.supports.push(told);
        } else if !is_window(after) {
            found.contradicts.push(told);
        }
    }
    if !first.turn.lasted {
        found
            .contradicts
            .push(String::from("the old value is back, and the level is not"));
    } else if found.consistency <= 0.0 {
        found.contradicts.push(String::from(
            "it would move the level the other way, or bears on the other direction only",
        ));
    }
}

/// Creates the advice to restore the old value.
fn back(case: &Case, changed: &Changed) -> Option<Advice> {
    if case.worse() != Some(true) || !changed.name.starts_with("net.") {
        return None;
    }
    let safe = |text: &str| {
        text.chars()
            .all(|c| c.is_ascii_alphanumeric() || " ._-".contains(c))
    };
    let old = &changed.turn.from;
    Some(Advice {
        // Values from another host become part of a shell command only if they are plain.
        command: (safe(old) && safe(&changed.name))
            .then(|| format!("sysctl -w {}=\"{old}\"", changed.name)),
        ..crate::diagnose::advice(
            changed.place.word(),
            format!(
                "If that was not meant, put {} of {} back to {}",
                words::quoted(&changed.name),
                case.host(changed.place),
                words::quoted(old)
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::sketch::{self, HOUR};
    use super::*;

    fn with(limiter: Limiter, change: impl Fn(&mut Throughput, bool)) -> sketch::Sketch {
        let mut sketch = sketch::fell();
        for (at, after) in [(-HOUR, false), (HOUR, true)] {
            sketch.run(at, |report| {
                report.analysis.limited_by = if after {
                    limiter
                } else {
                    Limiter::PathCapacity
                };
                change(report, after);
            });
        }
        sketch
    }

    fn found(sketch: &sketch::Sketch) -> Option<Candidate> {
        sketch.found(candidate)
    }

    fn rmem(report: &mut Throughput, most: u64, place: Place) {
        let ends = &mut report.observation.ends;
        let end = if place == Place::Sender {
            &mut ends.sender
        } else {
            &mut ends.receiver
        };
        end.host.tcp_rmem_bytes = Some([4096, 131_072, most]);
    }

    fn most(after: bool) -> u64 {
        if after { 1 << 20 } else { 32 << 20 }
    }

    #[test]
    fn a_smaller_receive_buffer_explains_a_window_limit() {
        let sketch = with(Limiter::ReceiveWindow, |r, after| {
            rmem(r, most(after), Place::Receiver);
        });
        let found = found(&sketch).expect("a candidate");
        assert!((found.consistency - 1.0).abs() < 1e-9);
        let command = found.advice[0].command.as_deref();
        assert_eq!(
            command,
            Some("sysctl -w net.ipv4.tcp_rmem=\"4096 131072 33554432\"")
        );
    }

    #[test]
    fn a_larger_one_contradicts_a_fall() {
        let sketch = with(Limiter::ReceiveWindow, |r, after| {
            rmem(r, most(!after), Place::Receiver);
        });
        assert!(found(&sketch).expect("a candidate").consistency.abs() < 1e-9);
    }

    #[test]
    fn one_of_the_other_end_contradicts() {
        let sketch = with(Limiter::ReceiveWindow, |r, after| {
            rmem(r, most(after), Place::Sender);
        });
        assert!(found(&sketch).expect("a candidate").consistency.abs() < 1e-9);
    }

    #[test]
    fn a_limit_elsewhere_weakens_it() {
        let sketch = with(Limiter::Policer, |r, after| {
            rmem(r, most(after), Place::Receiver);
        });
        assert!(found(&sketch).expect("a candidate").consistency < 0.5);
    }

    #[test]
    fn autotuning_does_not_bound_what_is_asked() {
        let sketch = with(Limiter::ReceiveWindow, |r, after| {
            rmem(r, most(after), Place::Receiver);
            r.plan.receive_buffer_bytes = Some(1 << 20);
        });
        assert!(found(&sketch).expect("a candidate").consistency < 0.5);
    }

    #[test]
    fn no_shell_gets_what_another_host_says() {
        let sketch = with(Limiter::Loss, |r, after| {
            let value = if after { "0" } else { "1\"; reboot; \"" };
            r.observation
                .ends
                .sender
                .host
                .sysctl
                .insert(String::from("net.ipv4.tcp_sack"), value.to_owned());
        });
        assert_eq!(found(&sketch).expect("a candidate").advice[0].command, None);
    }
}
