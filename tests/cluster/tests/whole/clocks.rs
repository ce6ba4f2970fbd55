//! Timed rules last their time in the log although wall clocks differ by an hour and jump.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use holdfast_api::parse_time;
use holdfast_lab::{Actor, Attempt, Cluster, DEADLINE, History, Method, Node, Request, until};
use tokio::task::JoinHandle;

const LONG: Duration = Duration::from_mins(5);
const HOUR_MS: i64 = 3_600_000;
/// Maximum delay of a timed rule: an election, time without a leader, five seconds for a restarted leader, and a busy
/// machine.
const LATE: Duration = Duration::from_secs(20);

/// Maximum gain of the log's time on true time: the slew of a thousandth in `holdfast_raft`, and a stamp's rounding.
fn shortest(rule: Duration) -> Duration {
    rule.saturating_sub(rule / 1_000 + Duration::from_millis(2))
}

/// Starts three nodes with clocks that are correct, an hour ahead and an hour behind.
async fn three_that_differ() -> Cluster {
    let cluster = Cluster::of(3).with_own_clocks().prepare().await;
    for (node, hours) in cluster.nodes().iter().zip([0, 1, -1]) {
        node.clock().set_ahead_ms(hours * HOUR_MS);
    }
    cluster.start_all();
    cluster.wait_ready().await;
    cluster
}

/// A lock that only a timed rule makes available to the next waiter.
struct Rule {
    name: &'static str,
    began: Instant,
    lasts: Duration,
    next: JoinHandle<Instant>,
}

impl Rule {
    /// Sends the calls that start the rule of the lock `name`, and enqueues another session.
    async fn begin(
        cluster: &Cluster,
        name: &'static str,
        lasts: Duration,
        calls: &[(Method, &str)],
    ) -> Self {
        let began = Instant::now();
        for (method, target) in calls {
            let done = cluster.nodes()[0].http.call(method.clone(), target).await;
            assert!(matches!(done.status, 200 | 204), "{target}: {done}");
        }
        let (endpoints, history) = (cluster.endpoints(), History::default());
        let mut next = Actor::new(&format!("next-{name}"), endpoints, LONG, &history);
        let next = tokio::spawn(async move {
            let granted = next.take(name, DEADLINE, lasts + LATE + DEADLINE).await;
            assert!(matches!(granted, Attempt::Granted(_)), "{name}: {granted:?}");
            Instant::now()
        });
        Self { name, began, lasts, next }
    }

    /// All rules that end a hold or delay a grant for a time.
    async fn of_every_kind(cluster: &Cluster, lasts: Duration) -> Vec<Self> {
        let ms = lasts.as_millis();
        let put = |rest: &str| (Method::PUT, format!("/v1/locks/{rest}"));
        let delete = |rest: &str| (Method::DELETE, format!("/v1/locks/{rest}"));
        let patch = |rest: &str| (Method::PATCH, format!("/v1/policies/{rest}"));
        let post = |rest: &str| (Method::POST, format!("/v1/release-requests/{rest}"));
        let half = ms / 2;
        let kinds = [
            ("hung", vec![put(&format!("hung?session=h&ttl=5m&max_hold={ms}ms"))]),
            (
                "nightly",
                vec![
                    put(&format!("nightly?session=n&ttl=5m&min_hold={ms}ms")),
                    delete("nightly?session=n"),
                ],
            ),
            (
                "report",
                vec![
                    patch(&format!("report?cooldown={ms}ms")),
                    put("report?session=r&ttl=5m"),
                    delete("report?session=r"),
                ],
            ),
            (
                "delayed",
                vec![
                    patch(&format!("delayed?lock_delay={half}ms")),
                    put(&format!("delayed?session=d&ttl=5m&max_hold={half}ms")),
                ],
            ),
            (
                "printer",
                vec![
                    put("printer?session=p&ttl=5m"),
                    post(&format!("printer?reason=paper&deadline={ms}ms&revoke=true")),
                ],
            ),
        ];
        let mut rules = Vec::new();
        for (name, calls) in kinds {
            let calls: Vec<_> =
                calls.iter().map(|(method, target)| (method.clone(), target.as_str())).collect();
            rules.push(Self::begin(cluster, name, lasts, &calls).await);
        }
        rules
    }

