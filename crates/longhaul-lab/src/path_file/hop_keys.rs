//! The keys of a hop, and of the two directions of its link.

use super::{MTU_MAX, MTU_MIN};
use crate::path_spec::{
    CrossSpec, HopSpec, IcmpValidity, LinkSpec, OptionRewrite, PolicerSpec, ReorderSpec, ShaperSpec,
};
use longhaul_config::ConfigDocument;
use longhaul_config::config_values::{self, ScalarText, ValueOrNone};
use longhaul_model::units::{Bytes, Rate, parse_duration};
use serde::Deserialize;
use std::time::Duration;

/// The maximum delay, jitter or lateness of a path in seconds.
const MAX_DELAY_S: u64 = 60;
/// The maximum rate in bit/s; above it the nanosecond clock of the engine lacks resolution.
pub(crate) const MAX_RATE_BPS: u64 = 1_000_000_000_000;
/// The maximum overhead per packet in bytes, more than any link layer takes.
const MAX_OVERHEAD: u64 = 1024;
/// The largest label, RFC 3032.
const MAX_LABEL: u32 = (1 << 20) - 1;
const MAX_LABELS: usize = 8;
/// The maximum number of parallel paths that large routers support.
const MAX_BALANCE: u64 = 64;
/// The minimum and maximum segment size of IPv4 and TCP.
const MIN_MSS: u64 = 48;
const MAX_MSS: u64 = 65_495;

