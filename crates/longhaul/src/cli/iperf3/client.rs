//! The client's half of the personality.
//!
//! Nothing goes into the archive: whoever calls this wants iperf3's output, and `longhaul test
//! --iperf3` is the command that keeps runs.

mod client_request;
mod document;
mod failure;
mod screen;

use super::Refusal;
use super::value::HostAndDevice;
use super::writer::Writer;
use crate::cli::args::Iperf3Args;
use crate::cli::interrupt;
use client_request::ClientRequest;
use document::Document;
use longhaul_iperf3::client_run::{
    self, ClientObserverConfig, ClientTestObserver, Iperf3TestOptions, ObservedResults,
};
use screen::Screen;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const INTERRUPTED: &str = "interrupt - the client has terminated";

/// What is said at the end.
trait Show: ClientTestObserver {
    /// All of it, or what is known of a test that was interrupted.
    fn finish(&mut self, followed: &ObservedResults) -> std::io::Result<()>;
    /// The text of an error; true: nothing more is to be said of it.
    fn fail(&mut self, text: &str) -> std::io::Result<bool>;
}

/// Measures as `iperf3 -c` does.
///
/// # Errors
/// What the program ends with, said as iperf3 says it.
pub fn run(args: &Iperf3Args, place: &HostAndDevice) -> Result<(), Refusal> {
    let asked = ClientRequest::of(args, place)?;
    if args.debug.is_some() {
        tell_what_has_no_effect(args);
    }
    let writer = Writer::open(args)?;
    let stop = interrupt::install_stop_flag().map_err(|fail| Refusal::error(fail.message))?;
    if args.json || args.json_stream {
        measure(
            args,
            &asked,
            &stop,
            &mut Document::new(args, &asked, writer),
        )
    } else {
        measure(args, &asked, &stop, &mut Screen::new(args, &asked, writer))
    }
}

fn measure(
    args: &Iperf3Args,
    asked: &ClientRequest,
    stop: &AtomicBool,
    show: &mut impl Show,
) -> Result<(), Refusal> {
    let wish = Iperf3TestOptions {
        login: asked.login.as_ref(),
        omit_seconds: Some(asked.omit_s),
        burst: asked.burst,
        title: args.client.title.as_deref(),
        extra_data: args.client.extra_data.as_deref(),
        server_output: args.client.get_server_output,
        repeating_payload: args.client.repeating_payload,
        do_not_fragment: args.client.dont_fragment,
        silence: Some(asked.silence),
        stop: Some(stop),
    };
    let following = ClientObserverConfig {
        observer: show,
        interval: asked.every,
    };
    let (followed, done) = client_run::run_observed(&asked.target, &asked.plan, &wish, following);
    let told = match done {
        Ok(()) => show.finish(&followed).map(|()| None),
        Err(_) if stop.load(Relaxed) => show
            .finish(&followed)
            .and_then(|()| fail(show, INTERRUPTED, true)),
        Err(error) => fail(show, &failure::text(&error), false),
    };
    match told {
        Ok(None) => Ok(()),
        Ok(Some(refusal)) => Err(refusal),
        // Nobody reads any more.
        Err(_) => Err(Refusal::Told),
    }
}

fn fail(show: &mut impl Show, text: &str, bare: bool) -> std::io::Result<Option<Refusal>> {
    let whole = if bare {
        text.to_owned()
    } else {
        format!("error - {text}")
    };
    let refusal = if show.fail(&whole)? {
        Refusal::Told
    } else if bare {
        Refusal::Bare(whole)
    } else {
        Refusal::error(text)
    };
    Ok(Some(refusal))
}

/// With `-d`, on standard error: options that are taken and change nothing here.
fn tell_what_has_no_effect(args: &Iperf3Args) {
    let asked = [
        (args.forceflush, "--forceflush"),
        (args.pidfile.is_some(), "--pidfile"),
        (args.snd_timeout.is_some(), "--snd-timeout"),
        (args.cntl_ka.is_some(), "--cntl-ka"),
        (args.client.pacing_timer.is_some(), "--pacing-timer"),
        (args.client.udp_counters_64bit, "--udp-counters-64bit"),
        (args.client.gsro, "--gsro"),
    ];
    for (is_asked, name) in asked {
        if is_asked {
            // Nobody is left to be told when stderr is closed.
            let _ = writeln!(
                std::io::stderr(),
                "iperf3: {name} has no effect in longhaul"
            );
        }
    }
}
