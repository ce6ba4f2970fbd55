//! What `lock` and `run` hold: one lock, or several at once, which end together for whoever started the program.
//!
//! Owns the difference between the two, so that nobody else has to know it: deadlines, losses, tokens and the giving back.
//! The loss of one lock of several is the loss of all: what was to be done under all of them must stop.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::task::Poll;
use std::time::Duration;

use holdfast_api::{GrantAllBody, GrantBody};
use holdfast_client::{
    Client, Error, Guard, Hold, Loss, Moment, MultiGuard, MultiLock, ReleaseRequest,
};
use nix::sys::signal::Signal;

use super::lock_name;
use super::taking::{leave, not_taken, take};
use super::waiting::report_waiting;
use crate::cli::{Format, TakeArgs, Target};
use crate::exit::Stop;
use crate::output::{answer, answer_rows};
use crate::serve::Signals;

/// A wait shorter than this is not worth a word.
const SILENCE: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug)]
pub(super) enum Held {
    One(Box<Guard>),
    All(MultiGuard),
}

/// The release requests that were reported, by lock.
#[derive(Debug, Default)]
pub(super) struct Requests(BTreeMap<String, ReleaseRequest>);

impl Requests {
    /// Notes a request. Returns the line that reports it, with the signal that the command is sent.
    pub(super) fn learn(
        &mut self,
        (lock, request): (String, ReleaseRequest),
        signal: Option<Signal>,
    ) -> String {
        let sent = signal.map(|signal| format!(": {signal}")).unwrap_or_default();
        let line = format!("holdfast: {lock}: {request}{sent}");
        self.0.insert(lock, request);
        line
    }
}

/// Takes what is asked for, with progress on stderr; a signal ends the waiting.
pub(super) async fn take_all(
    args: &TakeArgs,
    target: &Target,
    client: &(Client, String),
    signals: &mut Signals,
) -> Result<Held, Stop> {
    if args.also.is_empty() {
        return take(args, target, client, signals).await.map(|guard| Held::One(Box::new(guard)));
    }
    let names = || std::iter::once(&args.name).chain(&args.also);
    for name in names() {
        lock_name(name)?;
    }
    let (client, session) = client;
    let locks = wanted(client.lock_many(names()).as_session(), args);
    let taken = {
        let taking = async {
            match (args.try_once, args.wait) {
                (true, _) => locks.try_acquire().await,
                (false, Some(wait)) => locks.wait(wait).acquire().await,
                (false, None) => locks.acquire().await,
            }
        };
        tokio::select! {
            taken = taking => Ok(taken),
            never = report(client, names(), session), if !args.quiet => match never {},
            signal = signals.next() => Err(signal),
        }
    };
    match taken {
        Ok(Ok(guard)) => Ok(Held::All(guard)),
        Ok(Err(error)) => {
            leave(client, args).await;
            Err(not_taken(args, target, &error))
        }
        Err(signal) => {
            leave(client, args).await;
            Err(Stop::NotAcquired(format!("{signal} while waiting for {}", name_of(args))))
        }
    }
}

fn wanted(locks: MultiLock, args: &TakeArgs) -> MultiLock {
    let locks = if args.shared { locks.shared() } else { locks };
    args.max_hold.into_iter().fold(locks, MultiLock::max_hold)
}

/// Reports about the first of the locks that somebody else has.
async fn report<'n>(
    client: &Client,
    names: impl Iterator<Item = &'n String>,
    session: &str,
) -> Infallible {
    tokio::time::sleep(SILENCE).await;
    let mut in_the_way = None;
    for name in names {
        let looked = match lock_name(name) {
            Ok(lock) => client.look(&lock).await.ok(),
            Err(_) => None,
        };
        let taken = looked.is_some_and(|body| body.held || body.closed.is_some());
        if taken || in_the_way.is_none() {
            in_the_way = Some(name);
        }
        if taken {
            break;
        }
    }
    report_waiting(client, in_the_way.map_or("", |name| name), session).await
}

/// All names, for messages.
pub(super) fn name_of(args: &TakeArgs) -> String {
    let names: Vec<&str> =
        std::iter::once(&args.name).chain(&args.also).map(String::as_str).collect();
    names.join(" and ")
}

