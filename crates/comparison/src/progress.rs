//! How far it is: a bar on a terminal, a line for each step elsewhere. Always on stderr.
//!
//! Owns the bar. Refuses to know what is measured: a part says how many steps it has, and when one begins.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

const TEMPLATE: &str = "{elapsed_precise} [{bar:30}] {pos}/{len} {msg} (left: {eta})";

/// The bar.
#[derive(Clone, Debug)]
pub struct Progress {
    bar: ProgressBar,
    is_shown: bool,
}

impl Progress {
    /// With no steps yet.
    pub fn new() -> Self {
        let bar = ProgressBar::new(0);
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style);
        }
        let is_shown = std::io::stderr().is_terminal();
        if is_shown {
            bar.enable_steady_tick(Duration::from_millis(500));
        }
        Self { bar, is_shown }
    }

    /// Shows nothing, for tests.
    pub fn hidden() -> Self {
        Self { bar: ProgressBar::hidden(), is_shown: true }
    }

    /// So many steps more.
    pub fn add_steps(&self, steps: u64) {
        self.bar.inc_length(steps);
    }

    /// A step begins.
    pub fn step(&self, what: &str) {
        self.bar.set_message(what.to_owned());
        if !self.is_shown {
            let (at, of) = (self.bar.position() + 1, self.bar.length().unwrap_or(0));
            say(&format!("[{at}/{of}] {what}"));
        }
    }

    /// It has ended.
    pub fn done(&self) {
        self.bar.inc(1);
    }

    /// Something that is worth a line of its own.
    pub fn note(&self, what: &str) {
        if self.is_shown { self.bar.println(what) } else { say(what) }
    }

    /// Nothing more comes.
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
