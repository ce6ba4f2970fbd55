//! The objects of one client, and a cycle of calls for each kind, with a check after each call.

use holdfast_lab::Method;
use serde_json::{Value, json};

use super::client::Client;

/// The parameters of a session that outlives every fault.
const TTL: &str = "ttl=10m";

pub(super) struct Objects {
    client: Client,
    cycle: usize,
    /// The value of the counter.
    added: i64,
    /// The last generation of the barrier.
    generation: u64,
}

impl Objects {
    pub(super) fn new(client: Client) -> Self {
        Self { client, cycle: 0, added: 0, generation: 0 }
    }

    /// Runs the cycle of the next kind.
    pub(super) async fn next(&mut self) {
        match self.cycle % 11 {
            0 => self.modes().await,
            1 => self.session().await,
            2 => self.counter().await,
            3 => self.queue().await,
            4 => self.barrier().await,
            5 => self.double_barrier().await,
            6 => self.latch().await,
            7 => self.policy().await,
            8 => self.operator().await,
            9 => self.tree_quota().await,
            _ => self.transfer().await,
        }
        self.cycle += 1;
    }

    fn own(&self, kind: &str) -> String {
        format!("own/{}/{kind}", self.client.name)
    }

    /// The session of the client, and the number of its next request.
    fn request(&mut self) -> String {
        let number = self.client.number();
        format!("session={}&request={number}", self.client.name)
    }

    /// The mode and the value of the only holder of a lock.
    async fn expect_held(&mut self, lock: &str, expected: Value) {
        let body = self.client.get(&format!("/v1/locks/{lock}")).await.json();
        let holder = &body["holders"][0];
        let found = json!([holder["mode"], holder["value"], holder["token"]]);
        assert_eq!(found, expected, "{lock}: {body}");
        assert!(holder["release_request"].is_null(), "{lock}: {body}");
    }

    async fn expect_free(&mut self, lock: &str) {
        let body = self.client.get(&format!("/v1/locks/{lock}")).await.json();
        assert_eq!(body["holders"], json!([]), "{lock}");
    }

    /// Conversions, a nested hold and values of a lock.
    async fn modes(&mut self) {
        let (lock, session) = (self.own("modes"), self.client.name.clone());
        let [hold, up, nested, down] = [(); 4].map(|()| self.client.number());
        let target = format!("/v1/locks/{lock}?session={session}&{TTL}");
        let attempt = format!("{target}&attempt={hold}&mode=upgradable&value=one");
        let token = self.client.put(&attempt).await["token"].clone();
        self.expect_held(&lock, json!(["upgradable", "one", token])).await;
        let change = format!("{target}&attempt={up}&change={hold}&mode=exclusive&value=two");
        let token = self.client.put(&change).await["token"].clone();
        self.expect_held(&lock, json!(["exclusive", "two", token])).await;
        self.client.put(&format!("{target}&attempt={nested}&mode=shared")).await;
        self.expect_held(&lock, json!(["exclusive", "two", token])).await;
        let change = format!("{target}&attempt={down}&change={hold}&mode=shared&value=three");
        self.client.put(&change).await;
        self.expect_held(&lock, json!(["shared", "three", token])).await;
        let release = format!("/v1/locks/{lock}?session={session}&attempt=");
        self.client.delete(&format!("{release}{hold}")).await;
        self.expect_held(&lock, json!(["shared", "three", token])).await;
        self.client.delete(&format!("{release}{nested}")).await;
        self.expect_free(&lock).await;
    }

    /// The TTL and the labels of a session, and its end.
    async fn session(&mut self) {
        let target = format!("/v1/sessions/{}-short", self.client.name);
        let mut incarnation = Value::Null;
        for (ttl, label) in [("300s", "one"), ("10m", "two"), ("400s", "three")] {
            let number = self.client.number();
            let set = format!("{target}?ttl={ttl}&label.at={label}&attempt={number}");
            let opened = self.client.put(&set).await;
            incarnation = opened["incarnation"].clone();
            let read = self.client.get(&target).await.json();
            let found = json!([read["labels"]["at"], read["ttl_ms"]]);
            assert_eq!(found, json!([label, opened["ttl_ms"]]), "{target}: {read}");
        }
        self.client.delete(&format!("{target}?incarnation={incarnation}")).await;
        self.client.get(&target).await.assert_status(410);
    }

    async fn open(&mut self) {
        let number = self.client.number();
        let target = format!("/v1/sessions/{}?{TTL}&attempt={number}", self.client.name);
        self.client.put(&target).await;
    }

    async fn counter(&mut self) {
        self.open().await;
        let (counter, request) = (self.own("counter"), self.request());
        self.client.post(&format!("/v1/counters/{counter}?add=1&{request}")).await;
        self.added += 1;
        let read = self.client.get(&format!("/v1/counters/{counter}")).await.json();
        assert_eq!(read["value"], json!(self.added), "{counter}");
    }

    /// A sequential child, and its deletion.
    async fn queue(&mut self) {
        self.open().await;
        let (target, request) = (format!("/v1/tree/{}", self.own("queue")), self.request());
        let made = self.client.post(&format!("{target}?sequential&parents&{request}")).await;
        self.expect_children(&target, 1).await;
        let (path, request) = (made["path"].as_str().expect("a path").to_owned(), self.request());
        self.client.delete(&format!("/v1/tree{path}?{request}")).await;
        self.expect_children(&target, 0).await;
    }

