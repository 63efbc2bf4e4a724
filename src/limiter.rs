//! The keyed limiter: clock, hash and cost, then the table.

use core::fmt;
use core::hash::{BuildHasher, Hash};
use std::borrow::{Borrow, ToOwned};
use std::hash::RandomState;

use crate::builder::{Builder, DEFAULT_MAX_KEYS};
use crate::clock::{Clock, MonotonicClock};
use crate::decision::{Decision, Peek};
use crate::error::CostError;
use crate::overflow::Overflow;
use crate::quota::Quota;
use crate::sweeper::Sweeper;
use crate::table::{Request, Table};
use crate::timestamp::Timestamp;

/// A token bucket for each key, created as keys come and dropped when it can no longer matter.
///
/// All calls take `&self` and may be made from any number of threads: share it by reference or
/// [`Arc`](std::sync::Arc). A decision for a known key is one clock reading, one hash, one lookup
/// and one compare-and-swap (none if it is denied); it takes no lock, allocates nothing and waits
/// for nobody. (A thread's first call registers the thread, once.)
///
/// `K` is the key type: name it, as in `RateLimiter::<String>::new(..)`. Calls take any borrowed form
/// of it, such as `&str` for `String` or `Arc<str>` (`K: Borrow<Q>`); the key is made owned, by way of
/// `K: From<Q::Owned>`, only when it is new. `C` is the [`Clock`], `S` the hasher.
///
/// One limiter lives on one time line: its clock's, or that of the instants that are passed to the
/// `_at` calls. Do not mix the two unless they are the same.
///
/// ```
/// use tollgate::{Quota, RateLimiter};
///
/// let limiter = RateLimiter::<String>::new(Quota::per_minute(5)?);
/// for _ in 0..5 {
///     assert!(limiter.try_acquire("alice").is_allowed());
/// }
/// assert!(limiter.try_acquire("alice").is_denied());
/// assert!(limiter.try_acquire("bob").is_allowed());
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
pub struct RateLimiter<K, C = MonotonicClock, S = RandomState> {
    quota: Quota,
    clock: C,
    hasher: S,
    table: Table<K>,
    pub(crate) sweeper: Sweeper,
}

impl<K: Hash + Eq> RateLimiter<K> {
    /// A limiter with the default settings: at most 1,000,000 keys, new keys beyond that denied,
    /// the [`MonotonicClock`], a hasher that is keyed at random.
    #[must_use]
    pub fn new(quota: Quota) -> Self {
        let table = Table::new(DEFAULT_MAX_KEYS, Overflow::default(), 0);
        Self::assemble(quota, MonotonicClock::new(), RandomState::new(), table)
    }

    /// Settings to begin with; see [`Builder`].
    pub fn builder(quota: Quota) -> Builder<K> {
        Builder::new(quota)
    }
}

impl<K, C, S> RateLimiter<K, C, S> {
    pub(crate) fn assemble(quota: Quota, clock: C, hasher: S, table: Table<K>) -> Self {
        Self { quota, clock, hasher, table, sweeper: Sweeper::default() }
    }

    /// The quota of every key.
    #[must_use]
    pub const fn quota(&self) -> &Quota {
        &self.quota
    }

    /// The clock.
    #[must_use]
    pub const fn clock(&self) -> &C {
        &self.clock
    }
}

impl<K: Hash + Eq, C, S> RateLimiter<K, C, S> {
    /// Keys that have a bucket: at most [`max_keys`](Self::max_keys), at every moment. O(1).
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether no key has a bucket. O(1).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The most keys that can have a bucket at the same time.
    #[must_use]
    pub fn max_keys(&self) -> usize {
        self.table.max_keys()
    }

    /// What happens to a new key when there is no room.
    #[must_use]
    pub const fn overflow(&self) -> Overflow {
        self.table.overflow()
    }

