//! `holdfast elect`: runs a command while this candidate leads an election, or shows elections.
//!
//! The leader of the election NAME holds the lock `elections/NAME`; the command runs as under `holdfast run`.

use clap::{Args, Subcommand};
use holdfast_api::{CandidateBody, ElectionBody, LeaderBody, LockBody, election_lock, election_of};
use holdfast_client::{ElectionChange, LockQuery};
use holdfast_types::LockName;
use serde::Serialize;

use super::acquire::{AcquireArgs, WaitingArgs};
use super::run::{self, CommandArgs, RunArgs};
use crate::arguments::{ClusterArgs, Format, OneLockArgs};
use crate::exit::CommandFailure;
use crate::output::{answer_rows, cell, check, more, short_time, table, table_or};

/// Run a command while leading an election, or show elections.
#[derive(Debug, Args)]
#[command(
    subcommand_negates_reqs = true,
    args_conflicts_with_subcommands = true,
    override_usage = "holdfast elect [OPTIONS] <NAME> -- <COMMAND> [ARGS]...\n       holdfast elect who|watch <NAME>\n       \
                      holdfast elect ls [PREFIX]",
    after_help = "Exit codes as for `holdfast run`: the command's own, 75 if not elected, 76 if the leadership was lost \
                  and the command was killed. --busy-exit and --lost-exit replace them.\n\
                  The command gets HOLDFAST_ELECTION, HOLDFAST_TOKEN, HOLDFAST_SESSION, HOLDFAST_ADDR and HOLDFAST_LOCK, the \
                  lock of the election."
)]
pub(crate) struct ElectArgs {
    #[command(subcommand)]
    show: Option<ElectCommand>,
    /// The election; its name may contain '/'.
    #[arg(required = true)]
    name: Option<LockName>,
    /// The value of this candidate that other callers see, e.g. an address. At most 4 KiB.
    #[arg(long, value_name = "TEXT")]
    value: Option<String>,
    /// Become a candidate again after the command has ended or the leadership was lost, until ^C.
    #[arg(long, conflicts_with_all = ["wait", "try_once"])]
    forever: bool,
    #[command(flatten)]
    waiting: WaitingArgs,
    #[command(flatten)]
    command: CommandArgs,
}

/// Show elections.
#[derive(Debug, Subcommand)]
enum ElectCommand {
    /// Show the leader and the candidates in order.
    Who(OneLockArgs),
    /// List the elections with a leader or candidates.
    Ls(ElectLsArgs),
    /// Print the leader and then every change, one line each, until ^C.
    Watch(ElectWatchArgs),
}

#[derive(Debug, Args)]
struct ElectLsArgs {
    /// Only elections whose names start with this.
    prefix: Option<String>,
    #[command(flatten)]
    cluster: ClusterArgs,
}

#[derive(Debug, Args)]
struct ElectWatchArgs {
    #[command(flatten)]
    election: OneLockArgs,
    /// Stop after this number of lines.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
}

pub(crate) async fn run(mut args: ElectArgs) -> Result<(), CommandFailure> {
    match (args.show.take(), args.name.take()) {
        (Some(ElectCommand::Who(args)), _) => who(&args).await,
        (Some(ElectCommand::Ls(args)), _) => ls(args).await,
        (Some(ElectCommand::Watch(args)), _) => watch(&args).await,
        (None, Some(election)) => stand(args, &election).await,
        (None, None) => Err(CommandFailure::usage("name the election")),
    }
}

async fn stand(args: ElectArgs, election: &LockName) -> Result<(), CommandFailure> {
    let lock = election_lock(election).map_err(CommandFailure::usage)?;
    let forever = args.forever;
    let args = args.into_run(lock);
    if forever { run::run_forever(&args).await } else { run::run(args).await }
}

impl ElectArgs {
    fn into_run(self, lock: LockName) -> RunArgs {
        let acquire = AcquireArgs { value: self.value, ..AcquireArgs::of(lock, self.waiting) };
        RunArgs { acquire, command: self.command }
    }
}

