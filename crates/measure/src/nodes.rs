//! The time of a cycle on one, three and five nodes of holdfast, each client with its own lock.
//!
//! Clients are spread over the nodes, and a follower forwards their calls. The sizes of the cluster are measured in turns.

use crate::catalogue::{BASELINE, named};
use crate::lock::LockSettings;
use crate::progress::Progress;
use crate::record::{ClusterSpeed, LoadLoop, LockLayout, Measured, RunSize};
use crate::servers::ServerGroup;
use crate::workload::{SpeedCase, SpeedPlan, measure};
use crate::{Records, Row, Settings};

/// The sizes of the cluster.
pub const SIZES: [u32; 3] = [1, 3, 5];

/// Returns the numbers of clients of each size.
fn clients(settings: &Settings) -> Vec<u32> {
    match settings.size {
        _ if !settings.clients.is_empty() => settings.clients.clone(),
        RunSize::Full | RunSize::Quick => vec![1, 16],
        RunSize::Tiny => vec![1],
    }
}

/// Describes the plan for the report, as names and values.
pub fn describe(settings: &Settings) -> Vec<(String, String)> {
    let clients: Vec<String> = clients(settings).iter().map(u32::to_string).collect();
    let plan = SpeedPlan::of(settings);
    vec![
        ("clients of each size".to_owned(), clients.join(", ")),
        ("repetitions".to_owned(), plan.repetitions.to_string()),
        ("window".to_owned(), format!("{} s", plan.window.as_secs_f64())),
    ]
}

/// Measures and records every size; returns the rows.
pub async fn run(
    settings: &Settings,
    records: &Records,
    progress: &Progress,
) -> Result<Vec<Row>, String> {
    let (plan, clients) = (SpeedPlan::of(settings), clients(settings));
    let steps = clients.len() * SIZES.len();
    progress.add_steps(u64::from(plan.repetitions) * u64::try_from(steps).unwrap_or(0));
    let mut rows = Vec::new();
    for repetition in 1..=plan.repetitions {
        for nodes in SIZES {
            let below = &settings.directory;
            let size = usize::try_from(nodes).unwrap_or(usize::MAX);
            let group = ServerGroup::holdfast(size, below).await.map_err(|error| error.to_string());
            for clients in clients.iter().copied() {
                progress.step(&format!("nodes {repetition}/{}: {nodes}", plan.repetitions));
                let measured = match &group {
                    Ok(group) => case(group, clients, &plan).await,
                    Err(error) => Err(error.clone()),
                };
                let failure = measured.as_ref().err().cloned();
                progress.note_failure("nodes", failure.as_deref());
                let measured = measured.ok();
                let row =
                    Row::Nodes(ClusterSpeed { nodes, clients, repetition, measured, failure });
                records.append(&row).map_err(|error| error.to_string())?;
                rows.push(row);
                progress.done();
            }
        }
    }
    Ok(rows)
}

async fn case(group: &ServerGroup, clients: u32, plan: &SpeedPlan) -> Result<Measured, String> {
    let system = named(BASELINE).ok_or("there is no baseline")?;
    let connector = group.connector(system, LockSettings::default()).await?;
    let case = SpeedCase { locks: LockLayout::Spread, load: LoadLoop::Closed, clients };
    measure(&connector, &case, plan, || group.processor_seconds()).await
}
