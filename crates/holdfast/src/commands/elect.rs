//! `holdfast elect`: stands for an election and runs a command while leading; or looks at elections.
//!
//! Owns what is shown of elections. Leading is holding the lock `elections/NAME`, so the command is run as `holdfast run`
//! runs it, on the same leash.

use holdfast_api::{CandidateBody, ElectionBody, LeaderBody, LockBody, election_lock, election_of};
use holdfast_client::{Client, LockQuery, Observed};
use holdfast_types::LockName;
use serde::Serialize;

use super::naming::dashed;
use super::{LOOK_MAX, connect, for_people, lock_name, run as running, stop};
use crate::cli::{ElectArgs, ElectCommand, ElectLsArgs, ElectWatchArgs, Format, Target, WhoArgs};
use crate::exit::Stop;
use crate::output::{answer_rows, check, print, print_json, table};

pub(super) async fn run(mut args: ElectArgs) -> Result<(), Stop> {
    match args.what.take() {
        Some(ElectCommand::Who(args)) => who(&args).await,
        Some(ElectCommand::Ls(args)) => ls(&args).await,
        Some(ElectCommand::Watch(args)) => watch(&args).await,
        None => stand(args).await,
    }
}

async fn stand(args: ElectArgs) -> Result<(), Stop> {
    let election = lock_name(args.name.as_deref().unwrap_or_default())?;
    let lock = election_lock(&election).map_err(Stop::usage)?;
    let for_ever = args.forever;
    let args = args.into_run(lock.to_string());
    if for_ever { running::for_ever(&args).await } else { running::run(args).await }
}

