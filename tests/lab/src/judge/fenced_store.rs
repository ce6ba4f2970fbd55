//! End-to-end check: clients increment a counter under a lock, in a store that rejects stale fencing tokens.
//!
//! Accepted tokens never decrease, the store rejects only tokens below its mark, and the counter equals the number of
//! accepted increments. So no update was lost, despite the pauses, kills and partitions of the test.

use crate::store::StoreOp;

/// Checks the operations of the store and its final value.
///
/// # Errors
/// A description of the first violation.
pub fn no_lost_update(ops: &[StoreOp], counter: u64) -> Result<(), String> {
    let (mut mark, mut writes) = (0, 0);
    for op in ops {
        let (token, accepted) = match *op {
            StoreOp::Read { token, accepted } => (token, accepted),
            StoreOp::Write { token, value, accepted } => {
                writes += u64::from(accepted);
                if accepted && value != writes {
                    return Err(format!("accepted increment {writes} wrote {value}: {op:?}"));
                }
                (token, accepted)
            }
        };
        if accepted != (token >= mark) {
            return Err(format!("the mark was {mark} at {op:?}"));
        }
        mark = mark.max(token);
    }
    if counter == writes {
        Ok(())
    } else {
        Err(format!("{writes} increments were accepted, and the counter is {counter}"))
    }
}

#[cfg(test)]
mod tests {
    use super::StoreOp::{Read, Write};
    use super::*;

    fn read(token: u64) -> StoreOp {
        Read { token, accepted: true }
    }

    fn write(token: u64, value: u64) -> StoreOp {
        Write { token, value, accepted: true }
    }

    #[test]
    fn increments_in_turn_and_a_refused_stale_write_are_accepted() {
        let stale = Write { token: 1, value: 3, accepted: false };
        let ops = [read(1), write(1, 1), read(2), write(2, 2), stale, read(2), write(2, 3)];
        assert_eq!(no_lost_update(&ops, 3), Ok(()));
    }

    #[test]
    fn an_accepted_stale_write_is_refused() {
        let ops = [read(1), read(2), write(2, 1), write(1, 2)];
        assert!(no_lost_update(&ops, 2).expect_err("refused").contains("the mark was 2"));
    }

    #[test]
    fn two_holders_that_overwrite_each_other_are_refused() {
        let ops = [read(1), read(1), write(1, 1), write(1, 1)];
        assert!(no_lost_update(&ops, 1).expect_err("refused").contains("accepted increment 2"));
    }

    #[test]
    fn a_counter_that_differs_from_the_accepted_increments_is_refused() {
        assert!(no_lost_update(&[read(1), write(1, 1)], 2).is_err());
    }

    #[test]
    fn a_refused_good_token_is_refused() {
        let ops = [read(1), Write { token: 2, value: 1, accepted: false }];
        assert!(no_lost_update(&ops, 0).is_err());
    }
}