/// One line of `-o jsonl`.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum ElectionRow<'a> {
    Leader(&'a LeaderBody),
    Candidate(&'a CandidateBody),
}

async fn who(args: &OneLockArgs) -> Result<(), CommandFailure> {
    let body = args.cluster.quick_client()?.election(args.name.as_str()).state().await?;
    let candidates = body.candidates.iter().map(ElectionRow::Candidate);
    let rows = body.leader.iter().map(ElectionRow::Leader).chain(candidates);
    answer_rows(
        args.cluster.format(),
        &body,
        rows,
        body.leader.iter().map(leader_value),
        &show(&body),
    );
    Ok(())
}

/// Returns the value of the leader, or its session if it has no value.
fn leader_value(leader: &LeaderBody) -> &str {
    leader.value.as_deref().unwrap_or(leader.session.as_str())
}

fn show(body: &ElectionBody) -> String {
    let election = &body.election;
    let line = match &body.leader {
        None => format!("{election} has no leader"),
        Some(leader) => {
            let (session, token) = (&leader.session, leader.token);
            let since = short_time(body.leading_for_ms.unwrap_or_default());
            let value = leader.value.as_ref().map(|value| format!(" at {value}"));
            let value = value.unwrap_or_default();
            format!("{election} is led by {session}{value} for {since}, token {token}")
        }
    };
    if body.candidates.is_empty() {
        return line;
    }
    let rows = body.candidates.iter().zip(1_u32..).map(|(candidate, position)| {
        [
            position.to_string(),
            candidate.session.to_string(),
            cell(candidate.value.as_ref()),
            short_time(candidate.waiting_for_ms),
        ]
    });
    let header = ["position", "candidate", "value", "waiting for"];
    let total = usize::try_from(body.candidates_total).unwrap_or(usize::MAX);
    format!("{line}\n\n{}{}", table(header, rows), more(total, body.candidates.len()))
}

/// One election of a list.
#[derive(Serialize)]
struct ListedElection {
    election: LockName,
    leader: Option<LeaderBody>,
    candidates: u32,
}

async fn ls(args: ElectLsArgs) -> Result<(), CommandFailure> {
    let prefix = args.prefix.unwrap_or_default();
    let prefix = format!("elections/{}", prefix.strip_suffix('*').unwrap_or(&prefix));
    let query = LockQuery { prefix: Some(prefix), ..LockQuery::default() };
    let mut elections: Vec<ListedElection> = Vec::new();
    let visit = |lock| elections.extend(listed(lock));
    args.cluster.quick_client()?.for_each_lock(query, visit).await?;
    let names = elections.iter().map(|listed| &listed.election);
    let header = ["election", "leader", "value", "token", "candidates"];
    let none = "no election has a leader or candidates";
    let text = table_or(none, header, elections.iter().map(row));
    answer_rows(args.cluster.format(), &elections, &elections, names, &text);
    Ok(())
}

/// An election with a leader or candidates.
fn listed(lock: LockBody) -> Option<ListedElection> {
    let election = election_of(&lock.lock).filter(|_| lock.held || lock.waiters > 0)?;
    let leader = lock.holders.into_iter().next().map(|holder| LeaderBody {
        session: holder.session,
        owner: holder.owner,
        token: holder.token,
        value: holder.value,
    });
    Some(ListedElection { election, leader, candidates: lock.waiters })
}

fn row(listed: &ListedElection) -> [String; 5] {
    let leader = listed.leader.as_ref();
    [
        listed.election.to_string(),
        cell(leader.map(|leader| &leader.session)),
        cell(leader.and_then(|leader| leader.value.as_ref())),
        cell(leader.map(|leader| leader.token)),
        listed.candidates.to_string(),
    ]
}

async fn watch(args: &ElectWatchArgs) -> Result<(), CommandFailure> {
    let OneLockArgs { name, cluster } = &args.election;
    let mut observer = cluster.client()?.election(name.as_str()).observe()?;
    let mut left = args.count.unwrap_or(u64::MAX);
    while left > 0 {
        print_change(cluster.format(), &observer.next_change().await?);
        check()?;
        left -= 1;
    }
    Ok(())
}

/// One change of the leader, as `-o jsonl` prints it.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum LeaderChange<'a> {
    Leader { leader: &'a LeaderBody, revision: u64 },
    Vacant { revision: u64 },
    Gap { until: u64 },
}

fn print_change(format: Format, observed: &ElectionChange) {
    let change = match observed {
        ElectionChange::Leader { leader, revision } => {
            LeaderChange::Leader { leader, revision: revision.0 }
        }
        ElectionChange::Vacant { revision } => LeaderChange::Vacant { revision: revision.0 },
        ElectionChange::Gap { until } => LeaderChange::Gap { until: until.0 },
    };
    // An election without a leader prints an empty value. A gap prints no value: the leader follows.
    let value = match &change {
        LeaderChange::Leader { leader, .. } => Some(leader_value(leader)),
        LeaderChange::Vacant { .. } => Some(""),
        LeaderChange::Gap { .. } => None,
    };
    answer_rows(format, &change, [&change], value, &line(&change));
}

/// `12  10.0.0.7:5432  token 4  db1`
fn line(change: &LeaderChange<'_>) -> String {
    match change {
        LeaderChange::Leader { leader, revision } => {
            let value = cell(leader.value.as_ref());
            format!("{revision}  {value}  token {}  {}", leader.token, leader.session)
        }
        LeaderChange::Vacant { revision } => format!("{revision}  no leader"),
        LeaderChange::Gap { until } => format!("{until}  earlier changes are missing"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_command::parse;

    #[test]
    fn the_leader_and_the_candidates_are_shown() {
        let body = r#"{"election":"db","leader":{"session":"db1","token":7,"value":"10.0.0.7"},"leading_for_ms":61000,
            "candidates":[{"session":"db2","value":"10.0.0.8","waiting_for_ms":5000},{"session":"db3","waiting_for_ms":1000}],
            "candidates_total":3,"revision":9}"#;
        let shown = show(&serde_json::from_str(body).unwrap());
        let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
        assert_eq!(lines[0], "db is led by db1 at 10.0.0.7 for 1m1s, token 7");
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!([words(lines[3]), words(lines[4])], ["1 db2 10.0.0.8 5s", "2 db3 - 1s"]);
        assert_eq!(lines[5], "and 1 more");
        let vacant =
            r#"{"election":"db","leader":null,"candidates":[],"candidates_total":0,"revision":9}"#;
        assert_eq!(show(&serde_json::from_str(vacant).unwrap()), "db has no leader");
    }

    #[test]
    fn a_change_of_the_leader_is_one_line() {
        let leader: LeaderBody =
            serde_json::from_str(r#"{"session":"db1","token":7,"value":"10.0.0.7"}"#).unwrap();
        let change = LeaderChange::Leader { leader: &leader, revision: 12 };
        assert_eq!(line(&change), "12  10.0.0.7  token 7  db1");
        assert_eq!(line(&LeaderChange::Vacant { revision: 13 }), "13  no leader");
    }

    #[test]
    fn a_name_and_a_command_start_a_candidate_and_a_subcommand_shows_elections() {
        let args =
            parse::<ElectArgs>("elect db --value 10.0.0.7 --forever -- serve --wait 3").unwrap();
        assert!(args.show.is_none() && args.forever);
        let run = args.into_run(LockName::new("elections/db").unwrap());
        assert_eq!(run.acquire.value.as_deref(), Some("10.0.0.7"));
        assert_eq!(run.command.command, ["serve", "--wait", "3"]);
        let shown = |line: &str| parse::<ElectArgs>(line).unwrap().show;
        assert!(
            matches!(shown("elect who db"), Some(ElectCommand::Who(args)) if args.name.as_str() == "db")
        );
        assert!(matches!(shown("elect ls"), Some(ElectCommand::Ls(_))));
        assert!(matches!(shown("elect watch db --count 1"), Some(ElectCommand::Watch(_))));
    }

    #[test]
    fn the_usage_of_an_incomplete_command_line_shows_the_dashes() {
        for line in ["elect db", "elect", "elect db --try --forever -- true"] {
            let error = parse::<ElectArgs>(line).unwrap_err();
            assert!(error.contains("<NAME> -- <COMMAND>"), "{error}");
        }
    }
}
