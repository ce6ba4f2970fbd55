//! Promise 2 with a real database: after a restore or a recovery no rightful first write is refused, and no write of an
//! old holder is accepted.
//!
//! A family of clusters grows in random steps: fenced writes, backups, restores of any backup so far, moves of a sealed
//! cluster, repeated moves, and kills of nodes and of restores. No token repeats, and each restore has larger ones.
//! `HOLDFAST_RESTORES` is the number of restores (20), and the seed; a tenth as many, at least two, are recoveries of a lagging
//! survivor, each of them twice.

use std::collections::BTreeMap;
use std::path::Path;

use holdfast_fence::{FenceError, FencingToken, postgres};
use holdfast_lab::{Http, Method};
use tokio_postgres::Client;

use super::{TestNode, cluster_of_three, json, members, text};
use crate::program::{holdfast, spawn};
use crate::scratch::Postgres;
use crate::skip::postgres_or_skip;

/// How many old tokens are tried after each restore.
const OLD_TOKENS: usize = 40;
const RESOURCES: [&str; 3] = ["r0", "r1", "r2"];

fn rounds() -> u64 {
    let given = std::env::var("HOLDFAST_RESTORES").ok();
    given.map_or(20, |text| text.parse().unwrap())
}

/// A small generator of numbers (xorshift).
struct Random(u64);

impl Random {
    fn seeded(seed: u64) -> Self {
        Self(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }

    fn resource(&mut self) -> &'static str {
        RESOURCES[usize::try_from(self.below(3)).unwrap()]
    }
}

/// A database whose rows only accept writes with a valid token.
struct Store {
    postgres: Postgres,
    client: Client,
    /// The accepted writes of each resource.
    writes: BTreeMap<&'static str, i64>,
}

impl Store {
    async fn start() -> Option<Self> {
        let postgres = postgres_or_skip().await?;
        let client = postgres.connect("restore").await.unwrap();
        let schema = holdfast_fence::schema_sql();
        let tables = "CREATE TABLE counts (resource text PRIMARY KEY, n bigint NOT NULL);
             INSERT INTO counts VALUES ('r0', 0), ('r1', 0), ('r2', 0);";
        client.batch_execute(&format!("BEGIN; {schema}; COMMIT; {tables}")).await.unwrap();
        let writes = RESOURCES.iter().map(|resource| (*resource, 0)).collect();
        Some(Self { postgres, client, writes })
    }

    /// A fenced write; `false` if the token is stale.
    async fn write(&mut self, resource: &'static str, token: u64) -> bool {
        let transaction = postgres::begin(&mut self.client, resource, FencingToken(token)).await;
        let transaction = match transaction {
            Ok(transaction) => transaction,
            Err(FenceError::Stale { .. }) => return false,
            Err(error) => panic!("{error}"),
        };
        let update = "UPDATE counts SET n = n + 1 WHERE resource = $1";
        transaction.execute(update, &[&resource]).await.unwrap();
        transaction.commit().await.unwrap();
        *self.writes.get_mut(resource).unwrap() += 1;
        true
    }

    /// Forgets everything, for the next cluster, whose tokens begin with 1.
    async fn reset(&mut self) {
        self.client.batch_execute("TRUNCATE fence; UPDATE counts SET n = 0").await.unwrap();
        self.writes.values_mut().for_each(|n| *n = 0);
    }

    /// Every accepted write is in the table, exactly once.
    async fn check(&self) {
        for row in self.client.query("SELECT resource, n FROM counts", &[]).await.unwrap() {
            let (resource, n): (String, i64) = (row.get(0), row.get(1));
            assert_eq!(n, self.writes[resource.as_str()], "{resource}");
        }
    }

    /// For `--floor-from`.
    fn url(&self) -> String {
        let directory = self.postgres.url();
        let directory = directory.split(' ').next().unwrap().trim_start_matches("host=");
        format!("postgres://postgres@{}/postgres", directory.replace('/', "%2F"))
    }
}

