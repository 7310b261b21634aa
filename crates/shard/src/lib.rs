//! Boxoffice shard.
