//! The signals of this process.
//!
//! [`StopSignals`] installs handlers, for programs with several threads. `JobSignals` reads signals from a file
//! descriptor, for the commands `run`, `elect` and `lock`: it sees whether a terminal or another process sent a signal,
//! it changes no signal action that a child inherits, and the process can still end or stop by a signal's own action.
//! `ParentSignals` uses both, for `group join`.

use nix::sys::signal::{SigSet, Signal, raise};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{getpid, getsid};
use tokio::io::unix::AsyncFd;
use tokio::signal::unix::{self, SignalKind, signal};

use crate::exit::CommandFailure;

/// The signals that request the end of the program.
const STOP: [Signal; 4] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];
/// The signals that stop a job until SIGCONT.
const SUSPEND: [Signal; 3] = [Signal::SIGTSTP, Signal::SIGTTIN, Signal::SIGTTOU];
/// `si_code` of a signal that the kernel sent, e.g. for ^C in a terminal.
const SI_KERNEL: i32 = 0x80;

/// The stop signals of this process.
#[derive(Debug)]
pub struct StopSignals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
    /// `None` if the process ignores SIGHUP: `nohup` lets it outlive its terminal.
    hangup: Option<unix::Signal>,
}

impl StopSignals {
    /// Installs the handlers. From then on these signals do not end the process by themselves. Requires a runtime.
    ///
    /// # Errors
    /// The operating system rejects the handlers.
    pub fn install() -> std::io::Result<Self> {
        let hangup = if is_ignored(&own_status(), Signal::SIGHUP) {
            None
        } else {
            Some(signal(SignalKind::hangup())?)
        };
        let (interrupt, terminate) =
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        Ok(Self { interrupt, terminate, hangup })
    }

    /// Resolves with the next signal.
    pub async fn next(&mut self) -> Signal {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => Signal::SIGINT,
            _ = self.terminate.recv() => Signal::SIGTERM,
            _ = hangup => Signal::SIGHUP,
        }
    }
}

/// A signal that this process received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReceivedSignal {
    pub signal: Signal,
    /// The kernel sent it to the whole foreground process group, so the command has it.
    pub(crate) is_for_group: bool,
}

impl ReceivedSignal {
    /// Whether the signal requests the end of the program.
    pub(crate) fn is_stop(self) -> bool {
        STOP.contains(&self.signal)
    }

    /// Whether the signal stops a job until SIGCONT.
    pub(crate) fn is_suspend(self) -> bool {
        SUSPEND.contains(&self.signal)
    }
}

/// All signals that `run`, `elect` and `lock` handle. They are blocked, so their actions stay as inherited.
#[derive(Debug)]
pub(crate) struct JobSignals {
    signals: AsyncFd<SignalFd>,
    /// SIGINT and SIGQUIT of the terminal are for another job: a shell without job control ignores them in `command &`.
    is_background: bool,
    stop_received: bool,
}

impl JobSignals {
    /// Blocks the signals in this thread and in the threads that it starts later. Requires a runtime on this thread.
    ///
    /// # Errors
    /// The operating system rejects the file descriptor.
    pub(crate) fn install() -> Result<Self, CommandFailure> {
        let passed_on = [Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGWINCH];
        let harmless = [Signal::SIGALRM, Signal::SIGCHLD];
        let signals = STOP.into_iter().chain(SUSPEND).chain(passed_on).chain(harmless);
        Self::block(signals).map_err(|error| cannot_receive(&error))
    }

