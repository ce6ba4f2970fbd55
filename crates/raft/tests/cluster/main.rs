//! Whole clusters in one process, over real TCP and real disks. Tests wait for conditions, never for a time.

mod disk;
mod fail_stop;
mod failover;
mod founding;
mod healthy;
mod lab;
mod restart;
mod runs;
