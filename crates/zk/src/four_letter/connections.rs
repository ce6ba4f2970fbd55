//! `cons`, the list of connections in `stat`, and `dump` with sessions and their ephemeral nodes.

use std::fmt::Write as _;

use super::SESSIONS_SHOWN_MAX;
use crate::connection_table::ConnectionStats;
use crate::context::ServerContext;
use crate::op_kind::OpKind;

/// One short line for each connection.
pub(super) fn brief(context: &ServerContext) -> String {
    let lines =
        context.connections.list().into_iter().map(|connection| brief_line(&connection) + ")\n");
    format!("Clients:\n{}\n", lines.collect::<String>())
}

fn brief_line(connection: &ConnectionStats) -> String {
    let stats = *connection.requests.lock();
    let interested = u8::from(connection.last.lock().session != 0);
    format!(
        " /{}[{interested}](queued={},recved={},sent={}",
        connection.peer, stats.outstanding, stats.received, stats.sent
    )
}

/// One long line for each connection.
pub(super) fn detailed(context: &ServerContext) -> String {
    let lines = context.connections.list().into_iter().map(|connection| detailed_line(&connection));
    lines.collect::<String>() + "\n"
}

fn detailed_line(connection: &ConnectionStats) -> String {
    let (stats, last) = (*connection.requests.lock(), *connection.last.lock());
    let mut line = brief_line(connection);
    if last.session != 0 {
        let _infallible = write!(
            line,
            ",sid={:#x},lop={},est={},to={},lcxid={:#x},lzxid={:#x},lresp={},llat={},minlat={},avglat={:.0},maxlat={}",
            last.session,
            last.kind.map_or("NA", OpKind::letters),
            connection.since_ms,
            last.timeout_ms,
            last.xid,
            last.zxid,
            last.at.as_millis(),
            last.latency.as_millis(),
            stats.latency_min().as_millis(),
            stats.latency_average_ms(),
            stats.latency_max.as_millis(),
        );
    }
    line + ")\n"
}

/// Sessions, their ephemeral nodes, and the connections of this node.
pub(super) fn dump(context: &ServerContext) -> String {
    let sessions = context.service.session_ids(SESSIONS_SHOWN_MAX);
    let mut text = format!("SessionTracker dump:\nGlobal Sessions({}):\n", sessions.len());
    for (id, ttl) in &sessions {
        let _infallible = writeln!(text, "{:#x}\t{}ms", id.0, ttl.as_millis());
    }
    let owners = sessions.iter().filter_map(|(id, _)| {
        let paths = context.service.ephemerals(*id);
        let mut owner = format!("{:#x}:\n", id.0);
        for path in &paths {
            let _infallible = writeln!(owner, "\t{path}");
        }
        (!paths.is_empty()).then_some(owner)
    });
    let owners: Vec<_> = owners.collect();
    let _infallible = write!(
        text,
        "ephemeral nodes dump:\nSessions with Ephemerals ({}):\n{}Connections dump:\n",
        owners.len(),
        owners.concat()
    );
    for connection in context.connections.list() {
        let session = connection.last.lock().session;
        let _infallible = writeln!(text, "\tip: /{} sessionId: {session:#x}", connection.peer);
    }
    text
}

/// `wchs`.
pub(super) fn watch_summary(context: &ServerContext) -> String {
    let counts = context.service.watch_counts();
    format!(
        "{} connections watching {} paths\nTotal watches:{}\n",
        counts.streams, counts.paths, counts.watches
    )
}

/// `wchc`: the paths of each session.
pub(super) fn watches_by_session(context: &ServerContext) -> String {
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
pub(super) fn watches_by_path(context: &ServerContext) -> String {
    let mut text = String::new();
    for (path, sessions) in context.service.watches_by_path() {
        let _infallible = writeln!(text, "{path}");
        for session in sessions {
            let _infallible = writeln!(text, "\t{:#x}", session.0);
        }
    }
    text + "\n"
}
