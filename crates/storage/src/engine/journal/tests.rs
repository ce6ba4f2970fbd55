//! The journal against a plain map: what is read, what a reopening finds, what a torn tail leaves.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;

use proptest::prelude::*;

use super::*;
use crate::engine::{MemoryEngine, Write};

type Map = BTreeMap<Vec<u8>, Bytes>;

fn open(dir: &Path) -> JournaledEngine {
    JournaledEngine::open(dir, 8 << 20).expect("open")
}

fn all(engine: &dyn Engine, order: Order) -> Vec<(Vec<u8>, Bytes)> {
    let mut found = Vec::new();
    let mut visit = |key: &[u8], value: Bytes| {
        found.push((key.to_vec(), value));
        Ok(true)
    };
    engine.scan(&[], &[255], order, &mut visit).expect("scan");
    found
}

fn apply(map: &mut Map, batch: &WriteBatch) {
    for write in &batch.writes {
        match write {
            Write::Put(key, value) => map.insert(key.clone(), value.clone()),
            Write::Delete(key) => map.remove(key),
        };
    }
}

fn batch(seed: u64) -> WriteBatch {
    let mut batch = WriteBatch::default();
    let key = |n: u64| vec![u8::try_from(n % 40).expect("small")];
    batch.put(&key(seed), vec![u8::try_from(seed % 251).expect("small"); 60_000]);
    if seed.is_multiple_of(3) {
        batch.delete(&key(seed / 3));
    }
    batch
}

fn assert_same(engine: &JournaledEngine, map: &Map) {
    let ascending = all(engine, Order::Ascending);
    assert!(ascending.iter().map(|(key, value)| (key, value)).eq(map.iter()));
    let mut descending = all(engine, Order::Descending);
    descending.reverse();
    assert!(descending == ascending);
    for n in 0..40_u8 {
        assert_eq!(engine.get(&[n]).expect("get"), map.get([n].as_slice()).cloned());
    }
}

/// Several turns of both files, read at every stage, and reopened now and then.
#[test]
fn it_reads_like_a_map_while_files_take_turns_and_after_every_reopening() {
    let dir = tempfile::tempdir().expect("dir");
    let (mut engine, mut map) = (open(dir.path()), Map::new());
    for seed in 0..900 {
        engine.write(&batch(seed)).expect("write");
        apply(&mut map, &batch(seed));
        if seed % 10 == 0 {
            engine.sync().expect("sync");
        }
        if seed % 60 == 0 {
            assert_same(&engine, &map);
        }
        if seed % 250 == 249 {
            engine.sync().expect("sync");
            drop(engine);
            engine = open(dir.path());
            assert_same(&engine, &map);
        }
    }
    assert_same(&engine, &map);
}

/// Whatever the last write to the file was cut down to, a prefix of the batches remains.
#[test]
fn a_torn_tail_leaves_a_prefix_of_the_batches() {
    let dir = tempfile::tempdir().expect("dir");
    let mut lens = Vec::new();
    let engine = open(dir.path());
    for n in 0..5_u8 {
        let mut batch = WriteBatch::default();
        batch.put(&[n], vec![n; 20]);
        engine.write(&batch).expect("write");
        lens.push(engine.writer.lock().pending.len());
    }
    engine.sync().expect("sync");
    drop(engine);
    let path = dir.path().join(NAMES[1]);
    let whole = std::fs::read(&path).expect("journal");
    let total = *lens.last().expect("five");
    for kept in 0..=total {
        let torn = tempfile::tempdir().expect("dir");
        drop(open(torn.path()));
        let mut bytes = whole.clone();
        bytes[4096 + kept..].fill(0);
        std::fs::write(torn.path().join(NAMES[1]), &bytes).expect("write");
        let found = all(&open(torn.path()), Order::Ascending).len();
        // The zeros behind a record's payload may be its own padding or even its own zero bytes.
        let whole_ones = lens.iter().filter(|end| **end <= kept).count();
        assert!((whole_ones..=whole_ones + 1).contains(&found), "{kept} bytes leave {found}");
        if kept == total {
            assert_eq!(found, 5);
        }
        if kept > 64 {
            break;
        }
    }
}

