//! The guarantees of docs/DESIGN.md as properties: random quotas, costs, times and housekeeping
//! against buckets in exact arithmetic (`properties/reference.rs`). A test is named after the
//! guarantee that it carries.
//!
//! A failure prints the smallest case that quickcheck found and the seed. The environment variable
//! `PROPERTY_SEED` repeats a run, `PROPERTY_FACTOR` makes it that many times longer.

#![allow(
    trivial_casts,
    clippy::needless_pass_by_value,
    reason = "quickcheck takes properties as pointers to functions, and hands them owned arguments"
)]
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests may fail loudly, and index what they have just measured"
)]

#[path = "properties/reference.rs"]
mod reference;

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

use num_bigint::BigInt;
use num_rational::BigRational;
use quickcheck::{Arbitrary, Gen, QuickCheck, Testable};
use reference::{
    Admission, IntegerReference, KeyedReference, Reading, Reference, Terms, Verdict, oversold,
    ratio, whole,
};
use tollgate::{
    Bucket, Clock as _, CostError, Decision, ManualClock, Overflow, Peek, Quota, QuotaError,
    RateLimiter, Reason, RetryAfter, Timestamp,
};

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 24 * 60 * 60 * SECOND;
const YEAR: u64 = 365 * DAY;
/// Within these, a quota is promised to be accepted.
const PROMISED_TOKENS: u64 = 1 << 32;
const TEN_YEARS: u64 = 3_653 * DAY;

type Outcome = Result<(), String>;

macro_rules! ensure {
    ($holds:expr, $($message:tt)+) => {
        if !$holds {
            return Err(format!($($message)+));
        }
    };
}

macro_rules! ensure_eq {
    ($is:expr, $must_be:expr, $($message:tt)+) => {{
        let (is, must_be) = (&$is, &$must_be);
        if is != must_be {
            return Err(format!("{}: is {is:?}, must be {must_be:?}", format_args!($($message)+)));
        }
    }};
}

/// Runs a property on so many random cases, with vectors of up to `size` elements.
fn check(cases: u64, size: usize, property: impl Testable) {
    let setting = |name: &str| {
        let text = std::env::var(name).ok()?;
        Some(text.parse::<u64>().unwrap_or_else(|_| panic!("{name} must be a number, is {text}")))
    };
    let seed = setting("PROPERTY_SEED").unwrap_or_else(|| RandomState::new().hash_one(0));
    let cases = cases * setting("PROPERTY_FACTOR").unwrap_or(1);
    let mut quickcheck =
        QuickCheck::new().rng(Gen::from_size_and_seed(size, seed)).tests(cases).max_tests(cases);
    if let Err(failure) = quickcheck.quicktest(property) {
        panic!("{failure:?}\nTo repeat it, set PROPERTY_SEED={seed} and run this test alone.");
    }
}

// ---------------------------------------------------------------------------------------------
// Random quotas, steps and times.

fn below(g: &mut Gen, bound: u64) -> u64 {
    u64::arbitrary(g) % bound
}

fn one_in(g: &mut Gen, n: u64) -> bool {
    below(g, n) == 0
}

/// From 1 to `max`: each order of magnitude is as likely as any other, and edges are frequent.
fn log_uniform(g: &mut Gen, max: u64) -> u64 {
    let bits = max.ilog2() + 1;
    let power = 1_u64 << below(g, bits.into());
    let number = match below(g, 8) {
        0 => power,
        1 => power + 1,
        2 => power - 1,
        3 => max - below(g, 4),
        4 => max / (1 + below(g, 64)),
        _ => power + below(g, power),
    };
    number.clamp(1, max)
}

impl Terms {
    fn quota(self) -> Result<Quota, QuotaError> {
        let quota = match self.period {
            0 => Quota::allotment(self.capacity)?,
            period => Quota::new(self.tokens, Duration::from_nanos(period))?,
        };
        quota.burst(self.capacity)?.initial(self.initial)
    }

    fn made(self) -> Quota {
        self.quota().expect("generated quotas are valid")
    }

    fn is_exact(self) -> Option<bool> {
        self.quota().ok().map(|quota| quota.is_exact())
    }

    /// The same with new buckets that start full.
    fn starting_full(self) -> Self {
        Self { initial: self.capacity, ..self }
    }

    /// Whatever a quota can be: tokens and capacity up to `most`.
    fn any(g: &mut Gen, most: u64) -> Self {
        let (tokens, period) = match below(g, 10) {
            0 => (1 + below(g, 10), *g.choose(&[SECOND, 60 * SECOND, DAY]).expect("not empty")),
            // Nothing in common with the nanoseconds of a period.
            1 => (*g.choose(&[3, 7, 13, 997]).expect("not empty"), 1 + below(g, 100 * SECOND)),
            2 => (1 + below(g, 1_000), 1 + below(g, SECOND)),
            3 => (log_uniform(g, 10_000_000), 30 * DAY * (1 + below(g, 24))),
            // Bytes.
            4 => (10_u64.pow(4 + u32::try_from(below(g, 6)).expect("small")), SECOND),
            // Ticks that are as coarse as the buckets are small.
            5 => (1 + below(g, 5), 1 + below(g, 12)),
            6 => (0, 0),
            _ => (log_uniform(g, most), log_uniform(g, TEN_YEARS)),
        };
        let capacity = match below(g, 4) {
            0 if tokens > 0 => tokens.min(most),
            1 => 1 + below(g, 10),
            2 => 1 + below(g, 1_000),
            _ => log_uniform(g, most),
        };
        let initial = match below(g, 4) {
            0 => 0,
            1 => below(g, capacity + 1),
            _ => capacity,
        };
        Self { tokens, period, capacity, initial }
    }

    fn any_that(g: &mut Gen, most: u64, suits: impl Fn(Self) -> bool) -> Self {
        loop {
            let terms = Self::any(g, most);
            if suits(terms) {
                return terms;
            }
        }
    }

    fn smaller(self, suits: impl Fn(Self) -> bool + 'static) -> Box<dyn Iterator<Item = Self>> {
        // In small numbers of steps: one by one only where that does not take for ever.
        let less =
            |number: u64| [1, 10, number / 10, number / 2, number - u64::from(number % 64 > 0)];
        let tokens = less(self.tokens).map(|tokens| Self { tokens, ..self });
        let period = [1, SECOND].into_iter().chain(less(self.period));
        let period = period.map(move |period| Self { period, ..self });
        let capacity = less(self.capacity).map(|capacity| {
            let is_full = self.initial == self.capacity;
            let initial = if is_full { capacity } else { self.initial.min(capacity) };
            Self { capacity, initial, ..self }
        });
        let initial = [self.capacity, 0, self.initial / 2].map(|initial| Self { initial, ..self });
        let size = |terms: Self| {
            let parts =
                [terms.tokens, terms.period, terms.capacity, terms.capacity - terms.initial];
            parts.map(u128::from).iter().sum::<u128>()
        };
        let is_smaller = move |terms: &Self| size(*terms) < size(self);
        // An allotment stays one.
        let same_kind = move |terms: &Self| (terms.period == 0) == (self.period == 0);
        let all = tokens.into_iter().chain(period).chain(capacity).chain(initial);
        Box::new(
            all.filter(is_smaller)
                .filter(same_kind)
                .filter(move |&terms| terms.quota().is_ok() && suits(terms)),
        )
    }
}

macro_rules! quotas {
    ($(#[$doc:meta] $name:ident: $most:expr, $suits:expr;)+) => {$(
        #[$doc]
        #[derive(Clone, Copy, Debug)]
        struct $name(Terms);

        impl Arbitrary for $name {
            fn arbitrary(g: &mut Gen) -> Self {
                Self(Terms::any_that(g, $most, $suits))
            }

            fn shrink(&self) -> Box<dyn Iterator<Item = Self>> {
                Box::new(self.0.smaller($suits).map(Self))
            }
        }
    )+};
}

quotas! {
    /// Any quota at all.
    Any: Quota::MAX_TOKENS, |terms: Terms| terms.quota().is_ok();
    /// One that is counted exactly.
    Exact: PROMISED_TOKENS, |terms: Terms| terms.is_exact() == Some(true);
    /// One that is not.
    Inexact: Quota::MAX_TOKENS, |terms: Terms| terms.is_exact() == Some(false);
}

/// Where the time line begins.
#[derive(Clone, Copy, Debug)]
struct Start(u64);

impl Arbitrary for Start {
    fn arbitrary(g: &mut Gen) -> Self {
        Self(match below(g, 8) {
            0 => 0,
            1 => below(g, 1_000),
            // Unix time.
            2 => 1_760_000_000 * SECOND + below(g, YEAR),
            3 => u64::MAX - log_uniform(g, u64::MAX),
            _ => log_uniform(g, 100 * YEAR),
        })
    }

    fn shrink(&self) -> Box<dyn Iterator<Item = Self>> {
        let less = [0, self.0 / 1_000, self.0 / 2];
        Box::new(
            less.into_iter()
                .filter({
                    let start = self.0;
                    move |less| *less < start
                })
                .map(Self),
        )
    }
}

/// How the time moves before a step.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Pace {
    Stay,
    Forward(u64),
    Back(u64),
    /// To the instant of an earlier step: a reading that is late by so many steps.
    Late(u8),
    /// To the instant at which the step's cost is due, plus so much.
    Due(i8),
    /// So many 16ths of the time in which one token comes.
    Token(u8),
    /// So many 16ths of the time in which the bucket fills.
    Fill(u8),
    /// So many 16ths of the step in which time is counted.
    Unit(u8),
    /// Near the last instant that there is.
    NearEnd(u64),
}

impl Arbitrary for Pace {
    fn arbitrary(g: &mut Gen) -> Self {
        match below(g, 64) {
            0..=7 => Self::Stay,
            8..=11 => Self::Forward(1),
            12..=15 => Self::Forward(log_uniform(g, 10 * YEAR)),
            16..=19 => Self::Forward(log_uniform(g, SECOND)),
            20..=22 => Self::Back(log_uniform(g, YEAR)),
            23..=25 => Self::Back(1 + below(g, 3)),
            26..=29 => Self::Late(u8::arbitrary(g) % 16),
            30..=41 => Self::Due(*g.choose(&[-1, 0, 0, 1]).expect("not empty")),
            42..=49 => Self::Token(u8::arbitrary(g) % 64),
            50..=57 => Self::Fill(u8::arbitrary(g) % 32),
            58..=62 => Self::Unit(u8::arbitrary(g) % 48),
            _ if one_in(g, 4) => Self::NearEnd(log_uniform(g, YEAR) - 1),
            _ => Self::Forward(log_uniform(g, 100 * YEAR)),
        }
    }

    fn shrink(&self) -> Box<dyn Iterator<Item = Self>> {
        let smaller: Vec<Self> = match *self {
            Self::Stay => vec![],
            Self::Forward(by) if by > 1 => {
                vec![Self::Stay, Self::Forward(1), Self::Forward(by / 2)]
            }
            Self::Back(by) if by > 1 => vec![Self::Stay, Self::Back(1), Self::Back(by / 2)],
            _ => vec![Self::Stay],
        };
        Box::new(smaller.into_iter())
    }
}

