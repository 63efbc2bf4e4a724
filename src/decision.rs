//! The answer to "may this key spend this cost now?".

use core::fmt;
use core::time::Duration;

use crate::cell::Acquire;
use crate::rate::Rate;
use crate::state::Level;
use crate::timestamp::Timestamp;

/// The answer to a request: it has been admitted and paid, or denied at no cost.
///
/// ```
/// use tollgate::{Bucket, Decision, Quota, RetryAfter, Timestamp};
///
/// let bucket = Bucket::new(Quota::per_minute(1)?);
/// let now = Timestamp::from_nanos(0);
/// assert!(bucket.try_acquire_at(1, now)?.is_allowed());
/// match bucket.try_acquire_at(1, now)? {
///     Decision::Allowed(allowed) => println!("{} tokens left", allowed.remaining()),
///     Decision::Denied(denied) => match denied.retry_after() {
///         RetryAfter::After(wait) => assert_eq!(wait.as_secs(), 60),
///         RetryAfter::Never => println!("do not come back"),
///     },
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a decision that nobody looks at limits nothing"]
pub enum Decision {
    /// Admitted: the cost has been taken.
    Allowed(Allowed),
    /// Denied: nothing has been taken.
    Denied(Denied),
}

impl Decision {
    /// Whether the request was admitted.
    #[inline]
    #[must_use]
    pub const fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed(_))
    }

    /// Whether the request was denied.
    #[inline]
    #[must_use]
    pub const fn is_denied(&self) -> bool {
        !self.is_allowed()
    }

    /// Whole tokens that the key has left after this decision.
    #[inline]
    #[must_use]
    pub const fn remaining(&self) -> u64 {
        match self {
            Self::Allowed(allowed) => allowed.remaining(),
            Self::Denied(denied) => denied.remaining(),
        }
    }

    /// When to retry; None if the request was admitted.
    #[inline]
    #[must_use]
    pub const fn retry_after(&self) -> Option<RetryAfter> {
        match self {
            Self::Allowed(_) => None,
            Self::Denied(denied) => Some(denied.retry_after()),
        }
    }

    /// The decision as a result, for `?`: a denial is an error.
    ///
    /// # Errors
    /// [`Denied`] if the request was denied.
    ///
    /// ```
    /// # use tollgate::{Quota, RateLimiter};
    /// let limiter = RateLimiter::<String>::new(Quota::per_hour(1)?);
    /// let allowed = limiter.try_acquire("alice").into_result()?;
    /// assert_eq!(allowed.remaining(), 0);
    /// let denied = limiter.try_acquire("alice").into_result().unwrap_err();
    /// assert!(denied.to_string().starts_with("denied: too few tokens, retry after 3599."));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub const fn into_result(self) -> Result<Allowed, Denied> {
        match self {
            Self::Allowed(allowed) => Ok(allowed),
            Self::Denied(denied) => Err(denied),
        }
    }

    /// The details of an admission.
    #[inline]
    #[must_use]
    pub const fn allowed(self) -> Option<Allowed> {
        match self {
            Self::Allowed(allowed) => Some(allowed),
            Self::Denied(_) => None,
        }
    }

    /// The details of a denial.
    #[inline]
    #[must_use]
    pub const fn denied(self) -> Option<Denied> {
        match self {
            Self::Allowed(_) => None,
            Self::Denied(denied) => Some(denied),
        }
    }

    /// The decision that a bucket's answer means; None: the bucket is retired.
    #[inline]
    pub(crate) fn from_acquire(
        acquire: Acquire,
        rate: &Rate,
        now: u64,
        reason: Reason,
    ) -> Option<Self> {
        match acquire {
            Acquire::Allowed { left, at } => Some(Self::Allowed(Allowed {
                left: Tokens::new(left, rate),
                at: Timestamp::from_nanos(at),
            })),
            Acquire::Denied { level, due } => Some(Self::Denied(Denied {
                left: Tokens::new(level, rate),
                retry_after: RetryAfter::until(due, now),
                reason,
            })),
            Acquire::Retired => None,
        }
    }

    /// The decision about a new key for which the table has no room.
    pub(crate) const fn table_full(retry_after: RetryAfter) -> Self {
        Self::Denied(Denied {
            left: Tokens { credits: 0, per_token: 1 },
            retry_after,
            reason: Reason::TableFull,
        })
    }
}

/// Credits that become whole tokens only when asked: the division is not on the hot path.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Tokens {
    credits: u64,
    per_token: u64,
}

impl Tokens {
    #[inline]
    const fn new(level: Level, rate: &Rate) -> Self {
        Self { credits: level.credits, per_token: rate.per_token }
    }

    #[inline]
    const fn whole(self) -> u64 {
        match self.credits.checked_div(self.per_token) {
            Some(tokens) => tokens,
            None => 0,
        }
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.whole().fmt(f)
    }
}

/// An admission: the cost has been taken from the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowed {
    left: Tokens,
    at: Timestamp,
}

impl Allowed {
    /// Whole tokens that are left.
    #[inline]
    #[must_use]
    pub const fn remaining(&self) -> u64 {
        self.left.whole()
    }

    /// The instant at which this admission counts: the caller's, or a later one to which another
    /// thread had already counted the bucket.
    ///
    /// For every key and every interval, the costs of the admissions that count in the interval
    /// are at most `capacity + refill over the interval`, with no slack.
    #[inline]
    #[must_use]
    pub const fn counted_at(&self) -> Timestamp {
        self.at
    }
}

