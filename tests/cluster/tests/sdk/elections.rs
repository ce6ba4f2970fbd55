//! Elections between processes: succession when the leader is killed, paused or resigns, and the events of observers.

use std::time::{Duration, Instant};

use holdfast_client::{Client, ElectionChange, Error, Leadership, Loss, Observer, blocking};
use holdfast_lab::{Cluster, DEADLINE, Program, until};
use nix::sys::signal::Signal;

use crate::program::{addresses, start_example};

const TTL: Duration = Duration::from_secs(1);

fn client(cluster: &Cluster) -> Client {
    Client::new(addresses(cluster)).expect("a client")
}

/// A leading process, and its token.
async fn leading(cluster: &Cluster, election: &str, value: &str) -> (Program, u64) {
    let (nodes, ttl) = (addresses(cluster).join(","), TTL.as_millis().to_string());
    let mut program = start_example("leader", &[&nodes, election, value, &ttl]);
    let line = program.line().await.expect("a line");
    let token = line.strip_prefix("leads ").and_then(|token| token.parse().ok());
    (program, token.unwrap_or_else(|| panic!("not elected: {line}")))
}

/// Starts a campaign, and returns when the candidate is in the queue.
async fn candidate(
    client: &Client,
    election: &str,
    value: &'static str,
) -> tokio::task::JoinHandle<Result<Leadership, Error>> {
    let before = client.election(election).state().await.expect("read").candidates_total;
    let campaign = tokio::spawn(client.election(election).ttl(TTL).campaign(value));
    until("a candidate", DEADLINE, || async {
        let seen = client.election(election).state().await;
        seen.is_ok_and(|seen| seen.candidates_total > before)
    })
    .await;
    campaign
}

async fn elected(campaign: tokio::task::JoinHandle<Result<Leadership, Error>>) -> Leadership {
    let led = tokio::time::timeout(DEADLINE, campaign).await.expect("in time");
    led.expect("no panic").expect("elected")
}

/// Value and token of the next leader; `None` for a vacancy.
async fn change(observer: &mut Observer) -> Option<(String, u64)> {
    let change = tokio::time::timeout(DEADLINE, observer.next_change()).await.expect("in time");
    match change.expect("observed") {
        ElectionChange::Leader { leader, .. } => {
            Some((leader.value.unwrap_or_default(), leader.token.0))
        }
        ElectionChange::Vacant { .. } => None,
        gap @ ElectionChange::Gap { .. } => panic!("{gap:?}"),
    }
}

/// After `kill -9` of the leader, the next candidate leads when the TTL has passed, not before, with a greater token.
#[tokio::test(flavor = "multi_thread")]
async fn row_81b_a_killed_leader_is_followed_by_the_next_in_line_after_its_ttl() {
    let cluster = Cluster::three().await;
    let (mut killed, first) = leading(&cluster, "db", "one").await;
    let next = client(&cluster);
    let mut observer = next.election("db").observe().expect("a name");
    assert_eq!(change(&mut observer).await, Some(("one".to_owned(), first)));
    let second = candidate(&next, "db", "two").await;
    let third = candidate(&next, "db", "three").await;
    let earliest = cluster.node(1).http.earliest_expiry("elections/db", TTL).await;
    killed.signal(Signal::SIGKILL);
    killed.end().await;
    let led = elected(second).await;
    assert!(Instant::now() + Duration::from_millis(50) >= earliest);
    assert!(led.token().0 > first);
    assert_eq!(change(&mut observer).await, Some(("two".to_owned(), led.token().0)));
    let token = led.token().0;
    led.resign().await.expect("resigned");
    let last = elected(third).await;
    assert!(last.token().0 > token);
    assert_eq!(change(&mut observer).await, Some(("three".to_owned(), last.token().0)));
    drop(last);
    assert_eq!(change(&mut observer).await, None, "who drops the leadership resigns");
}

/// After SIGSTOP of the leader beyond its TTL, another candidate leads. The old leader reports the loss as soon as it
/// resumes, and its token is stale.
#[tokio::test(flavor = "multi_thread")]
async fn row_81b_a_leader_that_stood_still_knows_that_it_leads_no_more() {
    let cluster = Cluster::three().await;
    let (mut stopped, first) = leading(&cluster, "db", "one").await;
    let next = client(&cluster);
    let second = candidate(&next, "db", "two").await;
    stopped.signal(Signal::SIGSTOP);
    let led = elected(second).await;
    assert!(led.token().0 > first);
    stopped.signal(Signal::SIGCONT);
    let line = stopped.line().await.expect("it says so");
    assert!(line.starts_with("lost "), "{line}");
    assert_eq!(stopped.end().await.code(), Some(3));
    let judged = cluster.node(1).http.get(&format!("/v1/fence/elections/db?token={first}")).await;
    assert_eq!(judged.status, 412);
    assert!(led.is_held(), "the old one took nothing with it");
    let seen = next.election("db").leader().await.expect("read").expect("somebody leads");
    assert_eq!((seen.value.as_deref(), seen.token), (Some("two"), led.token()));
}