    /// Asserts that the next session is granted after the time of the rule, and at most `late` after it.
    async fn ends_in_time(self, late: Duration) {
        let Self { name, began, lasts, next } = self;
        let took = next.await.expect("the next session") - began;
        assert!(took >= shortest(lasts), "{name} ended after {took:?}, it lasts {lasts:?}");
        assert!(took <= lasts + late, "{name} ended after {took:?}, it lasts {lasts:?}");
    }
}

/// Asserts the end of the hold that a node shows, independent of its wall clock.
async fn shows_the_true_end(node: &Node, began: Instant, lasts: Duration) {
    let shown = node.http.get("/v1/locks/hung").await.assert_status(200).json();
    let left = shown["holders"][0]["ends_in_ms"].as_u64().map(Duration::from_millis);
    let Some(left) = left else { panic!("node {} shows {shown}", node.id) };
    let true_left = lasts.saturating_sub(began.elapsed());
    assert!(left <= lasts && left + Duration::from_secs(1) >= true_left, "{shown}");
    assert!(left <= true_left + LATE, "node {} shows {left:?} of {true_left:?}", node.id);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_timed_rule_ends_early_or_late_when_clocks_differ_by_an_hour_and_jump() {
    let lasts = Duration::from_secs(24);
    let cluster = three_that_differ().await;
    let rules = Rule::of_every_kind(&cluster, lasts).await;
    let began = rules[0].began;
    for node in cluster.nodes() {
        shows_the_true_end(node, began, lasts).await;
    }
    // Two leaders are killed one after the other; every clock jumps, the new leader's by two hours.
    for jump in [2, -3] {
        let leader = cluster.wait_ready().await;
        cluster.node(leader).kill();
        let rest: Vec<u64> = cluster.others(leader).map(|node| node.id).collect();
        let new = cluster.wait_leader_among(&rest).await;
        cluster.node(new).clock().set_ahead_ms(jump * HOUR_MS);
        cluster.node(leader).clock().set_ahead_ms(-jump * HOUR_MS);
        cluster.node(leader).start();
    }
    cluster.wait_ready().await;
    assert!(began.elapsed() < lasts, "the leaders changed before the rules were due");
    for node in cluster.nodes() {
        shows_the_true_end(node, began, lasts).await;
    }
    for rule in rules {
        rule.ends_in_time(LATE).await;
    }
}

/// A minority of clocks that jumps does not change the log's time.
#[tokio::test(flavor = "multi_thread")]
async fn no_timed_rule_ends_early_when_all_nodes_restart_and_one_clock_is_hours_ahead() {
    let lasts = Duration::from_secs(8);
    let cluster = three_that_differ().await;
    recorded(&cluster).await;
    let rules = Rule::of_every_kind(&cluster, lasts).await;
    cluster.kill_all();
    cluster.nodes()[0].clock().set_ahead_ms(4 * HOUR_MS);
    cluster.start_all();
    cluster.wait_ready().await;
    for rule in rules {
        rule.ends_in_time(LATE).await;
    }
}

/// Returns the time at which a node creates a znode now, by the log.
async fn time_of_a_new_znode(node: &Node, name: &str) -> i64 {
    let target = format!("/v1/tree/{name}");
    node.http.put_data(&target, "now").await.assert_status(201);
    let made = node.http.get(&target).await;
    parse_time(made.header("holdfast-created-at").expect("a time"))
        .expect("RFC 3339")
        .0
        .cast_signed()
}

/// How often leaders have recorded the clocks of so many members.
fn records(cluster: &Cluster, members: usize) -> usize {
    let line = format!("the clocks of {members} members are recorded");
    cluster.nodes().iter().map(|node| node.log_lines_with(&line)).sum()
}

/// Waits until the log has the clocks of all nodes.
async fn recorded(cluster: &Cluster) {
    let all = cluster.nodes().len();
    until("a record of all clocks", DEADLINE, async || records(cluster, all) > 0).await;
}

/// The clocks of a majority measure the time of the stop. Rules count it, sessions do not.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_stop_of_all_nodes_the_times_are_right() {
    let cluster = three_that_differ().await;
    recorded(&cluster).await;
    let http = &cluster.nodes()[0].http;
    http.put("/v1/locks/job?session=job&ttl=5m&max_hold=1h").await.assert_status(200);
    let before_sent = Instant::now();
    let before = time_of_a_new_znode(&cluster.nodes()[0], "before").await;
    let before_done = Instant::now();
    cluster.kill_all();
    // Two hours pass by every clock.
    for (node, hours) in cluster.nodes().iter().zip([2, 3, 1]) {
        node.clock().set_ahead_ms(hours * HOUR_MS);
    }
    cluster.start_all();
    cluster.wait_ready().await;
    let after_sent = Instant::now();
    let after = time_of_a_new_znode(&cluster.nodes()[0], "after").await;
    let millis = |time: Duration| i64::try_from(time.as_millis()).expect("milliseconds");
    // Each znode was created between its request and its reply.
    let (least, most) = (millis(after_sent - before_done), millis(before_sent.elapsed()));
    let passed = after - before - 2 * HOUR_MS;
    assert!(
        (least - 2_000..most + 1_000).contains(&passed),
        "two hours and {passed} ms passed in the log, and {least} to {most} ms in truth"
    );
    until("the end of the hold", LATE, async || {
        let lock = cluster.nodes()[0].http.get("/v1/locks/job").await.json();
        lock["holders"].as_array().is_some_and(Vec::is_empty)
    })
    .await;
    cluster.nodes()[0].http.get("/v1/sessions/job").await.assert_status(200);
}