/// What a step costs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Cost {
    One,
    Small(u8),
    /// So many 8ths of the capacity.
    Part(u8),
    Capacity,
    /// All that is there, and one more.
    All,
    TooMuch,
    /// No cost that could ever be admitted: an error.
    Zero,
    Above(u64),
}

impl Cost {
    fn of(self, terms: Terms, available: u64) -> u64 {
        match self {
            Self::One => 1,
            Self::Small(cost) => cost.into(),
            Self::Part(eighths) => (terms.capacity / 8 * u64::from(eighths)).max(1),
            Self::Capacity => terms.capacity,
            Self::All => available.max(1),
            Self::TooMuch => available + 1,
            Self::Zero => 0,
            Self::Above(more) => terms.capacity.saturating_add(more.max(1)),
        }
    }
}

impl Arbitrary for Cost {
    fn arbitrary(g: &mut Gen) -> Self {
        match below(g, 32) {
            0..=7 => Self::One,
            8..=11 => Self::Small(1 + u8::arbitrary(g) % 10),
            12..=15 => Self::Part(u8::arbitrary(g) % 9),
            16..=18 => Self::Capacity,
            19..=24 => Self::All,
            25..=28 => Self::TooMuch,
            29 => Self::Zero,
            30 => Self::Above(1),
            _ => Self::Above(u64::arbitrary(g)),
        }
    }

    fn shrink(&self) -> Box<dyn Iterator<Item = Self>> {
        let simplest = [Self::One, Self::Capacity];
        let rank = |cost: &Self| simplest.iter().position(|simple| simple == cost);
        let end = rank(self).unwrap_or(simplest.len());
        Box::new(simplest.into_iter().take(end))
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Act {
    Acquire,
    Peek,
    Refund,
    Sweep,
    Remove,
}

impl Arbitrary for Act {
    fn arbitrary(g: &mut Gen) -> Self {
        match below(g, 16) {
            0..=9 => Self::Acquire,
            10 => Self::Peek,
            11 | 12 => Self::Refund,
            13 | 14 => Self::Sweep,
            _ => Self::Remove,
        }
    }

    fn shrink(&self) -> Box<dyn Iterator<Item = Self>> {
        let simpler = (*self != Self::Acquire).then_some(Self::Acquire);
        Box::new(simpler.into_iter())
    }
}

#[derive(Clone, Copy, Debug)]
struct Step {
    key: u8,
    pace: Pace,
    act: Act,
    cost: Cost,
    /// Through the limiter's clock; else at the caller's time.
    by_clock: bool,
}

impl Arbitrary for Step {
    fn arbitrary(g: &mut Gen) -> Self {
        Self {
            key: u8::arbitrary(g),
            pace: Pace::arbitrary(g),
            act: Act::arbitrary(g),
            cost: Cost::arbitrary(g),
            by_clock: bool::arbitrary(g),
        }
    }

    fn shrink(&self) -> Box<dyn Iterator<Item = Self>> {
        let step = *self;
        let key = (step.key > 0).then_some(Self { key: step.key / 2, ..step });
        let clock = step.by_clock.then_some(Self { by_clock: false, ..step });
        Box::new(
            key.into_iter()
                .chain(step.pace.shrink().map(move |pace| Self { pace, ..step }))
                .chain(step.act.shrink().map(move |act| Self { act, ..step }))
                .chain(step.cost.shrink().map(move |cost| Self { cost, ..step }))
                .chain(clock),
        )
    }
}

/// A step of those that matter most when time is late: all is spent, the bucket fills, somebody
/// else is at an earlier instant.
#[derive(Clone, Copy, Debug)]
struct Late(Step);

impl Arbitrary for Late {
    fn arbitrary(g: &mut Gen) -> Self {
        let pace = match below(g, 16) {
            0..=2 => Pace::Stay,
            3..=7 => Pace::Late(u8::arbitrary(g) % 16),
            8 => Pace::Fill(16),
            9 | 10 => Pace::Fill(u8::arbitrary(g) % 24),
            11 => Pace::Token(u8::arbitrary(g) % 32),
            12 | 13 => Pace::Unit(u8::arbitrary(g) % 48),
            _ => Pace::Due(0),
        };
        let act = match below(g, 16) {
            0..=11 => Act::Acquire,
            12..=14 => Act::Refund,
            _ => Act::Sweep,
        };
        let cost = *g.choose(&[Cost::Capacity, Cost::All, Cost::One]).expect("not empty");
        Self(Step { pace, act, cost, ..Step::arbitrary(g) })
    }

    fn shrink(&self) -> Box<dyn Iterator<Item = Self>> {
        Box::new(self.0.shrink().map(Self))
    }
}

fn plain(steps: Vec<Late>) -> Vec<Step> {
    steps.into_iter().map(|Late(step)| step).collect()
}

/// A time line that steps move along.
struct Time {
    terms: Terms,
    /// The step in which time is counted.
    unit: u64,
    /// The instants of all steps so far.
    past: Vec<u64>,
    only_forward: bool,
}

impl Time {
    fn new(terms: Terms, start: Start) -> Self {
        let rate = terms.made().effective_rate();
        let unit = rate.map_or(1, |rate| nanos(rate.resolution()));
        Self { terms, unit, past: vec![start.0], only_forward: false }
    }

    fn only_forward(terms: Terms, start: Start) -> Self {
        Self { only_forward: true, ..Self::new(terms, start) }
    }

    fn now(&self) -> u64 {
        self.past[self.past.len() - 1]
    }

    /// `wait` is how long the step's cost takes.
    fn go(&mut self, pace: Pace, wait: Option<u64>) -> u64 {
        let now = self.now();
        let refill_of = |tokens: u64| {
            let time = u128::from(self.terms.period) * u128::from(tokens);
            let time = time.checked_div(self.terms.tokens.into()).unwrap_or(SECOND.into());
            u64::try_from(time).unwrap_or(u64::MAX)
        };
        let sixteenths = |time: u64, part: u8| (time / 16).max(1).saturating_mul(part.into());
        let next = match pace {
            Pace::Stay => now,
            Pace::Forward(by) => now.saturating_add(by),
            Pace::Back(by) => now.saturating_sub(by),
            Pace::Late(steps) => {
                let index = self.past.len().saturating_sub(1 + usize::from(steps));
                self.past[index]
            }
            Pace::Due(more) => {
                now.saturating_add(wait.unwrap_or(0)).saturating_add_signed(more.into())
            }
            Pace::Token(part) => now.saturating_add(sixteenths(refill_of(1), part)),
            Pace::Fill(part) => {
                now.saturating_add(sixteenths(refill_of(self.terms.capacity), part))
            }
            Pace::Unit(part) => now.saturating_add(sixteenths(self.unit, part)),
            Pace::NearEnd(before) => u64::MAX - before,
        };
        let next = if self.only_forward { next.max(now) } else { next };
        self.past.push(next);
        next
    }
}

// ---------------------------------------------------------------------------------------------
// From tollgate's types to those of the reference.

const fn at(now: u64) -> Timestamp {
    Timestamp::from_nanos(now)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).expect("no wait is longer than the time line")
}

fn wait(retry: RetryAfter) -> Option<u64> {
    retry.duration().map(nanos)
}

fn verdict(decision: Decision) -> Verdict {
    match decision {
        Decision::Allowed(allowed) => {
            Verdict::Allowed { remaining: allowed.remaining(), at: allowed.counted_at().as_nanos() }
        }
        Decision::Denied(denied) => {
            Verdict::Denied { remaining: denied.remaining(), wait: wait(denied.retry_after()) }
        }
    }
}

fn reading(peek: Peek) -> Reading {
    Reading {
        available: peek.available(),
        next: wait(peek.until_next_token()),
        full: wait(peek.until_full()),
    }
}

/// The error that this cost must give.
fn cost_error(terms: Terms, cost: u64) -> Option<CostError> {
    let capacity = terms.capacity;
    match cost {
        0 => Some(CostError::Zero),
        cost if cost > capacity => Some(CostError::AboveCapacity { cost, capacity }),
        _ => None,
    }
}

/// How long the step's cost takes from now, if it is a cost at all.
fn due(bucket: &Reference, terms: Terms, cost: Cost, now: u64) -> Option<u64> {
    let cost = cost.of(terms, bucket.available_at(now));
    bucket.wait_for(&whole(cost), now)
}

/// Before its first use, of which only `Debug` tells.
fn is_fresh(bucket: &Bucket) -> bool {
    format!("{bucket:?}").contains("Fresh")
}

fn bucket_wait(bucket: &Bucket, cost: u64, now: u64) -> Option<u64> {
    // A denial is a pure read, but an admission is not, nor is a first request.
    if is_fresh(bucket) || bucket.peek_at(at(now)).available() >= cost {
        return Some(0);
    }
    let probe = bucket.try_acquire_at(cost, at(now)).ok()?;
    probe.retry_after().and_then(wait)
}

// ---------------------------------------------------------------------------------------------
// G2: every decision is that of the reference.

/// A bucket alone against the reference, whatever the time does.
fn bucket_is_the_reference(
    terms: Terms,
    mut reference: Reference,
    start: Start,
    steps: &[Step],
) -> Outcome {
    let bucket = Bucket::new(terms.made());
    let mut time = Time::new(terms, start);
    for (index, step) in steps.iter().enumerate() {
        let before = time.now();
        let now = time.go(step.pace, due(&reference, terms, step.cost, before));
        let cost = step.cost.of(terms, reference.available_at(now));
        let context = format!("step {index}: {:?} of {cost} at {now}", step.act);
        let error = cost_error(terms, cost);
        match step.act {
            Act::Acquire | Act::Sweep => match bucket.try_acquire_at(cost, at(now)) {
                Ok(decision) => {
                    ensure_eq!(error, None, "{context}");
                    ensure_eq!(verdict(decision), reference.acquire(cost, now), "{context}");
                }
                Err(actual) => ensure_eq!(Some(actual), error, "{context}"),
            },
            Act::Refund => match bucket.refund_at(cost, at(now)) {
                Ok(available) => {
                    ensure_eq!(error, None, "{context}");
                    ensure_eq!(available, reference.refund(cost, now), "{context}");
                }
                Err(actual) => ensure_eq!(Some(actual), error, "{context}"),
            },
            Act::Peek | Act::Remove => {}
        }
        let peek = bucket.peek_at(at(now));
        ensure_eq!(peek.capacity(), terms.capacity, "{context}");
        ensure_eq!(reading(peek), reference.read(now), "peek after {context}");
    }
    Ok(())
}

#[test]
fn g2_a_bucket_decides_as_the_reference() {
    fn property(Exact(terms): Exact, start: Start, steps: Vec<Step>) -> Outcome {
        bucket_is_the_reference(terms, Reference::new(terms), start, &steps)
    }
    check(250, 100, property as fn(_, _, _) -> _);
}

/// Where only the rate is rounded and not the time, the bucket is the exact one of that rate.
#[test]
fn g2_a_bucket_with_a_rounded_rate_decides_as_the_reference_of_that_rate() {
    fn property(Inexact(terms): Inexact, start: Start, steps: Vec<Step>) -> Outcome {
        let rate = terms.made().effective_rate().expect("allotments are exact");
        if rate.resolution() > Duration::from_nanos(1) {
            return Ok(());
        }
        let reference = Reference::with_rate(terms, ratio(rate.tokens(), rate.nanos()));
        bucket_is_the_reference(terms, reference, start, &steps)
    }
    check(250, 80, property as fn(_, _, _) -> _);
}

type Limiter<S = RandomState> = RateLimiter<u64, ManualClock, S>;

fn limiter(terms: Terms, max_keys: usize) -> Limiter {
    limiter_with(terms, max_keys, Overflow::Deny, RandomState::new())
}

fn limiter_with<S: BuildHasher>(
    terms: Terms,
    max_keys: usize,
    overflow: Overflow,
    hasher: S,
) -> Limiter<S> {
    RateLimiter::<u64>::builder(terms.made())
        .max_keys(max_keys)
        .overflow(overflow)
        .shared_buckets(2)
        .clock(ManualClock::new())
        .hasher(hasher)
        .build()
        .expect("valid settings")
}

/// A step's call, by the clock or at the caller's time: both are the same time line.
fn acquire<S: BuildHasher>(
    limiter: &Limiter<S>,
    step: &Step,
    key: u64,
    cost: u64,
    now: u64,
) -> Result<Decision, CostError> {
    limiter.clock().set(at(now));
    match (step.by_clock, cost) {
        (false, _) => limiter.try_acquire_at(&key, cost, at(now)),
        (true, 1) => Ok(limiter.try_acquire(&key)),
        (true, _) => limiter.try_acquire_n(&key, cost),
    }
}

fn peek<S: BuildHasher>(limiter: &Limiter<S>, step: &Step, key: u64, now: u64) -> Peek {
    limiter.clock().set(at(now));
    if step.by_clock { limiter.peek(&key) } else { limiter.peek_at(&key, at(now)) }
}

fn refund<S: BuildHasher>(
    limiter: &Limiter<S>,
    step: &Step,
    key: u64,
    cost: u64,
    now: u64,
) -> Result<u64, CostError> {
    limiter.clock().set(at(now));
    if step.by_clock { limiter.refund(&key, cost) } else { limiter.refund_at(&key, cost, at(now)) }
}

fn remove<S: BuildHasher>(limiter: &Limiter<S>, key: u64, now: u64) -> bool {
    limiter.clock().set(at(now));
    limiter.remove(&key)
}

fn sweep<S: BuildHasher>(limiter: &Limiter<S>, step: &Step, now: u64) -> usize {
    limiter.clock().set(at(now));
    if step.by_clock { limiter.sweep() } else { limiter.sweep_at(at(now)) }
}

/// One key alone, whatever the time does: here it is known when its bucket is retired, so the
/// reference can follow that exactly, also for buckets that do not start full.
#[test]
fn g2_a_limiter_with_one_key_decides_as_the_reference() {
    fn property(Exact(terms): Exact, start: Start, steps: Vec<Step>) -> Outcome {
        let limiter = limiter(terms, 1);
        let mut reference = Reference::new(terms);
        let mut time = Time::new(terms, start);
        let key = 7;
        for (index, step) in steps.iter().enumerate() {
            let before = time.now();
            let now = time.go(step.pace, due(&reference, terms, step.cost, before));
            let cost = step.cost.of(terms, reference.available_at(now));
            let context = format!("step {index}: {:?} of {cost} at {now}", step.act);
            let error = cost_error(terms, cost);
            match step.act {
                Act::Acquire => match acquire(&limiter, step, key, cost, now) {
                    Ok(decision) => {
                        ensure_eq!(error, None, "{context}");
                        ensure_eq!(verdict(decision), reference.acquire(cost, now), "{context}");
                    }
                    Err(actual) => ensure_eq!(Some(actual), error, "{context}"),
                },
                Act::Refund => match refund(&limiter, step, key, cost, now) {
                    Ok(available) => {
                        ensure_eq!(error, None, "{context}");
                        ensure_eq!(available, reference.refund(cost, now), "{context}");
                    }
                    Err(actual) => ensure_eq!(Some(actual), error, "{context}"),
                },
                Act::Sweep => {
                    // Where a new bucket starts with less, a full one is kept for a minute.
                    let idle = if terms.initial < terms.capacity { 60_000_000_000 } else { 0 };
                    let then = now.saturating_sub(idle);
                    let is_dropped = reference.is_used() && reference.is_full_at(then);
                    ensure_eq!(sweep(&limiter, step, now), usize::from(is_dropped), "{context}");
                    if is_dropped {
                        reference.begin_again(true);
                    }
                }
                Act::Remove => {
                    ensure_eq!(remove(&limiter, key, now), reference.is_used(), "{context}");
                    reference.begin_again(false);
                }
                Act::Peek => {}
            }
            ensure_eq!(limiter.len(), usize::from(reference.is_used()), "len after {context}");
            let peek = peek(&limiter, step, key, now);
            ensure_eq!(reading(peek), reference.read(now), "peek after {context}");
        }
        Ok(())
    }
    check(250, 100, property as fn(_, _, _) -> _);
}

/// Many keys in time that goes forward, with room for all.
#[test]
fn g2_a_limiter_with_many_keys_decides_as_the_reference() {
    fn property(Exact(terms): Exact, start: Start, steps: Vec<Step>) -> Outcome {
        against_the_reference(terms.starting_full(), start, &steps, 20, 100, RandomState::new())
    }
    check(150, 150, property as fn(_, _, _) -> _);
}

// ---------------------------------------------------------------------------------------------
// G9: retirement is invisible.

/// A hasher under which keys share their hashes: all of it, or the half that finds their buckets.
#[derive(Clone, Copy, Debug)]
enum Colliding {
    Whole,
    UpperHalf,
}

struct CollidingHasher(Colliding, u64);

impl BuildHasher for Colliding {
    type Hasher = CollidingHasher;

