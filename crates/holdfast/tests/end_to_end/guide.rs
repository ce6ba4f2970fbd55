//! The commands in the documents print the output that the documents show.

use std::path::Path;
use std::process::Command;

use crate::program::DevCluster;

/// The documents, in the order in which their commands run.
const DOCUMENTS: [&str; 9] = [
    "docs/cli.md",
    "docs/operations.md",
    "docs/semantics.md",
    "docs/how-to/cron-job.md",
    "docs/how-to/leader-election.md",
    "docs/how-to/limit-concurrency.md",
    "docs/how-to/from-zookeeper.md",
    "docs/how-to/from-redis.md",
    "docs/how-to/from-consul.md",
];

/// The blocks of commands with their output: `$ ` starts a command, and the following lines are its output.
fn shown(document: &str) -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(document);
    let text = std::fs::read_to_string(path).unwrap();
    let mut commands: Vec<(String, String)> = Vec::new();
    for block in text.split("```console\n").skip(1) {
        for line in block.split("```").next().unwrap_or_default().lines() {
            match (line.strip_prefix("$ "), commands.last_mut()) {
                (Some(command), _) => commands.push((command.to_owned(), String::new())),
                (None, Some((_, answer))) => answer.extend([line, "\n"]),
                (None, None) => panic!("an answer without a command: {line}"),
            }
        }
    }
    commands
}

#[test]
fn the_commands_of_the_guide_print_what_it_shows() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let binary = Path::new(env!("CARGO_BIN_EXE_holdfast"));
    let path = format!("{}:{}", binary.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let shown = DOCUMENTS.map(|document| (document, shown(document)));
    let empty = shown.iter().filter(|(_, commands)| commands.is_empty());
    assert_eq!(empty.map(|(document, _)| *document).collect::<Vec<_>>(), [""; 0]);
    for (command, answer) in shown.into_iter().flat_map(|(_, commands)| commands) {
        let mut shell = Command::new("sh");
        shell.args(["-c", &command]).env("PATH", &path).env_remove("HOLDFAST_SESSION");
        // The documents export these variables before the commands.
        shell.env("N", "1").env("HOLDFAST_ADDR", format!("127.0.0.1:{}", cluster.port()));
        let output = shell.output().unwrap();
        let complaints = String::from_utf8_lossy(&output.stderr);
        assert_eq!(String::from_utf8_lossy(&output.stdout), answer, "$ {command}\n{complaints}");
    }
}
