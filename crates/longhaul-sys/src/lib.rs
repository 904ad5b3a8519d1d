//! One typed function per system call or option of Linux networking, for programs that need typed
//! access to the kernel without `unsafe` code of their own.
//!
//! Contains no decisions, no loops except on EINTR, no logging and no policy; these belong to the
//! crates above. No public item exposes a `libc` type. Errors are plain [`std::io::Error`]; callers
//! add the context.

#![expect(unsafe_code, reason = "this crate is where the unsafe code of longhaul lives")]

pub mod boot_clock;
pub mod clock_state;
pub mod confined_dir;
pub mod cycle_counter;
pub mod file_user;
pub mod flow_label;
pub mod host;
pub mod listening_socket;
pub mod memory_region;
pub mod mount;
pub mod netlink;
pub mod netns;
pub mod packet_ring;
pub mod poll;
pub mod probe_socket;
pub mod process_control;
pub mod sched;
pub mod signal;
pub mod socket_diag;
pub mod sockopt;
pub mod splice;
mod syscall;
pub mod tcp_info;
pub mod tcp_transfer;
pub mod thread_times;
pub mod tun;
pub mod udp_batch;
