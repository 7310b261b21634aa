//! Boxoffice load.
