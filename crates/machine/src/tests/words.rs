//! The words of a golden script as commands and questions.

use std::collections::BTreeMap;

use holdfast_types::*;

use crate::{LockFilter, Machine};

/// One line, cut into words: the positional ones, and those of the form `key=value` or `key`.
pub(super) struct Words<'a> {
    words: Vec<&'a str>,
}

impl<'a> Words<'a> {
    pub(super) fn of(line: &'a str) -> Self {
        Self { words: line.split_whitespace().collect() }
    }

    pub(super) fn at(&self, index: usize) -> &'a str {
        self.words.get(index).unwrap_or_else(|| panic!("{:?} needs word {index}", self.words))
    }

    fn value(&self, key: &str) -> Option<&'a str> {
        self.words.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }

    fn number<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        let value = self.value(key)?;
        Some(value.parse().unwrap_or_else(|_| panic!("{key}={value} is no number")))
    }

    fn flag(&self, word: &str) -> bool {
        self.words.contains(&word)
    }

    fn owner(&self) -> Owner {
        self.value("owner").map_or_else(Owner::unnamed, |owner| Owner::new(owner).unwrap())
    }

    fn entry(&self) -> Option<EntryId> {
        self.value("entry").map(|entry| EntryId::new(entry).unwrap())
    }

    fn ttl(&self) -> Option<Ttl> {
        self.number("ttl").map(|ms| Ttl::from_millis(ms).unwrap())
    }

    fn labels(&self) -> Labels {
        let label = self.value("label").and_then(|label| label.split_once(':'));
        let labels: BTreeMap<_, _> =
            label.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        Labels::new(labels).unwrap()
    }

    fn open(&self, session: &str) -> OpenSession {
        OpenSession {
            session: session_name(session),
            ttl: self.ttl(),
            anonymous: self.flag("anonymous"),
            labels: self.labels(),
        }
    }

    fn caller(&self) -> (Option<SessionName>, Option<RequestId>) {
        let request = self.value("request").map(|request| RequestId::new(request).unwrap());
        (self.value("session").map(session_name), request)
    }

    fn data(&self) -> Vec<u8> {
        let zeros = self.number("zeros").map_or(Vec::new(), |count| vec![0; count]);
        self.value("data").map_or(zeros, |data| data.as_bytes().to_vec())
    }

    fn create(&self) -> Create {
        let (session, request) = self.caller();
        Create {
            path: path(self.at(1)),
            data: self.data(),
            kind: match () {
                () if self.flag("ephemeral") => CreateKind::Ephemeral,
                () if self.flag("container") => CreateKind::Container,
                () => CreateKind::Persistent,
            },
            sequential: self.flag("sequential"),
            session,
            request,
        }
    }

    fn limits(&self, machine: &Machine) -> Limits {
        let mut limits = *machine.limits();
        let set = |key, field: &mut u32| *field = self.number(key).unwrap_or(*field);
        set("sessions", &mut limits.sessions_max);
        set("znodes", &mut limits.znodes_max);
        set("waiters", &mut limits.waiters_per_lock_max);
        set("contenders", &mut limits.contenders_per_session_max);
        set("entries", &mut limits.entries_per_hold_max);
        set("data", &mut limits.data_bytes_max);
        set("memo", &mut limits.memo_per_session_max);
        set("tombstones", &mut limits.tombstones_max);
        limits.tombstone_ms = self.number("tombstone_ms").unwrap_or(limits.tombstone_ms);
        limits
    }

    /// The command of this line.
    pub(super) fn command(&self, machine: &Machine) -> Command {
        match self.at(0) {
            "acquire" => Command::Acquire(Acquire {
                lock: lock_name(self.at(1)),
                open: self.open(self.at(2)),
                owner: self.owner(),
                entry: self.entry(),
                wait: !self.flag("nowait"),
            }),
            "release" => Command::Release(Release {
                lock: lock_name(self.at(1)),
                session: session_name(self.at(2)),
                owner: self.owner(),
                entry: self.entry(),
            }),
            "cancel" => {
                let ticket = self.number("ticket").unwrap();
                Command::Cancel(Cancel {
                    lock: lock_name(self.at(1)),
                    session: session_name(self.at(2)),
                    owner: self.owner(),
                    ticket: Ticket(ticket),
                    asked: Revision(self.number("asked").unwrap_or(ticket)),
                })
            }
            "open" => Command::OpenSession(self.open(self.at(1))),
            "renew" => Command::RenewSession { session: session_name(self.at(1)), ttl: self.ttl() },
            "close" => Command::CloseSession { session: session_name(self.at(1)) },
            "expire" => self.expire(machine),
            "create" => Command::Create(self.create()),
            "delete" => {
                let (session, request) = self.caller();
                let version = self.number("version");
                Command::Delete(Delete { path: path(self.at(1)), version, session, request })
            }
            "set" => {
                let (session, request) = self.caller();
                let (path, data) = (path(self.at(1)), self.data());
                let version = self.number("version");
                Command::SetData(SetData { path, data, version, session, request })
            }
            "sweep" => Command::Sweep {
                empty_before: Stamp(self.number("before").unwrap()),
                count_max: self.number("max").unwrap_or(100),
            },
            "limits" => Command::SetLimits(self.limits(machine)),
            "register" => Command::RegisterNode {
                node: NodeId(self.at(1).parse().unwrap()),
                incarnation: Incarnation(self.number("incarnation").unwrap()),
            },
            other => panic!("no command {other}"),
        }
    }

    /// `expire me` means the present lease of the session of that name; `#3` a session by number.
    fn expire(&self, machine: &Machine) -> Command {
        let session = match self.at(1).strip_prefix('#') {
            Some(number) => SessionId(number.parse().unwrap()),
            None => match machine.session(&session_name(self.at(1))) {
                SessionStatus::Open(view) => view.id,
                status => panic!("{} is {status:?}", self.at(1)),
            },
        };
        let current = machine.lease(session).map_or(0, |(_, generation)| generation);
        let generation = self.number("generation").unwrap_or(current);
        Command::ExpireSession { session, generation }
    }

    /// The answer to a question `show …`, a fact to a line.
    pub(super) fn show(&self, machine: &Machine) -> Vec<String> {
        match self.at(1) {
            "lock" => super::render::lock(&machine.lock(&lock_name(self.at(2)), self.limit())),
            "locks" => {
                let filter = LockFilter {
                    prefix: self.value("prefix").unwrap_or("").to_owned(),
                    held: self.flag("held"),
                    waiting: self.flag("waiting"),
                    session: self.value("session").map(session_name),
                };
                let page = machine.locks(&filter, self.value("after"), self.limit());
                super::render::page(&page, super::render::lock)
            }
            "session" => super::render::status(&machine.session(&session_name(self.at(2)))),
            "sessions" => {
                let page = machine.sessions(self.value("after"), self.limit());
                super::render::page(&page, super::render::session)
            }
            "standing" => {
                let (lock, session) = (lock_name(self.at(2)), session_name(self.at(3)));
                super::render::standing(machine.standing(&lock, &session, &self.owner()).as_ref())
            }
            "fence" => vec![format!("{:?}", machine.fence(&lock_name(self.at(2))))],
            "node" => super::render::node(machine.node(&path(self.at(2)))),
            "children" => vec![match machine.children(&path(self.at(2))) {
                Some(names) => format!("[{}]", names.join(" ")),
                None => "no node".to_owned(),
            }],
            "leases" => machine.leases().map(|lease| format!("{lease:?}")).collect(),
            "incarnation" => {
                let node = NodeId(self.at(2).parse().unwrap());
                vec![format!("{:?}", machine.incarnation(node))]
            }
            "counts" => vec![format!("{:?}", machine.counts())],
            other => panic!("nothing to show: {other}"),
        }
    }

    fn limit(&self) -> usize {
        self.number("limit").unwrap_or(100)
    }
}

pub(super) fn lock_name(name: &str) -> LockName {
    LockName::new(name).unwrap()
}

pub(super) fn session_name(name: &str) -> SessionName {
    SessionName::new(name).unwrap()
}

/// A path; `/x*1000` is one long component.
pub(super) fn path(path: &str) -> ZnodePath {
    match path.split_once('*') {
        Some((start, count)) => {
            let (directory, part) = start.split_at(start.len() - 1);
            ZnodePath::new(format!("{directory}{}", part.repeat(count.parse().unwrap()))).unwrap()
        }
        None => ZnodePath::new(path).unwrap(),
    }
}
