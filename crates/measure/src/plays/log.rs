//! What happens in a play: printed at once, and kept for the recording.
//!
//! A verdict is computed from replies and rows that the play has seen, and is kept with its claim.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepKind {
    /// Anything that changes neither a hold nor data.
    Note,
    /// The actor joins a queue, or polls.
    Waits,
    /// The actor believes from now on that it holds the lock.
    Holds,
    /// The actor no longer holds the lock, or no longer waits.
    Ends,
    /// The data store or the server accepted a write or a call.
    Accepted,
    Rejected,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlayStep {
    /// Since the servers were ready.
    pub at_ms: u64,
    pub actor: String,
    pub kind: StepKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<u64>,
    pub text: String,
}

/// A claim, and whether what was seen supports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlayVerdict {
    pub claim: String,
    pub holds: bool,
}

#[derive(Debug)]
struct PlayLogState {
    began: Instant,
    steps: Vec<PlayStep>,
    verdicts: Vec<PlayVerdict>,
}

/// The log of one act. Clones share it.
#[derive(Clone, Debug)]
pub struct PlayLog {
    state: Arc<Mutex<PlayLogState>>,
    print: fn(&str),
}

impl PlayLog {
    /// Creates a log that passes each line to `print`.
    pub fn new(print: fn(&str)) -> Self {
        let state = PlayLogState { began: Instant::now(), steps: Vec::new(), verdicts: Vec::new() };
        Self { state: Arc::new(Mutex::new(state)), print }
    }

    /// Creates a log that prints nothing.
    pub fn silent() -> Self {
        Self::new(|_| {})
    }

    /// Sets the time to zero: the servers are ready.
    pub fn begin(&self) {
        self.with(|state| state.began = Instant::now());
    }

    pub fn note(&self, actor: &str, text: impl Into<String>) {
        self.step(StepKind::Note, actor, None, text);
    }

    pub fn waits(&self, actor: &str, text: impl Into<String>) {
        self.step(StepKind::Waits, actor, None, text);
    }

    pub fn holds(&self, actor: &str, token: Option<u64>, text: impl Into<String>) {
        self.step(StepKind::Holds, actor, token, text);
    }

    pub fn ends(&self, actor: &str, text: impl Into<String>) {
        self.step(StepKind::Ends, actor, None, text);
    }

    /// Logs a write or a call with its outcome.
    pub fn outcome(&self, actor: &str, is_accepted: bool, text: impl Into<String>) {
        let kind = if is_accepted { StepKind::Accepted } else { StepKind::Rejected };
        self.step(kind, actor, None, text);
    }

    pub fn step(&self, kind: StepKind, actor: &str, token: Option<u64>, text: impl Into<String>) {
        let (actor, text) = (actor.to_owned(), text.into());
        self.with(|state| {
            let at_ms = u64::try_from(state.began.elapsed().as_millis()).unwrap_or(u64::MAX);
            let step = PlayStep { at_ms, actor, kind, token, text };
            (self.print)(&step.line());
            state.steps.push(step);
        });
    }

    /// Judges a claim by what was seen.
    pub fn verdict(&self, holds: bool, claim: impl Into<String>) {
        let verdict = PlayVerdict { claim: claim.into(), holds };
        (self.print)(&verdict.line());
        self.with(|state| state.verdicts.push(verdict));
    }

    /// Returns all steps and verdicts.
    pub fn entries(&self) -> (Vec<PlayStep>, Vec<PlayVerdict>) {
        self.with(|state| (state.steps.clone(), state.verdicts.clone()))
    }

    fn with<T>(&self, action: impl FnOnce(&mut PlayLogState) -> T) -> T {
        action(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl PlayStep {
    /// The line on a terminal and on the page.
    pub fn line(&self) -> String {
        let (seconds, millis) = (self.at_ms / 1_000, self.at_ms % 1_000);
        let token = self.token.map(|token| format!(", token {token}")).unwrap_or_default();
        let refused = if self.kind == StepKind::Rejected { "REJECTED: " } else { "" };
        format!("{seconds:>3}.{millis:03} s  {:<9} {refused}{}{token}", self.actor, self.text)
    }
}

impl PlayVerdict {
    pub fn line(&self) -> String {
        format!("{} {}", if self.holds { "  seen:" } else { "  NOT SEEN:" }, self.claim)
    }
}
