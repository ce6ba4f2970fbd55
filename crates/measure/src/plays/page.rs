//! `docs/questions.md`: one section for each question, rendered from the recordings only.

use std::path::Path;

use super::{ALL, ActRecording, Play, PlayRecording, timeline};

pub const RECORDINGS: &str = "questions.json";
const PAGE: &str = "questions.md";
const IMAGES: &str = "images/questions";

const BEGINNING: &str = "# Questions\n\n\
    What happens to a lock if something goes wrong? Each section answers one question, for holdfast and for another system.\n\n\
    `scripts/demo` lists the questions and plays them on this machine, on real servers, each in at most 20 seconds. The lines\n\
    below are [recordings](questions.json) of such plays: the time, the actor, and what happened. Below them is what the play\n\
    checked. A time line draws the steps at equal distances: a bar is a hold with its token, a dashed bar a wait, a green mark an\n\
    accepted write or call, a red cross a rejected one.\n";

/// Renders the page.
pub fn markdown(recordings: &[PlayRecording]) -> String {
    let sections = played(recordings).map(|(play, recording)| section(play, recording));
    let contents: Vec<String> = played(recordings)
        .map(|(play, _)| format!("- [{}](#{})", play.question, anchor(play.question)))
        .collect();
    let body: Vec<String> = sections.collect();
    format!("{BEGINNING}\n{}\n\n{}", contents.join("\n"), body.join("\n"))
}

/// Returns the time lines with their paths below the directory of the page.
pub fn images(recordings: &[PlayRecording]) -> Vec<(String, String)> {
    let drawn = played(recordings).filter_map(|(play, recording)| {
        Some((image(play), timeline::draw(play.question, recording)?))
    });
    drawn.collect()
}

/// Writes the page and its images.
pub(super) fn write(recordings: &[PlayRecording], directory: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(directory.join(IMAGES))?;
    for (path, svg) in images(recordings) {
        std::fs::write(directory.join(path), svg)?;
    }
    std::fs::write(directory.join(PAGE), markdown(recordings))
}

fn played(recordings: &[PlayRecording]) -> impl Iterator<Item = (&'static Play, &PlayRecording)> {
    ALL.iter().filter_map(|play| {
        Some((play, recordings.iter().find(|recording| recording.play == play.name)?))
    })
}

fn image(play: &Play) -> String {
    format!("{IMAGES}/{}.svg", play.name)
}

/// The anchor of a heading on GitHub and in mdBook.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

fn section(play: &Play, recording: &PlayRecording) -> String {
    let picture = timeline::draw(play.question, recording).map(|_| {
        format!(
            "![Time line: who holds the lock, and which calls were rejected]({})\n\n",
            image(play)
        )
    });
    let acts: Vec<String> = recording.acts.iter().map(act).collect();
    format!(
        "## {}\n\n{}\n\n`scripts/demo {}`\n\n{}{}",
        play.question,
        wrapped(play.answer),
        play.name,
        picture.unwrap_or_default(),
        acts.join("\n")
    )
}

fn act(act: &ActRecording) -> String {
    let steps: Vec<String> = act.steps.iter().map(super::PlayStep::line).collect();
    let verdicts = act.verdicts.iter().map(|verdict| format!("- {}\n", verdict.claim));
    format!(
        "**{}** ({}):\n\n```text\n{}\n```\n\n{}",
        act.system,
        act.version,
        steps.join("\n"),
        verdicts.collect::<String>()
    )
}

/// Breaks a paragraph into lines.
fn wrapped(text: &str) -> String {
    const WIDTH: usize = 120;
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split_whitespace() {
        if line.len() + word.len() >= WIDTH {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines.join("\n")
}
