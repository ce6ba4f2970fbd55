//! The processes of a job: the descendants of a process, read from `/proc`, signals to them, and the process group that has
//! the terminal.
//!
//! A descendant of the same PID namespace cannot leave this set: `run` and its watchdog are child subreapers, so an
//! orphan becomes their child, whatever its process group, session or user is. A process that another service starts
//! (systemd, a container engine, cron, the server of `ssh host cmd`) is no descendant, and an orphan in another PID
//! namespace (`nsenter`) becomes the child of that namespace's first process.
//!
//! The command is a member of the process group of `run`, so it has the terminal whenever `run` is in the foreground.
//! A command that moves into its own group, e.g. `timeout`, gets the terminal when it asks for it, and `run` takes the
//! terminal back when the command stops or ends.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpgid, getpgrp, getppid, getsid, tcgetpgrp, tcsetpgrp};

/// The name that the watchdog of a nested `holdfast run` has in `/proc`. At most 15 bytes.
pub(super) const WATCHDOG_NAME: &str = "holdfast-watch";
/// The fields of `/proc/PID/stat` between the process group and the number of threads.
const THREADS_AFTER_GROUP: usize = 14;

/// A process, as `/proc/PID/stat` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProcessInfo {
    pub(super) id: i32,
    pub(super) name: String,
    parent: i32,
    pub(super) group: i32,
    is_zombie: bool,
}

impl ProcessInfo {
    /// Parses a line of `/proc/PID/stat`. The name may contain any character.
    fn parse(stat: &str) -> Option<Self> {
        let (id, rest) = stat.split_once(" (")?;
        let (name, rest) = rest.rsplit_once(") ")?;
        let mut fields = rest.split_whitespace();
        let has_ended = matches!(fields.next()?, "Z" | "X");
        let mut number = || fields.next()?.parse().ok();
        let (parent, group) = (number()?, number()?);
        let threads: u32 =
            fields.nth(THREADS_AFTER_GROUP).and_then(|n| n.parse().ok()).unwrap_or(1);
        // The state is that of the first thread; other threads may still work.
        let is_zombie = has_ended && threads <= 1;
        Some(Self { id: id.parse().ok()?, name: name.to_owned(), parent, group, is_zombie })
    }

    /// Sends a signal. A process that has ended is no error.
    pub(super) fn signal(&self, signal: Signal) -> Result<(), Errno> {
        match kill(Pid::from_raw(self.id), signal) {
            Err(Errno::ESRCH) => Ok(()),
            sent => sent,
        }
    }
}

/// `812 (sudo)`.
impl fmt::Display for ProcessInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.id, self.name)
    }
}

/// `812 (sudo), 813 (sleep)`, for messages.
pub(super) fn names(processes: &[ProcessInfo]) -> String {
    processes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Returns the live processes below `root`, without the processes in `foreign` and everything below them.
pub(super) fn live_descendants(root: Pid, foreign: &[ProcessInfo]) -> Vec<ProcessInfo> {
    let is_foreign = |process: &ProcessInfo| foreign.iter().any(|other| other.id == process.id);
    descendants(processes(), root.as_raw(), is_foreign)
}

/// Returns the processes that get a signal themselves: the processes below a nested `holdfast run` get its signals
/// from that `run`.
pub(super) fn without_nested(all: Vec<ProcessInfo>) -> Vec<ProcessInfo> {
    let watchdogs: Vec<i32> = all
        .iter()
        .filter(|process| process.name == WATCHDOG_NAME)
        .map(|process| process.id)
        .collect();
    let nested: Vec<i32> = watchdogs
        .iter()
        .flat_map(|watchdog| descendants(all.clone(), *watchdog, |_| false))
        .map(|process| process.id)
        .collect();
    let is_own =
        |process: &ProcessInfo| !nested.contains(&process.id) && !watchdogs.contains(&process.id);
    all.into_iter().filter(is_own).collect()
}

/// Returns the live processes below `root`, parents first, without the subtrees that `is_foreign` selects.
fn descendants(
    all: Vec<ProcessInfo>,
    root: i32,
    is_foreign: impl Fn(&ProcessInfo) -> bool,
) -> Vec<ProcessInfo> {
    let mut by_parent: BTreeMap<i32, Vec<ProcessInfo>> = BTreeMap::new();
    for process in all.into_iter().filter(|process| !is_foreign(process)) {
        by_parent.entry(process.parent).or_default().push(process);
    }
    let mut below = by_parent.remove(&root).unwrap_or_default();
    let mut next = 0;
    while let Some(process) = below.get(next) {
        let children = by_parent.remove(&process.id).unwrap_or_default();
        below.extend(children);
        next += 1;
    }
    below.retain(|process| !process.is_zombie);
    below
}

/// Sends SIGTERM to the processes, and to the command alone if `/proc` shows none.
pub(super) fn terminate(processes: &[ProcessInfo], command: Option<Pid>) {
    let command = command.filter(|_| processes.is_empty());
    let ids = processes.iter().map(|process| Pid::from_raw(process.id));
    for id in ids.chain(command) {
        let _ended = kill(id, Signal::SIGTERM).and_then(|()| kill(id, Signal::SIGCONT));
    }
}

/// Sends SIGKILL to the processes below `root` that the kernel lists as children. That takes a few reads instead of one
/// for each process of the machine, but the list may be incomplete (`proc_pid_task(5)`), so a full scan must follow.
pub(super) fn kill_listed(root: Pid) {
    let mut below = if is_own_namespace() { listed_children(root.as_raw()) } else { vec![] };
    let mut next = 0;
    while let Some(id) = below.get(next) {
        let children = listed_children(*id);
        let _ended = kill(Pid::from_raw(*id), Signal::SIGKILL);
        below.extend(children);
        next += 1;
    }
}

/// Whether a signal or a debugger has stopped a process. `true` if `/proc` does not tell.
pub(super) fn is_stopped(process: Pid) -> bool {
    stat(process).is_none_or(|stat| {
        stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with(['T', 't']))
    })
}

