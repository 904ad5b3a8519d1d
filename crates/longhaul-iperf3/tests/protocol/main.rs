//! iperf3's own client and broken clients against a measurement server that serves iperf3.

#[path = "../../../longhaul-probe/tests/protocol/far_end.rs"]
#[expect(dead_code, reason = "shared with the tests of runs between two longhaul peers")]
mod far_end;
mod iperf3;
mod iperf3_broken;
