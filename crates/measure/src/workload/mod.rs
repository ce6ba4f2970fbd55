//! Speed: cycles of acquire and release under every lock, in a closed and in an open loop.
//!
//! Only the servers of one kind run during its measurement. New servers first get load until their rate is flat. Every
//! repetition starts with another kind, so that no system always runs first.

mod clients;
mod plan;
mod warm_up;

use std::time::Duration;

pub use clients::measure;
pub use plan::{SpeedCase, SpeedPlan};
pub use warm_up::{is_flat, rates_until_flat, warm_up};

use crate::catalogue::System;
use crate::lock::LockSettings;
use crate::progress::Progress;
use crate::record::{Measured, Speed, WarmUp};
use crate::servers::{LazyGroup, ServerKind};
use crate::{Records, Row, Settings};

/// The time for connections to close before the next case.
const SETTLE: Duration = Duration::from_millis(50);

/// Measures and records every system.
pub async fn run(
    settings: &Settings,
    records: &Records,
    progress: &Progress,
) -> Result<(), String> {
    let plan = SpeedPlan::of(settings);
    let of_each = plan.cases.len() * settings.systems.len();
    progress.add_steps(u64::from(plan.repetitions) * u64::try_from(of_each).unwrap_or(0));
    for repetition in 1..=plan.repetitions {
        for kind in kinds(&settings.systems, repetition) {
            let mut servers = LazyGroup::new(kind).with_redis(&settings.redis);
            for case in &plan.cases {
                for system in settings.systems.iter().filter(|system| system.kind == kind) {
                    let (name, of, text) = (system.name, plan.repetitions, case.text());
                    progress.step(&format!("speed {repetition}/{of}: {name}, {text}"));
                    if let Some(row) =
                        warm_up_new(&mut servers, system, &plan, repetition, settings).await
                    {
                        records.append(&Row::WarmUp(row)).map_err(|error| error.to_string())?;
                    }
                    let (measured, failure) =
                        measure_case(&mut servers, system, case, &plan, settings).await;
                    progress.note_failure(name, failure.as_deref());
                    let row = Speed {
                        system: name.to_owned(),
                        locks: case.locks,
                        load: case.load,
                        clients: case.clients,
                        repetition,
                        measured,
                        failure,
                    };
                    records.append(&Row::Speed(row)).map_err(|error| error.to_string())?;
                    progress.done();
                    tokio::time::sleep(SETTLE).await;
                }
            }
        }
    }
    Ok(())
}

/// Warms the servers up if they are new. After a failure, the measurement of the case reports the reason, and the next case
/// tries again.
async fn warm_up_new(
    servers: &mut LazyGroup,
    system: &System,
    plan: &SpeedPlan,
    repetition: u32,
    settings: &Settings,
) -> Option<WarmUp> {
    let group = servers.get(&settings.directory).await.ok()?;
    if group.is_warm {
        return None;
    }
    let connector = group.connector(system, LockSettings::default()).await.ok()?;
    let warm_up = warm_up(&connector, system, plan, repetition).await.ok()?;
    group.is_warm = true;
    Some(warm_up)
}

/// Returns the kinds that these systems need, with another first kind in each repetition.
pub(crate) fn kinds(systems: &[&'static System], repetition: u32) -> Vec<ServerKind> {
    let is_needed = |kind: &ServerKind| systems.iter().any(|system| system.kind == *kind);
    let mut kinds: Vec<ServerKind> = ServerKind::ALL.into_iter().filter(is_needed).collect();
    let by = usize::try_from(repetition.saturating_sub(1)).unwrap_or(0) % kinds.len().max(1);
    kinds.rotate_left(by);
    kinds
}

/// Measures one case: the measurement, the failure, or both.
pub async fn measure_case(
    servers: &mut LazyGroup,
    system: &System,
    case: &SpeedCase,
    plan: &SpeedPlan,
    settings: &Settings,
) -> (Option<Measured>, Option<String>) {
    let measured = async {
        let group = servers.get(&settings.directory).await?;
        let connector = group.connector(system, LockSettings::default()).await?;
        measure(&connector, case, plan, || group.processor_seconds()).await
    };
    let measured = measured.await;
    let crashed = servers.crashed();
    match measured {
        Ok(measured) => {
            let is_empty = measured.cycles == 0 && crashed.is_none();
            let empty = is_empty.then(|| "no cycle was completed".to_owned());
            (Some(measured), crashed.or(empty))
        }
        Err(error) => (None, Some(crashed.unwrap_or(error))),
    }
}
