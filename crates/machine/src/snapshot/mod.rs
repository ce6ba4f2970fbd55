//! Snapshots: dumps the machine as a sequence of bounded parts, and loads it. `docs/contributing/formats/snapshot.md` specifies
//! them.

mod dump;
pub(crate) mod load;
pub(crate) mod part;
