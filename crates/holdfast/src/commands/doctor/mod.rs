//! `holdfast doctor`: every address on its own, then the cluster as a whole, then a lock taken and given back through
//! every node. What is wrong is said with what to do next.
//!
//! Owns the order of the examination and the exit code: 0 if nothing failed, 1 if something did. `look` asks, `judge`
//! thinks, `trip` takes the probe lock. Bounds: each call has a few seconds, the catching up [`PATIENCE`].

mod finding;
mod judge;
mod look;
mod trip;

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use self::finding::{Examination, Finding, Verdict};
use self::judge::{best, judge};
use self::look::{Eye, Seen};
use super::{connect, for_people, lock_name};
use crate::cli::{DoctorArgs, Format};
use crate::exit::Stop;
use crate::output::{answer_rows, print, table};

/// How long a node that is behind may take to reach what others had when it was looked at.
const PATIENCE: Duration = Duration::from_secs(2);
const AGAIN: Duration = Duration::from_millis(50);

pub(super) async fn run(args: &DoctorArgs) -> Result<(), Stop> {
    // Says what is wrong with an address, and with a name.
    connect(&args.target)?;
    let probe = lock_name(&args.probe)?;
    let eye = Eye::new().map_err(Stop::failed)?;
    let all = look_at_all(&eye, &args.target.addr).await;
    let mut found = judge(&all, env!("CARGO_PKG_VERSION"));
    found.extend(replication(&eye, &all).await);
    if !args.look_only {
        for seen in all.iter().filter(|seen| seen.node.is_ok()) {
            found.push(trip::through(&seen.address, &probe).await.at(&seen.address));
        }
    }
    let examination = Examination::of(found);
    show(args.target.output, &examination);
    match examination.verdict {
        Verdict::Ok | Verdict::Warn => Ok(()),
        Verdict::Fail => Err(Stop::Code(1, None)),
    }
}

/// All at once: one that does not answer holds up nobody.
async fn look_at_all(eye: &Eye, addresses: &[String]) -> Vec<Seen> {
    let mut looking = JoinSet::new();
    for (place, address) in addresses.iter().cloned().enumerate() {
        let eye = eye.clone();
        looking.spawn(async move { (place, eye.look(&address).await) });
    }
    let mut all = looking.join_all().await;
    all.sort_by_key(|(place, _)| *place);
    all.into_iter().map(|(_, seen)| seen).collect()
}

/// Whether every healthy member reaches what the furthest had applied when it was looked at: under load a member may
/// always be a little behind, so what counts is that it moves.
async fn replication(eye: &Eye, all: &[Seen]) -> Option<Finding> {
    let furthest = best(all)?.nodes.iter().map(|node| node.applied).max()?;
    let begun = Instant::now();
    let mut asked = all.iter().filter(|seen| seen.node.is_ok()).cycle();
    let mut now = best(all)?.clone();
    loop {
        let healthy = now.nodes.iter().filter(|node| node.healthy);
        let slowest = healthy.min_by_key(|node| node.applied)?;
        let behind = furthest.0.saturating_sub(slowest.applied.0);
        if behind == 0 {
            return Some(Finding::ok(
                "replication",
                format!("all have applied revision {furthest}"),
            ));
        }
        if begun.elapsed() >= PATIENCE {
            let found =
                format!("node {} is {behind} revisions behind and does not catch up", slowest.id);
            let next = format!("look at the log, the disk and the network of {}", slowest.http);
            return Some(Finding::warn("replication", found, next));
        }
        tokio::time::sleep(AGAIN).await;
        if let Ok(view) = eye.cluster(&asked.next()?.address).await {
            now = view;
        }
    }
}

fn show(format: Format, examination: &Examination) {
    if format == Format::Value {
        print(examination.verdict.as_str());
        return;
    }
    let none = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let people = || {
        let rows = examination.checks.iter().map(|check| {
            let verdict = check.verdict.as_str().to_owned();
            let (at, next) = (none(&check.at), none(&check.next));
            [verdict, check.check.to_owned(), at, check.found.clone(), next]
        });
        table(["", "check", "at", "found", "what to do"], rows)
    };
    answer_rows(format, examination, &examination.checks, |_| String::new(), people);
}

fn in_ms(duration: Duration) -> String {
    match duration.as_millis() {
        0..10 => format!("{:.1}ms", duration.as_secs_f64() * 1_000.0),
        ms => for_people(u64::try_from(ms).unwrap_or(u64::MAX)),
    }
}
