//! One client for each lock in its usual form; an adapter does not improve the lock.

pub mod etcd;
pub mod holdfast;
pub mod no_lock;
pub mod redis;
pub mod sql;
pub mod zookeeper;
