//! The plays: each answers one question that people ask about locks, on real servers, in at most 20 seconds.
//!
//! A play has one act for holdfast and one for each other system. It logs its steps as they happen (`log`), and its
//! verdicts are computed from what it saw. `recording` keeps them, `page` and `timeline` render `docs/questions.md`,
//! and `menu` lists the questions. An act whose servers are not installed is skipped with the reason.

mod actors;
pub mod caller;
mod log;
pub mod menu;
pub mod page;
mod recording;
mod timeline;

mod aba;
mod clock;
mod deadlock;
mod disconnect;
mod foreign;
mod leader;
mod nested;
mod optimistic;
mod pause;
mod power;
mod redlock;
mod replica;
mod retry;
mod rows;
mod setnx;
mod thousand;
mod waiter;

use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::future::LocalBoxFuture;
use tokio::time::timeout;

pub use log::{PlayLog, PlayStep, PlayVerdict, StepKind};
pub use recording::{ActRecording, PlayRecording};

use crate::servers::ServerKind;
use crate::servers::clock::missing as clock_library_missing;

/// An act that takes longer has failed: far more than a play takes on a busy machine.
const ACT_TIMEOUT: Duration = Duration::from_mins(2);

pub type ActFuture<'a> = LocalBoxFuture<'a, Result<(), String>>;

/// One question, and the acts that answer it.
#[derive(Clone, Copy, Debug)]
pub struct Play {
    /// The name on the command line and in links.
    pub name: &'static str,
    pub question: &'static str,
    /// The answer for a reader in a hurry; the verdicts support it.
    pub answer: &'static str,
    pub acts: &'static [Act],
}

/// What happens on one system.
#[derive(Clone, Copy, Debug)]
pub struct Act {
    pub system: &'static str,
    /// The servers that it needs; the first is the system's own.
    servers: &'static [ServerKind],
    /// Whether it changes wall clocks.
    changes_clocks: bool,
    /// Logs the steps and the verdicts. An error means that the act did not reach its end.
    run: RunAct,
}

type RunAct = for<'a> fn(&'a PlayLog) -> ActFuture<'a>;

/// All plays, in the order of the page.
pub const ALL: &[Play] = &[
    pause::PLAY,
    disconnect::PLAY,
    leader::PLAY,
    power::PLAY,
    thousand::PLAY,
    waiter::PLAY,
    deadlock::PLAY,
    retry::PLAY,
    clock::PLAY,
    nested::PLAY,
    replica::PLAY,
    redlock::PLAY,
    setnx::PLAY,
    foreign::PLAY,
    aba::PLAY,
    optimistic::PLAY,
];

/// The rows of the table of mechanisms that `measure show` shows.
pub const ROWS: &[Play] = rows::ALL;

pub fn named(name: &str) -> Option<&'static Play> {
    ALL.iter().find(|play| play.name == name)
}

impl Play {
    /// Plays every act whose servers are installed, and passes each line to `print`.
    pub async fn perform(&self, print: fn(&str)) -> PlayRecording {
        print(self.question);
        let mut acts = Vec::new();
        for act in self.acts {
            print(&format!("\n{}:", act.system));
            let recording = act.perform(print).await;
            for reason in recording.missing.iter().chain(&recording.failure) {
                print(&format!("  {reason}"));
            }
            acts.push(recording);
        }
        let recording = PlayRecording { play: self.name.to_owned(), acts };
        let verdict = if recording.holds() { self.answer } else { "NOT SHOWN: see above." };
        print(&format!("\n{verdict}"));
        recording
    }
}

impl Act {
    const fn on(system: &'static str, servers: &'static [ServerKind], run: RunAct) -> Self {
        Self { system, servers, changes_clocks: false, run }
    }

    const fn with_clocks(self) -> Self {
        Self { changes_clocks: true, ..self }
    }

    /// Returns the reason why it cannot run on this machine.
    fn missing(&self) -> Option<String> {
        let server = self.servers.iter().find_map(|kind| kind.missing());
        let clocks = self.changes_clocks.then(clock_library_missing).flatten();
        server.map(|server| server.to_string()).or(clocks.map(str::to_owned))
    }

    async fn perform(&self, print: fn(&str)) -> ActRecording {
        let log = PlayLog::new(print);
        // Redis appends its build.
        let version = || {
            let version = self.servers.first().map(|kind| kind.version()).unwrap_or_default();
            version.split(" sha=").next().unwrap_or_default().to_owned()
        };
        if let Some(missing) = self.missing() {
            let recording = ActRecording::of(self.system, String::new(), &log);
            return ActRecording { missing: Some(missing), ..recording };
        }
        let began = Instant::now();
        let late = |_| Err(format!("not done within {} s", ACT_TIMEOUT.as_secs()));
        let done = timeout(ACT_TIMEOUT, (self.run)(&log)).await.unwrap_or_else(late);
        let took_ms = holdfast_types::millis(began.elapsed());
        let recording = ActRecording::of(self.system, version(), &log);
        ActRecording { failure: done.err(), took_ms, ..recording }
    }
}

/// Returns the directory for servers: on a disk, and open to other users, because PostgreSQL does not run as root.
fn directory() -> std::path::PathBuf {
    crate::settings::on_disk()
}

/// Reads recordings.
///
/// # Errors
/// The file is missing, or not the JSON of recordings.
pub fn read(file: &Path) -> Result<Vec<PlayRecording>, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let json = std::fs::read_to_string(file).map_err(|error| failed(&error))?;
    serde_json::from_str(&json).map_err(|error| failed(&error))
}
