//! Watches: `wchs`, `wchc` and `wchp`.

use std::fmt::Write as _;

use crate::context::ServerContext;

/// `wchs`.
pub(super) fn summary(context: &ServerContext) -> String {
    let counts = context.service.watch_counts();
    format!(
        "{} connections watching {} paths\nTotal watches:{}\n",
        counts.streams, counts.paths, counts.watches
    )
}

/// `wchc`: the paths of each session.
pub(super) fn by_session(context: &ServerContext) -> String {
    let mut text = String::new();
    for (session, paths) in context.service.watches_by_session() {
        let _infallible = writeln!(text, "{:#x}", session.0);
        for path in paths {
            let _infallible = writeln!(text, "\t{path}");
        }
    }
    text + "\n"
}

/// `wchp`: the sessions of each path.
pub(super) fn by_path(context: &ServerContext) -> String {
    let mut text = String::new();
    for (path, sessions) in context.service.watches_by_path() {
        let _infallible = writeln!(text, "{path}");
        for session in sessions {
            let _infallible = writeln!(text, "\t{:#x}", session.0);
        }
    }
    text + "\n"
}
