//! A real node under concurrent writers and watching readers, and the same node with a defect.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use holdfast_machine::Machine;
use holdfast_raft::{Observer, PeerListen, RaftConfig};
use holdfast_types::{
    Address, Applied, Create, CreateKind, Labels, MemberAddresses, Multi, NodeId, Op, Revision,
    Ttl, ZnodePath,
};
use parking_lot::Mutex;

use super::checker::{Changes, Sent, check_order};
use crate::apply_observer::ApplyObserver;
use crate::stream::{
    Outbox, Outgoing, SessionKey, SessionStream, StreamAnswer, StreamEnd, StreamLimits, StreamRead,
};
use crate::watch::{WatchFilter, WatchItem, WatchRequest};
use crate::{Service, ServiceConfig, ServiceMetrics};

const PATHS: [&str; 4] = ["/a", "/b", "/c", "/d"];
const WRITES: usize = 300;
const READERS: usize = 3;

/// The defect: the changes of an entry reach the observer only with the next entry.
struct Late {
    observer: Arc<ApplyObserver>,
    held: Mutex<Option<Applied>>,
}

impl Observer for Late {
    fn applied(&self, machine: &Machine, applied: &Applied) {
        if let Some(before) = self.held.lock().replace(applied.clone()) {
            self.observer.applied(machine, &before);
        }
    }

    fn restored(&self, machine: &Machine) {
        self.observer.restored(machine);
    }

    fn called(&self, from: NodeId, request: Bytes, deadline: Instant) -> BoxFuture<'static, Bytes> {
        self.observer.called(from, request, deadline)
    }
}

async fn start(dir: &Path, mutated: bool) -> Service {
    start_observed(dir, mutated).await.0
}

async fn start_observed(dir: &Path, mutated: bool) -> (Service, Arc<ApplyObserver>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer: Address = listener.local_addr().unwrap().into();
    let member = MemberAddresses { http: peer.clone(), zookeeper: peer.clone(), peer };
    let members = BTreeMap::from([(NodeId(1), member)]);
    let listen = PeerListen::Bound(listener);
    let raft = RaftConfig::new("test", NodeId(1), members, dir, listen);
    let seen = Arc::new(Mutex::new(None));
    let observer = |observer: Arc<ApplyObserver>| -> Arc<dyn Observer> {
        *seen.lock() = Some(observer.clone());
        if mutated { Arc::new(Late { observer, held: Mutex::default() }) } else { observer }
    };
    let (config, metrics) = (ServiceConfig::default(), ServiceMetrics::default());
    let service = Service::start_observed(config, raft, metrics, observer).await.unwrap();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    let led = async {
        let mut leadership = service.raft().leadership();
        leadership.wait_for(|leadership| leadership.epoch.is_some()).await.unwrap();
    };
    tokio::time::timeout_at(deadline, led).await.unwrap();
    let observer = seen.lock().take().unwrap();
    (service, observer)
}

async fn open(service: &Service) -> (SessionStream, Outbox) {
    let (key, labels) = (SessionKey::generate().unwrap(), Labels::default());
    let attached =
        service.open_stream_session(key, Ttl::DEFAULT, labels, Revision(0)).await.unwrap();
    service.stream(&attached, StreamLimits::default()).unwrap()
}

/// Takes all items from the outbox up to the next reply.
async fn up_to_reply(outbox: &mut Outbox, sent: &mut Vec<Sent>) -> (u64, StreamAnswer) {
    loop {
        match outbox.next().await {
            Outgoing::Notice(notice) => {
                let (revision, path) = (notice.revision, notice.path.to_string());
                sent.push(Sent::Notice { revision, path });
            }
            Outgoing::Reply(reply) => return (reply.revision.0, reply.result.unwrap()),
            Outgoing::End(reason) => panic!("ended: {reason:?}"),
        }
    }
}

async fn write(stream: &SessionStream, outbox: &mut Outbox, op: Op) -> u64 {
    stream.write(0, Multi { then: vec![op], ..Multi::default() }).await;
    up_to_reply(outbox, &mut Vec::new()).await.0
}

fn node(at: &str) -> Op {
    let (directory, name) = ZnodePath::for_create(at, false).unwrap();
    let (kind, data, acl) = (CreateKind::Persistent, Vec::new().into(), None);
    Op::Create(Create { directory, name, data, kind, sequential: false, acl, parents: false })
}

