//! `holdfast lock`: takes a lock, prints its token on stdout, and holds it until ^C or SIGTERM.
//!
//! Nothing but the token is ever written to stdout, and only once the lock is held. Loss is exit code 76: whoever
//! started this must stop what the lock protected.

use std::io::IsTerminal as _;
use std::time::SystemTime;

use holdfast_client::Client;

use super::for_people;
use super::held::{Held, Requests, name_of, take_all};
use super::taking::client_for;
use crate::cli::LockArgs;
use crate::exit::Stop;
use crate::output::complain;
use crate::serve::Signals;

pub(super) async fn run(args: LockArgs) -> Result<(), Stop> {
    let mut signals = Signals::install().map_err(Stop::failed)?;
    let client = client_for(&args.take, &args.target)?;
    let held = take_all(&args.take, &args.target, &client, &mut signals).await?;
    held.tell(args.target.output);
    if !args.take.quiet && std::io::stderr().is_terminal() {
        complain(&holding(&held));
    }
    hold(held, &args, &client.0, &mut signals).await
}

/// What a person at a terminal reads while nothing else happens.
fn holding(held: &Held) -> String {
    let holds = held.holds();
    let named: Vec<String> =
        holds.iter().map(|hold| format!("{}, token {}", hold.lock(), hold.token())).collect();
    let (named, them) = (named.join("; "), if holds.len() == 1 { "it" } else { "them" });
    format!("holdfast: holding {named}; ^C releases {them}")
}

async fn hold(
    held: Held,
    args: &LockArgs,
    client: &Client,
    signals: &mut Signals,
) -> Result<(), Stop> {
    let mut requests = Requests::default();
    loop {
        tokio::select! {
            (name, loss) = held.lost() => {
                let at = httpdate::fmt_http_date(SystemTime::now());
                return Err(Stop::Lost(format!(
                    "{name} is lost: {loss}, learned at {at}; stop what it protected"
                )));
            }
            _ = signals.next() => break,
            request = held.release_requested(&requests) => complain(&requests.learn(request, None)),
        }
    }
    let left = held.remaining();
    let released = held.release().await;
    released.and(client.close().await).map_err(|error| {
        let left = for_people(holdfast_types::millis(left));
        let name = name_of(&args.take);
        Stop::failed(format!(
            "{name} is not certainly released, it is free in about {left}: {error}"
        ))
    })
}