/// The clients of a cluster: who holds what, and every token so far.
#[derive(Default)]
struct Clients {
    holders: BTreeMap<&'static str, (String, u64)>,
    tokens: Vec<(&'static str, u64)>,
    sessions: u64,
}

impl Clients {
    /// One step: acquire, write, or release.
    async fn step(&mut self, random: &mut Random, http: &Http, store: &mut Store) {
        let resource = random.resource();
        let Some((session, token)) = self.holders.get(resource).cloned() else {
            self.sessions += 1;
            let session = format!("s{}-{}", random.below(1 << 30), self.sessions);
            let target = format!("/v1/locks/{resource}?session={session}&ttl=10m");
            let token = http.put(&target).await.assert_status(200).token();
            self.tokens.push((resource, token));
            self.holders.insert(resource, (session, token));
            return;
        };
        if random.below(3) == 0 {
            let target = format!("/v1/locks/{resource}?session={session}");
            assert!(http.call(Method::DELETE, &target).await.status < 300);
            self.holders.remove(resource);
        } else {
            assert!(store.write(resource, token).await, "the holder {session} of {resource}");
        }
    }

    async fn steps(&mut self, random: &mut Random, http: &Http, store: &mut Store) {
        for _ in 0..10 + random.below(30) {
            self.step(random, http, store).await;
        }
    }
}

/// The new cluster grants every lock with larger tokens, its first write is accepted, and no later one of an old holder.
async fn check_new_cluster(new: &TestNode, clients: &mut Clients, store: &mut Store, round: u64) {
    let http = new.http();
    let old = clients.tokens.clone();
    let largest = old.iter().map(|(_, token)| *token).max().unwrap_or(0);
    for resource in RESOURCES {
        let target = format!("/v1/locks/{resource}?session=first{round}&ttl=10m");
        let token = http.put(&target).await.assert_status(200).token();
        assert!(token > largest, "round {round}: token {token} of {resource} after {largest}");
        assert!(store.write(resource, token).await, "round {round}: the first write of {resource}");
        clients.tokens.push((resource, token));
    }
    for (resource, token) in old.iter().rev().take(OLD_TOKENS) {
        let accepted = store.write(resource, *token).await;
        assert!(!accepted, "round {round}: an old holder wrote {resource} with token {token}");
    }
    for resource in RESOURCES {
        let target = format!("/v1/locks/{resource}?session=first{round}");
        assert!(http.call(Method::DELETE, &target).await.status < 300);
    }
    store.check().await;
}

/// A backup of any cluster of the family.
struct BackupFile {
    path: String,
    is_sealed: bool,
}

/// Clusters that began as one, with all their backups. At most one node runs after each step.
struct Family {
    dir: tempfile::TempDir,
    node: TestNode,
    backups: Vec<BackupFile>,
    clients: Clients,
    store: Store,
    random: Random,
    round: u64,
}

impl Family {
    fn start(seed: u64, store: Store) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let node = TestNode::start_alone(1, &dir.path().join("first"));
        let (backups, clients, random) = (Vec::new(), Clients::default(), Random::seeded(seed));
        Self { dir, node, backups, clients, store, random, round: 0 }
    }

    async fn work(&mut self) {
        let http = self.node.http();
        self.clients.steps(&mut self.random, &http, &mut self.store).await;
    }

    fn back_up(&mut self, is_sealed: bool) {
        let path = text(&self.dir.path().join(format!("backup{}", self.backups.len())));
        self.node.client(&["backup", "--out", &path]).assert_code(0);
        self.backups.push(BackupFile { path, is_sealed });
    }

    /// Restores any backup. In half of the cases the old cluster still runs, and its holders still write.
    async fn restore(&mut self) {
        self.round += 1;
        let data_dir = self.dir.path().join(format!("node{}", self.round));
        let number = self.random.below(self.backups.len() as u64);
        let backup = self.backups[usize::try_from(number).unwrap()].path.clone();
        let url = self.store.url();
        let floor: &[&str] = if self.random.below(4) == 0 { &["--floor-from", &url] } else { &[] };
        let arguments = ["restore", &backup, "--data-dir", &text(&data_dir)];
        let arguments = [&arguments[..], floor].concat();
        if self.random.below(3) == 0 {
            self.interrupt(&arguments, &data_dir);
        }
        let survives = self.random.below(2) == 0;
        if !survives {
            self.node.kill();
        }
        json(&arguments);
        if survives {
            self.work().await;
        }
        self.continue_with(&data_dir).await;
    }

    /// Kills the command after any of its steps. A node that starts in the directory has stopped, or is complete.
    fn interrupt(&mut self, arguments: &[&str], data_dir: &Path) {
        let files = 1 + self.random.below(5);
        let mut restore = spawn(arguments, &[]);
        let count = || std::fs::read_dir(data_dir).map_or(0, Iterator::count) as u64;
        while restore.ended().is_none() && count() < files {}
        restore.kill();
        if count() == 0 {
            return;
        }
        let is_complete = data_dir.join("identity").exists();
        if !is_complete {
            let mut node = TestNode::start(1, &members(&[1]), data_dir);
            let end = node.process.take().unwrap().wait();
            assert_eq!(end.code, Some(70), "round {}: {}", self.round, end.stderr);
        }
        std::fs::remove_dir_all(data_dir).unwrap();
    }

