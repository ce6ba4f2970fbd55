//! The progress of a run on stderr: a bar on a terminal, a line for each step elsewhere.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

const TEMPLATE: &str = "{elapsed_precise} [{bar:30}] {pos}/{len} {msg} (left: {eta})";

#[derive(Clone, Debug)]
pub struct Progress {
    bar: ProgressBar,
    is_terminal: bool,
}

impl Progress {
    pub fn new() -> Self {
        let bar = ProgressBar::new(0);
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style);
        }
        let is_terminal = std::io::stderr().is_terminal();
        if is_terminal {
            bar.enable_steady_tick(Duration::from_millis(500));
        }
        Self { bar, is_terminal }
    }

    pub fn add_steps(&self, steps: u64) {
        self.bar.inc_length(steps);
    }

    pub fn step(&self, what: &str) {
        self.bar.set_message(what.to_owned());
        if !self.is_terminal {
            let (at, of) = (self.bar.position() + 1, self.bar.length().unwrap_or(0));
            say(&format!("[{at}/{of}] {what}"));
        }
    }

    /// Ends the step.
    pub fn done(&self) {
        self.bar.inc(1);
    }

    pub fn note(&self, what: &str) {
        if self.is_terminal { self.bar.println(what) } else { say(what) }
    }

    /// Prints the first line of a failure.
    pub fn note_failure(&self, system: &str, failure: Option<&str>) {
        if let Some(failure) = failure {
            self.note(&format!("{system}: {}", failure.lines().next().unwrap_or_default()));
        }
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

#[expect(clippy::print_stderr, reason = "where there is no terminal, lines are the progress")]
fn say(what: &str) {
    eprintln!("{what}");
}
