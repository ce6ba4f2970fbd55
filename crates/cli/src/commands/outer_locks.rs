//! The locks that the `holdfast run` commands around this process hold.
//!
//! `run` and `elect` pass them to their command in [`HELD`], with those of the commands around themselves. A lock command
//! re-enters only these locks, and only while the cluster lists the hold in the session. For every other lock it opens
//! a session of its own, so siblings exclude each other. Bound: the size of one environment variable.

use holdfast_api::{HoldBody, SessionBody, session_path};
use holdfast_client::{Call, Client, Error, Hold};
use holdfast_types::{FencingToken, LockName, Mode, SessionName, ShardRequest, Ticket};

use crate::output::write_stderr;

/// One line `LOCK TOKEN SESSION MODE TICKET` for each lock; the innermost command has the last lines.
pub(super) const HELD: &str = "HOLDFAST_HELD";
const SESSION: &str = "HOLDFAST_SESSION";
/// Separates the session of an outer command from the rest of the name of a nested session.
const NESTED: char = '~';

/// A lock that an outer `holdfast run` acquired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OuterLock {
    pub(super) lock: LockName,
    token: FencingToken,
    pub(super) session: SessionName,
    pub(super) mode: Mode,
    /// The queue entry of the hold; 0 if it is unknown. An upgrade replaces the token, but not the ticket.
    ticket: Ticket,
}

/// The locks of all outer commands. Empty for a session that the user selected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OuterLocks {
    locks: Vec<OuterLock>,
    /// The session of the innermost command.
    session: Option<SessionName>,
}

impl OuterLock {
    fn parse(line: &str) -> Option<Self> {
        let ticket_of = |(rest, last): (_, &str)| Some((rest, Ticket(last.parse().ok()?)));
        // The line of an earlier program has no ticket.
        let (line, ticket) = line.rsplit_once(' ').and_then(ticket_of).unwrap_or((line, Ticket(0)));
        let mut words = line.rsplitn(4, ' ');
        let (mode, session) = (words.next()?, words.next()?);
        let (token, lock) = (words.next()?, words.next()?);
        Some(Self {
            lock: LockName::new(lock).ok()?,
            token: FencingToken(token.parse().ok()?),
            session: SessionName::new(session).ok()?,
            mode: Mode::ALL.into_iter().find(|known| known.as_str() == mode)?,
            ticket,
        })
    }

    fn has_ticket(&self, ticket: Ticket) -> bool {
        self.ticket == ticket && ticket != Ticket(0)
    }

    fn is_same_hold(&self, other: &Self) -> bool {
        (&self.lock, &self.session) == (&other.lock, &other.session)
            && (self.has_ticket(other.ticket) || self.token == other.token)
    }

    /// Returns `false` if the session is over, or no longer has this hold of the lock.
    async fn is_held(&self, client: &Client) -> Result<bool, Error> {
        let body: SessionBody = match client.call(&Call::get(session_path(&self.session))).await {
            Ok(body) => body,
            Err(Error::Lost(_)) => return Ok(false),
            // The subject may acquire the lock, but not read the session.
            Err(Error::Rejected(_)) => return Ok(true),
            Err(error) => return Err(error),
        };
        let is_same = |hold: &HoldBody| {
            hold.lock == self.lock && (self.has_ticket(hold.ticket) || hold.token == self.token)
        };
        Ok(body.holds.iter().any(is_same))
    }

    fn report_end(&self) {
        let Self { lock, token, session, .. } = self;
        write_stderr(&format!(
            "holdfast: {session} no longer holds {lock} with token {token}, so the outer holdfast run is over: \
             HOLDFAST_SESSION is ignored"
        ));
    }
}

impl OuterLocks {
    /// Reads the environment of this process.
    pub(super) fn inherited() -> Self {
        Self::read(|name| std::env::var(name).ok())
    }

