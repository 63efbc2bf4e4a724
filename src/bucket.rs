//! One bucket on its own: no key, no map, no clock, no allocation.

use crate::cell::{Acquire, StateCell};
use crate::decision::{Decision, Peek, Reason};
use crate::error::CostError;
use crate::quota::Quota;
use crate::sync::AtomicU128;
use crate::timestamp::Timestamp;

/// One lock-free token bucket, for one global limit or inside your own structures. Works without
/// std.
///
/// All calls take `&self` and may be made from any number of threads. The caller gives the time;
/// an instant before the bucket's own tick counts as that tick, so a clock that is stale or set
/// back mints nothing.
///
/// ```
/// use tollgate::{Bucket, Quota, Timestamp};
///
/// let bucket = Bucket::new(Quota::per_second(2)?);
/// let now = Timestamp::from_nanos(0);
/// assert!(bucket.try_acquire_at(2, now)?.is_allowed());
/// assert!(bucket.try_acquire_at(1, now)?.is_denied());
/// assert!(bucket.try_acquire_at(1, Timestamp::from_nanos(500_000_000))?.is_allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Bucket {
    quota: Quota,
    cell: StateCell,
}

impl Bucket {
    /// A new bucket; its time begins at its first use.
    #[must_use]
    pub fn new(quota: Quota) -> Self {
        Self { quota, cell: StateCell::fresh() }
    }

    /// Takes `cost` tokens at `now` if they are there: one load, and one compare-and-swap if they
    /// are. A denial writes nothing. (One exception: if the very first request is denied, because
    /// of [`Quota::initial`], it sets the tick from which the bucket fills.)
    ///
    /// # Errors
    /// `cost` must be from 1 to the capacity; else nothing changes.
    #[inline]
    pub fn try_acquire_at(&self, cost: u64, now: Timestamp) -> Result<Decision, CostError> {
        let price = self.quota.price(cost)?;
        let now = now.as_nanos();
        let rate = self.quota.rate();
        // A bucket on its own is never retired, so there is no floor, and the loop ends at once.
        loop {
            let acquire: Acquire = self.cell.acquire(rate, price, now, || 0);
            if let Some(decision) = Decision::from_acquire(acquire, rate, now, Reason::Spent) {
                return Ok(decision);
            }
        }
    }

    /// What the bucket holds at `now`. Writes nothing.
    #[must_use]
    pub fn peek_at(&self, now: Timestamp) -> Peek {
        let now = now.as_nanos();
        let rate = self.quota.rate();
        let level = self.cell.level().unwrap_or_else(|| rate.start(now));
        Peek::new(level, rate, now)
    }

    /// Gives `cost` tokens back at `now`, and tells how many whole tokens there are after it.
    /// What would go above the capacity is dropped.
    ///
    /// For a request that was admitted and then not served. Refunding what was never taken mints
    /// tokens: that is between you and your quota.
    ///
    /// # Errors
    /// `cost` must be from 1 to the capacity; else nothing changes.
    ///
    /// ```
    /// # use tollgate::{Bucket, Quota, Timestamp};
    /// let bucket = Bucket::new(Quota::per_second(5)?);
    /// let now = Timestamp::from_nanos(0);
    /// let _ = bucket.try_acquire_at(3, now)?;
    /// assert_eq!(bucket.refund_at(1, now)?, 3);
    /// assert_eq!(bucket.refund_at(5, now)?, 5); // never above the capacity
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn refund_at(&self, cost: u64, now: Timestamp) -> Result<u64, CostError> {
        let price = self.quota.price(cost)?;
        let now = now.as_nanos();
        let rate = self.quota.rate();
        let level = self.cell.refund(rate, price, now).unwrap_or_else(|| rate.start(now));
        Ok(rate.tokens(level.credits))
    }

    /// The quota of this bucket.
    #[must_use]
    pub const fn quota(&self) -> &Quota {
        &self.quota
    }
}

/// Whether the 128-bit operations of this machine are lock-free, asked at run time.
///
/// True on x86-64 with CMPXCHG16B (every processor since 2008; the crate `portable-atomic` checks
/// at run time unless the target says so), `AArch64`, s390x, powerpc64 (POWER8 and later), and
/// riscv64 with Zacas. Elsewhere every call still works, but through a short spin lock.
///
/// On x86-64 a 128-bit *load* is one instruction only with AVX (since 2011); without it, it is a
/// CMPXCHG16B, which takes the cache line for writing even if it changes nothing.
///
/// ```
/// assert!(tollgate::is_lock_free() || !cfg!(target_arch = "aarch64"));
/// ```
#[must_use]
pub fn is_lock_free() -> bool {
    AtomicU128::is_lock_free()
}
