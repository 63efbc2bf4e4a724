//! Where the time comes from.

use crate::timestamp::Timestamp;

/// A monotonic clock.
///
/// A limiter reads it once per decision. It should not go back, but nothing is minted if it does:
/// a reading before a bucket's own tick counts as that tick. Never implement it on wall-clock
/// time, which operators and time servers set.
///
/// ```
/// use tollgate::{Clock, Timestamp};
///
/// /// Ticks of the host's event loop, in milliseconds.
/// struct LoopClock(std::sync::atomic::AtomicU64);
///
/// impl Clock for LoopClock {
///     fn now(&self) -> Timestamp {
///         let millis = self.0.load(std::sync::atomic::Ordering::Relaxed);
///         Timestamp::from_nanos(millis.saturating_mul(1_000_000))
///     }
/// }
/// ```
pub trait Clock {
    /// The present instant, on this clock's own time line.
    fn now(&self) -> Timestamp;
}

impl<C: Clock + ?Sized> Clock for &C {
    #[inline]
    fn now(&self) -> Timestamp {
        (**self).now()
    }
}

#[cfg(feature = "std")]
impl<C: Clock + ?Sized> Clock for std::sync::Arc<C> {
    #[inline]
    fn now(&self) -> Timestamp {
        (**self).now()
    }
}

#[cfg(feature = "std")]
pub use with_std::{ManualClock, MonotonicClock};

#[cfg(feature = "std")]
mod with_std {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::{Duration, Instant};

    use super::{Clock, Timestamp};

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
}

#[cfg(feature = "coarse")]
pub use coarse::CoarseClock;

#[cfg(feature = "coarse")]
mod coarse {
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    use super::MonotonicClock;
    use super::{Clock, Timestamp};

    /// The kernel's coarse monotonic clock (feature `coarse`, on by default): cheap, and late by
    /// up to one timer tick (1 to 10 ms, 4 ms on most distributions).
    ///
    /// Limits are exact on its time line. Against true time a reading is late, so a token that is
    /// due may be sold one tick late; and as the clock moves in steps, an interval of true time t
    /// can see refill for up to t plus one tick. For quotas of a few thousand per second and below
    /// that is nothing; do not use it for limits on bursts shorter than a tick.
    ///
    /// On Linux and Android it reads `CLOCK_MONOTONIC_COARSE`. Elsewhere it is a
    /// [`MonotonicClock`](super::MonotonicClock).
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
}

#[cfg(feature = "quanta")]
pub use tsc::TscClock;

#[cfg(feature = "quanta")]
mod tsc {
    use super::{Clock, Timestamp};

    /// The processor's time-stamp counter (feature `quanta`), through the crate of that name.
    ///
    /// About half the cost of [`MonotonicClock`](super::MonotonicClock) on x86-64. Where the
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
}
