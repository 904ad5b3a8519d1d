//! Cause: a setting of one of the two hosts was changed.
//!
//! We would see: a sysctl, a route's own window or a queueing discipline that reads differently
//! from the time of the event on, at the host where it affects the rate, and in that direction.
//! Refuted by: a change at the other host, or one that would move the rate the other way.
//! Needs: the host facts of bulk runs, or audits. To do: put it back, or set it on purpose.
//!
//! Units: as the kernel gives them. Wrong when: a setting was changed in response to the event.

use super::change_evidence::HostRole;
use super::event_case::EventCase;
use super::event_format;
use super::host_facts::{self, HostFactChange, create_fact_candidate, format_fact_change};
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::{ReportFinding, ThroughputReport};

/// The maximum number of settings in the sentence.
const MAX_NAMED_SETTINGS: usize = 4;

pub fn find_candidate(case: &EventCase) -> Option<ReportFinding> {
    let all = host_facts::find_changed_facts(case, is_setting);
    let score = |c: &HostFactChange| case.timing(c.change.between_us) * rate_setting_fit(case, c);
    let first = all.iter().max_by(|a, b| score(a).total_cmp(&score(b)))?;
    // Settings that changed at the same time are listed as well.
    let same_time = all.iter().filter(|c| {
        c.role == first.role
            && c.change.between_us == first.change.between_us
            && c.name != first.name
            && rate_setting_fit(case, c) > 0.0
    });
    let told: Vec<String> = std::iter::once(first)
        .chain(same_time)
        .take(MAX_NAMED_SETTINGS)
        .map(format_fact_change)
        .collect();
    let told = told.join(", ");
    let mut found = create_fact_candidate(case, "host_setting", "Settings", first, &told);
    found.confidence_ratio *= rate_setting_fit(case, first);
    add_limiter_evidence(case, first, &mut found);
    add_restore_advice(case, first, &mut found);
    Some(found)
}

fn is_setting(name: &str) -> bool {
    const STARTS: [&str; 5] = ["net.", "route.", "interface.qdisc", "interface.txqueuelen", "cpu."];
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

/// Returns 1 if the change fits, 0 if it contradicts, about 0.5 if that is unknown.
fn rate_setting_fit(case: &EventCase, changed: &HostFactChange) -> f64 {
    if !changed.change.lasted {
        return 0.0;
    }
    if let Some(place) = find_buffer_owner(&changed.name) {
        return if place == changed.role { rate_buffer_fit(case, changed) } else { 0.0 };
    }
    let worse = case.is_worse() == Some(true);
    match changed.name.as_str() {
        "net.ipv4.tcp_window_scaling"
        | "net.ipv4.tcp_sack"
        | "net.ipv4.tcp_timestamps"
        | "net.ipv4.tcp_moderate_rcvbuf" => {
            let off = changed.change.to == "0";
            if off == worse { 1.0 } else { 0.0 }
        }
        "net.ipv4.tcp_congestion_control" | "net.core.default_qdisc"
            if changed.role == HostRole::Receiver =>
        {
            0.0
        }
        "net.ipv4.tcp_congestion_control" => 0.8,
        "interface.qdisc.maxrate_bps" => rate_numeric_direction(case, changed),
        name if name.starts_with("interface.qdisc") => 0.7,
        name if name.starts_with("route.") || name == "cpu.governor" => 0.7,
        _ => 0.5,
    }
}

/// Returns the host whose rate that buffer bounds.
fn find_buffer_owner(name: &str) -> Option<HostRole> {
    match name {
        "net.ipv4.tcp_rmem" | "net.core.rmem_max" => Some(HostRole::Receiver),
        "net.ipv4.tcp_wmem" | "net.core.wmem_max" => Some(HostRole::Sender),
        _ => None,
    }
}

fn rate_buffer_fit(case: &EventCase, changed: &HostFactChange) -> f64 {
    if !case.is_quantity(PathQuantity::Goodput) {
        return 0.5;
    }
    if case.nearest_run(true).is_some_and(|run| !is_buffer_in_force(run.report, &changed.name)) {
        return 0.3;
    }
    let way = rate_numeric_direction(case, changed);
    match case.frequent_limiter(true) {
        Some(limiter) if case.has_fallen() && !limiter.is_window() && limiter != Limiter::Ramp => {
            way * 0.4
        }
        _ => way,
    }
}

/// `rmem_max` bounds requested buffers, `tcp_rmem` autotuned ones; `wmem_max` and `tcp_wmem` do the
/// same at the sender.
fn is_buffer_in_force(run: &ThroughputReport, name: &str) -> bool {
    let asked = match find_buffer_owner(name) {
        Some(HostRole::Receiver) => run.plan.receive_buffer_bytes,
        _ => run.plan.send_buffer_bytes,
    };
    asked.is_some() == name.starts_with("net.core.")
}

fn rate_numeric_direction(case: &EventCase, changed: &HostFactChange) -> f64 {
    let Some((old, new)) = changed.numbers() else {
        return 0.5;
    };
    if (new < old) == (case.is_worse() == Some(true)) { 1.0 } else { 0.0 }
}

fn add_limiter_evidence(case: &EventCase, first: &HostFactChange, found: &mut ReportFinding) {
    let (before, after) = (case.frequent_limiter(false), case.frequent_limiter(true));
    if let (Some(after), Some(_)) = (after, find_buffer_owner(&first.name)) {
        let told = event_format::describe_limiter_since(after);
        if after.is_window() && before != Some(after) {
            found.support(told);
        } else if !after.is_window() {
            found.contradict(told);
        }
    }
    if !first.change.lasted {
        found.contradict("the old value is back, but the level is not");
    } else if found.confidence_ratio <= 0.0 {
        let text = "it would change the level the other way, or affects only the other direction";
        found.contradict(text);
    }
}

/// Adds the advice to restore the old value.
fn add_restore_advice(case: &EventCase, changed: &HostFactChange, found: &mut ReportFinding) {
    if case.is_worse() != Some(true) || !changed.name.starts_with("net.") {
        return;
    }
    let old = &changed.change.from;
    let text = format!(
        "If that was not intended, set {} of {} back to {}",
        event_format::sanitize_name(&changed.name),
        case.host(changed.role),
        event_format::sanitize_name(old)
    );
    // Values from another host become part of a shell command only if they are plain.
    let safe = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || " ._-".contains(c));
    found.advise(changed.role.word(), text).command =
        (safe(old) && safe(&changed.name)).then(|| format!("sysctl -w {}=\"{old}\"", changed.name));
}

