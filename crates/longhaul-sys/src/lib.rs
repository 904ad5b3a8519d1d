//! The kernel edge: one function per call or option, typed to it.
//!
//! No decisions, no loops beyond EINTR, no logging, no policy: those stand in the crates above.
//! No public item mentions a `libc` type. Errors are [`std::io::Error`] wrapped by the callers,
//! who know what was being tried.

#![expect(
    unsafe_code,
    reason = "this crate is where the unsafe code of longhaul lives"
)]

pub mod beneath;
pub mod clock;
pub mod cycles;
pub mod host;
pub mod listen;
pub mod mount;
pub mod netlink;
pub mod netns;
pub mod packet_ring;
pub mod packet_socket;
pub mod poll;
pub mod probe_socket;
pub mod process;
pub mod region;
pub mod sched;
pub mod signal;
pub mod sockopt;
pub mod splice;
mod syscall;
pub mod tcp;
pub mod tcp_info;
pub mod thread;
pub mod tun;
pub mod udp;
