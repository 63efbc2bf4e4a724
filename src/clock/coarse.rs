//! The kernel's coarse clock.

use crate::clock::Clock;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
use crate::clock::MonotonicClock;
use crate::timestamp::Timestamp;

/// The kernel's coarse monotonic clock (feature `coarse`, on by default): cheap, and late by
/// up to one timer tick (1 to 10 ms, 4 ms on most distributions).
///
/// Limits are exact on its time line. Against true time a reading is late, so a token that is
/// due may be sold one tick late; and as the clock moves in steps, an interval of true time t
/// can see refill for up to t plus one tick. For quotas of a few thousand per second and below
/// that is nothing; do not use it for limits on bursts shorter than a tick.
///
/// On Linux and Android it reads `CLOCK_MONOTONIC_COARSE`. Elsewhere it is a
/// [`MonotonicClock`](crate::MonotonicClock).
///
/// ```
/// use tollgate::{Clock, CoarseClock};
///
/// let clock = CoarseClock::new();
/// let before = clock.now();
/// assert!(clock.now() >= before);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CoarseClock {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    origin: u64,
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    inner: MonotonicClock,
}

impl CoarseClock {
    /// A clock that starts at zero now.
    #[must_use]
    pub fn new() -> Self {
        Self {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            origin: since_boot(),
            #[cfg(not(any(target_os = "linux", target_os = "android")))]
            inner: MonotonicClock::new(),
        }
    }
}

impl Default for CoarseClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for CoarseClock {
    #[inline]
    fn now(&self) -> Timestamp {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        return Timestamp::from_nanos(since_boot().saturating_sub(self.origin));
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        return self.inner.now();
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
#[inline]
fn since_boot() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    // The kernel gives neither field negative; were it to, the time would stand still.
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}
