//! The handshake of a new connection. `hello` has the messages.

use std::sync::Arc;

use super::{
    Inner,
    frame::Kind,
    hello::{Hello, PROOF_BYTES, Side, Transcript, printable},
    peer::Peer,
    queues::LinkKind,
    refusal::{Failure, Refusal},
    tls,
    transport::Transport,
};
use boxoffice_env::{DurablePosition, NodeId, PeerAdmission, PeerRejection};

/// The dialer's side. Returns the acceptor's hello after both have proved that they know the secret.
pub(super) async fn dial(
    inner: &Inner,
    transport: &mut Transport,
    to: NodeId,
    link_kind: LinkKind,
) -> Result<Hello, Failure> {
    let started = inner.started();
    let mine =
        Hello::new((&started.local, inner.incarnation), hello_state(inner), (to, link_kind), &*inner.rng).bytes();
    transport.send(Kind::Hello, &mine).await?;
    let received = transport.receive(Kind::Hello).await?;
    let hello = Hello::read(&received).map_err(Refusal::BadHello)?;
    Refusal::of(&hello, &started.local, inner.incarnation, Some(to))?;
    if hello.link_kind() != link_kind {
        return Err(Failure::OutOfTurn(Kind::Hello));
    }
    admit(inner, &hello).map_err(|(_, refusal)| refusal)?;
    let transcript = Transcript { secret: &inner.config.secret, dialer: &mine, acceptor: &received };
    transport.send(Kind::Proof, &transcript.proof(Side::Dialer)).await?;
    let wrong = || Failure::from(Refusal::WrongSecret { node: to, me: started.local.node });
    let shown = match transport.receive(Kind::Welcome).await {
        Err(Failure::UnverifiedRemoval(body)) => {
            // Without the proof any acceptor could end this node.
            let (shown, said) = body.split_at_checked(PROOF_BYTES).ok_or_else(wrong)?;
            let is_proved = transcript.is_removal_proof(said, shown);
            return Err(if is_proved { Failure::Removed(printable(said)) } else { wrong() });
        }
        received => received?,
    };
    if !transcript.is_proof(Side::Acceptor, &shown) {
        return Err(wrong());
    }
    Ok(hello)
}

/// A verified caller, and the proof for the `Welcome` frame.
pub(super) struct Caller {
    pub(super) hello: Hello,
    pub(super) peer: Arc<Peer>,
    pub(super) proof: [u8; PROOF_BYTES],
}

/// The acceptor's side, up to the dialer's proof. `claimed` receives the node number of the caller's hello.
pub(super) async fn accept(
    inner: &Arc<Inner>,
    transport: &mut Transport,
    claimed: &mut Option<NodeId>,
) -> Result<Caller, Failure> {
    let started = inner.started();
    let me = started.local.node;
    let received = transport.receive(Kind::Hello).await?;
    let hello = Hello::read(&received).map_err(Refusal::BadHello)?;
    let node = hello.node;
    *claimed = Some(node);
    Refusal::of(&hello, &started.local, inner.incarnation, None)?;
    if let Some(certificate) = &transport.certificate {
        tls::check_name(certificate, node).map_err(|what| Refusal::Certificate { node, what })?;
    }
    let mine =
        Hello::new((&started.local, inner.incarnation), hello_state(inner), (node, hello.link_kind()), &*inner.rng)
            .bytes();
    transport.send(Kind::Hello, &mine).await?;
    let shown = transport.receive(Kind::Proof).await?;
    let transcript = Transcript { secret: &inner.config.secret, dialer: &received, acceptor: &mine };
    if !transcript.is_proof(Side::Dialer, &shown) {
        return Err(Refusal::WrongSecret { node, me }.into());
    }
    let taken = admit(inner, &hello).map_err(|(rejection, refusal)| match rejection.permanent {
        true => Refusal::Removed { proof: transcript.removal_proof(&rejection.why), reason: rejection.why },
        false => refusal,
    })?;
    let peer = match taken {
        PeerAdmission::AsListed => inner.peer(node).filter(|peer| peer.is_listed()),
        PeerAdmission::Unlisted => Some(inner.admit_unlisted(node)),
    };
    let peer = peer.ok_or(Refusal::NotInTable { node })?;
    Ok(Caller { peer, proof: transcript.proof(Side::Acceptor), hello })
}

/// The changing parts of this node's hello.
fn hello_state(inner: &Inner) -> (u64, DurablePosition) {
    (inner.inbox().table(), inner.inbox().durable_position())
}

fn admit(inner: &Inner, hello: &Hello) -> Result<PeerAdmission, (PeerRejection, Refusal)> {
    let me = inner.started().local.node;
    inner.inbox().admit(&hello.peer_hello()).map_err(|rejection| {
        let refusal = Refusal::Rejected { node: hello.node, me, reason: rejection.why.clone() };
        (rejection, refusal)
    })
}
