//! What is allowed: a capacity, and a refill of so many tokens per period.

use core::fmt;
use core::time::Duration;

use crate::error::{CostError, QuotaError};
use crate::rate::Rate;

pub(crate) const MAX_TOKENS: u64 = 1 << 50;
pub(crate) const MAX_DAYS: u64 = 3653;
pub(crate) const MAX_PERIOD: Duration = Duration::from_secs(MAX_DAYS * 24 * 60 * 60);

/// A validated quota: a bucket's capacity (burst) and its refill.
///
/// The constructors set the capacity to the tokens of one period; [`burst`](Self::burst) changes
/// it. A `Quota` is a small `Copy` value; making one costs microseconds, using one costs no
/// division.
///
/// A quota is also a text, which is how it stands in configuration files and on command lines:
///
/// | text | meaning |
/// |---|---|
/// | `5/min` | 5 tokens per minute, capacity 5 |
/// | `100/s burst 250` | 100 tokens per second, capacity 250 |
/// | `10_000/day` | digits may be grouped |
/// | `3 per 250ms` | any whole number of `ns`, `us`, `ms`, `s`, `min`, `h`, `d` or `w` |
/// | `60/min burst 10 initial 2` | a new bucket starts with 2 tokens |
/// | `allotment 1000` | 1000 tokens, once |
///
/// ```
/// use std::time::Duration;
/// use tollgate::Quota;
///
/// let quota = Quota::per_second(100)?.burst(250)?;
/// assert_eq!(quota, "100/s burst 250".parse()?);
/// assert_eq!(quota, Quota::new(100, Duration::from_secs(1))?.burst(250)?);
/// assert_eq!(quota.to_string(), "100/s burst 250");
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Quota {
    tokens: u64,
    /// Nanoseconds; 0 for an allotment, whose `tokens` is 0 too.
    period: u64,
    capacity: u64,
    initial: u64,
    exact: bool,
    rate: Rate,
}

impl Quota {
    /// The largest number of tokens per period, and the largest capacity: `2^50`.
    pub const MAX_TOKENS: u64 = MAX_TOKENS;

    /// The longest period: 3653 days, which are 10 years with three leap days.
    pub const MAX_PERIOD: Duration = MAX_PERIOD;

    /// `tokens` per `period`, with a capacity of `tokens`.
    ///
    /// # Errors
    /// `tokens` must be from 1 to [`MAX_TOKENS`](Self::MAX_TOKENS), `period` from 1 ns to
    /// [`MAX_PERIOD`](Self::MAX_PERIOD).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Quota, QuotaError};
    /// let quota = Quota::new(3, Duration::from_millis(250))?;
    /// assert_eq!(quota.capacity(), 3);
    /// assert_eq!(Quota::new(3, Duration::ZERO), Err(QuotaError::ZeroPeriod));
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn new(tokens: u64, period: Duration) -> Result<Self, QuotaError> {
        if tokens == 0 {
            return Err(QuotaError::ZeroTokens);
        }
        if tokens > MAX_TOKENS {
            return Err(QuotaError::TooManyTokens { tokens });
        }
        if period.is_zero() {
            return Err(QuotaError::ZeroPeriod);
        }
        let too_long = QuotaError::PeriodTooLong { period };
        if period > MAX_PERIOD {
            return Err(too_long);
        }
        let nanos = u64::try_from(period.as_nanos()).map_err(|_| too_long)?;
        Self::build(tokens, nanos, tokens, tokens)
    }

    /// `tokens` per second, with a capacity of `tokens`.
    ///
    /// # Errors
    /// `tokens` must be from 1 to [`MAX_TOKENS`](Self::MAX_TOKENS).
    ///
    /// ```
    /// # use tollgate::Quota;
    /// assert_eq!(Quota::per_second(3)?.to_string(), "3/s");
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn per_second(tokens: u64) -> Result<Self, QuotaError> {
        Self::new(tokens, Duration::from_secs(1))
    }

    /// `tokens` per minute, with a capacity of `tokens`.
    ///
    /// # Errors
    /// `tokens` must be from 1 to [`MAX_TOKENS`](Self::MAX_TOKENS).
    ///
    /// ```
    /// # use tollgate::Quota;
    /// assert_eq!(Quota::per_minute(5)?.to_string(), "5/min");
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn per_minute(tokens: u64) -> Result<Self, QuotaError> {
        Self::new(tokens, Duration::from_secs(60))
    }

