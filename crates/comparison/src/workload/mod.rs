//! Speed: cycles of acquire and release under every lock, closed and open loop.
//!
//! Owns the order: repetition by repetition, kind by kind, each kind's servers alone on the machine while it is measured,
//! and every repetition beginning with another kind, so that no system always runs on a warm or a tired machine.

mod clients;
mod counts;
mod plan;
mod schedule;

use std::path::Path;
use std::time::Duration;

use crate::servers::ServerKind;

pub use clients::measure;
pub use plan::{Case, Plan};

use crate::catalogue::Listed;
use crate::progress::Progress;
use crate::record::{Measured, Speed};
use crate::servers::group::{ServerGroup, TTL};
use crate::{Records, Row, Settings};

/// What a connection gets to vanish after its case, before the next one is measured.
const SETTLE: Duration = Duration::from_millis(50);

/// Measures every system of these settings, and records it.
///
/// # Errors
/// In words, if rows cannot be written; a system that cannot be measured is a row.
pub async fn run(
    settings: &Settings,
    records: &Records,
    progress: &Progress,
) -> Result<(), String> {
    let plan = Plan::of(settings);
    let of_each = plan.cases.len() * settings.systems.len();
    progress.add_steps(u64::from(plan.repetitions) * u64::try_from(of_each).unwrap_or(0));
    for repetition in 1..=plan.repetitions {
        for kind in kinds(&settings.systems, repetition) {
            let turn = Turn { kind, repetition, settings, records, progress, plan: &plan };
            turn.take().await?;
        }
    }
    Ok(())
}

/// The kinds that these systems need, another one first in each repetition.
pub(crate) fn kinds(systems: &[&'static Listed], repetition: u32) -> Vec<ServerKind> {
    let needed = |kind: &ServerKind| systems.iter().any(|listed| listed.kind == *kind);
    let mut kinds: Vec<ServerKind> = ServerKind::ALL.into_iter().filter(needed).collect();
    let by = usize::try_from(repetition.saturating_sub(1)).unwrap_or(0) % kinds.len().max(1);
    kinds.rotate_left(by);
    kinds
}

/// All cases of one kind, once.
struct Turn<'a> {
    kind: ServerKind,
    repetition: u32,
    settings: &'a Settings,
    records: &'a Records,
    progress: &'a Progress,
    plan: &'a Plan,
}

impl Turn<'_> {
    async fn take(&self) -> Result<(), String> {
        let mut servers = LazyServers::closed(self.kind);
        for case in &self.plan.cases {
            for listed in self.settings.systems.iter().filter(|listed| listed.kind == self.kind) {
                let of = self.plan.repetitions;
                self.progress.step(&format!(
                    "speed {}/{of}: {}, {}",
                    self.repetition,
                    listed.name,
                    case.words()
                ));
                let (measured, trouble) =
                    servers.measured(listed, case, self.plan, &self.settings.directory).await;
                if let Some(trouble) = &trouble {
                    let line = trouble.lines().next().unwrap_or_default();
                    self.progress.note(&format!("{}: {line}", listed.name));
                }
                let row = self.row(listed, case, measured, trouble);
                self.records.append(&Row::Speed(row)).map_err(|error| error.to_string())?;
                self.progress.done();
                tokio::time::sleep(SETTLE).await;
            }
        }
        Ok(())
    }

    fn row(
        &self,
        listed: &Listed,
        case: &Case,
        measured: Option<Measured>,
        trouble: Option<String>,
    ) -> Speed {
        Speed {
            system: listed.name.to_owned(),
            locks: case.locks,
            load: case.load,
            clients: case.clients,
            repetition: self.repetition,
            measured,
            trouble,
        }
    }
}

/// The stage of one kind, opened when it is needed first, and again after one of its servers has fallen.
#[derive(Debug)]
pub struct LazyServers {
    kind: ServerKind,
    stage: Option<ServerGroup>,
    /// Why it does not open; it is not tried again.
    shut: Option<String>,
}

impl LazyServers {
    /// Not open yet.
    pub fn closed(kind: ServerKind) -> Self {
        Self { kind, stage: None, shut: None }
    }

    /// The stage; opened if it is not.
    ///
    /// # Errors
    /// In words: why its servers do not serve.
    pub async fn stage(&mut self, below: &Path) -> Result<&mut ServerGroup, String> {
        if let Some(why) = &self.shut {
            return Err(why.clone());
        }
        if self.stage.is_none() {
            match ServerGroup::open(self.kind, below).await {
                Ok(stage) => self.stage = Some(stage),
                Err(cause) => self.shut = Some(cause.to_string()),
            }
        }
        let why = || self.shut.clone().unwrap_or_default();
        self.stage.as_mut().ok_or_else(why)
    }

    /// Which server has fallen; the next case gets new ones.
    pub fn fallen(&mut self) -> Option<String> {
        let fallen = self.stage.as_mut()?.fallen()?;
        self.stage = None;
        Some(fallen)
    }

    /// One case: what was measured, and what went wrong; possibly both.
    pub async fn measured(
        &mut self,
        listed: &Listed,
        case: &Case,
        plan: &Plan,
        below: &Path,
    ) -> (Option<Measured>, Option<String>) {
        let measured = match self.stage(below).await {
            Err(why) => Err(why),
            Ok(stage) => match stage.system(listed, TTL).await {
                Ok(system) => measure(&system, case, plan, || stage.processor_seconds()).await,
                Err(why) => Err(why),
            },
        };
        let fallen = self.fallen();
        match measured {
            Ok(measured) => {
                let none = measured.cycles == 0 && fallen.is_none();
                let trouble = none.then(|| "not one cycle was completed".to_owned());
                (Some(measured), fallen.or(trouble))
            }
            Err(why) => (None, Some(fallen.unwrap_or(why))),
        }
    }
}
