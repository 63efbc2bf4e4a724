//! What the properties compare with: token buckets written from their definition, for being right
//! and not for being fast. Nothing here knows how tollgate computes.
//!
//! [`Reference`] is one bucket in rational numbers of unlimited size, [`KeyedReference`] is one of
//! them for each key, [`IntegerReference`] is the same bucket in 128-bit integers for runs of
//! millions of steps, and [`oversold`] looks for an interval in which too much was admitted.

use std::collections::HashMap;

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{ToPrimitive as _, Zero as _};

/// A quota in its own numbers: `tokens` come back in each `period` of nanoseconds. Both are 0 if
/// nothing ever comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) tokens: u64,
    pub(crate) period: u64,
    pub(crate) capacity: u64,
    pub(crate) initial: u64,
}

/// The answer to a request. A `wait` in nanoseconds; None is never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Allowed { remaining: u64, at: u64 },
    Denied { remaining: u64, wait: Option<u64> },
}

/// What is there at one instant. Waits in nanoseconds; None is never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) available: u64,
    /// Until one more whole token is there.
    pub(crate) next: Option<u64>,
    /// Until nothing more comes.
    pub(crate) full: Option<u64>,
}

pub(crate) fn whole(number: u64) -> BigRational {
    BigRational::from_integer(BigInt::from(number))
}

/// `top / bottom`.
pub(crate) fn ratio(top: impl Into<BigInt>, bottom: impl Into<BigInt>) -> BigRational {
    BigRational::new(top.into(), bottom.into())
}

#[derive(Clone, Debug)]
struct Level {
    tokens: BigRational,
    tick: u64,
}

/// One token bucket, exactly.
#[derive(Clone, Debug)]
pub(crate) struct Reference {
    capacity: BigRational,
    initial: BigRational,
    per_nanosecond: BigRational,
    /// None until the first use.
    level: Option<Level>,
    /// The first use counts from here, or later.
    floor: u64,
}

impl Reference {
    pub(crate) fn new(terms: Terms) -> Self {
        let per_nanosecond = match terms.period {
            0 => BigRational::zero(),
            period => ratio(terms.tokens, period),
        };
        Self::with_rate(terms, per_nanosecond)
    }

    /// With a rate of so many tokens per nanosecond in place of that of the terms.
    pub(crate) fn with_rate(terms: Terms, per_nanosecond: BigRational) -> Self {
        Self {
            capacity: whole(terms.capacity),
            initial: whole(terms.initial),
            per_nanosecond,
            level: None,
            floor: 0,
        }
    }

    /// The level from which everything at `now` is counted.
    fn base(&self, now: u64) -> Level {
        self.level
            .clone()
            .unwrap_or_else(|| Level { tokens: self.initial.clone(), tick: now.max(self.floor) })
    }

    fn grown(&self, base: &Level, now: u64) -> BigRational {
        // 0 for an instant before the tick.
        let elapsed = now.saturating_sub(base.tick);
        if elapsed == 0 {
            return base.tokens.clone();
        }
        let tokens = &base.tokens + &self.per_nanosecond * whole(elapsed);
        if tokens > self.capacity { self.capacity.clone() } else { tokens }
    }

    /// The tokens at `now`, parts of one included.
    pub(crate) fn tokens_at(&self, now: u64) -> BigRational {
        self.grown(&self.base(now), now)
    }

    /// The tokens at `now` that can be spent.
    pub(crate) fn available_at(&self, now: u64) -> u64 {
        floor(&self.tokens_at(now))
    }

    pub(crate) fn is_full_at(&self, now: u64) -> bool {
        self.tokens_at(now) == self.capacity
    }

    pub(crate) fn is_used(&self) -> bool {
        self.level.is_some()
    }

    /// The least wait after which there are so many tokens; None if no instant is late enough.
    pub(crate) fn wait_for(&self, tokens: &BigRational, now: u64) -> Option<u64> {
        let base = self.base(now);
        if self.grown(&base, now) >= *tokens {
            return Some(0);
        }
        if self.per_nanosecond.is_zero() || *tokens > self.capacity {
            return None;
        }
        let nanoseconds = ((tokens - &base.tokens) / &self.per_nanosecond).ceil().to_integer();
        let due = (BigInt::from(base.tick) + nanoseconds).to_u64()?;
        // By definition, whatever the formula: then, and not a nanosecond earlier.
        assert!(due > now && due > base.tick);
        assert!(self.grown(&base, due) >= *tokens);
        assert!(self.grown(&base, due - 1) < *tokens);
        Some(due - now)
    }

    pub(crate) fn acquire(&mut self, cost: u64, now: u64) -> Verdict {
        let base = self.base(now);
        let tokens = self.grown(&base, now);
        let price = whole(cost);
        if tokens >= price {
            let tick = base.tick.max(now);
            let left = tokens - price;
            let remaining = floor(&left);
            self.level = Some(Level { tokens: left, tick });
            return Verdict::Allowed { remaining, at: tick };
        }
        let wait = self.wait_for(&price, now);
        // The time of a new bucket begins with its first request, whatever becomes of that.
        self.level = Some(base);
        Verdict::Denied { remaining: floor(&tokens), wait }
    }

