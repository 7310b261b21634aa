//! How the two sides of a new connection come to know each other; `hello` has what they say.

use std::sync::Arc;

use super::{
    Inner,
    ends::Ends,
    frame::Kind,
    hello::{Hello, PROOF_BYTES, Side, Transcript, words},
    neighbour::Neighbour,
    queues::Road,
    refusal::{Failure, Refusal},
    tls,
};
use boxoffice_env::{DurablePosition, NodeId, PeerAdmission, PeerRejection};

/// The dialer's side: who answered, when both have proved that they know the secret.
pub(super) async fn dial(inner: &Inner, ends: &mut Ends, to: NodeId, road: Road) -> Result<Hello, Failure> {
    let began = inner.began();
    let mine = Hello::new((&began.local, inner.life), said(inner), (to, road), &*inner.rng).bytes();
    ends.say(Kind::Hello, &mine).await?;
    let heard = ends.hear(Kind::Hello).await?;
    let hello = Hello::read(&heard).map_err(Refusal::Unfit)?;
    Refusal::of(&hello, &began.local, inner.life, Some(to))?;
    if hello.road() != road {
        return Err(Failure::OutOfTurn(Kind::Hello));
    }
    admit(inner, &hello).map_err(|(_, refusal)| refusal)?;
    let transcript = Transcript { secret: &inner.config.secret, dialer: &mine, answerer: &heard };
    ends.say(Kind::Proof, &transcript.proof(Side::Dialer)).await?;
    let wrong = || Failure::from(Refusal::WrongSecret { node: to, me: began.local.node });
    let shown = match ends.hear(Kind::Welcome).await {
        Err(Failure::Farewell(body)) => {
            // Whoever could say this without the secret could end any node.
            let (shown, said) = body.split_at_checked(PROOF_BYTES).ok_or_else(wrong)?;
            let is_proved = transcript.is_dismissal(said, shown);
            return Err(if is_proved { Failure::Dismissed(words(said)) } else { wrong() });
        }
        heard => heard?,
    };
    if !transcript.is_proof(Side::Answerer, &shown) {
        return Err(wrong());
    }
    Ok(hello)
}

/// Who called, and what to say so that the connection stands.
pub(super) struct Caller {
    pub(super) hello: Hello,
    pub(super) neighbour: Arc<Neighbour>,
    pub(super) proof: [u8; PROOF_BYTES],
}

/// The answerer's side, up to the dialer's proof. `claimed` gets who the caller says it is.
pub(super) async fn answer(
    inner: &Arc<Inner>,
    ends: &mut Ends,
    claimed: &mut Option<NodeId>,
) -> Result<Caller, Failure> {
    let began = inner.began();
    let me = began.local.node;
    let heard = ends.hear(Kind::Hello).await?;
    let hello = Hello::read(&heard).map_err(Refusal::Unfit)?;
    let node = hello.node;
    *claimed = Some(node);
    Refusal::of(&hello, &began.local, inner.life, None)?;
    if let Some(certificate) = &ends.certificate {
        tls::check_name(certificate, node).map_err(|what| Refusal::Certificate { node, what })?;
    }
    let mine = Hello::new((&began.local, inner.life), said(inner), (node, hello.road()), &*inner.rng).bytes();
    ends.say(Kind::Hello, &mine).await?;
    let shown = ends.hear(Kind::Proof).await?;
    let transcript = Transcript { secret: &inner.config.secret, dialer: &heard, answerer: &mine };
    if !transcript.is_proof(Side::Dialer, &shown) {
        return Err(Refusal::WrongSecret { node, me }.into());
    }
    let taken = admit(inner, &hello).map_err(|(rejection, refusal)| match rejection.permanent {
        true => Refusal::Dismissed { proof: transcript.dismissal(&rejection.why), words: rejection.why },
        false => refusal,
    })?;
    let neighbour = match taken {
        PeerAdmission::AsListed => inner.neighbour(node).filter(|neighbour| neighbour.is_member()),
        PeerAdmission::Unlisted => Some(inner.guest(node)),
    };
    let neighbour = neighbour.ok_or(Refusal::NotInTable { node })?;
    Ok(Caller { neighbour, proof: transcript.proof(Side::Answerer), hello })
}

/// What a hello says of this node that changes.
fn said(inner: &Inner) -> (u64, DurablePosition) {
    (inner.inbox().table(), inner.inbox().durable_position())
}

fn admit(inner: &Inner, hello: &Hello) -> Result<PeerAdmission, (PeerRejection, Refusal)> {
    let me = inner.began().local.node;
    inner.inbox().admit(&hello.said()).map_err(|rejection| {
        let refusal = Refusal::Judged { node: hello.node, me, reason: rejection.why.clone() };
        (rejection, refusal)
    })
}
