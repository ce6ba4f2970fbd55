//! `holdfast watch`: what changes below a prefix, one line each, until ^C. Goes on at another node by itself.

use std::time::Duration;

use holdfast_api::parameters::watch;
use holdfast_api::{ChangeBody, Query, WatchBody};
use holdfast_types::Revision;

use super::asking::{Ask, Asking};
use crate::cli::{Format, WatchArgs};
use crate::exit::Stop;
use crate::output::{answer, check};

/// How long one node is asked to wait for a change.
const WAIT: Duration = Duration::from_secs(20);

pub(super) async fn run(args: &WatchArgs) -> Result<(), Stop> {
    let mut asking = Asking::new(&args.target, args.user.as_deref())?;
    let prefix = &args.prefix;
    let prefix = if prefix.starts_with('/') { prefix.clone() } else { format!("/{prefix}") };
    let mut since = match args.since {
        Some(since) => Revision(since),
        // The present revision.
        None => poll(&mut asking, &prefix, None, Duration::ZERO).await?.revision,
    };
    let mut left = args.count.unwrap_or(u64::MAX);
    while left > 0 {
        let body = poll(&mut asking, &prefix, Some(since), WAIT).await?;
        for change in body.events {
            if left > 0 {
                tell(args.target.output, &change);
                check()?;
                left -= 1;
            }
        }
        since = body.revision;
    }
    Ok(())
}

async fn poll(
    asking: &mut Asking,
    prefix: &String,
    since: Option<Revision>,
    wait: Duration,
) -> Result<WatchBody, Stop> {
    let query = Query::default().with(&watch::PREFIX, prefix).with(&watch::WAIT, &wait);
    let ask = Ask::get(query.with_some(&watch::SINCE, since.as_ref()).target("/v1/watch"));
    asking.json(&Ask { wait, ..ask }).await
}

fn tell(format: Format, change: &ChangeBody) {
    answer(format, change, || change.path.to_string(), || line(change));
}

/// `12  granted  /locks/orders  token 4  me`
fn line(change: &ChangeBody) -> String {
    let mut line = format!("{}  {}  {}", change.revision, change.kind.as_str(), change.path);
    if let Some(token) = change.token {
        line = format!("{line}  token {token}");
    }
    if let Some(session) = &change.session {
        line = format!("{line}  {session}");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_one_line() {
        let read = |json: &str| line(&serde_json::from_str(json).unwrap());
        let created = r#"{"revision":12,"kind":"created","path":"/cfg/x"}"#;
        assert_eq!(read(created), "12  created  /cfg/x");
        let granted = r#"{"revision":13,"kind":"granted","path":"/locks/a","lock":"a","token":4,"session":"me"}"#;
        assert_eq!(read(granted), "13  granted  /locks/a  token 4  me");
    }
}
