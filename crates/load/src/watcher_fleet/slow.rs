//! Slow watchers. Each reads a few bytes in each of its turns, answers pings when it has read them, and opens a cart now and
//! then. The cart says when the node has decided the command, however late the watcher reads that.

use boxoffice_core::time::Timestamp;
use boxoffice_wire::repr::timestamp;
use serde::Deserialize;

use super::{connection::Stage, event_loop::EventLoop};
use crate::{
    clock::{now_ms, now_us},
    websocket::write_text,
};

/// Bytes that a slow watcher reads a second.
pub const SLOW_BYTES_PER_SECOND: usize = 5_000;

/// A watcher has a turn as often a second.
const TURNS_PER_SECOND: u64 = 5;

/// Parts of the fleet that have their turns one after the other.
const PARTS: u64 = 10;

/// Turns from one command of a watcher to the next.
const TURNS_PER_COMMAND: u64 = 10 * TURNS_PER_SECOND;

/// The first number of a command. Watches have smaller ones.
const FIRST_COMMAND: u64 = 1 << 40;

/// The answer to a command.
#[derive(Deserialize)]
struct Answer {
    id: Option<u64>,
    ok: Option<Opened>,
    fail: Option<Failed>,
}

#[derive(Deserialize)]
struct Failed {
    name: String,
}

#[derive(Deserialize)]
struct Opened {
    opened_at: Option<String>,
}

impl EventLoop {
    /// Gives the parts of the fleet their turns whose time has come.
    pub(super) fn serve_slow(&mut self) {
        if self.spec.slow == 0 {
            return;
        }
        let now = now_us();
        let every_us = 1_000_000 / TURNS_PER_SECOND / PARTS;
        // A late fleet does not catch up, since then it would read faster.
        self.slow_turns.next_us = self.slow_turns.next_us.max(now.saturating_sub(every_us));
        while self.slow_turns.next_us <= now {
            self.slow_turns.next_us += every_us;
            let part = self.slow_turns.turns % PARTS;
            self.slow_turns.turns += 1;
            for number in (part as usize..self.connections.len()).step_by(PARTS as usize) {
                if let Err(error) = self.serve_one(number) {
                    self.reconnect_later(number, &error);
                }
            }
        }
    }

    /// Reads a little and sends a command if it is time.
    fn serve_one(&mut self, number: usize) -> std::io::Result<()> {
        let connection = &mut self.connections[number];
        let is_open = matches!(connection.stage, Stage::Open);
        let Some(slow) = &mut connection.slow else { return Ok(()) };
        slow.turns += 1;
        let opens_a_cart = is_open && (slow.turns + number as u64).is_multiple_of(TURNS_PER_COMMAND);
        if std::mem::take(&mut slow.is_readable) {
            let mut buffer = std::mem::take(&mut self.buffer);
            let bytes = SLOW_BYTES_PER_SECOND / TURNS_PER_SECOND as usize;
            let read = self.connections[number].read(&mut buffer[..bytes]);
            let handled = match &read {
                Ok(Some(bytes)) => self.on_bytes(number, &buffer[..*bytes]),
                Ok(None) | Err(_) => Ok(()),
            };
            self.buffer = buffer;
            let is_readable = read?.is_some();
            if let Some(slow) = &mut self.connections[number].slow {
                slow.is_readable = is_readable;
            }
            handled?;
        }
        let connection = &mut self.connections[number];
        if opens_a_cart {
            // The number of the request says when it was sent.
            let id = FIRST_COMMAND + now_ms();
            let token = (u128::from(id) << 64) | (u128::from(std::process::id()) << 32) | number as u128;
            let text = format!(r#"{{"id":{id},"op":"cart.open","rid":"{id}","body":{{"token":"{token:032x}"}}}}"#);
            write_text(connection.out(), text.as_bytes());
        }
        if connection.out().is_empty() { Ok(()) } else { connection.flush() }
    }

    /// Takes in the answer to a command. Returns whether it is one.
    pub(super) fn on_slow_answer(&mut self, text: &[u8]) -> bool {
        if !text.starts_with(br#"{"id":"#) {
            return false;
        }
        let Ok(Answer { id: Some(id), ok, fail }) = serde_json::from_slice(text) else { return false };
        let Some(sent_ms) = id.checked_sub(FIRST_COMMAND) else { return false };
        let opened_at = ok.and_then(|opened| opened.opened_at).and_then(|text| timestamp(&text));
        match opened_at {
            Some(Timestamp(decided_ms)) => {
                self.stats.slow_commands += 1;
                let took_ms = decided_ms.saturating_sub(sent_ms);
                self.stats.slow_decided_ms_max = self.stats.slow_decided_ms_max.max(took_ms);
            }
            // The node is overloaded, and says so at once.
            None if fail.is_some_and(|fail| fail.name == "busy") => {}
            None => {
                self.stats.slow_refused += 1;
                self.note_error(format!("a slow watcher opens no cart: {}", String::from_utf8_lossy(text)));
            }
        }
        true
    }
}
