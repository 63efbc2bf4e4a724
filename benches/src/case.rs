//! The cases, and what a limiter must do in them.

use std::time::Duration;

use clap::ValueEnum;

use crate::subject::Quota;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Case {
    /// Random keys that the limiter knows, all admitted.
    KnownAllow,
    /// Random keys that the limiter knows, all denied.
    KnownDeny,
    /// Keys that the limiter has never seen, all admitted and kept.
    NewKey,
    /// A single key, admitted.
    HotAllow,
    /// A single key, denied.
    HotDeny,
    /// `known_allow` with addresses as text.
    KnownAllowStr,
    /// `known_deny` with addresses as text.
    KnownDenyStr,
    /// `new_key` with addresses as text.
    NewKeyStr,
    /// Latency of single calls under a flood of new keys; not timed by default.
    Tail,
    /// Bytes per key; not measured by default.
    Memory,
}

/// How a limiter is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Primed with every key, then asked for them.
    Known,
    /// Built anew for each round, and asked for each key once.
    New,
}

impl Case {
    /// The cases that go into `peers.json`.
    pub const TIMED: [Self; 8] = [
        Self::KnownAllow,
        Self::KnownDeny,
        Self::NewKey,
        Self::HotAllow,
        Self::HotDeny,
        Self::KnownAllowStr,
        Self::KnownDenyStr,
        Self::NewKeyStr,
    ];

    /// As on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().expect("no case is hidden").get_name().to_owned()
    }

    /// Known keys or new ones.
    pub fn kind(self) -> Kind {
        if matches!(self, Self::NewKey | Self::NewKeyStr) { Kind::New } else { Kind::Known }
    }

    /// Whether there is a single key.
    pub fn is_hot(self) -> bool {
        matches!(self, Self::HotAllow | Self::HotDeny)
    }

    /// Whether each check must be denied; else each must be admitted.
    pub fn denies(self) -> bool {
        matches!(self, Self::KnownDeny | Self::KnownDenyStr | Self::HotDeny)
    }

    /// Whether the keys are text.
    pub fn is_str(self) -> bool {
        matches!(self, Self::KnownAllowStr | Self::KnownDenyStr | Self::NewKeyStr)
    }

    /// The quota of every limiter in this case. They are chosen so that tollgate, whose new keys
    /// tidy away full buckets, keeps every bucket, as its peers do.
    pub fn quota(self) -> Quota {
        if self.denies() {
            // Spent by the first check, and not refilled while this runs.
            Quota { tokens: 1, period: DAY, burst: 1 }
        } else if self.is_hot() {
            // A token each nanosecond: never empty, whatever happens.
            Quota { tokens: 1_000_000_000, period: Duration::from_secs(1), burst: 1_000_000_000 }
        } else if self.kind() == Kind::New {
            Quota { tokens: 1, period: DAY, burst: 1_000 }
        } else {
            // More than all rounds together take from one key.
            Quota { tokens: 1, period: Duration::from_secs(60), burst: 10_000_000 }
        }
    }
}
