//! Rows 81f and 81g: groups, and a client-side cache of a subtree.

use std::time::Duration;

use holdfast_client::recipes::Group;
use holdfast_client::{CachedZnode, Client, Loss, SubtreeChange, ZnodePath, blocking};
use holdfast_lab::{Cluster, DEADLINE, Http, Method, Request, until};

use crate::lab::{client, one};
use crate::program::addresses;

async fn said(group: &Group) -> Vec<String> {
    let members = group.members().await.expect("an answer");
    members.into_iter().map(|member| member.value).collect()
}

async fn until_said(group: &Group, expected: &[&str]) {
    let what = format!("the group to say {expected:?}");
    until(&what, DEADLINE, || async {
        let mut values = said(group).await;
        values.sort_unstable();
        values == expected
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn row_81f_a_membership_is_restored_by_its_live_session_alone_and_never_doubled() {
    let (cluster, http) = one().await;
    let (one, two) = (client(&cluster), client(&cluster));
    let (here, there) = (one.group("shop/web"), two.group("shop/web"));
    let first = here.join("10.0.0.1:80").await.expect("joined");
    let second = there.join("10.0.0.2:80").await.expect("joined");
    until_said(&here, &["10.0.0.1:80", "10.0.0.2:80"]).await;
    // A second join updates the value of the same membership.
    let again = here.join("10.0.0.1:81").await.expect("joined");
    until_said(&here, &["10.0.0.1:81", "10.0.0.2:80"]).await;
    second.set_value("10.0.0.2:81").await.expect("said");
    until_said(&here, &["10.0.0.1:81", "10.0.0.2:81"]).await;
    // After a delete of the record, the client creates it again, because its session is open.
    let session = second.session().expect("a member").clone();
    let record = format!("/v1/tree/groups/shop/web/{session}");
    for _ in 0..3 {
        let before = stat(&http, &record).await;
        http.delete(&record).await.assert_status(204);
        until("the record to be back", DEADLINE, || async {
            let now = stat(&http, &record).await;
            now["kind"] == "ephemeral" && now["created_revision"] != before["created_revision"]
        })
        .await;
    }
    until_said(&here, &["10.0.0.1:81", "10.0.0.2:81"]).await;
    // A member that leaves is not created again.
    first.leave().await.expect("left");
    drop(again);
    until_said(&there, &["10.0.0.2:81"]).await;
}

async fn stat(http: &Http, record: &str) -> serde_json::Value {
    http.get(&format!("{record}?stat")).await.json()
}

/// The membership ends with the session: the client does not create it again.
#[tokio::test(flavor = "multi_thread")]
async fn row_81f_a_membership_ends_with_its_session_and_says_so() {
    let (cluster, http) = one().await;
    let client = Client::builder(addresses(&cluster)).ttl(Duration::from_secs(2)).build();
    let client = client.expect("a client");
    let group = client.group("web");
    let member = group.join("me").await.expect("joined");
    let session = member.session().expect("a member").clone();
    member.ensure().expect("it lives");
    http.delete(&format!("/v1/sessions/{session}?force&reason=test")).await.assert_status(204);
    http.get(&format!("/v1/tree/groups/web/{session}")).await.assert_status(404);
    let lost = tokio::time::timeout(DEADLINE, member.lost()).await.expect("it hears of it");
    assert_eq!(lost, Loss::SessionEnded);
    assert_eq!(member.ensure(), Err(Loss::SessionEnded));
    member.set_value("still here").await.expect_err("it is over");
    assert_eq!(said(&group).await, [""; 0]);
    // A new membership belongs to a new session, and exists once.
    let anew = group.join("me again").await.expect("joined");
    assert_ne!(anew.session(), Some(&session));
    assert_eq!(said(&group).await, ["me again"]);
}

fn path(path: &str) -> ZnodePath {
    ZnodePath::new(path).expect("a path")
}

/// Puts data at a path of the tree.
async fn put(http: &Http, at: &str, data: &str) {
    let reply = http.put_data(&format!("/v1/tree{at}?parents"), data).await;
    assert!(matches!(reply.status, 200 | 201), "{reply}");
}

async fn next(subtree: &mut holdfast_client::Subtree) -> SubtreeChange {
    let next = tokio::time::timeout(DEADLINE, subtree.next_change()).await;
    next.expect("a change in time").expect("an answer")
}

#[tokio::test(flavor = "multi_thread")]
async fn row_81g_a_cached_subtree_follows_every_change_across_nodes() {
    let cluster = Cluster::three().await;
    let http = &cluster.node(1).http;
    put(http, "/shop/a", "1").await;
    put(http, "/shopping", "beside it").await;
    let client = Client::new(addresses(&cluster)).expect("a client");
    let mut shop = client.subtree("/shop").await.expect("read");
    assert_eq!(shop.get("/shop/a").map(CachedZnode::text).as_deref(), Some("1"));
    assert_eq!(shop.nodes().len(), 2, "the directory and its child, and not what begins alike");
    put(http, "/shop/a", "2").await;
    put(http, "/shopping", "still beside it").await;
    put(http, "/shop/b/c", "3").await;
    assert_eq!(next(&mut shop).await, SubtreeChange::Changed(path("/shop/a")));
    assert_eq!(next(&mut shop).await, SubtreeChange::Created(path("/shop/b")));
    assert_eq!(next(&mut shop).await, SubtreeChange::Created(path("/shop/b/c")));
    assert_eq!(shop.get("/shop/b/c").map(CachedZnode::text).as_deref(), Some("3"));
    // The node is killed between two requests: another node continues from the same revision.
    let known = shop.revision();
    let leader = cluster.wait_ready().await;
    put(http, "/shop/a", "4").await;
    http.delete("/v1/tree/shop/b/c").await.assert_status(204);
    cluster.node(leader).kill();
    assert_eq!(next(&mut shop).await, SubtreeChange::Changed(path("/shop/a")));
    assert_eq!(next(&mut shop).await, SubtreeChange::Deleted(path("/shop/b/c")));
    assert!(shop.get("/shop/b/c").is_none() && shop.revision() >= known);
    // A cancelled and repeated call loses no change.
    let short = tokio::time::timeout(Duration::from_millis(200), shop.next_change()).await;
    assert!(short.is_err(), "{short:?}");
    let alive = cluster.others(leader).next().expect("a node");
    until("a leader", DEADLINE, || async { alive.is_ready().await }).await;
    put(&alive.http, "/shop/z", "5").await;
    assert_eq!(next(&mut shop).await, SubtreeChange::Created(path("/shop/z")));
}

/// More changes than a node keeps: 65,536.
async fn overflow(http: &Http) {
    put(http, "/noise", "").await;
    let set = r#"{"set":"/noise","data":""}"#;
    let body = format!(r#"{{"then":[{}]}}"#, vec![set; 1_000].join(","));
    for _ in 0..70 {
        let request = Request::new(Method::POST, "/v1/txn").body(&body);
        http.send(request).await.expect("an answer").assert_status(200);
    }
}

/// Older changes than the kept ones are reported as a gap.
#[tokio::test(flavor = "multi_thread")]
async fn row_81g_what_the_cluster_has_forgotten_is_said_to_be_a_gap_and_read_anew() {
    let (cluster, http) = one().await;
    put(&http, "/shop/a", "1").await;
    put(&http, "/shop/b", "1").await;
    let client = client(&cluster);
    let mut shop = client.subtree("/shop").await.expect("read");
    let known = shop.revision();
    put(&http, "/shop/a", "2").await;
    http.delete("/v1/tree/shop/b").await.assert_status(204);
    put(&http, "/shop/c", "1").await;
    overflow(&http).await;
    let SubtreeChange::Gap { since, until } = next(&mut shop).await else {
        panic!("no gap is said")
    };
    assert!(since == known && until > known, "{since} {until}");
    let names: Vec<String> = shop.nodes().keys().map(ToString::to_string).collect();
    assert_eq!(names, ["/shop", "/shop/a", "/shop/c"]);
    assert_eq!(shop.get("/shop/a").map(CachedZnode::text).as_deref(), Some("2"));
    put(&http, "/shop/a", "3").await;
    assert_eq!(next(&mut shop).await, SubtreeChange::Changed(path("/shop/a")));
}

/// The same with the blocking client, on a separate thread.
#[tokio::test(flavor = "multi_thread")]
async fn row_81f_programs_without_async_join_leave_and_follow() {
    let (cluster, _http) = one().await;
    let nodes = addresses(&cluster);
    let working = std::thread::spawn(move || {
        let client = blocking::Client::new(nodes).expect("a client");
        let group = client.group("web");
        let mut followed = group.watch().expect("read");
        let member = group.join("here").expect("joined");
        member.ensure().expect("it lives");
        member.set_value("there").expect("said");
        let values: Vec<String> =
            group.members().expect("an answer").into_iter().map(|member| member.value).collect();
        assert_eq!(values, ["there"]);
        let change = followed.next_change_within(DEADLINE).expect("an answer");
        assert_eq!(change, Some(SubtreeChange::Created(path("/groups/web"))));
        member.leave().expect("left");
        assert!(group.members().expect("an answer").is_empty());
        // The directory alone is left.
        while followed.nodes().len() > 1 {
            let change = followed.next_change_within(DEADLINE).expect("heard");
            println!("{:?}", change.expect("the member has left"));
        }
        let shop = client.subtree("/groups").expect("read");
        assert_eq!(shop.nodes().len(), 2);
    });
    working.join().expect("no panic");
}
