//! Who is connected: the list in `stat`, `cons`, and `dump` with sessions and their ephemeral nodes.

use std::fmt::Write as _;

use super::SESSIONS_SHOWN_MAX;
use crate::connection::Front;
use crate::kind::Kind;
use crate::ledger::Account;

/// One short line a connection.
pub(super) fn brief(front: &Front) -> String {
    let lines = front.ledger.accounts().into_iter().map(|account| brief_line(&account) + ")\n");
    format!("Clients:\n{}\n", lines.collect::<String>())
}

fn brief_line(account: &Account) -> String {
    let figures = *account.figures.lock();
    let interested = u8::from(account.last.lock().session != 0);
    format!(
        " /{}[{interested}](queued={},recved={},sent={}",
        account.peer, figures.outstanding, figures.received, figures.sent
    )
}

/// One long line a connection.
pub(super) fn detailed(front: &Front) -> String {
    let lines = front.ledger.accounts().into_iter().map(|account| detailed_line(&account));
    lines.collect::<String>() + "\n"
}

fn detailed_line(account: &Account) -> String {
    let (figures, last) = (*account.figures.lock(), *account.last.lock());
    let mut line = brief_line(account);
    if last.session != 0 {
        let _infallible = write!(
            line,
            ",sid={:#x},lop={},est={},to={},lcxid={:#x},lzxid={:#x},lresp={},llat={},minlat={},avglat={:.0},maxlat={}",
            last.session,
            last.kind.map_or("NA", Kind::letters),
            account.since_ms,
            last.timeout_ms,
            last.xid,
            last.zxid,
            last.at.as_millis(),
            last.took.as_millis(),
            figures.least().as_millis(),
            figures.average_ms(),
            figures.most.as_millis(),
        );
    }
    line + ")\n"
}

/// Sessions, their ephemeral nodes, and the connections of this node.
pub(super) fn dump(front: &Front) -> String {
    let sessions = front.service.session_ids(SESSIONS_SHOWN_MAX);
    let mut text = format!("SessionTracker dump:\nGlobal Sessions({}):\n", sessions.len());
    for (id, ttl) in &sessions {
        let _infallible = writeln!(text, "{:#x}\t{}ms", id.0, ttl.as_millis());
    }
    let owners = sessions.iter().filter_map(|(id, _)| {
        let paths = front.service.ephemerals(*id);
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
    for account in front.ledger.accounts() {
        let session = account.last.lock().session;
        let _infallible = writeln!(text, "\tip: /{} sessionId: {session:#x}", account.peer);
    }
    text
}
