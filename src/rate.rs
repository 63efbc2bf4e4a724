//! A quota in the integers that the hot path computes with.
//!
//! For T tokens per Q nanoseconds let g = gcd(T, Q). With a token cut into P = Q/g credits, each
//! nanosecond brings exactly N = T/g credits: refill is one multiplication, with no division and
//! nothing rounded.
//!
//! When `capacity * P` does not fit the 60 bits of a word, the rate is rounded *down* to a
//! fraction `a/b` with a small enough `b`, and where nanoseconds are too fine for that, time is
//! counted in units of `2^shift` nanoseconds. The loss is below one part in 2^30.

use crate::state::MAX_CREDITS;

/// How finely the rate of an inexact quota is kept: it loses less than one part in `2^30`.
const PRECISION_BITS: u32 = 30;

/// A time unit is never above `2^60` ns (36 years), so that a shift is always in range.
const MAX_SHIFT: u32 = 60;

/// Credits per token, credits per unit of time, and the bounds in credits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    /// P: credits that make one token, at least 1.
    pub(crate) per_token: u64,
    /// N: credits that come in each unit of time. 0: nothing ever comes back.
    pub(crate) per_unit: u64,
    /// A unit of time is `2^shift` nanoseconds: 0 where the quota is exact.
    pub(crate) shift: u32,
    /// Credits of a full bucket, at most [`MAX_CREDITS`].
    pub(crate) capacity: u64,
    /// Credits of a new bucket, at most `capacity`.
    pub(crate) initial: u64,
}

impl Rate {
    /// A bucket that is never refilled: a token is one credit.
    pub(crate) const fn without_refill(capacity: u64, initial: u64) -> Self {
        Self { per_token: 1, per_unit: 0, shift: 0, capacity, initial }
    }

    /// The finest rate for `tokens` per `period` nanoseconds whose full bucket fits a word, and
    /// whether it is exact. All arguments are at least 1, `capacity <= MAX_CREDITS` and
    /// `initial <= capacity`. None: no rate within the promised precision fits.
    pub(crate) fn new(
        tokens: u64,
        period: u64,
        capacity: u64,
        initial: u64,
    ) -> Option<(Self, bool)> {
        let largest_per_token = MAX_CREDITS / capacity;
        (0..=MAX_SHIFT).find_map(|shift| {
            let wanted = Fraction { num: u128::from(tokens) << shift, den: u128::from(period) };
            let kept = wanted.largest_below(u128::from(largest_per_token))?;
            if !wanted.is_near(kept) {
                return None;
            }
            let per_token = u64::try_from(kept.den).ok()?;
            let per_unit = u64::try_from(kept.num).ok()?;
            let exact = shift == 0 && wanted.equals(kept);
            let rate = Self {
                per_token,
                per_unit,
                shift,
                capacity: capacity * per_token,
                initial: initial * per_token,
            };
            Some((rate, exact))
        })
    }

    /// The whole tokens in so many credits.
    pub(crate) const fn tokens(&self, credits: u64) -> u64 {
        credits / self.per_token
    }
}

/// A positive fraction, or zero.
#[derive(Clone, Copy, Debug)]
struct Fraction {
    num: u128,
    den: u128,
}

impl Fraction {
    /// The largest fraction that is not above this one and whose denominator is at most
    /// `largest`; None where that is zero.
    ///
    /// A walk down the Stern-Brocot tree in whole runs, as in the continued fraction. `low` and
    /// `high` are neighbours around the value all the way, so when the next mediant's
    /// denominator is too large, `low` is the best from below.
    fn largest_below(self, largest: u128) -> Option<Self> {
        let (mut low, mut high) = ((0_u128, 1_u128), (1_u128, 0_u128));
        loop {
            // How far low can go towards high and stay at or below the value:
            // (low.0 + n * high.0) / (low.1 + n * high.1) <= num / den.
            let gap = self.num * low.1 - low.0 * self.den;
            if gap == 0 {
                break;
            }
            let over = high.0 * self.den - self.num * high.1;
            let fit = (largest - low.1).checked_div(high.1).unwrap_or(u128::MAX);
            let steps = gap.checked_div(over).unwrap_or(u128::MAX).min(fit);
            low = (low.0 + steps * high.0, low.1 + steps * high.1);
            if steps == fit {
                break;
            }
            // How far high can come down towards low and stay above the value.
            let gap = self.num * low.1 - low.0 * self.den;
            if gap == 0 {
                break;
            }
            let fit = (largest - high.1) / low.1;
            let steps = ((over - 1) / gap).min(fit);
            high = (high.0 + steps * low.0, high.1 + steps * low.1);
            if low.1 + high.1 > largest {
                break;
            }
        }
        (low.0 > 0).then_some(Self { num: low.0, den: low.1 })
    }

    fn equals(self, other: Self) -> bool {
        self.num * other.den == other.num * self.den
    }

    /// Whether `other`, which is not above this one, is less than one part in `2^30` below.
    fn is_near(self, other: Self) -> bool {
        // (this - other) / this < 2^-30, cleared of denominators.
        let whole = self.num * other.den;
        let missing = whole - other.num * self.den;
        missing < whole >> PRECISION_BITS || missing == 0
    }
}
