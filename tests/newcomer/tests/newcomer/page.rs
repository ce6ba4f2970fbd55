//! The sections of a page, with the commands in them and the output that the page shows.
//!
//! In `console` blocks, `A$ ` and `B$ ` are the prompts of two shells, `$ ` is the prompt of either, and all other lines are
//! output. In it, `…` stands for any text. Each line of an `sh` block is a command.

use std::collections::VecDeque;
use std::path::Path;

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd, TextMergeStream};

/// Commands that the tests do not run, with the reason.
pub(crate) const NOT_RUN: [(&str, &str); 2] = [
    ("git clone ", "the tests run in a clone"),
    (
        "./scripts/dev",
        "`Desk` starts the cluster, from the program under test instead of a release build",
    ),
];

/// A command of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// The prompt of `A` or `B`.
    pub shell: Option<char>,
    pub command: String,
    /// The output that the page shows; empty if it shows none.
    pub shown: String,
}

/// A heading, and the blocks below it. A test must run all its commands, in order.
#[derive(Debug, Default)]
pub(crate) struct Section {
    pub title: String,
    pub steps: VecDeque<Step>,
    pub sql: Vec<String>,
}

impl Section {
    /// The next command, which begins with `start`.
    #[track_caller]
    pub(crate) fn next(&mut self, start: &str) -> Step {
        let next = self.steps.pop_front();
        let next =
            next.unwrap_or_else(|| panic!("{}: no more commands, expected {start}", self.title));
        assert!(next.command.starts_with(start), "{}: {next:?}, expected {start}", self.title);
        next
    }

    /// Checks that the test ran every command.
    #[track_caller]
    pub(crate) fn finish(&self) {
        assert!(self.steps.is_empty(), "{}: not run: {:?}", self.title, self.steps);
    }

    fn add(&mut self, language: &str, text: &str) {
        match language {
            "sh" => self.steps.extend(text.lines().map(|line| step(None, line))),
            "console" => text.lines().for_each(|line| self.add_line(line)),
            "sql" => self.sql.push(text.to_owned()),
            _ => {}
        }
    }

    fn add_line(&mut self, line: &str) {
        let prompts = [("A$ ", Some('A')), ("B$ ", Some('B')), ("$ ", None)];
        let command =
            prompts.iter().find_map(|(prompt, shell)| Some((*shell, line.strip_prefix(prompt)?)));
        match (command, self.steps.back_mut()) {
            (Some((shell, command)), _) => self.steps.push_back(step(shell, command)),
            (None, Some(last)) => last.shown.extend([line, "\n"]),
            (None, None) => panic!("{}: an output without a command: {line}", self.title),
        }
    }
}

fn step(shell: Option<char>, command: &str) -> Step {
    Step { shell, command: command.to_owned(), shown: String::new() }
}

/// The text of a page; `path` is relative to the root of the repository.
pub(crate) fn text(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&path).expect("the page exists")
}

/// The sections of a page that have commands or SQL, without the commands of [`NOT_RUN`].
pub(crate) fn sections(path: &str) -> Vec<Section> {
    let mut all = read(&text(path));
    for section in &mut all {
        let runs = |step: &Step| !NOT_RUN.iter().any(|(start, _)| step.command.starts_with(start));
        section.steps.retain(runs);
    }
    all.retain(|section| !section.steps.is_empty() || !section.sql.is_empty());
    all
}

/// One section of a page.
pub(crate) fn section(path: &str, title: &str) -> Section {
    let found = sections(path).into_iter().find(|section| section.title == title);
    found.unwrap_or_else(|| panic!("{path} has no section {title:?} with commands"))
}

/// A block of code, in the order of its page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub language: String,
    pub text: String,
}

impl Block {
    /// The commands of a `console` block.
    pub(crate) fn console(&self) -> VecDeque<Step> {
        let mut section = Section::default();
        if self.language == "console" {
            section.add(&self.language, &self.text);
        }
        section.steps
    }

    /// The name in the first line, if it is `# NAME` with a dot in the name.
    pub(crate) fn file_name(&self) -> Option<&str> {
        let name = self.text.lines().next()?.strip_prefix("# ")?;
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
        (name.contains('.') && name.chars().all(is_name)).then_some(name)
    }
}

/// The README, and all pages below `docs/`.
pub(crate) fn paths() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (mut found, mut folders) = (vec!["README.md".to_owned()], vec![root.join("docs")]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder of documents") {
            let path = entry.expect("a document").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "md") {
                let relative = path.strip_prefix(&root).expect("it is below the root");
                found.push(relative.display().to_string());
            }
        }
    }
    found
}

/// The blocks of a page, from top to bottom.
pub(crate) fn blocks(path: &str) -> Vec<Block> {
    read_blocks(&text(path))
}

fn read_blocks(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut inside = false;
    for event in TextMergeStream::new(Parser::new(text)) {
        if let Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) = event {
            blocks.push(Block { language: language.to_string(), text: String::new() });
            inside = true;
        } else if let Event::Text(text) = &event
            && inside
        {
            blocks.last_mut().expect("a block began").text.push_str(text);
        } else if event == Event::End(TagEnd::CodeBlock) {
            inside = false;
        }
    }
    blocks
}

fn read(text: &str) -> Vec<Section> {
    let mut all = vec![Section::default()];
    let (mut heading, mut language) = (false, None);
    for event in TextMergeStream::new(Parser::new(text)) {
        let section = all.last_mut().expect("one section at least");
        if let Event::Start(Tag::Heading { .. }) = event {
            all.push(Section::default());
            heading = true;
        } else if let Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(name))) = event {
            language = Some(name);
        } else if let Event::End(end) = event {
            heading &= !matches!(end, TagEnd::Heading(_));
            language = language.filter(|_| end != TagEnd::CodeBlock);
        } else if let Event::Text(text) | Event::Code(text) = event {
            match &language {
                Some(language) => section.add(language, &text),
                None if heading => section.title.push_str(&text),
                None => {}
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_their_shells_and_outputs() {
        let page = "# One\n\n```console\nA$ a\n1\n2\nB$ b\n$ c\n```\n\n```sh\nd  # why\n```\n\n## Two\n\n```sql\ne\n```\n";
        let [_, one, two] = read(page).try_into().expect("three sections");
        let shown = |step: &Step| (step.shell, step.command.clone(), step.shown.clone());
        let expected = [
            (Some('A'), "a", "1\n2\n"),
            (Some('B'), "b", ""),
            (None, "c", ""),
            (None, "d  # why", ""),
        ];
        let expected =
            expected.map(|(shell, command, output)| (shell, command.into(), output.into()));
        assert_eq!(one.steps.iter().map(shown).collect::<Vec<_>>(), expected);
        assert_eq!((two.title.as_str(), two.sql), ("Two", vec!["e\n".to_owned()]));
    }

    #[test]
    fn blocks_have_the_order_of_the_page_and_some_have_a_file_name() {
        let page = "```console\n$ a\n1\n```\n\n- text\n\n```sql\nb\n```\n```python\n# lock.py\nc\n```\n```toml\n# no file\n```\n";
        let blocks = read_blocks(page);
        let languages: Vec<_> = blocks.iter().map(|block| block.language.as_str()).collect();
        assert_eq!(languages, ["console", "sql", "python", "toml"]);
        let names: Vec<_> = blocks.iter().map(Block::file_name).collect();
        assert_eq!(names, [None, None, Some("lock.py"), None]);
        assert_eq!(blocks[0].console(), [Step { shown: "1\n".to_owned(), ..step(None, "a") }]);
        assert!(blocks[1].console().is_empty());
    }
}
