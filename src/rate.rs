//! A quota in the integers that the hot path computes with.
//!
//! For T tokens per Q nanoseconds let g = gcd(T, Q). With a token cut into P = Q/g credits, each
//! nanosecond brings exactly N = T/g credits: refill is one multiplication, with no division and
//! nothing rounded.
//!
//! When `capacity * P` does not fit the 60 bits of a word, the rate is rounded *down* to a
//! fraction with a small enough denominator, and where nanoseconds are too fine for that, time is
//! counted in larger units. The loss is below one part in 2^30.

use crate::state::MAX_CREDITS;

/// How finely the rate of an inexact quota is kept: it loses less than one part in `2^30`.
const PRECISION_BITS: u32 = 30;

/// Units of `2^0` to `2^31` ns (2 s) are tried in turn, before one is made to measure.
const MAX_SHIFT: u32 = PRECISION_BITS + 1;

/// Credits per token, credits per unit of time, and the bounds in credits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Rate {
    /// P: credits that make one token, at least 1.
    pub(crate) per_token: u64,
    /// N: credits that come in each unit of time. 0: nothing ever comes back.
    pub(crate) per_unit: u64,
    /// Nanoseconds in a unit of time: 1 where the quota is exact, at least 1.
    pub(crate) unit: u64,
    /// Credits of a full bucket, at most [`MAX_CREDITS`].
    pub(crate) capacity: u64,
    /// Credits of a new bucket, at most `capacity`.
    pub(crate) initial: u64,
}

impl Rate {
    /// A bucket that is never refilled: a token is one credit.
    pub(crate) const fn without_refill(capacity: u64, initial: u64) -> Self {
        Self { per_token: 1, per_unit: 0, unit: 1, capacity, initial }
    }

    /// The rate of `tokens` per `period` nanoseconds whose full bucket fits a word, and whether it
    /// is exact. All arguments are at least 1 and `initial <= capacity`; `tokens` and `capacity`
    /// are at most `2^50` and `period` is below `2^59`, which keeps every product below `2^128`.
    pub(crate) fn new(tokens: u64, period: u64, capacity: u64, initial: u64) -> (Self, bool) {
        let wanted = Fraction { num: u128::from(tokens), den: u128::from(period) };
        let largest = MAX_CREDITS / capacity;
        let (per_token, per_unit, unit) = (0..=MAX_SHIFT)
            .find_map(|shift| {
                let in_unit = Fraction { num: wanted.num << shift, den: wanted.den };
                let kept = in_unit.largest_below(u128::from(largest));
                in_unit.is_near(kept).then_some((kept.den, kept.num, 1 << shift))
            })
            .unwrap_or_else(|| wanted.in_larger_units(u128::from(largest)));
        let narrow = |wide: u128| u64::try_from(wide).unwrap_or(u64::MAX);
        let per_token = narrow(per_token);
        let rate = Self {
            per_token,
            per_unit: narrow(per_unit),
            unit: narrow(unit),
            capacity: capacity * per_token,
            initial: initial * per_token,
        };
        let is_exact =
            unit == 1 && wanted.equals(Fraction { num: per_unit, den: u128::from(per_token) });
        (rate, is_exact)
    }

    /// The whole tokens in so many credits.
    pub(crate) const fn tokens(&self, credits: u64) -> u64 {
        credits / self.per_token
    }

    /// The rate as tokens in nanoseconds, in lowest terms.
    pub(crate) const fn in_lowest_terms(&self) -> (u64, u128) {
        let nanos = self.per_token as u128 * self.unit as u128;
        let (mut common, mut rest) = (nanos, self.per_unit as u128);
        while rest != 0 {
            (common, rest) = (rest, common % rest);
        }
        #[expect(clippy::cast_possible_truncation, reason = "a divisor of a u64 is one")]
        let common_64 = common as u64;
        (self.per_unit / common_64, nanos / common)
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
    /// `largest`, in lowest terms.
    ///
    /// A walk down the Stern-Brocot tree in whole runs, as in the continued fraction. `low` and
    /// `high` are neighbours around the value all the way, so when the next mediant's
    /// denominator is too large, `low` is the best from below.
    fn largest_below(self, largest: u128) -> Self {
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
        Self { num: low.0, den: low.1 }
    }

    /// Credits per token, credits per unit and nanoseconds per unit, for a rate that a fraction
    /// with a denominator of at most `largest` does not come near.
    ///
    /// A token is `largest` credits. In `2^31` ns come `z` credits, perhaps not a whole number. If
    /// `z >= 1`, the unit is the time for `floor(z)` credits, else for one, rounded up to whole
    /// nanoseconds. That is at least `2^30` of them, so rounding up costs less than one part in
    /// `2^30`; and the unit is about 2 s at most, or a small part of the time for a token.
    fn in_larger_units(self, largest: u128) -> (u128, u128, u128) {
        // Does not overflow: as the fraction is not near, num * largest < 2^32 * den < 2^91.
        let per_unit = (((self.num * largest) << MAX_SHIFT) / self.den).max(1);
        let unit = (per_unit * self.den).div_ceil(self.num * largest);
        (largest, per_unit, unit)
    }

    fn equals(self, other: Self) -> bool {
        self.num * other.den == other.num * self.den
    }

    /// Whether `other`, which is not above this one, is less than one part in `2^30` below.
    fn is_near(self, other: Self) -> bool {
        // (this - other) / this < 2^-30, cleared of denominators.
        let whole = self.num * other.den;
        let missing = whole - other.num * self.den;
        missing < whole.div_ceil(1 << PRECISION_BITS)
    }
}
