//! Formats outcomes, events and views as lines of a golden script.

use holdfast_types::{
    EntryState, LockEvent, LockRejection, MultiReply, SessionEvent, SessionOpenedReply, TreeEvent,
    TreeRejection,
};
use std::fmt::Write as _;

use holdfast_types::*;

pub(super) fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Ok(reply) => self::reply(reply),
        Err(rejection) => format!("REJECTED {}", self::rejection(rejection)),
    }
}

fn reply(reply: &Reply) -> String {
    match reply {
        Reply::Acquired(EntryState::Holding(grants)) => {
            let grants: Vec<String> = grants.iter().map(grant).collect();
            format!("granted {}", grants.join(" | "))
        }
        Reply::Acquired(EntryState::Waiting(positions)) => match positions.as_slice() {
            [only] => format!("queued {}", queued(only)),
            multi_lock => {
                let line = |one: &Queued| format!("{} {}", one.lock, queued(one));
                let lines: Vec<String> = multi_lock.iter().map(line).collect();
                format!("queued {}", lines.join(" | "))
            }
        },
        Reply::Released(Released { hold_count, changed }) => {
            let what = if *changed { "released" } else { "nothing to release" };
            format!("{what} hold_count={hold_count}")
        }
        Reply::SessionOpened(SessionOpenedReply { id, ttl, created }) => {
            format!("session #{id} ttl={} created={created}", ttl.as_millis())
        }
        Reply::SessionRenewed { id, ttl } => {
            format!("session #{id} renewed ttl={}", ttl.as_millis())
        }
        Reply::SessionAttached { session, ttl } => {
            format!("attached {session} ttl={}", ttl.as_millis())
        }
        Reply::Multi(MultiReply { succeeded, results }) => {
            let replies: Vec<String> = results.iter().map(op_reply).collect();
            let otherwise = if *succeeded { "" } else { "otherwise " };
            let nothing = if results.is_empty() { "nothing" } else { "" };
            format!("{otherwise}{nothing}{}", replies.join(" | "))
        }
        Reply::Recipe(reply) => super::recipe::script_commands::reply(reply),
        Reply::SessionsEnded { count } => format!("ended {count} sessions"),
        Reply::Swept { count } => format!("swept {count}"),
        Reply::ForceReleased { places } => format!("broken {places}"),
        Reply::ReleaseRequested { holders } => format!("requested {holders}"),
        Reply::HandedOver(grant) => format!("handed over {}", self::grant(grant)),
        Reply::TimersRun { ended } => format!("done, {ended} ended"),
        Reply::PolicySet { policy } => format!("policy{}", self::policy(policy)),
        Reply::Repeated { revision, reply } => {
            format!("again r{revision}: {}", self::reply(reply))
        }
        Reply::Cancelled
        | Reply::SessionEnded
        | Reply::LimitsSet
        | Reply::NodeRegistered
        | Reply::Bootstrapped
        | Reply::AuthChanged { .. }
        | Reply::MemberInvited { .. }
        | Reply::MembershipChanged
        | Reply::LevelSet
        | Reply::SessionClaimed
        | Reply::BackupRecorded
        | Reply::OperationRecorded
        | Reply::Sealed(_)
        | Reply::Unsealed
        | Reply::ClocksRecorded
        | Reply::LeasesRecorded
        | Reply::VerificationStarted => format!("{reply:?}"),
    }
}

fn op_reply(reply: &OpReply) -> String {
    match reply {
        OpReply::Created { path, stat } => format!("created {} {}", short(path), self::stat(stat)),
        OpReply::Deleted { count } => format!("deleted {count}"),
        OpReply::DataSet { stat } => format!("set {}", self::stat(stat)),
        OpReply::AclSet { stat } => format!("acl set {}", self::stat(stat)),
        OpReply::Checked => "checked".to_owned(),
    }
}

/// A path, shortened in the middle beyond 100 bytes.
fn short(path: &ZnodePath) -> String {
    let path = path.as_str();
    match path.len() {
        0..=100 => path.to_owned(),
        len => format!("{}...{} ({len} bytes)", &path[..8], &path[len - 12..]),
    }
}

