//! What is played against a server: steps of a few sessions, written as text.
//!
//! Owns the steps and their text (`print`, `parse`), which is what a failing run prints and what a regression keeps.
//! Refuses to know servers. Paths are relative to the folder that a run works in; one that begins with `^` is meant as
//! it is.

mod parse;
mod print;
pub(crate) mod words;

use holdfast_zkwire::Request;

/// Sessions of one script at most.
pub const SLOTS: usize = 3;

/// Instead of a number: what the session had seen when its connection ended. The only number of this kind that a script
/// can say, since the numbers themselves differ from server to server.
pub const SEEN: i64 = -1;

/// One step; `slot` says whose.
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
    /// The session ends.
    Close {
        /// Whose.
        slot: usize,
    },
    /// The connection ends, without a word.
    Drop {
        /// Whose.
        slot: usize,
    },
    /// A new connection of the same session; an old one stays open until the server closes it.
    Resume {
        /// Whose.
        slot: usize,
    },
    /// The connection ends, and another one claims the session with a wrong password.
    Impostor {
        /// Whose.
        slot: usize,
    },
}

impl Step {
    /// Whose step it is.
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

/// Reads a script: a step a line; empty lines and what follows `#` do not count.
///
/// # Errors
/// The line and what is wrong with it.
pub fn parse_script(text: &str) -> Result<Vec<Step>, String> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    lines.filter(|line| !line.is_empty()).map(parse::step).collect()
}

/// Writes a script.
pub fn print_script(steps: &[Step]) -> String {
    steps.iter().map(Step::to_string).collect::<Vec<_>>().join("\n") + "\n"
}
