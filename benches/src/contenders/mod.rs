//! Who takes part. Each file has the adapters of one crate; [`all`] is the order of the tables.

mod better_bucket;
mod floor;
mod governor;
mod leaky_bucket;
mod mapped;
mod mutex_sharded;
mod rate_net;
mod ratelimit;
mod tollgate;

use crate::key::Key;
use crate::subject::Contender;

/// The name of the contender that `ratio_to_governor` compares with.
pub const GOVERNOR: &str = "governor-dashmap";

/// The name of the contender that `ratio_to_floor` compares with.
pub const FLOOR: &str = "floor";

/// Everybody.
pub fn all<K: Key>() -> Vec<Contender<K>> {
    vec![
        tollgate::map(),
        tollgate::map_tsc_foldhash(),
        tollgate::map_coarse(),
        tollgate::bucket_alone(),
        governor::dashmap(),
        governor::dashmap_best(),
        governor::direct(),
        rate_net::keyed(),
        rate_net::keyed_coarse(),
        better_bucket::mapped(),
        better_bucket::alone(),
        ratelimit::mapped(),
        ratelimit::alone(),
        leaky_bucket::mapped(),
        leaky_bucket::alone(),
        mutex_sharded::keyed(),
        floor::instant(),
        floor::tsc(),
    ]
}