    async fn expect_children(&mut self, target: &str, count: usize) {
        let read = self.client.get(&format!("{target}?children")).await.json();
        assert_eq!(read["children"].as_array().map(Vec::len), Some(count), "{target}: {read}");
    }

    /// A barrier of one party. A late departure from a former round must not break the next one.
    async fn barrier(&mut self) {
        let barrier = self.own("barrier");
        let request = self.request();
        let target = format!("/v1/barriers/{barrier}");
        let passed = self.client.put(&format!("{target}?parties=1&{request}")).await;
        let generation = passed["generation"].as_u64().expect("a generation");
        assert!(generation > self.generation, "{barrier}: {passed} after {}", self.generation);
        self.generation = generation;
        let session = &self.client.name;
        let leave = format!("{target}?session={session}&generation={generation}");
        self.client.delete(&leave).await;
    }

    async fn double_barrier(&mut self) {
        let (barrier, request) = (self.own("double"), self.request());
        let target = format!("/v1/double-barriers/{barrier}");
        let entered = self.client.put(&format!("{target}?parties=1&{request}")).await;
        let read = self.client.get(&target).await.json();
        assert_eq!(read["inside"], json!([self.client.name]), "{barrier}: {read}");
        let (session, generation) = (&self.client.name, &entered["generation"]);
        let leave = format!("{target}?session={session}&generation={generation}");
        self.client.change(&Method::DELETE, &leave, 200).await;
        let read = self.client.get(&target).await.json();
        assert!(read["inside"].is_null(), "{barrier}: {read}");
    }

    async fn latch(&mut self) {
        self.open().await;
        let target = format!("/v1/latches/{}", self.own("latch"));
        let request = self.request();
        self.client.put(&format!("{target}?count=1&{request}")).await;
        let request = self.request();
        self.client.post(&format!("{target}?key=done&{request}")).await;
        assert_eq!(self.client.get(&target).await.json()["open"], json!(true), "{target}");
        let request = self.request();
        self.client.delete(&format!("{target}?{request}")).await;
        self.client.get(&target).await.assert_status(404);
    }

    async fn policy(&mut self) {
        self.open().await;
        let target = format!("/v1/policies/{}", self.own("policy"));
        for _ in 0..2 {
            let (number, request) = (self.client.number(), self.request());
            let set = format!("{target}?lock_delay={number}ms&{request}");
            self.client.change(&Method::PATCH, &set, 200).await;
            let read = self.client.get(&target).await.json();
            assert_eq!(read["lock_delay_ms"], json!(number), "{target}: {read}");
        }
    }

    /// A quota of a subtree, and its deletion. The clients share the directories above their quotas.
    async fn tree_quota(&mut self) {
        self.open().await;
        let target = format!("/v1/tree-quotas/{}", self.own("quota"));
        for _ in 0..2 {
            let (number, request) = (self.client.number(), self.request());
            let set = format!("{target}?znodes={number}&{request}");
            self.client.change(&Method::PUT, &set, 204).await;
            let read = self.client.get(&target).await.json();
            assert_eq!(read["limits"], json!({ "znodes": number }), "{target}: {read}");
        }
        let request = self.request();
        self.client.delete(&format!("{target}?{request}")).await;
        self.client.get(&target).await.assert_status(404);
    }

    async fn acquire(&mut self, lock: &str) -> Value {
        let (session, attempt) = (self.client.name.clone(), self.client.number());
        let target = format!("/v1/locks/{lock}?session={session}&{TTL}&attempt={attempt}&wait=10s");
        self.client.put(&target).await["token"].clone()
    }

    async fn release(&mut self, lock: &str, session: &str, token: &Value) {
        let target = format!("/v1/locks/{lock}?session={session}&token={token}");
        self.client.delete(&target).await;
    }

    /// A release request and a forced release of one hold, which must not reach the next one.
    async fn operator(&mut self) {
        let (lock, session) = (self.own("operator"), self.client.name.clone());
        let token = self.acquire(&lock).await;
        let request = format!("/v1/release-requests/{lock}?token={token}&reason=test&deadline=10m");
        self.client.post(&request).await;
        self.release(&lock, &session, &token).await;
        let token = self.acquire(&lock).await;
        self.expect_held(&lock, json!(["exclusive", null, token])).await;
        let force = format!("/v1/force-releases/{lock}?token={token}&reason=test");
        self.client.post(&force).await;
        self.expect_free(&lock).await;
        let token = self.acquire(&lock).await;
        self.expect_held(&lock, json!(["exclusive", null, token])).await;
        self.release(&lock, &session, &token).await;
    }

    async fn transfer(&mut self) {
        let (lock, session) = (self.own("transfer"), self.client.name.clone());
        let (heir, number) = (format!("{session}-heir"), self.client.number());
        self.client.put(&format!("/v1/sessions/{heir}?{TTL}&attempt={number}")).await;
        let token = self.acquire(&lock).await;
        let target = format!("/v1/transfers/{lock}?session={session}&token={token}&to={heir}");
        let token = self.client.post(&target).await["token"].clone();
        self.expect_held(&lock, json!(["exclusive", null, token])).await;
        self.release(&lock, &heir, &token).await;
        self.expect_free(&lock).await;
    }
}
