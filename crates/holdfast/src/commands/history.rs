//! `holdfast history`: who held a lock when, with which token, and why it ended.

use std::time::{SystemTime, UNIX_EPOCH};

use holdfast_api::{HistoryBody, PastHoldBody, escape_query, format_time, history_path};
use holdfast_types::Stamp;

use super::asking::{Ask, Asking};
use super::{for_people, lock_name};
use crate::cli::HistoryArgs;
use crate::exit::Stop;
use crate::output::{answer_rows, table};

pub(super) async fn run(args: &HistoryArgs) -> Result<(), Stop> {
    let lock = lock_name(&args.name)?;
    let mut target = format!("{}?limit={}", history_path(&lock), args.limit);
    if let Some(at) = &args.at {
        target = format!("{target}&at={}", escape_query(at));
    }
    let mut asking = Asking::new(&args.target, None)?;
    let body: HistoryBody = asking.json(&Ask::get(target)).await?;
    let token = |hold: &PastHoldBody| hold.token.to_string();
    answer_rows(args.target.output, &body, &body.holds, token, || show(&body, now_ms()));
    Ok(())
}

/// Times as the leader stamped them, and ages by this machine's clock.
fn show(body: &HistoryBody, now_ms: u64) -> String {
    let header = ["token", "session", "granted", "held for", "ended", "why"];
    let holds = table(header, body.holds.iter().map(|hold| row(hold, now_ms)));
    match body.complete_after.0 {
        0 => holds,
        after => format!("{holds}\n\nholds that ended up to revision {after} may be missing"),
    }
}

fn row(hold: &PastHoldBody, now_ms: u64) -> [String; 6] {
    let none = || "-".to_owned();
    let at = |ms: u64| {
        let (time, ago) = (format_time(Stamp(ms)), for_people(now_ms.saturating_sub(ms)));
        format!("{time} ({ago} ago)")
    };
    let until = hold.until_at_ms.unwrap_or(now_ms);
    let session = match &hold.owner {
        Some(owner) => format!("{} {owner}", hold.session),
        None => hold.session.to_string(),
    };
    [
        hold.token.to_string(),
        session,
        at(hold.since_at_ms),
        for_people(until.saturating_sub(hold.since_at_ms)),
        hold.until_at_ms.map_or_else(none, at),
        hold.cause.clone().unwrap_or_else(|| "holds it now".to_owned()),
    ]
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    holdfast_types::millis(since)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_is_a_table_and_says_what_may_be_missing() {
        let json = r#"{"lock":"a","revision":9,"complete_after":4,"holds":[
            {"token":7,"session":"you","since_at_ms":60000},
            {"token":5,"session":"me","owner":"t1","since_at_ms":1000,"until_at_ms":31000,"until_revision":8,"cause":"released"}]}"#;
        let shown = show(&serde_json::from_str(json).unwrap(), 61_000);
        let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
        assert!(lines[1].contains("1s ago") && lines[1].ends_with("holds it now"), "{shown}");
        assert!(lines[2].contains("me t1") && lines[2].contains("30s ago"), "{shown}");
        assert!(lines[2].contains("1970-01-01T00:00:31Z (30s ago)"), "{shown}");
        assert!(lines[4].contains("revision 4 may be missing"), "{shown}");
    }
}