    fn build_hasher(&self) -> CollidingHasher {
        CollidingHasher(*self, 0)
    }
}

impl Hasher for CollidingHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.1 = bytes.iter().fold(self.1, |sum, &byte| sum * 31 + u64::from(byte));
    }

    fn finish(&self) -> u64 {
        match self.0 {
            Colliding::Whole => (self.1 % 2) << 33,
            Colliding::UpperHalf => self.1,
        }
    }
}

/// Many keys, of which at most `max_keys` have a bucket, against a reference that never forgets
/// one. The time goes forward, and the buckets start full.
fn against_the_reference<S: BuildHasher>(
    terms: Terms,
    start: Start,
    steps: &[Step],
    keys: u64,
    max_keys: usize,
    hasher: S,
) -> Outcome {
    let limiter = limiter_with(terms, max_keys, Overflow::Deny, hasher);
    let mut reference = KeyedReference::new(terms);
    let mut time = Time::only_forward(terms, start);
    for (index, step) in steps.iter().enumerate() {
        let key = u64::from(step.key) % keys;
        let before = time.now();
        let now = time.go(step.pace, due(reference.get(key), terms, step.cost, before));
        let cost = step.cost.of(terms, reference.get(key).available_at(now));
        let context = format!("step {index}: {:?} of {cost} for key {key} at {now}", step.act);
        let error = cost_error(terms, cost);
        match step.act {
            Act::Acquire => match acquire(&limiter, step, key, cost, now) {
                Ok(Decision::Denied(denied)) if denied.reason() == Reason::TableFull => {
                    ensure_eq!(error, None, "{context}");
                    // Only keys that have nothing to remember are turned away,
                    ensure!(reference.get(key).is_full_at(now), "{context}: a known key");
                    // only when there is no room, and not for longer than that lasts.
                    let waits = || {
                        let capacity = whole(terms.capacity);
                        reference.not_full_at(now).map(move |old| old.wait_for(&capacity, now))
                    };
                    ensure_eq!(waits().count(), max_keys, "{context}: room");
                    if max_keys <= 8 {
                        let soonest = waits().flatten().min();
                        ensure_eq!(wait(denied.retry_after()), soonest, "{context}: table full");
                    }
                    ensure_eq!(denied.remaining(), 0, "{context}");
                }
                Ok(decision) => {
                    ensure_eq!(error, None, "{context}");
                    let expected = reference.get_mut(key).acquire(cost, now);
                    ensure_eq!(verdict(decision), expected, "{context}");
                }
                Err(actual) => ensure_eq!(Some(actual), error, "{context}"),
            },
            Act::Refund => match refund(&limiter, step, key, cost, now) {
                Ok(available) => {
                    ensure_eq!(error, None, "{context}");
                    let expected = reference.get_mut(key).refund(cost, now);
                    ensure_eq!(available, expected, "{context}");
                }
                Err(actual) => ensure_eq!(Some(actual), error, "{context}"),
            },
            Act::Sweep => {
                sweep(&limiter, step, now);
                let kept = reference.not_full_at(now).count();
                ensure_eq!(limiter.len(), kept, "len after {context}");
            }
            Act::Remove => {
                let had_one = remove(&limiter, key, now);
                let old = reference.get(key);
                if old.is_used() && !old.is_full_at(now) {
                    ensure!(had_one, "{context}: it had a bucket");
                } else if !old.is_used() {
                    ensure!(!had_one, "{context}: it never had a bucket");
                }
                reference.remove(key);
            }
            Act::Peek => {}
        }
        ensure!(limiter.len() <= max_keys, "{context}: {} keys, at most {max_keys}", limiter.len());
        let peek_at = |key| peek(&limiter, step, key, now);
        ensure_eq!(reading(peek_at(key)), reference.get(key).read(now), "peek after {context}");
        // What happens to one key is nothing to the others.
        let other = u64::from(step.key) / 16 % keys;
        let available = reference.get(other).available_at(now);
        ensure_eq!(peek_at(other).available(), available, "peek at {other} after {context}");
    }
    Ok(())
}

#[test]
fn g9_retirement_is_invisible() {
    fn property(Exact(terms): Exact, start: Start, steps: Vec<Step>, bound: u8) -> Outcome {
        let max_keys = 1 + usize::from(bound % 10);
        against_the_reference(
            terms.starting_full(),
            start,
            &steps,
            14,
            max_keys,
            RandomState::new(),
        )
    }
    check(120, 150, property as fn(_, _, _, _) -> _);
}