    /// `HOLDFAST_SESSION` selects the session of the user, unless it is the session of an outer command.
    fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let session = variable(SESSION).and_then(|session| SessionName::new(session).ok());
        let lines = variable(HELD).or_else(|| innermost(&variable)).unwrap_or_default();
        let locks: Vec<OuterLock> = lines.lines().filter_map(OuterLock::parse).collect();
        let is_outer = |session: &SessionName| locks.iter().any(|outer| outer.session == *session);
        match session.filter(is_outer) {
            Some(session) => Self { locks, session: Some(session) },
            None => Self::default(),
        }
    }

    /// Whether no outer command opened the session of this process.
    pub(super) fn is_empty(&self) -> bool {
        self.locks.is_empty()
    }

    /// Whether the innermost outer command has this session.
    pub(super) fn is_innermost(&self, session: &SessionName) -> bool {
        self.session.as_ref() == Some(session)
    }

    /// The prefix of the name of a session that works for the innermost outer command: the cluster counts its waits as
    /// waits of that command when it looks for deadlocks. `None` if the name would be too long.
    pub(super) fn nested_prefix(&self, own: &str) -> Option<String> {
        /// A hyphen and 16 hexadecimal digits.
        const SUFFIX: usize = 17;
        /// The cluster adds the subject.
        const MAX_LEN: usize = SessionName::MAX_LEN / 2;
        let prefix = format!("{}{NESTED}{own}", self.session.as_ref()?);
        (prefix.len() + SUFFIX <= MAX_LEN).then_some(prefix)
    }

    /// Returns the hold of `lock`, or of a shard of it that the caller would accept. The innermost hold comes first. If
    /// several commands have that hold, its mode is the strongest of theirs.
    pub(super) fn find(&self, lock: &LockName, sharded: bool) -> Option<&OuterLock> {
        let is_shard = |held: &LockName| sharded && ShardRequest::shard_index(lock, held).is_some();
        let is_wanted = |outer: &&OuterLock| outer.lock == *lock || is_shard(&outer.lock);
        let innermost = self.locks.iter().rev().find(is_wanted)?;
        let same_hold = self.locks.iter().rev().filter(|outer| outer.is_same_hold(innermost));
        same_hold.reduce(
            |found, outer| {
                if outer.mode.is_stronger_than(found.mode) { outer } else { found }
            },
        )
    }

    /// As [`find`](Self::find), for a hold that the cluster still lists. Prints a line if it does not.
    pub(super) async fn find_held(
        &self,
        client: &Client,
        lock: &LockName,
        sharded: bool,
    ) -> Result<Option<&OuterLock>, Error> {
        let Some(outer) = self.find(lock, sharded) else { return Ok(None) };
        let is_held = outer.is_held(client).await?;
        if !is_held {
            outer.report_end();
        }
        Ok(Some(outer).filter(|_| is_held))
    }

    /// Prints a line if the innermost outer command is over. A failed read is no error: nothing depends on it.
    pub(super) async fn report_if_over(&self, client: &Client) {
        if let Some(innermost) = self.locks.last()
            && matches!(innermost.is_held(client).await, Ok(false))
        {
            innermost.report_end();
        }
    }

    /// Returns the session for a barrier or a group. `None` if it is the session of an outer command that is over; then
    /// this prints a line.
    pub(super) async fn live_session(
        client: &Client,
        session: SessionName,
    ) -> Result<Option<SessionName>, Error> {
        let outer = Self::inherited();
        let mut last = None;
        for outer_lock in outer.locks.iter().filter(|outer| outer.session == session) {
            if outer_lock.is_held(client).await? {
                return Ok(Some(session));
            }
            last = Some(outer_lock);
        }
        last.inspect(|outer_lock| outer_lock.report_end());
        Ok(Some(session).filter(|_| last.is_none()))
    }

    /// The value of [`HELD`] for a command that runs under `holds`.
    pub(super) fn with<'h>(&self, holds: impl Iterator<Item = &'h Hold>) -> String {
        let line = |lock: &LockName, token, session, mode: Mode, ticket| {
            format!("{lock} {token} {session} {} {ticket}", mode.as_str())
        };
        let outer = self
            .locks
            .iter()
            .map(|outer| line(&outer.lock, outer.token, &outer.session, outer.mode, outer.ticket));
        let mut lines: Vec<String> = outer.collect();
        for hold in holds {
            let grant = hold.grant();
            let line = line(hold.lock(), hold.token(), hold.session(), grant.mode, grant.ticket);
            lines.retain(|other| *other != line);
            lines.push(line);
        }
        lines.join("\n")
    }
}

