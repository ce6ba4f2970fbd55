//! A page as blocks, and its Markdown. Text between backticks is code.

use std::fmt::Write as _;

use super::plots::Plot;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Block {
    Title(String),
    Heading(String),
    Text(String),
    Warning(String),
    Code(String),
    List(Vec<String>),
    /// A table whose first column names the rows.
    Table(Table),
    /// A link: its text and its target.
    Link(String, String),
    /// Only on the page with plots.
    Plot(Plot),
    /// On both pages: a plot with its path below the directory of the page.
    Picture(Plot, &'static str),
    /// A table that is too long for a summary, only on the page with plots.
    Detail(Table),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) header: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn with<T: Into<String>>(header: impl IntoIterator<Item = T>) -> Self {
        Self { header: header.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    pub(super) fn add<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

pub(super) fn markdown(blocks: &[Block]) -> String {
    let mut text = String::new();
    for block in blocks {
        if let Some(written) = written(block) {
            text.push_str(&written);
            text.push_str("\n\n");
        }
    }
    let end = text.trim_end().len();
    text.truncate(end);
    text.push('\n');
    text
}

fn written(block: &Block) -> Option<String> {
    Some(match block {
        Block::Title(words) => format!("# {words}"),
        Block::Heading(words) => format!("## {words}"),
        Block::Text(words) => words.clone(),
        Block::Warning(words) => format!("**{words}**"),
        Block::Code(lines) => format!("```sh\n{}\n```", lines.trim_end()),
        Block::List(points) => {
            points.iter().map(|point| format!("- {point}")).collect::<Vec<_>>().join("\n")
        }
        Block::Table(table) if table.is_empty() => return None,
        Block::Table(table) => rows(table),
        Block::Link(words, target) => format!("[{words}]({target})"),
        Block::Picture(plot, path) => format!("![{}]({path})", plot.title),
        Block::Plot(_) | Block::Detail(_) => return None,
    })
}

fn rows(table: &Table) -> String {
    let line = |cells: &[String]| {
        let cells = cells.iter().map(|cell| cell.replace('|', "\\|").replace('\n', " "));
        format!("| {} |", cells.collect::<Vec<_>>().join(" | "))
    };
    let mut text = line(&table.header);
    // A write to a string cannot fail.
    let _ = write!(text, "\n|{}", "---|".repeat(table.header.len()));
    for row in &table.rows {
        text.push('\n');
        text.push_str(&line(row));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_has_every_block_but_plots_and_details() {
        let mut table = Table::with(["a", "b"]);
        table.add(["1|2", "3\n4"]);
        let text = markdown(&[
            Block::Title("T".to_owned()),
            Block::Plot(Plot { title: "P".to_owned(), svg: "<svg></svg>".to_owned() }),
            Block::Table(table.clone()),
            Block::Detail(table),
            Block::Table(Table::with(["left out"])),
            Block::List(vec!["x".to_owned(), "y".to_owned()]),
            Block::Code("run\n".to_owned()),
        ]);
        let expected =
            "# T\n\n| a | b |\n|---|---|\n| 1\\|2 | 3 4 |\n\n- x\n- y\n\n```sh\nrun\n```\n";
        assert_eq!(text, expected);
    }
}
