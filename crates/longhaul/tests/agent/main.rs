//! The running agent against a far end on loopback: `longhaul watch` as its user sees it, started,
//! reloaded, stopped, killed, and out of room.

mod full;
mod killed;
mod notices;
mod runs;
mod stage;
mod stopping;
mod templates;
