//! The errors: each says which value is wrong, where, and what would be right.

use core::time::Duration;

use thiserror::Error;

use crate::quota::{MAX_DAYS, MAX_TOKENS};

/// Why a [`Quota`](crate::Quota) was refused. Nothing has been changed.
///
/// ```
/// use tollgate::{Quota, QuotaError};
///
/// assert_eq!(Quota::per_second(0), Err(QuotaError::ZeroTokens));
/// let error = "5/fortnight".parse::<Quota>().unwrap_err();
/// assert!(error.to_string().starts_with("at byte 2: expected a unit of time"));
/// ```
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuotaError {
    /// Zero tokens per period: for a quota that is never refilled use
    /// [`Quota::allotment`](crate::Quota::allotment).
    #[error(
        "the number of tokens per period is 0, it must be from 1 to {MAX_TOKENS}; \
         a quota without refill is an allotment"
    )]
    ZeroTokens,
    /// More tokens per period than [`Quota::MAX_TOKENS`](crate::Quota::MAX_TOKENS).
    #[error("{tokens} tokens per period are too many, the number must be from 1 to {MAX_TOKENS}")]
    TooManyTokens {
        /// The number that was asked for.
        tokens: u64,
    },
    /// A period of no time.
    #[error("the period is 0, it must be from 1 ns to {MAX_DAYS} days")]
    ZeroPeriod,
    /// A period above [`Quota::MAX_PERIOD`](crate::Quota::MAX_PERIOD).
    #[error("a period of {period:?} is too long, it must be from 1 ns to {MAX_DAYS} days")]
    PeriodTooLong {
        /// The period that was asked for.
        period: Duration,
    },
    /// A bucket that can hold nothing.
    #[error("the capacity (burst, allotment) is 0, it must be from 1 to {MAX_TOKENS}")]
    ZeroCapacity,
    /// A capacity above [`Quota::MAX_TOKENS`](crate::Quota::MAX_TOKENS).
    #[error("a capacity (burst) of {capacity} is too large, it must be from 1 to {MAX_TOKENS}")]
    CapacityTooLarge {
        /// The capacity that was asked for.
        capacity: u64,
    },
    /// A bucket cannot start with more than it can hold.
    #[error(
        "{initial} initial tokens do not fit a capacity (burst) of {capacity}, give at most {capacity}"
    )]
    InitialAboveCapacity {
        /// The initial tokens that were asked for.
        initial: u64,
        /// The capacity of the quota.
        capacity: u64,
    },
    /// A text that is not a quota.
    #[error("at byte {at}: expected {expected}")]
    Syntax {
        /// Where in the text, in bytes from its start.
        at: usize,
        /// What would have been right there.
        expected: &'static str,
    },
}

/// Why a cost was refused. Nothing has been spent or changed.
///
/// ```
/// use tollgate::{Bucket, CostError, Quota, Timestamp};
///
/// let bucket = Bucket::new(Quota::per_second(5)?);
/// let now = Timestamp::from_nanos(0);
/// assert_eq!(bucket.try_acquire_at(0, now).unwrap_err(), CostError::Zero);
/// assert_eq!(
///     bucket.try_acquire_at(6, now).unwrap_err().to_string(),
///     "a cost of 6 is above the capacity of 5 and could never be admitted; it must be from 1 to 5",
/// );
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum CostError {
    /// A request that costs nothing.
    #[error("the cost is 0, it must be at least 1")]
    Zero,
    /// A request that no bucket of this quota could ever serve, however long it waits.
    #[error(
        "a cost of {cost} is above the capacity of {capacity} and could never be admitted; \
         it must be from 1 to {capacity}"
    )]
    AboveCapacity {
        /// The cost that was asked for.
        cost: u64,
        /// The capacity of the quota.
        capacity: u64,
    },
}

/// Why a [`Builder`](crate::Builder) could not build its limiter.
///
/// ```
/// use tollgate::{BuildError, Quota, RateLimiter};
///
/// let built = RateLimiter::<String>::builder(Quota::per_second(5)?).max_keys(0).build();
/// assert_eq!(built.unwrap_err(), BuildError::ZeroMaxKeys);
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
#[cfg(feature = "std")]
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// A limiter that may hold no key at all.
    #[error("max_keys is 0, it must be from 1 to {}", crate::slots::MAX_SLOTS)]
    ZeroMaxKeys,
    /// More keys than slots can be numbered.
    #[error(
        "max_keys of {max_keys} is too large, it must be from 1 to {}",
        crate::slots::MAX_SLOTS
    )]
    TooManyMaxKeys {
        /// The bound that was asked for.
        max_keys: usize,
    },
    /// [`Overflow::Share`](crate::Overflow::Share) over no bucket at all.
    #[error(
        "Overflow::Share over 0 buckets could serve nobody, it must be from 1 to {}",
        crate::builder::MAX_SHARED
    )]
    ZeroSharedBuckets,
    /// More shared buckets than make sense: they are allocated at once.
    #[error(
        "Overflow::Share over {buckets} buckets is too many, it must be from 1 to {}",
        crate::builder::MAX_SHARED
    )]
    TooManySharedBuckets {
        /// The number that was asked for.
        buckets: usize,
    },
}
