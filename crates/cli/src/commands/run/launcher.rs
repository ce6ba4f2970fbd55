//! The last step before the user's command: this process becomes the command.
//!
//! The watchdog starts this program once more in this mode. It asks the kernel for SIGKILL at the death of the
//! watchdog, the last resort if `run` and the watchdog are killed together, and executes the command. A pipe reports a
//! failure of that: the exit code of shells for it can also be the command's.

use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::getppid;

use super::protocol::inherited;
use crate::exit::{CommandFailure, NOT_STARTED, not_started};

/// The first argument of this mode; the process id of the watchdog, the file descriptor of the pipe
/// and the command follow.
pub(crate) const LAUNCHER: &str = "__command";

/// Becomes the command. Returns only if that fails, with the exit code of shells.
pub(crate) fn launch(arguments: &[OsString]) -> CommandFailure {
    let [cannot_run, _] = NOT_STARTED;
    let number = |index: usize| arguments.get(index)?.to_str()?.parse::<i32>().ok();
    let pipe = number(1).and_then(|pipe| inherited(pipe, true).ok());
    let (Some(watchdog), Some(mut pipe), Some([program, words @ ..])) =
        (number(0), pipe, arguments.get(2..))
    else {
        return CommandFailure::usage("only holdfast run starts this internal command");
    };
    // After the call: a watchdog that died before sends no signal any more.
    if set_pdeathsig(Signal::SIGKILL).is_err() || getppid().as_raw() != watchdog {
        let reason = "the watchdog has ended, so the command was not started".to_owned();
        return CommandFailure::Code(cannot_run, Some(reason));
    }
    // `run` and the watchdog block signals; the command must not inherit that.
    let _unblocked = SigSet::empty().thread_set_mask();
    let error = Command::new(program).args(words).exec();
    // After a success the kernel has closed the pipe.
    let _watchdog_ended = pipe.write_all(&[0]);
    not_started(program, &error)
}