    /// Gives back, and tells the whole tokens after it. A bucket without a first use has all that
    /// it could get back.
    pub(crate) fn refund(&mut self, cost: u64, now: u64) -> u64 {
        let base = self.base(now);
        let tokens = self.grown(&base, now);
        if self.level.is_none() {
            return floor(&tokens);
        }
        let tokens = (tokens + whole(cost)).min(self.capacity.clone());
        let available = floor(&tokens);
        self.level = Some(Level { tokens, tick: base.tick.max(now) });
        available
    }

    pub(crate) fn read(&self, now: u64) -> Reading {
        let available = self.available_at(now);
        Reading {
            available,
            next: self.wait_for(&whole(available + 1), now),
            full: self.wait_for(&self.capacity, now),
        }
    }

    /// Forgets everything but that the next use begins no earlier than this one was last counted,
    /// and if it has become full, no earlier than that.
    pub(crate) fn begin_again(&mut self, is_full: bool) {
        let Some(Level { tick, .. }) = self.level else { return };
        let rest = if is_full { self.wait_for(&self.capacity, tick).unwrap_or(0) } else { 0 };
        self.level = None;
        self.floor = self.floor.max(tick + rest);
    }
}

fn floor(tokens: &BigRational) -> u64 {
    tokens.floor().to_integer().to_u64().expect("a number of tokens is from 0 to the capacity")
}

/// A bucket for each key, and none is ever forgotten unless it is removed on demand.
#[derive(Clone, Debug)]
pub(crate) struct KeyedReference {
    new: Reference,
    keys: HashMap<u64, Reference>,
}

impl KeyedReference {
    pub(crate) fn new(terms: Terms) -> Self {
        Self { new: Reference::new(terms), keys: HashMap::new() }
    }

    /// To look at.
    pub(crate) fn get(&self, key: u64) -> &Reference {
        self.keys.get(&key).unwrap_or(&self.new)
    }

    /// To use.
    pub(crate) fn get_mut(&mut self, key: u64) -> &mut Reference {
        self.keys.entry(key).or_insert_with(|| self.new.clone())
    }

    pub(crate) fn remove(&mut self, key: u64) {
        self.keys.remove(&key);
    }

    /// The buckets in use that are not full: those that a limiter must hold.
    pub(crate) fn not_full_at(&self, now: u64) -> impl Iterator<Item = &Reference> {
        self.keys.values().filter(move |bucket| bucket.is_used() && !bucket.is_full_at(now))
    }
}

/// The same bucket in integers: a unit is one token divided by the period, so that each nanosecond
/// brings `tokens` units. Below 2^97 for everything within the limits of a quota of 2^32 tokens.
#[derive(Clone, Debug)]
pub(crate) struct IntegerReference {
    per_nanosecond: u128,
    per_token: u128,
    capacity: u128,
    units: u128,
    /// None until the first use.
    tick: Option<u64>,
}

impl IntegerReference {
    /// Of terms with a refill.
    pub(crate) fn new(terms: Terms) -> Self {
        let per_token = u128::from(terms.period);
        Self {
            per_nanosecond: terms.tokens.into(),
            per_token,
            capacity: u128::from(terms.capacity) * per_token,
            units: u128::from(terms.initial) * per_token,
            tick: None,
        }
    }

    pub(crate) fn acquire(&mut self, cost: u64, now: u64) -> Verdict {
        let tick = *self.tick.get_or_insert(now);
        let elapsed = u128::from(now.saturating_sub(tick));
        let units = (self.units + elapsed * self.per_nanosecond).min(self.capacity);
        let price = u128::from(cost) * self.per_token;
        if units < price {
            let nanoseconds = (price - self.units).div_ceil(self.per_nanosecond);
            let due = u128::from(tick) + nanoseconds;
            let wait = u64::try_from(due).ok().map(|due| due - now);
            return Verdict::Denied { remaining: self.whole(units), wait };
        }
        self.units = units - price;
        let tick = tick.max(now);
        self.tick = Some(tick);
        Verdict::Allowed { remaining: self.whole(self.units), at: tick }
    }

    fn whole(&self, units: u128) -> u64 {
        u64::try_from(units / self.per_token).expect("not above the capacity")
    }
}

/// An admission: the instant at which it counts, and its cost.
pub(crate) type Admission = (u64, u64);

/// An interval in which more was admitted than `capacity + refill`, by the definition of G1: over
/// every pair of admissions, with no slack. Every interval of time is covered, as one between two
/// admissions that contains the same ones has the least refill.
pub(crate) fn oversold(terms: Terms, admissions: &[Admission]) -> Option<String> {
    let mut admissions = admissions.to_vec();
    admissions.sort_unstable();
    let tokens = u128::from(terms.tokens);
    // Everything is multiplied by the period. All products are below 2^50 * 2^64 = 2^114 and their
    // sums below that times the number of admissions; overflow would panic, also in release.
    let period = u128::from(terms.period).max(1);
    let times = |left: u128, right: u128| left.checked_mul(right).expect("below 2^128");
    let capacity = times(terms.capacity.into(), period);
    for (first, &(start, _)) in admissions.iter().enumerate() {
        let mut spent = 0_u128;
        for &(end, cost) in admissions.iter().skip(first) {
            spent += u128::from(cost);
            let refill = times(tokens, (end - start).into());
            let bound = capacity.checked_add(refill).expect("below 2^128");
            if times(spent, period) > bound {
                return Some(format!(
                    "{spent} tokens admitted from {start} to {end}, in {} ns, under {terms:?}: \
                     {admissions:?}",
                    end - start
                ));
            }
        }
    }
    None
}