#[test]
fn g9_retirement_is_invisible_when_hashes_collide() {
    fn property(Exact(terms): Exact, start: Start, steps: Vec<Step>, bound: u8) -> Outcome {
        let max_keys = 1 + usize::from(bound % 10);
        let hasher = if bound < 128 { Colliding::Whole } else { Colliding::UpperHalf };
        against_the_reference(terms.starting_full(), start, &steps, 14, max_keys, hasher)
    }
    check(80, 150, property as fn(_, _, _, _) -> _);
}

/// For any quota, inexact ones too: a limiter that retires all the time against buckets that live
/// for ever.
#[test]
fn g9_a_limiter_decides_as_a_bucket_for_each_key() {
    fn property(Any(terms): Any, start: Start, steps: Vec<Step>) -> Outcome {
        let terms = terms.starting_full();
        let limiter = limiter(terms, 100);
        let mut buckets = HashMap::new();
        let mut time = Time::only_forward(terms, start);
        for (index, step) in steps.iter().enumerate() {
            let key = u64::from(step.key) % 6;
            let bucket = buckets.entry(key).or_insert_with(|| Bucket::new(terms.made()));
            let available = bucket.peek_at(at(time.now())).available();
            let wait = bucket_wait(bucket, step.cost.of(terms, available), time.now());
            let now = time.go(step.pace, wait);
            let cost = step.cost.of(terms, bucket.peek_at(at(now)).available());
            let context = format!("step {index}: {:?} of {cost} for key {key} at {now}", step.act);
            match step.act {
                Act::Acquire | Act::Remove => ensure_eq!(
                    acquire(&limiter, step, key, cost, now),
                    bucket.try_acquire_at(cost, at(now)),
                    "{context}"
                ),
                Act::Refund => ensure_eq!(
                    refund(&limiter, step, key, cost, now),
                    bucket.refund_at(cost, at(now)),
                    "{context}"
                ),
                Act::Sweep => {
                    sweep(&limiter, step, now);
                }
                Act::Peek => ensure_eq!(
                    reading(peek(&limiter, step, key, now)),
                    reading(bucket.peek_at(at(now))),
                    "{context}"
                ),
            }
        }
        Ok(())
    }
    check(1_500, 200, property as fn(_, _, _) -> _);
}

// ---------------------------------------------------------------------------------------------
// G1: nothing is sold that is not there. On the caller's time line and at the rate asked for,
// also where the quota is not exact.

#[test]
fn g1_a_bucket_never_oversells() {
    fn property(Any(terms): Any, start: Start, steps: Vec<Step>) -> Outcome {
        bucket_never_oversells(terms, start, &steps)
    }
    check(2_000, 200, property as fn(_, _, _) -> _);
}

#[test]
fn g1_a_bucket_of_an_inexact_quota_never_oversells() {
    fn property(Inexact(terms): Inexact, start: Start, steps: Vec<Step>) -> Outcome {
        bucket_never_oversells(terms, start, &steps)
    }
    check(2_000, 200, property as fn(_, _, _) -> _);
}

fn bucket_never_oversells(terms: Terms, start: Start, steps: &[Step]) -> Outcome {
    let bucket = Bucket::new(terms.made());
    let mut time = Time::new(terms, start);
    let mut admissions = Vec::new();
    for step in steps {
        let now = time.now();
        let cost = step.cost.of(terms, bucket.peek_at(at(now)).available());
        let now = time.go(step.pace, bucket_wait(&bucket, cost, now));
        let cost = step.cost.of(terms, bucket.peek_at(at(now)).available());
        if let Ok(Decision::Allowed(allowed)) = bucket.try_acquire_at(cost, at(now)) {
            ensure!(allowed.counted_at() >= at(now), "counted before the caller's time {now}");
            admissions.push((allowed.counted_at().as_nanos(), cost));
        }
    }
    oversold(terms, &admissions).map_or(Ok(()), Err)
}

/// Small buckets, few slots, many keys, sweeps, and readings of the clock that are late or go
/// back: whatever is retired and comes again, no key gets more than its quota.
#[test]
fn g1_a_limiter_never_oversells_across_retirement() {
    fn property(Any(terms): Any, start: Start, steps: Vec<Step>, bound: u8) -> Outcome {
        limiter_never_oversells(terms, start, &steps, bound, Overflow::Deny)
    }
    check(3_000, 300, property as fn(_, _, _, _) -> _);
}

#[test]
fn g1_a_limiter_of_an_inexact_quota_never_oversells_across_retirement() {
    fn property(Inexact(terms): Inexact, start: Start, steps: Vec<Step>, bound: u8) -> Outcome {
        limiter_never_oversells(terms, start, &steps, bound, Overflow::Deny)
    }
    check(1_500, 300, property as fn(_, _, _, _) -> _);
}

#[test]
fn g1_a_limiter_never_oversells_to_late_callers() {
    fn property(Any(terms): Any, start: Start, steps: Vec<Late>, bound: u8) -> Outcome {
        limiter_never_oversells(terms, start, &plain(steps), bound, Overflow::Deny)
    }
    check(3_000, 300, property as fn(_, _, _, _) -> _);
}

/// A bucket that had to make room, and whose key comes back at an instant at which the bucket had
/// just been drained. Whichever bucket the limiter looks at first: the same for every order of the
/// keys and every position of the hand that goes round them.
#[test]
fn g1_a_limiter_that_makes_room_never_oversells_to_late_callers() {
    const IDLE: u64 = 0;
    const DRAINED: u64 = 1;
    const BUSY: [u64; 2] = [2, 3];
    let terms = Terms { tokens: 4, period: SECOND, capacity: 4, initial: 4 };
    let orders = (0..256_u64).map(|code| [code % 4, code / 4 % 4, code / 16 % 4, code / 64]);
    let is_permutation = |order: &[u64; 4]| (0..4).all(|key| order.contains(&key));
    for order in orders.filter(is_permutation) {
        for turns in 0..8 {
            let limiter = limiter(terms, 4);
            let mut admissions: HashMap<u64, Vec<Admission>> = HashMap::new();
            let mut spend = |key: u64, cost: u64, millis: u64| {
                let now = at(millis * 1_000_000);
                let decision = limiter.try_acquire_at(&key, cost, now).expect("a valid cost");
                if let Some(allowed) = decision.allowed() {
                    let admission = (allowed.counted_at().as_nanos(), cost);
                    admissions.entry(key).or_default().push(admission);
                }
            };
            for key in order {
                spend(key, 4, 0);
            }
            for turn in 0..turns {
                // Strangers for whom there is no room.
                spend(100 + turn, 1, 0);
            }
            spend(IDLE, 1, 2_000);
            spend(DRAINED, 4, 6_000);
            for key in BUSY {
                spend(key, 4, 9_900);
            }
            spend(200, 1, 10_000);
            for key in [DRAINED, IDLE, DRAINED] {
                spend(key, 4, 6_100);
            }
            for sold in admissions.values() {
                assert_eq!(oversold(terms, sold), None, "{order:?}, {turns}");
            }
        }
    }
}

/// `Overflow::Share` promises to each key no more than twice its quota: from its own bucket and
/// from a shared one.
#[test]
fn g1_a_limiter_that_shares_sells_no_key_more_than_twice_its_quota() {
    fn property(Any(terms): Any, start: Start, steps: Vec<Step>, bound: u8) -> Outcome {
        limiter_never_oversells(terms, start, &steps, bound, Overflow::Share)
    }
    check(1_000, 300, property as fn(_, _, _, _) -> _);
}

fn limiter_never_oversells(
    terms: Terms,
    start: Start,
    steps: &[Step],
    bound: u8,
    overflow: Overflow,
) -> Outcome {
    let (max_keys, keys) = (1 + usize::from(bound % 10), 2 + u64::from(bound / 10 % 13));
    let limiter = limiter_with(terms, max_keys, overflow, RandomState::new());
    let mut time = Time::new(terms, start);
    let mut admissions: HashMap<u64, Vec<Admission>> = HashMap::new();
    for step in steps {
        let key = u64::from(step.key) % keys;
        let full = wait(limiter.peek_at(&key, at(time.now())).until_full());
        let now = time.go(step.pace, full);
        let cost = step.cost.of(terms, limiter.peek_at(&key, at(now)).available());
        match step.act {
            Act::Acquire | Act::Peek | Act::Remove | Act::Refund => {
                if let Ok(Decision::Allowed(allowed)) = acquire(&limiter, step, key, cost, now) {
                    ensure!(allowed.counted_at() >= at(now), "counted before the time {now}");
                    let admission = (allowed.counted_at().as_nanos(), cost);
                    admissions.entry(key).or_default().push(admission);
                }
            }
            Act::Sweep => {
                sweep(&limiter, step, now);
            }
        }
        ensure!(limiter.len() <= max_keys, "{} keys, at most {max_keys}", limiter.len());
    }
    let sold = match overflow {
        Overflow::Share => {
            Terms { tokens: terms.tokens * 2, capacity: terms.capacity * 2, ..terms }
        }
        _ => terms,
    };
    admissions.values().find_map(|key| oversold(sold, key)).map_or(Ok(()), Err)
}

// ---------------------------------------------------------------------------------------------
// G3: bounds.

#[test]
fn g3_the_level_stays_within_its_bounds_and_the_tick_never_moves_back() {
    fn property(Any(terms): Any, start: Start, steps: Vec<Step>, instants: Vec<u64>) -> Outcome {
        let bucket = Bucket::new(terms.made());
        let mut time = Time::new(terms, start);
        let mut tick = None;
        for (index, step) in steps.iter().enumerate() {
            let before = time.now();
            let cost = step.cost.of(terms, bucket.peek_at(at(before)).available());
            let now = time.go(step.pace, bucket_wait(&bucket, cost, before));
            let cost = step.cost.of(terms, bucket.peek_at(at(now)).available());
            let context = format!("step {index}: {:?} of {cost} at {now}", step.act);
            let mut instants = instants.clone();
            instants.extend(&time.past);
            instants.extend([before, now].map(|now| now.saturating_add(time.unit)));
            // What was there in the past is nothing to a bucket.
            instants.retain(|&then| then >= now);
            instants.sort_unstable();
            // Before the first use the time does not run.
            let first = is_fresh(&bucket);
            let levels = || instants.iter().map(|&then| bucket.peek_at(at(then)).available());
            let old: Vec<u64> = levels().collect();
            if step.act == Act::Refund {
                let refunded = bucket.refund_at(cost, at(now));
                let is_bounded = refunded.is_ok_and(|level| level <= terms.capacity);
                ensure!(is_bounded || refunded.is_err(), "{context}: {refunded:?}");
            } else {
                let acquired = bucket.try_acquire_at(cost, at(now));
                let is_paid = acquired.is_ok_and(|decision| decision.is_allowed());
                let paid = if is_paid { cost } else { 0 };
                // Whoever moved the tick back would have what came since come twice.
                for ((new, old), then) in levels().zip(&old).zip(&instants) {
                    ensure!(first || new <= *old, "{context}: gains {old} -> {new} at {then}");
                    let lost = old - new.min(*old);
                    ensure!(first || lost <= paid + slack(terms), "{context}: loses {lost}");
                }
            }
            let new: Vec<u64> = levels().collect();
            ensure!(new.is_sorted(), "{context}: {new:?} must not fall in time");
            ensure!(new.iter().all(|&level| level <= terms.capacity), "{context}: {new:?}");
            let newest = debug_tick(&bucket);
            ensure!(newest >= tick, "{context}: the tick moves back, {tick:?} -> {newest:?}");
            tick = newest;
        }
        Ok(())
    }
    check(500, 60, property as fn(_, _, _, _) -> _);
}

