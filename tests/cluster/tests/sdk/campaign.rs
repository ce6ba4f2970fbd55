//! Every kind of hold under every fault of its process and of the leader.
//!
//! A holder that lost the lock must check its guard for its last line before the next grant, and write that line before
//! the next holder writes, unless it was stopped during that write. One test per fault. `HOLDFAST_TRIALS` is the number
//! of trials of each kind over all faults; without it, each test has one trial for each TTL.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use holdfast_client::{Client, Error, FencingToken, Guard, LockName, MultiGuard};
use holdfast_lab::{Cluster, DEADLINE, Program, until, until_some};
use nix::sys::signal::Signal;
use tokio::task::JoinHandle;

use crate::journal::{self, Line};
use crate::program::{addresses, start_example};

/// Kinds of a hold, as arguments of the example.
const KINDS: [&str; 6] = ["exclusive", "shared", "upgradable", "permits", "leader", "several"];
/// With the shorter TTL many holders expire during an election, with the longer one most do not.
const TTLS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3)];
/// Lines a holder must write after a fault that it survived.
const LINES_AFTER: usize = 20;

/// `kill -9`, or SIGSTOP until the trial is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strike {
    Kill,
    Stop,
}

/// The fault of a holder's process, of the leader, or of both at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct InjectedFault {
    holder: Option<Strike>,
    leader: Option<Strike>,
}

const FAULTS: usize = 6;

/// Rounds under one fault, of `TTLS.len()` trials of each kind.
fn rounds() -> usize {
    let trials = std::env::var("HOLDFAST_TRIALS").ok().and_then(|trials| trials.parse().ok());
    trials.map_or(1, |trials: usize| trials.div_ceil(TTLS.len() * FAULTS))
}

/// One holder in its own process, and the next waiter, which writes one line when it has the lock.
struct Trial {
    kind: &'static str,
    ttl: Duration,
    file: PathBuf,
    holder: Program,
    token: u64,
    next: JoinHandle<Next>,
    /// The next one was granted before the fault: a busy machine can delay the renewals of a holder for too long.
    was_lost: bool,
}

/// The outcome of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Kept,
    Lost,
}

/// The grant of the next waiter.
enum Next {
    One(Box<Guard>),
    MultiLock(MultiGuard),
}

impl Next {
    async fn acquire(client: &Client, lock: &str, kind: &str) -> Result<Self, Error> {
        let one = client.lock(lock).timeout(DEADLINE * 2);
        Ok(match kind {
            "leader" => {
                let election = client.election(lock).timeout(DEADLINE * 2);
                Self::One(Box::new(election.campaign("next").await?.into_guard()))
            }
            "several" => {
                let multi_lock = client.lock_many([lock.to_owned(), format!("{lock}/too")]);
                Self::MultiLock(multi_lock.timeout(DEADLINE * 2).acquire().await?)
            }
            "permits" => Self::One(Box::new(one.limit(2).acquire().await?)),
            _ => Self::One(Box::new(one.acquire().await?)),
        })
    }

    fn token(&self) -> u64 {
        let token: FencingToken = match self {
            Self::One(guard) => guard.token(),
            Self::MultiLock(guard) => guard.holds().next().expect("two").token(),
        };
        token.0
    }

    async fn release(self) -> Result<(), Error> {
        match self {
            Self::One(guard) => guard.release().await,
            Self::MultiLock(guard) => guard.release().await,
        }
    }
}

/// The lock of a holder of this kind.
fn lock_of(lock: &str, kind: &str) -> LockName {
    let name = if kind == "leader" { format!("elections/{lock}") } else { lock.to_owned() };
    LockName::new(&name).expect("a name")
}

/// Waits for the lock, and appends a line to the journal.
async fn take_and_write(client: Client, lock: String, kind: &str, file: PathBuf) -> Next {
    let next = Next::acquire(&client, &lock, kind).await.expect("the next one gets the lock");
    let line = Line::now(next.token());
    let mut file = OpenOptions::new().append(true).open(file).expect("the file");
    file.write_all(format!("{line}\n").as_bytes()).expect("a line");
    next
}

