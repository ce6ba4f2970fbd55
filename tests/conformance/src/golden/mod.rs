//! Plays the golden scripts of the machine (`crates/machine/scripts`) over both front-ends of a real node.
//!
//! [`crate::compare()`] compares the machine's replies with those of the front-end: revisions by order, session numbers
//! by identity. A line that no front-end can express, e.g. a clock, is skipped; a script ends at such a line if the line
//! changes the tree.

mod command;
mod common_form;
mod front_end;
mod http;
mod zookeeper;

use holdfast_lab::Cluster;

use crate::compare::compare;
use crate::script::Step;
use command::ScriptCommand;
pub use front_end::FrontEnd;
use http::HttpPlayer;
use zookeeper::ZooKeeperPlayer;

/// The result of a script over a front-end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Number of equal replies.
    pub compared: usize,
    /// Number of lines that the front-end cannot express.
    pub left_out: usize,
}

/// Plays a script over a front-end of a new node.
///
/// # Errors
/// The first line with a different reply.
pub async fn play_golden(script: &str, front_end: FrontEnd) -> Result<Outcome, String> {
    let lines = lines(script);
    if lines.first().is_none_or(|line| line.command.is_none()) {
        return Ok(Outcome::default());
    }
    let cluster = Cluster::of(1).start().await;
    let node = &cluster.nodes()[0];
    match front_end {
        FrontEnd::Http => HttpPlayer::new(node.http.clone()).run(&lines).await,
        FrontEnd::ZooKeeper => ZooKeeperPlayer::new(node.zookeeper).run(&lines).await,
    }
}

/// A command, and the machine's replies.
struct Line {
    text: String,
    command: Option<ScriptCommand>,
    said: Vec<String>,
}

fn lines(script: &str) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let mut open = 0..0;
    for line in script.lines() {
        let command = line.strip_prefix("> ").or_else(|| line.strip_prefix("? "));
        if let Some(text) = command.filter(|text| !ignored(text)) {
            let start = lines.len();
            // Commands of one log entry are sent one after the other.
            for text in text.split(" ; ") {
                let command = ScriptCommand::parse(text, line.starts_with('?'));
                lines.push(Line { text: text.to_owned(), command, said: Vec::new() });
            }
            open = start..lines.len();
        } else if command.is_some() {
            open = 0..0;
        } else if let Some(said) = line.strip_prefix("  ").filter(|said| !said.starts_with("  !")) {
            // One reply each, but the reply to a query may have many lines.
            let next = open.clone().find(|at| lines[*at].said.is_empty()).or(open.clone().last());
            if let Some(line) = next.and_then(|at| lines.get_mut(at)) {
                line.said.push(said.to_owned());
            }
        }
    }
    lines
}

/// A front-end cannot set the node's clock, and a snapshot changes nothing.
fn ignored(command: &str) -> bool {
    command.starts_with("at ") || command == "reload"
}

/// Plays script commands over a front-end.
trait ScriptPlayer {
    const FRONT_END: FrontEnd;

    /// Executes a command and returns the reply in the common form, or `None` if the front-end cannot express it.
    async fn execute(&mut self, command: &ScriptCommand) -> Option<String>;

    async fn run(&mut self, lines: &[Line]) -> Result<Outcome, String> {
        let mut outcome = Outcome::default();
        let (mut expected, mut found) = (Vec::new(), Vec::new());
        for line in lines {
            let answer = match &line.command {
                Some(command) => self.execute(command).await,
                None => None,
            };
            let said = line.said.first().map_or("", String::as_str);
            let said =
                common_form::by_machine(said, Self::FRONT_END).map(|said| match &line.command {
                    Some(ScriptCommand::Ops { multi: true, .. })
                        if Self::FRONT_END == FrontEnd::ZooKeeper =>
                    {
                        common_form::without_stats_of_new_nodes(&said)
                    }
                    _ => said,
                });
            let (Some(answer), Some(said)) = (answer, said) else {
                outcome.left_out += 1;
                if line.changes_something() {
                    break;
                }
                continue;
            };
            outcome.compared += 1;
            expected.push(vec![format!("0 reply {said}")]);
            found.push(vec![format!("0 reply {answer}")]);
            let steps = vec![Step::Open { slot: 0 }; expected.len()];
            if let Some(difference) = compare(&steps, &expected, &found) {
                return Err(format!("{:?}: `{}`: {difference:#?}", Self::FRONT_END, line.text));
            }
        }
        Ok(outcome)
    }
}

impl Line {
    /// True if later lines depend on this line.
    fn changes_something(&self) -> bool {
        let question =
            matches!(self.command, Some(ScriptCommand::Look { .. })) || self.is_question();
        !question && !self.said.first().is_some_and(|said| said.contains(" REJECTED "))
    }

    /// Replies to queries have no revision.
    fn is_question(&self) -> bool {
        let numbered = |said: &String| {
            let revision = said.strip_prefix('r').and_then(|rest| rest.split(' ').next());
            revision.is_some_and(|revision| revision.parse::<u64>().is_ok())
        };
        !self.said.first().is_some_and(numbered)
    }
}
