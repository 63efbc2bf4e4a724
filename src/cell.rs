//! One bucket as an atomic word: the only compare-and-swap loop on it, and its named transitions.
//!
//! Each transition is a pure step from the state that was seen to the state to write; [`update`]
//! is the one loop that carries it out. A step that changes nothing writes nothing, so a denial
//! is a plain load and an attacked key's cache line stays shared between the cores.
//!
//! [`update`]: StateCell::update

use core::fmt;

use crate::rate::Rate;
use crate::state::{Level, State};
use crate::sync::{AtomicU128, Backoff, Ordering};

/// What became of a request for credits.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub(crate) enum Acquire {
    /// Paid: what is left, and the instant at which it counts.
    Allowed { left: Level, at: u64 },
    /// Not paid: what there is, and the first tick at which the price is due.
    Denied { level: Level, due: Option<u64> },
    /// The bucket is dead: take it out of the map and look the key up again.
    Retired,
}

/// What became of an attempt to retire a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Retire {
    /// This call retired it: take it out of the map.
    Marked,
    /// It was retired already: help to take it out of the map.
    Already,
    /// It is in use; so full it was at the instant of the question.
    InUse(Level),
    /// A thread has just put it into the map and is about to use it.
    Fresh,
}

/// What a step wants done with the state it was shown.
enum Step<T> {
    Keep(T),
    Write(State, T),
}

pub(crate) struct StateCell {
    word: AtomicU128,
}

impl StateCell {
    /// A bucket that nobody has used.
    #[inline]
    pub(crate) fn fresh() -> Self {
        Self { word: AtomicU128::new(State::Fresh.pack()) }
    }

    /// Takes `price` credits at `now`, if they are there.
    ///
    /// `floor` is asked only when the bucket was seen fresh. It gives the latest tick at which a
    /// retired bucket was full: a bucket begins no earlier, so that a caller with a stale clock
    /// cannot begin a second bucket in the past of one that its key has already had.
    #[inline]
    pub(crate) fn acquire(
        &self,
        rate: &Rate,
        price: u64,
        now: u64,
        floor: impl Fn() -> u64,
    ) -> Acquire {
        self.update(|state| {
            let (before, is_new) = match state {
                State::Live(level) => (level, false),
                State::Fresh => (rate.start(now.max(floor())), true),
                State::Retired => return Step::Keep(Acquire::Retired),
            };
            let level = rate.refill(before, now);
            if let Some(left) = Rate::take(level, price) {
                let at = now.max(level.tick);
                return Step::Write(State::Live(left), Acquire::Allowed { left, at });
            }
            // From the level before the refill: that is the state which stays.
            let denied = Acquire::Denied { level, due: rate.due(before, price) };
            // A new bucket that starts below the price must begin to count, or it never would.
            if is_new { Step::Write(State::Live(before), denied) } else { Step::Keep(denied) }
        })
    }

    /// Gives `price` credits back at `now`, cut off at the capacity, and tells the level after it;
    /// None if nobody has used the bucket, or it is retired.
    pub(crate) fn refund(&self, rate: &Rate, price: u64, now: u64) -> Option<Level> {
        self.update(|state| match state {
            State::Live(level) => {
                let level = rate.give(level, price, now);
                Step::Write(State::Live(level), Some(level))
            }
            State::Fresh | State::Retired => Step::Keep(None),
        })
    }

    /// The level as it was last counted; None if nobody has used the bucket, or it is retired.
    #[inline]
    pub(crate) fn level(&self) -> Option<Level> {
        self.update(|state| match state {
            State::Live(level) => Step::Keep(Some(level)),
            State::Fresh | State::Retired => Step::Keep(None),
        })
    }

    /// Retires the bucket if it was full already `idle` nanoseconds before `now`. `raise_floor` is
    /// called before the mark is set, with the tick at which the bucket became full.
    pub(crate) fn retire_if_full(
        &self,
        rate: &Rate,
        now: u64,
        idle: u64,
        raise_floor: impl Fn(u64),
    ) -> Retire {
        self.update(|state| match state {
            State::Live(before) => {
                let level = rate.refill(before, now.saturating_sub(idle));
                if rate.is_full(level) {
                    raise_floor(rate.due(before, rate.capacity).unwrap_or(0).max(before.tick));
                    Step::Write(State::Retired, Retire::Marked)
                } else {
                    Step::Keep(Retire::InUse(level))
                }
            }
            State::Fresh => Step::Keep(Retire::Fresh),
            State::Retired => Step::Keep(Retire::Already),
        })
    }

    /// Retires the bucket whatever it holds; false if it was retired already. `raise_floor` is
    /// called before the mark is set, with the bucket's tick.
    pub(crate) fn retire(&self, raise_floor: impl Fn(u64)) -> bool {
        self.update(|state| match state {
            State::Live(level) => {
                raise_floor(level.tick);
                Step::Write(State::Retired, true)
            }
            State::Fresh => Step::Write(State::Retired, true),
            State::Retired => Step::Keep(false),
        })
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.update(|state| Step::Keep(state == State::Retired))
    }

    /// The loop. Lock-free: a failed exchange means that another thread's exchange succeeded.
    ///
    /// Orderings: the word carries all of a bucket's state, so for the bucket alone Relaxed would
    /// do. What needs more is the retire protocol. The exchange that sets RETIRED is a Release, so
    /// that the raised floor is visible to whoever loads RETIRED with Acquire, takes the bucket
    /// out of the map and so lets the next one in. A loop shared by all transitions uses the pair
    /// for all of them: on x86-64 it costs nothing, on `AArch64` with LSE one `caspal` either way.
    #[inline]
    fn update<T>(&self, mut step: impl FnMut(State) -> Step<T>) -> T {
        let backoff = Backoff::new();
        // Acquire: pairs with the Release exchange below, in the thread that set RETIRED.
        let mut seen = self.word.load(Ordering::Acquire);
        loop {
            let (next, outcome) = match step(State::unpack(seen)) {
                Step::Keep(outcome) => return outcome,
                Step::Write(next, outcome) => (next.pack(), outcome),
            };
            // Release on success: pairs with the two Acquire loads. Acquire on failure: what it
            // loaded may be RETIRED.
            match self.word.compare_exchange_weak(seen, next, Ordering::Release, Ordering::Acquire)
            {
                Ok(_) => return outcome,
                Err(newer) => seen = newer,
            }
            backoff.spin();
        }
    }
}

impl fmt::Debug for StateCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.update(Step::Keep).fmt(f)
    }
}
