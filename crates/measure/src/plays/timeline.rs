//! The time line of a play as SVG: a row for each actor, a bar for each hold with its token, and a mark for each
//! accepted or rejected call.
//!
//! Steps are drawn at equal distances, because many happen within milliseconds; the axis has their times.

use std::fmt::Write;

use super::{ActRecording, PlayRecording, PlayStep, StepKind};

const WIDTH: usize = 760;
const NAMES_WIDTH: usize = 92;
const TITLE_HEIGHT: usize = 26;
const ROW_HEIGHT: usize = 28;
const AXIS_HEIGHT: usize = 30;
/// A time line with more actors shows nothing.
const ACTORS_MAX: usize = 8;

const STYLE: &str = "text{font:12px system-ui,sans-serif;fill:#1f2328}.head{font-weight:600}.time{font-size:10px;fill:#59636e;text-anchor:middle}\
.row{stroke:#d1d9e0}.hold{fill:#b6e3ff;stroke:#0969da}.wait{fill:none;stroke:#818b98;stroke-dasharray:4 3}.note{fill:#818b98}\
.yes{fill:#1a7f37}.no{stroke:#cf222e;stroke-width:2.5}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.time{fill:#9198a1}.row{stroke:#3d444d}.hold{fill:#0c2d6b;stroke:#58a6ff}\
.wait{stroke:#9198a1}.yes{fill:#3fb950}.no{stroke:#f85149}}";

/// Draws all acts, one below the other; `None` if no two actors want a lock, or too many actors take part.
pub(super) fn draw(title: &str, recording: &PlayRecording) -> Option<String> {
    let is_readable = |act: &ActRecording| actors(act).len() <= ACTORS_MAX;
    if !recording.acts.iter().all(is_readable) || !recording.acts.iter().any(has_contention) {
        return None;
    }
    let (mut body, mut top) = (String::new(), 0);
    for act in &recording.acts {
        body.push_str(&draw_act(act, top));
        top += height(act);
    }
    Some(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {top}\" role=\"img\">\n\
         <title>{}</title>\n<style>{STYLE}</style>\n{body}</svg>\n",
        escaped(title)
    ))
}

/// Returns `true` if an actor holds the lock, and another one wants it.
fn has_contention(act: &ActRecording) -> bool {
    let wants = |step: &&PlayStep| !matches!(step.kind, StepKind::Note | StepKind::Ends);
    let mut wanted = act.steps.iter().filter(wants);
    let holder = wanted.clone().find(|step| step.kind == StepKind::Holds);
    holder.is_some_and(|holder| wanted.any(|step| step.actor != holder.actor))
}

fn height(act: &ActRecording) -> usize {
    TITLE_HEIGHT + actors(act).len() * ROW_HEIGHT + AXIS_HEIGHT
}

/// The actors in the order of their first step.
fn actors(act: &ActRecording) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    for step in &act.steps {
        if !found.contains(&step.actor.as_str()) {
            found.push(&step.actor);
        }
    }
    found
}

/// Where a step is drawn.
fn across(act: &ActRecording, at: usize) -> usize {
    NAMES_WIDTH + (2 * at + 1) * (WIDTH - NAMES_WIDTH) / (2 * act.steps.len().max(1))
}

fn draw_act(act: &ActRecording, top: usize) -> String {
    let mut svg = format!(
        "<text class=\"head\" x=\"4\" y=\"{}\">{}</text>\n",
        top + 18,
        escaped(&act.system)
    );
    for (row, actor) in actors(act).into_iter().enumerate() {
        let middle = top + TITLE_HEIGHT + row * ROW_HEIGHT + ROW_HEIGHT / 2;
        svg.push_str(&draw_row(act, actor, middle));
    }
    let bottom = top + height(act) - AXIS_HEIGHT + 12;
    for (at, step) in act.steps.iter().enumerate() {
        let x = across(act, at);
        let (seconds, hundredths) = (step.at_ms / 1_000, step.at_ms % 1_000 / 10);
        let _ = writeln!(
            svg,
            "<text class=\"time\" x=\"{x}\" y=\"{bottom}\">{seconds}.{hundredths:02}</text>"
        );
    }
    svg
}

