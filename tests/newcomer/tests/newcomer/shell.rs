//! One `bash` of a new user, with its own environment.
//!
//! It reads its commands from a pipe. After each command it prints a line with the exit code.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use holdfast_lab::{Program, as_shown};

use crate::page::Step;

/// Begins the line with the exit code.
const EXIT: &str = "exit code of the command: ";

/// A running shell.
pub(crate) struct Shell {
    bash: Program,
    /// The running command, and what it has printed on stdout.
    step: Option<Step>,
    printed: String,
}

/// The outcome of a command.
#[derive(Debug)]
pub(crate) struct Ran {
    pub code: i32,
    pub stdout: String,
}

impl Shell {
    /// Starts `bash` in a process group of its own, as a terminal does. `command` has the directory and the environment.
    pub(crate) fn start(mut command: Command) -> Self {
        command.process_group(0);
        Self { bash: Program::start_with_input(command), step: None, printed: String::new() }
    }

    /// Starts a command, which reads no input.
    pub(crate) fn begin(&mut self, step: Step) {
        assert!(self.step.is_none(), "a command runs: {:?}", self.step);
        self.bash.write_line("{");
        self.bash.write_line(&step.command);
        self.bash.write_line(&format!("}} </dev/null; printf '\\n{EXIT}%s\\n' $?"));
        self.step = Some(step);
    }

    /// The next line that the running command prints.
    pub(crate) fn next_line(&mut self) -> String {
        let line = self.bash.next_stdout_line();
        self.printed.extend([line.as_str(), "\n"]);
        line
    }

    /// Presses Ctrl-C.
    pub(crate) fn interrupt(&self) {
        self.bash.interrupt_group();
    }

    /// Waits for the end of the command, and checks that it printed what the page shows.
    #[track_caller]
    pub(crate) fn end(&mut self) -> Ran {
        let step = self.step.take().expect("a command");
        let code = loop {
            let line = self.bash.next_stdout_line();
            if let Some(code) = line.strip_prefix(EXIT) {
                break code.parse().expect("a number");
            }
            self.printed.extend([line.as_str(), "\n"]);
        };
        let stdout = std::mem::take(&mut self.printed).trim_end().to_owned();
        let is_right = step.shown.is_empty() || as_shown(&step.shown, &stdout);
        assert!(
            is_right,
            "$ {}\nthe page shows:\n{}\nprinted:\n{stdout}",
            step.command, step.shown
        );
        Ran { code, stdout }
    }

    /// Runs a command of a page.
    #[track_caller]
    pub(crate) fn run(&mut self, step: Step) -> Ran {
        self.begin(step);
        self.end()
    }
}
