//! The processor's time-stamp counter.

use crate::clock::Clock;
use crate::timestamp::Timestamp;

/// The processor's time-stamp counter (feature `quanta`), through the crate of that name.
///
/// About half the cost of [`MonotonicClock`](crate::MonotonicClock) on x86-64. Where the
/// counter is missing or not invariant, quanta falls back to the system's clock. The first one
/// of a process calibrates the counter, which can take up to 200 ms; the calibrated rate can
/// differ from the system's clock by some parts per million.
///
/// ```
/// use tollgate::{Clock, TscClock};
///
/// let clock = TscClock::new();
/// let before = clock.now();
/// assert!(clock.now() >= before);
/// ```
#[derive(Clone, Debug)]
pub struct TscClock {
    clock: quanta::Clock,
    origin: u64,
}

impl TscClock {
    /// A clock that starts at zero now.
    #[must_use]
    pub fn new() -> Self {
        let clock = quanta::Clock::new();
        let origin = clock.raw();
        Self { clock, origin }
    }
}

impl Default for TscClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TscClock {
    #[inline]
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.clock.delta_as_nanos(self.origin, self.clock.raw()))
    }
}
