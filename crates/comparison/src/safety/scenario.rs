//! One sale under one fault, from the first worker to the verdict.
//!
//! Owns the order of events; each step waits for what was seen, with a deadline. One worker, the first, takes the lock and
//! stops in the middle of a sale; the others queue up behind it; then the fault strikes. A holder that lives goes on when
//! [`ENOUGH`] others have sold or after [`SALE`], whichever is first: well within its lease, so that it is in the right. A
//! lock that lives with its connection has no lease; when its servers are restarted, its sale takes up to [`LONG_SALE`].

use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::time::{Instant, sleep_until};

use super::cluster::FaultCluster;
use super::count::{Books, double_holders};
use super::inventory;
use super::message::{Halt, Order, Plan};
use super::participant::Participant;
use super::workers::{Seen, Workers};
use crate::fault::Fault;
use crate::servers::clock::{WallClock, now_ns};

/// The worker that the fault is about, and the one whose clock is moved.
const HOLDER: usize = 0;
const FAST: usize = 1;
/// Sales of each worker before the fault.
const WARM: u32 = 3;
/// Sales by others after which the holder goes on.
const ENOUGH: usize = 5;
/// The longest that a sale with a live holder takes.
pub const SALE: Duration = Duration::from_millis(1_800);
/// The same where nothing but the connection ends the lock: no lease says how long a sale may take.
pub const LONG_SALE: Duration = Duration::from_secs(8);
/// The shortest that a leader is isolated.
const ISOLATED: Duration = Duration::from_secs(5);
/// How far clocks are moved.
const AHEAD: Duration = Duration::from_hours(1);
/// Until workers have their connections; until the holder stands in its sale; until the sale is over.
const STEP: Duration = Duration::from_secs(30);

/// What a case is played with.
#[derive(Clone, Debug)]
pub struct Sale {
    /// This program, which becomes a worker when it is told to.
    pub program: PathBuf,
    /// Workers, at least two.
    pub workers: usize,
    /// On the shelf.
    pub pieces: u64,
    /// Between reading and writing.
    pub think: Duration,
    /// How long holds outlive their holders where that can be chosen.
    pub lease: Duration,
    /// Without a grant for so long after the fault, the lock is stuck.
    pub bound: Duration,
}

impl Sale {
    /// Four workers of this program, 100 pieces, 5 ms between reading and writing, leases of 3 s, stuck after 20 s.
    pub fn of(program: PathBuf) -> Self {
        Self {
            program,
            workers: 4,
            pieces: 100,
            think: Duration::from_millis(5),
            lease: Duration::from_secs(3),
            bound: Duration::from_secs(20),
        }
    }

    /// The longest that one case may take, whatever happens.
    pub fn deadline(&self) -> Duration {
        4 * STEP + self.bound + ISOLATED
    }
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What the store says.
    pub books: Books,
    /// Critical sections that began while another was not over.
    pub double_holders: u64,
    /// From the fault to the next entry of somebody else.
    pub next_grant: Option<Duration>,
    /// Nobody entered within the bound after the fault.
    pub stuck: bool,
    /// Whether the fence refused a write.
    pub refused: bool,
}

/// Where a sale takes place.
#[derive(Clone, Copy, Debug)]
pub struct SaleContext<'a> {
    /// What it is played with.
    pub sale: &'a Sale,
    /// The store's database.
    pub store: &'a str,
    /// Empty, for this case alone.
    pub directory: &'a Path,
    /// Of the lock; not used before.
    pub lock: &'a str,
}

/// Plays one case. The servers may be left broken, see [`Fault::spares_servers`].
///
/// # Errors
/// In words, if the case could not be played to its end.
pub async fn play(
    context: SaleContext<'_>,
    cluster: &mut FaultCluster,
    participant: Participant,
    fault: Fault,
) -> Result<Verdict, String> {
    let database =
        inventory::connect(context.store, "judge").await.map_err(|error| error.to_string())?;
    let sale = context.sale;
    inventory::open(&database, context.lock, sale.pieces, participant.fenced).await?;
    if fault == Fault::ServerClock {
        cluster.with_clocks(context.directory).await?;
    }
    if fault == Fault::Promoted {
        cluster.with_copy(context.directory).await?;
    }
    let is_moved = fault == Fault::ClientClock;
    let clock = is_moved.then(|| client_clock(context.directory)).transpose()?;
    let mut workers = hire(context, cluster, participant, clock.as_ref()).await?;
    let mut scenario =
        Scenario { sale, participant, cluster, workers: &mut workers, fault, struck_ns: 0, clock };
    let played = scenario.play().await;
    let struck = scenario.struck_ns;
    let trouble = workers.seen.trouble();
    workers.dismiss().await;
    let next = played.map_err(|words| match trouble {
        Some(trouble) => format!("{words}; the workers say: {trouble}"),
        None => words,
    })?;
    let books = inventory::books(&database, sale.pieces).await?;
    Ok(verdict(&workers.seen, books, fault, struck, next))
}

