//! Boxoffice node.
