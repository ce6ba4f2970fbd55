//! Known limitations of locks, as data: the report prints them. A test demonstrates each one, and a command shows most of them.

macro_rules! limitations {
    ($($name:ident: $text:literal, $test:literal, $command:literal;)*) => {
        /// A weakness that belongs to a kind of lock, whatever its operator does.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Limitation {
            $($name,)*
        }

        impl Limitation {
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// A sentence for the report.
            pub fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// The test that demonstrates it.
            pub fn test(self) -> &'static str {
                match self {
                    $(Self::$name => $test,)*
                }
            }

            /// The command that shows it; `None` if only the test does.
            pub fn command(self) -> Option<&'static str> {
                let command = match self {
                    $(Self::$name => $command,)*
                };
                (!command.is_empty()).then_some(command)
            }
        }
    };
}

limitations! {
    LeftForever: "a crash between two commands leaves the lock held forever",
        "a_crash_between_setnx_and_expire_leaves_the_lock_forever", "scripts/demo setnx";
    ForeignRelease: "any client can release the lock, also a holder whose time has passed: then there are two holders",
        "a_release_without_an_owner_releases_the_lock_of_another_client", "scripts/demo foreign-del";
    ExpiresUnderHolder: "the lock expires while its holder is paused, and the holder's late write succeeds",
        "a_holder_paused_past_its_ttl_overwrites_the_next_holder", "scripts/demo pause";
    EndsWithConnection: "the server releases the lock when the connection ends; a holder that has not noticed continues",
        "the_end_of_a_connection_releases_the_lock_while_the_holder_continues", "";
    NoToken: "no fencing token: the store of the write has nothing to compare",
        "a_holder_paused_past_its_ttl_overwrites_the_next_holder", "scripts/compare show 39";
    TokenNotDurable: "the token starts again when the lock's own object is deleted",
        "a_deleted_directory_restarts_the_sequence_numbers", "";
    TokenFromEnqueue: "the token is minted when the caller enqueues, not at the grant",
        "the_number_of_a_waiter_is_assigned_before_its_grant", "";
    ClientClocks: "two clients whose wall clocks differ hold the lock at the same time",
        "clocks_that_differ_give_the_getset_lock_two_holders", "scripts/demo clock";
    ForeignExpiry: "a waiter's repair sets an expiry on a key of another client",
        "a_repair_of_a_missing_expiry_also_ends_a_permanent_lock", "scripts/compare show 22";
    LostOnFailover: "replication is asynchronous: a failover loses an acknowledged lock",
        "a_failover_to_a_stale_replica_loses_the_lock", "scripts/demo replica";
    ForgottenByRestart: "a majority that restarts without its data forgets a held lock",
        "three_servers_that_restart_empty_give_redlock_a_second_holder", "scripts/demo redlock";
    Polls: "waiters poll",
        "a_polling_waiter_attempts_in_vain_and_may_be_overtaken", "scripts/compare show 25";
    Spins: "waiters poll without a pause: each of them keeps the server busy",
        "a_spinning_waiter_keeps_the_server_busy_and_a_subscribed_one_does_not", "";
    WakesAll: "every release wakes all waiters, and all but one wake in vain",
        "every_release_wakes_all_waiters", "scripts/compare show 67";
    Unfair: "no queue: a later caller may go first",
        "a_polling_waiter_attempts_in_vain_and_may_be_overtaken", "scripts/compare show 25";
    UncountedReentry: "re-entries are not counted: the first release releases all of them",
        "the_first_release_frees_every_entry_of_the_reentrant_script", "scripts/compare show 20";
    OverRelease: "more permits can be released than were acquired",
        "a_semaphore_accepts_excess_releases_and_never_recovers_the_permits_of_a_dead_holder", "";
    OutlivesItsWork: "the lock is renewed as long as the process lives, also for work that hangs forever",
        "the_watchdog_renews_the_lock_of_hanging_work_forever", "scripts/compare show 80";
    DeadWaiterBlocks: "a dead client in the list blocks every client behind it forever",
        "a_dead_client_in_the_list_blocks_all_behind_it", "scripts/compare show 26";
    DeadWaiterDelays: "a dead waiter delays every waiter behind it for a fixed time",
        "a_dead_waiter_delays_the_fair_lock_until_its_deadline", "scripts/demo waiter";
    FailsUnderContention: "under contention most attempts fail and are repeated",
        "optimistic_writers_lose_nothing_and_retry", "scripts/compare writers";
    ChangedBack: "a value that changed and changed back goes unnoticed (ABA)",
        "a_value_that_changed_back_goes_unnoticed_and_a_version_does_not", "scripts/demo aba";
    OccupiesConnection: "a held lock occupies a connection and a transaction",
        "a_held_row_occupies_a_transaction", "";
    NamesCollide: "names are hashed to 32 bits: two names may be one lock",
        "two_names_are_one_lock", "";
    OneServer: "one server: while it is down, no client can acquire or release",
        "without_its_only_server_no_client_acquires_or_releases", "";
}
