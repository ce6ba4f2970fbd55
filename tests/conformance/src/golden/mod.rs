//! The golden scripts of the machine, put to the doors of a real node.
//!
//! Owns the reading of a script (`crates/machine/scripts` says how they look) and the comparison of what the machine
//! said with what a door says, by [`crate::compare()`]: revisions by their order, session numbers by which is which.
//! What no door can express, such as a clock, is left out; where it would change the tree, the script ends there.
//! Refuses to know how a door is asked: `http` and `zookeeper` do.

mod ask;
mod door;
mod http;
mod said;
mod zookeeper;

use holdfast_lab::Cluster;

use crate::compare::compare;
use crate::script::Step;
use ask::Ask;
pub use door::Door;
use http::HttpDoor;
use zookeeper::ZooKeeperDoor;

/// What became of a script at a door.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Answers that were the same.
    pub compared: usize,
    /// Lines that the door cannot say.
    pub left_out: usize,
}

/// Plays a script at a door of a new node of its own.
///
/// # Errors
/// The first line that is answered otherwise.
pub async fn play_golden(script: &str, door: Door) -> Result<Outcome, String> {
    let lines = lines(script);
    if lines.first().is_none_or(|line| line.ask.is_none()) {
        return Ok(Outcome::default());
    }
    let cluster = Cluster::of(1).start().await;
    let node = &cluster.nodes()[0];
    match door {
        Door::Http => HttpDoor::new(node.http.clone()).run(&lines).await,
        Door::ZooKeeper => ZooKeeperDoor::new(node.zookeeper).run(&lines).await,
    }
}

/// A line that asks something, and what the machine said.
struct Line {
    text: String,
    ask: Option<Ask>,
    said: Vec<String>,
}

fn lines(script: &str) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let mut open = 0..0;
    for line in script.lines() {
        let command = line.strip_prefix("> ").or_else(|| line.strip_prefix("? "));
        if let Some(text) = command.filter(|text| !ignored(text)) {
            let start = lines.len();
            // Several commands of one entry are asked one after the other.
            for text in text.split(" ; ") {
                let ask = Ask::parse(text, line.starts_with('?'));
                lines.push(Line { text: text.to_owned(), ask, said: Vec::new() });
            }
            open = start..lines.len();
        } else if command.is_some() {
            open = 0..0;
        } else if let Some(said) = line.strip_prefix("  ").filter(|said| !said.starts_with("  !")) {
            // One answer each, but a question may have many lines.
            let next = open.clone().find(|at| lines[*at].said.is_empty()).or(open.clone().last());
            if let Some(line) = next.and_then(|at| lines.get_mut(at)) {
                line.said.push(said.to_owned());
            }
        }
    }
    lines
}

/// The clock is the node's, and a snapshot changes nothing.
fn ignored(command: &str) -> bool {
    command.starts_with("at ") || command == "reload"
}

/// A door that scripts can be put to.
trait Asked {
    /// Which.
    const DOOR: Door;

    /// The answer, in common words; none if it cannot be asked so.
    async fn ask(&mut self, ask: &Ask) -> Option<String>;

    async fn run(&mut self, lines: &[Line]) -> Result<Outcome, String> {
        let mut outcome = Outcome::default();
        let (mut expected, mut found) = (Vec::new(), Vec::new());
        for line in lines {
            let answer = match &line.ask {
                Some(ask) => self.ask(ask).await,
                None => None,
            };
            let said = line.said.first().map_or("", String::as_str);
            let said = said::by_machine(said, Self::DOOR).map(|said| match &line.ask {
                Some(Ask::Ops { multi: true, .. }) if Self::DOOR == Door::ZooKeeper => {
                    said::without_stats_of_new_nodes(&said)
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
                return Err(format!("{:?}: `{}`: {difference:#?}", Self::DOOR, line.text));
            }
        }
        Ok(outcome)
    }
}

impl Line {
    /// Whether what follows depends on it.
    fn changes_something(&self) -> bool {
        let question = matches!(self.ask, Some(Ask::Look { .. })) || self.is_question();
        !question && !self.said.first().is_some_and(|said| said.contains(" REJECTED "))
    }

    /// Questions are answered without a revision.
    fn is_question(&self) -> bool {
        let numbered = |said: &String| {
            let revision = said.strip_prefix('r').and_then(|rest| rest.split(' ').next());
            revision.is_some_and(|revision| revision.parse::<u64>().is_ok())
        };
        !self.said.first().is_some_and(numbered)
    }
}
