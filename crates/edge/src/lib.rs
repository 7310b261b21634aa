//! Boxoffice edge.
