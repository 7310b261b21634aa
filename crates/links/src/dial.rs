//! Dials each connection of each link until it is established, and again after a loss.
//!
//! A connection carries frames both ways, so one side's dial is enough. The node with the smaller number dials. The
//! other one dials too if it was not dialed for a while. So a link comes up if either node can reach the other, in
//! spite of a wrong address or a one-way firewall. [`Peer::install`] decides which connection stays if both dialed at
//! once.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use boxoffice_env::Rng;
use tokio::{
    net::{TcpStream, lookup_host},
    time::timeout,
};

use super::{
    Inner,
    frame::Kind,
    handshake,
    link::Connection,
    peer::Peer,
    queues::LinkKind,
    refusal::Failure,
    transport::{Transport, set_up},
};

/// Addresses tried of one host name.
const ADDRESSES_TRIED_MAX: usize = 4;

/// Dials while the table lists the node and the connection is missing.
pub(super) async fn keep(inner: Arc<Inner>, peer: Arc<Peer>, link_kind: LinkKind) {
    let index = link_kind.index();
    let late = inner.started().local.node > peer.node;
    let late = if late { inner.config.dial_late_ms } else { 0 };
    let mut back_off = BackOff::new(inner.config.back_off_ms, inner.config.back_off_max_ms);
    let mut state = peer.watch();
    let mut first = true;
    loop {
        let before_ms = inner.clock.monotonic_ms();
        if state.wait_for(|state| state.listed && !state.connected[index]).await.is_err() {
            return;
        }
        if inner.clock.monotonic_ms().saturating_sub(before_ms) > inner.config.back_off_max_ms {
            back_off.reset();
        }
        let pause = if first { 0 } else { back_off.next_ms(&*inner.rng) };
        first = false;
        let pause = Duration::from_millis(pause + late);
        let needless = state.wait_for(|state| !state.listed || state.connected[index]);
        if timeout(pause, needless).await.is_ok() {
            continue;
        }
        if let Err(failure) = connect(&inner, &peer, link_kind).await {
            peer.dial_failed(&failure);
            if let Failure::Removed(why) = &failure {
                inner.inbox().removed(peer.node, why);
            }
        }
    }
}

/// Dials once. On success the connection is established.
async fn connect(inner: &Arc<Inner>, peer: &Arc<Peer>, link_kind: LinkKind) -> Result<(), Failure> {
    let time = inner.config.handshake();
    let slow = |_| Failure::Slow(time);
    let stream = timeout(time, reach(&peer.address())).await.map_err(slow)??;
    set_up(&stream, &inner.config)?;
    let done = timeout(time, async {
        let mut transport = match &inner.tls {
            None => Transport::plain(stream)?,
            Some(tls) => tls.connect(stream, peer.node).await?,
        };
        match handshake::dial(inner, &mut transport, peer.node, link_kind).await {
            Ok(claims) => Ok((transport, claims)),
            Err(Failure::Refusal(refusal)) => {
                transport.refuse(&refusal).await;
                Err(Failure::Refusal(refusal))
            }
            Err(failure) => Err(failure),
        }
    });
    let (mut transport, claims) = done.await.map_err(slow)??;
    let connection = Connection::new(link_kind, claims.incarnation, inner.started().local.node, &inner.config);
    if let Err(refusal) = peer.install(Arc::clone(&connection), claims.peer_hello().program) {
        transport.refuse(&refusal).await;
        return Err(refusal.into());
    }
    // The acceptor waits for this word.
    let accepted = transport.encoder.frame(Kind::Heartbeat, b"");
    inner.spawn_connection(connection, Arc::clone(peer), transport, accepted);
    Ok(())
}

/// A stream to the first address that accepts one. Names are resolved each time, because the node may have moved.
async fn reach(address: &str) -> Result<TcpStream, Failure> {
    let found = lookup_host(address).await;
    let found = found.map_err(|error| io::Error::other(format!("the address cannot be looked up: {error}")))?;
    let mut last = io::Error::other("the name stands for no address");
    for address in found.take(ADDRESSES_TRIED_MAX).collect::<Vec<SocketAddr>>() {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last.into())
}

/// Pauses that double up to a bound. Each is randomly shortened by up to a half, so that nodes do not all dial at once.
struct BackOff {
    min_ms: u64,
    max_ms: u64,
    next_ms: u64,
}

impl BackOff {
    fn new(min_ms: u64, max_ms: u64) -> BackOff {
        BackOff { min_ms, max_ms, next_ms: min_ms }
    }

    fn reset(&mut self) {
        self.next_ms = self.min_ms;
    }

    fn next_ms(&mut self, rng: &dyn Rng) -> u64 {
        let whole_ms = self.next_ms;
        self.next_ms = whole_ms.saturating_mul(2).min(self.max_ms);
        whole_ms - rng.u64() % (whole_ms / 2 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use boxoffice_env::OsRng;

    #[test]
    fn pauses_grow_to_their_bound_and_reset() {
        let mut back_off = BackOff::new(50, 2_000);
        for whole_ms in [50, 100, 200, 400, 800, 1_600, 2_000, 2_000] {
            let pause_ms = back_off.next_ms(&OsRng);
            assert!((whole_ms / 2..=whole_ms).contains(&pause_ms), "{pause_ms} of {whole_ms}");
        }
        back_off.reset();
        assert!(back_off.next_ms(&OsRng) <= 50);
    }
}