pub(super) fn rejection(rejection: &Rejection) -> String {
    match rejection {
        Rejection::Lock(LockRejection::Busy { holder, waiters }) => {
            format!("LockBusy {} waiters={waiters}", self::holder(holder))
        }
        Rejection::Lock(LockRejection::NotHolder { holder }) => {
            format!("NotHolder {}", self::holder(holder))
        }
        Rejection::Lock(LockRejection::InCooldown { cooldown, waiters }) => {
            format!("InCooldown{} waiters={waiters}", self::cooldown(Some(cooldown)))
        }
        Rejection::Tree(TreeRejection::OfOperation { at, why }) => {
            format!("at {at}: {}", self::rejection(why))
        }
        Rejection::Tree(TreeRejection::NotAllowed { path, needed }) => {
            format!("NotAllowed {path} needs {needed}")
        }
        Rejection::Recipe(rejection) => super::recipe::script_commands::rejection(rejection),
        other => format!("{other:?}"),
    }
}

fn grant(grant: &Grant) -> String {
    format!(
        "{} to {}/{} token={} ticket={} hold_count={} waiters={} ttl={} at={} in=r{}{}{}{}{}",
        grant.lock,
        grant.session,
        grant.owner,
        grant.token,
        grant.ticket,
        grant.hold_count,
        grant.waiters,
        grant.ttl.as_millis(),
        grant.granted_at.0,
        grant.granted_in,
        if grant.renewed { " renewed" } else { "" },
        held(grant.mode, grant.permits, &grant.slots, grant.ends_at),
        if grant.floor < grant.token { format!(" floor={}", grant.floor) } else { String::new() },
        value(grant.value.as_ref()),
    )
}

fn queued(queued: &Queued) -> String {
    format!(
        "ticket={} asked={} ahead={} session=#{} ttl={}{}{} behind {}",
        queued.ticket,
        queued.requested_in,
        queued.ahead,
        queued.session,
        queued.ttl.as_millis(),
        held(queued.mode, 1, &[], None),
        cooldown(queued.cooldown.as_ref()),
        queued.holder.as_deref().map_or("none".to_owned(), holder),
    )
}

/// The options of a hold that differ from the defaults.
fn held(mode: Mode, permits: u32, slots: &[u32], ends_at: Option<Stamp>) -> String {
    let mut text = String::new();
    if mode != Mode::Exclusive {
        write!(text, " {}", mode.as_str()).unwrap();
    }
    if permits != 1 {
        write!(text, " permits={permits}").unwrap();
    }
    if !slots.is_empty() {
        write!(text, " slots={slots:?}").unwrap();
    }
    if let Some(end) = ends_at {
        write!(text, " until={}", end.0).unwrap();
    }
    text
}

fn value(value: Option<&Data>) -> String {
    value.map_or(String::new(), |value| format!(" value={:?}", String::from_utf8_lossy(value)))
}

fn cooldown(cooldown: Option<&Cooldown>) -> String {
    cooldown.map_or(String::new(), |cooldown| {
        format!(" cooldown until {} {:?}", cooldown.until.0, cooldown.cause)
    })
}

/// The parts of a policy that differ from the defaults.
fn policy(policy: &LockPolicy) -> String {
    let LockPolicy { limit, order, ageing_ms, lock_delay_ms, cooldown_ms, .. } = *policy;
    let mut text = String::new();
    if let Some(limit) = limit {
        write!(text, " limit={limit}").unwrap();
    }
    if order != QueueOrder::Fifo {
        write!(text, " {}", order.as_str()).unwrap();
    }
    for (name, ms, plain) in [
        ("ageing", ageing_ms, LockPolicy::DEFAULT.ageing_ms),
        ("lock_delay", lock_delay_ms, 0),
        ("cooldown", cooldown_ms, 0),
        ("wait_alarm", policy.wait_alarm_ms, 0),
        ("hold_alarm", policy.hold_alarm_ms, 0),
    ] {
        if ms != plain {
            write!(text, " {name}={ms}").unwrap();
        }
    }
    if !policy.detect_deadlocks {
        text.push_str(" deadlocks=false");
    }
    if let Some(count) = policy.shards {
        write!(text, " shards={count}").unwrap();
    }
    text
}

fn request(request: &ReleaseRequest) -> String {
    let ReleaseRequest { reason, requested_at, deadline, revoke } = request;
    format!(
        " at {} by {}{}{}",
        requested_at.0,
        deadline.0,
        if *revoke { " revoke" } else { "" },
        reason.as_ref().map_or(String::new(), |reason| format!(" {reason:?}")),
    )
}

fn multi_lock(names: &[LockName]) -> String {
    if names.is_empty() { String::new() } else { format!(" multi-lock {names:?}") }
}

/// The notes of a holder, one line each.
fn note(note: &HolderDetails) -> String {
    let pending = note.release_request.as_ref();
    let pending =
        pending.map_or(String::new(), |pending| format!(" release requested{}", request(pending)));
    format!("  token={}{pending}{}", note.token, multi_lock(&note.multi_lock))
}

