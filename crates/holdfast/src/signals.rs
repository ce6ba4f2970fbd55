//! SIGINT, SIGTERM and SIGHUP, which request the end of the program.

use nix::sys::signal::Signal;
use tokio::signal::unix::{self, SignalKind, signal};

/// The stop signals of this process.
#[derive(Debug)]
pub(crate) struct StopSignals {
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
    pub(crate) fn install() -> std::io::Result<Self> {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let is_ignored = is_ignored(&status, Signal::SIGHUP);
        let hangup = if is_ignored { None } else { Some(signal(SignalKind::hangup())?) };
        let (interrupt, terminate) =
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        Ok(Self { interrupt, terminate, hangup })
    }

    /// Resolves with the next signal.
    pub(crate) async fn next(&mut self) -> Signal {
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
