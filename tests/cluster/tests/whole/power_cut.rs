//! A power cut of the whole cluster: all acknowledged changes exist after the restart.
//!
//! All data directories are on one loop-mounted ext4 image. Clients acquire and release locks. Then the test shuts the
//! file system down without a flush, kills all nodes, mounts the image again and starts the nodes.
//! `HOLDFAST_CLUSTER_POWER_CUTS` is the number of cuts (default 10); `HOLDFAST_POWER_SEED` repeats their random times.
//! `scripts/campaign power-cuts cluster N` runs a longer campaign.

use std::time::{Duration, Instant};

use holdfast_lab::{
    Actor, Attempt, Cluster, DEADLINE, History, Http, LoopImage, is_root, judge, until,
};
use tokio::task::JoinSet;

/// TTL longer than the time between two checks of a lock.
const TTL: Duration = Duration::from_hours(2);
const CLIENTS: usize = 12;
const IMAGE_MIB: u32 = 2_048;
/// Snapshot size that causes one or two snapshots between two cuts, so that cuts hit them and restarts load them.
const SNAPSHOTS: &str = "[storage]\nsnapshot_log = \"16KiB\"\n";

fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Acquires new locks and releases every third, until a reply is missing.
async fn take_locks(mut actor: Actor, cut: u64) {
    for count in 0_u64.. {
        let lock = format!("cut/{cut}/{}/{count}", actor.session);
        if !matches!(actor.acquire(&lock, Duration::ZERO).await, Attempt::Granted(_)) {
            return;
        }
        if count % 3 == 2 && actor.release(&lock).await != Attempt::Done {
            return;
        }
        actor.next_endpoint();
    }
}

/// Pseudo-random number of grants before the cut, small or large.
fn grants_before(seed: u64, cut: u64) -> usize {
    let mixed = (seed ^ cut).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    usize::try_from((mixed ^ (mixed >> 29)) % 240).expect("small") + 1
}

fn granted(history: &History) -> usize {
    let operations = history.operations();
    operations.iter().filter(|operation| operation.answered().is_some()).count()
}

/// A cluster with repeated power cuts, and the locks that must survive them: one acquired after each cut.
struct Campaign {
    cluster: Cluster,
    disk: LoopImage,
    seed: u64,
    kept: Vec<(String, u64)>,
    /// Node restarts that loaded a snapshot.
    from_snapshots: u64,
}

impl Campaign {
    async fn cut(&mut self, cut: u64) {
        let history = History::default();
        let endpoints = self.cluster.endpoints();
        let mut clients = JoinSet::new();
        for index in 0..CLIENTS {
            let session = format!("c{cut}-{index}");
            let actor = Actor::new(&session, endpoints.clone(), TTL, &history).at_endpoint(index);
            clients.spawn(take_locks(actor, cut));
        }
        let goal = grants_before(self.seed, cut);
        until("some grants before the cut", DEADLINE, || async { granted(&history) >= goal }).await;
        self.disk.cut_power();
        self.cluster.kill_all();
        while let Some(client) = clients.join_next().await {
            client.expect("a client");
        }
        // Read after the last reply, so that replies at the moment of the cut count as well.
        let crashed_us = history.now_us();
        self.disk.remount();
        self.cluster.start_all();
        self.cluster.wait_ready().await;
        for http in &endpoints {
            // The snapshot is the node's own or was received from a peer.
            let installed = http.metric_value("holdfast_snapshots_installed_total").await;
            self.from_snapshots += installed.min(1);
        }
        look_at_everything(&history, &endpoints).await;
        history.require(judge::acknowledged_grants_survive(&history.operations(), crashed_us));
        self.keep_one_more(cut, &history).await;
        judge::check_lock_history(&history);
        close_sessions(cut, &endpoints).await;
    }

    /// Acquires a lock that is never released; its token must be larger than every token acknowledged before.
    async fn keep_one_more(&mut self, cut: u64, history: &History) {
        let lock = format!("kept/{cut}");
        let mut actor = Actor::new(&format!("kept{cut}"), self.cluster.endpoints(), TTL, history);
        let attempt = actor.take(&lock, Duration::ZERO, DEADLINE).await;
        let Attempt::Granted(token) = attempt else { panic!("{attempt:?}") };
        let largest = self.kept.last().map_or(0, |(_, token)| *token);
        assert!(token > largest, "tokens went back from {largest} to {token}");
        self.kept.push((lock, token));
        let recent = self.kept.len().saturating_sub(10);
        self.check_kept(recent).await;
    }

    async fn check_kept(&self, from: usize) {
        for (index, (lock, token)) in self.kept.iter().enumerate().skip(from) {
            let http = &self.cluster.nodes()[index % 3].http;
            let seen = http.get(&format!("/v1/locks/{lock}")).await.assert_status(200).json();
            assert_eq!(seen["holders"][0]["token"], *token, "{seen}");
        }
    }
}

/// Releases the checked locks, so that the state does not grow in a long campaign.
async fn close_sessions(cut: u64, endpoints: &[Http]) {
    for index in 0..CLIENTS {
        let closed = endpoints[index % 3].delete(&format!("/v1/sessions/c{cut}-{index}")).await;
        assert!(matches!(closed.status, 204 | 410), "{closed}");
    }
}

/// Reads every lock with a grant in the history.
async fn look_at_everything(history: &History, endpoints: &[Http]) {
    let operations = history.operations();
    let granted = operations.iter().filter(|operation| operation.answered().is_some());
    let locks: std::collections::BTreeSet<&str> =
        granted.filter_map(|operation| operation.call.lock()).collect();
    let mut reader = Actor::new("reader", endpoints.to_vec(), TTL, history);
    for lock in locks {
        let mut seen = false;
        while !seen {
            seen = reader.look(lock).await.is_some();
            reader.next_endpoint();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_acknowledged_grant_survives_a_power_cut_of_all_nodes() {
    if !is_root("the power cut of the whole cluster") {
        return;
    }
    let cuts = setting("HOLDFAST_CLUSTER_POWER_CUTS", 10);
    let seed = setting("HOLDFAST_POWER_SEED", 2026);
    let disk = LoopImage::mount(IMAGE_MIB);
    let cluster = Cluster::of(3).data_under(disk.path()).extra(SNAPSHOTS).start().await;
    let mut campaign = Campaign { cluster, disk, seed, kept: Vec::new(), from_snapshots: 0 };
    let started = Instant::now();
    for cut in 0..cuts {
        campaign.cut(cut).await;
        if cut % 50 == 49 {
            println!("{} cuts in {:?}", cut + 1, started.elapsed());
        }
    }
    campaign.check_kept(0).await;
    campaign.cluster.kill_all();
    assert!(campaign.from_snapshots > 0, "no restart began with a snapshot");
    println!(
        "{cuts} power cuts of three nodes (seed {seed}) in {:?}: nothing acknowledged was lost, last token {:?}; \
         {} restarts of a node began with a snapshot",
        started.elapsed(),
        campaign.kept.last(),
        campaign.from_snapshots
    );
}
