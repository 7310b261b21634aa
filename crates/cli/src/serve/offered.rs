//! Products and resources that the page offers, which the cluster must know.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use boxoffice_core::{
    command::{Command, ProductCommand, ResourceCommand},
    id::Id,
    refusal::Refusal,
};
use boxoffice_node::{
    api::{self, ReplySink, ReplyTo},
    node::NodeHandle,
};
use tokio::sync::oneshot;

use crate::config::Config;

/// How long a node waits for the answer about one of them. If it is not known by then the node serves all the same.
const TIMEOUT: Duration = Duration::from_secs(5);

/// What is wrong with `page.products` or `page.resources`: they name something that the cluster does not have. A node without data
/// is not asked, because what it offers is made after its first start.
pub(super) async fn unknown(config: &Config, handle: &NodeHandle, has_data: bool) -> Option<String> {
    let page = &config.edge.page;
    if !has_data {
        return None;
    }
    let product = |id: &Id| ("page.products", "product", id.clone(), Command::Product(id.clone(), ProductCommand::Get));
    let resource =
        |id: &Id| ("page.resources", "resource", id.clone(), Command::Resource(id.clone(), ResourceCommand::Get));
    for (key, kind, id, command) in page.products.iter().map(product).chain(page.resources.iter().map(resource)) {
        let (answer, answered) = oneshot::channel();
        let sink = Arc::new(OneAnswer(Mutex::new(Some(answer))));
        handle.submit(command, None, ReplyTo::new(sink, 0).with_timeout(TIMEOUT.as_millis() as u64));
        match tokio::time::timeout(TIMEOUT, answered).await {
            Ok(Ok(Ok(Err(Refusal::NotFound(_) | Refusal::NoSuchProduct(_))))) => {
                let place = config.places.get(key).map_or("", String::as_str);
                return Some(format!(
                    "{place}{key}: there is no {kind} {id}; make it with `boxoffice import`, or take it out of the list"
                ));
            }
            Ok(Ok(Ok(_))) => {}
            Ok(Ok(Err(_)) | Err(_)) | Err(_) => {
                tracing::warn!(%id, "whether the page's {kind} exists is not known yet");
            }
        }
    }
    None
}

/// Takes one answer.
struct OneAnswer(Mutex<Option<oneshot::Sender<api::Result>>>);

impl ReplySink for OneAnswer {
    fn answer(&self, _: u64, result: api::Result) {
        let sender = self.0.lock().expect("no thread panics while it holds the lock").take();
        if let Some(sender) = sender {
            // The node may have stopped waiting.
            let _ = sender.send(result);
        }
    }
}