#[cfg(test)]
mod tests {
    use super::super::cause_selection::weight;
    use super::super::event_test_builder::{self, HOUR};
    use super::*;

    fn with(
        limiter: Limiter,
        change: impl Fn(&mut ThroughputReport, bool),
    ) -> event_test_builder::EvidenceBuilder {
        let mut sketch = event_test_builder::build_goodput_drop();
        for (at, after) in [(-HOUR, false), (HOUR, true)] {
            sketch.run(at, |report| {
                report.analysis.limited_by = if after { limiter } else { Limiter::PathCapacity };
                change(report, after);
            });
        }
        sketch
    }

    fn found(sketch: &event_test_builder::EvidenceBuilder) -> Option<ReportFinding> {
        sketch.run_cause(find_candidate)
    }

    fn rmem(report: &mut ThroughputReport, most: u64, place: HostRole) {
        let ends = &mut report.observation.ends;
        let end = if place == HostRole::Sender { &mut ends.sender } else { &mut ends.receiver };
        end.host.tcp_rmem_bytes = Some([4096, 131_072, most]);
    }

    fn most(after: bool) -> u64 {
        if after { 1 << 20 } else { 32 << 20 }
    }

    #[test]
    fn a_smaller_receive_buffer_explains_a_window_limit() {
        let sketch = with(Limiter::ReceiveWindow, |r, after| {
            rmem(r, most(after), HostRole::Receiver);
        });
        let found = found(&sketch).expect("a candidate");
        assert!((found.confidence_ratio - weight::HOST).abs() < 1e-9);
        let command = found.advice[0].command.as_deref();
        assert_eq!(command, Some("sysctl -w net.ipv4.tcp_rmem=\"4096 131072 33554432\""));
    }

    #[test]
    fn a_larger_one_contradicts_a_fall() {
        let sketch = with(Limiter::ReceiveWindow, |r, after| {
            rmem(r, most(!after), HostRole::Receiver);
        });
        assert!(found(&sketch).expect("a candidate").confidence_ratio.abs() < 1e-9);
    }

    #[test]
    fn one_of_the_other_end_contradicts() {
        let sketch = with(Limiter::ReceiveWindow, |r, after| {
            rmem(r, most(after), HostRole::Sender);
        });
        assert!(found(&sketch).expect("a candidate").confidence_ratio.abs() < 1e-9);
    }

    #[test]
    fn a_limit_elsewhere_weakens_it() {
        let sketch = with(Limiter::Policer, |r, after| {
            rmem(r, most(after), HostRole::Receiver);
        });
        assert!(found(&sketch).expect("a candidate").confidence_ratio < 0.5);
    }

    #[test]
    fn autotuning_does_not_bound_what_is_asked() {
        let sketch = with(Limiter::ReceiveWindow, |r, after| {
            rmem(r, most(after), HostRole::Receiver);
            r.plan.receive_buffer_bytes = Some(1 << 20);
        });
        assert!(found(&sketch).expect("a candidate").confidence_ratio < 0.5);
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
