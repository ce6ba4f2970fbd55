//! Scripts: steps of a few sessions, with a text format (`print`, `parse`) for failure output and regression files.
//!
//! Paths are relative to the folder of the run; a path that begins with `^` is absolute.

mod parse;
mod print;
pub(crate) mod words;

use holdfast_zkwire::Request;

/// Limit of sessions in one script.
pub const SLOTS: usize = 3;

/// Placeholder for the session's last zxid before its disconnect. Scripts have no other zxid, because zxids differ
/// between servers.
pub const SEEN: i64 = -1;

/// One step of the session `slot`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A new session.
    Open {
        /// Whose.
        slot: usize,
    },
    /// Requests, all sent before the first reply is read.
    Burst {
        /// Whose.
        slot: usize,
        /// In order.
        requests: Vec<Request>,
    },
    /// Closes the session.
    Close {
        /// Whose.
        slot: usize,
    },
    /// Drops the connection without a close request.
    Drop {
        /// Whose.
        slot: usize,
    },
    /// Reconnects the session; an old connection stays open until the server closes it.
    Resume {
        /// Whose.
        slot: usize,
    },
    /// Drops the connection, and opens another one for the session with a wrong password.
    Impostor {
        /// Whose.
        slot: usize,
    },
}

impl Step {
    /// The session of the step.
    pub fn slot(&self) -> usize {
        match self {
            Self::Open { slot }
            | Self::Burst { slot, .. }
            | Self::Close { slot }
            | Self::Drop { slot }
            | Self::Resume { slot }
            | Self::Impostor { slot } => *slot,
        }
    }
}

/// Parses a script: one step per line; empty lines and text after `#` are ignored.
///
/// # Errors
/// The line and its error.
pub fn parse_script(text: &str) -> Result<Vec<Step>, String> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    lines.filter(|line| !line.is_empty()).map(parse::step).collect()
}

/// Prints a script.
pub fn print_script(steps: &[Step]) -> String {
    steps.iter().map(Step::to_string).collect::<Vec<_>>().join("\n") + "\n"
}
