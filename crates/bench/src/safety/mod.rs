//! Safety: the same flash sale under each lock, with faults, and a count of what went wrong.
//!
//! Owns the cases and their order. Workers are processes of this program (`worker`); the shop is a `PostgreSQL` of its own
//! that no fault strikes; the lock's servers are real ones (`scene`). A case that cannot be played is a row that says why,
//! and the others go on; one that hangs ends by its deadline ([`Sale::deadline`]).

pub mod caller;
pub mod clock;
pub mod count;
pub mod crew;
pub mod drama;
pub mod entrant;
pub mod message;
pub mod no_lock;
pub mod relay;
pub mod scene;
pub mod shop;
pub mod worker;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use holdfast_rivals::servers::{self, Kind, Server};
use tempfile::TempDir;
use tokio::time::timeout;

pub use drama::{Sale, Verdict};
pub use entrant::Entrant;
pub use scene::Scene;
pub use worker::work;

use crate::fault::Fault;
use crate::progress::Progress;
use crate::record::{Safety, Size};
use crate::{Records, Row, Settings};
use drama::Stage;

/// Sells under every system of these settings and every fault, and records what came of it.
///
/// # Errors
/// In words, if there is no shop or rows cannot be written; a case that cannot be played is a row.
pub async fn run(
    settings: &Settings,
    records: &Records,
    progress: &Progress,
) -> Result<(), String> {
    let sale = sale(settings.size)?;
    let entrants = Entrant::among(&settings.systems);
    progress.add_steps(u64::try_from(entrants.len() * Fault::ALL.len()).unwrap_or(0));
    let shop = Shop::start(&settings.directory).await?;
    for entrant in entrants {
        let mut booth = Booth { sale: &sale, shop: &shop, entrant, kept: None };
        for fault in Fault::ALL {
            progress.step(&format!("safety: {}: {}", entrant.name(), fault.name()));
            let row = booth.case(fault).await;
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

/// The shop's database, which no fault strikes.
#[derive(Debug)]
pub struct Shop {
    // Before the directory: it stops first.
    server: Server,
    _directory: TempDir,
    below: PathBuf,
}

impl Shop {
    /// Starts it below this directory, where the locks' servers will be too.
    ///
    /// # Errors
    /// In words: it is missing, or does not serve.
    pub async fn start(below: &Path) -> Result<Self, String> {
        let directory = scratch(below)?;
        let server = servers::quick_postgres(&directory.path().join("shop")).await;
        let server = server.map_err(|cause| format!("the shop: {cause}"))?;
        Ok(Self { server, _directory: directory, below: below.to_owned() })
    }

    /// For its driver.
    pub fn url(&self) -> String {
        servers::url(Kind::Postgres, self.server.address())
    }
}

/// All cases of one lock, one after the other.
#[derive(Debug)]
pub struct Booth<'a> {
    /// What they are played with.
    pub sale: &'a Sale,
    /// Where is sold.
    pub shop: &'a Shop,
    /// The lock.
    pub entrant: Entrant,
    /// Servers that no fault has struck yet; none at first.
    pub kept: Option<Kept>,
}

/// Servers that no fault has struck yet, and how many sales they have seen.
#[derive(Debug)]
pub struct Kept {
    // Before the directory: they stop first.
    scene: Scene,
    directory: TempDir,
    sales: u32,
}

impl Booth<'_> {
    /// One case and its row. Servers that it may have broken are stopped.
    pub async fn case(&mut self, fault: Fault) -> Safety {
        let (sale, entrant) = (self.sale, self.entrant);
        let row = Safety {
            system: entrant.name(),
            fault: fault.name().to_owned(),
            workers: u32::try_from(sale.workers).unwrap_or(u32::MAX),
            ..Safety::default()
        };
        if let Some(reason) = entrant.spared(fault) {
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
            None => Kept::start(self.sale, self.shop, self.entrant).await?,
        };
        let kept = self.kept.insert(kept);
        kept.sales += 1;
        let lock = format!("sale-{}", kept.sales);
        let directory = kept.directory.path().join(&lock);
        let shop = self.shop.url();
        let stage = Stage { sale: self.sale, shop: &shop, directory: &directory, lock: &lock };
        drama::play(stage, &mut kept.scene, self.entrant, fault).await
    }
}

impl Kept {
    async fn start(sale: &Sale, shop: &Shop, entrant: Entrant) -> Result<Self, String> {
        let directory = scratch(&shop.below)?;
        let home = directory.path().join("servers");
        let scene = Scene::start(entrant, &home, sale.lease).await?;
        Ok(Self { scene, directory, sales: 0 })
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