    /// As [`sweep`](Self::sweep), at the caller's time.
    pub fn sweep_at(&self, now: Timestamp) -> usize {
        self.table.sweep(self.quota.rate(), now.as_nanos())
    }
}

impl<K: Hash + Eq, C: Clock, S> RateLimiter<K, C, S> {
    /// Drops every bucket that is full, which changes no decision, and tells how many. (With
    /// [`Quota::initial`] below the capacity, every bucket that has been full for a minute.)
    ///
    /// Never necessary: each new key looks at two others, and drops them if they have been full
    /// for a minute. It frees memory when new keys have stopped
    /// coming. O(slots ever used at once); others go on meanwhile.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{ManualClock, Quota, RateLimiter};
    /// let clock = ManualClock::new();
    /// let limiter = RateLimiter::<String>::builder(Quota::per_second(1)?)
    ///     .clock(clock.clone())
    ///     .build()?;
    /// let _ = limiter.try_acquire("alice");
    /// assert_eq!((limiter.sweep(), limiter.len()), (0, 1));
    /// clock.advance(Duration::from_secs(1));
    /// assert_eq!((limiter.sweep(), limiter.len()), (1, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sweep(&self) -> usize {
        self.sweep_at(self.clock.now())
    }
}

impl<K: Hash + Eq, C: Clock, S: BuildHasher> RateLimiter<K, C, S> {
    /// May this key spend one token now? Takes it if so.
    ///
    /// A denial of a known key writes nothing: asking again and again costs an attacker's own time
    /// only. O(1); allocates only for a new key.
    ///
    /// ```
    /// # use tollgate::{Quota, RateLimiter};
    /// let limiter = RateLimiter::<u64>::new(Quota::per_second(1)?);
    /// assert!(limiter.try_acquire(&42).is_allowed());
    /// assert!(limiter.try_acquire(&42).is_denied());
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[inline]
    pub fn try_acquire<Q>(&self, key: &Q) -> Decision
    where
        K: Borrow<Q> + From<Q::Owned>,
        Q: Hash + Eq + ToOwned + ?Sized,
    {
        // One token is never above the capacity.
        self.acquire(key, self.quota.rate().per_token, self.clock.now())
    }

    /// May this key spend `cost` tokens now? Takes them if so, all or none.
    ///
    /// # Errors
    /// `cost` must be from 1 to the capacity; else nothing changes.
    ///
    /// ```
    /// # use tollgate::{CostError, Quota, RateLimiter};
    /// let limiter = RateLimiter::<String>::new(Quota::per_minute(5)?);
    /// assert!(limiter.try_acquire_n("alice", 3)?.is_allowed());
    /// assert!(limiter.try_acquire_n("alice", 3)?.is_denied());
    /// let never = CostError::AboveCapacity { cost: 6, capacity: 5 };
    /// assert_eq!(limiter.try_acquire_n("alice", 6), Err(never));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn try_acquire_n<Q>(&self, key: &Q, cost: u64) -> Result<Decision, CostError>
    where
        K: Borrow<Q> + From<Q::Owned>,
        Q: Hash + Eq + ToOwned + ?Sized,
    {
        self.try_acquire_at(key, cost, self.clock.now())
    }

    /// As [`try_acquire_n`](Self::try_acquire_n), at the caller's time: to replay a log, or for one
    /// clock reading over many checks.
    ///
    /// # Errors
    /// `cost` must be from 1 to the capacity; else nothing changes.
    ///
    /// ```
    /// # use tollgate::{Clock, Quota, RateLimiter};
    /// let limiter = RateLimiter::<String>::new(Quota::per_minute(5)?);
    /// let now = limiter.clock().now();
    /// for key in ["alice", "bob"] {
    ///     assert!(limiter.try_acquire_at(key, 1, now)?.is_allowed());
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn try_acquire_at<Q>(
        &self,
        key: &Q,
        cost: u64,
        now: Timestamp,
    ) -> Result<Decision, CostError>
    where
        K: Borrow<Q> + From<Q::Owned>,
        Q: Hash + Eq + ToOwned + ?Sized,
    {
        Ok(self.acquire(key, self.quota.price(cost)?, now))
    }

