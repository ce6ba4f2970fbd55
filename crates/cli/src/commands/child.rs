//! The user's command as a child process: its start, and its exit code.

use std::ffi::{OsStr, OsString};
use std::io;
use std::process::ExitStatus;

use nix::sys::signal::Signal;
use tokio::process::{Child, Command};

use crate::exit::CommandFailure;

/// Shells report a command ended by signal *n* as 128 + *n*.
const SIGNALLED: i32 = 128;
/// The exit codes of shells for a command that cannot run, and for a command that does not exist.
pub(super) const NOT_STARTED: [u8; 2] = [126, 127];

/// Starts a command line after `configure` has changed the command.
///
/// # Errors
/// The exit code of shells for a command that cannot be started.
pub(super) fn spawn(
    words: &[OsString],
    configure: impl FnOnce(&mut Command),
) -> Result<Child, CommandFailure> {
    let [program, arguments @ ..] = words else {
        return Err(CommandFailure::failed("no command: write it after --"));
    };
    let mut command = Command::new(program);
    configure(command.args(arguments));
    command.spawn().map_err(|error| not_started(program, &error))
}

/// The failure of a command that did not start.
pub(super) fn not_started(program: &OsStr, error: &io::Error) -> CommandFailure {
    let [cannot_run, not_found] = NOT_STARTED;
    let is_missing = error.kind() == io::ErrorKind::NotFound;
    let code = if is_missing { not_found } else { cannot_run };
    CommandFailure::Code(code, Some(format!("cannot run {}: {error}", program.to_string_lossy())))
}

/// Maps the exit code of the command to the exit code of this program.
pub(super) fn exit_code(status: ExitStatus) -> Result<(), CommandFailure> {
    use std::os::unix::process::ExitStatusExt;
    // A shell ends its loop only if SIGINT ended the command.
    if status.signal() == Some(Signal::SIGINT as i32) {
        return Err(CommandFailure::Signalled(Signal::SIGINT, None));
    }
    let signalled = status.signal().map(|signal| SIGNALLED + signal);
    match status.code().or(signalled).unwrap_or(1) {
        0 => Ok(()),
        code => Err(CommandFailure::Code(u8::try_from(code).unwrap_or(1), None)),
    }
}
