//! Parses the lines of golden scripts into commands and queries.

use std::collections::BTreeMap;

use holdfast_types::*;

use super::{operator_commands, recipe, render};
use crate::session::memo::scope_of;
use crate::{LockFilter, Machine};

/// One line, split into words: positional ones, `key=value` and flags.
pub(super) struct Words<'a> {
    words: Vec<&'a str>,
}

/// A numbered call of a session.
pub(super) fn numbered(session: &str, request: u64) -> NumberedCall {
    let (session, request) = (session_name(session), RequestNumber(request));
    NumberedCall { session, request, scope: CallScope(0) }
}

impl<'a> Words<'a> {
    pub(super) fn of(line: &'a str) -> Self {
        Self { words: line.split_whitespace().collect() }
    }

    pub(super) fn at(&self, index: usize) -> &'a str {
        self.words.get(index).unwrap_or_else(|| panic!("{:?} needs word {index}", self.words))
    }

    pub(super) fn value(&self, key: &str) -> Option<&'a str> {
        self.words.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }

    pub(super) fn number<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        let value = self.value(key)?;
        Some(value.parse().unwrap_or_else(|_| panic!("{key}={value} is no number")))
    }

    pub(super) fn flag(&self, word: &str) -> bool {
        self.words.contains(&word)
    }

    pub(super) fn owner(&self) -> Owner {
        self.value("owner").map_or_else(Owner::unnamed, |owner| Owner::new(owner).unwrap())
    }

    pub(super) fn attempt(&self) -> Option<Attempt> {
        self.number("attempt").map(Attempt)
    }

    fn target(&self) -> ReleaseTarget {
        let hold = || self.number("token").map(|n| ReleaseTarget::Hold(FencingToken(n)));
        let attempt = self.attempt().map(ReleaseTarget::Attempt);
        let permits = self.number("permits").map(|n| ReleaseTarget::Permits(HoldName::Unnamed, n));
        attempt.or_else(hold).or(permits).unwrap_or_default()
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

    pub(super) fn open(&self, session: &str) -> OpenSession {
        OpenSession {
            session: session_name(session),
            ttl: self.ttl(),
            anonymous: self.flag("anonymous"),
            labels: self.labels(),
            password: self.password(),
            id: self.number("id").map(|n: u64| SessionId(SessionId::CHOSEN.start + n)),
            incarnation: self.number("incarnation").map(SessionId),
        }
    }

    /// Lock names, e.g. `a,b,c`.
    fn locks(&self) -> LockSet {
        lock_set(&self.at(1).split(',').collect::<Vec<_>>())
    }

    fn acquire(&self) -> Acquire {
        let open = self.open(self.at(2));
        let mode = |text| Mode::ALL.into_iter().find(|mode| mode.as_str() == text).unwrap();
        Acquire {
            attempt: self.attempt(),
            change: self.number("change").map(Attempt),
            wait: !self.flag("nowait"),
            wait_ms: self.number("wait_ms"),
            mode: self.value("mode").map(mode),
            permits: self.number("permits"),
            limit: self.number("limit"),
            queue_max: self.number("queue_max"),
            options: AcquireOptions {
                priority: self.number("priority").unwrap_or(0),
                reentrant: !self.flag("once"),
                max_hold_ms: self.number("max_hold"),
                min_hold_ms: self.number("min_hold"),
                value: self.value("value").map(|value| value.as_bytes().into()),
                durable: self.value("durable").map(|reason| Reason::new(reason).unwrap()),
            },
            shards: self.shards(),
            ..Acquire::new(self.locks(), open, self.owner())
        }
    }

    /// Shards, e.g. `shards=8`, `shards=8 shard=3` or `shard=any`.
    fn shards(&self) -> Option<ShardRequest> {
        let count = self.number("shards");
        let choice = match self.value("shard") {
            Some("any") => Some(ShardChoice::Any),
            _ => self.number("shard").map(ShardChoice::At),
        };
        let said = count.is_some() || choice.is_some();
        said.then_some(ShardRequest { count, choice: choice.unwrap_or_default() })
    }

    /// A policy change, e.g. `limit=4` or `limit=none`.
    fn policy_change(&self) -> PolicyChange {
        let or_none = |key| match self.value(key) {
            Some("none") => Some(None),
            _ => self.number(key).map(Some),
        };
        let order =
            |text| QueueOrder::ALL.into_iter().find(|order| order.as_str() == text).unwrap();
        PolicyChange {
            limit: or_none("limit"),
            order: self.value("order").map(order),
            ageing_ms: self.number("ageing"),
            lock_delay_ms: self.number("lock_delay"),
            cooldown_ms: self.number("cooldown"),
            detect_deadlocks: self.number("deadlocks"),
            shards: or_none("shards"),
            wait_alarm_ms: self.number("wait_alarm"),
            hold_alarm_ms: self.number("hold_alarm"),
        }
    }

    /// The numbered call of a line with `session` and `request`.
    pub(super) fn call(&self) -> Option<NumberedCall> {
        let request = self.number("request").map(RequestNumber)?;
        let session = session_name(self.value("session")?);
        let scope = scope_of(&self.words);
        Some(NumberedCall { session, request, scope })
    }

    fn caller(&self) -> Caller {
        Caller {
            session: self.value("session").map(session_name),
            attachment: self.number("attachment").map(Revision),
            identities: self.identities(),
        }
    }

    fn identities(&self) -> Vec<Identity> {
        let shown = self.value("as").unwrap_or("");
        shown.split(',').filter(|text| !text.is_empty()).map(identity).collect()
    }

    /// `acl=scheme:id:perms,…`; a bare `acl=` is the empty list.
    fn acl(&self) -> Option<Vec<AclEntry>> {
        let entries = self.value("acl")?.split(',').filter(|text| !text.is_empty());
        let entry = |text: &str| {
            let (who, perms) = text.rsplit_once(':').unwrap();
            AclEntry { perms: perms_of(perms), who: identity(who) }
        };
        Some(entries.map(entry).collect())
    }

    fn password(&self) -> Option<Password> {
        self.number("password").map(|byte| Password([byte; 16]))
    }

    fn data(&self) -> Data {
        if self.flag("null") {
            return Data::NULL;
        }
        let zeros = self.number("zeros").map_or(Vec::new(), |count| vec![0; count]);
        self.value("data").map_or(zeros, |data| data.as_bytes().to_vec()).into()
    }

    fn create(&self) -> Create {
        let sequential = self.flag("sequential");
        let at = stretched(self.at(1));
        let (directory, name) = ZnodePath::for_create(&at, sequential).unwrap();
        let kind = match self.number("ttl") {
            Some(ms) => CreateKind::Ttl { ms },
            None if self.flag("ephemeral") => CreateKind::Ephemeral,
            None if self.flag("container") => CreateKind::Container,
            None => CreateKind::Persistent,
        };
        let (data, acl, parents) = (self.data(), self.acl(), self.flag("parents"));
        Create { directory, name, data, kind, sequential, acl, parents }
    }

    /// The tree operation of this line, if it is one.
    fn op(&self) -> Option<Op> {
        let version = self.number("version");
        Some(match self.at(0) {
            "create" => Op::Create(self.create()),
            "delete" => {
                Op::Delete { path: path(self.at(1)), version, recursive: self.flag("recursive") }
            }
            "set" => Op::SetData { path: path(self.at(1)), data: self.data(), version },
            "setacl" => Op::SetAcl { path: path(self.at(1)), acl: self.acl().unwrap(), version },
            "check" => Op::Check { path: path(self.at(1)), version },
            _ => return None,
        })
    }

    /// A condition, after `if`.
    fn condition(&self) -> Condition {
        match self.at(1) {
            "exists" => Condition::Exists { path: path(self.at(2)), exists: true },
            "missing" => Condition::Exists { path: path(self.at(2)), exists: false },
            "version" => {
                let version = self.at(3).parse().unwrap();
                Condition::Version { path: path(self.at(2)), version }
            }
            "data" => Condition::Data { path: path(self.at(2)), data: self.at(3).into() },
            "holds" => {
                let token = FencingToken(self.at(3).parse().unwrap());
                Condition::Holds { lock: lock_name(self.at(2)), token }
            }
            "open" => Condition::SessionOpen { session: session_name(self.at(2)) },
            other => panic!("no condition {other}"),
        }
    }

    fn limits(&self, machine: &Machine) -> Limits {
        let mut limits = *machine.limits();
        let set = |key, field: &mut u32| *field = self.number(key).unwrap_or(*field);
        set("sessions", &mut limits.sessions_max);
        set("znodes", &mut limits.znodes_max);
        set("waiters", &mut limits.waiters_per_lock_max);
        set("ephemerals", &mut limits.ephemerals_per_session_max);
        set("queue_entries", &mut limits.queue_entries_per_session_max);
        set("hold_count", &mut limits.hold_count_max);
        set("data", &mut limits.data_bytes_max);
        set("memo", &mut limits.memo_per_session_max);
        set("tombstones", &mut limits.tombstones_max);
        set("recipes", &mut limits.recipes_max);
        limits.tree_bytes_max = self.number("bytes").unwrap_or(limits.tree_bytes_max);
        limits.tombstone_ms = self.number("tombstone_ms").unwrap_or(limits.tombstone_ms);
        limits
    }

    /// The command of this line; panics on an unknown word.
    pub(super) fn command(&self, machine: &Machine) -> Command {
        if let Some(recipe) = recipe::script_commands::recipe(self) {
            return Command::Recipe(recipe);
        }
        if let Some(command) = operator_commands::command(self) {
            return command;
        }
        if let Some(op) = self.op() {
            return multi(self.caller(), vec![op]);
        }
        match self.at(0) {
            "acquire" => Command::Acquire(self.acquire()),
            "policy" => {
                Command::SetPolicy { lock: lock_name(self.at(1)), change: self.policy_change() }
            }
            "due" => Command::RunTimers { lock: lock_name(self.at(1)) },
            "release" => Command::Release(Release {
                locks: self.locks(),
                session: session_name(self.at(2)),
                owner: self.owner(),
                target: self.target(),
            }),
            "cancel" => {
                let ticket = self.number("ticket").unwrap();
                Command::Cancel(Cancel {
                    lock: lock_name(self.at(1)),
                    session: session_name(self.at(2)),
                    owner: self.owner(),
                    ticket: Ticket(ticket),
                    requested_in: Revision(self.number("asked").unwrap_or(ticket)),
                })
            }
            "open" => Command::OpenSession { open: self.open(self.at(1)), attempt: self.attempt() },
            "renew" => Command::RenewSession { session: session_name(self.at(1)) },
            "close" => Command::CloseSession {
                session: session_name(self.at(1)),
                attachment: self.number("attachment").map(Revision),
                incarnation: self.number("incarnation").map(SessionId),
            },
            "end" => Command::EndSession {
                session: session_name(self.at(1)),
                incarnation: self.number("incarnation").map(SessionId),
                reason: Reason::new("stuck").unwrap(),
            },
            "expire" => self.expire(machine),
            "attach" => Command::AttachSession {
                session: self.session_at(1, machine),
                password: self.password().unwrap(),
                ttl: self.ttl().unwrap_or(Ttl::DEFAULT),
            },
            "sweep" => Command::Sweep {
                empty_before: Stamp(self.number("before").unwrap()),
                count_max: self.number("max").unwrap_or(100),
            },
            "limits" => Command::SetLimits(self.limits(machine)),
            "register" => Command::RegisterNode {
                node: NodeId(self.at(1).parse().unwrap()),
                incarnation: Incarnation(self.number("incarnation").unwrap()),
            },
            "bootstrap" => Command::Bootstrap {
                cluster_id: ClusterId(self.at(1).parse().unwrap()),
                level: FeatureLevel::NEWEST,
                members: super::members::first_members(3),
            },
            other => panic!("no command {other}"),
        }
    }

    /// A session by name, e.g. `me`, or by id, e.g. `#3`.
    fn session_at(&self, at: usize, machine: &Machine) -> SessionId {
        match self.at(at).strip_prefix('#') {
            Some(number) => SessionId(number.parse().unwrap()),
            None => match machine.session(&session_name(self.at(at))) {
                SessionStatus::Open(view) => view.id,
                status => panic!("{} is {status:?}", self.at(at)),
            },
        }
    }

    /// Expires the current generation, unless `generation` is given.
    fn expire(&self, machine: &Machine) -> Command {
        let session = self.session_at(1, machine);
        let current = machine.lease(session).map_or(0, |(_, generation)| generation);
        let generation = self.number("generation").unwrap_or(current);
        Command::ExpireSession { session, generation }
    }

    /// The answer to a query `show …`, one fact a line.
    pub(super) fn show(&self, machine: &Machine) -> Vec<String> {
        match self.at(1) {
            "lock" => render::lock(&machine.lock(&lock_name(self.at(2)), self.limit())),
            "locks" => {
                let filter = LockFilter {
                    prefix: self.value("prefix").unwrap_or("").to_owned(),
                    held: self.flag("held"),
                    waiting: self.flag("waiting"),
                    session: self.value("session").map(session_name),
                };
                let page = machine.locks(&filter, self.value("after"), self.limit(), |_| true);
                render::page(&page, render::lock)
            }
            "session" => render::status(&machine.session(&session_name(self.at(2)))),
            "sessions" => {
                let page = machine.sessions(self.value("after"), self.limit(), |_| true);
                render::page(&page, render::session)
            }
            "entry" => {
                let (lock, session) = (lock_name(self.at(2)), session_name(self.at(3)));
                render::entry_state(
                    machine.entry_state(&lock.into(), &session, &self.owner(), None).as_ref(),
                )
            }
            "fence" => vec![format!("{:?}", machine.fence(&lock_name(self.at(2))))],
            "node" | "stat" | "children" | "acl" | "page" | "subtree" | "ephemerals"
            | "descendants" => self.look(machine),
            "attached" => vec![format!("{:?}", machine.attached(self.session_at(2, machine)))],
            "sweepable" => {
                let (before, now) = (self.number("before").unwrap(), self.number("now").unwrap());
                vec![machine.anything_to_sweep(Stamp(before), Stamp(now)).to_string()]
            }
            "waits" => {
                let waits = machine.waits_after(Revision(self.number("after").unwrap_or(0)), 100);
                waits.iter().map(render::wait).collect()
            }
            "timers" => {
                let due = machine.timers_until(Stamp(u64::MAX), 100);
                due.iter().map(ToString::to_string).collect()
            }
            "leases" => machine.leases().map(|lease| render::lease(&lease)).collect(),
            "incarnation" => {
                let node = NodeId(self.at(2).parse().unwrap());
                vec![format!("{:?}", machine.incarnation(node))]
            }
            "latch" | "barrier" | "double" | "counter" | "arrivals" => {
                recipe::script_commands::show(self, machine)
            }
            "counts" => vec![format!("{:?}", machine.counts())],
            other => panic!("nothing to show: {other}"),
        }
    }

    /// The queries about the tree.
    fn look(&self, machine: &Machine) -> Vec<String> {
        let (shown, limit) = (self.identities(), self.limit());
        if self.at(1) == "ephemerals" {
            let own = machine
                .ephemerals(self.session_at(2, machine), self.value("prefix").unwrap_or("/"));
            return own.iter().map(ToString::to_string).collect();
        }
        let at = path(self.at(2));
        let found = match self.at(1) {
            "node" => machine.get(&at, &shown).map(|(stat, data)| vec![render::node(&stat, &data)]),
            "stat" => Ok(vec![machine.stat(&at).map_or("none".to_owned(), |s| render::stat(&s))]),
            "acl" => machine.acl(&at, &shown).map(|(acl, stat)| vec![render::acl(&acl, &stat)]),
            "children" => {
                machine.list(&at, &shown).map(|(_, n)| vec![format!("[{}]", n.join(" "))])
            }
            "page" => machine
                .children_page(&at, &shown, self.value("after"), limit)
                .map(|page| render::page(&page, render::view)),
            "subtree" => machine
                .subtree(&at, self.value("after").map(path).as_ref(), limit, &shown)
                .map(|page| render::page(&page, render::view)),
            _ => machine.descendants(&at, &shown).map(|below| vec![below.count().to_string()]),
        };
        found.unwrap_or_else(|rejection| vec![render::rejection(&rejection)])
    }

    fn limit(&self) -> usize {
        self.number("limit").unwrap_or(100)
    }
}

