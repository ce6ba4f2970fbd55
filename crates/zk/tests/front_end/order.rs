//! Order: replies follow the order of the requests, and an event precedes the reply that reveals the change (promise 9 of
//! docs/guarantees.md).

use holdfast_lab::zk::{ZkIncoming, create, create_with, delete, exists, get, set};
use holdfast_zkwire::{Request, Response, WatchEventType};

use crate::node::Node;

#[tokio::test]
async fn pipelined_requests_see_the_requests_before_them() {
    let (_node, mut client) = Node::with_client().await;
    let requests = [
        create("/p", 0),
        get("/p", false),
        set("/p", b"1", 0),
        get("/p", false),
        Request::Sync { path: "/p".to_owned() },
        delete("/p", 1),
        exists("/p", false),
        Request::Ping,
    ];
    for request in &requests {
        client.send(request).await;
    }
    let mut replies = Vec::new();
    for _ in &requests {
        replies.push(client.reply().await.unwrap());
    }
    let errors: Vec<i32> = replies.iter().map(|(header, _)| header.err).collect();
    assert_eq!(errors, [0, 0, 0, 0, 0, 0, -101, 0]);
    let versions: Vec<i32> = replies
        .iter()
        .filter_map(|(_, body)| match body {
            Some(Response::Data { stat, .. }) => Some(stat.version),
            _ => None,
        })
        .collect();
    assert_eq!(versions, [0, 1]);
    let zxids: Vec<i64> = replies.iter().map(|(header, _)| header.zxid).collect();
    assert!(zxids.is_sorted(), "{zxids:?}");
}

/// Quotes docs/guarantees.md: a watch notice precedes the response that shows the change.
#[tokio::test]
async fn an_event_precedes_the_reply_to_its_own_change() {
    let (_node, mut client) = Node::with_client().await;
    client.error(exists("/w", true)).await;
    client.send(&create("/w", 0)).await;
    let Some(ZkIncoming::Event { event, .. }) = client.incoming().await else {
        panic!("the reply came first")
    };
    assert_eq!((event.kind, event.path.as_str()), (WatchEventType::Created, "/w"));
    assert!(matches!(client.incoming().await, Some(ZkIncoming::Reply { .. })));
}

#[tokio::test]
async fn an_event_precedes_the_read_that_shows_the_change() {
    let node = Node::start().await;
    let (mut reader, mut writer) = (node.client().await, node.client().await);
    reader.create("/v", 0).await;
    for round in 0..50 {
        reader.done(get("/v", true)).await;
        let data = [round];
        let change = set("/v", &data, -1);
        let write = writer.done(change);
        let read = async {
            loop {
                reader.send(&get("/v", false)).await;
                let mut told = false;
                loop {
                    match reader.incoming().await.unwrap() {
                        ZkIncoming::Event { .. } => told = true,
                        ZkIncoming::Reply { body: Some(Response::Data { stat, .. }), .. } => {
                            let shown = stat.version == i32::from(round) + 1;
                            assert!(!shown || told, "the change was visible before its event");
                            if shown {
                                return;
                            }
                            break;
                        }
                        other => panic!("{other:?}"),
                    }
                }
                if told {
                    // The event has arrived: later reads may show the change.
                    return;
                }
            }
        };
        tokio::join!(write, read);
    }
}

#[tokio::test]
async fn pipelined_writes_are_applied_in_order() {
    let (_node, mut client) = Node::with_client().await;
    client.create("/q", 0).await;
    for _ in 0..300 {
        client.send(&create("/q/n-", 2)).await;
    }
    client.send(&get("/q", false)).await;
    let mut last = 0;
    for number in 0..300 {
        let (header, made) = client.reply().await.unwrap();
        assert_eq!(made, Some(Response::Created { path: format!("/q/n-{number:010}") }));
        assert!(header.zxid > last, "each has its own zxid");
        last = header.zxid;
    }
    let (_, read) = client.reply().await.unwrap();
    let Some(Response::Data { stat, .. }) = read else { panic!("{read:?}") };
    assert_eq!(stat.num_children, 300);
}

/// An authentication applies to later requests, not to earlier ones.
#[tokio::test]
async fn an_authentication_among_writes_applies_to_the_following_requests() {
    let (_node, mut client) = Node::with_client().await;
    let mine = || {
        let (perms, scheme, id) = (31, "auth".to_owned(), String::new());
        vec![holdfast_zkwire::Acl { perms, scheme, id }]
    };
    client.send(&create_with("/before", 0, b"", mine())).await;
    let (kind, scheme, auth) = (0, "digest".to_owned(), Some("u:p".into()));
    client.send(&Request::Auth { kind, scheme, auth }).await;
    client.send(&create_with("/after", 0, b"", mine())).await;
    let mut errors = Vec::new();
    for _ in 0..3 {
        errors.push(client.reply().await.unwrap().0.err);
    }
    assert_eq!(errors, [-114, 0, 0]);
}

#[tokio::test]
async fn a_rejected_write_does_not_stop_the_following_requests() {
    let (_node, mut client) = Node::with_client().await;
    for request in [create("/no/x", 0), create("/yes", 0)] {
        client.send(&request).await;
    }
    assert_eq!(client.reply().await.unwrap().0.err, -101);
    assert_eq!(client.reply().await.unwrap().0.err, 0);
}
