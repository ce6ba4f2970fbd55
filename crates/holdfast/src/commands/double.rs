//! `holdfast double-barrier`: members that enter together and leave together, each a session that the caller named.
//!
//! A place belongs to the session, not to this process, so that one command enters and another one leaves. Owns the waits
//! that are longer than one call: the call is sent again, which is the same arrival and keeps the place. What has not
//! happened when the wait has passed is exit code 75.

use std::time::{Duration, Instant};

use holdfast_api::parameters::{TTL, recipe};
use holdfast_api::{GateBody, LeftBody, PassedBody, Query, WAIT_MAX, double_barrier_path};
use holdfast_types::{RecipeName, SessionName, Ttl};
use reqwest::Method;
use serde::de::DeserializeOwned;

use super::asking::{Ask, Asking};
use crate::cli::{DoubleBarrierCommand, EnterArgs, LeaveArgs, RecipeArgs};
use crate::exit::Stop;
use crate::output::{answer, table};
use crate::serve::Signals;

pub(super) async fn run(command: DoubleBarrierCommand) -> Result<(), Stop> {
    match command {
        DoubleBarrierCommand::Enter(args) => enter(&args).await,
        DoubleBarrierCommand::Leave(args) => leave(&args).await,
        DoubleBarrierCommand::Who(args) => who(&args).await,
    }
}

async fn enter(args: &EnterArgs) -> Result<(), Stop> {
    let mut signals = Signals::install().map_err(Stop::failed)?;
    let place = Place::of(&args.place)?;
    let mut asking = Asking::new(&place.args.barrier.target, None)?;
    let ttl = args.ttl.map(|ttl| Ttl::from_millis(holdfast_types::millis(ttl))).transpose();
    let ttl = ttl.map_err(Stop::usage)?;
    let arrival =
        place.member().with(&recipe::PARTIES, &args.parties).with_some(&TTL, ttl.as_ref());
    let query = |wait| arrival.clone().with(&recipe::WAIT, &wait);
    let entered = tokio::select! {
        entered = place.ask::<PassedBody>(&mut asking, Method::PUT, query) => entered,
        signal = signals.next() => {
            Err(Stop::NotAcquired(format!("{signal} while waiting to enter {}", place.name)))
        }
    };
    if let Err(Stop::NotAcquired(_)) = &entered {
        // Nobody is to wait for a member that has given up.
        let ask = place.call(Method::DELETE, &place.member(), Duration::ZERO);
        let given_up: Result<LeftBody, Stop> = asking.json(&ask).await;
        drop(given_up);
    }
    let passed = entered?;
    let index = || passed.index.to_string();
    answer(place.args.barrier.target.output, &passed, index, index);
    Ok(())
}

async fn leave(args: &LeaveArgs) -> Result<(), Stop> {
    let place = Place::of(args)?;
    let mut asking = Asking::new(&args.barrier.target, None)?;
    let query = |wait| place.member().with(&recipe::WAIT, &wait);
    let left: LeftBody = place.ask(&mut asking, Method::DELETE, query).await?;
    let said = || if left.left { "left" } else { "was not inside" }.to_owned();
    answer(args.barrier.target.output, &left, said, said);
    Ok(())
}

async fn who(args: &RecipeArgs) -> Result<(), Stop> {
    let path = double_barrier_path(&RecipeName::new(&args.name).map_err(Stop::usage)?);
    let body: GateBody = Asking::new(&args.target, None)?.json(&Ask::get(path)).await?;
    let inside = || {
        let names: Vec<_> = body.inside.iter().map(SessionName::as_str).collect();
        names.join("\n")
    };
    answer(args.target.output, &body, inside, || show(&body));
    Ok(())
}

fn show(body: &GateBody) -> String {
    let row = |session: &SessionName, what: &str| [session.to_string(), what.to_owned()];
    let inside = body.inside.iter().map(|session| row(session, "inside"));
    let waiting = body.arrived.iter().map(|session| row(session, "waits to enter"));
    let rows: Vec<_> = inside.chain(waiting).collect();
    if rows.is_empty() {
        return format!("nobody is at {}", body.barrier);
    }
    format!("{} of {} parties\n\n{}", body.barrier, body.parties, table(["session", "where"], rows))
}

/// Whose place, where.
struct Place<'a> {
    args: &'a LeaveArgs,
    name: RecipeName,
    session: SessionName,
}

impl<'a> Place<'a> {
    fn of(args: &'a LeaveArgs) -> Result<Self, Stop> {
        let name = RecipeName::new(&args.barrier.name).map_err(Stop::usage)?;
        let session = SessionName::new(&args.session).map_err(Stop::usage)?;
        Ok(Self { args, name, session })
    }

    fn member(&self) -> Query {
        Query::default().with(&recipe::MEMBER, &self.session)
    }

    fn call(&self, method: Method, query: &Query, wait: Duration) -> Ask {
        let target = query.target(&double_barrier_path(&self.name));
        Ask { method, wait, ..Ask::get(target) }
    }

    /// Asks call by call until it has happened or the wait has passed.
    async fn ask<T: DeserializeOwned>(
        &self,
        asking: &mut Asking,
        method: Method,
        query: impl Fn(Duration) -> Query,
    ) -> Result<T, Stop> {
        let until = Instant::now() + self.args.wait;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            // Whole milliseconds, as the API has them.
            let wait =
                Duration::from_millis(u64::try_from(left.min(WAIT_MAX).as_millis()).unwrap_or(0));
            match asking.json(&self.call(method.clone(), &query(wait), wait)).await {
                Err(Stop::NotAcquired(_)) if left > WAIT_MAX => {}
                ended => return ended,
            }
        }
    }
}
