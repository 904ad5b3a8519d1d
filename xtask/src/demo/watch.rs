//! An agent on the path of June 2003, with its page in the browser.
//!
//! The lab replays `slac-cesnet`; after five minutes the route changes, and the page shows what the
//! agent makes of it: events, causes, and the re-tune that it makes by itself.

use crate::bench::scratch::Scratch;
use crate::bench::seeds::SEEDS;
use crate::{Outcome, needs, page, process};

/// Runs until the day is over, or until Ctrl-C.
pub fn run() -> Outcome {
    needs::namespaces()?;
    if let Err(why) = page::build() {
        println!("note: the page is not in the program, only its API: {why}");
    }
    let longhaul = process::longhaul()?;
    let scratch = Scratch::new("demo-watch")?;
    let seed = &SEEDS[0];
    let (file, _) = seed.prepare(&scratch.path(seed.path))?;
    println!(
        "\nThe page: http://127.0.0.1:{}/   (for {} minutes; Ctrl-C ends it)\n\
         After 3 minutes the route changes from Abilene to ESnet, as in June 2003. Two to three\n\
         minutes later the agent is sure, says what caused it, and looks for a better setting.\n",
        seed.port,
        seed.lasts_s / 60
    );
    let mut lab = seed.lab(&longhaul, &file);
    println!(
        "$ {}\n",
        process::words(&lab).replace(&*longhaul.to_string_lossy(), "longhaul")
    );
    let status = lab
        .status()
        .map_err(|e| format!("cannot start `{}`: {e}", process::words(&lab)))?;
    // A signal from the keyboard is how one ends it.
    match status.code() {
        Some(0 | 124 | 130) | None => Ok(()),
        Some(_) => Err(format!("the demonstration ended with {status}")),
    }
}
