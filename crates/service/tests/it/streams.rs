//! Streams of sessions: opening, attaching, closing, expiry, bounds, and the order of replies.

use std::time::{Duration, Instant};

use holdfast_service::{
    Attachment, Failure, Outgoing, ServiceConfig, SessionKey, StreamAnswer, StreamEnd,
    StreamLimits, StreamRead,
};
use holdfast_types::{Labels, Password, Rejection, Revision, SessionId, SessionRejection, Ttl};

use crate::client::*;
use crate::nodes::*;

const SHORT: u32 = 3_000;

fn short() -> Ttl {
    Ttl::try_from(SHORT).unwrap()
}

/// A session that is attached to another node keeps its id and its ephemerals. The older connection still reads; the
/// log rejects its writes.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_moves_to_another_node_with_its_ephemerals() {
    let nodes = Nodes::start(3).await;
    let mut old = Client::open(&nodes.services[0]).await;
    old.does(ephemeral("/mine")).await;
    let mut new = old.attach(&nodes.services[1]).await.unwrap();
    assert_eq!(new.attached.id, old.attached.id);
    assert!(new.attached.attachment > old.attached.attachment);
    let mine = new.read(StreamRead::Ephemerals("/".to_owned()), false).await;
    assert_eq!(mine, Ok(StreamAnswer::Ephemerals(vec![path("/mine")])));
    assert!(old.exists("/mine", false).await);
    let late = old.write(vec![node("/late")]).await;
    assert!(matches!(late, Err(Rejection::Session(SessionRejection::Moved { .. }))), "{late:?}");
    new.sync().await;
    assert!(!new.exists("/late", false).await);
    new.does(set("/mine", b"still")).await;
}

/// An older connection to the same node ends at once, and its later requests have no effect.
#[tokio::test(flavor = "multi_thread")]
async fn attaching_a_session_on_the_same_node_ends_the_older_connection() {
    let nodes = Nodes::start(1).await;
    let mut old = Client::open(&nodes.services[0]).await;
    let mut new = old.attach(&nodes.services[0]).await.unwrap();
    assert_eq!(old.ended().await, StreamEnd::Moved);
    old.ask_write(vec![node("/late")]).await;
    assert_eq!(old.ended().await, StreamEnd::Moved);
    assert!(!new.exists("/late", false).await);
}

/// As in ZooKeeper, any connection of a session can close it; other writes need the newest connection.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_moved_to_another_node_can_be_closed_by_its_older_connection() {
    let nodes = Nodes::start(3).await;
    let mut first = Client::open(&nodes.services[0]).await;
    first.does(ephemeral("/mine")).await;
    let mut second = first.attach(&nodes.services[1]).await.unwrap();
    let mut third = first.attach(&nodes.services[2]).await.unwrap();
    let tag = second.tag();
    second.stream.close(tag).await;
    assert!(second.reply().await.result.is_ok());
    assert_eq!(second.ended().await, StreamEnd::Closed);
    assert_eq!(first.ended().await, StreamEnd::Closed);
    assert_eq!(third.ended().await, StreamEnd::Closed);
    let mut other = Client::open(&nodes.services[0]).await;
    assert!(!other.exists("/mine", false).await);
}

/// The session is attached to another connection while the close is in flight.
#[tokio::test(flavor = "multi_thread")]
async fn a_close_in_flight_while_the_session_is_attached_again_succeeds_with_a_reply() {
    let nodes = Nodes::start(1).await;
    let service = &nodes.services[0];
    for _ in 0..20 {
        let mut old = Client::open(service).await;
        old.does(ephemeral("/mine")).await;
        let tag = old.tag();
        let Attachment { id, password, ttl, .. } = old.attached.clone();
        let attach = async {
            let attached =
                service.attach_session(SessionKey { id, password }, ttl, Revision(0)).await?;
            service.stream(&attached, StreamLimits::default())
        };
        let (new, ()) = tokio::join!(attach, old.stream.close(tag));
        match old.next().await {
            Outgoing::Reply(reply) => {
                assert!(reply.result.is_ok());
                assert_eq!(old.ended().await, StreamEnd::Closed);
            }
            // The attachment was applied before the close began.
            Outgoing::End(end) => assert_eq!(end, StreamEnd::Moved),
            other @ Outgoing::Notice(_) => panic!("{other:?}"),
        }
        match new {
            Ok((_stream, mut outbox)) => {
                assert!(matches!(outbox.next().await, Outgoing::End(StreamEnd::Closed)));
            }
            Err(failure) => assert!(
                matches!(
                    failure,
                    Failure::Rejected(Rejection::Session(SessionRejection::Unknown { .. }))
                ),
                "{failure:?}"
            ),
        }
        let mut other = Client::open(service).await;
        assert!(!other.exists("/mine", false).await);
    }
}

