//! One client for each lock, as the field uses it: an adapter is not better than the lock it stands for.

pub mod etcd;
pub mod holdfast;
pub mod no_lock;
pub mod redis;
pub mod sql;
pub mod zookeeper;
