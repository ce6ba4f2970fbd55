//! `holdfast barrier`: arrives at a barrier, and enters and leaves double barriers, whose members enter together and leave
//! together.
//!
//! A member of a double barrier is a session that the caller names, not this process: one command enters, and another
//! command leaves. For a wait longer than one call, the command repeats the call, which keeps the queue position.

use std::cell::Cell;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use holdfast_api::parameters::{TTL, recipe};
use holdfast_api::{BarrierBody, LeftBody, Query, TrippedBody, double_barrier_path};
use holdfast_client::http::Method;
use holdfast_client::{Call, Client, Error, with_request_number};
use holdfast_types::{RecipeKind, RecipeName, RequestNumber, Revision, SessionName, Ttl};

use super::acquire::LEAVE_TIMEOUT;
use super::calls;
use super::outer_locks::OuterLocks;
use super::recipes::RecipeListArgs;
use crate::arguments::{RecipeArgs, duration};
use crate::exit::CommandFailure;
use crate::output::{answer, table};
use crate::signals::StopSignals;

/// Wait until all parties have arrived; double barriers also wait until all have left.
#[derive(Debug, Subcommand)]
pub(crate) enum BarrierCommand {
    /// Arrive and wait for the other parties; print the position in the order of arrival.
    Arrive(ArriveArgs),
    /// Enter a double barrier together with the other members; print the position in the order of arrival.
    Enter(EnterArgs),
    /// Leave a double barrier, and wait until all members have left.
    Leave(BarrierMemberArgs),
    /// Show the members that wait to enter a double barrier, and those inside.
    Who(RecipeArgs),
    /// List the barriers and the double barriers that have members.
    Ls(RecipeListArgs),
}

