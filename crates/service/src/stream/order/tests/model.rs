//! Random changes of a tree and random watches, on the real machine and on a naive model of ZooKeeper's rules.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use holdfast_machine::Machine;
use holdfast_types::{
    Caller, Command, Create, CreateKind, Entry, Multi, Op, OpenSession, Password, Reply, Revision,
    SessionName, SessionOpenedReply, Stamp, Ttl, ZnodePath,
};
use proptest::prelude::*;

use super::super::*;
use crate::stream::liveness::Liveness;
use crate::stream::message::{Outgoing, StreamRead, WatchMode, WatchSet};
use crate::stream::outbox::Outbox;

use NoticeKind::{Changed, ChildrenChanged, Created, Deleted};

const PATHS: [&str; 6] = ["/a", "/a/b", "/a/b/c", "/a/d", "/e", "/a/bc"];
const CLIENTS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Data,
    Exist,
    Child,
    Persistent,
    Recursive,
}

#[derive(Clone, Debug)]
enum Change {
    Create(&'static str, bool),
    Delete(&'static str),
    Set(&'static str),
}

#[derive(Clone, Debug)]
enum Step {
    Watch(usize, Kind, &'static str),
    Multi(usize, Vec<Change>),
    /// Ends the session, and opens a new session for the client.
    End(usize),
    /// Ends the stream and keeps the session.
    Leave(usize),
    /// Reconnects with its earlier watches.
    Return(usize),
}

fn path(text: &str) -> ZnodePath {
    ZnodePath::new(text).unwrap()
}

type Told = Vec<(NoticeKind, String)>;

/// A client, with its real stream and its naive model.
struct Client {
    session: SessionName,
    attached: Attachment,
    entry: Option<(StreamEntry, Outbox)>,
    watches: BTreeSet<(Kind, &'static str)>,
    seen: Revision,
    expected: Told,
}

struct World {
    machine: Machine,
    streams: Streams,
    clients: Vec<Client>,
    opened: u64,
    /// The naive tree: each path with the owner of an ephemeral.
    tree: BTreeMap<&'static str, Option<usize>>,
    /// The revision in which each path was last created or set.
    changed: BTreeMap<&'static str, u64>,
    /// The revision in which each path was last created, or a child of it was last created or deleted.
    listed: BTreeMap<String, u64>,
}

fn enter(machine: &Machine, streams: &Streams, attached: &Attachment) -> (StreamEntry, Outbox) {
    let entry = streams.enter(machine, attached, StreamLimits::default()).unwrap();
    let liveness =
        Liveness::new(attached.id, attached.session.clone(), Ttl::DEFAULT, Instant::now());
    let outbox = Outbox::new(entry.queue.clone(), Arc::new(liveness));
    (entry, outbox)
}

impl World {
    fn new() -> Self {
        let mut world = Self {
            machine: Machine::new(),
            streams: Streams::new(100, 100_000),
            clients: Vec::new(),
            opened: 0,
            tree: BTreeMap::new(),
            changed: BTreeMap::new(),
            listed: BTreeMap::new(),
        };
        for _ in 0..CLIENTS {
            let client = world.open();
            world.clients.push(client);
        }
        world
    }

    fn apply(&mut self, command: Command) -> (bool, Revision, Option<Reply>) {
        let entry = Entry { stamped_at: Stamp(1), commands: vec![command] };
        let applied = self.machine.apply(entry);
        for (revision, event) in &applied.events {
            self.streams.on_event(&self.machine, *revision, event);
        }
        let outcome = applied.outcomes.into_iter().next().unwrap();
        (outcome.is_ok(), applied.revision, outcome.ok())
    }

    fn open(&mut self) -> Client {
        self.opened += 1;
        let session = SessionName::new(format!("s{}", self.opened)).unwrap();
        let password = Password([1; 16]);
        let open = OpenSession { password: Some(password), ..OpenSession::of(session.clone()) };
        let (_, attachment, reply) = self.apply(Command::OpenSession { open, attempt: None });
        let Some(Reply::SessionOpened(SessionOpenedReply { id, .. })) = reply else { panic!() };
        let (ttl, since) = (Ttl::DEFAULT, Instant::now());
        let attached =
            Attachment { id, session: session.clone(), password, ttl, attachment, since };
        let entry = Some(enter(&self.machine, &self.streams, &attached));
        let (watches, expected) = (BTreeSet::new(), Told::new());
        Client { session, attached, entry, watches, seen: attachment, expected }
    }

    fn watch(&mut self, index: usize, kind: Kind, at: &'static str) {
        let client = &mut self.clients[index];
        let Some((entry, _)) = &client.entry else { return };
        let there = self.tree.contains_key(at);
        let read = match kind {
            Kind::Data => Some(StreamRead::Data(path(at))),
            Kind::Exist => Some(StreamRead::Exists(path(at))),
            Kind::Child => Some(StreamRead::Children(path(at))),
            Kind::Persistent | Kind::Recursive => None,
        };
        self.streams.answer(&self.machine, entry, 0, |watching| match (&read, kind) {
            (Some(read), _) => watching.read(read, true, &[]),
            (None, Kind::Recursive) => {
                let arms = WatchFlags::of_mode(WatchMode::PersistentRecursive);
                watching.arm(&path(at), arms).map(|()| StreamAnswer::Done)
            }
            (None, _) => {
                let arms = WatchFlags::of_mode(WatchMode::Persistent);
                watching.arm(&path(at), arms).map(|()| StreamAnswer::Done)
            }
        });
        client.seen = self.machine.revision();
        // The client's own list of watches: an existence watch of an existing node is a watch on its data.
        match kind {
            Kind::Data | Kind::Exist if there => drop(client.watches.insert((Kind::Data, at))),
            Kind::Exist => drop(client.watches.insert((Kind::Exist, at))),
            Kind::Child if there => drop(client.watches.insert((Kind::Child, at))),
            Kind::Persistent | Kind::Recursive => drop(client.watches.insert((kind, at))),
            Kind::Data | Kind::Child => {}
        }
    }

    fn multi(&mut self, index: usize, changes: &[Change]) {
        let session = Some(self.clients[index].session.clone());
        let then = changes.iter().map(op).collect();
        let caller = Caller { session, ..Caller::default() };
        let (done, revision, _) =
            self.apply(Command::Multi(Multi { caller, then, ..Multi::default() }));
        let mut tree = self.tree.clone();
        let notices: Option<Vec<_>> =
            changes.iter().map(|change| naive(&mut tree, index, change)).collect();
        assert_eq!(notices.is_some(), done, "{changes:?} on {:?}", self.tree);
        for (kind, at) in notices.into_iter().flatten() {
            self.happened(kind, at, revision);
        }
        if done {
            self.tree = tree;
        }
    }

    fn end(&mut self, index: usize) {
        let session = self.clients[index].session.clone();
        self.clients[index].watches.clear();
        let was_there = self.clients[index].entry.is_some();
        let (_, revision, _) =
            self.apply(Command::CloseSession { session, attachment: None, incarnation: None });
        let owned = self.tree.iter().filter(|(_, owner)| **owner == Some(index));
        let gone: Vec<_> = owned.map(|(at, _)| *at).collect();
        // The session's own stream may have received notices of its ephemerals before it ended; they are not compared.
        let entry = self.clients[index].entry.take();
        assert_eq!(entry.is_some(), was_there);
        for at in gone {
            self.tree.remove(at);
            self.happened(Deleted, at, revision);
        }
        self.clients[index] = self.open();
    }

    fn leave(&mut self, index: usize) {
        if let Some((entry, _)) = self.clients[index].entry.take() {
            self.streams.leave(entry.number, StreamEnd::Closed);
        }
    }

    fn reconnect(&mut self, index: usize) {
        if self.clients[index].entry.is_some() {
            return;
        }
        let entered = enter(&self.machine, &self.streams, &self.clients[index].attached);
        let client = &mut self.clients[index];
        let of = |kind| {
            let chosen = client.watches.iter().filter(move |(found, _)| *found == kind);
            chosen.map(|(_, at)| path(at)).collect::<Vec<_>>()
        };
        let set = WatchSet {
            data: of(Kind::Data),
            exist: of(Kind::Exist),
            child: of(Kind::Child),
            persistent: of(Kind::Persistent),
            persistent_recursive: of(Kind::Recursive),
        };
        let relative = client.seen;
        self.streams.answer(&self.machine, &entered.0, 0, |watching| {
            watching
                .arm_again(relative, &set, |machine, path| machine.exists(path, &[]))
                .map(|()| StreamAnswer::Done)
        });
        client.entry = Some(entered);
        self.expect_missed(index, relative.0);
    }

    fn expect_missed(&mut self, index: usize, since: u64) {
        let after = |changes: Option<&u64>| changes.is_some_and(|at| *at > since);
        let client = &mut self.clients[index];
        for (kind, at) in client.watches.clone() {
            let there = self.tree.contains_key(at);
            let missed = match kind {
                Kind::Data | Kind::Child if !there => Some(Deleted),
                Kind::Data => after(self.changed.get(at)).then_some(Changed),
                Kind::Child => after(self.listed.get(at)).then_some(ChildrenChanged),
                Kind::Exist => there.then_some(Created),
                Kind::Persistent | Kind::Recursive => None,
            };
            if let Some(missed) = missed {
                client.watches.remove(&(kind, at));
                client.expected.push((missed, at.to_owned()));
            }
        }
    }

    /// Applies one change of one node to the naive model.
    fn happened(&mut self, kind: NoticeKind, at: &'static str, revision: Revision) {
        let parent = path(at).parent().unwrap().to_string();
        match kind {
            Created => {
                self.changed.insert(at, revision.0);
                self.listed.insert(at.to_owned(), revision.0);
                self.listed.insert(parent.clone(), revision.0);
            }
            Changed => drop(self.changed.insert(at, revision.0)),
            Deleted => drop(self.listed.insert(parent.clone(), revision.0)),
            ChildrenChanged => {}
        }
        for client in self.clients.iter_mut().filter(|client| client.entry.is_some()) {
            let here = |wanted: &[Kind]| {
                client.watches.iter().any(|(kind, path)| *path == at && wanted.contains(kind))
            };
            let above = client.watches.iter().any(|(kind, path)| {
                *kind == Kind::Recursive && (*path == at || at.starts_with(&format!("{path}/")))
            });
            let own = match kind {
                Deleted => here(&[Kind::Data, Kind::Exist, Kind::Persistent, Kind::Child]),
                Created | Changed => here(&[Kind::Data, Kind::Exist, Kind::Persistent]),
                ChildrenChanged => false,
            };
            if own || above {
                client.expected.push((kind, at.to_owned()));
            }
            client.watches.retain(|(found, path)| {
                *path != at
                    || !(matches!(found, Kind::Data | Kind::Exist)
                        || (kind == Deleted && *found == Kind::Child))
            });
            let listed = client.watches.iter().any(|(found, path)| {
                *path == parent && matches!(found, Kind::Child | Kind::Persistent)
            });
            if kind != Changed && listed {
                client.expected.push((ChildrenChanged, parent.clone()));
                client.watches.retain(|(found, path)| *path != parent || *found != Kind::Child);
            }
        }
    }

    /// Compares the notices that each client received in this step with the naive model.
    fn check(&mut self, step: &Step) {
        for (index, client) in self.clients.iter_mut().enumerate() {
            let mut sent = Told::new();
            let Some((_, outbox)) = &mut client.entry else {
                client.expected.clear();
                continue;
            };
            while let Some(item) = outbox.try_next() {
                match item {
                    Outgoing::Notice(notice) => sent.push((notice.kind, notice.path.to_string())),
                    Outgoing::Reply(_) => {}
                    Outgoing::End(reason) => panic!("client {index} ended: {reason:?}"),
                }
            }
            let mut expected = std::mem::take(&mut client.expected);
            if !matches!(step, Step::Multi(..)) {
                sent.sort();
                expected.sort();
            }
            assert_eq!(sent, expected, "client {index} after {step:?}");
            client.seen = self.machine.revision();
        }
        let here = self.clients.iter().filter(|client| client.entry.is_some());
        let watched: BTreeSet<_> =
            here.flat_map(|client| client.watches.iter()).map(|(_, at)| at).collect();
        let mut registry = self.streams.registry.lock();
        registry.table.sweep(usize::MAX);
        assert_eq!(registry.table.paths(), watched.len());
    }
}

fn op(change: &Change) -> Op {
    match change {
        Change::Create(at, ephemeral) => {
            let (directory, name) = ZnodePath::for_create(at, false).unwrap();
            let kind = if *ephemeral { CreateKind::Ephemeral } else { CreateKind::Persistent };
            let (data, acl) = (Vec::new().into(), None);
            let (sequential, parents) = (false, false);
            Op::Create(Create { directory, name, data, kind, sequential, acl, parents })
        }
        Change::Delete(at) => Op::Delete { path: path(at), version: None, recursive: false },
        Change::Set(at) => Op::SetData { path: path(at), data: vec![1].into(), version: None },
    }
}

/// Applies a change to the naive tree. Returns `None` if the change is rejected.
fn naive(
    tree: &mut BTreeMap<&'static str, Option<usize>>,
    index: usize,
    change: &Change,
) -> Option<(NoticeKind, &'static str)> {
    match change {
        Change::Create(at, ephemeral) => {
            let parent = path(at).parent()?.to_string();
            let allowed = parent == "/" || tree.get(parent.as_str()) == Some(&None);
            if !allowed || tree.contains_key(at) {
                return None;
            }
            tree.insert(at, ephemeral.then_some(index));
            Some((Created, at))
        }
        Change::Delete(at) => {
            let inside = format!("{at}/");
            let empty = !tree.keys().any(|other| other.starts_with(&inside));
            (empty && tree.remove(at).is_some()).then_some((Deleted, at))
        }
        Change::Set(at) => tree.contains_key(at).then_some((Changed, at)),
    }
}

fn step() -> impl Strategy<Value = Step> {
    let at = || prop::sample::select(PATHS.to_vec());
    let index = || 0..CLIENTS;
    let kinds = [Kind::Data, Kind::Exist, Kind::Child, Kind::Persistent, Kind::Recursive];
    let kind = prop::sample::select(kinds.to_vec());
    let change = prop_oneof![
        4 => (at(), prop::bool::weighted(0.3)).prop_map(|(at, e)| Change::Create(at, e)),
        2 => at().prop_map(Change::Delete),
        3 => at().prop_map(Change::Set),
    ];
    prop_oneof![
        8 => (index(), kind, at()).prop_map(|(index, kind, at)| Step::Watch(index, kind, at)),
        10 => (index(), prop::collection::vec(change, 1..4))
            .prop_map(|(index, changes)| Step::Multi(index, changes)),
        1 => index().prop_map(Step::End),
        1 => index().prop_map(Step::Leave),
        2 => index().prop_map(Step::Return),
    ]
}

proptest! {
    #[test]
    fn clients_receive_the_notices_of_a_naive_model(
        steps in prop::collection::vec(step(), 1..80)
    ) {
        let mut world = World::new();
        for step in &steps {
            match step {
                Step::Watch(index, kind, at) => world.watch(*index, *kind, at),
                Step::Multi(index, changes) => world.multi(*index, changes),
                Step::End(index) => world.end(*index),
                Step::Leave(index) => world.leave(*index),
                Step::Return(index) => world.reconnect(*index),
            }
            world.check(step);
        }
    }
}
