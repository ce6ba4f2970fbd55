//! The leases of sessions: the leader renews and expires them by its own clock, and applies what is due by time.

pub(crate) mod leader_timers;
pub(crate) mod lease;
pub(crate) mod renewal;
pub(crate) mod restart_time;