impl Held {
    /// One, or each of them.
    pub(super) fn holds(&self) -> Vec<&Hold> {
        match self {
            Self::One(guard) => vec![guard],
            Self::All(guard) => guard.holds().collect(),
        }
    }

    pub(super) fn remaining(&self) -> Duration {
        match self {
            Self::One(guard) => guard.remaining(),
            Self::All(guard) => guard.remaining(),
        }
    }

    /// Whether all of it is certainly still held.
    pub(super) fn is_held(&self) -> bool {
        match self {
            Self::One(guard) => guard.is_held(),
            Self::All(guard) => guard.is_held(),
        }
    }

    pub(super) fn deadline_moment(&self) -> Option<Moment> {
        match self {
            Self::One(guard) => guard.deadline_moment(),
            Self::All(guard) => guard.deadline_moment(),
        }
    }

    pub(super) async fn deadline_after(&self, known: Moment) -> Result<Moment, Loss> {
        match self {
            Self::One(guard) => guard.deadline_after(known).await,
            Self::All(guard) => guard.deadline_after(known).await,
        }
    }

    /// Resolves when it is lost, with the lock and why.
    pub(super) async fn lost(&self) -> (String, Loss) {
        match self {
            Self::One(guard) => (guard.lock().to_string(), guard.lost().await),
            Self::All(guard) => {
                let (lock, loss) = guard.lost().await;
                (lock.to_string(), loss)
            }
        }
    }

    /// Resolves with a release request that is not known yet, and the lock that it is about.
    pub(super) async fn release_requested(&self, known: &Requests) -> (String, ReleaseRequest) {
        let mut all: Vec<_> = Vec::new();
        for hold in self.holds() {
            let lock = hold.lock().to_string();
            let request = Box::pin(hold.release_requested_after(known.0.get(&lock)));
            all.push((lock, request));
        }
        std::future::poll_fn(|context| {
            for (lock, request) in &mut all {
                if let Poll::Ready(request) = request.as_mut().poll(context) {
                    return Poll::Ready((lock.clone(), request));
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Why it is lost, or about to be.
    pub(super) fn reason(&self) -> String {
        let ensured = match self {
            Self::One(guard) => guard.ensure(),
            Self::All(guard) => guard.ensure(),
        };
        let about_to = || self.holds().first().map_or(Loss::TakenAway, |hold| hold.about_to_lose());
        ensured.err().unwrap_or_else(about_to).to_string()
    }

    pub(super) async fn release(self) -> Result<(), Error> {
        match self {
            Self::One(guard) => guard.release().await,
            Self::All(guard) => guard.release().await,
        }
    }

    /// What a command is told of it: of one lock its name and token; of several a line `NAME TOKEN` for each.
    pub(super) fn environment(&self) -> [(&'static str, Option<String>); 3] {
        let one = |hold: &Hold| (hold.lock().to_string(), hold.token().to_string());
        let (lock, token, tokens) = match self {
            Self::One(guard) => {
                let (lock, token) = one(guard);
                (Some(lock), Some(token), None)
            }
            Self::All(_) => (None, None, Some(self.lines())),
        };
        [("HOLDFAST_LOCK", lock), ("HOLDFAST_TOKEN", token), ("HOLDFAST_TOKENS", tokens)]
    }

    fn lines(&self) -> String {
        let line = |hold: &&Hold| format!("{} {}", hold.lock(), hold.token());
        self.holds().iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// Writes it to stdout: the token, or a line to each lock.
    pub(super) fn tell(&self, format: Format) {
        match self {
            Self::One(guard) => {
                let token = || guard.token().to_string();
                answer(format, &guard.grant(), token, token);
            }
            Self::All(guard) => {
                let grants: Vec<GrantBody> =
                    guard.holds().map(|hold| (*hold.grant()).clone()).collect();
                let revision = grants.first().map(|grant| grant.revision).unwrap_or_default();
                let body = GrantAllBody { grants, revision };
                let line = |grant: &GrantBody| format!("{} {}", grant.lock, grant.token);
                answer_rows(format, &body, &body.grants, line, || self.lines());
            }
        }
    }
}