    fn block(signals: impl Iterator<Item = Signal>) -> std::io::Result<Self> {
        let status = own_status();
        let hangup_is_ignored = is_ignored(&status, Signal::SIGHUP);
        let mask: SigSet =
            signals.filter(|signal| *signal != Signal::SIGHUP || !hangup_is_ignored).collect();
        mask.thread_block()?;
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        let signals = SignalFd::with_flags(&mask, flags)?;
        #[expect(
            deprecated,
            reason = "`register` is unsafe; a `SignalFd` owns its descriptor until drop"
        )]
        let signals = AsyncFd::new(signals)?;
        let is_background = is_ignored(&status, Signal::SIGINT);
        Ok(Self { signals, is_background, stop_received: false })
    }

    /// Resolves with the next signal for this process or its command. Reaps ended children meanwhile: as the first
    /// process of a container, this process is the parent of every orphan.
    pub(crate) async fn next(&mut self) -> ReceivedSignal {
        loop {
            let Ok(mut ready) = self.signals.readable_mut().await else {
                return std::future::pending().await;
            };
            match ready.get_inner().read_signal() {
                Ok(Some(info)) => {
                    let number = i32::try_from(info.ssi_signo).unwrap_or(0);
                    let Ok(signal) = Signal::try_from(number) else { continue };
                    let is_from_kernel = info.ssi_code == SI_KERNEL;
                    let is_foreign = is_from_kernel
                        && self.is_background
                        && matches!(signal, Signal::SIGINT | Signal::SIGQUIT);
                    if signal == Signal::SIGCHLD {
                        reap_children();
                    } else if signal != Signal::SIGALRM && !is_foreign {
                        // After a hangup the kernel sends SIGHUP to the leader of the session alone.
                        let is_for_group =
                            is_from_kernel && (signal != Signal::SIGHUP || !leads_session());
                        let received = ReceivedSignal { signal, is_for_group };
                        self.stop_received |= received.is_stop();
                        return received;
                    }
                }
                Ok(None) | Err(_) => ready.clear_ready(),
            }
        }
    }

    /// Whether a signal has requested the end of the program.
    pub(crate) fn stop_received(&self) -> bool {
        self.stop_received
    }

    /// Resolves with the next signal that requests the end of the program. Signals that stop a job stop this process.
    pub(crate) async fn next_stop(&mut self) -> Signal {
        loop {
            let received = self.next().await;
            if received.is_stop() {
                return received.signal;
            }
            if received.is_suspend() {
                Self::suspend(received.signal);
            }
        }
    }

    /// Stops this process as the signal does by default, until SIGCONT.
    pub(crate) fn suspend(signal: Signal) {
        // Further signals of the same keystroke must not stop the process a second time.
        let pending = SignalFd::with_flags(&SUSPEND.into_iter().collect(), SfdFlags::SFD_NONBLOCK);
        while let Ok(Some(_)) = pending.as_ref().map_or(Ok(None), SignalFd::read_signal) {}
        let only = SigSet::from(signal);
        let _stopped_and_continued = only.thread_unblock().and_then(|()| raise(signal));
        let _blocked_again = only.thread_block();
    }
}

/// The signals that request the end, with their origin, for a parent whose child the runtime reaps.
#[derive(Debug)]
pub(crate) struct ParentSignals {
    signals: JobSignals,
    /// Receives the signals that arrive while the child starts.
    handlers: StopSignals,
}

impl ParentSignals {
    /// Blocks the signals as [`JobSignals::install`] does, and installs handlers.
    ///
    /// # Errors
    /// The operating system rejects the file descriptor or the handlers.
    pub(crate) fn install() -> Result<Self, CommandFailure> {
        let signals =
            JobSignals::block(STOP.into_iter()).map_err(|error| cannot_receive(&error))?;
        let handlers = StopSignals::install().map_err(|error| cannot_receive(&error))?;
        Ok(Self { signals, handlers })
    }

    /// Resolves with the next signal.
    pub(crate) async fn next(&mut self) -> ReceivedSignal {
        tokio::select! {
            received = self.signals.next() => received,
            signal = self.handlers.next() => ReceivedSignal { signal, is_for_group: false },
        }
    }

    /// Starts the child with unblocked signals, because it inherits the mask of this thread.
    pub(crate) fn unblocked<T>(start: impl FnOnce() -> T) -> T {
        let mask: SigSet = STOP.into_iter().collect();
        let _unblocked = mask.thread_unblock();
        let started = start();
        let _blocked_again = mask.thread_block();
        started
    }
}

fn cannot_receive(error: &std::io::Error) -> CommandFailure {
    CommandFailure::failed(format!("cannot receive signals: {error}"))
}

/// Whether this process leads its session, e.g. below `ssh -t host` or as the first process of a container.
pub(crate) fn leads_session() -> bool {
    getsid(None) == Ok(getpid())
}

/// Reaps all ended children.
fn reap_children() {
    use nix::errno::Errno;
    use nix::sys::wait::WaitStatus;
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return,
            Ok(_) | Err(_) => {}
        }
    }
}

/// Ends this process by a signal, so that a shell sees that a signal ended it, and ends its loop. Returns if the
/// process does not end by the signal: because it handles or ignores it, or is the first process of a container.
pub fn end_by(signal: Signal) {
    let only = SigSet::from(signal);
    let _returns_if_alive = only.thread_unblock().and_then(|()| raise(signal));
}

fn own_status() -> String {
    std::fs::read_to_string("/proc/self/status").unwrap_or_default()
}

/// Whether a process ignores the signal. `status` is its `/proc/PID/status`, with a hexadecimal mask of ignored signals.
fn is_ignored(status: &str, signal: Signal) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & (1 << (signal as u32 - 1)) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_in_the_mask_of_the_process() {
        let status = "Name:\tholdfast\nSigBlk:\tffffffffffffffff\nSigIgn:\t0000000000001001\n";
        assert!(is_ignored(status, Signal::SIGHUP));
        assert!(is_ignored(status, Signal::SIGPIPE));
        assert!(!is_ignored(status, Signal::SIGINT));
        assert!(!is_ignored("SigBlk:\t1\n", Signal::SIGHUP));
    }
}
