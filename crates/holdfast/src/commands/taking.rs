//! Taking a lock at the command line, for `lock` and `run`: the session's name and labels, progress, signals meanwhile.
//!
//! The lock is held for the session as such, so that `holdfast unlock --session` and plain HTTP calls with the same
//! session mean the same lock.

use std::time::Duration;

use holdfast_client::{Client, ClientBuilder, Error, Guard, Lock};

use super::waiting::report_waiting;
use super::{for_people, lock_name, name_of, stop};
use crate::cli::{Permits, TakeArgs, Target};
use crate::exit::Stop;
use crate::output::complain;
use crate::serve::Signals;

/// How long leaving a queue, or giving back what is lost anyway, may hold up the end.
const FAREWELL: Duration = Duration::from_secs(2);

/// How long to look for a node that answers, unless `--timeout` says otherwise.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The same for a caller that does not want to wait: as long as an election of a leader may take.
const TIMEOUT_SHORT: Duration = Duration::from_secs(3);

/// The client for one lock, and what the session of it is called, or how its name begins.
pub(super) fn client_for(args: &TakeArgs, target: &Target) -> Result<(Client, String), Stop> {
    lock_name(&args.name)?;
    let builder = Client::builder(&target.addr);
    let (mut builder, session) = if let Some(name) = &args.session {
        (builder.named_session(name), name.clone())
    } else {
        let prefix = made_up_prefix();
        (who_we_are(builder.session_prefix(&prefix)), prefix)
    };
    if let Some(ttl) = args.ttl {
        refuse_to_change_the_session_of(args)?;
        builder = builder.ttl(ttl);
    }
    for (key, value) in &args.label {
        builder = builder.label(key, value);
    }
    let client = builder
        .request_timeout(timeout_of(args))
        .build()
        .map_err(|error| Stop::usage(format!("{error}; see --addr and HOLDFAST_ADDR")))?;
    Ok((client, session))
}

fn timeout_of(args: &TakeArgs) -> Duration {
    let wait = if args.try_once { Some(Duration::ZERO) } else { args.wait };
    let usual = wait.map_or(TIMEOUT, |wait| wait.clamp(TIMEOUT_SHORT, TIMEOUT));
    args.timeout.unwrap_or(usual)
}

/// Takes the lock, with progress on stderr; a signal ends the waiting.
pub(super) async fn take(
    args: &TakeArgs,
    target: &Target,
    (client, session): &(Client, String),
    signals: &mut Signals,
) -> Result<Guard, Stop> {
    let lock = wanted(client.lock(&args.name).as_session(), args);
    let segment = args.segment.map(|at| format!("{}/{at}", args.name));
    let looked_at = segment.unwrap_or_else(|| args.name.clone());
    let taken = {
        let taking = async {
            match (args.try_once, args.wait) {
                (true, _) => lock.try_acquire().await,
                (false, Some(wait)) => lock.wait(wait).acquire().await,
                (false, None) => lock.acquire().await,
            }
        };
        tokio::select! {
            taken = taking => Ok(taken),
            never = report_waiting(client, &looked_at, session), if !args.quiet => match never {},
            signal = signals.next() => Err(signal),
        }
    };
    match taken {
        Ok(Ok(guard)) => Ok(guard),
        Ok(Err(error)) => {
            leave(client, args).await;
            Err(not_taken(args, target, &error))
        }
        Err(signal) => {
            leave(client, args).await;
            Err(Stop::NotAcquired(format!("{signal} while waiting for {}", args.name)))
        }
    }
}

/// Everything that is asked for beyond the name.
fn wanted(lock: Lock, args: &TakeArgs) -> Lock {
    let mut lock = lock.priority(args.priority);
    if args.shared {
        lock = lock.shared();
    }
    if let Some(Permits { count, limit }) = args.permits {
        lock = lock.permits(count);
        lock = limit.into_iter().fold(lock, Lock::limit);
    }
    lock = args.segments.into_iter().fold(lock, Lock::segments);
    lock = args.segment.into_iter().fold(lock, Lock::segment);
    lock = args.max_hold.into_iter().fold(lock, Lock::max_hold);
    lock = args.min_hold.into_iter().fold(lock, Lock::min_hold);
    args.value.iter().fold(lock, Lock::value)
}

/// Gives back what is left, so that nobody waits for a process that is gone.
pub(super) async fn leave(client: &Client, args: &TakeArgs) {
    let left = tokio::time::timeout(FAREWELL, client.close()).await;
    if !matches!(left, Ok(Ok(()) | Err(Error::Lost(_)))) {
        complain(&format!("holdfast: could not leave the queue of {} for certain", args.name));
    }
}

pub(super) fn not_taken(args: &TakeArgs, target: &Target, error: &Error) -> Stop {
    let Error::Busy(_) = error else { return stop(target, error) };
    let holder = match (error.holder(), error.problem()) {
        (Some(holder), _) => {
            format!("held by {} for {}", name_of(holder), for_people(holder.since_ms))
        }
        (None, Some(problem)) if !problem.detail.is_empty() => {
            format!("closed: {}", problem.detail)
        }
        (None, _) => "held by somebody else".to_owned(),
    };
    let advice =
        if args.try_once { "queue for it with --wait 30s" } else { "wait longer with --wait" };
    Stop::NotAcquired(format!("{} is {holder}: {advice}", name_of_taken(args, error)))
}

/// The lock that was in the way: of several, the one that the answer is about.
fn name_of_taken<'a>(args: &'a TakeArgs, error: &'a Error) -> &'a str {
    let told = error.problem().and_then(|problem| problem.facts.lock.as_ref());
    told.map_or(args.name.as_str(), |lock| lock.as_str())
}

/// Under another `holdfast run` the session is that one's: a shorter time-to-live would cut its lease behind its back.
fn refuse_to_change_the_session_of(args: &TakeArgs) -> Result<(), Stop> {
    let inherited = std::env::var("HOLDFAST_SESSION").ok();
    let nested = ["HOLDFAST_TOKEN", "HOLDFAST_TOKENS"].map(std::env::var_os);
    let nested = nested.iter().any(Option::is_some);
    if nested && inherited.is_some() && inherited == args.session {
        return Err(Stop::failed(
            "--ttl would change the session of the holdfast run around this one (HOLDFAST_SESSION): \
             leave it out, or name another session with --session",
        ));
    }
    Ok(())
}

/// Host, process and user.
fn who_we_are(builder: ClientBuilder) -> ClientBuilder {
    let mut builder = builder.label("pid", std::process::id().to_string());
    if let Some(host) = host() {
        builder = builder.label("host", host);
    }
    if let Some(user) = std::env::var("USER").ok().filter(|user| !user.is_empty()) {
        builder = builder.label("user", user);
    }
    builder
}

/// `web-3-812`: host and process for people; the client adds what nobody else has.
fn made_up_prefix() -> String {
    let host = host().unwrap_or_else(|| "cli".to_owned());
    format!("{host}-{}", std::process::id())
}

fn host() -> Option<String> {
    let name = nix::unistd::gethostname().ok()?.into_string().ok()?;
    Some(name).filter(|name| !name.is_empty() && name.len() <= 64)
}
