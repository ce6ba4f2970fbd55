//! The input of a running `holdfast dev`: keys of a terminal, or lines with `--commands`.
//!
//! A thread reads stdin, because a blocking read must not delay the end of the runtime. Queue: inputs (16).

use std::io::{self, BufRead as _, IsTerminal as _, Read as _};
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};
use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use nix::unistd::{getpgrp, tcgetpgrp};
use tokio::signal::unix::{self, SignalKind, signal};
use tokio::sync::mpsc;

use super::command::{DevCommand, DevCommands};

/// The time between two reads while another job uses the terminal.
const BACKGROUND_INTERVAL: Duration = Duration::from_secs(1);
const INPUTS_MAX: usize = 16;

/// One input.
#[derive(Debug)]
enum DevInput {
    Key(char),
    Line(String),
}

/// The source of commands. Dropping it restores the terminal.
#[derive(Debug)]
pub(super) struct DevInputs {
    commands: DevCommands,
    /// `None` without input, and after its end.
    inputs: Option<mpsc::Receiver<DevInput>>,
    key_mode: Option<KeyMode>,
    /// SIGCONT.
    continued: Option<unix::Signal>,
}

impl DevInputs {
    /// Reads lines from stdin. The end of stdin is the end of the commands, and not of the cluster.
    pub(super) fn lines(nodes: u64) -> Self {
        let (commands, inputs) = (DevCommands::new(nodes), Some(start(read_lines)));
        Self { commands, inputs, key_mode: None, continued: None }
    }

    /// Reads keys if this process is in the foreground of a terminal; otherwise it has no input.
    pub(super) fn keys(nodes: u64) -> Self {
        let usable = io::stderr().is_terminal() && is_foreground();
        let key_mode = usable.then(KeyMode::start).and_then(Result::ok);
        let inputs = key_mode.as_ref().map(|_| start(read_keys));
        let continued = signal(SignalKind::from_raw(Signal::SIGCONT as i32)).ok();
        Self { commands: DevCommands::new(nodes), inputs, key_mode, continued }
    }

    pub(super) fn is_open(&self) -> bool {
        self.inputs.is_some()
    }

    /// Returns the keys or commands in words.
    pub(super) fn help(&self) -> String {
        match self.key_mode {
            Some(_) => self.commands.key_help(),
            None => self.commands.line_help(),
        }
    }

    /// Resolves with the next command, once with `None` at the end of the input, and then never.
    ///
    /// # Errors
    /// The input is not a command, or requires a selected node.
    pub(super) async fn next(&mut self) -> Result<Option<DevCommand>, String> {
        while let Some(inputs) = &mut self.inputs {
            let input = tokio::select! {
                input = inputs.recv() => input,
                () = next_signal(self.continued.as_mut()), if self.key_mode.is_some() => {
                    resume_key_mode();
                    continue;
                }
            };
            let command = match input {
                Some(DevInput::Key(key)) => self.commands.press(key),
                Some(DevInput::Line(line)) => self.commands.parse(&line),
                None => {
                    self.inputs = None;
                    return Ok(None);
                }
            };
            if let Some(command) = command.transpose() {
                return command.map(Some);
            }
        }
        std::future::pending().await
    }
}

async fn next_signal(signal: Option<&mut unix::Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

fn start(read: fn(&mpsc::Sender<DevInput>)) -> mpsc::Receiver<DevInput> {
    let (sender, inputs) = mpsc::channel(INPUTS_MAX);
    std::thread::spawn(move || read(&sender));
    inputs
}

fn read_lines(inputs: &mpsc::Sender<DevInput>) {
    let mut lines = io::stdin().lock().lines().map_while(Result::ok);
    lines.all(|line| inputs.blocking_send(DevInput::Line(line)).is_ok());
}

fn read_keys(inputs: &mpsc::Sender<DevInput>) {
    // A read from the background then fails instead of stopping this process.
    let _unsupported = SigSet::from(Signal::SIGTTIN).thread_block();
    let mut stdin = io::stdin().lock();
    let mut byte = [0];
    loop {
        match stdin.read(&mut byte) {
            Ok(0) => return,
            Ok(_) if inputs.blocking_send(DevInput::Key(char::from(byte[0]))).is_err() => return,
            Ok(_) => {}
            Err(_) if !io::stdin().is_terminal() => return,
            Err(_) => {
                std::thread::sleep(BACKGROUND_INTERVAL);
                resume_key_mode();
            }
        }
    }
}

/// Whether stdin is a terminal that belongs to the job of this process.
fn is_foreground() -> bool {
    io::stdin().is_terminal() && tcgetpgrp(io::stdin()) == Ok(getpgrp())
}

/// Sets the mode again: a shell replaces the mode when it stops a job, and keeps its own when it continues the job.
fn resume_key_mode() {
    if is_foreground() {
        // An error means that the terminal has disconnected.
        drop(KeyMode::set());
    }
}

/// A terminal that passes keys on without a line end and does not print them. ^C still sends SIGINT. Dropping it
/// restores the previous mode.
#[derive(Debug)]
struct KeyMode {
    before: Termios,
}

impl KeyMode {
    fn start() -> nix::Result<Self> {
        Self::set().map(|before| Self { before })
    }

    /// Returns the previous mode.
    fn set() -> nix::Result<Termios> {
        let before = tcgetattr(io::stdin())?;
        let mut keys = before.clone();
        keys.local_flags.remove(LocalFlags::ICANON | LocalFlags::ECHO);
        tcsetattr(io::stdin(), SetArg::TCSANOW, &keys)?;
        Ok(before)
    }
}

impl Drop for KeyMode {
    fn drop(&mut self) {
        // In the background, the change would otherwise stop this process.
        let _unsupported = SigSet::from(Signal::SIGTTOU).thread_block();
        // An error means that the terminal has disconnected.
        let _disconnected = tcsetattr(io::stdin(), SetArg::TCSANOW, &self.before);
    }
}
