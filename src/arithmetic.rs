//! The pure arithmetic of a bucket: refill, take, give, and when a price is due.
//!
//! No atomics and no clock here, so that each rule is tested alone against exact rationals.

use crate::rate::Rate;
use crate::state::Level;

impl Rate {
    /// A new bucket at this instant.
    #[inline]
    pub(crate) const fn start(&self, tick: u64) -> Level {
        Level { credits: self.initial, tick }
    }

    /// The level with the refill counted up to `now`.
    ///
    /// `now` may be stale: another thread can have counted up to a later tick after this
    /// caller read its clock. Then nothing has elapsed, and the tick stays where it is.
    #[inline]
    #[must_use]
    pub(crate) fn refill(&self, level: Level, now: u64) -> Level {
        let Some(elapsed) = now.checked_sub(level.tick) else { return level };
        // The branch is free; a division by 1 would not be.
        let units = if self.unit == 1 { elapsed } else { elapsed / self.unit };
        // Saturation is exact: whatever is above the capacity is cut off here.
        let credits =
            units.saturating_mul(self.per_unit).saturating_add(level.credits).min(self.capacity);
        let counted = units * self.unit;
        // A part of a unit is left only where the quota is not exact. It stays uncounted, and its
        // time with it, so that nothing is lost by polling. But a bucket that this part would have
        // filled must not carry it past the clamp: time spent full earns nothing.
        let would_be_full = credits.saturating_add(self.per_unit) >= self.capacity;
        let tick = if counted != elapsed && would_be_full { now } else { level.tick + counted };
        Level { credits, tick }
    }

    /// The level after paying, if it has the price.
    #[inline]
    #[must_use]
    pub(crate) fn take(level: Level, price: u64) -> Option<Level> {
        let credits = level.credits.checked_sub(price)?;
        Some(Level { credits, ..level })
    }

    /// The level at `now` with credits given back, cut off at the capacity.
    #[inline]
    #[must_use]
    pub(crate) fn give(&self, level: Level, price: u64, now: u64) -> Level {
        let level = self.refill(level, now);
        let credits = level.credits.saturating_add(price).min(self.capacity);
        // Once more, for the rule about a bucket that is about to be full.
        self.refill(Level { credits, ..level }, now)
    }

    /// The first tick at which this level holds the price: 0 if it holds it already, whatever the
    /// time; None if no tick is late enough.
    #[inline]
    #[must_use]
    pub(crate) fn due(&self, level: Level, price: u64) -> Option<u64> {
        let missing = price.saturating_sub(level.credits);
        if missing == 0 {
            return Some(0);
        }
        if self.per_unit == 0 || price > self.capacity {
            return None;
        }
        let units = u128::from(missing.div_ceil(self.per_unit));
        let wait = u64::try_from(units * u128::from(self.unit)).ok()?;
        level.tick.checked_add(wait)
    }

    /// Whether the level is at its capacity.
    #[inline]
    #[must_use]
    pub(crate) const fn is_full(&self, level: Level) -> bool {
        level.credits == self.capacity
    }
}
