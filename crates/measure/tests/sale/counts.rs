//! The counts of a sale.

use holdfast_measure::record::Safety;
use holdfast_measure::safety::{FaultScenario, Participant, ParticipantSales, SaleDatabase};
use holdfast_measure::servers::ServerKind;

use crate::{are_here, sale};

/// Runs one sale under each of these locks.
async fn sell<const N: usize>(names: [&str; N], fault: FaultScenario) -> [Safety; N] {
    let (sale, below) = (sale(), tempfile::tempdir().unwrap());
    open_to_all(below.path());
    let database = SaleDatabase::start(below.path()).await.unwrap();
    let mut rows = Vec::new();
    for name in names {
        let participant = Participant::named(name).unwrap();
        rows.push(ParticipantSales::new(&sale, &database, participant).row(fault).await);
    }
    for row in &rows {
        assert_eq!((&row.failure, &row.does_not_apply), (&None, &None), "{row:?}");
    }
    rows.try_into().unwrap()
}

/// Opens the directory to other users: PostgreSQL runs as another user.
fn open_to_all(directory: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    let all = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(directory, all).unwrap();
}

/// Asserts that every piece is sold exactly once.
fn assert_exact(row: &Safety) {
    let wrong = (row.oversold, row.lost_updates, row.double_holders, row.stuck);
    assert_eq!((row.sold, wrong), (sale().pieces, (0, 0, 0, 0)), "{row:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_lock_every_count_shows_errors() {
    if !are_here(&[ServerKind::Postgres]) {
        return;
    }
    let [row] = sell(["no-lock"], FaultScenario::None).await;
    assert!(row.double_holders > 0, "{row:?}");
    assert!(row.oversold > 0 && row.lost_updates > 0, "{row:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_fault_every_piece_is_sold_once_under_redis_and_under_holdfast() {
    if !are_here(&[ServerKind::Postgres, ServerKind::Redis, ServerKind::Holdfast]) {
        return;
    }
    let names = ["redis-set-nx-px", "holdfast-http", "holdfast-http+fence", "holdfast-sdk"];
    sell(names, FaultScenario::None).await.iter().for_each(assert_exact);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_is_paused_past_its_lease_overwrites_its_successors_on_redis() {
    if !are_here(&[ServerKind::Postgres, ServerKind::Redis]) {
        return;
    }
    let [row] = sell(["redis-set-nx-px"], FaultScenario::HolderPaused).await;
    assert!(row.double_holders > 0 && row.lost_updates > 0, "{row:?}");
    assert_eq!(row.sold, sale().pieces + row.oversold, "{row:?}");
    assert!(row.next_grant_ms.is_some() && row.stuck == 0, "{row:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fence_rejects_the_same_holder_and_the_books_are_exact() {
    if !are_here(&[ServerKind::Postgres, ServerKind::Holdfast]) {
        return;
    }
    let names = ["holdfast-http", "holdfast-http+fence", "holdfast-sdk+fence"];
    let [bare, http, sdk] = sell(names, FaultScenario::HolderPaused).await;
    assert!(
        bare.double_holders > 0 && bare.lost_updates > 0,
        "a lease alone does not help: {bare:?}"
    );
    for fenced in [http, sdk] {
        assert!(fenced.double_holders > 0, "the worker assumes to hold the lock: {fenced:?}");
        assert_eq!((fenced.sold, fenced.oversold, fenced.lost_updates), (sale().pieces, 0, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_restarts_or_is_replaced_by_its_replica_forgets_a_held_lock() {
    if !are_here(&[ServerKind::Postgres, ServerKind::Redis]) {
        return;
    }
    for fault in [FaultScenario::ServersRestarted, FaultScenario::ReplicaPromoted] {
        let [row] = sell(["redis-set-nx-px"], fault).await;
        assert!(row.double_holders > 0 && row.lost_updates > 0, "{row:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn holdfast_keeps_a_held_lock_when_all_nodes_or_the_leader_are_lost() {
    if !are_here(&[ServerKind::Postgres, ServerKind::Holdfast]) {
        return;
    }
    for fault in [FaultScenario::ServersRestarted, FaultScenario::LeaderIsolated] {
        let [row] = sell(["holdfast-http"], fault).await;
        assert_exact(&row);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_is_killed_leaves_the_lock_to_the_next() {
    if !are_here(&[ServerKind::Postgres, ServerKind::Redis, ServerKind::Holdfast]) {
        return;
    }
    let names = ["redis-set-nx-px", "holdfast-http", "postgres-advisory"];
    for row in sell(names, FaultScenario::HolderKilled).await {
        assert_exact(&row);
        assert!(row.next_grant_ms.is_some(), "{row:?}");
    }
}
