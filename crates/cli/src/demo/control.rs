//! The control of the demo. It tells which nodes run, kills one and starts it again, for the operators' view of the page.
//! Other pages are refused.

use std::{
    net::Ipv4Addr,
    sync::{Arc, Weak},
};

use axum::{
    Json, Router,
    extract::{Path, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use boxoffice_load::{LocalCluster, LocalNodeStatus, NodeController};
use serde_json::json;
use tokio::{net::TcpListener, task::spawn_blocking};

use super::no_port;
use crate::failure::Failure;

/// The nodes of the demo, and the key of the operators' view.
#[derive(Clone)]
struct Nodes {
    cluster: Weak<LocalCluster>,
    key: Arc<str>,
}

/// Takes a free port of this machine.
pub(super) async fn bind() -> Result<TcpListener, Failure> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(no_port)
}

/// Answers until the demo ends.
pub(super) async fn serve(listener: TcpListener, cluster: Weak<LocalCluster>, key: String) {
    let router = Router::new()
        .route("/nodes", get(list).options(preflight))
        .route("/key", get(key_of_view).options(preflight))
        .route("/nodes/{node}/{action}", post(act).options(preflight))
        .with_state(Nodes { cluster, key: key.into() });
    // It ends with the demo.
    let _ = axum::serve(listener, router).await;
}

async fn preflight(State(nodes): State<Nodes>, headers: HeaderMap) -> Response {
    answer(&nodes, &headers, |_| Ok(StatusCode::NO_CONTENT.into_response())).await
}

async fn list(State(nodes): State<Nodes>, headers: HeaderMap) -> Response {
    answer(&nodes, &headers, |cluster| {
        let nodes: Vec<_> = (1..)
            .zip(cluster.node_statuses())
            .map(|(number, LocalNodeStatus { address, pid, is_running })| {
                json!({"node": format!("n{number}"), "url": format!("http://{address}"), "running": is_running, "pid": pid})
            })
            .collect();
        Ok(Json(nodes).into_response())
    })
    .await
}

async fn key_of_view(State(nodes): State<Nodes>, headers: HeaderMap) -> Response {
    let key = Arc::clone(&nodes.key);
    answer(&nodes, &headers, move |_| Ok(Json(json!({"key": &*key})).into_response())).await
}

async fn act(State(nodes): State<Nodes>, Path((node, action)): Path<(String, String)>, headers: HeaderMap) -> Response {
    answer(&nodes, &headers, move |cluster| {
        let number = node.strip_prefix('n').and_then(|number| number.parse::<usize>().ok()?.checked_sub(1));
        let statuses = cluster.node_statuses();
        let (place, runs) = match number.and_then(|place| Some((place, statuses.get(place)?.is_running))) {
            Some(found) => found,
            None => return Err((StatusCode::NOT_FOUND, format!("there is no node {node}"))),
        };
        let done = match (action.as_str(), runs) {
            ("kill", true) => cluster.kill(place),
            ("start", false) => cluster.start(place),
            ("kill", false) => return Err((StatusCode::CONFLICT, format!("{node} does not run"))),
            ("start", true) => return Err((StatusCode::CONFLICT, format!("{node} runs already"))),
            _ => return Err((StatusCode::NOT_FOUND, "nodes are killed with `kill` and started with `start`".into())),
        };
        done.map_err(|why| (StatusCode::INTERNAL_SERVER_ERROR, why))?;
        Ok(StatusCode::NO_CONTENT.into_response())
    })
    .await
}

/// Runs a slow operation on the nodes, for one of their pages or for another client.
async fn answer(
    nodes: &Nodes,
    headers: &HeaderMap,
    does: impl FnOnce(&LocalCluster) -> Result<Response, (StatusCode, String)> + Send + 'static,
) -> Response {
    let Some(cluster) = nodes.cluster.upgrade() else { return StatusCode::GONE.into_response() };
    let origin = headers.get(header::ORIGIN).cloned();
    let is_ours = |origin: &HeaderValue| {
        let of = |address: &String| origin.as_bytes() == format!("http://{address}").as_bytes();
        cluster.addresses().iter().any(of)
    };
    if origin.as_ref().is_some_and(|origin| !is_ours(origin)) {
        return (StatusCode::FORBIDDEN, "this is for the page of the demo's nodes").into_response();
    }
    let done = spawn_blocking(move || does(&cluster)).await;
    let mut response = match done {
        Ok(Ok(response)) => response,
        Ok(Err((status, message))) => (status, Json(json!({ "message": message }))).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    };
    if let Some(origin) = origin {
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::VARY, HeaderValue::from_static("origin"));
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST"));
    }
    response
}
