//! Locates the link at which the queue grows under our own load.
//!
//! Round trips to every hop, idle and loaded. Beyond the narrow link every hop shows the queue,
//! before it none does; the link lies between the last hop without a rise and the first with one.
//!
//! - [`hop_rise`]: rise and noise of each hop, and of both directions to a remote host that reports
//!   its times
//!
//! Source: BFind (Akella, Seshan and Shaikh 2003) for the idea, and a design of our own; the
//! numbers are explained at each constant. Units: ns, TTL, ratios.
//! Error: see docs/methods/path.md: the right link, or a span that contains it, in more than 95 of
//! 100 simulated runs.
//! Wrong when: the answers of hops take another return path than those of the destination, or the
//! load took another route than the probes.

pub(super) mod hop_rise;
mod narrow_link_verdict;
#[cfg(test)]
mod tests;

pub(super) use narrow_link_verdict::judge_narrow_link;