/// A denial: nothing has been taken, and asking again makes nothing worse.
///
/// It is an error as well, for those who prefer [`Decision::into_result`].
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("denied: {reason}, {retry_after}")]
pub struct Denied {
    left: Tokens,
    retry_after: RetryAfter,
    reason: Reason,
}

impl Denied {
    /// Whole tokens that the bucket holds: fewer than the cost. 0 where no bucket was found.
    #[inline]
    #[must_use]
    pub const fn remaining(&self) -> u64 {
        self.left.whole()
    }

    /// The least wait after which the same request, alone, would be admitted.
    ///
    /// For [`Reason::TableFull`] it is an estimate: the least wait until one of the few buckets
    /// that were looked at is full and can make room.
    #[inline]
    #[must_use]
    pub const fn retry_after(&self) -> RetryAfter {
        self.retry_after
    }

    /// Why the request was denied.
    #[inline]
    #[must_use]
    pub const fn reason(&self) -> Reason {
        self.reason
    }
}

/// Why a request was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The key's bucket holds fewer tokens than the cost.
    Spent,
    /// The key is new, and the limiter holds `max_keys` buckets of which none could be retired.
    TableFull,
    /// The key is new, the limiter is full, and the overflow bucket that the key shares with
    /// others under `Overflow::Share` holds fewer tokens than the cost.
    SharedSpent,
}

/// `too few tokens` and the like.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Spent => "too few tokens",
            Self::TableFull => "no room for a new key",
            Self::SharedSpent => "no room for a new key, and too few tokens in the shared bucket",
        })
    }
}

/// How long to wait.
///
/// ```
/// use std::time::Duration;
/// use tollgate::RetryAfter;
///
/// let wait = RetryAfter::After(Duration::from_millis(1_001));
/// assert_eq!(wait.whole_seconds(), Some(2)); // for an HTTP Retry-After header
/// assert_eq!(RetryAfter::Never.whole_seconds(), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RetryAfter {
    /// This long: exactly then, and not a nanosecond earlier.
    After(Duration),
    /// Waiting does not help: nothing is refilled, or not before the clock's 584 years end.
    Never,
}

/// `retry after 1.5s`, or `do not retry`.
impl fmt::Display for RetryAfter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::After(wait) => write!(f, "retry after {wait:?}"),
            Self::Never => f.pad("do not retry"),
        }
    }
}

impl RetryAfter {
    /// The wait, or None for never.
    #[inline]
    #[must_use]
    pub const fn duration(self) -> Option<Duration> {
        match self {
            Self::After(wait) => Some(wait),
            Self::Never => None,
        }
    }

    /// The wait in whole seconds, rounded up and at least 1, so that a client that obeys it is
    /// not refused again; None for never.
    #[inline]
    #[must_use]
    pub const fn whole_seconds(self) -> Option<u64> {
        match self {
            Self::After(wait) => {
                let seconds = wait.as_secs().saturating_add((wait.subsec_nanos() > 0) as u64);
                Some(if seconds == 0 { 1 } else { seconds })
            }
            Self::Never => None,
        }
    }

    /// From `now` until that tick.
    #[inline]
    pub(crate) const fn until(due: Option<u64>, now: u64) -> Self {
        match due {
            Some(tick) => Self::After(Duration::from_nanos(tick.saturating_sub(now))),
            None => Self::Never,
        }
    }
}

/// What a bucket holds at one instant, read without changing it.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Bucket, Quota, RetryAfter, Timestamp};
///
/// let bucket = Bucket::new(Quota::per_minute(5)?);
/// let now = Timestamp::from_nanos(0);
/// let _ = bucket.try_acquire_at(3, now)?;
/// let peek = bucket.peek_at(now);
/// assert_eq!((peek.available(), peek.capacity()), (2, 5));
/// assert_eq!(peek.until_next_token(), RetryAfter::After(Duration::from_secs(12)));
/// assert_eq!(peek.until_full(), RetryAfter::After(Duration::from_secs(36)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peek {
    left: Tokens,
    capacity: u64,
    next_token: RetryAfter,
    full: RetryAfter,
}

impl Peek {
    pub(crate) fn new(level: Level, rate: &Rate, now: u64) -> Self {
        let left = Tokens::new(rate.refill(level, now), rate);
        let next = left.whole().saturating_add(1).saturating_mul(rate.per_token);
        Self {
            left,
            capacity: rate.tokens(rate.capacity),
            next_token: RetryAfter::until(rate.due(level, next), now),
            full: RetryAfter::until(rate.due(level, rate.capacity), now),
        }
    }

    /// Whole tokens that could be spent now.
    #[inline]
    #[must_use]
    pub const fn available(&self) -> u64 {
        self.left.whole()
    }

    /// The most tokens that the bucket can hold.
    #[inline]
    #[must_use]
    pub const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The wait until one more token is there; never for a full bucket, which gets no more, and
    /// for one that is not refilled.
    #[inline]
    #[must_use]
    pub const fn until_next_token(&self) -> RetryAfter {
        self.next_token
    }

    /// The wait until the bucket is full: zero if it is.
    #[inline]
    #[must_use]
    pub const fn until_full(&self) -> RetryAfter {
        self.full
    }
}
