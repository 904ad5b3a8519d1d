//! Checks a measurement against the rules of a record.
//!
//! Only what was measured is confirmed. Source: the rule set, which gives source and confidence of
//! each rule. Units: those of the rule. Error: that of the rule's own source.
//! Wrong when: a rule set is; see its confidence.

use longhaul_model::report::v1::record::{
    Analysis, Observation, Payload, Rule, RuleCheck, RuleKind, RuleVerdict, Rules,
};

pub fn checks(rules: &Rules, seen: &Observation, found: &Analysis) -> Vec<RuleCheck> {
    let check = |rule: &Rule| {
        let (verdict, text) = judged(rule, seen, found);
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

type Judged = (RuleVerdict, String);

fn judged(rule: &Rule, seen: &Observation, found: &Analysis) -> Judged {
    let value = rule.value.unwrap_or(0.0);
    match rule.check {
        RuleKind::Class => class(seen, found),
        RuleKind::Tcp => {
            let text = format!("the transfer went over {}", seen.transport.to_uppercase());
            (holds(seen.transport == "tcp"), text)
        }
        RuleKind::VariedPayload => varied(seen.payload.as_ref()),
        RuleKind::DistanceByCities => cities(seen, found),
        RuleKind::LeastTime => {
            let seconds = seen.elapsed_us as f64 / 1e6;
            let text = format!("data flowed for {seconds:.3} s of at least {value} s");
            (holds(seconds >= value), text)
        }
        RuleKind::LeastDistance => with_distance(found, |metres| {
            let text = format!(
                "the distance is {:.3} km of at least {} km",
                metres / 1e3,
                value / 1e3
            );
            (holds(metres >= value), text)
        }),
        RuleKind::LeastHops => hops(seen, value),
        RuleKind::MostCreditedDistance => with_distance(found, |metres| {
            credited(metres, value, found.mark_bit_m_per_s)
        }),
        RuleKind::Gain => gain(found, value),
        RuleKind::TwoHosts => two_hosts(seen),
        RuleKind::Declare => {
            let text = "no measurement shows this".to_owned();
            (RuleVerdict::Declare, text)
        }
    }
}

const fn holds(it_does: bool) -> RuleVerdict {
    if it_does {
        RuleVerdict::Holds
    } else {
        RuleVerdict::Fails
    }
}

fn cannot(text: &str) -> Judged {
    (RuleVerdict::CannotTell, text.to_owned())
}

fn with_distance(found: &Analysis, judge: impl FnOnce(f64) -> Judged) -> Judged {
    match found.distance_mm {
        Some(mm) => judge(mm as f64 / 1e3),
        None => cannot("the distance is not known"),
    }
}

fn class(seen: &Observation, found: &Analysis) -> Judged {
    match &found.class {
        Some(class) => (RuleVerdict::Holds, format!("the class is {class}")),
        None if seen.transport != "tcp" => {
            let text = "only TCP has a class".to_owned();
            (RuleVerdict::Fails, text)
        }
        None => cannot("the addresses do not say of which IP version they are"),
    }
}

fn cities(seen: &Observation, found: &Analysis) -> Judged {
    let Some(by) = found.distance_mm.and(seen.distance_by.as_deref()) else {
        return cannot("the distance is not known");
    };
    if let Some(first) = found.left_out.first() {
        let text = format!(
            "{} of the trace {} left out, {} (hop {}) among them",
            count(found.left_out.len(), "city", "cities"),
            if found.left_out.len() == 1 {
                "is"
            } else {
                "are"
            },
            first.city,
            first.ttl
        );
        return (RuleVerdict::Fails, text);
    }
    if seen.path_run.is_none() {
        return cannot("the route was not traced, so nothing shows which cities it passes");
    }
    if seen.unplaced_hops > 0 || seen.routers.is_empty() {
        let text = format!(
            "the distance is from {}; no city is known of {}",
            by.replace('_', " ").replace('+', " and "),
            count(seen.unplaced_hops as usize, "router", "routers"),
        );
        return (RuleVerdict::CannotTell, text);
    }
    let text = "the city of every router that answered is a stop".to_owned();
    (RuleVerdict::Holds, text)
}

fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Checks the first bytes of captured packets for variety.
fn varied(payload: Option<&Payload>) -> Judged {
    let Some(Payload {
        captured_by,
        variety,
    }) = payload
    else {
        return cannot("no capture with payload shows it (`--capture FILE`)");
    };
    let text = format!(
        "{} packets in the capture of the {captured_by} begin with {} different {} bytes of \
         payload, the most frequent of which came {}",
        variety.packets,
        variety.distinct_packets,
        variety.compared_bytes,
        count(variety.most_repeated_packets as usize, "time", "times"),
    );
    (holds(variety.distinct_packets > 1), text)
}

fn two_hosts(seen: &Observation) -> Judged {
    let text = match (seen.same_host, seen.same_boot) {
        (true, _) => "both ends are one machine: the path is emulated, or leads back here",
        (false, Some(false)) => "the two ends are two machines: each has booted by itself",
        (false, _) => return cannot("the ends did not tell whether they are two machines"),
    };
    (holds(!seen.same_host), text.to_owned())
}

fn hops(seen: &Observation, least: f64) -> Judged {
    if seen.path_run.is_none() {
        return cannot("the route was not traced");
    }
    let routers = seen.routers.len() + seen.unplaced_hops as usize;
    let text = format!(
        "{} answered of at least {least}",
        count(routers, "router", "routers")
    );
    (holds(routers as f64 >= least), text)
}

fn credited(metres: f64, most: f64, mark: Option<f64>) -> Judged {
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

fn gain(found: &Analysis, least: f64) -> Judged {
    let Some(beside) = &found.beside else {
        return cannot("there is no mark, or none of this class in the history");
    };
    let text = format!(
        "{:+.1} % beside {:.3} Tb·m/s of {}; needed are {:+.0} %",
        100.0 * beside.gain_ratio,
        beside.mark_bit_m_per_s / 1e12,
        beside.name,
        100.0 * least
    );
    (holds(beside.gain_ratio >= least), text)
}