    /// Starts the restored node, and checks it.
    async fn continue_with(&mut self, data_dir: &Path) {
        self.node = TestNode::start_alone(1, data_dir);
        self.clients.holders.clear();
        check_new_cluster(&self.node, &mut self.clients, &mut self.store, self.round).await;
    }

    /// Moves a sealed cluster with its sessions: its holders continue, and new grants have larger tokens.
    async fn move_away(&mut self) {
        self.round += 1;
        self.node.client(&["cluster", "seal", "--reason", "a move"]).assert_code(0);
        self.back_up(true);
        if self.random.below(3) == 0 {
            // The move is given up, and the cluster goes on.
            assert_eq!(self.node.client(&["cluster", "unseal"]).code, Some(0));
            self.work().await;
            return;
        }
        self.node.kill();
        let data_dir = self.dir.path().join(format!("node{}", self.round));
        let backup = &self.backups.last().unwrap().path;
        json(&["restore", backup, "--keep-sessions", "--data-dir", &text(&data_dir)]);
        self.node = TestNode::start_alone(1, &data_dir);
        for (resource, (session, token)) in self.clients.holders.clone() {
            assert!(self.store.write(resource, token).await, "the holder {session} after a move");
        }
        let before = self.clients.tokens.clone();
        self.work().await;
        let largest = before.iter().map(|(_, token)| *token).max().unwrap_or(0);
        let new = &self.clients.tokens[before.len()..];
        assert!(new.iter().all(|(_, token)| *token > largest), "{new:?} after {largest}");
    }

    /// An old sealed backup is restored with its sessions, although clusters have gone on since.
    async fn repeat_move(&mut self) {
        let Some(sealed) = self.backups.iter().find(|backup| backup.is_sealed) else { return };
        self.round += 1;
        let data_dir = self.dir.path().join(format!("node{}", self.round));
        json(&["restore", &sealed.path, "--keep-sessions", "--data-dir", &text(&data_dir)]);
        self.node.kill();
        self.node = TestNode::start_alone(1, &data_dir);
        for resource in RESOURCES {
            // The holder of the backup, if there is one.
            let target = format!("/v1/force-releases/{resource}?reason=repeated");
            self.node.http().post(&target).await.assert_status(200);
        }
        self.clients.holders.clear();
        check_new_cluster(&self.node, &mut self.clients, &mut self.store, self.round).await;
    }

    fn restart(&mut self) {
        self.node.kill();
        self.node = TestNode::start_alone(1, &self.node.data_dir.clone());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_first_write_is_refused_and_no_old_holder_writes_after_a_restore() {
    let Some(store) = Store::start().await else { return };
    let mut family = Family::start(rounds(), store);
    family.work().await;
    family.back_up(false);
    while family.round < rounds() {
        match family.random.below(10) {
            0..=1 => family.work().await,
            2 => family.back_up(false),
            3 => family.move_away().await,
            4 => family.repeat_move().await,
            5 => family.restart(),
            _ => family.restore().await,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_first_write_is_refused_and_no_old_holder_writes_after_a_recovery() {
    let Some(mut store) = Store::start().await else { return };
    for round in 0..(rounds() / 10).max(2) {
        store.reset().await;
        let dir = tempfile::tempdir().unwrap();
        let mut nodes = cluster_of_three(dir.path());
        let (mut random, mut clients) = (Random::seeded(round), Clients::default());
        let http = nodes[0].http();
        clients.steps(&mut random, &http, &mut store).await;
        nodes[2].kill();
        clients.steps(&mut random, &http, &mut store).await;
        nodes.iter_mut().for_each(TestNode::kill);
        // The second time from the directory that the first recovery has kept.
        for number in 0..2 {
            let accept = "--i-accept-losing-acknowledged-writes";
            let data_dir = &nodes[2].data_dir;
            holdfast(&["recover", &text(data_dir), "--lost", "1,2", accept]).assert_code(0);
            let mut new = TestNode::start_alone(3, data_dir);
            check_new_cluster(&new, &mut clients, &mut store, 2 * round + number).await;
            new.kill();
            let before = format!("{}.before-recovery", text(data_dir));
            std::fs::remove_dir_all(data_dir).unwrap();
            std::fs::rename(before, data_dir).unwrap();
        }
    }
}
