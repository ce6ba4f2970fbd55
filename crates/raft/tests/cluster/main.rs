//! Whole clusters in one process, over real TCP and real disks. Tests wait for conditions, never for a fixed time.

mod bootstrap;
mod change_steps;
mod disk;
mod fail_stop;
mod failover;
mod fast_election;
mod healthy;
mod lab;
mod membership;
mod replacement;
mod restart;
mod restore;
mod runs;