    #[inline]
    fn acquire<Q>(&self, key: &Q, price: u64, now: Timestamp) -> Decision
    where
        K: Borrow<Q> + From<Q::Owned>,
        Q: Hash + Eq + ToOwned + ?Sized,
    {
        self.table.acquire(key, self.request(key, price, now))
    }

    /// What the key's bucket holds now; a full (or initial) bucket if it has none. Writes nothing.
    ///
    /// ```
    /// # use tollgate::{Quota, RateLimiter};
    /// let limiter = RateLimiter::<String>::new(Quota::per_hour(5)?);
    /// let _ = limiter.try_acquire("alice");
    /// assert_eq!(limiter.peek("alice").available(), 4);
    /// assert_eq!(limiter.peek("bob").available(), 5);
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[must_use]
    pub fn peek<Q>(&self, key: &Q) -> Peek
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.peek_at(key, self.clock.now())
    }

    /// As [`peek`](Self::peek), at the caller's time.
    #[must_use]
    pub fn peek_at<Q>(&self, key: &Q, now: Timestamp) -> Peek
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let (rate, now) = (self.quota.rate(), now.as_nanos());
        let level = self.table.level(key, self.hasher.hash_one(key), rate, now);
        Peek::new(level, rate, now)
    }

    /// Gives `cost` tokens back, for a request that was admitted and then not served, and tells
    /// how many whole tokens the key has after it. What would go above the capacity is dropped;
    /// a key without a bucket has nothing to get back.
    ///
    /// # Errors
    /// `cost` must be from 1 to the capacity; else nothing changes.
    ///
    /// ```
    /// # use tollgate::{Quota, RateLimiter};
    /// let limiter = RateLimiter::<String>::new(Quota::per_hour(5)?);
    /// let _ = limiter.try_acquire_n("alice", 3)?;
    /// assert_eq!(limiter.refund("alice", 1)?, 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn refund<Q>(&self, key: &Q, cost: u64) -> Result<u64, CostError>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.refund_at(key, cost, self.clock.now())
    }

    /// As [`refund`](Self::refund), at the caller's time.
    ///
    /// # Errors
    /// `cost` must be from 1 to the capacity; else nothing changes.
    pub fn refund_at<Q>(&self, key: &Q, cost: u64, now: Timestamp) -> Result<u64, CostError>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let request = self.request(key, self.quota.price(cost)?, now);
        Ok(self.quota.rate().tokens(self.table.refund(key, request).credits))
    }

    /// Forgets the key, whatever its bucket holds, and tells whether it had one. If it returns, it
    /// starts anew: this hands it a full bucket, which is what it is for.
    ///
    /// ```
    /// # use tollgate::{Quota, RateLimiter};
    /// let limiter = RateLimiter::<String>::new(Quota::per_hour(1)?);
    /// let _ = limiter.try_acquire("alice");
    /// assert!(limiter.remove("alice"));
    /// assert!(limiter.try_acquire("alice").is_allowed());
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn remove<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.table.remove(key, self.hasher.hash_one(key))
    }

    #[inline]
    fn request<Q>(&self, key: &Q, price: u64, now: Timestamp) -> Request<'_>
    where
        Q: Hash + ?Sized,
    {
        Request {
            rate: self.quota.rate(),
            price,
            now: now.as_nanos(),
            hash: self.hasher.hash_one(key),
        }
    }
}

impl<K: Hash + Eq, C, S> fmt::Debug for RateLimiter<K, C, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Neither keys nor the hasher, whose secret state is what stops hash flooding.
        f.debug_struct("RateLimiter")
            .field("quota", &format_args!("{}", self.quota))
            .field("len", &self.len())
            .field("max_keys", &self.max_keys())
            .field("overflow", &self.overflow())
            .finish_non_exhaustive()
    }
}