impl Trial {
    async fn begin(nodes: String, next: Client, lock: String, file: PathBuf, turn: usize) -> Self {
        let (kind, ttl) = (KINDS[turn % KINDS.len()], TTLS[turn / KINDS.len()]);
        let (millis, path) = (ttl.as_millis().to_string(), file.to_str().expect("a path"));
        let mut holder = start_example("journal", &[&nodes, &lock, &millis, path, "-", kind]);
        let line = holder.line().await.expect("a line");
        let token = line.strip_prefix("held ").and_then(|token| token.parse().ok());
        let token = token.unwrap_or_else(|| panic!("{kind} is not held: {line}"));
        assert_eq!(holder.line().await.as_deref(), Some("writing"));
        let name = lock_of(&lock, kind);
        let taking = tokio::spawn(take_and_write(next.clone(), lock, kind, file.clone()));
        until("the next one to wait", DEADLINE, || async {
            next.lock_state(&name).await.is_ok_and(|lock| lock.waiters == 1)
        })
        .await;
        Self { kind, ttl, file, holder, token, next: taking, was_lost: false }
    }

    /// Completes the trial after the fault.
    async fn judge(mut self, fault: InjectedFault) -> Ending {
        let struck = Instant::now();
        let ending = match fault.holder {
            None => self.outlive(struck).await,
            Some(_) => Ending::Lost,
        };
        if ending == Ending::Kept {
            self.holder.signal(Signal::SIGKILL);
        }
        let next = (&mut self.next).await.expect("the next one");
        let killed = ending == Ending::Kept || fault.holder == Some(Strike::Kill);
        if !killed {
            self.say_lost(fault).await;
        } else if ending == Ending::Lost {
            // The last renewal may be up to a third of the TTL before the kill.
            let early = struck.elapsed() + self.ttl / 3 + Duration::from_millis(100) < self.ttl;
            assert!(
                self.was_lost || !early,
                "{}: {:?} after the kill",
                self.kind,
                struck.elapsed()
            );
        }
        self.compare(fault, next.token());
        next.release().await.expect("given back");
        ending
    }

    /// A holder without a fault has lost the lock, or still writes after the end of its old lease.
    async fn outlive(&self, struck: Instant) -> Ending {
        let old_lease = struck + self.ttl + self.ttl / 2;
        let mut before = None;
        until_some("the holder to go on, or the next one to be granted", DEADLINE, || {
            let written = journal::lines(&self.file).len();
            let granted = self.next.is_finished();
            if Instant::now() >= old_lease && before.is_none() {
                before = Some(written);
            }
            let kept = before.is_some_and(|before| written >= before + LINES_AFTER);
            let ending = if granted { Some(Ending::Lost) } else { kept.then_some(Ending::Kept) };
            std::future::ready(ending)
        })
        .await
    }

    /// Asserts that the guard of a live holder reports the loss.
    async fn say_lost(&mut self, fault: InjectedFault) {
        if fault.holder == Some(Strike::Stop) {
            self.holder.signal(Signal::SIGCONT);
        }
        let line = self.holder.line().await.expect("a line");
        assert!(line.starts_with("lost "), "{} under {fault:?}: {line}", self.kind);
        assert_eq!(self.holder.end().await.code(), Some(3));
    }

    /// Asserts that the holder checked its guard for no line after the next grant, and wrote none after it, except the
    /// line that a stop interrupted.
    fn compare(&self, fault: InjectedFault, next: u64) {
        let (kind, own, written) = (self.kind, self.token, journal::lines(&self.file));
        assert!(next > own, "{kind}: {next} after {own}");
        let granted = written.iter().find(|line| line.token == next).expect("its line");
        assert_eq!(journal::verdict(&written, own, granted.asked), Ok(()), "{kind}");
        let behind = written.iter().skip_while(|line| line.token != next).count() - 1;
        let may_be_late = usize::from(fault.holder == Some(Strike::Stop));
        assert!(behind <= may_be_late, "{kind}: {behind} of {} lines behind it", written.len());
    }
}

