//! `holdfast lock`: takes a lock, prints its token on stdout, and holds it until ^C or SIGTERM.
//!
//! Nothing but the token is ever written to stdout, and only once the lock is held. Loss is exit code 76: whoever
//! started this must stop what the lock protected.

use std::time::Duration;

use holdfast_client::{Acquire, Client, Error, Guard};
use holdfast_types::{LockName, SessionName};

use super::waiting::report_waiting;
use super::{connect, for_people, lock_name, name_of, stop};
use crate::cli::{Format, LockArgs};
use crate::exit::Stop;
use crate::output::{complain, print, print_json};
use crate::serve::Signals;

pub(super) async fn run(args: LockArgs) -> Result<(), Stop> {
    let mut signals = Signals::install().map_err(Stop::failed)?;
    lock_name(&args.name)?;
    let client = connect(&args.target)?;
    let session = args.session.clone().unwrap_or_else(made_up_session);
    let taken = tokio::select! {
        taken = take(&args, &client, &session) => taken,
        never = report_waiting(&client, &args.name, &session), if !args.quiet => match never {},
        signal = signals.next() => {
            leave(&client, &args, &session).await;
            return Err(Stop::NotAcquired(format!("{signal} while waiting for {}", args.name)));
        }
    };
    let guard = taken.map_err(|error| not_taken(&args, &error))?;
    match args.target.output {
        Format::Json => print_json(guard.grant()),
        Format::Table | Format::Value => print(&guard.token().to_string()),
    }
    hold(guard, &args, &mut signals).await
}

async fn take(args: &LockArgs, client: &Client, session: &str) -> Result<Guard, Error> {
    let lock = client.lock(&args.name).ttl(args.ttl);
    let lock = match &args.session {
        Some(named) => lock.session(named),
        None => lock.own_session(session),
    };
    let lock = match (args.try_once, args.wait) {
        (true, _) => lock,
        (false, Some(wait)) => lock.wait(wait),
        (false, None) => lock.wait_forever(),
    };
    labelled(lock, args).acquire().await
}

/// Host, process and user, unless the caller says otherwise.
fn labelled(mut lock: Acquire, args: &LockArgs) -> Acquire {
    lock = lock.label("pid", std::process::id().to_string());
    if let Some(host) = host() {
        lock = lock.label("host", host);
    }
    if let Some(user) = std::env::var("USER").ok().filter(|user| !user.is_empty()) {
        lock = lock.label("user", user);
    }
    for (key, value) in &args.label {
        lock = lock.label(key, value);
    }
    lock
}

async fn hold(guard: Guard, args: &LockArgs, signals: &mut Signals) -> Result<(), Stop> {
    let loss = tokio::select! {
        loss = guard.lost() => loss,
        _ = signals.next() => {
            return guard.release().await.map_err(|error| {
                let ttl = for_people(millis(args.ttl));
                Stop::failed(format!("{} is not certainly released, it is free in {ttl} at the latest: {error}", args.name))
            });
        }
    };
    let lock = args.name.clone();
    Err(Stop::Lost(format!("{lock} is lost: {loss}; stop what it protected")))
}

fn not_taken(args: &LockArgs, error: &Error) -> Stop {
    let Error::Busy(_) = error else { return stop(&args.target, error) };
    let holder = match error.holder() {
        Some(holder) => {
            format!("held by {} for {}", name_of(holder), for_people(holder.since_ms))
        }
        None => "held by somebody else".to_owned(),
    };
    let advice =
        if args.try_once { "queue for it with --wait 30s" } else { "wait longer with --wait" };
    Stop::NotAcquired(format!("{} is {holder}: {advice}", args.name))
}

/// Leaves the queue, so that nobody waits for a process that is gone.
async fn leave(client: &Client, args: &LockArgs, session: &str) {
    let client = client.clone().patience(Duration::from_secs(2));
    let (Ok(lock), Ok(name)) = (LockName::new(&args.name), SessionName::new(session)) else {
        return;
    };
    let left = match &args.session {
        Some(_) => client.release(&lock, &name).await,
        None => client.close_session(&name).await,
    };
    if let Err(error) = left {
        complain(&format!("holdfast: could not leave the queue of {lock}: {error}"));
    }
}

/// `web-3-812-5f2a`: host and process for people, the rest because process ids come again.
fn made_up_session() -> String {
    let since =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let host = host().unwrap_or_else(|| "cli".to_owned());
    format!("{host}-{}-{:x}", std::process::id(), since.as_micros() & 0xff_ffff_ffff)
}

fn host() -> Option<String> {
    let name = nix::unistd::gethostname().ok()?.into_string().ok()?;
    Some(name).filter(|name| !name.is_empty() && name.len() <= 64)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
