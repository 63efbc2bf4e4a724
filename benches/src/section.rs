//! The timed section: threads that start together and check keys until theirs are used up.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::key::Key;
use crate::subject::Subject;

/// How the checks of a thread follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// At once.
    Dense,
    /// After a reading of `Instant`, see [`Subject::run_apart`].
    Apart,
}

/// What one thread does.
pub struct Work<'k, K> {
    /// Checked before the clock starts.
    pub warm_up: &'k [K],
    /// Checked while it runs.
    pub timed: &'k [K],
}

/// What came of it.
pub struct Outcome {
    /// From the first thread's start to the last one's end.
    pub elapsed: Duration,
    /// Of the timed checks.
    pub admitted: usize,
}

/// Runs each thread's work on every subject, one after the other; one thread for each `Work`.
pub fn run<K: Key>(subjects: &[Box<dyn Subject<K>>], work: &[Work<'_, K>], pace: Pace) -> Outcome {
    let run_one = match pace {
        Pace::Dense => Subject::run,
        Pace::Apart => Subject::run_apart,
    };
    let start = SpinBarrier { missing: AtomicUsize::new(work.len()) };
    let runs: Vec<_> = thread::scope(|scope| {
        let start = &start;
        let threads: Vec<_> = work
            .iter()
            .map(|work| {
                scope.spawn(move || {
                    for subject in subjects {
                        subject.run(work.warm_up);
                    }
                    start.wait();
                    let began = Instant::now();
                    let admitted: usize =
                        subjects.iter().map(|subject| run_one(&**subject, work.timed)).sum();
                    (began, Instant::now(), admitted)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no check panics")).collect()
    });
    let began = runs.iter().map(|&(began, ..)| began).min().expect("there is a thread");
    let ended = runs.iter().map(|&(_, ended, _)| ended).max().expect("there is a thread");
    Outcome { elapsed: ended - began, admitted: runs.iter().map(|&(.., admitted)| admitted).sum() }
}

/// What a pace adds to each check by itself, in nanoseconds.
pub fn own_cost(pace: Pace) -> f64 {
    const READINGS: u32 = 10_000;
    let batch = || {
        let began = Instant::now();
        for _ in 0..READINGS {
            black_box(Instant::now());
        }
        began.elapsed().as_nanos() as f64 / f64::from(READINGS)
    };
    match pace {
        Pace::Dense => 0.0,
        // The least: what is above it is the work of others.
        Pace::Apart => (0..100).map(|_| batch()).fold(f64::INFINITY, f64::min),
    }
}

/// A barrier whose threads leave it within a cache miss of each other, where std's takes as long as
/// the system takes to wake them.
struct SpinBarrier {
    missing: AtomicUsize,
}

impl SpinBarrier {
    fn wait(&self) {
        self.missing.fetch_sub(1, Ordering::AcqRel);
        let mut spins = 0_u32;
        while self.missing.load(Ordering::Acquire) > 0 {
            spins += 1;
            // For those who bench on fewer cores than threads.
            if spins % 1_024 == 0 {
                thread::yield_now();
            }
            spin_loop();
        }
    }
}
