//! The processor time of TLS handshakes. A stranger can repeat a prepared ClientHello, which costs the node a signature each time.
//! So all of them together have a share of a core. Beyond it they wait for each other.

use std::{
    pin::{Pin, pin},
    task::{Context, Poll},
    time::{Duration, Instant as Timer},
};

use tokio::{
    sync::Mutex as Turns,
    time::{Instant, sleep},
};
use tracing_mutex::parkinglot::Mutex;

/// Processor time that may be spent at once.
const BURST: f64 = 0.25;

/// What a handshake is taken to cost before one was measured, in seconds.
const FIRST_GUESS: f64 = 0.001;

/// The time of the handshakes of a node.
#[derive(Debug)]
pub(crate) struct HandshakeTime {
    /// Cores for handshakes. 0 is as many as they like.
    cores: f64,
    spent: Mutex<Spent>,
    /// One handshake after the other waits for room, in the order in which they came.
    turns: Turns<()>,
}

#[derive(Debug)]
struct Spent {
    /// Seconds of a core that were spent and not yet regained.
    level: f64,
    at: Instant,
    /// What a handshake costs, about.
    usual: f64,
}

impl HandshakeTime {
    pub(crate) fn new(percent_of_a_core: u32) -> HandshakeTime {
        let spent = Spent { level: 0.0, at: Instant::now(), usual: FIRST_GUESS };
        HandshakeTime { cores: f64::from(percent_of_a_core) / 100.0, spent: Mutex::new(spent), turns: Turns::new(()) }
    }

    /// Carries out a handshake when there is time for it.
    pub(crate) async fn spend<F: Future>(&self, handshake: F) -> F::Output {
        if self.cores == 0.0 {
            return handshake.await;
        }
        let guess = {
            let _turn = self.turns.lock().await;
            loop {
                match self.take(Instant::now()) {
                    Ok(guess) => break guess,
                    Err(wait) => sleep(wait).await,
                }
            }
        };
        let mut timed = pin!(Timed { handshake: pin!(handshake), spent: Duration::ZERO });
        let output = timed.as_mut().await;
        self.correct(guess, timed.spent.as_secs_f64());
        output
    }

    /// Takes the usual time of a handshake.
    ///
    /// # Errors
    /// There is no time left. How long until there is.
    fn take(&self, now: Instant) -> Result<f64, Duration> {
        let mut spent = self.spent.lock();
        let passed = now.saturating_duration_since(spent.at).as_secs_f64();
        (spent.level, spent.at) = ((spent.level - passed * self.cores).max(0.0), now);
        if spent.level > BURST {
            return Err(Duration::from_secs_f64((spent.level - BURST) / self.cores));
        }
        spent.level += spent.usual;
        Ok(spent.usual)
    }

    /// A handshake for which `guess` was taken has cost `seconds`.
    fn correct(&self, guess: f64, seconds: f64) {
        let mut spent = self.spent.lock();
        spent.level = (spent.level + seconds - guess).max(0.0);
        spent.usual += (seconds - spent.usual) / 16.0;
    }
}

/// Measures the time in which a future is polled. A handshake never waits while it computes.
struct Timed<'a, F> {
    handshake: Pin<&'a mut F>,
    spent: Duration,
}

impl<F: Future> Future for Timed<'_, F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let timed = self.get_mut();
        let begun = Timer::now();
        let polled = timed.handshake.as_mut().poll(context);
        timed.spent += begun.elapsed();
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten times as many handshakes as there is time for take their turns, and no more than their share is spent.
    #[test]
    fn handshakes_have_a_share_of_a_core() {
        let (time, begun) = (HandshakeTime::new(50), Instant::now());
        let (mut done, mut now) = (0, begun);
        while now < begun + Duration::from_secs(10) {
            match time.take(now) {
                Ok(guess) => {
                    time.correct(guess, 0.002);
                    done += 1;
                    now += Duration::from_micros(400);
                }
                Err(wait) => now += wait.max(Duration::from_micros(1)),
            }
        }
        let seconds = f64::from(done) * 0.002;
        assert!((4.9..=5.3).contains(&seconds), "{seconds} s of 10 s");
        let free = HandshakeTime::new(0);
        assert_eq!(free.cores, 0.0);
    }
}
