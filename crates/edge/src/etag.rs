//! Entity tags: a client that has the current content need not be sent it again.

use axum::http::{HeaderMap, header};

/// Whether `If-None-Match` names this tag: the client has the content already.
pub(crate) fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let lists = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|list| list.to_str().ok());
    lists
        .flat_map(|list| list.split(','))
        .map(str::trim)
        .any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
}