fn holder(holder: &HolderView) -> String {
    format!(
        "{}/{} token={} since={} hold_count={}{}{}{}{}",
        holder.session,
        holder.owner,
        holder.token,
        holder.granted_at.0,
        holder.hold_count,
        labels(&holder.labels),
        held(holder.mode, holder.permits, &holder.slots, holder.ends_at),
        if holder.upgrading { " upgrading" } else { "" },
        value(holder.value.as_ref()),
    )
}

fn labels(labels: &Labels) -> String {
    labels.iter().fold(String::new(), |text, (key, value)| format!("{text} {key}:{value}"))
}

pub(super) fn stat(stat: &Stat) -> String {
    format!(
        "c=r{} m=r{} p=r{} ctime={} mtime={} version={} cversion={} owner={} bytes={} children={}{}",
        stat.czxid,
        stat.mzxid,
        stat.pzxid,
        stat.ctime.0,
        stat.mtime.0,
        stat.version,
        stat.cversion,
        match stat.ephemeral_owner {
            0 => "-".to_owned(),
            CONTAINER_OWNER => "container".to_owned(),
            owner if owner < 0 => format!("ttl:{}", owner - TTL_OWNER),
            owner => format!("#{owner}"),
        },
        stat.data_length,
        stat.num_children,
        match stat.aversion {
            0 => String::new(),
            aversion => format!(" aversion={aversion}"),
        },
    )
}

pub(super) fn event(event: &Event) -> String {
    match event {
        Event::Lock(LockEvent::Granted(grant)) => format!("granted {}", self::grant(grant)),
        Event::Lock(LockEvent::HoldEnded { lock, session, owner, ticket, cause, .. }) => {
            format!("{session}/{owner} lost {lock} ticket={ticket} {cause:?}")
        }
        Event::Lock(LockEvent::WaitEnded { lock, session, owner, ticket, cause }) => {
            format!("{session}/{owner} left {lock} ticket={ticket} {cause:?}")
        }
        Event::Session(SessionEvent::LeaseStarted { id, ttl, generation }) => {
            format!("session #{id} touched ttl={} generation={generation}", ttl.as_millis())
        }
        Event::Session(SessionEvent::Ended { id, session, end }) => {
            format!("session #{id} {session} {end:?}")
        }
        Event::Tree(TreeEvent::Created { path }) => format!("node {} created", short(path)),
        Event::Tree(TreeEvent::Deleted { path, .. }) => format!("node {path} deleted"),
        Event::Tree(TreeEvent::DataChanged { path }) => format!("node {path} changed"),
        Event::AuthChanged => "authorization changed".to_owned(),
        Event::VerifyState => "every node computes the digest of its state".to_owned(),
        Event::SealChanged => "the seal changed".to_owned(),
        Event::Audited { number, .. } => format!("audit record {number}"),
        Event::LevelChanged { level } => format!("the feature level is {level}"),
        Event::MemberChanged { node } => format!("member {node} changed"),
        Event::Session(SessionEvent::Attached { id }) => format!("session #{id} attached"),
        Event::Recipe(event) => super::recipe::script_commands::event(event),
        Event::Lock(LockEvent::ModeChanged(grant)) => format!("converted {}", self::grant(grant)),
        Event::Lock(LockEvent::ValueChanged(grant)) => {
            format!("value changed {}", self::grant(grant))
        }
        Event::Lock(LockEvent::PolicyChanged { lock, policy }) => {
            format!("policy of {lock}{}", self::policy(policy))
        }
        Event::Lock(LockEvent::CooldownStarted { lock, cooldown }) => {
            format!("{lock}{}", self::cooldown(Some(cooldown)))
        }
        Event::Lock(LockEvent::BrokenByOperator {
            lock,
            session,
            owner,
            ticket,
            token,
            reason,
        }) => {
            let held = token.map_or("waiting".to_owned(), |token| format!("token={token}"));
            format!("{session}/{owner} broken at {lock} ticket={ticket} {held} {reason:?}")
        }
        Event::Lock(LockEvent::ReleaseRequested {
            lock, session, owner, token, request, ..
        }) => {
            format!(
                "{session}/{owner} token={token} release of {lock} requested{}",
                self::request(request)
            )
        }
        Event::Lock(LockEvent::CooldownEnded { lock }) => format!("{lock} cooldown ended"),
        Event::Tree(TreeEvent::SoftQuotaExceeded { path }) => {
            format!("the soft quota of {path} is exceeded")
        }
    }
}