fn draw_row(act: &ActRecording, actor: &str, middle: usize) -> String {
    let mut svg = format!(
        "<line class=\"row\" x1=\"{NAMES_WIDTH}\" x2=\"{WIDTH}\" y1=\"{middle}\" y2=\"{middle}\"/>\n\
         <text x=\"4\" y=\"{}\">{}</text>\n",
        middle + 4,
        escaped(actor)
    );
    for bar in bars(act, actor) {
        let (from, to) = (across(act, bar.from), bar.to.map_or(WIDTH - 2, |to| across(act, to)));
        let class = if bar.is_hold { "hold" } else { "wait" };
        let (y, width) = (middle - 9, to.saturating_sub(from));
        let _ = writeln!(
            svg,
            "<rect class=\"{class}\" x=\"{from}\" y=\"{y}\" width=\"{width}\" height=\"18\" rx=\"3\"/>"
        );
        if let Some(token) = bar.token {
            let _ = writeln!(svg, "<text x=\"{}\" y=\"{}\">{token}</text>", from + 4, middle + 4);
        }
    }
    for (at, step) in act.steps.iter().enumerate().filter(|(_, step)| step.actor == actor) {
        svg.push_str(&mark(step, across(act, at), middle));
    }
    svg
}

fn mark(step: &PlayStep, x: usize, y: usize) -> String {
    let drawn = match step.kind {
        StepKind::Accepted => format!("<circle class=\"yes\" cx=\"{x}\" cy=\"{y}\" r=\"6\">"),
        StepKind::Rejected => format!(
            "<path class=\"no\" d=\"M{} {}l10 10m0-10l-10 10\">",
            x.saturating_sub(5),
            y.saturating_sub(5)
        ),
        StepKind::Note => format!("<circle class=\"note\" cx=\"{x}\" cy=\"{y}\" r=\"3\">"),
        StepKind::Waits | StepKind::Holds | StepKind::Ends => return String::new(),
    };
    let name = if step.kind == StepKind::Rejected { "path" } else { "circle" };
    format!("{drawn}<title>{}</title></{name}>\n", escaped(&step.text))
}

/// A hold or a wait, from one step to another; to the end of the act without the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TimeBar {
    from: usize,
    to: Option<usize>,
    is_hold: bool,
    token: Option<u64>,
}

/// The bars of an actor. A renewal with the same token continues its bar.
fn bars(act: &ActRecording, actor: &str) -> Vec<TimeBar> {
    let mut bars: Vec<TimeBar> = Vec::new();
    for (at, step) in act.steps.iter().enumerate().filter(|(_, step)| step.actor == actor) {
        let open = bars.last_mut().filter(|bar| bar.to.is_none());
        let is_hold = match step.kind {
            StepKind::Holds => true,
            StepKind::Waits => false,
            StepKind::Ends => {
                if let Some(bar) = open {
                    bar.to = Some(at);
                }
                continue;
            }
            StepKind::Note | StepKind::Accepted | StepKind::Rejected => continue,
        };
        match open {
            Some(bar) if (bar.is_hold, bar.token) == (is_hold, step.token) => {}
            open => {
                if let Some(bar) = open {
                    bar.to = Some(at);
                }
                bars.push(TimeBar { from: at, to: None, is_hold, token: step.token });
            }
        }
    }
    bars
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plays::PlayLog;

    #[test]
    fn a_bar_lasts_from_the_grant_to_the_release_and_a_renewal_continues_it() {
        let log = PlayLog::silent();
        log.holds("a", Some(7), "acquires");
        log.waits("b", "waits");
        log.holds("a", Some(7), "renews");
        log.ends("a", "releases");
        log.holds("b", Some(8), "acquires");
        let act = ActRecording::of("holdfast", String::new(), &log);
        let bar = |from, to, is_hold, token| TimeBar { from, to, is_hold, token };
        assert_eq!(bars(&act, "a"), [bar(0, Some(3), true, Some(7))]);
        assert_eq!(bars(&act, "b"), [bar(1, Some(4), false, None), bar(4, None, true, Some(8))]);
        let svg = draw("?", &PlayRecording { play: "p".into(), acts: vec![act] }).unwrap();
        assert_eq!(
            (svg.matches("class=\"hold\"").count(), svg.matches("class=\"wait\"").count()),
            (2, 1)
        );
    }

    #[test]
    fn a_play_without_two_actors_that_want_a_lock_has_no_time_line() {
        let log = PlayLog::silent();
        log.holds("b", Some(7), "acquires");
        log.ends("b", "releases");
        log.note("a", "watches");
        let act = ActRecording::of("holdfast", String::new(), &log);
        assert_eq!(draw("?", &PlayRecording { play: "p".into(), acts: vec![act] }), None);
    }
}
