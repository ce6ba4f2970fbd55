//! Every limitation in the catalogue has a test that demonstrates it.

use holdfast_comparison::Limitation;

/// The sources with the tests.
const SOURCES: [&str; 5] = [
    include_str!("redis.rs"),
    include_str!("redisson.rs"),
    include_str!("redlock.rs"),
    include_str!("sql.rs"),
    include_str!("clusters.rs"),
];

/// Returns the test function that demonstrates the limitation.
fn shown_by(limitation: Limitation) -> &'static str {
    match limitation {
        Limitation::LeftForever => "a_crash_between_setnx_and_expire_leaves_the_lock_forever",
        Limitation::ForeignRelease => {
            "a_release_without_an_owner_releases_the_lock_of_another_client"
        }
        Limitation::ExpiresUnderHolder | Limitation::NoToken => {
            "a_holder_paused_past_its_ttl_overwrites_the_next_holder"
        }
        Limitation::EndsWithConnection => {
            "the_end_of_a_connection_releases_the_lock_while_the_holder_continues"
        }
        Limitation::TokenNotDurable => "a_deleted_directory_restarts_the_sequence_numbers",
        Limitation::TokenFromEnqueue => "the_number_of_a_waiter_is_assigned_before_its_grant",
        Limitation::ClientClocks => "clocks_that_differ_give_the_getset_lock_two_holders",
        Limitation::ForeignExpiry => "a_repair_of_a_missing_expiry_also_ends_a_permanent_lock",
        Limitation::LostOnFailover => "a_failover_to_a_stale_replica_loses_the_lock",
        Limitation::ForgottenByRestart => {
            "three_servers_that_restart_empty_give_redlock_a_second_holder"
        }
        Limitation::Polls | Limitation::Unfair => {
            "a_polling_waiter_attempts_in_vain_and_may_be_overtaken"
        }
        Limitation::Spins => {
            "a_spinning_waiter_keeps_the_server_busy_and_a_subscribed_one_does_not"
        }
        Limitation::WakesAll => "every_release_wakes_all_waiters",
        Limitation::UncountedReentry => {
            "the_first_release_frees_every_entry_of_the_reentrant_script"
        }
        Limitation::OverRelease => {
            "a_semaphore_accepts_excess_releases_and_never_recovers_the_permits_of_a_dead_holder"
        }
        Limitation::OutlivesItsWork => "the_watchdog_renews_the_lock_of_hanging_work_forever",
        Limitation::DeadWaiterBlocks => "a_dead_client_in_the_list_blocks_all_behind_it",
        Limitation::DeadWaiterDelays => "a_dead_waiter_delays_the_fair_lock_until_its_deadline",
        Limitation::FailsUnderContention => "optimistic_writers_lose_nothing_and_retry",
        Limitation::ChangedBack => {
            "a_value_that_changed_back_goes_unnoticed_and_a_version_does_not"
        }
        Limitation::OccupiesConnection => "a_held_row_occupies_a_transaction",
        Limitation::NamesCollide => "two_names_are_one_lock",
        Limitation::OneServer => "without_its_only_server_no_client_acquires_or_releases",
    }
}

#[test]
fn every_limitation_is_shown_by_a_test_that_exists() {
    for limitation in Limitation::ALL {
        let function = format!("async fn {}(", shown_by(*limitation));
        let found = SOURCES.iter().any(|source| source.contains(&function));
        assert!(found, "{limitation:?}: there is no `{function}`");
    }
}