fn client_clock(directory: &Path) -> Result<WallClock, String> {
    std::fs::create_dir_all(directory).map_err(|error| error.to_string())?;
    WallClock::right(&directory.join("client-clock")).map_err(|error| error.to_string())
}

async fn hire(
    context: SaleContext<'_>,
    cluster: &FaultCluster,
    participant: Participant,
    clock: Option<&WallClock>,
) -> Result<Workers, String> {
    let (sale, mut workers) = (context.sale, Workers::default());
    for worker in 0..sale.workers {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let plan = Plan {
            name: format!("worker-{worker}"),
            system: participant.name(),
            addresses: cluster.addresses().from_node(worker),
            lock: context.lock.to_owned(),
            lease_ms: millis(sale.lease),
            store: context.store.to_owned(),
            fenced: participant.fenced,
            think_ms: millis(sale.think),
        };
        let variables = clock.filter(|_| worker == FAST).map(WallClock::variables);
        workers.hire(&sale.program, &plan, &variables.unwrap_or_default()).await?;
    }
    Ok(workers)
}

fn verdict(seen: &Seen, books: Books, fault: Fault, struck: u64, next: Option<u64>) -> Verdict {
    let ended = |stay: &super::workers::Stay| stay.ended == Some(super::message::Ended::Refused);
    Verdict {
        books,
        double_holders: double_holders(&seen.sections()),
        next_grant: next.map(|next| Duration::from_nanos(next.saturating_sub(struck))),
        stuck: fault != Fault::None && next.is_none(),
        refused: seen.stays.iter().any(ended),
    }
}

struct Scenario<'a> {
    sale: &'a Sale,
    participant: Participant,
    cluster: &'a mut FaultCluster,
    workers: &'a mut Workers,
    fault: Fault,
    /// When the fault struck; zero before.
    struck_ns: u64,
    clock: Option<WallClock>,
}

