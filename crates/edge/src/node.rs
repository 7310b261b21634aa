//! A real node behind the client port.

use std::{pin::Pin, sync::Arc, time::Duration};

use boxoffice_core::{
    access::AccessKey,
    command::Command,
    id::{Entity, Id, Request},
    seat::Seat,
    time::Timestamp,
};
use boxoffice_env::secret::Secret;
use boxoffice_feeds::Feeds;
use boxoffice_node::{
    access::KeyRing,
    api::{CallTimes, ReplyTo},
    node::NodeHandle,
};
use boxoffice_wire::{
    FirstCommand,
    call::BackupQuery,
    hello::{Hello, Limits},
    joining, limits,
    status::{NodeAudit, NodeStatus},
    version,
};
use smol_str::{SmolStr, format_smolstr};

use crate::{
    Backend,
    backend::{Backup, Member, Reading, Remembering},
    title,
};

/// How often an audit is repeated at most, since a violation may last only a moment.
const AUDIT_REPEATS_MAX: u32 = 20;
/// How long the node waits before it repeats an audit.
const AUDIT_REPEAT_AFTER: Duration = Duration::from_millis(100);

impl Backend for NodeHandle {
    fn submit(&self, command: Command, request: Option<Request>, reply: ReplyTo) {
        match title::needed(&command).cloned() {
            Some(title) => title::submit(self, title, command, request, reply),
            None => NodeHandle::submit(self, command, request, reply),
        }
    }

    fn check_size(&self, command: &Command) -> Result<(), SmolStr> {
        NodeHandle::check_size(self, command)
    }

    fn sheds(&self, command: &Command, request: Option<Request>, times: CallTimes) -> Option<u32> {
        NodeHandle::sheds(self, command, request, times)
    }

    fn sheds_first(&self, command: &dyn Fn() -> Option<FirstCommand>, unread_ms: u64) -> Option<u32> {
        NodeHandle::sheds_first(self, command, unread_ms)
    }

    fn is_shedding(&self) -> bool {
        NodeHandle::is_shedding(self)
    }

    fn hello(&self) -> Hello {
        Hello {
            cluster: format_smolstr!("{}", self.identity().cluster),
            node: format_smolstr!("{}", self.identity().node),
            version: SmolStr::new(env!("CARGO_PKG_VERSION")),
            protocol: limits::PROTOCOL_VERSION,
            minor: Backend::minor(self),
            durability: self.durability(),
            limits: Limits::default(),
            time: Timestamp(self.now_ms()),
        }
    }

    fn minor(&self) -> u32 {
        version::minor_of(self.cluster_version())
    }

    fn members(&self) -> Vec<Member> {
        let members = self.client_addresses().into_iter();
        members.map(|(node, client)| Member { node: format_smolstr!("{node}"), client }).collect()
    }

    fn leaders(&self) -> Vec<u64> {
        NodeHandle::leaders(self).into_iter().map(|leader| leader.unwrap_or(0)).collect()
    }

    fn leader_elsewhere(&self, entity: &Entity) -> Option<u64> {
        NodeHandle::leader_elsewhere(self, entity)
    }

    fn status(&self) -> NodeStatus {
        NodeHandle::status(self)
    }

    fn audit(&self) -> Pin<Box<dyn Future<Output = NodeAudit> + Send>> {
        let node = self.clone();
        Box::pin(async move {
            let mut repeats = 0;
            let mut lasting: Option<Vec<SmolStr>> = None;
            loop {
                // Counting holds no lock but takes a while, so it does not run on a thread that sells.
                let counted = node.clone();
                let counting = tokio::task::spawn_blocking(move || NodeHandle::audit(&counted));
                let mut audit = counting.await.expect("counting does not panic");
                // A violation that one of the audits did not find lasted only a moment.
                if let Some(lasting) = &lasting {
                    audit.violations.retain(|violation| lasting.contains(violation));
                }
                if audit.violations.is_empty() || !node.audits_may_blur() || repeats == AUDIT_REPEATS_MAX {
                    return audit;
                }
                lasting = Some(audit.violations);
                repeats += 1;
                tokio::time::sleep(AUDIT_REPEAT_AFTER).await;
            }
        })
    }

    fn backup(&self, query: BackupQuery) -> Backup {
        let node = self.clone();
        Box::pin(async move { node.backup(query).await })
    }

    fn history(&self, entity: &Entity, seat: Option<Seat>, limit: usize, before: Option<u64>) -> Reading {
        let (node, entity) = (self.clone(), entity.clone());
        Box::pin(async move { node.history_of(&entity, seat, limit, before).await })
    }

    fn as_of(&self, entity: &Entity, at: Timestamp) -> Remembering {
        let (node, entity) = (self.clone(), entity.clone());
        Box::pin(async move { NodeHandle::as_of(&node, &entity, at).await })
    }

    fn now(&self) -> Timestamp {
        Timestamp(self.now_ms())
    }

    fn key(&self, name: &Id) -> Option<Arc<AccessKey>> {
        NodeHandle::key(self, name)
    }

    fn key_ring(&self) -> KeyRing {
        NodeHandle::key_ring(self)
    }

    fn is_peer_token(&self, token: &str) -> bool {
        self.config().peer_secrets.iter().any(|secret| joining::is_token(secret.as_ref(), token))
    }

    fn peer_secret(&self) -> Option<&Secret> {
        self.config().peer_secrets.first()
    }

    fn ready(&self) -> Result<(), String> {
        NodeHandle::ready(self)
    }

    fn damage(&self) -> Option<String> {
        NodeHandle::damage(self)
    }

    fn metrics_text(&self) -> String {
        NodeHandle::metrics_text(self)
    }

    fn feeds(&self) -> &Feeds {
        NodeHandle::feeds(self)
    }
}
