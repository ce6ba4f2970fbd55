//! One seller: takes the lock, reads the stock, thinks, writes, gives the lock back.
//!
//! Owns one sale from lock to release. Refuses to ask whether it still holds the lock before it writes: that answer
//! could be out of date before it is used, and only the database can check in the same step.

use std::time::Duration;

use holdfast_fence::FenceError;
use tokio::sync::mpsc;

use crate::Fallible;
use crate::lock::Locker;
use crate::message::Report;
use crate::shop::Counter;

/// What a seller does between reading and writing: printing a receipt, say.
const THINKING: Duration = Duration::from_millis(2);

/// A seller with its way to the lock and its way to the database.
pub(crate) struct Seller {
    pub(crate) name: String,
    pub(crate) locker: Locker,
    pub(crate) counter: Counter,
    pub(crate) reports: mpsc::Sender<Report>,
}

/// How a sale ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sale {
    Sold,
    /// The shelf says no more than the seller was to leave.
    Done,
    /// The database knew a newer token.
    Refused,
}

impl Seller {
    /// Sells until the shelf says at most `floor`; answers how many.
    pub(crate) async fn sell_down_to(&mut self, floor: i64) -> Fallible<usize> {
        let mut sold = 0;
        loop {
            match self.sell_one(floor, None).await? {
                Sale::Sold => sold += 1,
                Sale::Refused => {}
                Sale::Done => return Ok(sold),
            }
        }
    }

    /// Sells one piece if the shelf says more than `floor`. A watched seller reports itself between its read and
    /// its write and waits for a word.
    pub(crate) async fn sell_one(
        &mut self,
        floor: i64,
        watched: Option<&mut mpsc::Receiver<()>>,
    ) -> Fallible<Sale> {
        let held = self.locker.acquire().await?;
        let sale = self.sell_holding(held.token, floor, watched).await;
        self.locker.release(held).await?;
        match sale {
            Err(Stop::Fence(refusal @ FenceError::Stale { .. })) => {
                let (seller, error) = (self.name.clone(), refusal.to_string());
                self.reports.send(Report::Refused { seller, error }).await?;
                Ok(Sale::Refused)
            }
            Err(Stop::Fence(other)) => Err(other.into()),
            Err(Stop::Narrator) => Err("the narrator is gone".into()),
            Ok(sale) => Ok(sale),
        }
    }

    async fn sell_holding(
        &mut self,
        token: holdfast_fence::FencingToken,
        floor: i64,
        watched: Option<&mut mpsc::Receiver<()>>,
    ) -> Result<Sale, Stop> {
        let stock = self.counter.read(token).await?;
        if stock <= floor {
            return Ok(Sale::Done);
        }
        tokio::time::sleep(THINKING).await;
        let is_watched = watched.is_some();
        if let Some(word) = watched {
            let seller = self.name.clone();
            self.report(Report::MidSale { seller, token: token.0, stock }).await?;
            word.recv().await.ok_or(Stop::Narrator)?;
        }
        self.counter.write(stock - 1, token).await?;
        if is_watched {
            let seller = self.name.clone();
            self.report(Report::Sold { seller, token: token.0, stock: stock - 1 }).await?;
        }
        Ok(Sale::Sold)
    }

    async fn report(&self, report: Report) -> Result<(), Stop> {
        self.reports.send(report).await.map_err(|_| Stop::Narrator)
    }
}

/// Why a sale ended before its write.
enum Stop {
    Fence(FenceError),
    Narrator,
}

impl From<FenceError> for Stop {
    fn from(error: FenceError) -> Self {
        Self::Fence(error)
    }
}