impl Scenario<'_> {
    /// Answers when somebody else entered first after the fault.
    async fn play(&mut self) -> Result<Option<u64>, String> {
        let workers = self.sale.workers;
        self.wait("the workers to connect", |seen| seen.ready.len() == workers).await?;
        if self.fault == Fault::None {
            self.sell_out().await?;
            return Ok(None);
        }
        self.everybody(Order::Sell(WARM)).await;
        self.wait("everybody to have sold", |seen| seen.idle.iter().all(|idle| *idle == 1)).await?;
        self.take_the_stage().await?;
        self.strike().await?;
        let next = self.after().await?;
        // A stuck lock is not waited for a second time; a paused holder goes on by now.
        if next.is_some() || self.fault == Fault::HolderPaused {
            self.sell_out().await?;
        }
        Ok(next)
    }

    async fn wait(&mut self, what: &str, wanted: impl Fn(&Seen) -> bool) -> Result<(), String> {
        let seen = self.workers.until(Instant::now() + STEP, wanted).await;
        if seen { Ok(()) } else { Err(format!("waited {STEP:?} in vain for {what}")) }
    }

    async fn everybody(&mut self, order: Order) {
        for worker in 0..self.sale.workers {
            self.workers.order(worker, order).await;
        }
    }

    /// The holder stands in the middle of its sale, and all others ask for the lock.
    async fn take_the_stage(&mut self) -> Result<(), String> {
        if self.fault == Fault::Promoted {
            self.cluster.cut_cable();
        }
        let halt =
            if self.fault == Fault::HolderPaused { Halt::AfterLook } else { Halt::BeforeLook };
        self.workers.order(HOLDER, Order::Halt(halt)).await;
        self.wait("the holder in its sale", |seen| seen.mid_sale == Some(HOLDER)).await?;
        for worker in (0..self.sale.workers).filter(|worker| *worker != HOLDER) {
            self.workers.order(worker, Order::Sell(u32::MAX)).await;
        }
        let others = self.sale.workers - 1;
        let asking = move |seen: &Seen| seen.asking.iter().filter(|asks| **asks).count();
        // Where nothing keeps them out they may be inside already.
        self.wait("the others to ask", move |seen| {
            asking(seen) == others || seen.done_after(Some(HOLDER), 0) > 0
        })
        .await
    }

    async fn strike(&mut self) -> Result<(), String> {
        self.struck_ns = now_ns();
        match self.fault {
            Fault::None => {}
            Fault::HolderPaused => self.workers.signal(HOLDER, Signal::SIGSTOP),
            Fault::HolderKilled => self.workers.kill(HOLDER).await,
            Fault::ClientClock => {
                if let Some(clock) = &self.clock {
                    clock.move_by(AHEAD).map_err(|error| error.to_string())?;
                }
            }
            Fault::ServersRestarted => {
                self.cluster.crash_all();
                self.cluster.restart_all()?;
            }
            Fault::Promoted => {
                self.cluster.crash_all();
                self.cluster.promote().await?;
            }
            Fault::ServerClock => self.cluster.move_clocks(AHEAD).await?,
            Fault::LeaderIsolated => {
                let leader = self.cluster.leader().await.ok_or("no node says that it leads")?;
                self.struck_ns = now_ns();
                return self.isolate(leader).await;
            }
        }
        Ok(())
    }

    /// The leader stands still while the sale goes on, and comes back.
    async fn isolate(&mut self, leader: usize) -> Result<(), String> {
        let (began, bound) = (Instant::now(), self.sale.bound);
        self.cluster.signal(leader, Signal::SIGSTOP)?;
        self.go_on_in_time(began).await;
        let struck = self.struck_ns;
        let next = |seen: &Seen| seen.next_after(Some(HOLDER), struck).is_some();
        self.workers.until(began + bound, next).await;
        sleep_until(began + ISOLATED).await;
        self.cluster.signal(leader, Signal::SIGCONT)
    }

    /// What comes after the fault, until somebody else has entered or the bound is over.
    async fn after(&mut self) -> Result<Option<u64>, String> {
        let (struck, bound) = (self.struck_ns, Instant::now() + self.sale.bound);
        let next = move |seen: &Seen| seen.next_after(Some(HOLDER), struck);
        match self.fault {
            Fault::None | Fault::HolderKilled | Fault::LeaderIsolated => {}
            Fault::HolderPaused => {
                if self.workers.until(bound, |seen| next(seen).is_some()).await {
                    let enough = move |seen: &Seen| seen.done_after(Some(HOLDER), struck) >= ENOUGH;
                    self.workers.until(Instant::now() + SALE, enough).await;
                }
                let found = next(&self.workers.seen);
                self.workers.signal(HOLDER, Signal::SIGCONT);
                self.workers.order(HOLDER, Order::GoOn).await;
                return Ok(found);
            }
            Fault::ClientClock | Fault::ServersRestarted | Fault::Promoted | Fault::ServerClock => {
                self.go_on_in_time(Instant::now()).await;
            }
        }
        self.workers.until(bound, |seen| next(seen).is_some()).await;
        Ok(next(&self.workers.seen))
    }

    /// A holder in the right goes on when others have sold beside it, or when its sale is done.
    async fn go_on_in_time(&mut self, began: Instant) {
        let struck = self.struck_ns;
        let enough = move |seen: &Seen| seen.done_after(Some(HOLDER), struck) >= ENOUGH;
        self.workers.until(began + self.longest(), enough).await;
        self.workers.order(HOLDER, Order::GoOn).await;
    }

    fn longest(&self) -> Duration {
        let restarted = self.fault == Fault::ServersRestarted;
        if restarted && self.participant.lives_with_connection() { LONG_SALE } else { SALE }
    }

    /// Everybody who lives sells until the shelf is empty.
    async fn sell_out(&mut self) -> Result<(), String> {
        // What was ordered before is done first, and each order ends with one word.
        let ordered = if self.fault == Fault::None { 1 } else { 3 };
        self.everybody(Order::Sell(u32::MAX)).await;
        self.wait("the shelf to be empty", move |seen| {
            let workers = seen.idle.iter().enumerate();
            workers.into_iter().all(|(at, idle)| *idle == ordered || seen.gone.contains(&at))
        })
        .await
    }
}