/// One line of `-o jsonl`.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Row<'a> {
    Leader(&'a LeaderBody),
    Candidate(&'a CandidateBody),
}

async fn who(args: &WhoArgs) -> Result<(), Stop> {
    let client = connect(&args.target)?;
    let looked = client.election(&args.name).look().await;
    let body = looked.map_err(|error| stop(&args.target, &error))?;
    match args.target.output {
        Format::Json => print_json(&body),
        Format::Jsonl => {
            let candidates = body.candidates.iter().map(Row::Candidate);
            body.leader.iter().map(Row::Leader).chain(candidates).for_each(|row| print_json(&row));
        }
        // Nothing at all if nobody leads, not an empty line.
        Format::Value => body.leader.iter().for_each(|leader| print(shown(leader))),
        Format::Table => print(&show(&body)),
    }
    Ok(())
}

/// Its value; of one that shows none, its session.
fn shown(leader: &LeaderBody) -> &str {
    leader.value.as_deref().unwrap_or(leader.session.as_str())
}

fn show(body: &ElectionBody) -> String {
    let election = &body.election;
    let line = match &body.leader {
        None => format!("nobody leads {election}"),
        Some(leader) => {
            let (session, token) = (&leader.session, leader.token);
            let since = for_people(body.since_ms.unwrap_or_default());
            let value = leader.value.as_ref().map(|value| format!(" at {value}"));
            let value = value.unwrap_or_default();
            format!("{election} is led by {session}{value} for {since}, token {token}")
        }
    };
    if body.candidates.is_empty() {
        return line;
    }
    let rows = body.candidates.iter().zip(1_u32..).map(|(candidate, place)| {
        [
            place.to_string(),
            candidate.session.to_string(),
            dashed(candidate.value.clone().unwrap_or_default()),
            for_people(candidate.since_ms),
        ]
    });
    let header = ["place", "candidate", "value", "standing for"];
    let shown = format!("{line}\n\n{}", table(header, rows));
    match usize::try_from(body.candidates_total).unwrap_or(usize::MAX) - body.candidates.len() {
        0 => shown,
        more => format!("{shown}\nand {more} more"),
    }
}

/// One election of a list.
#[derive(Serialize)]
struct Listed {
    election: LockName,
    leader: Option<LeaderBody>,
    candidates: u32,
}

async fn ls(args: &ElectLsArgs) -> Result<(), Stop> {
    let client = connect(&args.target)?.request_timeout(LOOK_MAX);
    let all = all(&client, args.prefix.as_deref().unwrap_or_default(), &args.target).await?;
    let name = |listed: &Listed| listed.election.to_string();
    answer_rows(args.target.output, &all, &all, name, || {
        let header = ["election", "leader", "value", "token", "candidates"];
        table(header, all.iter().map(row))
    });
    Ok(())
}

async fn all(client: &Client, prefix: &str, target: &Target) -> Result<Vec<Listed>, Stop> {
    let prefix = format!("elections/{prefix}");
    let query = LockQuery { prefix: Some(prefix), ..LockQuery::default() };
    let mut all = Vec::new();
    let visited = client.each_lock(query, |lock| all.extend(listed(lock))).await;
    visited.map_err(|error| stop(target, &error))?;
    Ok(all)
}

/// An election that nobody leads or stands for is of no interest.
fn listed(lock: LockBody) -> Option<Listed> {
    let election = election_of(&lock.lock).filter(|_| lock.held || lock.waiters > 0)?;
    let leader = lock.holders.into_iter().next().map(|holder| LeaderBody {
        session: holder.session,
        owner: holder.owner,
        token: holder.token,
        value: holder.value,
    });
    Some(Listed { election, leader, candidates: lock.waiters })
}

fn row(listed: &Listed) -> [String; 5] {
    let leader = listed.leader.as_ref();
    let text = |of: fn(&LeaderBody) -> String| dashed(leader.map(of).unwrap_or_default());
    [
        listed.election.to_string(),
        text(|leader| leader.session.to_string()),
        text(|leader| leader.value.clone().unwrap_or_default()),
        text(|leader| leader.token.to_string()),
        listed.candidates.to_string(),
    ]
}

async fn watch(args: &ElectWatchArgs) -> Result<(), Stop> {
    let client = connect(&args.target)?;
    let failed = |error| stop(&args.target, &error);
    let mut observer = client.election(&args.name).observe().map_err(failed)?;
    let mut left = args.count.unwrap_or(u64::MAX);
    while left > 0 {
        tell(args.target.output, &observer.next_change().await.map_err(failed)?);
        check()?;
        left -= 1;
    }
    Ok(())
}

/// One line of what is observed, for programs.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Line<'a> {
    Leader { leader: &'a LeaderBody, revision: u64 },
    Vacant { revision: u64 },
    Gap { until: u64 },
}

fn tell(format: Format, observed: &Observed) {
    let line = match observed {
        Observed::Leader { leader, revision } => Line::Leader { leader, revision: revision.0 },
        Observed::Vacant { revision } => Line::Vacant { revision: revision.0 },
        Observed::Gap { until } => Line::Gap { until: until.0 },
    };
    match format {
        Format::Json | Format::Jsonl => print_json(&line),
        // An empty line while nobody leads, and nothing about a gap: who leads now comes next.
        Format::Value => match line {
            Line::Leader { leader, .. } => print(shown(leader)),
            Line::Vacant { .. } => print(""),
            Line::Gap { .. } => {}
        },
        Format::Table => print(&in_words(&line)),
    }
}

/// `12  10.0.0.7:5432  token 4  db1`
fn in_words(line: &Line<'_>) -> String {
    match line {
        Line::Leader { leader, revision } => {
            let value = dashed(leader.value.clone().unwrap_or_default());
            format!("{revision}  {value}  token {}  {}", leader.token, leader.session)
        }
        Line::Vacant { revision } => format!("{revision}  nobody leads"),
        Line::Gap { until } => format!("{until}  what happened before is not told"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_leads_and_who_stands_are_shown() {
        let body = r#"{"election":"db","leader":{"session":"db1","token":7,"value":"10.0.0.7"},"since_ms":61000,
            "candidates":[{"session":"db2","value":"10.0.0.8","since_ms":5000},{"session":"db3","since_ms":1000}],
            "candidates_total":3,"revision":9}"#;
        let shown = show(&serde_json::from_str(body).unwrap());
        let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
        assert_eq!(lines[0], "db is led by db1 at 10.0.0.7 for 1m1s, token 7");
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!([words(lines[3]), words(lines[4])], ["1 db2 10.0.0.8 5s", "2 db3 - 1s"]);
        assert_eq!(lines[5], "and 1 more");
        let nobody =
            r#"{"election":"db","leader":null,"candidates":[],"candidates_total":0,"revision":9}"#;
        assert_eq!(show(&serde_json::from_str(nobody).unwrap()), "nobody leads db");
    }

    #[test]
    fn what_is_observed_is_one_line() {
        let leader: LeaderBody =
            serde_json::from_str(r#"{"session":"db1","token":7,"value":"10.0.0.7"}"#).unwrap();
        let line = Line::Leader { leader: &leader, revision: 12 };
        assert_eq!(in_words(&line), "12  10.0.0.7  token 7  db1");
        assert_eq!(in_words(&Line::Vacant { revision: 13 }), "13  nobody leads");
    }
}
