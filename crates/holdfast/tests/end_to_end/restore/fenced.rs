//! Promise 2 with a real database: after a restore or a recovery no rightful first write is refused, and no write of an
//! old holder is accepted.
//!
//! Each round has a random history with fenced writes, a backup, a later part of the history that the backup lacks, and a
//! restore. `HOLDFAST_RESTORES` is the number of restores (20); a tenth as many, at least two, are recoveries of a lagging
//! survivor. Rounds have their numbers as seeds.

use std::collections::BTreeMap;
use std::path::Path;

use holdfast_fence::{FenceError, FencingToken, postgres};
use holdfast_lab::{Http, Method};
use tokio_postgres::Client;

use super::{TestNode, cluster_of_three, json, text};
use crate::program::holdfast;
use crate::scratch::Postgres;
use crate::skip::postgres_or_skip;

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
            let target = format!("/v1/locks/{resource}?session={session}&ttl=60s");
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

/// The new cluster grants every lock, its first write is accepted, and no later one of an old holder.
async fn check_new_cluster(new: &TestNode, old: &Clients, store: &mut Store, round: u64) {
    let http = new.http();
    for resource in RESOURCES {
        let target = format!("/v1/locks/{resource}?session=first{round}&ttl=60s");
        let token = http.put(&target).await.assert_status(200).token();
        let largest = old.tokens.iter().map(|(_, token)| *token).max().unwrap_or(0);
        assert!(token > largest, "round {round}: token {token} of {resource} after {largest}");
        assert!(store.write(resource, token).await, "round {round}: the first write of {resource}");
    }
    for (resource, token) in &old.tokens {
        let accepted = store.write(resource, *token).await;
        assert!(!accepted, "round {round}: an old holder wrote {resource} with token {token}");
    }
    for resource in RESOURCES {
        let target = format!("/v1/locks/{resource}?session=first{round}");
        assert!(http.call(Method::DELETE, &target).await.status < 300);
    }
    store.check().await;
}

/// One restore. Returns the restored node.
async fn restore(round: u64, mut node: TestNode, dir: &Path, store: &mut Store) -> TestNode {
    let (mut random, mut clients) = (Random::seeded(round), Clients::default());
    let http = node.http();
    clients.steps(&mut random, &http, store).await;
    let backup = text(&dir.join(format!("backup{round}")));
    let made = node.client(&["backup", "--out", &backup]);
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    clients.steps(&mut random, &http, store).await;
    // In half of the rounds the old cluster still runs, and its holders still write.
    let survives = random.below(2) == 0;
    if !survives {
        node.kill();
    }
    let data_dir = dir.join(format!("node{round}"));
    let url = store.url();
    let floor: &[&str] = if random.below(3) == 0 { &["--floor-from", &url] } else { &[] };
    let arguments = ["restore", &backup, "--data-dir", &text(&data_dir)];
    json(&[&arguments[..], floor].concat());
    if survives {
        clients.steps(&mut random, &http, store).await;
    }
    let new = TestNode::start_alone(1, &data_dir);
    check_new_cluster(&new, &clients, store, round).await;
    new
}

#[tokio::test(flavor = "multi_thread")]
async fn no_first_write_is_refused_and_no_old_holder_writes_after_a_restore() {
    let Some(mut store) = Store::start().await else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut node = TestNode::start_alone(1, &dir.path().join("first"));
    for round in 0..rounds() {
        node = restore(round, node, dir.path(), &mut store).await;
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
        let accept = "--i-accept-losing-acknowledged-writes";
        let recovered = holdfast(&["recover", &text(&nodes[2].data_dir), "--lost", "1,2", accept]);
        assert_eq!(recovered.code, Some(0), "{}", recovered.stderr);
        let new = TestNode::start_alone(3, &nodes[2].data_dir);
        check_new_cluster(&new, &clients, &mut store, round).await;
    }
}
