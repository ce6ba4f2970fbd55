//! `holdfast watch`: what changes below a prefix, one line each, until ^C. Goes on at another node by itself.

use std::time::Duration;

use holdfast_api::{ChangeBody, WatchBody, WatchParams};
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
    let place = if prefix.starts_with('/') { prefix.clone() } else { format!("/{prefix}") };
    let since = args.since.map(Revision);
    let mut params = WatchParams { place, exact: false, since, wait: Duration::ZERO };
    if since.is_none() {
        // Where "now" is.
        params.since = Some(poll(&mut asking, &params).await?.revision);
    }
    params.wait = WAIT;
    let mut left = args.count.unwrap_or(u64::MAX);
    while left > 0 {
        let body = poll(&mut asking, &params).await?;
        for change in body.events {
            if left > 0 {
                tell(args.target.output, &change);
                check()?;
                left -= 1;
            }
        }
        params.since = Some(body.revision);
    }
    Ok(())
}

async fn poll(asking: &mut Asking, params: &WatchParams) -> Result<WatchBody, Stop> {
    let ask = Ask::get(format!("/v1/watch?{}", params.to_query()));
    asking.json(&Ask { wait: params.wait, ..ask }).await
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
