//! The nouns of holdfast: ids, names, commands, entries, outcomes, events and views.
//!
//! Owns what the words of the glossary mean as types, with their bounds checked at construction, so that
//! everything behind the front door can trust them. Refuses to know bytes, sockets, clocks or disks: there is
//! no I/O here and no behaviour beyond validation.
//!
//! Every type that reaches the log or the wire between nodes derives `Serialize`/`Deserialize`; enums that do so
//! are append-only (their order is part of the format, see `docs/formats/`).

mod acl;
mod bundle;
mod command;
mod custody;
mod data;
mod event;
mod ids;
mod limits;
mod multi;
mod name;
mod outcome;
mod path;
mod policy;
mod recipe;
mod reply;
#[cfg(feature = "schema")]
mod schema;
mod segments;
mod stat;
mod time;
mod view;

pub use acl::{AclEntry, Identity, Perms};
pub use bundle::{AcquireAll, ReleaseAll, StandingAll};
pub use command::{
    Acquire, Cancel, Command, Entry, OpenSession, Release, ReleaseTarget, queue_fields,
};
pub use custody::{AskRelease, Break, Broken, HandOver, ReleaseRequest};
pub use data::Data;
pub use event::{Applied, Event, LossCause, SessionEnd};
pub use ids::{Attempt, FencingToken, Incarnation, NodeId, Password, Revision, SessionId, Ticket};
pub use limits::Limits;
pub use multi::{Caller, Condition, Create, CreateKind, Multi, Op};
pub use name::{Labels, LockName, NameError, Owner, Reason, RecipeName, RequestId, SessionName};
pub use outcome::{
    Blocked, Bound, Grant, OpReply, OutOfBounds, Outcome, Queued, Rejection, Released, Reply,
};
pub use path::ZnodePath;
pub use policy::{Closed, ClosedBy, Mode, Policy, PolicyChange, QueueOrder};
pub use recipe::{
    Arrive, Arrived, Breach, BreachCause, Count, CountChange, CounterView, Depart, Gate, GateView,
    GiveUp, LatchView, Passed, Recipe, RecipeEvent, RecipeRejection, RecipeReply,
};
pub use reply::{
    AcquireAllReply, AcquireReply, ArriveReply, DepartReply, MultiReply, SessionOpenedReply,
};
pub use segments::{SegmentChoice, SegmentView, Segments};
pub use stat::{CONTAINER_OWNER, Stat, TTL_OWNER};
pub use time::{Stamp, Ttl, TtlError, micros, millis};
pub use view::{
    FenceView, HolderNote, HolderView, LockView, NodeView, Page, SessionStatus, SessionView,
    Standing, WaiterView,
};