pub(super) fn lock_name(name: &str) -> LockName {
    LockName::new(name).unwrap()
}

pub(super) fn lock_set(names: &[&str]) -> LockSet {
    LockSet::new(names.iter().map(|name| lock_name(name)).collect()).unwrap()
}

pub(super) fn session_name(name: &str) -> SessionName {
    SessionName::new(name).unwrap()
}

/// One or more operations, without conditions.
pub(super) fn multi(caller: Caller, then: Vec<Op>) -> Command {
    Command::Multi(Multi { caller, then, ..Multi::default() })
}

/// A caller with a session only.
pub(super) fn of_session(session: &str) -> Caller {
    Caller { session: Some(session_name(session)), ..Caller::default() }
}

/// A session with the default options.
pub(super) fn open(name: &str) -> OpenSession {
    OpenSession::of(session_name(name))
}

/// A create without an access list and without parents.
pub(super) fn create(at: &str, kind: CreateKind, sequential: bool, data: Vec<u8>) -> Op {
    let (directory, name) = ZnodePath::for_create(at, sequential).unwrap();
    let data = data.into();
    Op::Create(Create { directory, name, data, kind, sequential, acl: None, parents: false })
}

fn identity(text: &str) -> Identity {
    let (scheme, id) = text.split_once(':').unwrap();
    Identity { scheme: scheme.to_owned(), id: id.to_owned() }
}

