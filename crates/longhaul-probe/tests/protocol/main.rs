//! Both roles in one process, over the loopback interface: runs that go well, and all that can go
//! wrong between two hosts.

mod fake;
mod far_end;
mod liar;
mod probes;
mod runs;
mod trouble;
