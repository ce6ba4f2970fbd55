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

    /// The reply to [`crate::Command::Acquire`].
    pub fn into_entry_state(self) -> Option<EntryState> {
        if let Self::Acquired(state) = self { Some(state) } else { None }
    }

    pub fn into_released(self) -> Option<Released> {
        if let Self::Released(released) = self { Some(released) } else { None }
    }

    /// The number of queue entries that a break removed.
    pub fn into_force_released(self) -> Option<u32> {
        if let Self::ForceReleased { places } = self { Some(places) } else { None }
    }

    /// The number of holders that a release request names.
    pub fn into_release_requested(self) -> Option<u32> {
        if let Self::ReleaseRequested { holders } = self { Some(holders) } else { None }
    }

    pub fn into_handed_over(self) -> Option<Grant> {
        if let Self::HandedOver(grant) = self { Some(grant) } else { None }
    }

    pub fn into_policy(self) -> Option<LockPolicy> {
        if let Self::PolicySet { policy } = self { Some(policy) } else { None }
    }

    /// The last session that was opened before the change.
    pub fn into_auth_changed(self) -> Option<SessionId> {
        if let Self::AuthChanged { newest_session } = self { Some(newest_session) } else { None }
    }

    /// The id of an invited member.
    pub fn into_member_invited(self) -> Option<NodeId> {
        if let Self::MemberInvited { node } = self { Some(node) } else { None }
    }

    pub fn into_membership_changed(self) -> Option<()> {
        matches!(self, Self::MembershipChanged).then_some(())
    }

    pub fn into_level_set(self) -> Option<()> {
        matches!(self, Self::LevelSet).then_some(())
    }

    pub fn into_session_claimed(self) -> Option<()> {
        matches!(self, Self::SessionClaimed).then_some(())
    }

    pub fn into_backup_recorded(self) -> Option<()> {
        matches!(self, Self::BackupRecorded).then_some(())
    }

    pub fn into_verification_started(self) -> Option<()> {
        matches!(self, Self::VerificationStarted).then_some(())
    }

    pub fn into_sealed(self) -> Option<Seal> {
        if let Self::Sealed(seal) = self { Some(seal) } else { None }
    }

    pub fn into_unsealed(self) -> Option<()> {
        matches!(self, Self::Unsealed).then_some(())
    }

    pub fn into_session_opened(self) -> Option<SessionOpenedReply> {
        if let Self::SessionOpened(opened) = self { Some(opened) } else { None }
    }

    pub fn into_session_attached(self) -> Option<SessionName> {
        if let Self::SessionAttached { session, .. } = self { Some(session) } else { None }
    }

    pub fn into_session_ended(self) -> Option<()> {
        matches!(self, Self::SessionEnded).then_some(())
    }

    pub fn into_operation_recorded(self) -> Option<()> {
        matches!(self, Self::OperationRecorded).then_some(())
    }

    /// The number of sessions that the command closed.
    pub fn into_sessions_ended(self) -> Option<u64> {
        if let Self::SessionsEnded { count } = self { Some(count) } else { None }
    }

    pub fn into_multi(self) -> Option<MultiReply> {
        if let Self::Multi(multi) = self { Some(multi) } else { None }
    }

    pub fn into_recipe(self) -> Option<RecipeReply> {
        if let Self::Recipe(reply) = self { Some(reply) } else { None }
    }
}

impl RecipeReply {
    /// Returns the latch, and whether the command created it.
    pub fn into_latch(self) -> Option<(LatchView, bool)> {
        if let Self::Latch { view, created } = self { Some((view, created)) } else { None }
    }

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

    /// Returns whether the recipe existed.
    pub fn into_deleted(self) -> Option<bool> {
        if let Self::Deleted { existed } = self { Some(existed) } else { None }
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

    pub fn into_leave_barrier(self) -> Option<LeaveBarrierReply> {
        if let Self::LeftBarrier(left) = self { Some(left) } else { None }
    }

    /// The reply to [`crate::Recipe::CancelArrival`] if the caller passed before the cancel.
    pub fn into_tripped(self) -> Option<Tripped> {
        if let Self::Tripped(passed) = self { Some(passed) } else { None }
    }
}