/// The log decides which attachment is the newest.
#[tokio::test(flavor = "multi_thread")]
async fn a_superseded_attachment_cannot_start_a_stream() {
    let nodes = Nodes::start(1).await;
    let service = &nodes.services[0];
    let old = Client::open(service).await;
    let _new = old.attach(service).await.unwrap();
    let again = service.stream(&old.attached, StreamLimits::default());
    assert!(matches!(rejection(again), Rejection::Session(SessionRejection::Moved { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_or_session_id_does_not_attach() {
    let nodes = Nodes::start(1).await;
    let service = &nodes.services[0];
    let mut real = Client::open(service).await;
    for (id, password) in [
        (real.attached.id, Password([7; 16])),
        (SessionId(real.attached.id.0 + 1_000), real.attached.password),
    ] {
        let taken = service.attach_session(SessionKey { id, password }, TTL, Revision(0)).await;
        assert!(matches!(rejection(taken), Rejection::Session(SessionRejection::Unknown { .. })));
    }
    assert!(real.exists("/", false).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_close_gets_a_reply_and_then_the_stream_ends() {
    let nodes = Nodes::start(1).await;
    let service = &nodes.services[0];
    let mut client = Client::open(service).await;
    client.does(ephemeral("/mine")).await;
    let tag = client.tag();
    client.stream.close(tag).await;
    assert!(client.reply().await.result.is_ok());
    assert_eq!(client.ended().await, StreamEnd::Closed);
    assert_eq!(client.ended().await, StreamEnd::Closed);
    let gone = client.attach(service).await.map(|_| ());
    assert!(matches!(rejection(gone), Rejection::Session(SessionRejection::Unknown { .. })));
    let mut other = Client::open(service).await;
    assert!(!other.exists("/mine", false).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_closed_by_another_front_end_ends_its_stream() {
    let nodes = Nodes::start(1).await;
    let service = &nodes.services[0];
    let mut client = Client::open(service).await;
    let session = client.attached.session.clone();
    service.close_session(session, None).await.unwrap();
    assert_eq!(client.ended().await, StreamEnd::Closed);
}

/// The session expires at least one TTL after the client's last request, and not much later.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_client_expires_after_its_ttl_and_not_before() {
    let nodes = Nodes::start(3).await;
    let node_of = nodes.follower().await;
    let mut client = Client::open_with(&node_of, short(), StreamLimits::default()).await;
    client.exists("/", false).await;
    let heard = Instant::now();
    assert_eq!(client.ended().await, StreamEnd::Expired);
    let after = heard.elapsed();
    assert!(after >= Duration::from_millis(SHORT.into()), "after {after:?}");
    assert!(after < Duration::from_millis(u64::from(SHORT) * 2), "after {after:?}");
}

/// Reads are served by the follower, and still count as client activity.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_only_reads_from_a_follower_keeps_its_session() {
    let nodes = Nodes::start(3).await;
    let node_of = nodes.follower().await;
    let mut client = Client::open_with(&node_of, short(), StreamLimits::default()).await;
    client.does(ephemeral("/mine")).await;
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(u64::from(SHORT) * 2) {
        assert!(client.exists("/mine", false).await);
        tokio::time::sleep(Duration::from_millis(u64::from(SHORT) / 6)).await;
    }
}

/// A node without a majority sends no reply, and ends the stream early enough for the client to use another node.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_a_quorum_sends_no_reply_and_cuts_off_its_streams() {
    let nodes = Nodes::start(3).await;
    let left = nodes.services[0].clone();
    let mut client = Client::open_with(&left, short(), StreamLimits::default()).await;
    assert!(client.exists("/", false).await);
    for service in &nodes.services[1..] {
        service.shutdown().await;
    }
    // The last confirmed renewal covers replies for a short time; after that the node sends none.
    let deadline = Instant::now() + DEADLINE;
    let mut last_reply = Instant::now();
    loop {
        assert!(Instant::now() < deadline, "the node still sends replies");
        let sent = Instant::now();
        client.ask_read(StreamRead::Exists(path("/")), false).await;
        match client.next().await {
            Outgoing::Reply(_) => last_reply = sent,
            Outgoing::End(reason) => {
                assert_eq!(reason, StreamEnd::CutOff);
                break;
            }
            other @ Outgoing::Notice(_) => panic!("{other:?}"),
        }
    }
    assert!(last_reply.elapsed() < Duration::from_millis(SHORT.into()));
}

/// A lagging node waits or rejects the client, so the client's revisions never go back.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_behind_its_client_rejects_it() {
    let catch_up_max = Duration::from_millis(200);
    let nodes =
        Nodes::start_with(1, ServiceConfig { catch_up_max, ..ServiceConfig::default() }).await;
    let service = &nodes.services[0];
    let ahead = Revision(service.revision().0 + 1_000);
    let key = SessionKey::generate().unwrap();
    let opened = service.open_stream_session(key, TTL, Labels::default(), ahead).await;
    assert!(matches!(opened, Err(Failure::Lagging)), "{opened:?}");
    let client = Client::open(service).await;
    let (id, password) = (client.attached.id, client.attached.password);
    let attached = service.attach_session(SessionKey { id, password }, TTL, ahead).await;
    assert!(matches!(attached, Err(Failure::Lagging)), "{attached:?}");
}

/// A write that one node acknowledged is visible after the client attaches to another node.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_changes_nodes_sees_its_earlier_writes() {
    let nodes = Nodes::start(3).await;
    let mut client = Client::open(&nodes.services[0]).await;
    for round in 0..6 {
        let name = format!("/round-{round}");
        client.ask_write(vec![node(&name)]).await;
        let seen = client.reply().await.revision;
        client = client.attach_seen(&nodes.services[round % 3], seen).await.unwrap();
        client.ask_read(StreamRead::Exists(path(&name)), false).await;
        let reply = client.reply().await;
        assert!(reply.result.is_ok(), "{reply:?}");
        assert!(reply.revision >= seen);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sync_shows_writes_that_another_node_acknowledged() {
    let nodes = Nodes::start(3).await;
    let mut writing = Client::open(&nodes.services[0]).await;
    let mut reading = Client::open(&nodes.services[1]).await;
    for round in 0..10 {
        let name = format!("/round-{round}");
        writing.does(node(&name)).await;
        let tag = reading.tag();
        reading.stream.sync(tag).await;
        reading.reply().await;
        assert!(reading.exists(&name, false).await);
    }
}

/// The stream of a client that does not read its notices ends, and drops no notice silently.
#[tokio::test(flavor = "multi_thread")]
async fn unread_notices_end_the_stream() {
    let nodes = Nodes::start(1).await;
    let service = &nodes.services[0];
    let limits = StreamLimits { outbox_max: 4, ..StreamLimits::default() };
    let mut slow = Client::open_with(service, TTL, limits).await;
    let mut writing = Client::open(service).await;
    let tag = slow.tag();
    let mode = holdfast_service::WatchMode::PersistentRecursive;
    slow.stream.add_watch(tag, path("/"), mode).await;
    slow.reply().await;
    for number in 0..5 {
        writing.does(node(&format!("/n{number}"))).await;
    }
    assert_eq!(slow.ended().await, StreamEnd::Overflow);
    assert_eq!(service.watch_counts().watches, 0);
}

/// Unread replies delay the client's own next request.
#[tokio::test(flavor = "multi_thread")]
async fn unread_replies_delay_the_next_request() {
    let nodes = Nodes::start(1).await;
    let limits = StreamLimits { outbox_max: 2, ..StreamLimits::default() };
    let mut client = Client::open_with(&nodes.services[0], TTL, limits).await;
    for _ in 0..2 {
        client.ask_read(StreamRead::Exists(path("/")), false).await;
    }
    let tag = client.tag();
    {
        let read = client.stream.read(tag, StreamRead::Exists(path("/")), false);
        let mut third = std::pin::pin!(read);
        assert!(futures_util::poll!(&mut third).is_pending());
        assert!(client.outbox.try_next().is_some());
        third.await;
    }
    assert!(client.outbox.try_next().is_some());
    client.reply().await;
}

/// A client that reads its replies late, so that the renewal of its session is old when there is room again, is served.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_waits_long_for_room_is_served() {
    let nodes = Nodes::start(1).await;
    let limits = StreamLimits { outbox_max: 1, ..StreamLimits::default() };
    let mut client = Client::open_with(&nodes.services[0], TTL, limits).await;
    client.ask_read(StreamRead::Exists(path("/")), false).await;
    let tag = client.tag();
    {
        let read = client.stream.read(tag, StreamRead::Exists(path("/")), false);
        let mut second = std::pin::pin!(read);
        // Longer than a renewal covers a reply.
        let early = tokio::time::timeout(Duration::from_millis(1_200), &mut second).await;
        assert!(early.is_err());
        assert!(client.outbox.try_next().is_some());
        tokio::time::timeout(DEADLINE, second).await.unwrap();
    }
    client.reply().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_and_streams_are_bounded() {
    let config = ServiceConfig { streams_max: 2, watches_max: 3, ..ServiceConfig::default() };
    let nodes = Nodes::start_with(1, config).await;
    let service = &nodes.services[0];
    let limits = StreamLimits { watches_max: 2, ..StreamLimits::default() };
    let mut one = Client::open_with(service, TTL, limits).await;
    let mut other = Client::open(service).await;
    let (key, labels) = (SessionKey::generate().unwrap(), Labels::default());
    let third = service.open_stream_session(key, TTL, labels, Revision(0)).await.unwrap();
    let refused = service.stream(&third, StreamLimits::default());
    assert!(matches!(refused, Err(Failure::TooManyStreams { limit: 2 })));
    one.exists("/a", true).await;
    one.exists("/b", true).await;
    one.exists("/b", true).await;
    one.ask_read(StreamRead::Exists(path("/c")), true).await;
    let refused = one.reply().await.result;
    assert!(matches!(refused, Err(Failure::TooManyWatches { limit: 2 })), "{refused:?}");
    other.exists("/a", true).await;
    other.ask_read(StreamRead::Exists(path("/b")), true).await;
    assert!(matches!(other.reply().await.result, Err(Failure::TooManyWatches { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_drains_serves_its_streams_until_it_stops() {
    let nodes = Nodes::start(1).await;
    let service = &nodes.services[0];
    let mut client = Client::open(service).await;
    let attached = client.attached.clone();
    service.drain().await;
    let refused = service.stream(&attached, StreamLimits::default());
    assert!(matches!(refused, Err(Failure::ShuttingDown)));
    assert!(client.exists("/", false).await);
    service.shutdown().await;
    assert_eq!(client.ended().await, StreamEnd::ShuttingDown);
}

/// Pipelined writes are in FIFO order: each write has its own reply, after the notices of its change.
#[tokio::test(flavor = "multi_thread")]
async fn pipelined_writes_are_done_in_order_with_replies_in_order() {
    let nodes = Nodes::start(3).await;
    for service in [nodes.leader().await, nodes.follower().await] {
        let mut client = Client::open(&service).await;
        let name = format!("/run-{}", service.node());
        client.exists(&name, true).await;
        let mut run = Vec::new();
        for number in 0..400 {
            let op = if number == 0 { node(&name) } else { set(&name, &[1]) };
            // A rejected write does not stop the later writes.
            let op = if number == 200 { delete("/none") } else { op };
            run.push((client.tag(), multi(vec![op])));
        }
        let tags: Vec<_> = run.iter().map(|(tag, _)| *tag).collect();
        client.stream.write_run(run).await;
        assert_eq!(client.notice().await.1, name);
        let mut last = Revision(0);
        for (number, tag) in tags.into_iter().enumerate() {
            let Outgoing::Reply(reply) = client.next().await else { panic!("reply {number}") };
            assert!(reply.tag == tag && reply.revision > last, "reply {number}: {reply:?}");
            assert_eq!(reply.result.is_ok(), number != 200, "{reply:?}");
            last = reply.revision;
        }
        assert_eq!(client.data(&name, false).await, Some(vec![1]));
        client.nothing();
    }
}

/// After an unknown outcome the stream ends without a reply.
#[tokio::test(flavor = "multi_thread")]
async fn writes_without_a_quorum_end_the_stream_without_a_reply() {
    let nodes = Nodes::start(3).await;
    let left = nodes.follower().await;
    let mut client = Client::open(&left).await;
    for service in nodes.services.iter().filter(|service| service.node() != left.node()) {
        service.shutdown().await;
    }
    let run = (0..5).map(|n| (n, multi(vec![node(&format!("/n{n}"))]))).collect();
    client.stream.write_run(run).await;
    let reason = client.ended().await;
    assert!(matches!(reason, StreamEnd::Unknown | StreamEnd::CutOff), "{reason:?}");
    assert_eq!(left.watch_counts().streams, 0);
}

/// A change of the tree does not renew the session itself; the client activity does.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_only_writes_keeps_its_session() {
    let nodes = Nodes::start(3).await;
    let node_of = nodes.follower().await;
    let mut client = Client::open_with(&node_of, short(), StreamLimits::default()).await;
    client.does(node("/a")).await;
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(u64::from(SHORT) * 2) {
        client.does(set("/a", b"x")).await;
    }
}

/// Both concurrent closes of a session end; the stream may end before its reply.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_closes_of_a_session_end_its_stream() {
    let nodes = Nodes::start(1).await;
    let service = &nodes.services[0];
    for _ in 0..10 {
        let mut client = Client::open(service).await;
        let session = client.attached.session.clone();
        let tag = client.tag();
        let close = service.close_session(session, None);
        let (closed, ()) = tokio::join!(close, client.stream.close(tag));
        closed.unwrap();
        let first = client.next().await;
        let ended = match first {
            Outgoing::Reply(_) => client.ended().await,
            Outgoing::End(reason) => reason,
            other @ Outgoing::Notice(_) => panic!("{other:?}"),
        };
        assert_eq!(ended, StreamEnd::Closed);
    }
}
