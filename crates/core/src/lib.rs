//! Boxoffice core.