/// Changes two of the paths in turn. Returns each changed path with the revision.
async fn write_on(service: Service, paths: [&'static str; 2]) -> Vec<(&'static str, u64)> {
    let (stream, mut outbox) = open(&service).await;
    let mut changes = Vec::new();
    for turn in 0..WRITES {
        let at = paths[turn % 2];
        let data = turn.to_string().into_bytes().into();
        let op = Op::SetData { path: ZnodePath::new(at).unwrap(), data, version: None };
        changes.push((at, write(&stream, &mut outbox, op).await));
    }
    changes
}

/// Reads each path in turn with a watch. Each read begins after the previous reply.
async fn read_on(service: Service, first: usize, done: Arc<AtomicBool>) -> Vec<Sent> {
    let (stream, mut outbox) = open(&service).await;
    let mut sent = Vec::new();
    for at in PATHS.into_iter().cycle().skip(first) {
        let watch = !done.load(Ordering::Relaxed);
        stream.read(0, StreamRead::Data(ZnodePath::new(at).unwrap()), watch).await;
        let (revision, _) = up_to_reply(&mut outbox, &mut sent).await;
        sent.push(Sent::Reply { revision, watch: watch.then_some(at) });
        if !watch {
            break;
        }
    }
    sent
}

/// Returns the items that each reader received, and all changes.
async fn run(mutated: bool) -> (Vec<Vec<Sent>>, Changes) {
    let dir = tempfile::tempdir().unwrap();
    let service = start(dir.path(), mutated).await;
    let (stream, mut outbox) = open(&service).await;
    for at in PATHS {
        write(&stream, &mut outbox, node(at)).await;
    }
    let done = Arc::new(AtomicBool::new(false));
    let reader = |first| tokio::spawn(read_on(service.clone(), first, done.clone()));
    let readers: Vec<_> = (0..READERS).map(reader).collect();
    let writers = [["/a", "/b"], ["/c", "/d"]].map(|paths| write_on(service.clone(), paths));
    let written = futures_util::future::join_all(writers).await;
    done.store(true, Ordering::Relaxed);
    let mut changes = Changes::new();
    for (at, revision) in written.into_iter().flatten() {
        changes.entry(at.to_owned()).or_default().push(revision);
    }
    let mut sent = Vec::new();
    for reader in readers {
        sent.push(reader.await.unwrap());
    }
    drop((stream, outbox));
    service.shutdown().await;
    (sent, changes)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_notice_precedes_every_reply_that_would_reveal_its_change() {
    let (sent, changes) = run(false).await;
    for sent in sent {
        let notices = check_order(&sent, &changes).unwrap();
        assert!(notices > WRITES / 4, "{notices} notices in {} items", sent.len());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn notices_that_come_with_the_next_entry_are_rejected() {
    let (sent, changes) = run(true).await;
    assert!(sent.iter().any(|sent| check_order(sent, &changes).is_err()));
}

/// The watches of a node that installed a snapshot may have missed changes. So its streams end, their clients reconnect
/// with the last revision that they have seen, and watchers receive the revision to restart from.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_skipped_entries_ends_its_streams_and_compacts_its_watchers() {
    let dir = tempfile::tempdir().unwrap();
    let (service, observer) = start_observed(dir.path(), false).await;
    let (stream, mut outbox) = open(&service).await;
    let seen = write(&stream, &mut outbox, node("/a")).await;
    stream.read(0, StreamRead::Data(ZnodePath::new("/a").unwrap()), true).await;
    up_to_reply(&mut outbox, &mut Vec::new()).await;
    let filter = WatchFilter::Node(ZnodePath::new("/a").unwrap());
    let since = Some(Revision(seen - 1));
    let mut watching = service.watch(WatchRequest { filter, since }).unwrap();
    service.raft().read(|machine| observer.restored(machine));
    assert!(matches!(outbox.next().await, Outgoing::End(StreamEnd::EntriesSkipped)));
    assert_eq!(service.watch_counts().watches, 0);
    assert!(matches!(watching.next().await.item, WatchItem::Compacted { .. }));
    service.shutdown().await;
}