/// Returns the parent of a process; `None` if `/proc` does not tell.
pub(super) fn parent(process: Pid) -> Option<Pid> {
    ProcessInfo::parse(&stat(process)?).map(|process| Pid::from_raw(process.parent))
}

fn stat(process: Pid) -> Option<String> {
    let stat =
        std::fs::read(format!("/proc/{process}/stat")).ok().filter(|_| is_own_namespace())?;
    Some(String::from_utf8_lossy(&stat).into_owned())
}

fn listed_children(id: i32) -> Vec<i32> {
    let threads = std::fs::read_dir(format!("/proc/{id}/task")).ok();
    let children = |thread: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(thread.ok()?.path().join("children")).ok()
    };
    let lists: Vec<String> = threads.into_iter().flatten().filter_map(children).collect();
    lists.iter().flat_map(|list| list.split_whitespace()).filter_map(|id| id.parse().ok()).collect()
}

/// Whether `/proc` belongs to the PID namespace of this process. In another one its numbers mean other processes.
fn is_own_namespace() -> bool {
    let own = std::fs::read_link("/proc/self").ok();
    own.is_some_and(|own| own.to_str() == Some(&std::process::id().to_string()))
}

/// Returns all processes; none if `/proc` belongs to another PID namespace.
fn processes() -> Vec<ProcessInfo> {
    let entries = std::fs::read_dir("/proc").ok().filter(|_| is_own_namespace());
    let stat = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.ok()?.path();
        path.file_name()?.to_str()?.parse::<i32>().ok()?;
        let stat = std::fs::read(path.join("stat")).ok()?;
        ProcessInfo::parse(&String::from_utf8_lossy(&stat))
    };
    entries.into_iter().flatten().filter_map(stat).collect()
}

/// Gives the terminal to another process group of the session. Returns `false` if this process is not in the
/// foreground, so that it cannot.
pub(super) fn give_terminal_to(group: Pid) -> bool {
    move_foreground(getpgrp(), group)
}

/// Takes the terminal back from a group that [`give_terminal_to`] gave it to.
pub(super) fn take_terminal_back_from(group: Pid) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn process(id: i32, parent: i32, name: &str) -> ProcessInfo {
        ProcessInfo::parse(&format!("{id} ({name}) S {parent} {id} 1 0 -1")).unwrap()
    }

    fn ids(processes: &[ProcessInfo]) -> Vec<i32> {
        processes.iter().map(|process| process.id).collect()
    }

    #[test]
    fn a_name_may_contain_parentheses_and_a_zombie_is_dead() {
        let parsed = ProcessInfo::parse("7 (a) S (b)) Z 3 5 1 0").unwrap();
        assert_eq!(
            (parsed.id, parsed.name.as_str(), parsed.parent, parsed.group),
            (7, "a) S (b)", 3, 5)
        );
        assert!(parsed.is_zombie);
        assert_eq!(ProcessInfo::parse("7 (a"), None);
    }

    #[test]
    fn a_process_whose_first_thread_has_ended_is_alive_while_another_thread_works() {
        let is_zombie = |threads: u32| {
            let stat =
                format!("7 (a) Z 3 5 1 0 -1 4228108 9 0 0 0 0 0 0 0 20 0 {threads} 0 8061 0");
            ProcessInfo::parse(&stat).unwrap().is_zombie
        };
        assert_eq!([is_zombie(1), is_zombie(2)], [true, false]);
    }

    #[test]
    fn descendants_of_every_depth_are_found_in_any_order_of_ids() {
        let all =
            vec![process(2, 9, "c"), process(9, 5, "b"), process(5, 1, "a"), process(6, 1, "x")];
        assert_eq!(ids(&descendants(all.clone(), 5, |_| false)), [9, 2]);
        assert_eq!(ids(&descendants(all, 1, |process| process.id == 9)), [5, 6]);
    }

    #[test]
    fn processes_below_a_child_are_killed() {
        use std::io::Read as _;
        let script = "sleep 600 & exec sleep 600";
        let mut command = std::process::Command::new("sh");
        let mut shell =
            command.args(["-c", script]).stdout(std::process::Stdio::piped()).spawn().unwrap();
        let own = Pid::this();
        let id = i32::try_from(shell.id()).unwrap();
        while listed_children(id).is_empty() {
            std::thread::yield_now();
        }
        assert!(listed_children(own.as_raw()).contains(&id));
        kill_listed(Pid::from_raw(id));
        kill(Pid::from_raw(id), Signal::SIGKILL).unwrap();
        shell.wait().unwrap();
        // The output ends with the last process.
        assert_eq!(shell.stdout.take().unwrap().read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn a_nested_run_passes_signals_on_to_its_own_processes() {
        let all = vec![
            process(5, 1, "sh"),
            process(6, 5, "holdfast"),
            process(7, 6, WATCHDOG_NAME),
            process(8, 7, "work"),
        ];
        assert_eq!(ids(&without_nested(all)), [5, 6]);
    }
}
