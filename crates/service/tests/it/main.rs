//! The service of real nodes in one process, over real TCP and real disks.

mod leases;
mod lock;
mod nodes;
mod waiting;
