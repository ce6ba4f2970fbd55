//! The commands of a running `holdfast dev`: keys of a terminal, or lines with `--commands`.
//!
//! A thread reads stdin, because a blocking read must not delay the end of the runtime. Queue: inputs (16).

use std::io::{self, BufRead as _, IsTerminal as _, Read as _};
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};
use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use nix::unistd::{getpgrp, tcgetpgrp};
use tokio::signal::unix::{self, SignalKind, signal};
use tokio::sync::mpsc;

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DevCommand {
    /// Changes a node.
    Change(NodeChange, u64),
    Help,
    /// Stops all nodes.
    Stop,
}

/// A change of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeChange {
    /// Makes the node the one that the following keys change; the node itself does not change.
    Select,
    /// Sends SIGKILL.
    Kill,
    /// Sends SIGSTOP.
    Pause,
    /// Sends SIGCONT.
    Resume,
    PauseOrResume,
    /// Starts a node that has ended; stops a running node first.
    Restart,
}

/// Translates input to commands.
#[derive(Debug)]
struct DevCommands {
    nodes: u64,
    /// The node that keys change.
    selected: Option<u64>,
}

impl DevCommands {
    fn new(nodes: u64) -> Self {
        Self { nodes, selected: (nodes == 1).then_some(1) }
    }

    fn key_help(&self) -> String {
        let select = match self.nodes {
            1 => String::new(),
            nodes => format!("1-{nodes} select, "),
        };
        format!("keys: {select}k kill, p pause or resume, r restart, ? help, q stop")
    }

    fn line_help(&self) -> String {
        let last = self.nodes;
        format!("commands: kill N, pause N, resume N, restart N, help, stop; N is 1 to {last}")
    }

    /// Returns the command of a key; `None` for a key without one.
    ///
    /// # Errors
    /// The key requires a selected node.
    fn press(&mut self, key: char) -> Result<Option<DevCommand>, String> {
        let command = match key {
            'k' => DevCommand::Change(NodeChange::Kill, self.selected()?),
            'p' => DevCommand::Change(NodeChange::PauseOrResume, self.selected()?),
            'r' => DevCommand::Change(NodeChange::Restart, self.selected()?),
            '?' => DevCommand::Help,
            'q' => DevCommand::Stop,
            key => {
                let node = key.to_digit(10).map(u64::from).filter(|node| self.exists(*node));
                self.selected = node.or(self.selected);
                return Ok(node.map(|node| DevCommand::Change(NodeChange::Select, node)));
            }
        };
        Ok(Some(command))
    }

    /// Returns the command of a line, such as `kill 2`; `None` for an empty line.
    ///
    /// # Errors
    /// The line is not a command.
    fn parse(&self, line: &str) -> Result<Option<DevCommand>, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let command = match words.as_slice() {
            [] => return Ok(None),
            ["help"] => DevCommand::Help,
            ["stop"] => DevCommand::Stop,
            ["kill", node] => DevCommand::Change(NodeChange::Kill, self.node(node)?),
            ["pause", node] => DevCommand::Change(NodeChange::Pause, self.node(node)?),
            ["resume", node] => DevCommand::Change(NodeChange::Resume, self.node(node)?),
            ["restart", node] => DevCommand::Change(NodeChange::Restart, self.node(node)?),
            _ => return Err(format!("{line:?} is not a command; {}", self.line_help())),
        };
        Ok(Some(command))
    }

    fn node(&self, text: &str) -> Result<u64, String> {
        let node = text.parse().ok().filter(|node| self.exists(*node));
        node.ok_or_else(|| format!("{text:?} is not a node: use 1 to {}", self.nodes))
    }

    fn exists(&self, node: u64) -> bool {
        (1..=self.nodes).contains(&node)
    }

    fn selected(&self) -> Result<u64, String> {
        self.selected.ok_or_else(|| format!("no node is selected: press 1 to {}", self.nodes))
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_change_the_selected_node() {
        let mut commands = DevCommands::new(3);
        assert!(commands.press('k').unwrap_err().contains("press 1 to 3"));
        assert_eq!(commands.press('2'), Ok(Some(DevCommand::Change(NodeChange::Select, 2))));
        for unknown in ['4', '0', 'x', '\n'] {
            assert_eq!(commands.press(unknown), Ok(None), "{unknown}");
        }
        assert_eq!(commands.press('k'), Ok(Some(DevCommand::Change(NodeChange::Kill, 2))));
        assert_eq!(commands.press('p'), Ok(Some(DevCommand::Change(NodeChange::PauseOrResume, 2))));
        assert_eq!(commands.press('r'), Ok(Some(DevCommand::Change(NodeChange::Restart, 2))));
        assert_eq!(commands.press('?'), Ok(Some(DevCommand::Help)));
        assert_eq!(commands.press('q'), Ok(Some(DevCommand::Stop)));
        assert_eq!(
            DevCommands::new(1).press('k'),
            Ok(Some(DevCommand::Change(NodeChange::Kill, 1)))
        );
    }

    #[test]
    fn lines_name_the_node() {
        let commands = DevCommands::new(3);
        assert_eq!(commands.parse(" kill  2 "), Ok(Some(DevCommand::Change(NodeChange::Kill, 2))));
        assert_eq!(commands.parse("pause 1"), Ok(Some(DevCommand::Change(NodeChange::Pause, 1))));
        assert_eq!(commands.parse("resume 1"), Ok(Some(DevCommand::Change(NodeChange::Resume, 1))));
        assert_eq!(
            commands.parse("restart 3"),
            Ok(Some(DevCommand::Change(NodeChange::Restart, 3)))
        );
        assert_eq!(commands.parse("stop"), Ok(Some(DevCommand::Stop)));
        assert_eq!(commands.parse(""), Ok(None));
        assert_eq!(commands.parse("kill 4").unwrap_err(), "\"4\" is not a node: use 1 to 3");
        assert!(commands.parse("kill").unwrap_err().contains("commands: kill N"));
    }
}
