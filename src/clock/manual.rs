//! A clock that tests move.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::sync::{AtomicU64, Ordering};
use crate::timestamp::Timestamp;

/// A clock for tests that moves only when told. Clones share the time.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{ManualClock, Quota, RateLimiter};
///
/// let clock = ManualClock::new();
/// let limiter = RateLimiter::<String>::builder(Quota::per_minute(1)?)
///     .clock(clock.clone())
///     .build()?;
/// assert!(limiter.try_acquire("alice").is_allowed());
/// assert!(limiter.try_acquire("alice").is_denied());
/// clock.advance(Duration::from_secs(60));
/// assert!(limiter.try_acquire("alice").is_allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ManualClock {
    nanos: Arc<AtomicU64>,
}

impl ManualClock {
    /// A clock that stands at zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A clock that stands at this instant.
    #[must_use]
    pub fn at(now: Timestamp) -> Self {
        let clock = Self::new();
        clock.set(now);
        clock
    }

    /// Moves the time on; it stops at [`Timestamp::MAX`].
    pub fn advance(&self, time: Duration) {
        let later = |nanos| Some(Timestamp::from_nanos(nanos).saturating_add(time).as_nanos());
        // Relaxed, here and below: a time is a number, it publishes nothing else. The update
        // never refuses, so there is no failure to look at.
        let _previous = self.nanos.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
    }

    /// Sets the time, backwards too.
    pub fn set(&self, now: Timestamp) {
        self.nanos.store(now.as_nanos(), Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    #[inline]
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.nanos.load(Ordering::Relaxed))
    }
}
