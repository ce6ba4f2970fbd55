//! The controlling terminal of a job.
//!
//! The command is a member of the process group of `run`, so it has the terminal whenever `run` is in the foreground.
//! A command that moves into its own group, e.g. `timeout`, gets the terminal when it asks for it, and `run` takes the
//! terminal back when the command stops or ends.

use std::fs::File;

use nix::unistd::{Pid, getpgid, getpgrp, getppid, getsid, tcgetpgrp, tcsetpgrp};

use super::descendants::parent;

/// Gives the terminal to another process group of the session. Returns `false` if this process is not in the
/// foreground, so that it cannot.
pub(super) fn give_to(group: Pid) -> bool {
    move_foreground(getpgrp(), group)
}

/// Takes the terminal back from a group that [`give_to`] gave it to.
pub(super) fn take_back_from(group: Pid) {
    let _was_given = move_foreground(group, getpgrp());
}

/// Whether the process group of this process is orphaned: no process of the session outside the group, usually a shell
/// with job control, is the parent of a member. ^Z does not stop such a group.
pub(super) fn is_orphaned_group() -> bool {
    let group = getpgrp();
    let mut ancestor = Some(getppid());
    while let Some(member) = ancestor.filter(|process| getpgid(Some(*process)) == Ok(group)) {
        ancestor = parent(member);
    }
    ancestor.is_none_or(|outside| getsid(Some(outside)) != getsid(None))
}

fn move_foreground(from: Pid, to: Pid) -> bool {
    let Ok(terminal) = File::options().read(true).write(true).open("/dev/tty") else {
        return false;
    };
    from != to
        && tcgetpgrp(&terminal).is_ok_and(|foreground| foreground == from)
        && tcsetpgrp(&terminal, to).is_ok()
}
