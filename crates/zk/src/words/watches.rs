//! What is watched: `wchs`, `wchc`, `wchp`.

use std::fmt::Write as _;

use crate::connection::Front;

/// How many connections watch how many paths.
pub(super) fn summary(front: &Front) -> String {
    let counts = front.service.watch_counts();
    format!(
        "{} connections watching {} paths\nTotal watches:{}\n",
        counts.streams, counts.paths, counts.watches
    )
}

/// The paths of each session.
pub(super) fn by_session(front: &Front) -> String {
    let mut text = String::new();
    for (session, paths) in front.service.watches_by_session() {
        let _infallible = writeln!(text, "{:#x}", session.0);
        for path in paths {
            let _infallible = writeln!(text, "\t{path}");
        }
    }
    text + "\n"
}

/// The sessions of each path.
pub(super) fn by_path(front: &Front) -> String {
    let mut text = String::new();
    for (path, sessions) in front.service.watches_by_path() {
        let _infallible = writeln!(text, "{path}");
        for session in sessions {
            let _infallible = writeln!(text, "\t{:#x}", session.0);
        }
    }
    text + "\n"
}
