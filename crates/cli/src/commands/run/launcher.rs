//! The last step before the user's command: this process becomes the command.
//!
//! The watchdog starts this program once more in this mode. It asks the kernel for SIGKILL at the death of the
//! watchdog, the last resort if `run` and the watchdog are killed together, and executes the command.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::getppid;

use crate::commands::child::{NOT_STARTED, not_started};
use crate::exit::CommandFailure;

/// The first argument of this mode; the process id of the watchdog and the command follow.
pub(crate) const LAUNCHER: &str = "__command";

/// Becomes the command. Returns only if that fails, with the exit code of shells.
pub(crate) fn launch(arguments: &[OsString]) -> CommandFailure {
    let [cannot_run, _] = NOT_STARTED;
    let watchdog = arguments.first().and_then(|id| id.to_str()?.parse::<i32>().ok());
    let (Some(watchdog), Some([program, words @ ..])) = (watchdog, arguments.get(1..)) else {
        return CommandFailure::usage("only holdfast run starts this internal command");
    };
    // After the call: a watchdog that died before sends no signal any more.
    if set_pdeathsig(Signal::SIGKILL).is_err() || getppid().as_raw() != watchdog {
        let reason = "the watchdog has ended, so the command was not started".to_owned();
        return CommandFailure::Code(cannot_run, Some(reason));
    }
    // `run` and the watchdog block signals; the command must not inherit that.
    let _unblocked = SigSet::empty().thread_set_mask();
    not_started(program, &Command::new(program).args(words).exec())
}
