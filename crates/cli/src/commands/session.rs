//! `holdfast session`: lists, shows and ends sessions.

use clap::{Args, Subcommand};
use holdfast_api::parameters::PAGE_TOKEN;
use holdfast_api::parameters::session::{CLOSED_INCARNATION, FORCE, REASON};
use holdfast_api::{Query, SessionBody, SessionsBody, session_path};
use holdfast_client::http::Method;
use holdfast_client::{Call, Client, Error};
use holdfast_types::{LockName, SessionName};

use super::calls::StaleArgs;
use super::lock_text::labels_text;
use crate::arguments::ClusterArgs;
use crate::exit::CommandFailure;
use crate::output::{answer, answer_rows, cell, facts, short_time, table_or, write_stderr};

/// List, show and end sessions.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// List the open sessions.
    Ls(SessionLsArgs),
    /// Show a session: its ttl, the locks it holds, the locks it waits for.
    Show(OneSessionArgs),
    /// End a session: it loses every lock it holds. For operators.
    End(EndArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SessionLsArgs {
    #[command(flatten)]
    stale: StaleArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// One session.
#[derive(Debug, Args)]
pub(crate) struct OneSessionArgs {
    /// The session.
    name: SessionName,
    #[command(flatten)]
    cluster: ClusterArgs,
}

#[derive(Debug, Args)]
pub(crate) struct EndArgs {
    #[command(flatten)]
    session: OneSessionArgs,
    /// The reason, for the holder and the audit log.
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

pub(crate) async fn run(command: SessionCommand) -> Result<(), CommandFailure> {
    match command {
        SessionCommand::Ls(args) => ls(&args).await,
        SessionCommand::Show(args) => show(&args).await,
        SessionCommand::End(args) => end(&args).await,
    }
}

/// The text for a session that is not open.
pub(super) fn no_session(session: &SessionName) -> String {
    format!("there is no open session {session}: it has ended, or it never existed")
}

async fn ls(SessionLsArgs { stale, cluster }: &SessionLsArgs) -> Result<(), CommandFailure> {
    let body = sessions(&cluster.quick_client()?, *stale).await?;
    let names = body.sessions.iter().map(|session| &session.session);
    answer_rows(cluster.format(), &body, &body.sessions, names, &list(&body.sessions));
    Ok(())
}

/// All sessions, in one body.
async fn sessions(client: &Client, stale: StaleArgs) -> Result<SessionsBody, Error> {
    let mut all = Vec::new();
    let mut query = stale.query(Query::default());
    loop {
        let call = Call::get(query.target("/v1/sessions"));
        let page: SessionsBody = stale.read(client, &call).await?;
        all.extend(page.sessions);
        let Some(token) = page.next_page_token else {
            let revision = page.revision;
            return Ok(SessionsBody { sessions: all, next_page_token: None, revision });
        };
        query = stale.query(Query::default().with(&PAGE_TOKEN, &token));
    }
}

fn list(sessions: &[SessionBody]) -> String {
    let rows = sessions.iter().map(|session| {
        [
            session.session.to_string(),
            short_time(session.open_for_ms),
            short_time(session.ttl_ms.into()),
            session.holds.len().to_string(),
            session.waits.len().to_string(),
            cell(Some(labels_text(&session.session, &session.labels))),
        ]
    });
    let header = ["session", "open for", "ttl", "holds", "waits", "labels"];
    table_or("no sessions are open", header, rows)
}

async fn show(OneSessionArgs { name, cluster }: &OneSessionArgs) -> Result<(), CommandFailure> {
    let body = read(&cluster.quick_client()?, name).await?;
    answer(cluster.format(), &body, body.incarnation, &session_text(&body));
    Ok(())
}

async fn read(client: &Client, name: &SessionName) -> Result<SessionBody, CommandFailure> {
    let body = client.call(&Call::get(session_path(name))).await;
    if let Err(Error::Lost(_)) = body {
        return Err(CommandFailure::failed(no_session(name)));
    }
    Ok(body?)
}

fn session_text(body: &SessionBody) -> String {
    let holds = body.holds.iter().map(|hold| format!("{} (token {})", hold.lock, hold.token));
    let holds: Vec<String> = holds.collect();
    let waits: Vec<&str> = body.waits.iter().map(LockName::as_str).collect();
    let rows = [
        ("session", body.session.to_string()),
        ("open for", short_time(body.open_for_ms)),
        ("ttl", short_time(body.ttl_ms.into())),
        ("expires in", cell(body.expires_in_ms.map(short_time))),
        ("labels", cell(Some(labels_text(&body.session, &body.labels)))),
        ("holds", cell(Some(holds.join(", ")))),
        ("waits for", cell(Some(waits.join(", ")))),
    ];
    facts(["setting", "value"], rows)
}

/// Ends the session by its incarnation, which does not affect a later session of the same name.
async fn end(EndArgs { session, reason }: &EndArgs) -> Result<(), CommandFailure> {
    let OneSessionArgs { name, cluster } = session;
    let client = cluster.client()?;
    let body = read(&client, name).await?;
    let query = Query::default()
        .with_flag(&FORCE, true)
        .with(&REASON, reason)
        .with(&CLOSED_INCARNATION, &body.incarnation);
    client.call_raw(&Call::new(Method::DELETE, query.target(&session_path(name)))).await?;
    write_stderr(&format!(
        "holdfast: session {name} is ended; it held {} locks and waited for {}",
        body.holds.len(),
        body.waits.len()
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_shown_with_its_holds_and_waits() {
        let json = r#"{"session":"me","incarnation":3,"ttl_ms":30000,"expires_in_ms":20000,"open_for_ms":61000,"anonymous":false,"labels":{"host":"web1"},"holds":[{"lock":"a/b","token":7}],"waits":["c"],"revision":8}"#;
        let body: SessionBody = serde_json::from_str(json).unwrap();
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words(&session_text(&body)).ends_with(
            "open for 1m1s ttl 30s expires in 20s labels host=web1 holds a/b (token 7) waits for c"
        ));
        assert_eq!(words(list(&[body]).lines().last().unwrap()), "me 1m1s 30s 1 1 host=web1");
        assert_eq!(list(&[]), "no sessions are open");
    }
}
