//! Nodes are killed while the members change, under load: the leader, the node that joins, the node that leaves.
//!
//! A round is one change and one kill, after a pseudo-random number of grants since the change began. `HOLDFAST_ROUNDS` is
//! the number of rounds (default [`ROUNDS`]); `HOLDFAST_ROUNDS_SEED` repeats the moments of their kills. `scripts/campaign members N`
//! runs a longer campaign. Node 1 never leaves.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use holdfast_lab::{
    Cluster, DEADLINE, History, Http, Load, LoadReport, Method, NodeAddresses, Ports, Process,
    Program, Request, binary, until,
};
use serde_json::Value;

/// Each change and each victim.
const ROUNDS: u64 = 4;
/// Addresses for the nodes that join: at most four at a time, and one that leaves.
const SLOTS: u64 = 5;
/// A long campaign would spend its time on reading logs; and a node that joins receives a snapshot.
const SNAPSHOT_LOG: &str = "1MiB";
/// The exit code of a node that was removed.
const REMOVED: i32 = 71;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Add,
    Replace,
    Remove,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Leader,
    Joiner,
    Leaving,
}

/// The number of voters is 3 before the first round and after the last one.
const CYCLE: [(Change, Victim); 7] = [
    (Change::Add, Victim::Joiner),
    (Change::Replace, Victim::Leader),
    (Change::Remove, Victim::Leaving),
    (Change::Replace, Victim::Joiner),
    (Change::Add, Victim::Leader),
    (Change::Replace, Victim::Leaving),
    (Change::Remove, Victim::Leader),
];

/// A node that joined.
struct Joined {
    addresses: NodeAddresses,
    config: PathBuf,
    log: PathBuf,
    /// `None` while it is killed.
    process: Option<Process>,
}

struct ChangingCluster {
    first: Cluster,
    joined: BTreeMap<u64, Joined>,
    /// Free addresses.
    slots: Vec<NodeAddresses>,
    /// The kills while a change was unfinished.
    kills_during_change: u64,
    _ports: Ports,
}

impl ChangingCluster {
    /// Starts a cluster of three voters.
    async fn start() -> Self {
        let mut ports = Ports::default();
        let slots = (0..SLOTS).map(|id| {
            let [http, peer, zookeeper] = [(); 3].map(|()| ports.reserve());
            NodeAddresses { id, http, peer, zookeeper }
        });
        let slots = slots.collect();
        let extra = format!("[storage]\nsnapshot_log = \"{SNAPSHOT_LOG}\"\n");
        let first = Cluster::of(1).extra(&extra).start().await;
        let mut cluster =
            Self { first, joined: BTreeMap::new(), slots, kills_during_change: 0, _ports: ports };
        for _ in 0..2 {
            let joiner = cluster.invite(None).await;
            cluster.start_node(joiner);
            cluster.settled(&[]).await;
        }
        cluster
    }

    /// The HTTP APIs of all present and later nodes.
    fn endpoints(&self) -> Vec<Http> {
        let joined = self.joined.values().map(|node| &node.addresses).chain(&self.slots);
        let joined = joined.map(|addresses| Http::new(addresses.http));
        self.first.endpoints().into_iter().chain(joined).collect()
    }

    fn is_running(&self, id: u64) -> bool {
        match self.joined.get(&id) {
            Some(node) => node.process.is_some(),
            None => self.first.node(1).is_started(),
        }
    }

    fn http(&self, id: u64) -> Http {
        match self.joined.get(&id) {
            Some(node) => Http::new(node.addresses.http),
            None => self.first.node(1).http.clone(),
        }
    }

    fn start_node(&mut self, id: u64) {
        match self.joined.get_mut(&id) {
            Some(node) => {
                let set = format!("storage.snapshot_log={SNAPSHOT_LOG}");
                let config = (node.config.as_path(), &["--set", &set][..]);
                node.process = Some(Process::serve(binary(), config, &node.log, None));
            }
            None => self.first.node(1).start(),
        }
    }

    fn kill(&mut self, id: u64) {
        match self.joined.get_mut(&id) {
            Some(node) => node.process.take().expect("a running node").kill(),
            None => self.first.node(1).kill(),
        }
    }

    /// `GET /v1/cluster` of a node that answers.
    async fn view(&self) -> Option<Value> {
        for id in std::iter::once(1).chain(self.joined.keys().copied()) {
            let request = Request::new(Method::GET, "/v1/cluster").within(Duration::from_secs(3));
            if self.is_running(id)
                && let Ok(reply) = self.http(id).send(request).await
                && reply.status == 200
                && reply.json()["leader"].is_number()
            {
                return Some(reply.json());
            }
        }
        None
    }

    async fn leader(&self) -> u64 {
        let mut leader = None;
        until("a leader", DEADLINE, async || {
            leader = self.view().await.and_then(|view| view["leader"].as_u64());
            leader.is_some()
        })
        .await;
        leader.expect("a leader")
    }

