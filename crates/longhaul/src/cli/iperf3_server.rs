//! Measurements against iperf3 servers: the options about them, and the detection of one.

use super::args::Iperf3UserArgs;
use crate::command_failure::CommandFailure;
use clap::Args;
use longhaul_iperf3::client_run;
use longhaul_model::report::v1::ReportCaveat;
use longhaul_probe::probe_error::ProbeError;
use longhaul_probe::throughput::{self, BulkRun, IdentifiedServer, TargetHost};
use std::sync::Arc;

/// The caveat of a measurement that fell back to iperf3's protocol.
const FOUND_TEXT: &str =
    "an iperf3 server answered, and the run used its protocol; select it with `--iperf3`";

/// Options about iperf3 servers.
#[derive(Debug, Clone, Default, Args)]
pub struct Iperf3ServerArgs {
    /// The server is an iperf3 server [default: detected]
    ///
    /// It is not detected if a token is given.
    #[arg(long, help_heading = "Host")]
    pub iperf3: bool,
    #[command(flatten)]
    pub user: Iperf3UserArgs,
}

/// The protocol of a measurement.
pub struct BulkProtocol {
    pub bulk_run: Arc<BulkRun>,
    pub is_iperf3: bool,
    pub caveats: Vec<ReportCaveat>,
}

impl Iperf3ServerArgs {
    /// Returns the protocol of a server that has been identified. A server of iperf3 ignores a
    /// token, so it is used only if none was given.
    pub fn choose_protocol(
        &self,
        found: &IdentifiedServer,
    ) -> Result<BulkProtocol, CommandFailure> {
        if !found.is_iperf3 && !self.iperf3 {
            let bulk_run: Arc<BulkRun> = Arc::new(throughput::run);
            return Ok(BulkProtocol { bulk_run, is_iperf3: false, caveats: Vec::new() });
        }
        self.use_iperf3(&found.target)
    }

    /// Returns iperf3's protocol, with a caveat unless the options name it.
    pub fn use_iperf3(&self, target: &TargetHost) -> Result<BulkProtocol, CommandFailure> {
        if let (false, Some(_), Some(chosen)) = (self.iperf3, &target.token, &target.chosen) {
            return Err(ProbeError::Iperf3There { address: chosen.address }.into());
        }
        let login = self.user.login()?;
        let bulk_run: Arc<BulkRun> = Arc::new(move |target, plan, stop, watch| {
            // The server is busy until it notices that an earlier connection is closed.
            let patience = target.connect_timeout;
            Ok(client_run::run(target, plan, login.as_ref(), patience, stop, watch)?)
        });
        let caveats = if self.iperf3 { Vec::new() } else { vec![found_caveat()] };
        Ok(BulkProtocol { bulk_run, is_iperf3: true, caveats })
    }
}

/// Returns the caveat of a measurement that fell back to iperf3's protocol.
pub fn found_caveat() -> ReportCaveat {
    ReportCaveat::new("iperf3_found", FOUND_TEXT)
}
