//! Between which two hops does the queue grow under our own load?
//!
//! Round trips to every hop, idle and loaded. Beyond the narrow link every hop shows the queue,
//! before it none does; so the link lies between the last quiet hop and the first risen one.
//!
//! - [`profile`]: rise and noise of each hop; [`ends`]: of the two ways to a far end that gives its
//!   times
//! - [`place`]: between which hops; [`judge()`]: the verdict; [`words`]: the sentence
//!
//! Source: BFind (Akella, Seshan and Shaikh 2003) for the idea, and a design of our own; the numbers
//! stand where they are used. Units: ns, TTL, ratios.
//! Error: see docs/methods/path.md: the right link, or a span that holds it, in more than 95 of 100
//! simulated runs.
//! Wrong when: the answers of hops take another way back than those of the far end, or the load took
//! another way than the probes.

pub(super) mod ends;
mod judge;
pub(super) mod place;
pub(super) mod profile;
#[cfg(test)]
mod tests;
mod words;

pub(super) use judge::judge;
