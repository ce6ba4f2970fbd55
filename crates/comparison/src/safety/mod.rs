//! Safety: the same flash sale under each lock, with faults, and a count of what went wrong.
//!
//! Owns the cases and their order. Workers are processes of this program (`worker`); the store is a `PostgreSQL` of its own
//! that no fault strikes; the lock's servers are real ones (`cluster`). A case that cannot be played is a row that says why,
//! and the others go on; one that hangs ends by its deadline ([`Sale::deadline`]).

pub mod caller;
pub mod cluster;
pub mod count;
pub mod inventory;
pub mod message;
pub mod participant;
pub mod scenario;
pub mod worker;
pub mod workers;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::servers::{self, Server, ServerKind};
use tempfile::TempDir;
use tokio::time::timeout;

pub use cluster::FaultCluster;
pub use participant::Participant;
pub use scenario::{Sale, Verdict};
pub use worker::work;

use crate::fault::Fault;
use crate::progress::Progress;
use crate::record::{Safety, Size};
use crate::{Records, Row, Settings};
use scenario::SaleContext;

/// Sells under every system of these settings and every fault, and records what came of it.
///
/// # Errors
/// In words, if there is no store or rows cannot be written; a case that cannot be played is a row.
pub async fn run(
    settings: &Settings,
    records: &Records,
    progress: &Progress,
) -> Result<(), String> {
    let sale = sale(settings.size)?;
    let participants = Participant::among(&settings.systems);
    progress.add_steps(u64::try_from(participants.len() * Fault::ALL.len()).unwrap_or(0));
    let store = SaleDatabase::start(&settings.directory).await?;
    for participant in participants {
        let mut flash_sale = FlashSale { sale: &sale, store: &store, participant, kept: None };
        for fault in Fault::ALL {
            progress.step(&format!("safety: {}: {}", participant.name(), fault.name()));
            let row = flash_sale.case(fault).await;
            if let Some(trouble) = &row.trouble {
                progress.note(&format!("{}: {}: {trouble}", row.system, row.fault));
            }
            records.append(&Row::Safety(row)).map_err(words)?;
            progress.done();
        }
    }
    Ok(())
}

fn sale(size: Size) -> Result<Sale, String> {
    let sale = Sale::of(std::env::current_exe().map_err(words)?);
    Ok(match size {
        Size::Full | Size::Quick => sale,
        Size::Tiny => {
            let (lease, bound) = (Duration::from_secs(2), Duration::from_secs(6));
            Sale { workers: 3, pieces: 40, lease, bound, ..sale }
        }
    })
}

/// The store's database, which no fault strikes.
#[derive(Debug)]
pub struct SaleDatabase {
    // Before the directory: it stops first.
    server: Server,
    _directory: TempDir,
    below: PathBuf,
}

impl SaleDatabase {
    /// Starts it below this directory, where the locks' servers will be too.
    ///
    /// # Errors
    /// In words: it is missing, or does not serve.
    pub async fn start(below: &Path) -> Result<Self, String> {
        let directory = scratch(below)?;
        let server = servers::quick_postgres(&directory.path().join("store")).await;
        let server = server.map_err(|cause| format!("the store: {cause}"))?;
        Ok(Self { server, _directory: directory, below: below.to_owned() })
    }

    /// For its driver.
    pub fn url(&self) -> String {
        servers::url(ServerKind::Postgres, self.server.address())
    }
}

/// All cases of one lock, one after the other.
#[derive(Debug)]
pub struct FlashSale<'a> {
    /// What they are played with.
    pub sale: &'a Sale,
    /// Where is sold.
    pub store: &'a SaleDatabase,
    /// The lock.
    pub participant: Participant,
    /// Servers that no fault has struck yet; none at first.
    pub kept: Option<Kept>,
}

/// Servers that no fault has struck yet, and how many sales they have seen.
#[derive(Debug)]
pub struct Kept {
    // Before the directory: they stop first.
    cluster: FaultCluster,
    directory: TempDir,
    sales: u32,
}

impl FlashSale<'_> {
    /// One case and its row. Servers that it may have broken are stopped.
    pub async fn case(&mut self, fault: Fault) -> Safety {
        let (sale, participant) = (self.sale, self.participant);
        let row = Safety {
            system: participant.name(),
            fault: fault.name().to_owned(),
            workers: u32::try_from(sale.workers).unwrap_or(u32::MAX),
            ..Safety::default()
        };
        if let Some(reason) = participant.spared(fault) {
            return Safety { does_not_apply: Some(reason.to_owned()), ..row };
        }
        if !fault.spares_servers() {
            self.kept = None;
        }
        let late = |_| Err(format!("not done within {} s", sale.deadline().as_secs()));
        let played = timeout(sale.deadline(), self.play(fault)).await.unwrap_or_else(late);
        if played.is_err() || !fault.spares_servers() {
            self.kept = None;
        }
        match played {
            Ok(verdict) => filled(row, verdict),
            Err(trouble) => Safety { trouble: Some(trouble), ..row },
        }
    }

    async fn play(&mut self, fault: Fault) -> Result<Verdict, String> {
        let kept = match self.kept.take() {
            Some(kept) => kept,
            None => Kept::start(self.sale, self.store, self.participant).await?,
        };
        let kept = self.kept.insert(kept);
        kept.sales += 1;
        let lock = format!("sale-{}", kept.sales);
        let directory = kept.directory.path().join(&lock);
        let store = self.store.url();
        let context =
            SaleContext { sale: self.sale, store: &store, directory: &directory, lock: &lock };
        scenario::play(context, &mut kept.cluster, self.participant, fault).await
    }
}

impl Kept {
    async fn start(
        sale: &Sale,
        store: &SaleDatabase,
        participant: Participant,
    ) -> Result<Self, String> {
        let directory = scratch(&store.below)?;
        let home = directory.path().join("servers");
        let cluster = FaultCluster::start(participant, &home, sale.lease).await?;
        Ok(Self { cluster, directory, sales: 0 })
    }
}

fn filled(row: Safety, verdict: Verdict) -> Safety {
    let ms = |time: Duration| time.as_secs_f64() * 1_000.0;
    Safety {
        sold: verdict.books.sold,
        oversold: verdict.books.oversold(),
        lost_updates: verdict.books.lost_updates(),
        double_holders: verdict.double_holders,
        next_grant_ms: verdict.next_grant.map(ms),
        stuck: u64::from(verdict.stuck),
        ..row
    }
}

/// A directory that servers which run as another user can enter.
pub(crate) fn scratch(below: &Path) -> Result<TempDir, String> {
    let open = std::fs::Permissions::from_mode(0o755);
    let mut builder = tempfile::Builder::new();
    builder.prefix("holdfast-sale-").permissions(open).tempdir_in(below).map_err(words)
}

fn words(error: impl std::fmt::Display) -> String {
    error.to_string()
}
