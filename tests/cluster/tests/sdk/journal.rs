//! The journal of writers: the token of each line, and the time of the writer's last check of its guard.
//!
//! The judge of a hand-over: a former holder checks its guard for no line after the next grant. If a stop interrupts a
//! writer between check and write, one line may be late. Only the store can reject that line, by its token.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// One line of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) token: u64,
    /// Time since 1970, by the machine's clock.
    pub(crate) asked: Duration,
}

impl Line {
    /// A line with this token, now.
    pub(crate) fn now(token: u64) -> Self {
        Self { token, asked: now() }
    }

    fn parse(text: &str) -> Option<Self> {
        let (token, asked) = text.split_once(' ')?;
        let asked = Duration::from_micros(asked.parse().ok()?);
        Some(Self { token: token.parse().ok()?, asked })
    }
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.token, self.asked.as_micros())
    }
}

/// Time since 1970, by the machine's clock.
pub(crate) fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock")
}

/// All lines so far.
pub(crate) fn lines(file: &Path) -> Vec<Line> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines()
        .map(|line| Line::parse(line).unwrap_or_else(|| panic!("no line: {line}")))
        .collect()
}

/// Violations in the lines of a holder after another client got the lock at `granted`.
pub(crate) fn verdict(lines: &[Line], holder: u64, granted: Duration) -> Result<(), String> {
    let asked_late =
        lines.iter().filter(|line| line.token == holder && line.asked >= granted).count();
    match asked_late {
        0 => Ok(()),
        some => Err(format!("{some} of {} lines were asked for behind the grant", lines.len())),
    }
}

#[test]
fn the_judge_tells_a_late_line_from_one_that_only_came_late() {
    let at = |token, asked| Line { token, asked: Duration::from_micros(asked) };
    let granted = Duration::from_micros(30);
    let late_write = [at(1, 10), at(1, 20), at(2, 40), at(1, 29)];
    assert_eq!(verdict(&late_write, 1, granted), Ok(()));
    let believed = [at(1, 10), at(2, 40), at(1, 30)];
    assert!(verdict(&believed, 1, granted).is_err());
    assert_eq!(Line::parse(&at(7, 8).to_string()), Some(at(7, 8)));
    assert_eq!(Line::parse("7"), None);
}
