//! What happens to a new key when the limiter is full.

/// What happens to a *new* key when the limiter holds `max_keys` buckets and none of those that
/// it looks at is full. Keys that have a bucket are never affected, except by
/// [`Forget`](Self::Forget).
///
/// A new key looks at a small fixed number of buckets for one that can be retired, so that its
/// call takes microseconds whatever the size of the table.
///
/// ```
/// use tollgate::{Overflow, Quota, RateLimiter, Reason};
///
/// let limiter = RateLimiter::<String>::builder(Quota::per_minute(5)?)
///     .max_keys(1)
///     .overflow(Overflow::Deny)
///     .build()?;
/// assert!(limiter.try_acquire("alice").is_allowed());
/// let denied = limiter.try_acquire("bob").denied().expect("there is no room for bob");
/// assert_eq!(denied.reason(), Reason::TableFull);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Overflow {
    /// The new key is denied, with [`Reason::TableFull`](crate::Reason::TableFull). Fails closed
    /// and oversells nothing.
    #[default]
    Deny,
    /// The new key shares one of a fixed number of overflow buckets, picked by its hash, until
    /// there is room for a bucket of its own.
    ///
    /// May oversell: the keys without a bucket are admitted, all together, at most
    /// `buckets * (capacity + refill)`. A single key can spend from its overflow bucket and, when
    /// it has got a bucket of its own, from that: at most twice its quota. A key can be denied
    /// because of what its neighbours spent.
    Share,
    /// Of the buckets that were looked at, the one closest to full is dropped to make room. (If
    /// another thread takes that very bucket at the same moment, the new key is denied as by
    /// [`Deny`](Self::Deny).)
    ///
    /// May oversell: a dropped key that returns starts with a new bucket, and so gains what its
    /// old one lacked, at most one capacity each time it is dropped. Who can send many keys can
    /// have his own bucket dropped: do not use it against an adversary.
    Forget,
}
