//! How a limiter is put together.

use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::marker::PhantomData;
use std::hash::RandomState;

use crate::clock::{Clock, MonotonicClock};
use crate::error::BuildError;
use crate::limiter::RateLimiter;
use crate::overflow::Overflow;
use crate::quota::Quota;
use crate::slots::MAX_SLOTS;
use crate::table::Table;

pub(crate) const DEFAULT_MAX_KEYS: u32 = 1_000_000;
const DEFAULT_SHARED: usize = 64;
pub(crate) const MAX_SHARED: usize = 1 << 20;

/// Settings of a [`RateLimiter`] that is about to be built; made by [`RateLimiter::builder`].
///
/// ```
/// use tollgate::{MonotonicClock, Overflow, Quota, RateLimiter};
///
/// let limiter = RateLimiter::<String>::builder(Quota::per_second(100)?.burst(250)?)
///     .max_keys(50_000)
///     .overflow(Overflow::Deny)
///     .clock(MonotonicClock::new())
///     .hasher(std::hash::RandomState::new())
///     .build()?;
/// assert_eq!(limiter.max_keys(), 50_000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[must_use = "a builder does nothing until it is built"]
pub struct Builder<K, C = MonotonicClock, S = RandomState> {
    quota: Quota,
    max_keys: usize,
    overflow: Overflow,
    shared_buckets: usize,
    clock: C,
    hasher: S,
    key: PhantomData<fn() -> K>,
}

impl<K> Builder<K> {
    pub(crate) fn new(quota: Quota) -> Self {
        Self {
            quota,
            max_keys: DEFAULT_MAX_KEYS as usize,
            overflow: Overflow::default(),
            shared_buckets: DEFAULT_SHARED,
            clock: MonotonicClock::new(),
            hasher: RandomState::new(),
            key: PhantomData,
        }
    }
}

impl<K, C, S> Builder<K, C, S> {
    /// The most keys that have a bucket at the same time: 1 to `2^31 - 2`, by default 1,000,000.
    ///
    /// Memory is taken as keys come, not in advance: `scripts/bench --case memory` measures the
    /// bytes per key.
    pub fn max_keys(mut self, max_keys: usize) -> Self {
        self.max_keys = max_keys;
        self
    }

    /// What happens to a new key when the limiter is full; by default [`Overflow::Deny`].
    pub fn overflow(mut self, overflow: Overflow) -> Self {
        self.overflow = overflow;
        self
    }

    /// The number of overflow buckets under [`Overflow::Share`]: 1 to `2^20`, by default 64.
    /// Unused with other policies. They are allocated at once, a cache line or two each.
    pub fn shared_buckets(mut self, buckets: usize) -> Self {
        self.shared_buckets = buckets;
        self
    }

    /// The clock; by default [`MonotonicClock`].
    pub fn clock<D: Clock>(self, clock: D) -> Builder<K, D, S> {
        let Self { quota, max_keys, overflow, shared_buckets, clock: _, hasher, key } = self;
        Builder { quota, max_keys, overflow, shared_buckets, clock, hasher, key }
    }

    /// The hasher of keys; by default [`RandomState`], which is keyed against hash flooding.
    ///
    /// A faster one is fine if it is seeded at random too (foldhash, ahash), or if nobody outside
    /// chooses the keys. All 64 bits of the hash must be good.
    pub fn hasher<T: BuildHasher>(self, hasher: T) -> Builder<K, C, T> {
        let Self { quota, max_keys, overflow, shared_buckets, clock, hasher: _, key } = self;
        Builder { quota, max_keys, overflow, shared_buckets, clock, hasher, key }
    }

    /// The limiter.
    ///
    /// # Errors
    /// [`BuildError`] if `max_keys`, or `shared_buckets` under [`Overflow::Share`], is out of
    /// range.
    pub fn build(self) -> Result<RateLimiter<K, C, S>, BuildError>
    where
        K: Hash + Eq,
    {
        if self.max_keys == 0 {
            return Err(BuildError::ZeroMaxKeys);
        }
        let too_many = BuildError::TooManyMaxKeys { max_keys: self.max_keys };
        if self.max_keys > MAX_SLOTS {
            return Err(too_many);
        }
        let max_keys = u32::try_from(self.max_keys).map_err(|_| too_many)?;
        if self.overflow == Overflow::Share {
            match self.shared_buckets {
                0 => return Err(BuildError::ZeroSharedBuckets),
                1..=MAX_SHARED => {}
                buckets => return Err(BuildError::TooManySharedBuckets { buckets }),
            }
        }
        let table = Table::new(max_keys, self.overflow, self.shared_buckets);
        Ok(RateLimiter::assemble(self.quota, self.clock, self.hasher, table))
    }
}

impl<K, C, S> fmt::Debug for Builder<K, C, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("quota", &self.quota)
            .field("max_keys", &self.max_keys)
            .field("overflow", &self.overflow)
            .field("shared_buckets", &self.shared_buckets)
            .finish_non_exhaustive()
    }
}