/// The lead of a silent node stays in the record. Otherwise the two nodes that return could not agree: they would serve
/// no client for 10 s, and lose the time.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_was_silent_at_the_last_record_agrees_on_the_time_of_a_stop() {
    let cluster = three_that_differ().await;
    recorded(&cluster).await;
    let leader = cluster.wait_ready().await;
    let rest: Vec<u64> = cluster.others(leader).map(|node| node.id).collect();
    let (silent, other) = (cluster.node(rest[0]), cluster.node(rest[1]));
    silent.kill();
    // The next leader records the clocks without it.
    let former = records(&cluster, 2);
    cluster.node(leader).kill();
    cluster.node(leader).start();
    until("a record of two clocks", DEADLINE, async || records(&cluster, 2) > former).await;
    let before = time_of_a_new_znode(other, "before").await;
    cluster.node(leader).kill();
    other.kill();
    // Two hours pass by every clock.
    for (node, hours) in cluster.nodes().iter().zip([2, 3, 1]) {
        node.clock().set_ahead_ms(hours * HOUR_MS);
    }
    silent.start();
    other.start();
    cluster.wait_leader_among(&rest).await;
    let write = async || other.http.put_data("/v1/tree/first", "now").await.status == 201;
    until("the first write", DEADLINE, write).await;
    let passed = time_of_a_new_znode(other, "after").await - before;
    assert!(passed >= 2 * HOUR_MS - 2_000, "{passed} ms passed in the log");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_access_token_that_expired_during_a_stop_is_rejected_from_the_first_call_on() {
    let cluster = Cluster::of(1).with_own_clocks().prepare().await;
    cluster.start_all();
    cluster.wait_ready().await;
    recorded(&cluster).await;
    let node = &cluster.nodes()[0];
    let proof = node.prove_ownership();
    let bootstrap = format!("/v1/auth/bootstrap?mode=on&proof={proof}");
    let added = node.http.post(&bootstrap).await.assert_status(201).json();
    let bearer = format!("Bearer {}", added["token"].as_str().expect("a token"));
    let headers = [("authorization", bearer.as_str())];
    let send = async |method: Method, target: &str| {
        let request = Request::new(method, target).headers(&headers).within(DEADLINE);
        node.http.send(request).await.expect("a reply")
    };
    let created = send(Method::POST, "/v1/auth/tokens?subject=admin&ttl=1h").await;
    let short = created.assert_status(201).json()["token"].as_str().expect("a token").to_owned();
    let bearer = format!("Bearer {short}");
    let headers = [("authorization", bearer.as_str())];
    let read = async || {
        let request = Request::new(Method::GET, "/v1/locks").headers(&headers).within(DEADLINE);
        node.http.send(request).await
    };
    read().await.expect("a reply").assert_status(200);
    node.kill();
    node.clock().set_ahead_ms(2 * HOUR_MS);
    node.start();
    let mut rejected = false;
    until("the first authenticated call", DEADLINE, async || {
        let Ok(reply) = read().await else { return false };
        assert_ne!(reply.status, 200, "{reply}");
        rejected = reply.status == 401;
        rejected
    })
    .await;
    assert!(rejected);
    read().await.expect("a reply").assert_status(401);
}

