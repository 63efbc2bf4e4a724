//! An instant on the time line of one limiter.

use core::fmt;
use core::time::Duration;

/// An instant: nanoseconds since the origin of the clock that gave it.
///
/// What the origin is does not matter as long as one limiter sees one time line: a
/// [`Clock`](crate::Clock)'s own start, or the Unix epoch for replayed logs. 64 bits of
/// nanoseconds last 584 years.
///
/// ```
/// use std::time::Duration;
/// use tollgate::Timestamp;
///
/// let start = Timestamp::from_nanos(1_000);
/// let later = start.saturating_add(Duration::from_secs(2));
/// assert_eq!(later.as_nanos(), 2_000_001_000);
/// assert_eq!(later.saturating_duration_since(start), Duration::from_secs(2));
/// assert_eq!(start.saturating_duration_since(later), Duration::ZERO);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Timestamp(u64);

impl Timestamp {
    /// The origin itself.
    pub const ZERO: Self = Self(0);
    /// The last instant that can be expressed, 584 years after the origin.
    pub const MAX: Self = Self(u64::MAX);

    /// So many nanoseconds after the origin.
    #[inline]
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The nanoseconds since the origin.
    #[inline]
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// This much time after the origin; a time above 584 years gives [`MAX`](Self::MAX).
    #[inline]
    #[must_use]
    pub fn from_duration(since_origin: Duration) -> Self {
        Self::ZERO.saturating_add(since_origin)
    }

    /// The instant that much later, or [`MAX`](Self::MAX).
    #[inline]
    #[must_use]
    pub fn saturating_add(self, time: Duration) -> Self {
        Self(u64::try_from(time.as_nanos()).map_or(u64::MAX, |nanos| self.0.saturating_add(nanos)))
    }

    /// The instant that much earlier, or [`ZERO`](Self::ZERO).
    #[inline]
    #[must_use]
    pub fn saturating_sub(self, time: Duration) -> Self {
        Self(u64::try_from(time.as_nanos()).map_or(0, |nanos| self.0.saturating_sub(nanos)))
    }

    /// The instant that much later; None where it cannot be expressed.
    #[inline]
    #[must_use]
    pub fn checked_add(self, time: Duration) -> Option<Self> {
        self.0.checked_add(u64::try_from(time.as_nanos()).ok()?).map(Self)
    }

    /// The time from `earlier` to this instant; zero if it is not earlier.
    #[inline]
    #[must_use]
    pub const fn saturating_duration_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Seconds since the origin, as `12.5s`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", Duration::from_nanos(self.0))
    }
}
