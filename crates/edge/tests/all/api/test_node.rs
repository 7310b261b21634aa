//! A real node with a client port, and a data directory that is removed at the end.

use std::{net::SocketAddr, sync::Arc};

use boxoffice_core::{access::Role, rules::Rules};
use boxoffice_edge::{Edge, EdgeConfig};
use boxoffice_env::{World, secret::Secret};
use boxoffice_node::{
    config::{NodeConfig, ReplicationConfig},
    node::{Node, Runtimes},
};
use boxoffice_payment::{GatewayConfig, HttpGateway};
use boxoffice_storage::fsync::Fsync;
use boxoffice_wire::{Op, schema};
use tempfile::TempDir;
use tokio::{runtime::Handle, sync::oneshot, task::JoinHandle};

use crate::http_client::HttpClient;

/// A running node.
pub(crate) struct TestNode {
    pub(crate) address: SocketAddr,
    node: Node,
    stop: oneshot::Sender<()>,
    server: JoinHandle<()>,
    _data: TempDir,
}

impl TestNode {
    pub(crate) async fn open() -> TestNode {
        TestNode::with(None, Vec::new()).await
    }

    /// Starts with this payment gateway.
    pub(crate) async fn with(gateway: Option<GatewayConfig>, webhook_secrets: Vec<Secret>) -> TestNode {
        let anonymous = Some(Role::Admin);
        let code_secret = Some(Secret("the secret of all codes in tests".into()));
        let server =
            EdgeConfig { anonymous, recorded_by_anyone: true, webhook_secrets, code_secret, ..EdgeConfig::default() };
        TestNode::behind(server, gateway).await
    }

    /// Starts with this configuration of the client port.
    pub(crate) async fn behind(mut server: EdgeConfig, gateway: Option<GatewayConfig>) -> TestNode {
        let data = tempfile::tempdir().expect("a directory");
        let mut world = World::standalone();
        if let Some(config) = &gateway {
            world.gateway = Arc::new(HttpGateway::new(config, Handle::current()).expect("a client"));
        }
        // A gateway that does not answer times out early and is retried soon.
        let rules = Rules { payment_wait_ms: 100, payment_again_ms: 60_000, ..Rules::default() };
        let config = NodeConfig {
            replication: ReplicationConfig {
                data_dir: data.path().join("data"),
                shards: 4,
                fsync: Fsync::Never,
                log_segment_bytes: 1 << 20,
                ..ReplicationConfig::default()
            },
            rules: Arc::new(rules),
            ..NodeConfig::default()
        };
        let (selling, watching) = (Handle::current(), Handle::current());
        let runtimes = Runtimes { selling, watching };
        let node = Node::start(config, world, &runtimes).expect("a node");
        let handle = node.handle().clone();
        while handle.ready().is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
        server.listen.set_port(0);
        let edge = Edge::bind(server, Arc::new(handle), runtimes).expect("a free port");
        let address = edge.local_addr();
        let (stop, stopped) = oneshot::channel();
        let server = tokio::spawn(edge.run(async {
            let _ = stopped.await;
        }));
        TestNode { address, node, stop, server, _data: data }
    }

    /// Starts with all entities that the examples of the schemas need.
    pub(crate) async fn with_sample_entities() -> TestNode {
        let test_node = TestNode::open().await;
        test_node.create_sample_entities().await;
        test_node
    }

    /// Creates all entities that the examples of the schemas need.
    pub(crate) async fn create_sample_entities(&self) {
        self.create_sample_entities_as(&[]).await;
    }

    /// The same, as the caller with these headers.
    pub(crate) async fn create_sample_entities_as(&self, headers: &[(&str, &str)]) {
        let mut http_client = HttpClient::connect(self.address).await;
        for op in [Op::VenuePut, Op::HallPut, Op::TitlePut, Op::SessionCreate] {
            for (number, example) in schema::of(op).examples.iter().enumerate() {
                let number = number.to_string();
                let headers = [&[("idempotency-key", number.as_str())], headers].concat();
                let answer = http_client.post(&format!("/v1/{}", op.name()), &headers, &example.to_string()).await;
                assert_eq!(answer.status, 200, "{answer:?}");
            }
        }
    }

    pub(crate) async fn close(self) {
        let _ = self.stop.send(());
        self.server.await.expect("the server closes");
        self.node.stop(1_000).await.expect("the node stops");
    }
}
