//! Which cases are measured, how often, and for how long.
//!
//! Owns the sizes of runs. One client on one lock is left out of the hot cases: it is the same as one client on its own.

use std::time::Duration;

use crate::Settings;
use crate::record::{Load, Locks, Size};

/// One case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// Which locks.
    pub locks: Locks,
    /// Closed loop, or open loop at a rate.
    pub load: Load,
    /// Clients, each with a connection of its own.
    pub clients: u32,
}

impl Case {
    /// For the bar.
    pub fn words(&self) -> String {
        let Self { locks, load, clients } = self;
        let load = match load {
            Load::Closed => "closed loop".to_owned(),
            Load::Open(rate) => format!("{rate} a second"),
        };
        format!("{}, {load}, {clients} clients", locks.name())
    }
}

/// What is measured of each system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The cases.
    pub cases: Vec<Case>,
    /// How often each of them.
    pub repetitions: u32,
    /// Time before each window in which nothing counts.
    pub warmup: Duration,
    /// How long it counts.
    pub window: Duration,
}

/// The numbers of one size.
struct Numbers {
    spread: &'static [u32],
    hot: &'static [u32],
    rates: &'static [u32],
    open_clients: u32,
    repetitions: u32,
    warmup_ms: u64,
    window_ms: u64,
}

const FULL: Numbers = Numbers {
    spread: &[1, 16, 64, 256],
    hot: &[16, 64, 256],
    rates: &[250, 1000, 4000],
    open_clients: 64,
    repetitions: 3,
    warmup_ms: 300,
    window_ms: 1500,
};

const QUICK: Numbers = Numbers {
    spread: &[1, 16, 64],
    hot: &[16],
    rates: &[1000],
    open_clients: 64,
    repetitions: 2,
    warmup_ms: 200,
    window_ms: 800,
};

const TINY: Numbers = Numbers {
    spread: &[1, 2],
    hot: &[2],
    rates: &[50],
    open_clients: 2,
    repetitions: 1,
    warmup_ms: 50,
    window_ms: 200,
};

impl Plan {
    /// For these settings.
    pub fn of(settings: &Settings) -> Self {
        let numbers = match settings.size {
            Size::Full => FULL,
            Size::Quick => QUICK,
            Size::Tiny => TINY,
        };
        let given = (!settings.clients.is_empty()).then_some(settings.clients.as_slice());
        let window = settings.seconds.map(Duration::from_secs_f64);
        Self {
            cases: cases(&numbers, given),
            repetitions: settings.repetitions.unwrap_or(numbers.repetitions),
            warmup: Duration::from_millis(numbers.warmup_ms),
            window: window.unwrap_or(Duration::from_millis(numbers.window_ms)),
        }
    }

    /// For the reader of a report.
    pub fn words(&self) -> Vec<(String, String)> {
        let clients = |locks| {
            let cases = self.cases.iter().filter(|case| case.locks == locks);
            let closed = cases.filter(|case| case.load == Load::Closed);
            closed.map(|case| case.clients.to_string()).collect::<Vec<_>>().join(", ")
        };
        let open = self.cases.iter().filter_map(|case| match case.load {
            Load::Open(rate) => Some(format!("{rate}/s by {} clients", case.clients)),
            Load::Closed => None,
        });
        let seconds = |time: Duration| format!("{} s", time.as_secs_f64());
        [
            ("clients, each its own lock", clients(Locks::Spread)),
            ("clients on one lock", clients(Locks::Hot)),
            ("open loop", open.collect::<Vec<_>>().join(", ")),
            ("repetitions", self.repetitions.to_string()),
            ("warm-up before each window", seconds(self.warmup)),
            ("window", seconds(self.window)),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec()
    }
}

fn cases(numbers: &Numbers, given: Option<&[u32]>) -> Vec<Case> {
    let closed = |locks, clients: &u32| Case { locks, load: Load::Closed, clients: *clients };
    let spread = given.unwrap_or(numbers.spread).iter().map(|of| closed(Locks::Spread, of));
    let hot = given.unwrap_or(numbers.hot).iter().filter(|clients| **clients > 1);
    let hot = hot.map(|of| closed(Locks::Hot, of));
    let open = numbers.rates.iter().map(|rate| Case {
        locks: Locks::Spread,
        load: Load::Open(*rate),
        clients: numbers.open_clients,
    });
    spread.chain(hot).chain(open).collect()
}
