//! Rule sets and the history of marks, embedded in the program.

use crate::RecordError;
use crate::speed_record::{MarkHistory, RuleSet, RuleSetsFile};

const RULES: &str = include_str!("../records/rules.toml");
const HISTORY: &str = include_str!("../records/history.toml");

/// Returns the rule set of this name, or the first one.
pub fn find_rule_set(name: Option<&str>) -> Result<RuleSet, RecordError> {
    let mut sets = load_rule_sets();
    let Some(name) = name else {
        return Ok(sets.remove(0));
    };
    let names: Vec<String> = sets.iter().map(|set| set.name.clone()).collect();
    let named = sets.into_iter().find(|set| set.name == name);
    named.ok_or_else(|| {
        RecordError::input(format!("cannot find rule set `{name}`"))
            .hint(format!("use one of: {}", names.join(", ")))
    })
}

fn load_rule_sets() -> Vec<RuleSet> {
    let sets: RuleSetsFile =
        toml::from_str(RULES).expect("records/rules.toml is held to by a test");
    sets.sets
}

pub fn load_mark_history() -> MarkHistory {
    toml::from_str(HISTORY).expect("records/history.toml is held to by a test")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The certainty of an entry.
    const RULE_WORDS: [&str; 4] = ["read", "reported", "inferred", "remembered"];
    const MARK_WORDS: [&str; 3] = ["read", "partly_read", "derived"];

    #[test]
    fn every_rule_says_where_it_is_from_and_how_surely() {
        let sets = load_rule_sets();
        let names: BTreeSet<&str> = sets.iter().map(|set| set.name.as_str()).collect();
        assert_eq!(names.len(), sets.len());
        for set in &sets {
            assert!(!set.standing.is_empty() && !set.rules.is_empty());
            for rule in &set.rules {
                assert!(RULE_WORDS.contains(&rule.confidence.as_str()), "{rule:?}");
                assert!(!rule.source.is_empty(), "{rule:?}");
            }
        }
        assert!(find_rule_set(None).is_ok());
        assert!(find_rule_set(Some("guinness")).is_err());
    }

    #[test]
    fn the_history_is_in_order_and_of_known_classes() {
        let history = load_mark_history();
        let dates: Vec<&String> = history.marks.iter().map(|mark| &mark.date).collect();
        assert!(dates.is_sorted(), "{dates:?}");
        for mark in &history.marks {
            assert!(MARK_WORDS.contains(&mark.confidence.as_str()), "{mark:?}");
            assert!(mark.mark_bit_m_per_s > 1e15, "{mark:?}");
            for class in &mark.classes {
                let (version, streams) = class.split_once('_').expect("two parts");
                assert!(["ipv4", "ipv6"].contains(&version), "{class}");
                assert!(["single_stream", "multiple_streams"].contains(&streams));
            }
        }
    }
}
