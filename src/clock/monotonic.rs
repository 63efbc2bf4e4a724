//! The operating system's monotonic clock.

use std::time::Instant;

use crate::clock::Clock;
use crate::timestamp::Timestamp;

/// The default clock: [`std::time::Instant`], counted from the making of this value.
///
/// Copies share the origin and so the time line.
///
/// ```
/// use tollgate::{Clock, MonotonicClock};
///
/// let clock = MonotonicClock::new();
/// let before = clock.now();
/// assert!(clock.now() >= before);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct MonotonicClock {
    origin: Instant,
}

impl MonotonicClock {
    /// A clock that starts at zero now.
    #[must_use]
    pub fn new() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Default for MonotonicClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for MonotonicClock {
    #[inline]
    fn now(&self) -> Timestamp {
        Timestamp::from_duration(self.origin.elapsed())
    }
}
