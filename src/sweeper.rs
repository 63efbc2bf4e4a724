//! The optional background thread that sweeps a limiter, and ends with it.

use core::hash::Hash;
use std::io;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::clock::Clock;
use crate::limiter::RateLimiter;

/// The limiter's end of the channel on which its sweeper waits. Nothing is ever sent: that the
/// limiter was dropped is the message, and it wakes the sweeper at once.
#[derive(Debug, Default)]
pub(crate) struct Sweeper {
    alive: Mutex<Option<Sender<()>>>,
}

impl<K, C, S> RateLimiter<K, C, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    C: Clock + Send + Sync + 'static,
    S: Send + Sync + 'static,
{
    /// Starts a thread that [sweeps](Self::sweep) after each `interval` (of at least 1 ms) until
    /// the last `Arc` of the limiter is dropped, which ends it at once. A second call changes
    /// nothing, not even the interval.
    ///
    /// Optional: new keys tidy the table as they come. It frees memory in idle times.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # use tollgate::{Quota, RateLimiter};
    /// let limiter = Arc::new(RateLimiter::<String>::new(Quota::per_second(5)?));
    /// limiter.start_sweeper(Duration::from_secs(10))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn start_sweeper(self: &Arc<Self>, interval: Duration) -> io::Result<()> {
        let mut running = self.sweeper.alive.lock().unwrap_or_else(PoisonError::into_inner);
        if running.is_some() {
            return Ok(());
        }
        let (alive, end) = mpsc::channel();
        let interval = interval.max(Duration::from_millis(1));
        // Weak: the sweeper keeps the limiter alive only while it sweeps.
        let limiter = Arc::downgrade(self);
        thread::Builder::new().name("tollgate-sweeper".into()).spawn(move || {
            while end.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                let Some(limiter) = limiter.upgrade() else { break };
                limiter.sweep();
            }
        })?;
        *running = Some(alive);
        Ok(())
    }
}