/// The tokens that come in one step of time, rounded up: a bucket that is about to be full gives
/// up the part of a step that has passed. None where time is counted in nanoseconds.
fn slack(terms: Terms) -> u64 {
    match terms.made().effective_rate() {
        Some(rate) if rate.resolution() > Duration::from_nanos(1) => {
            let unit = rate.resolution().as_nanos();
            let tokens = u128::from(rate.tokens()) * unit / rate.nanos() + 1;
            u64::try_from(tokens).expect("below the capacity")
        }
        _ => 0,
    }
}

/// The bucket's tick, of which only `Debug` tells.
fn debug_tick(bucket: &Bucket) -> Option<u64> {
    let text = format!("{bucket:?}");
    let (_, rest) = text.split_once("tick: ")?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

// ---------------------------------------------------------------------------------------------
// G4: a denial changes nothing.

#[test]
fn g4_a_denial_and_a_peek_write_nothing() {
    fn property(Any(terms): Any, start: Start, steps: Vec<Step>) -> Outcome {
        let bucket = Bucket::new(terms.made());
        // The first request may set the tick.
        let _first = bucket.try_acquire_at(1, at(start.0));
        let mut time = Time::new(terms, start);
        for (index, step) in steps.iter().enumerate() {
            let before = time.now();
            let cost = step.cost.of(terms, bucket.peek_at(at(before)).available());
            let now = time.go(step.pace, bucket_wait(&bucket, cost, before));
            let cost = step.cost.of(terms, bucket.peek_at(at(now)).available());
            let old = format!("{bucket:?}");
            let _peek = bucket.peek_at(at(now));
            ensure_eq!(format!("{bucket:?}"), old, "step {index}: peek at {now}");
            let acquired = bucket.try_acquire_at(cost, at(now));
            if !acquired.is_ok_and(|decision| decision.is_allowed()) {
                ensure_eq!(format!("{bucket:?}"), old, "step {index}: {cost} denied at {now}");
            }
        }
        Ok(())
    }
    check(1_000, 100, property as fn(_, _, _) -> _);
}

// ---------------------------------------------------------------------------------------------
// G5: an honest retry.

/// For every quota, inexact ones too: denied at now + d - 1, admitted at now + d.
#[test]
fn g5_retry_after_is_the_least_wait() {
    fn property(Any(terms): Any, start: Start, steps: Vec<Step>) -> Outcome {
        let bucket = Bucket::new(terms.made());
        let mut time = Time::new(terms, start);
        for (index, step) in steps.iter().enumerate() {
            let before = time.now();
            let cost = step.cost.of(terms, bucket.peek_at(at(before)).available());
            let now = time.go(step.pace, bucket_wait(&bucket, cost, before));
            let available = bucket.peek_at(at(now)).available();
            let cost = step.cost.of(terms, available);
            let context = format!("step {index}: {cost} at {now}");
            let Ok(decision) = bucket.try_acquire_at(cost, at(now)) else {
                ensure!(cost_error(terms, cost).is_some(), "{context}: refused");
                continue;
            };
            ensure_eq!(decision.is_allowed(), cost <= available, "{context}: not what peek said");
            let Some(retry) = decision.retry_after() else { continue };
            ensure_eq!(decision.remaining(), available, "{context}: remaining");
            let Some(d) = wait(retry) else {
                ensure_eq!(retry.whole_seconds(), None, "{context}: never");
                let last = bucket.try_acquire_at(cost, Timestamp::MAX).expect("a valid cost");
                ensure!(last.is_denied(), "{context}: never, but admitted at the end of time");
                continue;
            };
            ensure!(d > 0, "{context}: denied with no wait");
            let seconds = d.div_ceil(SECOND).max(1);
            ensure_eq!(retry.whole_seconds(), Some(seconds), "{context}: for HTTP, {d} ns");
            let due =
                now.checked_add(d).ok_or_else(|| format!("{context}: {d} is after the end"))?;
            let early = bucket.try_acquire_at(cost, at(due - 1)).expect("a valid cost");
            ensure_eq!(
                early.retry_after().and_then(wait),
                Some(1),
                "{context}: a nanosecond before {due}"
            );
            ensure!(bucket.peek_at(at(due)).available() >= cost, "{context}: peek at {due}");
            if step.by_clock {
                let then = bucket.try_acquire_at(cost, at(due)).expect("a valid cost");
                ensure!(then.is_allowed(), "{context}: denied at {due}");
                time.go(Pace::Due(0), Some(d));
            }
        }
        Ok(())
    }
    check(3_000, 100, property as fn(_, _, _) -> _);
}

/// What peek announces comes at that nanosecond and not before.
#[test]
fn g5_peek_announces_the_next_token_and_the_full_bucket() {
    fn property(Any(terms): Any, start: Start, steps: Vec<Step>) -> Outcome {
        let bucket = Bucket::new(terms.made());
        let mut time = Time::new(terms, start);
        for (index, step) in steps.iter().enumerate() {
            let before = time.now();
            let cost = step.cost.of(terms, bucket.peek_at(at(before)).available());
            let now = time.go(step.pace, bucket_wait(&bucket, cost, before));
            let cost = step.cost.of(terms, bucket.peek_at(at(now)).available());
            let _outcome = match step.act {
                Act::Refund => bucket.refund_at(cost, at(now)).map(|_| ()),
                _ => bucket.try_acquire_at(cost, at(now)).map(|_| ()),
            };
            if is_fresh(&bucket) {
                // Its time has not begun.
                continue;
            }
            let context = format!("step {index}: {:?} of {cost} at {now}", step.act);
            let available = |then: u64| bucket.peek_at(at(then)).available();
            let peek = bucket.peek_at(at(now));
            let target = peek.available() + 1;
            for (name, wanted, wait) in [
                ("next token", target, wait(peek.until_next_token())),
                ("full", terms.capacity, wait(peek.until_full())),
            ] {
                match wait {
                    None => ensure!(available(u64::MAX) < wanted, "{context}: {name} never"),
                    Some(0) => ensure_eq!(available(now), wanted, "{context}: {name} now"),
                    Some(d) => {
                        ensure!(available(now + d) >= wanted, "{context}: {name} in {d} ns");
                        ensure!(available(now + d - 1) < wanted, "{context}: {name} before {d}");
                    }
                }
            }
        }
        Ok(())
    }
    check(2_000, 100, property as fn(_, _, _) -> _);
}

// ---------------------------------------------------------------------------------------------
// G6: bad input.

/// Numbers as bad as they come.
#[derive(Clone, Copy, Debug)]
struct Wild(u64);

impl Arbitrary for Wild {
    fn arbitrary(g: &mut Gen) -> Self {
        Self(match below(g, 6) {
            0 => below(g, 3),
            1 => u64::MAX - below(g, 3),
            2 => u64::arbitrary(g),
            3 => Quota::MAX_TOKENS - 2 + below(g, 5),
            _ => log_uniform(g, u64::MAX),
        })
    }
}

#[test]
fn g6_no_input_panics_and_bad_quotas_are_errors() {
    fn property(
        tokens: Wild,
        (seconds, nanoseconds): (Wild, u32),
        capacity: Wild,
        initial: Wild,
        calls: Vec<(Wild, Wild)>,
    ) -> Outcome {
        let (tokens, capacity, initial) = (tokens.0, capacity.0, initial.0);
        // Half of the periods are in the range of nanoseconds.
        let period = if nanoseconds % 2 == 0 {
            Duration::from_nanos(seconds.0)
        } else {
            Duration::new(seconds.0, nanoseconds % 1_000_000_000)
        };
        let counts = 1..=Quota::MAX_TOKENS;
        let periods = Duration::from_nanos(1)..=Quota::MAX_PERIOD;
        let new = Quota::new(tokens, period);
        ensure_eq!(new.is_ok(), counts.contains(&tokens) && periods.contains(&period), "{new:?}");
        let allotment = Quota::allotment(tokens);
        ensure_eq!(allotment.is_ok(), counts.contains(&tokens), "{allotment:?}");
        for quota in [new, allotment].into_iter().flatten() {
            ensure_eq!(quota.capacity(), tokens, "capacity");
            let burst = quota.burst(capacity);
            ensure_eq!(burst.is_ok(), counts.contains(&capacity), "{burst:?}");
            let burst = burst.unwrap_or(quota);
            let started = burst.initial(initial);
            ensure_eq!(started.is_ok(), initial <= burst.capacity(), "{started:?}");
            let quota = started.unwrap_or(burst);
            let bucket = Bucket::new(quota);
            let limiter = RateLimiter::<u64>::builder(quota).max_keys(2).build();
            let limiter = limiter.map_err(|error| error.to_string())?;
            for &(Wild(cost), Wild(now)) in &calls {
                let is_valid = (1..=quota.capacity()).contains(&cost);
                let old = format!("{bucket:?}{limiter:?}");
                let now = at(now);
                let all = [
                    bucket.try_acquire_at(cost, now).is_ok(),
                    bucket.refund_at(cost, now).is_ok(),
                    limiter.try_acquire_at(&(cost % 3), cost, now).is_ok(),
                    limiter.refund_at(&(cost % 3), cost, now).is_ok(),
                ];
                ensure_eq!(all, [is_valid; 4], "{cost} at {now}");
                if !is_valid {
                    ensure_eq!(format!("{bucket:?}{limiter:?}"), old, "an error changes nothing");
                }
                let peek = bucket.peek_at(now);
                ensure!(peek.available() <= quota.capacity(), "{peek:?}");
                let peek = limiter.peek_at(&(cost % 3), now);
                ensure!(peek.available() <= quota.capacity(), "{peek:?}");
                limiter.sweep_at(at(cost));
                limiter.remove(&(cost % 3));
            }
        }
        Ok(())
    }
    check(4_000, 20, property as fn(_, _, _, _, _) -> _);
}

#[test]
fn g6_times_and_waits_never_panic() {
    fn property(nanos: u64, seconds: u64, subsecond: u32, other: u64) -> Outcome {
        let time = Duration::new(seconds, subsecond % 1_000_000_000);
        let (now, other) = (at(nanos), at(other));
        let exact = u128::from(nanos) + time.as_nanos();
        let later = u64::try_from(exact).ok();
        ensure_eq!(now.checked_add(time).map(Timestamp::as_nanos), later, "checked_add");
        ensure_eq!(now.saturating_add(time).as_nanos(), later.unwrap_or(u64::MAX), "add");
        let earlier = u128::from(nanos).saturating_sub(time.as_nanos());
        ensure_eq!(u128::from(now.saturating_sub(time).as_nanos()), earlier, "sub");
        let since = nanos.saturating_sub(other.as_nanos());
        ensure_eq!(now.saturating_duration_since(other), Duration::from_nanos(since), "since");
        let _display = now.to_string();
        let clock = ManualClock::at(now);
        clock.advance(time);
        ensure_eq!(clock.now(), now.saturating_add(time), "advance");
        let rounded = RetryAfter::After(time).whole_seconds();
        let least = time.as_nanos().div_ceil(SECOND.into()).clamp(1, u64::MAX.into());
        ensure_eq!(rounded.map(u128::from), Some(least), "whole seconds of {time:?}");
        Ok(())
    }
    check(1_000, 100, property as fn(_, _, _, _) -> _);
}

// ---------------------------------------------------------------------------------------------
// G8: memory is bounded, whatever the policy. (Threads are the business of the stress tests.)

#[test]
fn g8_there_are_never_more_keys_than_max_keys() {
    fn property(Any(terms): Any, start: Start, steps: Vec<Step>, bound: u8) -> Outcome {
        let max_keys = 1 + usize::from(bound % 12);
        for overflow in [Overflow::Deny, Overflow::Share, Overflow::Forget] {
            let limiter = limiter_with(terms, max_keys, overflow, RandomState::new());
            let mut time = Time::new(terms, start);
            for step in &steps {
                let key = u64::from(step.key);
                let full = wait(limiter.peek_at(&key, at(time.now())).until_full());
                let now = time.go(step.pace, full);
                let cost = step.cost.of(terms, limiter.peek_at(&key, at(now)).available());
                match step.act {
                    Act::Sweep => _ = sweep(&limiter, step, now),
                    Act::Remove => _ = remove(&limiter, key, now),
                    _ => _ = acquire(&limiter, step, key, cost, now),
                }
                let len = limiter.len();
                ensure!(len <= max_keys, "{overflow:?}: {len} keys, at most {max_keys}");
            }
        }
        Ok(())
    }
    check(500, 200, property as fn(_, _, _, _) -> _);
}

// ---------------------------------------------------------------------------------------------
// Quotas that are not exact: close to what was asked for, and never above it.

/// Tokens and capacity up to 2^32, any period up to ten years.
#[derive(Clone, Copy, Debug)]
struct Promised(Terms);

impl Arbitrary for Promised {
    fn arbitrary(g: &mut Gen) -> Self {
        let tokens = log_uniform(g, PROMISED_TOKENS);
        let capacity = log_uniform(g, PROMISED_TOKENS);
        let period = match below(g, 4) {
            // One token next to a power of two of nanoseconds, or to its simple parts.
            0 => {
                let scale = (1_u128 << (30 + below(g, 30))) * u128::from(tokens);
                let near = scale / u128::from(1 + below(g, 9));
                let period = u64::try_from(near.min(TEN_YEARS.into())).expect("capped");
                let off = log_uniform(g, period.max(2));
                if bool::arbitrary(g) { period.saturating_sub(off) } else { period + off }
            }
            1 => (1 + below(g, 3_653)) * DAY,
            _ => log_uniform(g, TEN_YEARS),
        };
        let period = period.clamp(1, TEN_YEARS);
        Self(Terms { tokens, period, capacity, initial: capacity })
    }

    fn shrink(&self) -> Box<dyn Iterator<Item = Self>> {
        let terms = self.0;
        let less = [
            Terms { tokens: terms.tokens / 2, ..terms },
            Terms { capacity: terms.capacity / 2, initial: terms.capacity / 2, ..terms },
            Terms { period: terms.period / 2, ..terms },
        ];
        let is_valid = |terms: &Terms| terms.tokens.min(terms.capacity).min(terms.period) > 0;
        Box::new(less.into_iter().filter(is_valid).map(Self))
    }
}

/// Accepted; not above the rate asked for; below it by less than one part in 2^30; and exact
/// wherever the documentation says so.
fn is_close(terms: Terms) -> Outcome {
    let quota = terms.quota().map_err(|error| error.to_string())?;
    let rate = quota.effective_rate().ok_or("no rate")?;
    let asked = ratio(terms.tokens, terms.period);
    let effective = ratio(rate.tokens(), rate.nanos());
    ensure_eq!(*effective.numer(), BigInt::from(rate.tokens()), "lowest terms");
    ensure!(effective <= asked, "{rate:?} is above {asked}");
    let loss = (&asked - &effective) / &asked;
    ensure!(loss < ratio(1, 1_u64 << 30), "{rate:?} loses {loss}");
    let credits = u128::from(terms.capacity) * u128::from(terms.period / gcd(terms));
    ensure_eq!(quota.is_exact(), credits < 1 << 60, "exact: {rate:?}");
    if quota.is_exact() {
        ensure_eq!(effective, asked, "the exact rate");
        ensure_eq!(rate.resolution(), Duration::from_nanos(1), "the exact resolution");
    }
    // Where time is counted in coarser steps, they are not coarse for the bucket.
    if rate.resolution() > Duration::from_nanos(1) {
        let step = effective * whole(nanos(rate.resolution())) / whole(terms.capacity);
        ensure!(step < ratio(1, 1 << 20), "{rate:?}: a step fills {step} of the bucket");
    }
    Ok(())
}

#[test]
fn every_promised_quota_is_accepted_and_close_to_what_was_asked_for() {
    fn property(Promised(terms): Promised) -> Outcome {
        is_close(terms)
    }
    check(20_000, 100, property as fn(_) -> _);
}

#[test]
fn every_accepted_quota_is_close_to_what_was_asked_for() {
    fn property(Any(terms): Any, Inexact(inexact): Inexact) -> Outcome {
        if terms.period > 0 {
            is_close(terms)?;
        }
        is_close(inexact)
    }
    check(5_000, 100, property as fn(_, _) -> _);
}

#[test]
fn the_limits_of_the_promise_are_accepted() {
    let edges = [1, 2, 3, PROMISED_TOKENS / 2 + 1, PROMISED_TOKENS - 1, PROMISED_TOKENS];
    let periods = [
        1,
        2,
        3,
        SECOND - 1,
        SECOND + 1,
        (1 << 57) - 1,
        (1 << 57) + 1,
        (1 << 58) - 1,
        1 << 58,
        (1 << 58) + 1,
        TEN_YEARS - 1,
        TEN_YEARS,
    ];
    for tokens in edges {
        for capacity in edges {
            for period in periods {
                let terms = Terms { tokens, period, capacity, initial: capacity };
                is_close(terms).unwrap_or_else(|error| panic!("{terms:?}: {error}"));
            }
        }
    }
    let bytes = Quota::per_second(1_000_000_000_000).expect("accepted");
    assert!(bytes.is_exact() && bytes.capacity() == 1_000_000_000_000);
}

/// An inexact bucket that spends and gets back what the ideal one of the rate asked for spends and
/// gets back never holds more than that one, and it never holds less than the ideal one of its
/// effective rate by more than two steps: one that the time counted so far can lag behind, and one
/// that it can give up each time that it comes near its capacity.
#[test]
fn an_inexact_bucket_stays_between_two_ideal_ones() {
    fn property(Inexact(terms): Inexact, start: Start, steps: Vec<Step>) -> Outcome {
        stays_between_two_ideal_ones(terms, start, &steps)
    }
    check(250, 100, property as fn(_, _, _) -> _);
}

#[test]
fn an_inexact_bucket_with_late_callers_stays_between_two_ideal_ones() {
    fn property(Inexact(terms): Inexact, start: Start, steps: Vec<Late>) -> Outcome {
        stays_between_two_ideal_ones(terms, start, &plain(steps))
    }
    check(250, 100, property as fn(_, _, _) -> _);
}

fn stays_between_two_ideal_ones(terms: Terms, start: Start, steps: &[Step]) -> Outcome {
    let quota = terms.made();
    let rate = quota.effective_rate().expect("allotments are exact");
    let effective = ratio(rate.tokens(), rate.nanos());
    let resolution = nanos(rate.resolution());
    let lag = if resolution == 1 { whole(0) } else { whole(2) * &effective * whole(resolution) };
    let bucket = Bucket::new(quota);
    let mut above = Reference::new(terms);
    let mut below = Reference::with_rate(terms, effective);
    let mut time = Time::new(terms, start);
    // The latest instant at which something was spent or came back.
    let mut latest = 0;
    for (index, step) in steps.iter().enumerate() {
        let before = time.now();
        let cost = step.cost.of(terms, bucket.peek_at(at(before)).available());
        let now = time.go(step.pace, bucket_wait(&bucket, cost, before));
        let cost = step.cost.of(terms, bucket.peek_at(at(now)).available());
        let context = format!("step {index}: {:?} of {cost} at {now}", step.act);
        match step.act {
            Act::Refund => {
                // Not at a late reading: the part of a step that has passed is not counted yet,
                // so that time could pass again for the tokens that come back.
                if now >= latest && bucket.refund_at(cost, at(now)).is_ok() {
                    latest = now;
                    above.refund(cost, now);
                    below.refund(cost, now);
                }
            }
            _ => match bucket.try_acquire_at(cost, at(now)) {
                Ok(Decision::Allowed(_)) => {
                    latest = latest.max(now);
                    for (ideal, name) in [(&mut above, "asked for"), (&mut below, "effective")] {
                        let ideal = ideal.acquire(cost, now);
                        let is_there = matches!(ideal, Verdict::Allowed { .. });
                        ensure!(is_there, "{context}: not there at the rate {name}");
                    }
                }
                Ok(Decision::Denied(_)) => {
                    let ideal = below.tokens_at(now);
                    ensure!(ideal < whole(cost) + &lag, "{context}: {ideal} are there");
                    // Both begin at the first request.
                    if !above.is_used() {
                        above.acquire(cost, now);
                        below.acquire(cost, now);
                    }
                }
                Err(_) => {}
            },
        }
        let available = whole(bucket.peek_at(at(now)).available());
        let (most, least) = (above.tokens_at(now), below.tokens_at(now));
        ensure!(available <= most, "{context}: {available} of {most}");
        let next = available + whole(1);
        ensure!(next + &lag > least, "{context}: less than {least} by more than {lag}");
    }
    Ok(())
}

/// Trap 5: whoever polls in steps that are far finer than a token, or than the step in which time
/// is counted, gets all that comes.
#[test]
fn polling_does_not_starve_an_inexact_quota() {
    fn property(Inexact(terms): Inexact, start: Start, fineness: u8, polls: Vec<u8>) -> Outcome {
        let terms = terms.starting_full();
        let quota = terms.made();
        let rate = quota.effective_rate().expect("allotments are exact");
        let effective: BigRational = ratio(rate.tokens(), rate.nanos());
        let resolution = nanos(rate.resolution());
        let token = u64::try_from(rate.nanos() / u128::from(rate.tokens())).expect("is a time");
        // A poll is up to some parts of what is coarser, and never long enough to fill the bucket.
        let step = resolution.max(token).min(token.saturating_mul(terms.capacity / 512));
        let step = (step / (1 + u64::from(fineness))).max(1);
        let begin = start.0.min(10 * YEAR);
        let bucket = Bucket::new(quota);
        let drained = bucket.try_acquire_at(terms.capacity, at(begin)).expect("a valid cost");
        ensure!(drained.is_allowed(), "a full bucket has its capacity");
        let (mut now, mut admitted) = (begin, 0);
        for poll in polls {
            let Some(then) = (step / 256 * u64::from(poll) + 1).checked_add(now) else { break };
            now = then;
            let available = bucket.peek_at(at(now)).available();
            if available > 0 {
                let all = bucket.try_acquire_at(available, at(now)).expect("a valid cost");
                ensure!(all.is_allowed(), "peek said that {available} are there at {now}");
                admitted += available;
            }
            let denied = bucket.try_acquire_at(1, at(now)).expect("a valid cost");
            ensure!(denied.is_denied(), "nothing is left");
        }
        // The part of a step that is not over yet, and the part of a token.
        let came = &effective * whole(now - begin);
        let short = &came - whole(admitted);
        let lag = effective * whole(resolution - 1) + whole(1);
        ensure!(short < lag, "{admitted} admitted of {came}");
        ensure!(whole(admitted) <= came, "{admitted} admitted of {came}");
        Ok(())
    }
    check(1_500, 1_000, property as fn(_, _, _, _) -> _);
}

/// Whoever asks for less than comes is always served, also where time is counted in coarse steps:
/// a full bucket that gets more than it gives never runs dry.
#[test]
fn steady_demand_below_the_rate_is_always_served() {
    fn property(Inexact(terms): Inexact, start: Start, part: u8, share: u8) -> Outcome {
        let terms = terms.starting_full();
        let quota = terms.made();
        let rate = quota.effective_rate().expect("allotments are exact");
        let cost = terms.capacity.div_ceil(8 + u64::from(part));
        // So long that what the cost is comes, and 1 to 50 % more.
        let percent = u128::from(101 + share % 50);
        let pause = u128::from(cost) * rate.nanos() * percent / 100 / u128::from(rate.tokens()) + 1;
        let pause = u64::try_from(pause).unwrap_or(u64::MAX);
        let bucket = Bucket::new(quota);
        let mut now = start.0.min(YEAR);
        for request in 0..500 {
            let decision = bucket.try_acquire_at(cost, at(now)).expect("a valid cost");
            ensure!(
                decision.is_allowed(),
                "request {request} of {cost}, one in {pause} ns: {decision:?} with {rate:?}"
            );
            let Some(then) = now.checked_add(pause) else { break };
            now = then;
        }
        Ok(())
    }
    check(1_000, 100, property as fn(_, _, _, _) -> _);
}

fn gcd(terms: Terms) -> u64 {
    let (mut a, mut b) = (terms.tokens, terms.period);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

// ---------------------------------------------------------------------------------------------
// G2 over years: millions of steps in a row.

/// A small generator of good numbers (SplitMix64): quickcheck's own takes longer than a decision.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// 10^7 steps for each quota in an optimized build; a debug build has the patience for fewer.
const LONG_RUN: u64 = if cfg!(debug_assertions) { 250_000 } else { 10_000_000 };

fn runs_for_years_as_the_reference(text: &str) {
    let quota: Quota = text.parse().expect("a quota");
    assert!(quota.is_exact(), "{text}");
    let terms = Terms {
        tokens: quota.tokens(),
        period: nanos(quota.period().expect("a refill")),
        capacity: quota.capacity(),
        initial: quota.initial_tokens(),
    };
    let mut now = YEAR;
    let bucket = Bucket::new(quota);
    let mut reference = IntegerReference::new(terms);
    let mut random = Random(42);
    let token = terms.period.div_ceil(terms.tokens);
    let mut wait = None;
    let (mut admitted, mut denied) = (0_u64, 0_u64);
    for step in 0..LONG_RUN {
        now = match random.below(64) {
            0..=31 => now + random.below(2 * token + 1),
            // What was denied last comes again: early by a nanosecond, in time, or late.
            32..=55 => now + wait.unwrap_or(0) + random.below(3) - u64::from(wait.is_some()),
            56 | 57 => now + 1,
            58 => now - random.below(token + 2),
            59 if random.below(LONG_RUN / 4_000) == 0 => now + random.below(100 * DAY),
            _ => now,
        };
        let cost = match random.below(8) {
            0 => 1 + random.below(terms.capacity),
            1 => terms.capacity,
            _ => 1 + random.below(terms.capacity.min(2)),
        };
        let decision = bucket.try_acquire_at(cost, at(now)).expect("a valid cost");
        let is = verdict(decision);
        assert_eq!(is, reference.acquire(cost, now), "{text}: step {step}, {cost} at {now}");
        wait = match is {
            Verdict::Allowed { .. } => {
                admitted += 1;
                None
            }
            Verdict::Denied { wait, .. } => {
                denied += 1;
                wait
            }
        };
    }
    assert!(admitted > LONG_RUN / 10 && denied > LONG_RUN / 10, "{text}: {admitted}, {denied}");
    assert!(now > 2 * YEAR, "{text}: only {now} ns");
}

#[test]
fn g2_over_years_7_per_minute() {
    runs_for_years_as_the_reference("7/min burst 5");
}

#[test]
fn g2_over_years_3_per_second() {
    runs_for_years_as_the_reference("3/s burst 1000 initial 0");
}

#[test]
fn g2_over_years_a_prime_number_per_month() {
    runs_for_years_as_the_reference("1_000_003 per 30d burst 400");
}

#[test]
fn g2_over_years_a_terabyte_per_second() {
    runs_for_years_as_the_reference("1_000_000_000_000/s");
}

// ---------------------------------------------------------------------------------------------
// Texts.

#[test]
fn every_quota_is_read_back_from_its_text() {
    fn property(Any(terms): Any, Inexact(inexact): Inexact) -> Outcome {
        for quota in [terms.made(), inexact.made()] {
            let text = quota.to_string();
            ensure_eq!(text.parse::<Quota>(), Ok(quota), "{text}");
        }
        Ok(())
    }
    check(5_000, 100, property as fn(_, _) -> _);
}

/// A word in a mix of cases.
fn spelled(g: &mut Gen, word: &str) -> String {
    word.chars().map(|c| if bool::arbitrary(g) { c.to_ascii_uppercase() } else { c }).collect()
}

/// The documented forms in all their spellings, and the quota that they mean.
#[derive(Clone, Debug)]
struct Spelling {
    text: String,
    terms: Terms,
}

impl Arbitrary for Spelling {
    fn arbitrary(g: &mut Gen) -> Self {
        const UNITS: [(u64, &[&str]); 8] = [
            (1, &["ns", "nanosecond", "nanoseconds"]),
            (1_000, &["us", "µs", "microsecond", "microseconds"]),
            (1_000_000, &["ms", "millisecond", "milliseconds"]),
            (SECOND, &["s", "sec", "second", "seconds"]),
            (60 * SECOND, &["m", "min", "minute", "minutes"]),
            (3_600 * SECOND, &["h", "hour", "hours"]),
            (DAY, &["d", "day", "days"]),
            (7 * DAY, &["w", "week", "weeks"]),
        ];
        let space = |g: &mut Gen| *g.choose(&["", " ", "  ", "\t", "\n "]).expect("not empty");
        let number = |g: &mut Gen, number: u64| {
            let digits = number.to_string();
            if bool::arbitrary(g) && digits.len() > 3 {
                let (left, right) = digits.split_at(digits.len() - 3);
                return format!("{left}_{right}");
            }
            format!("{}{digits}", if one_in(g, 8) { "00" } else { "" })
        };
        let capacity = log_uniform(g, PROMISED_TOKENS);
        let tokens = if one_in(g, 3) { capacity } else { log_uniform(g, PROMISED_TOKENS) };
        let initial = if bool::arbitrary(g) { capacity } else { below(g, capacity + 1) };
        let mut terms = Terms { tokens, period: 0, capacity, initial };
        let mut text = space(g).to_owned();
        let mut options = Vec::new();
        if one_in(g, 6) {
            terms.tokens = 0;
            text += &spelled(g, "allotment");
            text += space(g);
            text += &number(g, capacity);
        } else {
            let (unit, names) = *g.choose(&UNITS).expect("not empty");
            let count = if bool::arbitrary(g) { 1 } else { log_uniform(g, TEN_YEARS / unit) };
            terms.period = unit * count;
            text += &number(g, tokens);
            text += space(g);
            text += &(if bool::arbitrary(g) { "/".to_owned() } else { spelled(g, "per ") });
            if count > 1 || bool::arbitrary(g) {
                text += space(g);
                text += &number(g, count);
            }
            text += space(g);
            let name = *g.choose(names).expect("not empty");
            text += &spelled(g, name);
            if capacity != tokens || bool::arbitrary(g) {
                options.push(("burst", capacity));
            }
        }
        if initial != capacity || bool::arbitrary(g) {
            options.push(("initial", initial));
        }
        if bool::arbitrary(g) {
            options.reverse();
        }
        for (name, value) in options {
            text += " ";
            text += &spelled(g, name);
            text += space(g);
            text += &number(g, value);
        }
        text += space(g);
        Self { text, terms }
    }
}

#[test]
fn every_spelling_of_a_quota_is_read() {
    fn property(Spelling { text, terms }: Spelling) -> Outcome {
        ensure_eq!(text.parse::<Quota>(), terms.quota(), "{text:?}");
        Ok(())
    }
    check(5_000, 100, property as fn(_) -> _);
}

/// Texts that are nearly quotas, and texts that are not.
#[derive(Clone, Debug)]
struct Text(String);

impl Arbitrary for Text {
    fn arbitrary(g: &mut Gen) -> Self {
        const PARTS: [&str; 40] = [
            "5",
            "0",
            "1",
            "_",
            "00",
            "/",
            " ",
            "\t",
            "\u{a0}",
            "per",
            "PER",
            "min",
            "s",
            "ms",
            "ns",
            "µs",
            "μs",
            "day",
            "w",
            "burst",
            "initial",
            "allotment",
            "-",
            "+",
            ".",
            "1e9",
            "18446744073709551615",
            "18446744073709551616",
            "99999999999999999999999",
            "é",
            "💥",
            "\u{0}",
            "ſ",
            "K",
            "٣",
            "١/s",
            "5/min",
            "5 per 3s",
            "burst 5",
            "initial 5",
        ];
        match below(g, 4) {
            0 => Self(String::arbitrary(g)),
            1 => {
                // One character of a good text changed.
                let mut chars: Vec<char> = Spelling::arbitrary(g).text.chars().collect();
                let length = u64::try_from(chars.len()).expect("short");
                let index = usize::try_from(below(g, length)).expect("short");
                match below(g, 3) {
                    0 => _ = chars.remove(index),
                    1 => chars[index] = char::arbitrary(g),
                    _ => chars.insert(index, char::arbitrary(g)),
                }
                Self(chars.into_iter().collect())
            }
            _ => {
                let parts = 1 + below(g, 9);
                Self((0..parts).map(|_| *g.choose(&PARTS).expect("not empty")).collect())
            }
        }
    }

    fn shrink(&self) -> Box<dyn Iterator<Item = Self>> {
        Box::new(self.0.shrink().map(Self))
    }
}

#[test]
fn g6_no_text_panics_and_errors_point_into_it() {
    fn property(Text(text): Text) -> Outcome {
        match text.parse::<Quota>() {
            Ok(quota) => ensure_eq!(quota.to_string().parse(), Ok(quota), "{text:?}"),
            Err(error) => {
                ensure!(!error.to_string().is_empty(), "{error:?}");
                if let QuotaError::Syntax { at, .. } = error {
                    ensure!(text.is_char_boundary(at), "{text:?}: byte {at} of {}", text.len());
                }
            }
        }
        Ok(())
    }
    check(20_000, 30, property as fn(_) -> _);
}

#[cfg(feature = "serde")]
mod serialized {
    use std::fmt;

    use serde::de::value::SeqDeserializer;
    use serde::de::{self, Visitor};
    use serde::{Deserialize as _, Deserializer, Serialize, ser};
    use serde_json::{Value, from_str, from_value, json, to_string};

    use super::*;

    #[test]
    fn every_quota_survives_json_as_a_text() {
        fn property(Any(terms): Any, Inexact(inexact): Inexact) -> Outcome {
            for quota in [terms.made(), inexact.made()] {
                let text = to_string(&quota).map_err(|error| error.to_string())?;
                ensure_eq!(text, format!("{:?}", quota.to_string()), "a JSON string");
                ensure_eq!(from_str::<Quota>(&text).ok(), Some(quota), "{text}");
            }
            Ok(())
        }
        check(2_000, 100, property as fn(_, _) -> _);
    }

    #[test]
    fn every_quota_is_read_from_its_fields() {
        fn property(Any(terms): Any, has_unit: bool) -> Outcome {
            let Terms { tokens, period, capacity, initial } = terms;
            let time = if has_unit { json!(format!("{period} ns")) } else { json!(period) };
            let object = match period {
                0 => json!({ "tokens": capacity, "initial": initial }),
                _ => json!({
                    "tokens": tokens, "period": time, "burst": capacity, "initial": initial
                }),
            };
            let quota = from_value::<Quota>(object.clone()).map_err(|error| error.to_string());
            ensure_eq!(quota, Ok(terms.made()), "{object}");
            Ok(())
        }
        check(2_000, 100, property as fn(_, _) -> _);
    }

    #[test]
    fn every_quota_survives_a_binary_format() {
        fn property(Any(terms): Any, Inexact(inexact): Inexact) -> Outcome {
            for quota in [terms.made(), inexact.made()] {
                let fields = quota.serialize(Binary::default()).map_err(|error| error.0)?;
                ensure_eq!(fields.0.len(), 4, "the fields of {quota:?}");
                let read = Quota::deserialize(fields.clone()).map_err(|error| error.0);
                ensure_eq!(read, Ok(quota), "from {fields:?}");
            }
            Ok(())
        }
        check(1_000, 100, property as fn(_, _) -> _);
    }

    #[test]
    fn a_quota_in_fields_needs_neither_burst_nor_initial() {
        fn property(Any(terms): Any) -> Outcome {
            let object = match terms.period {
                0 => json!({ "tokens": terms.capacity }),
                period => json!({ "tokens": terms.tokens, "period": period }),
            };
            let simple = match terms.period {
                0 => Quota::allotment(terms.capacity),
                period => Quota::new(terms.tokens, Duration::from_nanos(period)),
            };
            ensure_eq!(from_value(object.clone()).ok(), simple.ok(), "{object}");
            Ok(())
        }
        check(1_000, 100, property as fn(_) -> _);
    }

    #[test]
    fn g6_bad_fields_are_errors() {
        fn property(fields: Vec<(u8, Wild, Text)>) -> Outcome {
            let mut object = serde_json::Map::new();
            for (name, Wild(number), Text(text)) in fields {
                let names = ["tokens", "period", "burst", "initial", "brust"];
                let value = match name / 16 % 5 {
                    0 => Value::from(text),
                    1 => Value::Null,
                    2 => json!(-1),
                    _ => Value::from(number),
                };
                object.insert(names[usize::from(name) % names.len()].to_owned(), value);
            }
            let has = |name: &str| object.get(name).and_then(Value::as_u64);
            let (tokens, period) = (has("tokens"), has("period"));
            let read = from_value::<Quota>(Value::Object(object.clone()));
            if let Ok(quota) = read {
                ensure!(!object.contains_key("brust"), "an unknown field in {object:?}");
                if object.contains_key("period") {
                    ensure!(period != Some(0), "no time in {object:?}");
                    ensure_eq!(Some(quota.tokens()), tokens, "tokens of {object:?}");
                } else {
                    ensure_eq!(Some(quota.capacity()), tokens, "an allotment from {object:?}");
                }
                for (name, read) in
                    [("burst", quota.capacity()), ("initial", quota.initial_tokens())]
                {
                    ensure_eq!(has(name).unwrap_or(read), read, "{name} of {object:?}");
                }
            }
            Ok(())
        }
        check(2_000, 6, property as fn(_) -> _);
    }

    #[test]
    fn every_instant_survives_json() {
        fn property(Wild(now): Wild) -> Outcome {
            let text = to_string(&at(now)).map_err(|error| error.to_string())?;
            ensure_eq!(text, now.to_string(), "a number");
            ensure_eq!(from_str::<Timestamp>(&text).ok(), Some(at(now)), "{text}");
            Ok(())
        }
        check(1_000, 100, property as fn(_) -> _);
    }

    /// The least binary format: structs of numbers, which may be missing.
    #[derive(Clone, Debug, Default)]
    struct Binary(Vec<Option<u64>>);

    #[derive(Debug)]
    struct Wrong(String);

    impl std::error::Error for Wrong {}

    impl fmt::Display for Wrong {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(&self.0)
        }
    }

    impl ser::Error for Wrong {
        fn custom<T: fmt::Display>(error: T) -> Self {
            Self(error.to_string())
        }
    }

    impl de::Error for Wrong {
        fn custom<T: fmt::Display>(error: T) -> Self {
            Self(error.to_string())
        }
    }

    macro_rules! refuse {
        ($($method:ident($($argument:ty),*);)+) => {$(
            fn $method(self, $(_: $argument),*) -> Result<Self::Ok, Wrong> {
                Err(Wrong(stringify!($method).to_owned()))
            }
        )+};
    }

    macro_rules! refuse_parts {
        ($($method:ident($($argument:ty),*) -> $part:ident;)+) => {$(
            fn $method(self, $(_: $argument),*) -> Result<Self::$part, Wrong> {
                Err(Wrong(stringify!($method).to_owned()))
            }
        )+};
    }

    type Never = ser::Impossible<Binary, Wrong>;

    impl ser::Serializer for Binary {
        type Ok = Self;
        type Error = Wrong;
        type SerializeSeq = Never;
        type SerializeTuple = Never;
        type SerializeTupleStruct = Never;
        type SerializeTupleVariant = Never;
        type SerializeMap = Never;
        type SerializeStruct = Self;
        type SerializeStructVariant = Never;

        fn is_human_readable(&self) -> bool {
            false
        }

        fn serialize_u64(self, number: u64) -> Result<Self, Wrong> {
            Ok(Self(vec![Some(number)]))
        }

        fn serialize_none(self) -> Result<Self, Wrong> {
            Ok(Self(vec![None]))
        }

        fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Self, Wrong> {
            value.serialize(self)
        }

        fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self, Wrong> {
            Ok(self)
        }

        fn serialize_newtype_struct<T: Serialize + ?Sized>(
            self,
            _: &'static str,
            value: &T,
        ) -> Result<Self, Wrong> {
            value.serialize(self)
        }

        fn serialize_newtype_variant<T: Serialize + ?Sized>(
            self,
            _: &'static str,
            _: u32,
            _: &'static str,
            _: &T,
        ) -> Result<Self, Wrong> {
            Err(Wrong("serialize_newtype_variant".to_owned()))
        }

        refuse! {
            serialize_bool(bool);
            serialize_i8(i8);
            serialize_i16(i16);
            serialize_i32(i32);
            serialize_i64(i64);
            serialize_u8(u8);
            serialize_u16(u16);
            serialize_u32(u32);
            serialize_f32(f32);
            serialize_f64(f64);
            serialize_char(char);
            serialize_str(&str);
            serialize_bytes(&[u8]);
            serialize_unit();
            serialize_unit_struct(&'static str);
            serialize_unit_variant(&'static str, u32, &'static str);
        }

        refuse_parts! {
            serialize_seq(Option<usize>) -> SerializeSeq;
            serialize_tuple(usize) -> SerializeTuple;
            serialize_tuple_struct(&'static str, usize) -> SerializeTupleStruct;
            serialize_tuple_variant(&'static str, u32, &'static str, usize) -> SerializeTupleVariant;
            serialize_map(Option<usize>) -> SerializeMap;
            serialize_struct_variant(&'static str, u32, &'static str, usize) -> SerializeStructVariant;
        }
    }

    impl ser::SerializeStruct for Binary {
        type Ok = Self;
        type Error = Wrong;

        fn serialize_field<T: Serialize + ?Sized>(
            &mut self,
            _: &'static str,
            value: &T,
        ) -> Result<(), Wrong> {
            self.0.extend(value.serialize(Self::default())?.0);
            Ok(())
        }

        fn end(self) -> Result<Self, Wrong> {
            Ok(self)
        }
    }

    impl<'de> Deserializer<'de> for Binary {
        type Error = Wrong;

        fn is_human_readable(&self) -> bool {
            false
        }

        fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
            let fields = self.0.into_iter().map(Number);
            visitor.visit_seq(SeqDeserializer::new(fields))
        }

        serde::forward_to_deserialize_any! {
            bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit
            unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
        }
    }

    struct Number(Option<u64>);

    impl de::IntoDeserializer<'_, Wrong> for Number {
        type Deserializer = Self;

        fn into_deserializer(self) -> Self {
            self
        }
    }

    impl<'de> Deserializer<'de> for Number {
        type Error = Wrong;

        fn is_human_readable(&self) -> bool {
            false
        }

        fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
            self.0.map_or_else(|| Err(Wrong("no number".to_owned())), |n| visitor.visit_u64(n))
        }

        fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
            if self.0.is_some() { visitor.visit_some(self) } else { visitor.visit_none() }
        }

        serde::forward_to_deserialize_any! {
            bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf unit
            unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
        }
    }
}
