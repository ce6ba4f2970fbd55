//! The warm-up of new servers: load until their rate is flat. A Java virtual machine compiles its busy methods meanwhile.
//!
//! Bound: no window starts after [`WARM_UP_TIME_MAX`].

use std::time::{Duration, Instant};

use super::clients::measure;
use super::plan::{SpeedCase, SpeedPlan, WARM_UP_TIME_MAX, WARM_UP_WINDOWS};
use crate::catalogue::System;
use crate::lock::Connector;
use crate::record::{LoadLoop, LockLayout, WarmUp};

/// Returns `true` if the last three windows together are no faster than some three consecutive windows before them.
pub fn is_flat(rates: &[f64]) -> bool {
    let Some(earlier) = rates.len().checked_sub(WARM_UP_WINDOWS) else { return false };
    let (earlier, last) = rates.split_at(earlier);
    let sum = |rates: &[f64]| rates.iter().sum::<f64>();
    earlier.windows(WARM_UP_WINDOWS).any(|rates| sum(last) <= sum(rates))
}

/// Puts load on servers until its rate is flat, with the largest number of clients that have a lock each.
///
/// # Errors
/// The clients cannot connect.
pub async fn warm_up(
    connector: &Connector,
    system: &System,
    plan: &SpeedPlan,
    repetition: u32,
) -> Result<WarmUp, String> {
    let began = Instant::now();
    let rates = rates_until_flat(connector, plan, WARM_UP_TIME_MAX).await?;
    Ok(WarmUp {
        servers: system.kind.name().to_owned(),
        system: system.name.to_owned(),
        repetition,
        clients: clients(plan),
        seconds: began.elapsed().as_secs_f64(),
        is_flat: is_flat(&rates),
        rates,
    })
}

/// Puts load on the servers until its rate is flat or the time is over. Returns the rate of each window.
///
/// # Errors
/// The clients cannot connect.
pub async fn rates_until_flat(
    connector: &Connector,
    plan: &SpeedPlan,
    time_max: Duration,
) -> Result<Vec<f64>, String> {
    let case =
        SpeedCase { locks: LockLayout::Spread, load: LoadLoop::Closed, clients: clients(plan) };
    let plan = SpeedPlan { window: plan.warm_up_window(), ..plan.clone() };
    let (began, mut rates) = (Instant::now(), Vec::new());
    while !is_flat(&rates) && began.elapsed() < time_max {
        rates.push(measure(connector, &case, &plan, || None).await?.per_second);
    }
    Ok(rates)
}

/// The most clients of the cases in a closed loop with a lock for each client.
fn clients(plan: &SpeedPlan) -> u32 {
    let spread = plan
        .cases
        .iter()
        .filter(|case| case.locks == LockLayout::Spread && case.load == LoadLoop::Closed);
    spread.map(|case| case.clients).max().unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_flat_once_three_windows_are_no_faster_than_three_earlier_ones() {
        for (rates, flat) in [
            (&[][..], false),
            (&[9.0, 9.0, 9.0], false),
            (&[9.0, 9.0, 9.0, 9.0, 9.0], false),
            (&[9.0, 9.0, 9.0, 9.0, 9.0, 9.0], true),
            // A virtual machine that still compiles.
            (&[1.0, 3.0, 5.0, 6.0, 6.5, 6.8], false),
            (&[1.0, 3.0, 5.0, 6.0, 6.5, 6.8, 7.0, 7.0, 7.1], false),
            (&[1.0, 3.0, 5.0, 6.0, 7.0, 7.1, 7.0, 6.9, 7.2], false),
            (&[1.0, 3.0, 5.0, 6.0, 7.0, 7.1, 7.0, 6.9, 7.2, 6.9], true),
            // One slow window is no end.
            (&[1.0, 3.0, 5.0, 6.0, 7.0, 4.0], false),
        ] {
            assert_eq!(is_flat(rates), flat, "{rates:?}");
        }
    }
}
