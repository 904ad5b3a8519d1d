//! Checks a measurement against the rules of a record.
//!
//! Only what was measured is confirmed. Source: the rule set, which gives source and confidence of
//! each rule. Units: those of the rule. Error: that of the rule's own source.
//! Wrong when: a rule set is; see its confidence.

use crate::speed_record::{
    CapturedPayload, ContestRule, RecordAnalysis, RecordObservation, RuleCheck, RuleKind, RuleSet,
    RuleVerdict,
};

pub fn check_rules(
    rules: &RuleSet,
    seen: &RecordObservation,
    found: &RecordAnalysis,
) -> Vec<RuleCheck> {
    let check = |rule: &ContestRule| {
        let (verdict, text) = judge_rule(rule, seen, found);
        RuleCheck {
            clause: rule.clause.clone(),
            rule: rule.text.clone(),
            verdict,
            text,
            source: rule.source.clone(),
            confidence: rule.confidence.clone(),
        }
    };
    rules.rules.iter().map(check).collect()
}

type RuleResult = (RuleVerdict, String);

fn judge_rule(rule: &ContestRule, seen: &RecordObservation, found: &RecordAnalysis) -> RuleResult {
    let value = rule.value.unwrap_or(0.0);
    match rule.check {
        RuleKind::Class => judge_class(seen, found),
        RuleKind::Tcp => {
            let text = format!("the transfer went over {}", seen.transport.to_uppercase());
            (select_verdict(seen.transport == "tcp"), text)
        }
        RuleKind::VariedPayload => judge_payload_variety(seen.payload.as_ref()),
        RuleKind::DistanceByCities => judge_cities(seen, found),
        RuleKind::LeastTime => {
            let seconds = seen.elapsed_us as f64 / 1e6;
            let text = format!("data flowed for {seconds:.3} s of at least {value} s");
            (select_verdict(seconds >= value), text)
        }
        RuleKind::LeastDistance => judge_distance(found, |metres| {
            let text =
                format!("the distance is {:.3} km of at least {} km", metres / 1e3, value / 1e3);
            (select_verdict(metres >= value), text)
        }),
        RuleKind::LeastHops => judge_hops(seen, value),
        RuleKind::MostCreditedDistance => judge_distance(found, |metres| {
            judge_credited_distance(metres, value, found.mark_bit_m_per_s)
        }),
        RuleKind::Gain => judge_gain(found, value),
        RuleKind::TwoHosts => judge_two_hosts(seen),
        RuleKind::Declare => {
            let text = "no measurement shows this".to_owned();
            (RuleVerdict::Declare, text)
        }
    }
}

const fn select_verdict(it_does: bool) -> RuleVerdict {
    if it_does { RuleVerdict::Holds } else { RuleVerdict::Fails }
}

fn cannot_tell(text: &str) -> RuleResult {
    (RuleVerdict::CannotTell, text.to_owned())
}

fn judge_distance(found: &RecordAnalysis, judge: impl FnOnce(f64) -> RuleResult) -> RuleResult {
    match found.distance_mm {
        Some(mm) => judge(mm as f64 / 1e3),
        None => cannot_tell("the distance is not known"),
    }
}

fn judge_class(seen: &RecordObservation, found: &RecordAnalysis) -> RuleResult {
    match &found.class {
        Some(class) => (RuleVerdict::Holds, format!("the class is {class}")),
        None if seen.transport != "tcp" => {
            let text = "only TCP has a class".to_owned();
            (RuleVerdict::Fails, text)
        }
        None => cannot_tell("the addresses do not say of which IP version they are"),
    }
}

fn judge_cities(seen: &RecordObservation, found: &RecordAnalysis) -> RuleResult {
    if found.distance_mm.is_none() {
        return cannot_tell("the distance is not known");
    }
    let Some(hops) = seen.answered_hops else {
        return cannot_tell("the route was not traced, so nothing shows which cities it passes");
    };
    let text = format!(
        "the distance is that of the legs file; compare its cities with the names of the {} in \
         path.txt",
        format_count(hops as usize, "router that answered", "routers that answered")
    );
    (RuleVerdict::Declare, text)
}

fn format_count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Checks the first bytes of captured packets for variety.
fn judge_payload_variety(payload: Option<&CapturedPayload>) -> RuleResult {
    let Some(CapturedPayload { captured_by, variety }) = payload else {
        return cannot_tell("no capture with payload shows it (`--capture FILE`)");
    };
    let text = format!(
        "{} packets in the capture of the {captured_by} begin with {} different {} bytes of \
         payload, the most frequent of which came {}",
        variety.packets,
        variety.distinct_packets,
        variety.compared_bytes,
        format_count(variety.most_repeated_packets as usize, "time", "times"),
    );
    (select_verdict(variety.distinct_packets > 1), text)
}

fn judge_two_hosts(seen: &RecordObservation) -> RuleResult {
    let text = match (seen.same_host, seen.same_boot) {
        (true, _) => "both ends are one machine: the path is emulated, or leads back here",
        (false, Some(false)) => "the two ends are two machines: each has booted by itself",
        (false, _) => return cannot_tell("the ends did not tell whether they are two machines"),
    };
    (select_verdict(!seen.same_host), text.to_owned())
}

fn judge_hops(seen: &RecordObservation, least: f64) -> RuleResult {
    let Some(hops) = seen.answered_hops else {
        return cannot_tell("the route was not traced");
    };
    let text = format!(
        "{} answered of at least {least}",
        format_count(hops as usize, "router", "routers")
    );
    (select_verdict(f64::from(hops) >= least), text)
}

fn judge_credited_distance(metres: f64, most: f64, mark: Option<f64>) -> RuleResult {
    if metres <= most {
        let text = format!("{:.3} km can be credited in full", metres / 1e3);
        return (RuleVerdict::Holds, text);
    }
    let capped = mark.map(|mark| mark * most / metres).unwrap_or_default();
    let text = format!(
        "of {:.3} km it seems that {:.0} km are credited: {:.3} Tb·m/s",
        metres / 1e3,
        most / 1e3,
        capped / 1e12
    );
    (RuleVerdict::Fails, text)
}

fn judge_gain(found: &RecordAnalysis, least: f64) -> RuleResult {
    let Some(beside) = &found.beside else {
        return cannot_tell("there is no mark, or none of this class in the history");
    };
    let text = format!(
        "{:+.1} % beside {:.3} Tb·m/s of {}; needed are {:+.0} %",
        100.0 * beside.gain_ratio,
        beside.mark_bit_m_per_s / 1e12,
        beside.name,
        100.0 * least
    );
    (select_verdict(beside.gain_ratio >= least), text)
}
