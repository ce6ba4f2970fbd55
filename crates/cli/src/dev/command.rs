//! The commands of a running `holdfast dev`: single keys on a terminal, lines with `--commands`.

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
pub(super) struct DevCommands {
    nodes: u64,
    /// The node that keys change.
    selected: Option<u64>,
}

impl DevCommands {
    pub(super) fn new(nodes: u64) -> Self {
        Self { nodes, selected: (nodes == 1).then_some(1) }
    }

    pub(super) fn key_help(&self) -> String {
        let select = match self.nodes {
            1 => String::new(),
            nodes => format!("1-{nodes} select, "),
        };
        format!("keys: {select}k kill, p pause or resume, r restart, ? help, q stop")
    }

    pub(super) fn line_help(&self) -> String {
        let last = self.nodes;
        format!("commands: kill N, pause N, resume N, restart N, help, stop; N is 1 to {last}")
    }

    /// Returns the command of a key; `None` for a key without one.
    ///
    /// # Errors
    /// The key requires a selected node.
    pub(super) fn press(&mut self, key: char) -> Result<Option<DevCommand>, String> {
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
    pub(super) fn parse(&self, line: &str) -> Result<Option<DevCommand>, String> {
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
