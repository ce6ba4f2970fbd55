//! Counts the faults of a sale, from the workers' critical sections and the recorded sales.

/// A critical section from the worker's view, by the machine's monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CriticalSection {
    /// The time after the lock's reply.
    pub entered_ns: u64,
    /// The time before the release.
    pub left_ns: u64,
}

/// Counts critical sections that began before the end of an earlier one.
pub fn double_holders(sections: &[CriticalSection]) -> u64 {
    let mut in_order = sections.to_vec();
    in_order.sort_by_key(|section| section.entered_ns);
    let (mut held_until, mut doubles) = (0, 0);
    for section in in_order {
        doubles += u64::from(section.entered_ns < held_until);
        held_until = held_until.max(section.left_ns);
    }
    doubles
}

/// The tables after a sale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaleBooks {
    /// The stock before the sale.
    pub pieces: u64,
    /// The current stock; stale writes may have changed it in either direction.
    pub stock: i64,
    /// The number of recorded sales.
    pub sold: u64,
    /// The number of sales recorded with an older token than an earlier sale.
    pub stale_writes: u64,
}

impl SaleBooks {
    /// Returns the number of sold nonexistent pieces.
    pub fn oversold(self) -> u64 {
        self.sold.saturating_sub(self.pieces)
    }

    /// Returns the number of sales missing in the stock after a stale write.
    pub fn lost_updates(self) -> u64 {
        let missing = i128::from(self.stock) + i128::from(self.sold) - i128::from(self.pieces);
        u64::try_from(missing).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sections(times: &[(u64, u64)]) -> Vec<CriticalSection> {
        let section = |&(entered_ns, left_ns)| CriticalSection { entered_ns, left_ns };
        times.iter().map(section).collect()
    }

    #[test]
    fn sections_in_sequence_are_no_double_holders() {
        assert_eq!(double_holders(&sections(&[])), 0);
        assert_eq!(double_holders(&sections(&[(5, 9), (1, 4), (9, 12)])), 0);
    }

    #[test]
    fn a_section_inside_a_long_one_counts_and_so_does_an_overlap() {
        assert_eq!(double_holders(&sections(&[(1, 100), (10, 20), (30, 40), (101, 110)])), 2);
        assert_eq!(double_holders(&sections(&[(1, 10), (9, 20), (19, 30)])), 2);
    }

    #[test]
    fn a_stale_write_loses_the_updates_since_it_read() {
        let honest = SaleBooks { stale_writes: 0, pieces: 100, stock: 40, sold: 60 };
        assert_eq!((honest.oversold(), honest.lost_updates()), (0, 0));
        // Five were sold after the stale worker read 80; then it wrote 79 and recorded its sale.
        let stale = SaleBooks { stale_writes: 0, pieces: 100, stock: 79, sold: 26 };
        assert_eq!((stale.oversold(), stale.lost_updates()), (0, 5));
        let sold_out = SaleBooks { stale_writes: 0, pieces: 100, stock: 0, sold: 105 };
        assert_eq!((sold_out.oversold(), sold_out.lost_updates()), (5, 5));
    }
}
