//! The measured cases, their repetitions, and their durations.
//!
//! One client on one lock is not a hot case: it equals one client with its own lock.

use std::time::Duration;

use crate::Settings;
use crate::record::{LoadLoop, LockLayout, RunSize};

/// The number of windows of a warm-up that are compared with as many earlier ones.
pub(super) const WARM_UP_WINDOWS: usize = 3;
pub(super) const WARM_UP_TIME_MAX: Duration = Duration::from_mins(3);
const WARM_UP_WINDOW_MAX: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpeedCase {
    pub locks: LockLayout,
    pub load: LoadLoop,
    /// The number of clients, each with its own connection.
    pub clients: u32,
}

impl SpeedCase {
    pub fn text(&self) -> String {
        let Self { locks, load, clients } = self;
        let load = match load {
            LoadLoop::Closed => "closed loop".to_owned(),
            LoadLoop::Open(rate) => format!("{rate}/s"),
        };
        format!("{}, {load}, {clients} clients", locks.name())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpeedPlan {
    pub cases: Vec<SpeedCase>,
    pub repetitions: u32,
    /// The time before each window, not measured.
    pub warmup: Duration,
    pub window: Duration,
}

struct PlanSize {
    spread: &'static [u32],
    hot: &'static [u32],
    rates: &'static [u32],
    open_clients: u32,
    repetitions: u32,
    warmup_ms: u64,
    window_ms: u64,
}

const FULL: PlanSize = PlanSize {
    spread: &[1, 16, 64, 256],
    hot: &[16, 64, 256],
    rates: &[250, 1000, 4000],
    open_clients: 64,
    repetitions: 3,
    warmup_ms: 300,
    window_ms: 5000,
};

const QUICK: PlanSize = PlanSize {
    spread: &[1, 16, 64],
    hot: &[16],
    rates: &[1000],
    open_clients: 64,
    repetitions: 2,
    warmup_ms: 200,
    window_ms: 800,
};

const TINY: PlanSize = PlanSize {
    spread: &[1, 2],
    hot: &[2],
    rates: &[50],
    open_clients: 2,
    repetitions: 1,
    warmup_ms: 50,
    window_ms: 200,
};

impl SpeedPlan {
    pub fn of(settings: &Settings) -> Self {
        let numbers = match settings.size {
            RunSize::Full => FULL,
            RunSize::Quick => QUICK,
            RunSize::Tiny => TINY,
        };
        let given = (!settings.clients.is_empty()).then_some(settings.clients.as_slice());
        let mut plan = Self::with(&numbers, given);
        plan.repetitions = settings.repetitions.unwrap_or(plan.repetitions);
        plan.window = settings.seconds.map_or(plan.window, Duration::from_secs_f64);
        plan
    }

    /// The plan of a full run without options.
    pub fn full() -> Self {
        Self::with(&FULL, None)
    }

    fn with(numbers: &PlanSize, given: Option<&[u32]>) -> Self {
        Self {
            cases: cases(numbers, given),
            repetitions: numbers.repetitions,
            warmup: Duration::from_millis(numbers.warmup_ms),
            window: Duration::from_millis(numbers.window_ms),
        }
    }

    /// The window of the warm-up of new servers.
    pub(super) fn warm_up_window(&self) -> Duration {
        self.window.min(WARM_UP_WINDOW_MAX)
    }

    fn warm_up_text(&self) -> String {
        let (window, most) = (self.warm_up_window().as_secs_f64(), WARM_UP_TIME_MAX.as_secs());
        format!(
            "until {WARM_UP_WINDOWS} windows of {window} s are no faster than {WARM_UP_WINDOWS} earlier ones, at most {most} s"
        )
    }

    /// Describes the plan for the report, as names and values.
    pub fn describe(&self) -> Vec<(String, String)> {
        let clients = |locks| {
            let cases = self.cases.iter().filter(|case| case.locks == locks);
            let closed = cases.filter(|case| case.load == LoadLoop::Closed);
            closed.map(|case| case.clients.to_string()).collect::<Vec<_>>().join(", ")
        };
        let open = self.cases.iter().filter_map(|case| match case.load {
            LoadLoop::Open(rate) => Some(format!("{rate}/s by {} clients", case.clients)),
            LoadLoop::Closed => None,
        });
        let seconds = |time: Duration| format!("{} s", time.as_secs_f64());
        [
            ("clients, a lock for each", clients(LockLayout::Spread)),
            ("clients on one lock", clients(LockLayout::Hot)),
            ("open loop", open.collect::<Vec<_>>().join(", ")),
            ("repetitions", self.repetitions.to_string()),
            ("warm-up of new servers", self.warm_up_text()),
            ("warm-up before each window", seconds(self.warmup)),
            ("window", seconds(self.window)),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec()
    }
}

fn cases(numbers: &PlanSize, given: Option<&[u32]>) -> Vec<SpeedCase> {
    let closed =
        |locks, clients: &u32| SpeedCase { locks, load: LoadLoop::Closed, clients: *clients };
    let spread = given.unwrap_or(numbers.spread).iter().map(|of| closed(LockLayout::Spread, of));
    let hot = given.unwrap_or(numbers.hot).iter().filter(|clients| **clients > 1);
    let hot = hot.map(|of| closed(LockLayout::Hot, of));
    let open = numbers.rates.iter().map(|rate| SpeedCase {
        locks: LockLayout::Spread,
        load: LoadLoop::Open(*rate),
        clients: numbers.open_clients,
    });
    spread.chain(hot).chain(open).collect()
}