/// Defines [`LinkKeys`], and [`HopKeys`] with the same keys, which apply to both directions.
macro_rules! define_link_keys {
    ($($(#[$attribute:meta])* $key:ident: $kind:ty,)*) => {
        /// The keys of one direction of a link; a missing one stays as it was.
        #[derive(Debug, Clone, Default, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub(super) struct LinkKeys {
            $($(#[$attribute])* $key: Option<$kind>,)*
        }

        /// A hop. `forward` and `reverse` override its keys for one direction.
        #[derive(Debug, Clone, Default, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub(super) struct HopKeys {
            #[serde(deserialize_with = "config_values::line")]
            pub name: Option<String>,
            #[serde(deserialize_with = "config_values::line")]
            city: Option<String>,
            forward: LinkKeys,
            reverse: LinkKeys,
            silent: bool,
            #[serde(deserialize_with = "config_values::whole::<_, _, u32, 1, 1_000_000>")]
            icmp_limit: Option<u32>,
            #[serde(deserialize_with = "config_values::duration::<_, _, 0, MAX_DELAY_S>")]
            icmp_delay: Duration,
            icmp: Option<IcmpValidity>,
            mpls: Option<Vec<u32>>,
            #[serde(deserialize_with = "config_values::whole::<_, _, u8, 1, MAX_BALANCE>")]
            balance: Option<u8>,
            strip: Option<Vec<StrippedOption>>,
            #[serde(deserialize_with = "config_values::whole::<_, _, u16, MIN_MSS, MAX_MSS>")]
            clamp_mss: Option<u16>,
            $($(#[$attribute])* $key: Option<$kind>,)*
        }

        impl LinkKeys {
            /// Returns these keys, completed by those of `base`.
            pub(super) fn over(&self, base: &LinkKeys) -> LinkKeys {
                LinkKeys { $($key: self.$key.or(base.$key),)* }
            }
        }

        impl HopKeys {
            /// Returns the keys of one direction.
            pub(super) fn link(&self, forward: bool) -> LinkKeys {
                let own = if forward { &self.forward } else { &self.reverse };
                own.over(&LinkKeys { $($key: self.$key,)* })
            }
        }
    };
}

define_link_keys! {
    #[serde(deserialize_with = "config_values::duration::<_, _, 0, MAX_DELAY_S>")]
    delay: Duration,
    #[serde(deserialize_with = "config_values::duration::<_, _, 0, MAX_DELAY_S>")]
    jitter: Duration,
    rate: ValueOrNone<LinkRate>,
    queue: QueueLimit,
    #[serde(deserialize_with = "config_values::share::<_, _, 0, 1000>")]
    loss: f64,
    reorder: ValueOrNone<ReorderSpec>,
    policer: ValueOrNone<PolicerSpec>,
    shaper: ValueOrNone<ShaperSpec>,
    cross: ValueOrNone<CrossSpec>,
    #[serde(deserialize_with = "config_values::whole::<_, _, u32, 0, MAX_OVERHEAD>")]
    overhead: u32,
    #[serde(deserialize_with = "config_values::whole::<_, _, u32, MTU_MIN, MTU_MAX>")]
    mtu: u32,
    mtu_black_hole: bool,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(transparent)]
struct LinkRate(#[serde(deserialize_with = "config_values::rate::<_, _, 1, MAX_RATE_BPS>")] Rate);

/// A TCP option that a router removes.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StrippedOption {
    Sack,
    WindowScale,
    Timestamps,
}

/// A queue limit in bytes, or as a time at the link's rate.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "ScalarText")]
enum QueueLimit {
    Unlimited,
    Size(Bytes),
    Time(Duration),
}

impl TryFrom<ScalarText> for QueueLimit {
    type Error = &'static str;

    fn try_from(ScalarText(text): ScalarText) -> Result<Self, &'static str> {
        if text == "none" {
            return Ok(QueueLimit::Unlimited);
        }
        let size = text.parse().map(QueueLimit::Size);
        size.or_else(|_| parse_duration(&text).map(QueueLimit::Time)).map_err(|_| {
            "is not a queue; write a size (\"8 MiB\"), a time at the link's rate (\"50 ms\"), or \
             \"none\""
        })
    }
}

impl HopKeys {
    /// Reports keys that only routers have: the last hop of a route is host far.
    pub(super) fn refuse_router_keys(&self, at: &str, document: &ConfigDocument<'_>) {
        for (key, is_set) in [
            ("icmp", self.icmp.is_some()),
            ("mpls", self.mpls.is_some()),
            ("balance", self.balance.is_some()),
            ("strip", self.strip.is_some()),
            ("clamp_mss", self.clamp_mss.is_some()),
        ] {
            if is_set {
                let what = "the last hop is host far, and only routers have this key";
                document.add(&format!("{at}.{key}"), what, "remove it");
            }
        }
    }
}

pub(super) fn build_hop(
    at: &str,
    index: usize,
    keys: &HopKeys,
    document: &ConfigDocument<'_>,
) -> HopSpec {
    let name = keys.name.clone().unwrap_or_else(|| format!("hop{}", index + 1));
    if name.contains(char::is_whitespace) {
        document.reject(&format!("{at}.name"), "is not a name", "write it without spaces");
    }
    let mpls = keys.mpls.clone().unwrap_or_default();
    if mpls.len() > MAX_LABELS || mpls.iter().any(|label| *label > MAX_LABEL) {
        let advice = format!("write a list of at most {MAX_LABELS} labels from 0 to {MAX_LABEL}");
        document.reject(&format!("{at}.mpls"), "is not allowed here", advice);
    }
    let strips = |option| keys.strip.as_ref().is_some_and(|all| all.contains(&option));
    HopSpec {
        name,
        city: keys.city.clone(),
        forward: build_link(at, "forward", &keys.link(true), document),
        reverse: build_link(at, "reverse", &keys.link(false), document),
        silent: keys.silent,
        icmp_limit: keys.icmp_limit,
        icmp_delay: keys.icmp_delay,
        icmp: keys.icmp.unwrap_or_default(),
        mpls,
        balance: keys.balance.unwrap_or(0),
        rewrite: OptionRewrite {
            sack: strips(StrippedOption::Sack),
            window_scale: strips(StrippedOption::WindowScale),
            timestamps: strips(StrippedOption::Timestamps),
            clamp_mss: keys.clamp_mss,
        },
    }
}

/// Builds one direction of a link. Problems are at the key of that direction, if it has the key.
pub(super) fn build_link(
    at: &str,
    direction: &str,
    keys: &LinkKeys,
    document: &ConfigDocument<'_>,
) -> LinkSpec {
    let reject = |key: &str, why: &str| {
        let own = format!("{at}.{direction}.{key}");
        let both = format!("{at}.{key}");
        document.reject(if document.has(&own) { &own } else { &both }, why, "");
    };
    let usual = LinkSpec::default();
    let rate = keys.rate.and_then(|it| it.0).map(|LinkRate(rate)| rate);
    let queue = match (keys.queue, rate) {
        (Some(QueueLimit::Size(bytes)), _) => Some(bytes),
        (Some(QueueLimit::Time(time)), Some(rate)) => Some(Bytes(rate.bytes_in(time))),
        (Some(QueueLimit::Time(_)), None) => {
            reject("queue", "is a time, which needs a `rate` to become bytes");
            None
        }
        (Some(QueueLimit::Unlimited) | None, _) => None,
    };
    let link = LinkSpec {
        delay: keys.delay.unwrap_or(usual.delay),
        jitter: keys.jitter.unwrap_or(usual.jitter),
        rate,
        queue,
        loss: keys.loss.unwrap_or(usual.loss),
        reorder: keys.reorder.and_then(|it| it.0),
        policer: keys.policer.and_then(|it| it.0),
        shaper: keys.shaper.and_then(|it| it.0),
        cross: keys.cross.and_then(|it| it.0),
        overhead: keys.overhead.unwrap_or(usual.overhead),
        mtu: keys.mtu,
        mtu_black_hole: keys.mtu_black_hole.unwrap_or(usual.mtu_black_hole),
    };
    if link.jitter > link.delay {
        reject("jitter", "is more than the delay it varies");
    }
    if link.cross.is_some() && link.rate.is_none() {
        reject("cross", "needs a `rate` of the link");
    }
    if link.shaper.is_some_and(|it| it.peak < it.sustained) {
        reject("shaper.peak", "is less than `sustained`");
    }
    if link.reorder.is_some_and(|it| it.late_by.is_zero()) {
        reject("reorder.late_by", "is no lateness");
    }
    link
}
