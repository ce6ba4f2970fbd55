//! `holdfast history`: the past and present holds of a lock, with their tokens and end causes.

use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use holdfast_api::parameters::LIMIT;
use holdfast_api::{
    HistoryBody, PastHoldBody, Query, Rfc3339Time, escape_query, format_time, history_path,
    parse_duration, parse_time,
};
use holdfast_client::Call;

use super::stale::StaleArgs;
use crate::arguments::{OneLockArgs, list_length};
use crate::exit::CommandFailure;
use crate::output::{answer_rows, cell, short_time, table_or};

/// Show the holds of a lock, with the token, the time and the cause of the end of each.
#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    #[command(flatten)]
    lock: OneLockArgs,
    /// Only the holds at this time: 2026-03-01T14:05:09Z, `5m` ago, or milliseconds of the Unix epoch.
    #[arg(long, value_name = "TIME", value_parser = time_of_day)]
    at: Option<String>,
    /// The number of past holds.
    #[arg(short = 'n', long, default_value_t = 20, value_parser = list_length)]
    limit: usize,
    #[command(flatten)]
    stale: StaleArgs,
}

pub(crate) async fn run(args: HistoryArgs) -> Result<(), CommandFailure> {
    let OneLockArgs { name, cluster } = &args.lock;
    let query = args.stale.query(Query::default().with(&LIMIT, &args.limit));
    let mut target = query.target(&history_path(name));
    if let Some(at) = &args.at {
        target = format!("{target}&at={}", escape_query(at));
    }
    let body: HistoryBody = args.stale.read(&cluster.quick_client()?, &Call::get(target)).await?;
    let tokens = body.holds.iter().map(|hold| hold.token);
    answer_rows(cluster.format(), &body, &body.holds, tokens, &show(&body, now_ms()));
    Ok(())
}

/// Formats the table. The leader's clock set the times; ages are relative to the local clock.
fn show(body: &HistoryBody, now_ms: u64) -> String {
    let header = ["token", "session", "granted", "held for", "ended", "why"];
    let none = "no holds of this lock are recorded";
    let holds = table_or(none, header, body.holds.iter().map(|hold| row(hold, now_ms)));
    match body.complete_since_revision.0 {
        0 => holds,
        after => format!("{holds}\n\nholds that ended up to revision {after} may be missing"),
    }
}

fn row(hold: &PastHoldBody, now_ms: u64) -> [String; 6] {
    let at = |moment: Rfc3339Time| {
        let age = short_time(now_ms.saturating_sub(moment.0.0));
        format!("{} ({age} ago)", format_time(moment.0))
    };
    let ended_ms = hold.ended_at.map_or(now_ms, |ended| ended.0.0);
    let session = match &hold.owner {
        Some(owner) => format!("{} {owner}", hold.session),
        None => hold.session.to_string(),
    };
    [
        hold.token.to_string(),
        session,
        at(hold.granted_at),
        short_time(ended_ms.saturating_sub(hold.granted_at.0.0)),
        cell(hold.ended_at.map(at)),
        hold.cause.clone().unwrap_or_else(|| "still held".to_owned()),
    ]
}

/// Checks the time, so that the error shows the option of the command line.
fn time_of_day(text: &str) -> Result<String, String> {
    let form =
        "write 2026-03-01T14:05:09Z, 5m for five minutes ago, or milliseconds of the Unix epoch";
    let is_time =
        text.parse::<u64>().is_ok() || parse_time(text).is_some() || parse_duration(text).is_ok();
    if is_time { Ok(text.to_owned()) } else { Err(form.to_owned()) }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    holdfast_types::millis(since)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_is_a_table_with_a_note_about_missing_holds() {
        let json = r#"{"lock":"a","revision":9,"complete_since_revision":4,"holds":[
            {"token":7,"session":"you","granted_at":"1970-01-01T00:01:00Z"},
            {"token":5,"session":"me","owner":"t1","granted_at":"1970-01-01T00:00:01Z","ended_at":"1970-01-01T00:00:31Z","ended_revision":8,"cause":"released"}]}"#;
        let shown = show(&serde_json::from_str(json).unwrap(), 61_000);
        let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
        assert!(lines[1].contains("1s ago") && lines[1].ends_with("still held"), "{shown}");
        assert!(lines[2].contains("me t1") && lines[2].contains("30s ago"), "{shown}");
        assert!(lines[2].contains("1970-01-01T00:00:31Z (30s ago)"), "{shown}");
        assert!(lines[4].contains("revision 4 may be missing"), "{shown}");
    }
}
