//! Bugs that can be planted on purpose, to prove that the checks find them.
//!
//! Owns their names. Only tests can plant one: everywhere else the question is the constant `false`.

use crate::Machine;

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plant {
    /// A grant does not count: its token was minted before.
    TokenRepeats,
    /// The next in line is not granted.
    GrantSkipped,
    /// The last in line is granted first.
    LastFirst,
    /// A free lock is not looked at: a second holder comes beside the first.
    TwoHolders,
    /// The end of a session leaves its plain ephemerals behind.
    EphemeralsStay,
    /// An expiry does not look at the generation.
    ExpiryBlind,
    /// A retry is not recognised.
    MemoBlind,
    /// An entry that is counted is refused room as if it were new.
    EntryTwice,
    /// A renewal mints a token.
    RenewalMints,
    /// A copy of an attempt that is over takes a place.
    AttemptBlind,
    /// A release does not look at the token that it names.
    ReleaseBlind,
    /// A close does not look at the incarnation that it names.
    CloseBlind,
    /// A cancel does not see that the owner asked again.
    CancelBlind,
    /// A sequence number is given again after its node went.
    SequenceReused,
    /// A connection that was superseded is still listened to.
    MovedBlind,
    /// A refused multi leaves what its first operations did.
    HalfDone,
    /// Inside a multi nobody asks whether the caller may.
    AclBlind,
    /// A node with a time-to-live is swept although it has children.
    TtlBlind,
    /// A hard quota lets one too many through.
    QuotaOffByOne,
    /// A directory of locks forgets how far the counters in it came.
    FloorLost,
    /// The conditions of a multi are not looked at.
    ConditionBlind,
    /// Clients may store any number of bytes.
    BytesUnbounded,
    /// A session may have any number of ephemerals.
    EphemeralsUnbounded,
    /// A latch counts a key that was counted.
    KeyTwice,
    /// A session ends, and what it promised is not counted.
    PromiseBroken,
    /// A barrier opens for one too few.
    OpensEarly,
    /// A retried arrival is another arrival.
    ArrivesTwice,
    /// A member of a barrier goes, and the others still count on it.
    BreachSilent,
    /// An arrival is not asked how many are to pass.
    PartiesBlind,
    /// A wait is given up although the member has asked again.
    GiveUpBlind,
    /// Whoever is inside a double barrier never leaves.
    InsideForEver,
    /// A counter wraps.
    CounterWraps,
    /// A lock given back early is not kept closed for its minimal hold.
    MinHoldBlind,
    /// An unclean loss does not close the lock.
    DelayBlind,
    /// A grant does not close the lock for its cooldown.
    CooldownBlind,
    /// A holder is made exclusive beside others.
    UpgradeEarly,
    /// A holder that is made exclusive keeps its token.
    UpgradeKeepsToken,
    /// A holder that becomes weaker lets nobody in.
    DowngradeDeaf,
    /// Permits are taken of a lock that has none.
    PermitsBlind,
    /// The limit of a semaphore lets one permit too many through.
    LimitOffByOne,
    /// A slot is given to two holders.
    SlotTwice,
    /// Whoever is urgent overtakes clients of the tree.
    FixedBlind,
    /// Priority counts for nothing.
    PriorityBlind,
    /// A hold that lasted too long goes on.
    MaxHoldBlind,
    /// Who loses a lock need not take note of it for the lock to open.
    NoteBlind,
    /// What an operator breaks does not close the lock.
    BrokenBlind,
    /// A hold that was asked for in vain goes on.
    RevokeBlind,
    /// Asking again for a hold puts the deadline off.
    AskedAgain,
    /// A hold that is handed over goes to the first in line.
    HandedToFirst,
    /// A hold is handed to somebody who waits for whoever waits for it.
    HandedRound,
    /// A hold is not handed to somebody who waits for itself already.
    HandedStrictly,
    /// A hold that is handed over keeps its token.
    HandedToken,
    /// A hold is handed past a client of the tree.
    HandedPast,
    /// A refused request for several leaves what it did for the first of them.
    BundleHalf,
    /// Whoever asked for several is granted one as soon as that is free.
    BundleEager,
    /// Of several only the one that leaves goes.
    BundleSplit,
    /// A lock is not kept for whoever asked for several.
    BundlePassed,
    /// Nobody looks for deadlocks.
    DeadlockBlind,
    /// A semaphore with one holder that waits is taken for a deadlock, whoever else could give back.
    DeadlockEager,
    /// Whoever looks for deadlocks forgets those whom the newcomer overtakes.
    OvertakingBlind,
    /// A newcomer does not see those who waited for the lock to open.
    NewcomerBlind,
    /// Whoever looks for deadlocks does not see who goes before when a lock opens.
    OpeningBlind,
    /// Whoever looks for deadlocks does not see that a holder that waits to be alone lets nobody in.
    UpgradeUnseen,
    /// Several that are asked for again are theirs in whatever mode they are held or waited for.
    RenewedBlind,
    /// A lock whose rules are as by default again is forgotten with those who wait.
    RulesForgetful,
    /// Whoever a hold is handed to need not fit beside those who stay.
    HandedTooMuch,
    /// That a hold is asked for goes with it to the next.
    HandedRequest,
    /// An operator that means one hold breaks all.
    BrokenTooMuch,
    /// A request to one holder is one to all.
    AskedAll,
    /// A lock that is closed by a rule stays so when the rule is changed.
    RetimeBlind,
    /// A waiter that asks for more permits than there are any more waits on.
    TooLargeStays,
    /// Whoever said it enters once enters again.
    ReentrantBlind,
    /// A lock's directory is swept with the rules that an operator set.
    RulesSwept,
    /// All come in the order of their coming, whatever the rules say.
    OrderBlind,
    /// Whoever takes any segment gets the first, not the emptiest.
    SegmentFirst,
    /// Whoever asks for a segment again gets another one.
    SegmentTwice,
    /// Nobody remembers into how many segments something is cut.
    SegmentsForgotten,
    /// Nobody compares the number of segments with what a call says.
    SegmentsBlind,
}

impl Machine {
    /// Whether this bug is planted.
    #[cfg(test)]
    pub(crate) fn planted(&self, plant: Plant) -> bool {
        self.plant == Some(plant)
    }

    /// Whether this bug is planted: never.
    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "the same call in both builds")]
    pub(crate) fn planted(&self, _: Plant) -> bool {
        false
    }
}