/// Running nodes trust their monotonic clocks. The time waits while a session is open.
#[tokio::test(flavor = "multi_thread")]
async fn clocks_of_a_majority_that_jump_raise_an_alarm() {
    let cluster = Cluster::of(3).with_own_clocks().prepare().await;
    cluster.start_all();
    cluster.wait_ready().await;
    let node = &cluster.nodes()[0];
    node.http.put("/v1/sessions/s?ttl=10m").await;
    let before = time_of_a_new_znode(node, "before").await;
    cluster.nodes().iter().for_each(|node| node.clock().set_ahead_ms(HOUR_MS));
    until("the alarm", LATE, async || alarm(node, "time-behind").await.is_some()).await;
    let passed = time_of_a_new_znode(node, "after").await - before;
    assert!(passed < HOUR_MS / 2, "{passed} ms passed in the log");
}

/// The log's time begins with the wall clock of the first leader; this also shows that the clocks of these tests
/// are the ones that the nodes read.
#[tokio::test(flavor = "multi_thread")]
async fn the_time_of_a_new_cluster_begins_with_the_wall_clock_of_its_first_leader() {
    let cluster = Cluster::of(3).with_own_clocks().prepare().await;
    let ahead_ms = 5 * HOUR_MS;
    cluster.nodes().iter().for_each(|node| node.clock().set_ahead_ms(ahead_ms));
    cluster.start_all();
    cluster.wait_ready().await;
    let http = &cluster.nodes()[0].http;
    http.put_data("/v1/tree/made", "now").await;
    let made = http.get("/v1/tree/made").await;
    let made = parse_time(made.header("holdfast-created-at").expect("a time")).expect("RFC 3339");
    let made = made.0.cast_signed();
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let now = i64::try_from(since_epoch.as_millis()).expect("milliseconds");
    let off = (made - now - ahead_ms).unsigned_abs();
    assert!(off < 60_000, "made at {made}, now it is {now}");
}

/// The details of an alarm, as a node reports it.
async fn alarm(node: &Node, name: &str) -> Option<String> {
    let alarms = node.http.get("/v1/alarms").await.json();
    let alarms = alarms["alarms"].as_array().expect("a list").clone();
    let raised = alarms.iter().find(|alarm| alarm["name"] == name)?;
    Some(raised["detail"].as_str().expect("a text").to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_differs_from_the_leaders_raises_an_alarm_until_it_is_set() {
    let cluster = Cluster::of(3).with_own_clocks().prepare().await;
    cluster.start_all();
    let leader = cluster.wait_ready().await;
    let wrong = cluster.others(leader).next().expect("a follower");
    assert_eq!(alarm(wrong, "clock-skew").await, None);
    wrong.clock().set_ahead_ms(HOUR_MS);
    let expected = format!("the clock of node {} is 3599.", wrong.id);
    let ahead = format!("the clock of node {} is 3600.0 s ahead of the leader's", wrong.id);
    until("the alarm", LATE, async || {
        alarm(wrong, "clock-skew")
            .await
            .is_some_and(|detail| detail == ahead || detail.starts_with(&expected))
    })
    .await;
    wrong.clock().set_ahead_ms(0);
    until("the end of the alarm", LATE, async || alarm(wrong, "clock-skew").await.is_none()).await;
}