pub(super) fn lock(view: &LockView) -> Vec<String> {
    let holder = view.holder().map_or("free".to_owned(), holder);
    let last = view.last_token.map_or("-".to_owned(), |token| token.to_string());
    let rules = format!("{}{}", policy(&view.policy), cooldown(view.cooldown.as_ref()));
    let mut lines = vec![format!(
        "{}: {holder}, {} wait, last token {last}{rules}",
        view.lock, view.waiters_total
    )];
    lines.extend(view.holders.iter().skip(1).map(|other| format!("  and {}", self::holder(other))));
    lines.extend(view.notes.iter().map(note));
    lines.extend(view.shards.iter().zip(0..).map(|(shard, index): (_, u32)| {
        let ShardView { holder, holders, waiters } = shard;
        let first =
            holder.as_ref().map_or(String::new(), |(who, token)| format!(" {who} token={token}"));
        format!("  shard {index}: {holders} hold{first}, {waiters} wait")
    }));
    lines.extend(view.waiters.iter().map(|waiter| {
        let WaiterView { session, owner, ticket, since, labels, .. } = waiter;
        let priority = if waiter.priority == 0 {
            String::new()
        } else {
            format!(" priority={}", waiter.priority)
        };
        format!(
            "  {session}/{owner} ticket={ticket} since={}{}{}{priority}{}{}",
            since.0,
            self::labels(labels),
            held(waiter.mode, waiter.permits, &[], None),
            value(waiter.value.as_ref()),
            multi_lock(&waiter.multi_lock),
        )
    }));
    lines
}

pub(super) fn session(view: &SessionView) -> Vec<String> {
    let holds = view.holds.iter().map(|hold| format!(" {}={}", hold.lock, hold.token));
    let waits = view.waits.iter().map(|lock| format!(" {lock}"));
    vec![format!(
        "{} #{} ttl={} generation={} since={}{}{} holds:{} waits:{}",
        view.session,
        view.id,
        view.ttl.as_millis(),
        view.generation,
        view.opened_at.0,
        if view.anonymous { " anonymous" } else { "" },
        labels(&view.labels),
        holds.collect::<String>(),
        waits.collect::<String>(),
    )]
}

pub(super) fn status(status: &SessionStatus) -> Vec<String> {
    match status {
        SessionStatus::Open(view) => session(view),
        other => vec![format!("{other:?}")],
    }
}

pub(super) fn entry_state(state: Option<&EntryState>) -> Vec<String> {
    vec![match state {
        Some(EntryState::Holding(grants)) => format!("holding {}", grant(&grants[0])),
        Some(EntryState::Waiting(queued)) => format!("waiting {}", self::queued(&queued[0])),
        None => "none".to_owned(),
    }]
}

pub(super) fn node(stat: &Stat, data: &Data) -> String {
    if data.is_null() {
        return format!("{} data=null", self::stat(stat));
    }
    format!("{} data={:?}", self::stat(stat), String::from_utf8_lossy(data))
}

pub(super) fn view(view: &NodeView) -> Vec<String> {
    vec![format!("{} {}", view.path, stat(&view.stat))]
}

pub(super) fn acl(acl: &[AclEntry], stat: &Stat) -> String {
    let entry =
        |entry: &AclEntry| format!("{}:{}:{} ", entry.who.scheme, entry.who.id, entry.perms);
    let entries: String = acl.iter().map(entry).collect();
    format!("{entries}aversion={}", stat.aversion)
}

pub(super) fn page<T>(page: &Page<T>, item: impl Fn(&T) -> Vec<String>) -> Vec<String> {
    let mut lines: Vec<String> = page.items.iter().flat_map(item).collect();
    lines.push(format!("next: {}", page.next.as_deref().unwrap_or("-")));
    lines
}

pub(super) fn wait(wait: &crate::Wait) -> String {
    let Cancel { lock, session, owner, ticket, requested_in } = &wait.cancel;
    format!(
        "{lock} {session}/{owner} ticket={ticket} asked={requested_in} wait_ms={}",
        wait.wait_ms
    )
}

pub(super) fn lease(lease: &crate::LeaseTerms) -> String {
    let crate::LeaseTerms { session, ttl, generation, longest_ttl } = lease;
    let (ttl, longest_ttl) = (ttl.as_millis(), longest_ttl.as_millis());
    format!("#{session} ttl={ttl} generation={generation} longest_ttl={longest_ttl}")
}
