//! Cycles while a node takes a snapshot, beside those while none does, in one run on a tree that is not small.
//!
//! A snapshot is under way while its partial file is in a node's directory, which is looked at every [`LOOK`]; a cycle that
//! begins or ends meanwhile counts as one beside a snapshot.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use holdfast_client::load::LoadPhase;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::sync::watch;

use super::load::HttpLoad;
use super::report::SnapshotsReport;
use super::target::Own;
use super::znodes;
use crate::cli::{Locks, SnapshotsArgs};
use crate::exit::Stop;

const LOOK: Duration = Duration::from_millis(2);
const TTL: Duration = Duration::from_secs(30);
/// Connections that fill the tree.
const FILLING: u32 = 8;
/// The longest time without a snapshot.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_mins(5);

/// Measures and reports.
pub(super) async fn run(args: &SnapshotsArgs) -> Result<(), Stop> {
    let own = Own::start_as(3, |layout| layout.with_snapshot_log(&args.snapshot_log));
    let own = own.await.map_err(Stop::Failed)?;
    let measured = measure(args, &own).await;
    own.stop().await;
    measured.map_err(Stop::Failed)?.finish(args.output)
}

async fn measure(args: &SnapshotsArgs, own: &Own) -> Result<SnapshotsReport, String> {
    let layout = own.cluster.layout();
    let endpoints = layout.endpoints();
    znodes::create(args.znodes, FILLING, &endpoints).await?;
    let dirs: Vec<PathBuf> =
        layout.ids().map(|node| layout.node_dir(node).join("data/snapshots")).collect();
    let load = HttpLoad { endpoints, clients: args.clients, locks: Locks::Spread, ttl: TTL };
    let measured = load.drive(async |phase| watch_for(args.snapshots, &dirs, phase).await).await?;
    Ok(SnapshotsReport::new(args, &measured))
}

/// Tells the clients when a snapshot is under way, until so many have been.
async fn watch_for(
    snapshots: u32,
    dirs: &[PathBuf],
    phase: &watch::Sender<LoadPhase>,
) -> Result<Duration, String> {
    let bar = ProgressBar::new(u64::from(snapshots));
    if let Ok(style) = ProgressStyle::with_template("seeing snapshots {bar:40} {pos}/{len}") {
        bar.set_style(style);
    }
    // Those of the filling do not count.
    while under_way(dirs) {
        tokio::time::sleep(LOOK).await;
    }
    let (began, mut last, mut seen) = (Instant::now(), Instant::now(), 0);
    phase.send_replace(LoadPhase::Measuring);
    while seen < snapshots {
        let (now, before) = (under_way(dirs), *phase.borrow() == LoadPhase::Apart);
        if now != before {
            phase.send_replace(if now { LoadPhase::Apart } else { LoadPhase::Measuring });
            last = Instant::now();
            seen += u32::from(before);
            bar.set_position(u64::from(seen));
        }
        if last.elapsed() > SNAPSHOT_TIMEOUT {
            return Err(format!(
                "no snapshot for {SNAPSHOT_TIMEOUT:?}, after {seen} of {snapshots}"
            ));
        }
        tokio::time::sleep(LOOK).await;
    }
    bar.finish_and_clear();
    Ok(began.elapsed())
}

/// Whether any node is writing a snapshot.
fn under_way(dirs: &[PathBuf]) -> bool {
    let partial = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.is_ok_and(|entry| entry.path().extension().is_some_and(|end| end == "partial"))
    };
    dirs.iter().any(|dir| std::fs::read_dir(dir).is_ok_and(|mut files| files.any(partial)))
}
