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
    pub fn path_file(&self) -> Result<String, String> {
        let mut forward = self.link.clone();
        forward.entry("overhead").or_insert(Value::Integer(38));
        let mut reverse = Table::new();
        if let Some(rate) = self.link.get("rate") {
            reverse.insert("rate".to_owned(), rate.clone());
        }
        let delay_us = (self.rtt_ms * 500).saturating_sub(ACCESS_US);
        let narrow = Table::from_iter([
            ("name".to_owned(), Value::from("narrow")),
            ("delay".to_owned(), Value::from(format!("{delay_us} us"))),
            ("forward".to_owned(), Value::Table(forward)),
            ("reverse".to_owned(), Value::Table(reverse)),
        ]);
        let mut access = wide_link("access");
        access.insert("delay".to_owned(), Value::from(format!("{ACCESS_US} us")));
        let hops = [access, narrow, wide_link("last")].map(Value::Table).to_vec();
        let file = Table::from_iter([
            ("name".to_owned(), Value::from(self.title)),
            ("mtu".to_owned(), Value::from(1500)),
            ("near".to_owned(), host_table(self.near)),
            ("far".to_owned(), host_table(self.far)),
            ("hops".to_owned(), Value::Array(hops)),
        ]);
        toml::to_string(&file).map_err(|e| format!("cannot write the path file: {e}"))
    }
}

/// Returns a link that is never the narrow one.
fn wide_link(name: &str) -> Table {
    Table::from_iter([
        ("name".to_owned(), Value::from(name)),
        ("rate".to_owned(), Value::from("10 Gbit/s")),
        ("queue".to_owned(), Value::from("64 MB")),
    ])
}

fn host_table(sysctls: &[(&str, &str)]) -> Value {
    let sysctls = sysctls.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value)));
    let sysctls = Value::Table(sysctls.collect());
    Value::Table(Table::from_iter([("sysctl".to_owned(), sysctls)]))
}