/// Injects the faults of this round; returns the node that needs a restart.
async fn strike(cluster: &Cluster, fault: InjectedFault, trials: &mut [Trial]) -> Option<u64> {
    let leader = cluster.wait_ready().await;
    if let Some(strike) = fault.holder {
        let signal = match strike {
            Strike::Kill => Signal::SIGKILL,
            Strike::Stop => Signal::SIGSTOP,
        };
        for trial in trials {
            trial.was_lost = trial.next.is_finished();
            trial.holder.signal(signal);
        }
    }
    match fault.leader? {
        Strike::Stop => cluster.node(leader).pause().await,
        Strike::Kill => cluster.node(leader).kill(),
    }
    Some(leader)
}

async fn mend(cluster: &Cluster, fault: InjectedFault, node: u64) {
    match fault.leader {
        Some(Strike::Stop) => cluster.node(node).resume(),
        Some(Strike::Kill) => cluster.node(node).start(),
        None => {}
    }
    for node in cluster.nodes() {
        node.wait_ready().await;
    }
}

/// Concurrent trials under one fault: each kind with each TTL.
async fn round(
    cluster: &Cluster,
    next: &Client,
    fault: InjectedFault,
    number: usize,
) -> Vec<Ending> {
    let nodes = addresses(cluster).join(",");
    let mut beginning = Vec::new();
    for turn in 0..KINDS.len() * TTLS.len() {
        let (nodes, next, lock) = (nodes.clone(), next.clone(), format!("round/{number}/{turn}"));
        let file = cluster.dir().join(format!("{number}-{turn}"));
        beginning.push(Trial::begin(nodes, next, lock, file, turn));
    }
    let mut trials = join_all(beginning).await;
    let struck = strike(cluster, fault, &mut trials).await;
    let endings = join_all(trials.into_iter().map(|trial| trial.judge(fault))).await;
    if let Some(node) = struck {
        mend(cluster, fault, node).await;
    }
    endings
}

/// In every trial of every kind, the guard reports the loss and the holder writes its last line before the next holder
/// writes.
async fn every_loss_comes_before_the_next_grant(holder: Option<Strike>, leader: Option<Strike>) {
    let fault = InjectedFault { holder, leader };
    let cluster = Cluster::three().await;
    let next = Client::new(addresses(&cluster)).expect("a client");
    for number in 0..rounds() {
        let endings = round(&cluster, &next, fault, number).await;
        let kept = endings.iter().filter(|ending| **ending == Ending::Kept).count();
        assert!(holder.is_none() || kept == 0, "round {number}, {fault:?}: {kept} kept their lock");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_loss_comes_before_the_next_grant_when_the_holder_is_stopped() {
    every_loss_comes_before_the_next_grant(Some(Strike::Stop), None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_loss_comes_before_the_next_grant_when_the_leader_is_killed() {
    every_loss_comes_before_the_next_grant(None, Some(Strike::Kill)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_loss_comes_before_the_next_grant_when_the_holder_and_the_leader_are_stopped() {
    every_loss_comes_before_the_next_grant(Some(Strike::Stop), Some(Strike::Stop)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_loss_comes_before_the_next_grant_when_the_holder_is_killed() {
    every_loss_comes_before_the_next_grant(Some(Strike::Kill), None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_loss_comes_before_the_next_grant_when_the_leader_is_stopped() {
    every_loss_comes_before_the_next_grant(None, Some(Strike::Stop)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_loss_comes_before_the_next_grant_when_the_holder_and_the_leader_are_killed() {
    every_loss_comes_before_the_next_grant(Some(Strike::Kill), Some(Strike::Kill)).await;
}
