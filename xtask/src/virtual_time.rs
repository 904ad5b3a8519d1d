//! Linux guests with a virtual clock, for tests of anything that depends on time.
//!
//! A guest is a User Mode Linux that was built with `CONFIG_UML_TIME_TRAVEL_SUPPORT` and runs with
//! `time-travel=inf-cpu`: its clock stops while anything computes and jumps when everything waits.
//! So a busy machine makes a test slower but does not change its result. A guest has one processor,
//! the host's file system read-only as its root, and network namespaces, TUN, netem and the other
//! queueing disciplines of its kernel.
//!
//! - [`guest_kernel`]: the kernel, given or built from Debian's sources
//!
//! Wrong when: the result depends on processor time (computing takes none) or on several cores.

pub mod guest_kernel;

pub use guest_kernel::run_in_guest;
