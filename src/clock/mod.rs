//! Where the time comes from.

use crate::timestamp::Timestamp;

#[cfg(feature = "coarse")]
mod coarse;
#[cfg(feature = "std")]
mod manual;
#[cfg(feature = "std")]
mod monotonic;
#[cfg(feature = "quanta")]
mod tsc;

#[cfg(feature = "coarse")]
pub use coarse::CoarseClock;
#[cfg(feature = "quanta")]
pub use tsc::TscClock;
#[cfg(feature = "std")]
pub use {manual::ManualClock, monotonic::MonotonicClock};

/// A monotonic clock.
///
/// A limiter reads it once per decision. It should not go back, but nothing is minted if it does:
/// a reading before a bucket's own tick counts as that tick. After a reading from the future,
/// the keys that were asked then get no refill until the clock reaches that instant. So never
/// implement it on wall-clock time, which operators and time servers set.
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
impl<C: Clock + ?Sized> Clock for std::boxed::Box<C> {
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
