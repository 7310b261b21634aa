//! A real node behind a real door, with a data directory that is removed at the end.

use std::{net::SocketAddr, sync::Arc};

use boxoffice_core::{access::Role, rules::Rules};
use boxoffice_edge::{Edge, EdgeConfig, Runtimes};
use boxoffice_env::{World, secret::Secret};
use boxoffice_node::{
    config::NodeConfig,
    node::{Node, Runtimes as NodeRuntimes},
};
use boxoffice_payment::{GatewayConfig, HttpGateway};
use boxoffice_storage::fsync::Fsync;
use boxoffice_wire::{Op, schema};
use tempfile::TempDir;
use tokio::{runtime::Handle, sync::oneshot, task::JoinHandle};

use crate::asking::Asking;

/// A node that serves.
pub(crate) struct House {
    pub(crate) address: SocketAddr,
    node: Node,
    stop: oneshot::Sender<()>,
    door: JoinHandle<()>,
    _data: TempDir,
}

impl House {
    pub(crate) async fn open() -> House {
        House::with(None, Vec::new()).await
    }

    /// One that takes payments so.
    pub(crate) async fn with(gateway: Option<GatewayConfig>, webhook_secrets: Vec<Secret>) -> House {
        let anonymous = Some(Role::Admin);
        let door = EdgeConfig { anonymous, recorded_by_anyone: true, webhook_secrets, ..EdgeConfig::default() };
        House::behind(door, gateway).await
    }

    /// One behind such a door.
    pub(crate) async fn behind(mut door: EdgeConfig, gateway: Option<GatewayConfig>) -> House {
        let data = tempfile::tempdir().expect("a directory");
        let mut world = World::standalone();
        if let Some(config) = &gateway {
            world.gateway = Arc::new(HttpGateway::new(config, Handle::current()).expect("a client"));
        }
        // Nobody waits long for a gateway that does not answer, and it is soon asked again.
        let rules = Rules { payment_wait_ms: 100, payment_again_ms: 60_000, ..Rules::default() };
        let config = NodeConfig {
            data_dir: data.path().join("data"),
            shards: 4,
            fsync: Fsync::Never,
            log_segment_bytes: 1 << 20,
            rules: Arc::new(rules),
            ..NodeConfig::default()
        };
        let (selling, watching) = (Handle::current(), Handle::current());
        let runtimes = NodeRuntimes { selling: selling.clone(), watching: watching.clone() };
        let node = Node::start(config, world, &runtimes).expect("a node");
        let handle = node.handle().clone();
        while handle.ready().is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
        door.listen.set_port(0);
        let edge = Edge::bind(door, Arc::new(handle), Runtimes { selling, watching }).expect("a free port");
        let address = edge.local_addr();
        let (stop, stopped) = oneshot::channel();
        let door = tokio::spawn(edge.run(async {
            let _ = stopped.await;
        }));
        House { address, node, stop, door, _data: data }
    }

    /// The same, with everything that the examples of the schemas make.
    pub(crate) async fn furnished() -> House {
        let house = House::open().await;
        house.furnish().await;
        house
    }

    /// Makes what the examples of the schemas make.
    pub(crate) async fn furnish(&self) {
        let mut asking = Asking::connect(self.address).await;
        for op in [Op::VenuePut, Op::HallPut, Op::TitlePut, Op::SessionCreate] {
            for (number, example) in schema::of(op).examples.iter().enumerate() {
                let told = asking.command(op.name(), &format!("{number}"), example).await;
                assert_eq!(told.status, 200, "{told:?}");
            }
        }
    }

    pub(crate) async fn close(self) {
        let _ = self.stop.send(());
        self.door.await.expect("the door closes");
        self.node.stop(1_000).await.expect("the node stops");
    }
}
