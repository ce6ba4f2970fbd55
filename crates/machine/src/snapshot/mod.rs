//! Snapshots: the machine as a sequence of bounded parts, and back. `docs/formats/snapshot.md` describes them.

mod dump;
pub(crate) mod load;
pub(crate) mod part;