fn perms_of(letters: &str) -> Perms {
    let bit = |letter| 1 << "rwcda".find(letter).unwrap();
    Perms::from_bits(letters.chars().map(bit).sum()).unwrap()
}

/// A path; `/x*1000` is one long component.
pub(super) fn path(path: &str) -> ZnodePath {
    ZnodePath::new(stretched(path)).unwrap()
}

fn stretched(path: &str) -> String {
    match path.split_once('*') {
        Some((start, count)) => {
            let (directory, part) = start.split_at(start.len() - 1);
            format!("{directory}{}", part.repeat(count.parse().unwrap()))
        }
        None => path.to_owned(),
    }
}

/// The multi of a line, e.g. `multi session=me | if exists /a | create /b | else | set /a data=x`.
pub(super) fn multi_of(line: &str) -> Command {
    let mut multi = Multi::default();
    let mut otherwise = false;
    for shard in line.split(" | ") {
        let words = Words::of(shard);
        match words.at(0) {
            "multi" => multi.caller = words.caller(),
            "if" => multi.conditions.push(words.condition()),
            "else" => otherwise = true,
            other => {
                let op = words.op().unwrap_or_else(|| panic!("no operation {other}"));
                if otherwise { multi.otherwise.push(op) } else { multi.then.push(op) }
            }
        }
    }
    Command::Multi(multi)
}

/// Runs the line of a golden script.
pub(super) fn run_line(machine: &mut Machine, line: &str) -> Outcome {
    let commands = vec![Words::of(line).command(machine)];
    let outcome = machine.apply(Entry { stamped_at: Stamp(0), commands }).outcomes.remove(0);
    machine.check_invariants().unwrap();
    outcome
}