/// The lines of the innermost command alone, for a process that did not get [`HELD`]. The mode is the usual one.
fn innermost(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let session = variable(SESSION)?;
    let one = || Some(format!("{} {}", variable("HOLDFAST_LOCK")?, variable("HOLDFAST_TOKEN")?));
    let tokens = variable("HOLDFAST_TOKENS").or_else(one)?;
    let lines: Vec<String> =
        tokens.lines().map(|line| format!("{line} {session} exclusive 0\n")).collect();
    Some(lines.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> OuterLocks {
        let value = |name: &str| variables.iter().find(|(other, _)| *other == name);
        OuterLocks::read(|name| value(name).map(|(_, value)| (*value).to_owned()))
    }

    fn lock(name: &str) -> LockName {
        LockName::new(name).unwrap()
    }

    #[test]
    fn the_locks_of_all_outer_commands_are_read_and_the_innermost_comes_first() {
        let held = "a b 7 s1 shared 1\nstock/2 8 s2 exclusive 2\na b 9 s3 upgradable 3";
        let outer = read(&[(SESSION, "s3"), (HELD, held)]);
        let session = |name: &str, sharded| {
            outer.find(&lock(name), sharded).map(|outer| outer.session.to_string())
        };
        assert_eq!(session("a b", false).as_deref(), Some("s3"));
        assert_eq!(session("stock", true).as_deref(), Some("s2"));
        assert_eq!(session("stock/2", false).as_deref(), Some("s2"));
        assert_eq!([session("stock", false), session("b", false)], [None, None]);
        assert_eq!(outer.with(std::iter::empty()), held);
        assert_eq!(outer.nested_prefix("7").as_deref(), Some("s3~7"));
        assert_eq!(outer.nested_prefix(&"7".repeat(120)), None);
    }

    #[test]
    fn a_hold_of_several_commands_has_the_strongest_of_their_modes() {
        let mode = |held: &str| {
            let outer = read(&[(SESSION, "s1"), (HELD, held)]);
            outer.find(&lock("a"), false).map(|outer| (outer.mode, outer.session.to_string()))
        };
        let of = |mode, session: &str| Some((mode, session.to_owned()));
        assert_eq!(mode("a 7 s1 exclusive 1\na 7 s1 shared 1"), of(Mode::Exclusive, "s1"));
        // An upgrade of the hold replaces its token.
        assert_eq!(
            mode("a 7 s1 upgradable 1\na 8 s1 shared 1\nb 9 s1 exclusive 2"),
            of(Mode::Upgradable, "s1")
        );
        // The outer command may be over: its mode is not the mode of another hold.
        assert_eq!(mode("a 7 s1 exclusive 1\na 9 s2 shared 2"), of(Mode::Shared, "s2"));
    }

    #[test]
    fn a_line_without_a_ticket_is_read() {
        let of = |held| read(&[(SESSION, "s"), (HELD, held)]);
        assert_eq!(of("a b 7 s shared"), of("a b 7 s shared 0"));
        let outer = of("a 7 s shared\na 8 s shared 0");
        assert!(!outer.locks[0].is_same_hold(&outer.locks[1]));
        assert!(outer.locks[0].is_same_hold(&outer.locks[0]));
    }

    #[test]
    fn the_variables_of_the_innermost_command_are_enough() {
        let one = [(SESSION, "s"), ("HOLDFAST_LOCK", "a"), ("HOLDFAST_TOKEN", "7")];
        assert_eq!(read(&one), read(&[(SESSION, "s"), (HELD, "a 7 s exclusive 0")]));
        let many = [(SESSION, "s"), ("HOLDFAST_TOKENS", "a 7\nb 8")];
        assert_eq!(
            read(&many),
            read(&[(SESSION, "s"), (HELD, "a 7 s exclusive 0\nb 8 s exclusive 0")])
        );
    }

    #[test]
    fn a_session_that_the_user_selects_is_not_the_session_of_an_outer_command() {
        for variables in [
            &[(SESSION, "mine")][..],
            &[(SESSION, "mine"), (HELD, "a 7 s shared 1")],
            &[(HELD, "a 7 s shared 1")],
            &[("HOLDFAST_LOCK", "a"), ("HOLDFAST_TOKEN", "7")],
            &[(SESSION, "s"), (HELD, "a s shared 1")],
        ] {
            assert!(read(variables).is_empty(), "{variables:?}");
        }
    }
}
