//! The result of a rule.
//!
//! Source: none; data types only. Units: bit/s. Error: none. Wrong when: never.

use super::case::Case;
use super::readings::Read;
use longhaul_model::report::v1::host::{Grade, Remedy};

/// The function of a rule that judges the readings for one path.
pub type Judge = fn(&Case) -> Read<Judgement>;

pub struct Judgement {
    pub grade: Grade,
    pub text: String,
    pub bound_bps: Option<u64>,
    pub remedies: Vec<Remedy>,
}

fn judgement(grade: Grade, text: impl Into<String>) -> Judgement {
    Judgement {
        grade,
        text: text.into(),
        bound_bps: None,
        remedies: Vec::new(),
    }
}

pub fn good(text: impl Into<String>) -> Judgement {
    judgement(Grade::Good, text)
}

pub fn advice(text: impl Into<String>) -> Judgement {
    judgement(Grade::Advice, text)
}

pub fn limits(text: impl Into<String>) -> Judgement {
    judgement(Grade::Limits, text)
}

pub fn unknown(why: String) -> Judgement {
    judgement(Grade::Unknown, why)
}

impl Judgement {
    pub fn bound(mut self, bound_bps: Option<u64>) -> Self {
        self.bound_bps = bound_bps;
        self
    }

    pub fn remedy(mut self, remedy: Remedy) -> Self {
        self.remedies.push(remedy);
        self
    }
}

/// Returns a remedy that writes a sysctl.
pub fn sysctl(name: &str, value: impl Into<String>, text: impl Into<String>) -> Remedy {
    let value = value.into();
    let quoted = if value.contains(' ') {
        format!("\"{value}\"")
    } else {
        value.clone()
    };
    Remedy {
        name: Some(name.to_owned()),
        value: Some(value),
        command: Some(format!("sysctl -w {name}={quoted}")),
        text: text.into(),
    }
}

/// Returns a remedy that is a command for the user.
pub fn command(command: impl Into<String>, text: impl Into<String>) -> Remedy {
    Remedy {
        name: None,
        value: None,
        command: Some(command.into()),
        text: text.into(),
    }
}

/// Returns a remedy that no command can apply.
pub fn by_hand(text: impl Into<String>) -> Remedy {
    Remedy {
        name: None,
        value: None,
        command: None,
        text: text.into(),
    }
}
