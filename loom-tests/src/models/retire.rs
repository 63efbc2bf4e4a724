//! A bucket leaves the map and its key comes back: nothing is sold twice.

use super::{World, explore, quota};
use crate::Clock as _;

/// A caller reads the clock at 1 and stalls. Meanwhile its key's bucket is drained at 2, is full
/// again and retired at 12. What the caller then begins must not be in the past (trap 3).
#[test]
fn stale_reader_re_creates() {
    explore("stale_reader_re_creates", Some(3), || {
        let world = World::limiter(quota(1, 10, 1), 2, 1);
        let stale = world.clock().now();
        world.clock().set(2);
        world.acquire(0);
        let reader = world.spawn(move |world| {
            world.acquire_at(0, stale);
        });
        world.clock().set(12);
        world.sweep(12);
        world.clock().set(13);
        world.acquire(0);
        reader.join().unwrap();
        world.check();
        world.check_bound();
    });
}

/// Two callers hold the same bucket while it is retired; one of them begins the next one
/// (trap 2).
#[test]
fn acquire_against_retire() {
    explore("acquire_against_retire", Some(2), || {
        let world = World::limiter(quota(1, 10, 1), 2, 0);
        world.acquire(0);
        world.clock().set(10);
        let spender = world.spawn(|world| {
            world.acquire(0);
        });
        let sweeper = world.spawn(|world| {
            world.sweep(10);
        });
        world.acquire(0);
        spender.join().unwrap();
        sweeper.join().unwrap();
        assert_eq!(world.admissions(), 2, "one at 0 and one at 10");
        world.check();
        world.check_bound();
    });
}

/// The thread that retires a bucket stalls before it removes it. A second one helps, and a third,
/// with a stale reading, begins the next bucket: what the first had raised must reach the third by
/// way of the second.
#[test]
fn helper_carries_the_floor() {
    explore("helper_carries_the_floor", Some(2), || {
        let world = World::limiter(quota(1, 10, 1), 2, 1);
        world.acquire(0);
        let stale = crate::Timestamp::from_nanos(2);
        world.clock().set(11);
        let sweeper = world.spawn(|world| {
            world.sweep(11);
        });
        let helper = world.spawn(move |world| {
            // Meets RETIRED, and then takes part like any other.
            world.acquire_at(0, stale);
        });
        world.acquire_at(0, stale);
        sweeper.join().unwrap();
        helper.join().unwrap();
        world.clock().set(12);
        world.acquire(0);
        assert!(world.admissions() <= 2, "one at 1, and one of what was full at 11");
        world.check();
        world.check_bound();
    });
}

/// `remove` hands out a new bucket by its nature, but once, and not in the past.
#[test]
fn remove_against_acquire() {
    explore("remove_against_acquire", Some(3), || {
        let world = World::limiter(quota(1, 10, 1), 2, 5);
        world.acquire(0);
        let spender = world.spawn(|world| {
            world.acquire(0);
        });
        let removed = world.subject.remove(&0);
        assert!(removed);
        spender.join().unwrap();
        world.acquire(0);
        assert_eq!(world.admissions(), 2, "one from each bucket");
        assert_eq!(world.len(), 1);
    });
}

/// Two threads sweep the same bucket: it is counted once, and its slot is freed once.
#[test]
fn sweep_against_sweep() {
    explore("sweep_against_sweep", None, || {
        let world = World::limiter(quota(1, 10, 1), 2, 0);
        world.acquire(0);
        world.clock().set(10);
        let other = world.spawn(|world| {
            world.sweep(10);
        });
        world.sweep(10);
        other.join().unwrap();
        assert_eq!(world.len(), 0);
        world.acquire(1);
        world.acquire(2);
        assert_eq!(world.len(), 2);
        world.check();
        world.check_bound();
    });
}
