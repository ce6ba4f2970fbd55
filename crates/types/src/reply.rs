//! Typed access to a [`Reply`]: each command has one reply variant.
//!
//! A method returns `None` for every other variant, which is always a bug in holdfast.

use crate::{
    Arrived, CounterView, EntryState, Grant, LatchView, LeaveBarrierReply, LockPolicy, MultiReply,
    NodeId, RecipeReply, Released, Reply, Revision, Seal, SessionId, SessionName,
    SessionOpenedReply, Tripped,
};

/// The reply to [`crate::Recipe::Arrive`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArriveReply {
    Tripped(Tripped),
    Arrived(Arrived),
}

impl Reply {
    /// The reply to a command, and the revision in which it was given first; `None` if that was this command.
    pub fn into_first(self) -> (Self, Option<Revision>) {
        if let Self::Repeated { revision, reply } = self {
            (*reply, Some(revision))
        } else {
            (self, None)
        }
    }
}

/// Defines methods that return the value of one variant.
macro_rules! variants {
    ($reply:ident: $($(#[$doc:meta])* $method:ident, $variant:pat => $value:expr, $type:ty;)*) => {
        impl $reply {$(
            $(#[$doc])*
            pub fn $method(self) -> Option<$type> {
                if let $variant = self { Some($value) } else { None }
            }
        )*}
    };
}

variants! { Reply:
    /// The reply to [`crate::Command::Acquire`].
    into_entry_state, Self::Acquired(state) => state, EntryState;
    into_released, Self::Released(released) => released, Released;
    /// The number of queue entries that a break removed.
    into_force_released, Self::ForceReleased { places } => places, u32;
    /// The number of holders that a release request names.
    into_release_requested, Self::ReleaseRequested { holders } => holders, u32;
    into_handed_over, Self::HandedOver(grant) => grant, Grant;
    into_policy, Self::PolicySet { policy } => policy, LockPolicy;
    /// The last session that was opened before the change.
    into_auth_changed, Self::AuthChanged { newest_session } => newest_session, SessionId;
    /// The id of an invited member.
    into_member_invited, Self::MemberInvited { node } => node, NodeId;
    into_membership_changed, Self::MembershipChanged => (), ();
    into_level_set, Self::LevelSet => (), ();
    into_session_claimed, Self::SessionClaimed => (), ();
    into_backup_recorded, Self::BackupRecorded => (), ();
    into_verification_started, Self::VerificationStarted => (), ();
    into_sealed, Self::Sealed(seal) => seal, Seal;
    into_unsealed, Self::Unsealed => (), ();
    into_session_opened, Self::SessionOpened(opened) => opened, SessionOpenedReply;
    into_session_attached, Self::SessionAttached { session, .. } => session, SessionName;
    into_session_ended, Self::SessionEnded => (), ();
    into_operation_recorded, Self::OperationRecorded => (), ();
    /// The number of sessions that the command closed.
    into_sessions_ended, Self::SessionsEnded { count } => count, u64;
    into_multi, Self::Multi(multi) => multi, MultiReply;
    into_recipe, Self::Recipe(reply) => reply, RecipeReply;
}

variants! { RecipeReply:
    /// Returns the latch, and whether the command created it.
    into_latch, Self::Latch { view, created } => (view, created), (LatchView, bool);
    /// Returns whether the recipe existed.
    into_deleted, Self::Deleted { existed } => existed, bool;
    into_leave_barrier, Self::LeftBarrier(left) => left, LeaveBarrierReply;
    /// The reply to [`crate::Recipe::CancelArrival`] if the caller passed before the cancel.
    into_tripped, Self::Tripped(passed) => passed, Tripped;
}

impl RecipeReply {
    /// Returns the remaining count, and whether the key was counted.
    pub fn into_counted(self) -> Option<(u32, bool)> {
        if let Self::Counted { left, counted } = self {
            Some((left, counted))
        } else if let Self::Promised { left } = self {
            Some((left, false))
        } else {
            None
        }
    }

    /// The counter after the change; the inner value is `None` if the change deleted it.
    pub fn into_counter(self) -> Option<Option<CounterView>> {
        if let Self::Counter(view) = self {
            Some(Some(view))
        } else {
            self.into_deleted().map(|_existed| None)
        }
    }

    pub fn into_arrive(self) -> Option<ArriveReply> {
        if let Self::Tripped(passed) = self {
            Some(ArriveReply::Tripped(passed))
        } else if let Self::Arrived(arrived) = self {
            Some(ArriveReply::Arrived(arrived))
        } else {
            None
        }
    }
}
