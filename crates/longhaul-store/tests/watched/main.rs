//! The history of an agent: what is written is there, once, and answers are exact.
#![expect(clippy::float_cmp, reason = "what was stored comes back bit for bit")]

mod place;
mod sent;
mod times;
mod written;
