//! The recording of plays: JSON from which the page and its time lines are rendered.

use serde::{Deserialize, Serialize};

use super::log::{PlayLog, PlayStep, PlayVerdict};

/// One play, with everything that was seen in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlayRecording {
    /// The name of the play.
    pub play: String,
    pub acts: Vec<ActRecording>,
}

/// The same act on one system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActRecording {
    pub system: String,
    /// The versions of its servers.
    pub version: String,
    /// With the start and the end of the servers.
    pub took_ms: u64,
    pub steps: Vec<PlayStep>,
    pub verdicts: Vec<PlayVerdict>,
    /// The reason why it did not run: a server that is not installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// An error that ended it early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl ActRecording {
    pub(super) fn of(system: &str, version: String, log: &PlayLog) -> Self {
        let (steps, verdicts) = log.entries();
        let system = system.to_owned();
        Self { system, version, took_ms: 0, steps, verdicts, missing: None, failure: None }
    }

    /// Returns `true` if it ran to its end, judged something, and saw all that it claims.
    pub fn holds(&self) -> bool {
        let is_complete = self.failure.is_none() && !self.verdicts.is_empty();
        is_complete && self.verdicts.iter().all(|verdict| verdict.holds)
    }
}

impl PlayRecording {
    /// Returns `true` if an act ran, and every act that ran holds.
    pub fn holds(&self) -> bool {
        let mut ran = self.acts.iter().filter(|act| act.missing.is_none()).peekable();
        ran.peek().is_some() && ran.all(ActRecording::holds)
    }

    /// Returns `true` if it holds, and no system was missing.
    pub fn is_complete(&self) -> bool {
        self.holds() && self.acts.iter().all(|act| act.missing.is_none())
    }
}