#[test]
fn a_flipped_bit_ends_the_run_of_good_records() {
    let dir = tempfile::tempdir().expect("dir");
    let engine = open(dir.path());
    for n in 0..3_u8 {
        let mut batch = WriteBatch::default();
        batch.put(&[n], vec![n; 20]);
        engine.write(&batch).expect("write");
    }
    engine.sync().expect("sync");
    drop(engine);
    let file = OpenOptions::new().write(true).open(dir.path().join(NAMES[1])).expect("open");
    file.write_all_at(&[0xff], 4096 + 40 + 20).expect("flip");
    assert_eq!(all(&open(dir.path()), Order::Ascending).len(), 1);
}

/// A power cut may keep the records of a turn and lose its header; the turn is then begun again.
#[test]
fn records_of_another_attempt_at_the_same_turn_do_not_count() {
    let (lost, dir) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
    for (at, count) in [(lost.path(), 3_u8), (dir.path(), 1)] {
        let engine = open(at);
        for n in 0..count {
            let mut batch = WriteBatch::default();
            batch.put(&[n], vec![n; 20]);
            engine.write(&batch).expect("write");
        }
        engine.sync().expect("sync");
    }
    let stale = std::fs::read(lost.path().join(NAMES[1])).expect("read");
    let path = dir.path().join(NAMES[1]);
    let mut bytes = std::fs::read(&path).expect("read");
    // The second and third record of the lost attempt lie behind the first one of the new attempt.
    let second = 4096 + 32;
    bytes[second..4096 + 200].copy_from_slice(&stale[second..4096 + 200]);
    std::fs::write(&path, bytes).expect("write");
    assert_eq!(all(&open(dir.path()), Order::Ascending).len(), 1);
}

#[test]
fn a_missing_file_is_damage() {
    let dir = tempfile::tempdir().expect("dir");
    drop(open(dir.path()));
    std::fs::remove_file(dir.path().join(NAMES[0])).expect("remove");
    let Err(StoreError::Corrupt { what, .. }) = JournaledEngine::open(dir.path(), 1 << 20) else {
        panic!("it opened");
    };
    assert!(what.contains(NAMES[0]), "{what}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Layers over an engine read like the engine with the changes applied.
    #[test]
    fn layers_and_what_is_below_merge_in_both_orders(
        below in proptest::collection::btree_map(any::<u8>(), any::<u8>(), 0..20),
        frozen in proptest::collection::btree_map(any::<u8>(), any::<Option<u8>>(), 0..20),
        active in proptest::collection::btree_map(any::<u8>(), any::<Option<u8>>(), 0..20),
        stop_after in 0_usize..40,
    ) {
        let engine = MemoryEngine::default();
        let mut expected = below.clone();
        let mut base = WriteBatch::default();
        for (key, value) in &below {
            base.put(&[*key], vec![*value]);
        }
        engine.write(&base).expect("write");
        let layers = Layers::default();
        for (number, layer) in [&frozen, &active].into_iter().enumerate() {
            let mut changes = WriteBatch::default();
            for (key, value) in layer {
                if let Some(value) = value {
                    changes.put(&[*key], vec![*value]);
                    expected.insert(*key, *value);
                } else {
                    changes.delete(&[*key]);
                    expected.remove(key);
                }
            }
            layers.put(&changes);
            if number == 0 { layers.freeze(); }
        }
        for order in [Order::Ascending, Order::Descending] {
            let mut found = Vec::new();
            let mut visit = |key: &[u8], value: Bytes| {
                found.push((key[0], value[0]));
                Ok(found.len() <= stop_after)
            };
            let changes = layers.range(&[], &[255], order);
            layers::merged(changes, &[], &[255], order, &engine, &mut visit).expect("scan");
            let mut wanted: Vec<_> = expected.range(..255).map(|(k, v)| (*k, *v)).collect();
            if order == Order::Descending { wanted.reverse(); }
            wanted.truncate(stop_after + 1);
            prop_assert_eq!(found, wanted);
        }
    }
}