    /// Invites a node, and prepares its directory. Returns its id.
    async fn invite(&mut self, replaces: Option<u64>) -> u64 {
        let mut addresses = self.slots.pop().expect("a free slot");
        let NodeAddresses { http, peer, zookeeper, .. } = &addresses;
        let replaces = replaces.map(|id| format!("&replaces={id}")).unwrap_or_default();
        let call = format!(
            "/v1/members?http={http}&peer={peer}&zookeeper={zookeeper}&force=true{replaces}"
        );
        let invited = self.http(1).post(&call).await.assert_status(201).json();
        let id = invited["id"].as_u64().expect("an id");
        let path = |name: &str| self.first.dir().join(format!("joined{id}.{name}"));
        let (token, config, log, data) = (path("token"), path("toml"), path("log"), path("data"));
        std::fs::write(&token, invited["join_token"].as_str().expect("a join token"))
            .expect("the token is written");
        join(&token, &config, &data);
        addresses.id = id;
        self.joined.insert(id, Joined { addresses, config, log, process: None });
        id
    }

    /// Waits until no change is unfinished, and the nodes are ready. The nodes of `gone` have left.
    async fn settled(&mut self, gone: &[u64]) {
        let expected = 1 + self.joined.len() - gone.len();
        until("the end of the change", DEADLINE * 2, async || {
            let Some(view) = self.view().await else { return false };
            let nodes = view["nodes"].as_array().expect("the members");
            let settled = nodes.iter().all(|node| {
                node["change"].is_null() && node["votes"] == true && node["healthy"] == true
            });
            settled && nodes.len() == expected
        })
        .await;
        for id in gone {
            let mut left = self.joined.remove(id).expect("a node that joined");
            if let Some(mut process) = left.process.take() {
                assert_eq!(process.exit(DEADLINE).await.code(), Some(REMOVED), "node {id}");
            }
            self.slots.push(left.addresses);
        }
    }

    async fn round(&mut self, change: Change, victim: Victim, grants: u64, load: &LoadReport) {
        let oldest = *self.joined.keys().next().expect("a node that joined");
        let leaving = (change != Change::Add).then_some(oldest);
        let joiner = match change {
            Change::Add | Change::Replace => Some(self.invite(leaving).await),
            Change::Remove => {
                let call = format!("/v1/members/{oldest}?reason=moved&force=true");
                self.http(1).delete(&call).await.assert_status(204);
                None
            }
        };
        if let Some(joiner) = joiner {
            self.start_node(joiner);
        }
        load.wait_for_grants(grants).await;
        let victim = match victim {
            Victim::Leader => self.leader().await,
            Victim::Joiner => joiner.expect("a node that joins"),
            Victim::Leaving => leaving.expect("a node that leaves"),
        };
        if let Some(view) = self.view().await {
            let nodes = view["nodes"].as_array().expect("the members");
            let is_changing = nodes.iter().any(|node| !node["change"].is_null());
            self.kills_during_change += u64::from(is_changing);
        }
        self.kill(victim);
        load.wait_for_grants(30).await;
        self.start_node(victim);
        self.settled(leaving.as_slice()).await;
        load.wait_for_grants(30).await;
    }
}

fn join(token: &Path, config: &Path, data: &Path) {
    let mut command = Command::new(binary());
    command.arg("join").arg(token).arg("--config").arg(config).arg("--data-dir").arg(data);
    command.env_clear();
    let joined = Program::start(command).wait();
    assert_eq!(joined.code, Some(0), "{}", joined.stderr);
}

fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// The grants between the start of a change and the kill: often few, seldom more than the change takes.
fn grants_before_kill(seed: u64, round: u64) -> u64 {
    let mixed = (seed ^ round).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = mixed ^ (mixed >> 29);
    (mixed % 1_000) * (mixed / 1_000 % 1_000) / 500 + 1
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_killed_while_the_members_change_and_clients_work() {
    let (rounds, seed) = (setting("HOLDFAST_ROUNDS", ROUNDS), setting("HOLDFAST_ROUNDS_SEED", 1));
    let mut cluster = ChangingCluster::start().await;
    let history = History::default();
    let load = Load { holders: 4, competing_clients: 16, hot_locks: 4 };
    let load = load.start(&cluster.endpoints(), &history);
    load.wait_for_grants(30).await;
    for (round, (change, victim)) in (0..rounds).zip(CYCLE.into_iter().cycle()) {
        let grants = grants_before_kill(seed, round);
        cluster.round(change, victim, grants, &load).await;
    }
    load.finish().await;
    assert!(cluster.kills_during_change > 0, "every change was finished before its kill");
    let verified = cluster.http(1).post("/v1/cluster/verify").await;
    let members = verified.assert_status(200).json()["members"].clone();
    let states = members.as_array().expect("the members").iter().map(|member| &member["state"]);
    assert!(states.clone().all(|state| state == "same") && states.count() > 0, "{members}");
}
