//! `holdfast unlock`: releases a lock or leaves its queue; transfers, force-releases, or asks for a release.
//!
//! A repeated release has no further effect.

use clap::Args;
use holdfast_api::{ErrorCode, HolderBody, LockBody};
use holdfast_client::{Client, Error};
use holdfast_types::{FencingToken, LockName, Owner, Reason, SessionName};

use super::lock_text::{cooldown_text, holder_name, holders_total};
use super::outer_locks::OuterLocks;
use super::release_requests::{AskArgs, request_release};
use super::session::no_session;
use crate::arguments::{ClusterArgs, fencing_token};
use crate::exit::{CommandFailure, with_hint};
use crate::hints::common_hint;
use crate::output::{answer, short_time, write_stderr};

/// Release a lock; or transfer it, ask its holders to release it, or force-release it.
#[derive(Debug, Args)]
pub(crate) struct UnlockArgs {
    /// The lock.
    name: LockName,
    /// The session that holds the lock or waits for it; below holdfast run the session that acquired the lock for the run.
    /// It has no effect with --force, --ask and --owner.
    #[arg(long, env = "HOLDFAST_SESSION", required_unless_present_any = ["force", "ask", "owner"])]
    session: Option<SessionName>,
    /// Transfer the lock to this open session, which holds it at once with a new token.
    #[arg(long, value_name = "SESSION", conflicts_with = "force")]
    to: Option<SessionName>,
    /// Give back this many permits of a semaphore and keep the others; the last one ends the hold.
    #[arg(long, value_name = "N", conflicts_with_all = ["force", "to", "ask"], value_parser = clap::value_parser!(u32).range(1..))]
    permits: Option<u32>,
    /// The owner of a durable hold.
    #[arg(long, value_name = "NAME", requires = "token", conflicts_with_all = ["force", "to", "ask", "permits"])]
    owner: Option<Owner>,
    /// The token of the durable hold.
    #[arg(long, value_name = "N", requires = "owner", value_parser = fencing_token)]
    token: Option<FencingToken>,
    /// End the holds of all holders, and the rest of a --min-hold or a cooldown. For operators.
    #[arg(long, requires = "reason")]
    force: bool,
    #[command(flatten)]
    ask: AskArgs,
    /// The reason of --force or --ask, which the holders receive.
    #[arg(long, value_name = "TEXT")]
    reason: Option<Reason>,
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub(crate) async fn run(args: UnlockArgs) -> Result<(), CommandFailure> {
    let client = args.cluster.client()?;
    if args.ask.ask {
        return request_release(&client, &args.name, &args.ask, args.reason).await;
    }
    if args.reason.is_some() && !args.force {
        return Err(CommandFailure::usage("--reason needs --force or --ask"));
    }
    if let (Some(owner), Some(token)) = (&args.owner, args.token) {
        return release_durable(&client, &args.name, owner, token).await;
    }
    let session = args.session.clone().map(|session| of_outer_run(&args.name, session));
    match (&args.reason, &session, &args.to) {
        (Some(reason), _, _) if args.force => force_release(&client, &args.name, reason).await,
        (_, Some(session), Some(to)) => transfer(&client, &args, session, to).await,
        (_, Some(session), None) => {
            if args.permits.is_none() {
                warn_of_outer_run(&args.name, session);
            }
            release(&client, &args.name, session, args.permits).await
        }
        (_, None, _) => Err(CommandFailure::usage(
            "name the session with --session, or use --force --reason TEXT",
        )),
    }
}

/// Each of several nested `holdfast run` may have a session of its own: returns the one that has the lock.
fn of_outer_run(lock: &LockName, session: SessionName) -> SessionName {
    let outer = OuterLocks::inherited();
    match outer.find(lock, false) {
        Some(outer_lock) if outer.is_innermost(&session) => outer_lock.session.clone(),
        Some(_) | None => session,
    }
}

/// Prints a line before the release of the lock of an outer command: `holdfast run` kills this process, too.
fn warn_of_outer_run(lock: &LockName, session: &SessionName) {
    let outer = OuterLocks::inherited();
    if outer.find(lock, false).is_some_and(|outer_lock| outer_lock.session == *session) {
        write_stderr(&format!(
            "holdfast: {lock} is the lock of the holdfast run around this command, which may kill this command (see --on-loss)"
        ));
    }
}

/// Releases the lock, or some permits of it.
async fn release(
    client: &Client,
    lock: &LockName,
    session: &SessionName,
    permits: Option<u32>,
) -> Result<(), CommandFailure> {
    let before = client.lock_state(lock).await?;
    let released = match permits {
        Some(permits) => client.release_permits(lock, session, permits).await,
        None => client.release(lock, session).await,
    };
    match released {
        Ok(()) => {
            let is_listed = before.holders.iter().any(|holder| holder.session == *session);
            let text = match permits {
                Some(permits) if is_listed || before.holders.len() < holders_total(&before) => {
                    format!("{permits} permits of {lock} are released")
                }
                Some(_) | None => released_text(&before, session),
            };
            write_stderr(&format!("holdfast: {text}"));
            Ok(())
        }
        Err(Error::Rejected(problem)) if problem.code == ErrorCode::LimitMismatch => {
            let fix =
                format!("give back fewer, or all: holdfast unlock {lock} --session {session}");
            Err(CommandFailure::failed(format!("{} ({fix})", Error::Rejected(problem))))
        }
        Err(Error::Lost(_)) => {
            let body = client.lock_state(lock).await?;
            Err(not_held(lock, session, body.holder(), &no_session(session)))
        }
        Err(Error::Rejected(problem)) if problem.code == ErrorCode::NotHolder => {
            let holder = problem.facts.holder.clone();
            let error = Error::Rejected(problem);
            let reason = with_hint(&error, common_hint(&error));
            Err(not_held(lock, session, holder.as_deref(), &reason))
        }
        Err(error) => Err(error.into()),
    }
}

/// The effect of a release, from the state of the lock before it.
fn released_text(before: &LockBody, session: &SessionName) -> String {
    let lock = &before.lock;
    let is_listed =
        |listed: usize, total: u32| usize::try_from(total).is_ok_and(|total| listed == total);
    if before.holders.iter().any(|holder| holder.session == *session) {
        format!("{lock} is released")
    } else if before.queue.iter().any(|waiter| waiter.session == *session) {
        format!("{session} left the queue of {lock}")
    } else if before.holders.len() == holders_total(before)
        && is_listed(before.queue.len(), before.waiters)
    {
        format!("{session} did not hold {lock}")
    } else {
        format!("{session} neither holds {lock} nor waits for it")
    }
}

fn not_held(
    lock: &LockName,
    session: &SessionName,
    holder: Option<&HolderBody>,
    reason: &str,
) -> CommandFailure {
    match holder {
        Some(holder) => CommandFailure::failed(format!(
            "{lock} is held by {} for {}, not by {session}. Ask for it: holdfast unlock {lock} --ask; \
             or as operator: holdfast unlock {lock} --force --reason TEXT",
            holder_name(holder),
            short_time(holder.held_for_ms)
        )),
        None => CommandFailure::failed(format!("{session} does not hold {lock}: {reason}")),
    }
}

async fn release_durable(
    client: &Client,
    lock: &LockName,
    owner: &Owner,
    token: FencingToken,
) -> Result<(), CommandFailure> {
    let is_theirs = |body: &LockBody| {
        let mut holders = body.holders.iter();
        let found = holders
            .find(|holder| holder.durable_reason.is_some() && holder.owner.as_ref() == Some(owner));
        found.map(|holder| holder.token)
    };
    let before = is_theirs(&client.lock_state(lock).await?);
    match client.release_durable(lock, owner, token).await {
        // The owner has no session here.
        Ok(()) | Err(Error::Lost(_)) => {}
        Err(error) => return Err(error.into()),
    }
    match before {
        Some(held) if held == token => write_stderr(&format!("holdfast: {lock} is released")),
        Some(held) => {
            return Err(CommandFailure::failed(format!(
                "{owner} holds {lock} with token {held}, not {token}: nothing is released"
            )));
        }
        None => write_stderr(&format!("holdfast: {owner} did not hold {lock}")),
    }
    Ok(())
}

async fn transfer(
    client: &Client,
    args: &UnlockArgs,
    session: &SessionName,
    to: &SessionName,
) -> Result<(), CommandFailure> {
    let lock = &args.name;
    let handed = client.transfer(lock, session, to).await;
    if let Err(Error::Lost(_)) = handed {
        return Err(CommandFailure::failed(format!(
            "one of {session} and {to} is not an open session: see holdfast session ls"
        )));
    }
    let body = handed?;
    let text = format!("{to} now holds {lock}, token {}", body.token);
    answer(args.cluster.format(), &body, body.token, &text);
    Ok(())
}

/// Ends each hold by its token, which does not affect a later holder. Without a hold, ends the `min_hold` of the last
/// holder and the cooldown of the policy, by the token of that holder. A read lists only the first of many holders.
async fn force_release(
    client: &Client,
    lock: &LockName,
    reason: &Reason,
) -> Result<(), CommandFailure> {
    let mut body = client.lock_state(lock).await?;
    if let count @ 1.. = body.shards.len() {
        let shards = format!("{lock} has {count} shards: name one of them, such as {lock}/0");
        return Err(CommandFailure::failed(shards));
    }
    // Holders with a larger token are later ones.
    let newest = body.last_token.unwrap_or_default();
    if body.holders.is_empty() {
        write_stderr(&match cooldown_text(&body) {
            Some(cooldown) => format!("holdfast: {lock} was {cooldown}"),
            None => format!("holdfast: {lock} is not held"),
        });
        if body.cooldown.is_some() {
            client.force_release(lock, body.last_token, reason).await?;
            body = client.lock_state(lock).await?;
        }
    }
    while body.held && body.min_valid_token <= newest {
        let before = body.holders.iter().filter(|holder| holder.token <= newest);
        let before: Vec<&HolderBody> = before.collect();
        if before.is_empty() {
            return Err(CommandFailure::failed(format!(
                "{lock} has more holders than are listed: repeat the command"
            )));
        }
        end_holds(client, lock, &before, reason).await?;
        body = client.lock_state(lock).await?;
    }
    if let Some(left) = cooldown_text(&body) {
        write_stderr(&format!("holdfast: {lock} is {left}"));
    }
    Ok(())
}

async fn end_holds(
    client: &Client,
    lock: &LockName,
    holders: &[&HolderBody],
    reason: &Reason,
) -> Result<(), CommandFailure> {
    for holder in holders {
        let token = holder.token;
        let ended = client.force_release(lock, Some(token), reason).await?.ended;
        let (name, since) = (holder_name(holder), short_time(holder.held_for_ms));
        write_stderr(&match ended {
            0 => format!("holdfast: {name} no longer held {lock} with token {token}"),
            _ => format!("holdfast: took {lock} from {name}, held for {since} with token {token}"),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_command::parse;

    #[test]
    fn unlock_needs_a_session_unless_it_is_forced_or_a_request() {
        assert!(parse::<UnlockArgs>("unlock a").unwrap_err().contains("--session"));
        assert!(parse::<UnlockArgs>("unlock a --force --reason stuck").is_ok());
        let asked = parse::<UnlockArgs>("unlock a --ask --holder me --deadline 5m").unwrap();
        assert!(asked.ask.ask && asked.session.is_none());
        for wrong in ["--force", "--ask --force --reason x", "--ask --to you", "--revoke"] {
            assert!(parse::<UnlockArgs>(&format!("unlock a {wrong}")).is_err(), "{wrong}");
        }
    }
}
