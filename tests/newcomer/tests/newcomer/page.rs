//! The commands of a page, in the order in which a reader gets to them.

use std::collections::VecDeque;
use std::path::Path;

/// A Markdown page. The test must run all its commands, in order.
pub(crate) struct Page {
    text: String,
    commands: VecDeque<String>,
}

impl Page {
    /// Reads a page; `path` is relative to the root of the repository.
    pub(crate) fn open(path: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
        let text = std::fs::read_to_string(&path).expect("the page exists");
        // A prompt is `$`, or `A$` and `B$` for two shells.
        let command = |line: &str| {
            let (prompt, command) = line.split_once("$ ")?;
            matches!(prompt, "" | "A" | "B").then(|| command.to_owned())
        };
        let blocks = blocks(&text, "console");
        let commands = blocks.iter().flat_map(|block| block.lines().filter_map(command)).collect();
        Self { text, commands }
    }

    /// The next command, which must begin with `start`.
    #[track_caller]
    pub(crate) fn next(&mut self, start: &str) -> String {
        let next = self.commands.pop_front().unwrap_or_default();
        assert!(next.starts_with(start), "the page has {next:?}, the test expects {start:?}");
        next
    }

    /// All blocks of a language.
    pub(crate) fn blocks(&self, language: &str) -> Vec<String> {
        blocks(&self.text, language)
    }

    /// Checks that the test ran every command.
    #[track_caller]
    pub(crate) fn finish(self) {
        assert!(
            self.commands.is_empty(),
            "commands that the test does not run: {:?}",
            self.commands
        );
    }
}

fn blocks(text: &str, language: &str) -> Vec<String> {
    let opening = format!("\n```{language}\n");
    let block = |rest: &str| rest.split("\n```").next().unwrap_or_default().to_owned();
    text.split(opening.as_str()).skip(1).map(block).collect()
}
