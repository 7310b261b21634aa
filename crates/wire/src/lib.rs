//! Boxoffice wire.