pub(crate) async fn run(command: BarrierCommand) -> Result<(), CommandFailure> {
    match command {
        BarrierCommand::Arrive(args) => arrive(args).await,
        BarrierCommand::Enter(args) => enter(args).await,
        BarrierCommand::Leave(args) => leave(args).await,
        BarrierCommand::Who(args) => who(&args).await,
        BarrierCommand::Ls(args) => {
            args.run(&[RecipeKind::Barrier, RecipeKind::DoubleBarrier]).await
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct ArriveArgs {
    #[command(flatten)]
    barrier: RecipeArgs,
    /// The number of parties.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    parties: u32,
    /// How long to wait for the other parties; the end of the wait and ^C break the barrier.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    wait: Duration,
    /// How long the other parties wait if this process dies.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    ttl: Duration,
}

async fn arrive(args: ArriveArgs) -> Result<(), CommandFailure> {
    let mut signals = StopSignals::install().map_err(CommandFailure::failed)?;
    let RecipeArgs { name, cluster } = args.barrier;
    let client =
        cluster.nodes.client_with(|builder| builder.ttl(args.ttl).session_prefix("cli"))?;
    let barrier = client.barrier(name.as_str(), args.parties);
    let passed = async {
        tokio::select! {
            passed = barrier.arrive(args.wait) => passed.map_err(|error| {
                if let Error::Lost(_) = error {
                    CommandFailure::NotAcquired(error.to_string())
                } else {
                    error.into()
                }
            }),
            signal = signals.next() => {
                Err(CommandFailure::Signalled(signal, Some(format!("{signal} while waiting at {name}"))))
            }
        }
    };
    // The end of the session breaks the barrier for the waiting parties at once.
    let passed = calls::closing(&client, passed).await?;
    answer(cluster.format(), &passed, passed.index, &passed.index.to_string());
    Ok(())
}

#[derive(Debug, Args)]
pub(crate) struct EnterArgs {
    /// The number of members.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    parties: u32,
    /// The ttl of a session that does not exist yet. This command does not renew it.
    #[arg(long, value_name = "TIME", value_parser = ttl)]
    ttl: Option<Ttl>,
    #[command(flatten)]
    member: BarrierMemberArgs,
}

/// A member of a double barrier.
#[derive(Debug, Args)]
pub(crate) struct BarrierMemberArgs {
    #[command(flatten)]
    barrier: RecipeArgs,
    /// The session of the member, which leaves when the session ends. `holdfast run` and `holdfast lock` set it.
    #[arg(long, env = "HOLDFAST_SESSION", value_name = "SESSION")]
    session: SessionName,
    /// How long to wait for the other members.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    wait: Duration,
}

fn ttl(text: &str) -> Result<Ttl, String> {
    Ttl::from_millis(holdfast_types::millis(duration(text)?)).map_err(|error| error.to_string())
}

fn path(args: &RecipeArgs) -> Result<String, CommandFailure> {
    Ok(double_barrier_path(&RecipeName::new(&args.name).map_err(CommandFailure::usage)?))
}

async fn enter(EnterArgs { parties, ttl, member }: EnterArgs) -> Result<(), CommandFailure> {
    let RecipeArgs { name, cluster } = &member.barrier;
    let (path, client) = (path(&member.barrier)?, cluster.client()?);
    let Some(live) = OuterLocks::live_session(&client, member.session.clone()).await? else {
        return Err(CommandFailure::failed("name a session that lives, with --session"));
    };
    // From here on a signal leaves the barrier.
    let mut signals = StopSignals::install().map_err(CommandFailure::failed)?;
    let session = Query::default().with(&recipe::MEMBER, &live);
    let arrival = session.clone().with(&recipe::PARTIES, &parties).with_some(&TTL, ttl.as_ref());
    let (latest, until) = (Cell::new(RequestNumber(0)), Instant::now() + member.wait);
    let arrive = |request| {
        latest.set(request);
        let arrival = arrival.clone().with(&recipe::ARRIVAL, &request);
        let (client, path) = (&client, &path);
        let call = move |wait| {
            let query = arrival.clone().with(&recipe::WAIT, &wait);
            Call::new(Method::PUT, query.target(path))
        };
        async move { client.call_until(until, call).await }
    };
    let entered = tokio::select! {
        entered = with_request_number(arrive) => entered.map_err(|error| (may_have_arrived(&error), error.into())),
        signal = signals.next() => {
            let stopped = format!("{signal} while waiting to enter {name}");
            Err((true, CommandFailure::Signalled(signal, Some(stopped))))
        }
    };
    if let Err((true, _)) = &entered {
        // The other members no longer wait for this member, and a late copy of the arrival does not arrive. The second
        // call leaves if the member has entered.
        let leave = tokio::time::timeout(LEAVE_TIMEOUT, async {
            let delete = async |query: Query| {
                let call = Call::new(Method::DELETE, query.target(&path));
                let _left = client.call::<LeftBody>(&call).await;
            };
            delete(session.with(&recipe::LEFT_ARRIVAL, &latest.get())).await;
            if let Ok(entered) = leaving(&client, &path, &live).await {
                delete(entered).await;
            }
        });
        tokio::select! {
            _in_time = leave => {}
            _second = signals.next() => {}
        }
    }
    let passed: TrippedBody = entered.map_err(|(_, failure)| failure)?;
    answer(cluster.format(), &passed, passed.index, &passed.index.to_string());
    Ok(())
}

/// Whether a failed arrival may be in the cluster. A rejected one is not, and its member may be inside since an earlier command.
fn may_have_arrived(error: &Error) -> bool {
    error.is_retryable() || matches!(error, Error::UnexpectedResponse(_))
}

async fn leave(args: BarrierMemberArgs) -> Result<(), CommandFailure> {
    let (path, cluster) = (path(&args.barrier)?, &args.barrier.cluster);
    let client = cluster.client()?;
    let leaving = leaving(&client, &path, &args.session).await?;
    let call = |wait| {
        let query = leaving.clone().with(&recipe::WAIT, &wait);
        Call::new(Method::DELETE, query.target(&path))
    };
    let left: LeftBody = client.call_until(Instant::now() + args.wait, call).await?;
    let text = if left.left { "left" } else { "was not inside" };
    answer(cluster.format(), &left, text, text);
    Ok(())
}

/// Returns the query with which a member leaves.
async fn leaving(client: &Client, path: &str, member: &SessionName) -> Result<Query, Error> {
    let body: BarrierBody = client.call(&Call::get(path)).await?;
    let query = Query::default().with(&recipe::MEMBER, member);
    Ok(query.with_some(&recipe::GENERATION, round_to_leave(&body, member).as_ref()))
}

/// Returns the round to leave. A member that waits is in none. The list of the members inside may be incomplete.
fn round_to_leave(body: &BarrierBody, member: &SessionName) -> Option<Revision> {
    body.round.filter(|_| !body.arrived.contains(member))
}

async fn who(args: &RecipeArgs) -> Result<(), CommandFailure> {
    let body: BarrierBody = args.cluster.client()?.call(&Call::get(path(args)?)).await?;
    let inside: Vec<&str> = body.inside.iter().map(SessionName::as_str).collect();
    answer(args.cluster.format(), &body, inside.join("\n"), &show(&body));
    Ok(())
}

fn show(body: &BarrierBody) -> String {
    let row = |session: &SessionName, state: &str| [session.to_string(), state.to_owned()];
    let inside = body.inside.iter().map(|session| row(session, "inside"));
    let waiting = body.arrived.iter().map(|session| row(session, "waits to enter"));
    let rows: Vec<_> = inside.chain(waiting).collect();
    if rows.is_empty() {
        return format!("{} has no members", body.barrier);
    }
    format!("{} of {} parties\n\n{}", body.barrier, body.parties, table(["session", "state"], rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_command::{block_on, parse, scripted_node};

    /// A rejected member has not arrived. It may be inside since an earlier command.
    #[test]
    fn a_member_leaves_after_an_unknown_outcome_and_not_after_a_rejection() {
        let inside =
            r#"{"barrier":"b","parties":2,"arrived":[],"round":7,"inside":["me"],"revision":9}"#;
        let rejection = r#"{"type":"/errors/in-use","title":"no","status":409,"code":"in-use","retryable":false}"#;
        let left = ["DELETE /v1/double-barriers/b?session=me&request=", "GET", "DELETE"];
        for (answer, expected) in [((200, "<html>"), &left[..]), ((409, rejection), &[])] {
            let (address, lines) = scripted_node(move |line| match line {
                line if line.starts_with("PUT ") => (answer.0, answer.1.to_owned()),
                line if line.starts_with("GET ") => (200, inside.to_owned()),
                _ => (200, r#"{"left":true,"revision":9}"#.to_owned()),
            });
            let line = format!("barrier enter b --parties 2 --session me --addr {address}");
            let failed = block_on(run(parse(&line).unwrap())).unwrap_err();
            let lines = lines.lock().unwrap();
            let after: Vec<_> = lines.iter().skip_while(|line| line.starts_with("PUT ")).collect();
            let is_expected = after.len() == expected.len()
                && after.iter().zip(expected).all(|(line, start)| line.starts_with(start));
            assert!(is_expected, "{failed}: {lines:?}");
        }
    }

    #[test]
    fn a_member_that_does_not_wait_leaves_the_current_round_alone() {
        let name = |number: u32| SessionName::new(format!("s{number}")).unwrap();
        let body = |round: Option<u64>| BarrierBody {
            barrier: RecipeName::new("batch").unwrap(),
            parties: 101,
            generation: None,
            arrived: vec![name(200)],
            round: round.map(Revision),
            inside: (1..=100).map(name).collect(),
            revision: Revision(9),
        };
        let round = |member| round_to_leave(&body(Some(7)), &name(member));
        assert_eq!(round(1), Some(Revision(7)));
        assert_eq!(round(101), Some(Revision(7)), "it is inside, beyond the list");
        assert_eq!(round(200), None, "it waits for the next round");
        assert_eq!(round_to_leave(&body(None), &name(1)), None);
    }
}
