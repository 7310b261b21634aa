//! The handshake of a new connection. `hello` has the messages.

use std::sync::Arc;

use super::{
    Inner,
    frame::Kind,
    hello::{Claims, Hello, printable},
    peer::Peer,
    proof::Hellos,
    queues::LinkKind,
    refusal::{Failure, Refusal},
    tls,
    transport::Transport,
};
use boxoffice_env::{NodeId, PeerAdmission, PeerRejection};

/// The dialer's side, up to its own decision. Returns the acceptor's claims after both have proved that they know a secret.
pub(super) async fn dial(
    inner: &Inner,
    transport: &mut Transport,
    to: NodeId,
    link_kind: LinkKind,
) -> Result<Claims, Failure> {
    let started = inner.started();
    let secrets = &inner.config.secrets;
    let mine = Hello::new(link_kind, &*inner.rng).bytes();
    transport.send(Kind::Hello, &mine).await?;
    let received = transport.receive(Kind::Hello).await?;
    let hello = Hello::read(&received).map_err(Refusal::BadHello)?;
    if hello.link_kind != link_kind {
        return Err(Failure::OutOfTurn(Kind::Hello));
    }
    let hellos = Hellos { dialer: &mine, acceptor: &received };
    let offers = hellos.offers(secrets, &claims_for(inner, to));
    transport.send(Kind::Proof, &offers).await?;
    let wrong = || Failure::from(Refusal::AcceptorWithoutSecret { node: to, me: started.local.node });
    let welcome = match transport.receive(Kind::Welcome).await {
        Err(Failure::UnverifiedRemoval(body)) => {
            // Without the proof any acceptor could end this node.
            let reason = hellos.removed(secrets, &offers, &body).ok_or_else(wrong)?;
            return Err(Failure::Removed(printable(reason)));
        }
        received => received?,
    };
    let claims = hellos.welcomed(secrets, &offers, &welcome).ok_or_else(wrong)?;
    let claims = Claims::read(&claims).map_err(Refusal::BadHello)?;
    Refusal::of(&claims, &started.local, inner.incarnation, Some(to))?;
    admit(inner, &claims).map_err(|(_, refusal)| refusal)?;
    Ok(claims)
}

/// A verified caller that has accepted this node as well.
pub(super) struct Caller {
    pub(super) claims: Claims,
    pub(super) link_kind: LinkKind,
    pub(super) peer: Arc<Peer>,
}

/// The acceptor's side, up to the dialer's decision. `claimed` receives the node number of a caller that knows a secret.
pub(super) async fn accept(
    inner: &Arc<Inner>,
    transport: &mut Transport,
    claimed: &mut Option<NodeId>,
) -> Result<Caller, Failure> {
    let started = inner.started();
    let received = transport.receive(Kind::Hello).await?;
    let link_kind = Hello::read(&received).map_err(Refusal::BadHello)?.link_kind;
    let mine = Hello::new(link_kind, &*inner.rng).bytes();
    transport.send(Kind::Hello, &mine).await?;
    let offers = transport.receive(Kind::Proof).await?;
    let hellos = Hellos { dialer: &received, acceptor: &mine };
    let (secret, claims) =
        hellos.accept(&inner.config.secrets, &offers).ok_or(Refusal::CallerWithoutSecret { me: started.local.node })?;
    let claims = Claims::read(&claims).map_err(Refusal::BadHello)?;
    let node = claims.node;
    *claimed = Some(node);
    Refusal::of(&claims, &started.local, inner.incarnation, None)?;
    if let Some(certificate) = &transport.certificate {
        tls::check_name(certificate, node).map_err(|what| Refusal::Certificate { node, what })?;
    }
    let taken = admit(inner, &claims).map_err(|(rejection, refusal)| match rejection.permanent {
        true => Refusal::Removed { body: hellos.removal(secret, &offers, &rejection.why), reason: rejection.why },
        false => refusal,
    })?;
    let peer = match taken {
        PeerAdmission::AsListed => inner.peer(node).filter(|peer| peer.is_listed()),
        PeerAdmission::Unlisted => Some(inner.admit_unlisted(node)),
    };
    let peer = peer.ok_or(Refusal::NotInTable { node })?;
    peer.check_new(link_kind, node, claims.incarnation)?;
    transport.send(Kind::Welcome, &hellos.welcome(secret, &offers, &claims_for(inner, node))).await?;
    // The dialer may refuse this node. Without its word the link would be reported as up and then as lost.
    transport.receive(Kind::Heartbeat).await?;
    Ok(Caller { claims, link_kind, peer })
}

/// This node's claims for the node `to`.
fn claims_for(inner: &Inner, to: NodeId) -> Vec<u8> {
    let state = (inner.inbox().table(), inner.inbox().durable_position(), inner.inbox().versions());
    Claims::new((&inner.started().local, inner.incarnation), state, to).bytes()
}

fn admit(inner: &Inner, claims: &Claims) -> Result<PeerAdmission, (PeerRejection, Refusal)> {
    let me = inner.started().local.node;
    inner.inbox().admit(&claims.peer_hello()).map_err(|rejection| {
        let refusal = Refusal::Rejected { node: claims.node, me, reason: rejection.why.clone() };
        (rejection, refusal)
    })
}