    /// `tokens` per hour, with a capacity of `tokens`.
    ///
    /// # Errors
    /// `tokens` must be from 1 to [`MAX_TOKENS`](Self::MAX_TOKENS).
    ///
    /// ```
    /// # use tollgate::Quota;
    /// assert_eq!(Quota::per_hour(1_000)?.burst(50)?.to_string(), "1000/hour burst 50");
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn per_hour(tokens: u64) -> Result<Self, QuotaError> {
        Self::new(tokens, Duration::from_secs(60 * 60))
    }

    /// `tokens` per day of 24 hours, with a capacity of `tokens`.
    ///
    /// # Errors
    /// `tokens` must be from 1 to [`MAX_TOKENS`](Self::MAX_TOKENS).
    ///
    /// ```
    /// # use tollgate::Quota;
    /// assert_eq!(Quota::per_day(10_000)?, "10_000/day".parse()?);
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn per_day(tokens: u64) -> Result<Self, QuotaError> {
        Self::new(tokens, Duration::from_secs(24 * 60 * 60))
    }

    /// `tokens` in all, never refilled: once they are spent, the answer to "when again?" is
    /// [`RetryAfter::Never`](crate::RetryAfter::Never).
    ///
    /// A spent bucket is never full again, so it is never retired: a keyed limiter keeps it until
    /// it is removed (`RateLimiter::remove`).
    ///
    /// # Errors
    /// `tokens` must be from 1 to [`MAX_TOKENS`](Self::MAX_TOKENS).
    ///
    /// ```
    /// # use tollgate::{Bucket, Quota, RetryAfter, Timestamp};
    /// let bucket = Bucket::new(Quota::allotment(1)?);
    /// let now = Timestamp::from_nanos(0);
    /// assert!(bucket.try_acquire_at(1, now)?.is_allowed());
    /// assert_eq!(bucket.try_acquire_at(1, now)?.retry_after(), Some(RetryAfter::Never));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn allotment(tokens: u64) -> Result<Self, QuotaError> {
        Self::build(0, 0, tokens, tokens)
    }

    /// The same refill with another capacity: the largest burst, and the largest cost.
    ///
    /// Over any time t a key is admitted at most `capacity + refill over t`. If
    /// [`initial`](Self::initial) was not set below the capacity, new buckets start full. For an
    /// allotment it replaces the number of tokens.
    ///
    /// # Errors
    /// `capacity` must be from 1 to [`MAX_TOKENS`](Self::MAX_TOKENS) and not below `initial`.
    ///
    /// ```
    /// # use tollgate::Quota;
    /// let smooth = Quota::per_second(100)?.burst(1)?;
    /// assert_eq!(smooth.capacity(), 1);
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn burst(self, capacity: u64) -> Result<Self, QuotaError> {
        let follows = self.initial == self.capacity;
        let initial = if follows { capacity } else { self.initial };
        Self::build(self.tokens, self.period, capacity, initial)
    }

    /// The same quota with new buckets that start with `tokens` instead of full.
    ///
    /// A keyed limiter may retire a bucket when it has been full for a minute. If its key returns
    /// after that, the new bucket starts with `tokens` like any other: that can admit less than the
    /// old bucket would have, never more.
    ///
    /// # Errors
    /// `tokens` must be from 0 to the capacity.
    ///
    /// ```
    /// # use tollgate::Quota;
    /// let quota = Quota::per_minute(60)?.burst(10)?.initial(0)?;
    /// assert_eq!(quota.to_string(), "60/min burst 10 initial 0");
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn initial(self, tokens: u64) -> Result<Self, QuotaError> {
        Self::build(self.tokens, self.period, self.capacity, tokens)
    }

    fn build(tokens: u64, period: u64, capacity: u64, initial: u64) -> Result<Self, QuotaError> {
        if capacity == 0 {
            return Err(QuotaError::ZeroCapacity);
        }
        if capacity > MAX_TOKENS {
            return Err(QuotaError::CapacityTooLarge { capacity });
        }
        if initial > capacity {
            return Err(QuotaError::InitialAboveCapacity { initial, capacity });
        }
        let (rate, exact) = if period == 0 {
            (Rate::without_refill(capacity, initial), true)
        } else {
            Rate::new(tokens, period, capacity, initial)
        };
        Ok(Self { tokens, period, capacity, initial, exact, rate })
    }

    /// Tokens that come back in each [`period`](Self::period); 0 for an allotment.
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.tokens
    }

    /// The time in which [`tokens`](Self::tokens) come back; None for an allotment.
    ///
    /// ```
    /// # use tollgate::Quota;
    /// assert_eq!(Quota::per_minute(5)?.period().map(|p| p.as_secs()), Some(60));
    /// assert_eq!(Quota::allotment(5)?.period(), None);
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[must_use]
    pub const fn period(&self) -> Option<Duration> {
        if self.period == 0 { None } else { Some(Duration::from_nanos(self.period)) }
    }

    /// The most tokens that a bucket holds.
    #[must_use]
    pub const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The tokens of a new bucket.
    #[must_use]
    pub const fn initial_tokens(&self) -> u64 {
        self.initial
    }

    /// Whether refill is counted exactly: each token is sold at the very nanosecond at which it
    /// is due.
    ///
    /// All quotas of daily life are exact: with g the greatest common divisor of `tokens` and the
    /// period in nanoseconds, those for which `capacity * (period / g) < 2^60`. For the others
    /// see [`effective_rate`](Self::effective_rate).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::Quota;
    /// assert!(Quota::per_minute(7)?.is_exact());
    /// let month = Duration::from_secs(30 * 24 * 60 * 60);
    /// assert!(!Quota::new(1_000_003, month)?.is_exact());
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[must_use]
    pub const fn is_exact(&self) -> bool {
        self.exact
    }

    /// The rate at which buckets are really refilled; None for an allotment.
    ///
    /// Equal to the rate asked for where [`is_exact`](Self::is_exact); else lower by less than
    /// one part in `2^30`, never higher.
    ///
    /// ```
    /// # use tollgate::Quota;
    /// let rate = Quota::per_minute(5)?.effective_rate().unwrap();
    /// assert_eq!((rate.tokens(), rate.nanos()), (1, 12_000_000_000)); // one in 12 s
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[must_use]
    pub const fn effective_rate(&self) -> Option<EffectiveRate> {
        if self.period == 0 {
            return None;
        }
        let (tokens, nanos) = self.rate.in_lowest_terms();
        Some(EffectiveRate { tokens, nanos, resolution: self.rate.unit })
    }

    /// What a cost is in credits.
    #[inline]
    pub(crate) const fn price(&self, cost: u64) -> Result<u64, CostError> {
        if cost == 0 {
            return Err(CostError::Zero);
        }
        if cost > self.capacity {
            return Err(CostError::AboveCapacity { cost, capacity: self.capacity });
        }
        // Does not overflow: the capacity in credits fits 60 bits.
        Ok(cost * self.rate.per_token)
    }

    #[inline]
    pub(crate) const fn rate(&self) -> &Rate {
        &self.rate
    }
}

/// As the quota's text: `Quota(5/min burst 10)`.
impl fmt::Debug for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Quota({self})")
    }
}

/// The rate at which buckets of a quota are refilled, as a fraction in lowest terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EffectiveRate {
    tokens: u64,
    nanos: u128,
    resolution: u64,
}

impl EffectiveRate {
    /// So many tokens in [`nanos`](Self::nanos) nanoseconds.
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.tokens
    }

    /// The nanoseconds in which [`tokens`](Self::tokens) come back.
    #[must_use]
    pub const fn nanos(&self) -> u128 {
        self.nanos
    }

    /// The step in which time is counted: 1 ns for an exact quota. The refill of one step comes
    /// at its end, at once.
    #[must_use]
    pub const fn resolution(&self) -> Duration {
        Duration::from_nanos(self.resolution)
    }

    /// The same as tokens per second, rounded to a float: for display only.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "for display only")]
    pub fn tokens_per_second(&self) -> f64 {
        self.tokens as f64 * 1e9 / self.nanos as f64
    }
}