/// After `kill -9` of the cluster's leader, the elected process leads with the same token, and observers get no event.
#[tokio::test(flavor = "multi_thread")]
async fn the_death_of_the_clusters_leader_is_no_election() {
    let cluster = Cluster::three().await;
    let client = client(&cluster);
    let ttl = Duration::from_secs(5);
    let mut led = client.election("db").ttl(ttl).campaign("one").await.expect("elected");
    let token = led.token();
    let mut observer = client.election("db").observe().expect("a name");
    assert_eq!(change(&mut observer).await, Some(("one".to_owned(), token.0)));
    let leader = cluster.wait_ready().await;
    cluster.node(leader).kill();
    let enough = Instant::now() + ttl.mul_f64(0.98);
    until("a renewal under another leader", DEADLINE, || async { led.deadline() > enough }).await;
    led.proclaim("uno").await.expect("shown");
    assert_eq!((led.token(), led.value()), (token, "uno"));
    assert_eq!(
        change(&mut observer).await,
        Some(("uno".to_owned(), token.0)),
        "one change, at another node"
    );
    cluster.node(leader).start();
    cluster.wait_ready().await;
    led.resign().await.expect("resigned");
    assert_eq!(change(&mut observer).await, None);
}

/// The observer's node is killed and the elected leader changes: at another node the observer gets every change once, in
/// order. Repeated with each node in turn.
#[tokio::test(flavor = "multi_thread")]
async fn an_observer_misses_nothing_while_nodes_die_one_by_one() {
    let cluster = Cluster::three().await;
    let client = client(&cluster);
    // The observer begins at any node, and continues at another one when it is killed.
    let mut observer = client.election("db").observe().expect("a name");
    assert_eq!(change(&mut observer).await, None);
    for node in 1..=3_u64 {
        cluster.node(node).kill();
        let mut changes = Vec::new();
        for round in 0..4 {
            let value = format!("node {node}, round {round}");
            let leadership = client.election("db").campaign(&value).await.expect("elected");
            changes.extend([Some((value, leadership.token().0)), None]);
            leadership.resign().await.expect("resigned");
        }
        let mut told = Vec::new();
        while told.len() < changes.len() {
            told.push(change(&mut observer).await);
        }
        assert_eq!(told, changes);
        cluster.node(node).start();
        cluster.node(node).wait_ready().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_not_elected_in_time_is_told_who_leads_and_stands_no_more() {
    let cluster = Cluster::three().await;
    let (one, other) = (client(&cluster), client(&cluster));
    assert_eq!(one.election("db").leader().await.expect("read"), None);
    let led = one.election("db").campaign("one").await.expect("elected");
    let busy = one.election("db").try_campaign("me too").await.expect_err("of the same program");
    assert_eq!(busy.holder().and_then(|holder| holder.value.as_deref()), Some("one"));
    let wait = Duration::from_millis(200);
    let late =
        other.election("db").timeout(wait).campaign("two").await.expect_err("it leads still");
    assert!(matches!(late, Error::Busy(_)), "{late}");
    let withdrawn = tokio::time::timeout(wait, other.election("db").campaign("three")).await;
    assert!(withdrawn.is_err());
    until("nobody to stand", DEADLINE, || async {
        one.election("db").state().await.is_ok_and(|seen| seen.candidates_total == 0)
    })
    .await;
    let bad = one.election("a//b").campaign("x").await.expect_err("no name");
    assert!(matches!(bad, Error::InvalidArgument(_)), "{bad}");
    led.resign().await.expect("resigned");
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_without_async_stand_observe_take_several_and_hand_on() {
    let cluster = Cluster::three().await;
    let nodes = addresses(&cluster);
    let work = move || -> Result<(), Error> {
        let client = blocking::Client::new(nodes)?;
        let mut observer = client.election("db").observe()?;
        assert!(matches!(observer.next_change()?, ElectionChange::Vacant { .. }));
        let mut led = client.election("db").ttl(DEADLINE).campaign("one")?;
        led.proclaim("uno")?;
        assert_eq!(
            client.election("db").leader()?.and_then(|leader| leader.value).as_deref(),
            Some("uno")
        );
        for value in ["one", "uno"] {
            let ElectionChange::Leader { leader, .. } = observer.next_change()? else { panic!() };
            assert_eq!((leader.value.as_deref(), leader.token), (Some(value), led.token()));
        }
        assert_eq!(observer.next_change_within(Duration::from_millis(50))?, None);
        assert_eq!(led.lost_within(Duration::from_millis(10)), None);
        led.resign()?;

        let mut both = client.lock_many(["a", "b"]).timeout(DEADLINE).acquire()?;
        assert_eq!(both.tokens().len(), 2);
        assert!(matches!(client.lock("a").try_acquire(), Err(Error::Busy(_))));
        both.release_one("a")?;
        client.lock("a").try_acquire()?.release()?;
        both.release()?;

        let session = client.session()?;
        let guard = client.lock("c").acquire()?;
        let first = guard.token();
        let view: holdfast_client::Hold = guard.hold();
        let handed = guard.transfer(session.name(), None).map_err(|not| not.error)?;
        assert!(handed > first && view.ensure() == Err(Loss::Transferred));
        let received = client.lock("c").receive_transfer()?.expect("it is ours");
        assert_eq!(received.token(), handed);
        received.release()
    };
    // On a separate thread, because the blocking client rejects use inside a runtime.
    let thread = std::thread::spawn(work);
    let done = tokio::task::spawn_blocking(move || thread.join()).await.expect("a thread");
    done.expect("no panic").expect("all of it");
}
