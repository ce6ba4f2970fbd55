//! Four-letter words: status commands for monitoring, answered as text in the layout of ZooKeeper 3.8. `node` has those about
//! the state of the node.
//!
//! A word that is not on the allow-list is rejected. With authorization, a caller needs the permission `metrics read`, which
//! only a certificate can prove here, except for `ruok`, `isro` and `srvr`. Bounds: `dump` shows at most [`SESSIONS_SHOWN_MAX`]
//! sessions; the other answers are bounded by the number of connections.

mod node;

use std::fmt::Write as _;

use holdfast_service::Service;
use holdfast_types::Right;
use holdfast_zkwire::FourLetterWord;

use crate::connection_table::ConnectionStats;
use crate::context::ServerContext;
use crate::metrics::OpKind;

const SESSIONS_SHOWN_MAX: usize = 10_000;
/// The version in ZooKeeper's format. Clients check features by its first three numbers.
const VERSION: &str = concat!("3.8.0-holdfast-", env!("CARGO_PKG_VERSION"), ", built by cargo");
/// The answer of a node without a leader to most words.
const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests\n";

pub(crate) async fn answer(
    context: &ServerContext,
    word: FourLetterWord,
    caller: &Service,
) -> String {
    if !context.config.words.allow(word) {
        return format!("{} is not executed because it is not in the whitelist.\n", word.as_str());
    }
    let is_open =
        matches!(word, FourLetterWord::Ruok | FourLetterWord::Isro | FourLetterWord::Srvr);
    if !is_open && caller.require(Right::MetricsRead).is_err() {
        return format!("{} needs the permission metrics read.\n", word.as_str());
    }
    let serves = context.service.leader().is_some();
    match word {
        FourLetterWord::Ruok => "imok".to_owned(),
        FourLetterWord::Isro => if serves { "rw" } else { "null" }.to_owned(),
        FourLetterWord::Envi => node::environment(),
        FourLetterWord::Conf => node::configuration(context).await,
        FourLetterWord::Dirs => node::directories(context).await,
        FourLetterWord::Crst => {
            context.connections.reset_connections();
            "Connection stats reset.\n".to_owned()
        }
        FourLetterWord::Srst => {
            context.connections.reset_totals();
            "Server stats reset.\n".to_owned()
        }
        _ if !serves => NOT_SERVING.to_owned(),
        FourLetterWord::Srvr => node::server(context, ""),
        FourLetterWord::Stat => node::server(context, &brief(context)),
        FourLetterWord::Mntr => node::monitor(context).await,
        FourLetterWord::Cons => detailed(context),
        FourLetterWord::Dump => dump(context),
        FourLetterWord::Wchs => watch_summary(context),
        FourLetterWord::Wchc => watches_by_session(context),
        FourLetterWord::Wchp => watches_by_path(context),
    }
}

/// The connections in `stat`: one short line for each.
fn brief(context: &ServerContext) -> String {
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

/// `cons`: one long line for each connection.
fn detailed(context: &ServerContext) -> String {
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

/// `dump`: sessions, their ephemeral nodes, and the connections of this node.
fn dump(context: &ServerContext) -> String {
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
fn watch_summary(context: &ServerContext) -> String {
    let counts = context.service.watch_counts();
    format!(
        "{} connections watching {} paths\nTotal watches:{}\n",
        counts.streams, counts.paths, counts.watches
    )
}

/// `wchc`: the paths of each session.
fn watches_by_session(context: &ServerContext) -> String {
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
fn watches_by_path(context: &ServerContext) -> String {
    let mut text = String::new();
    for (path, sessions) in context.service.watches_by_path() {
        let _infallible = writeln!(text, "{path}");
        for session in sessions {
            let _infallible = writeln!(text, "\t{:#x}", session.0);
        }
    }
    text + "\n"
}
