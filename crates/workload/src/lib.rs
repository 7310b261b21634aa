//! Boxoffice workload.
