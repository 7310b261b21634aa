//! Entity tags, which save sending a client what it already has.

use axum::http::{HeaderMap, header};

/// Whether `If-None-Match` names this tag, so the client already has the content.
pub(crate) fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let lists = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|list| list.to_str().ok());
    lists
        .flat_map(|list| list.split(','))
        .map(str::trim)
        .any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
}
