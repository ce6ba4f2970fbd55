//! Every limitation in the catalogue has a test that shows it.

use holdfast_comparison::Limitation;

/// The sources in which the tests are.
const SOURCES: [&str; 5] = [
    include_str!("redis.rs"),
    include_str!("redisson.rs"),
    include_str!("redlock.rs"),
    include_str!("sql.rs"),
    include_str!("clusters.rs"),
];

/// The function that shows it.
fn shown_by(limitation: Limitation) -> &'static str {
    match limitation {
        Limitation::LeftForever => "a_crash_between_setnx_and_expire_leaves_the_lock_for_ever",
        Limitation::ForeignRelease => "a_release_without_an_owner_frees_the_lock_of_somebody_else",
        Limitation::ExpiresUnderHolder | Limitation::NoToken => {
            "a_holder_that_is_paused_past_its_time_overwrites_its_successor"
        }
        Limitation::EndsWithConnection => "a_connection_that_ends_lets_go_while_the_holder_goes_on",
        Limitation::TokenNotDurable => "a_deleted_directory_makes_the_numbers_begin_anew",
        Limitation::TokenFromEnqueue => "a_waiters_number_is_minted_while_somebody_else_holds",
        Limitation::ClientClocks => "clocks_that_differ_give_the_getset_lock_two_holders",
        Limitation::ForeignExpiry => {
            "a_waiter_repairs_what_a_crash_left_and_ends_what_was_meant_to_last"
        }
        Limitation::LostOnFailover => {
            "a_failover_to_a_copy_that_had_not_heard_of_it_loses_the_lock"
        }
        Limitation::ForgottenByRestart => {
            "three_servers_that_restart_empty_give_redlock_a_second_holder"
        }
        Limitation::Polls | Limitation::Unfair => {
            "a_polling_waiter_attempts_in_vain_and_may_be_overtaken"
        }
        Limitation::WakesAll => "every_release_wakes_all_waiters",
        Limitation::UncountedReentry => {
            "the_first_release_frees_every_entry_of_the_reentrant_script"
        }
        Limitation::OverRelease => {
            "a_semaphore_takes_back_more_than_it_gave_and_never_what_a_dead_holder_has"
        }
        Limitation::OutlivesItsWork => "the_watchdog_keeps_the_lock_of_work_that_hangs_for_ever",
        Limitation::DeadWaiterDelays => "a_dead_waiter_holds_up_the_fair_lock_and_then_does_not",
        Limitation::FailsUnderContention => "optimistic_writers_lose_nothing_and_retry",
        Limitation::ChangedBack => {
            "a_value_that_changed_back_goes_unnoticed_and_a_version_does_not"
        }
        Limitation::OccupiesConnection => "a_held_row_ties_up_a_transaction",
        Limitation::NamesCollide => "two_names_are_one_lock",
        Limitation::OneServer => "without_its_one_server_nobody_takes_or_releases",
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
