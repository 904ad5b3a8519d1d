//! The path of most benches: an access link, the narrow link, and the far host behind it.

use toml::{Table, Value};

/// The part of the one-way delay on the access link.
const ACCESS_US: u64 = 100;

/// The parameters of a path.
#[derive(Debug, Clone, Copy)]
pub struct NarrowPath<'a> {
    pub title: &'a str,
    pub rtt_ms: u64,
    /// The forward narrow link, with keys as in a path file; the reverse link has the same rate
    /// only.
    pub link: &'a Table,
    /// The sysctls of near and far.
    pub near: &'a [(&'a str, &'a str)],
    pub far: &'a [(&'a str, &'a str)],
}

impl NarrowPath<'_> {
    /// Formats the path as a path file.
    pub fn path_file(&self) -> String {
        let mut forward = self.link.clone();
        forward.entry("overhead").or_insert(Value::Integer(38));
        let reverse: Table = self
            .link
            .get("rate")
            .map(|rate| ("rate".to_owned(), rate.clone()))
            .into_iter()
            .collect();
        format!(
            "name = {}\nmtu = 1500\n[near.sysctl]\n{}[far.sysctl]\n{}\
             [[hops]]\nname = \"access\"\ndelay = \"{ACCESS_US} us\"\n{WIDE}\
             [[hops]]\nname = \"narrow\"\ndelay = \"{} us\"\nforward = {}\nreverse = {}\n\
             [[hops]]\nname = \"last\"\n{WIDE}",
            Value::from(self.title),
            format_sysctls(self.near),
            format_sysctls(self.far),
            (self.rtt_ms * 500).saturating_sub(ACCESS_US),
            Value::Table(forward),
            Value::Table(reverse),
        )
    }
}

/// A link that is never the narrow one.
const WIDE: &str = "rate = \"10 Gbit/s\"\nqueue = \"64 MB\"\n";

fn format_sysctls(sysctls: &[(&str, &str)]) -> String {
    sysctls.iter().flat_map(|(name, value)| ["\"", name, "\" = \"", value, "\"\n"]).collect()
}
