//! Boxoffice client.
