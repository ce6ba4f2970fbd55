//! Prints the words of README.md and of the pages in `docs/` that neither hunspell's English dictionary nor `docs/.words`
//! has, with the first line of each in a page. Exits with 1 if there is one. `scripts/spelling` calls it.

#![expect(clippy::print_stdout, reason = "a program for the command line")]

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use holdfast_tests_tidy::Tree;
use holdfast_tests_tidy::markdown::{Page, Passage};

const DICTIONARY: &str = "en_US";
/// One word a line, in lower case unless only another spelling is right.
const OWN_WORDS: &str = "docs/.words";

fn main() -> io::Result<ExitCode> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let tree = Tree::load(&root)?;
    let mut unknown = 0;
    let pages = tree.ending(".md").filter(|(path, _)| *path == "README.md" || in_docs(path));
    for (path, text) in pages {
        let passages = Page::parse(text).passages;
        let prose: Vec<String> = passages.iter().map(Passage::spelled).collect();
        for word in misspelled(&root, &prose.join("\n"))? {
            let has = |passage: &&Passage| passage.text.contains(&word);
            let line = passages.iter().find(has).map_or(0, |passage| passage.line);
            println!("{path}:{line}: {word}");
            unknown += 1;
        }
    }
    if unknown == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    println!("{unknown} unknown words: correct them, or add a technical word to {OWN_WORDS}");
    Ok(ExitCode::FAILURE)
}

fn in_docs(path: &str) -> bool {
    path.starts_with("docs/")
}

/// The unknown words of a text, each once.
fn misspelled(root: &Path, text: &str) -> io::Result<BTreeSet<String>> {
    let mut hunspell = Command::new("hunspell")
        .args(["-l", "-i", "utf-8", "-d", DICTIONARY, "-p", OWN_WORDS])
        .current_dir(root)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let input = hunspell.stdin.take();
    let output = std::thread::scope(|scope| {
        scope.spawn(|| input.map(|mut input| input.write_all(text.as_bytes())));
        hunspell.wait_with_output()
    })?;
    let words = String::from_utf8_lossy(&output.stdout);
    Ok(words.lines().map(str::to_owned).collect())
}
