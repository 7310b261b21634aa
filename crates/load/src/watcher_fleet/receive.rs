//! How a fleet handles what its connections receive.

use std::io;

use super::{
    connection::Stage,
    event_loop::{EventLoop, RETRY_AFTER_US, SnapshotJump},
    frame_cache::{FrameContent, change},
};
use crate::{
    clock::now_us,
    websocket::{Message, write_pong},
};

/// The snapshot of a session.
struct Snapshot<'a> {
    session: usize,
    epoch: u64,
    version: u64,
    seats: &'a [u8],
}

/// The delta of a session.
struct Delta<'a> {
    feed: u64,
    from: u64,
    to: u64,
    changes: &'a [(u32, u8)],
}

impl EventLoop {
    /// Handles the bytes of one read.
    pub(super) fn on_bytes(&mut self, number: usize, bytes: &[u8]) -> io::Result<()> {
        let connection = &mut self.connections[number];
        if matches!(connection.stage, Stage::Upgrading(_)) {
            let Some(rest) = connection.read_upgrade(bytes)? else { return Ok(()) };
            connection.watch(0..self.spec.feeds as usize, &self.spec);
            self.status.connected += 1;
            return self.on_bytes(number, &rest);
        }
        self.stats.bytes += bytes.len() as u64;
        let received_us = now_us();
        let mut frame_reader = std::mem::take(&mut connection.frame_reader);
        let mut done = Ok(());
        let read = frame_reader.read(bytes, |message| match message {
            Message::Text(text) => self.on_text(number, text, received_us),
            Message::Binary(_) => done = Err(io::Error::other("the server sends binary frames in a JSON connection")),
            Message::Ping(payload) => write_pong(self.connections[number].out(), payload),
            Message::Close(code, reason) => {
                let reason = String::from_utf8_lossy(reason);
                done = Err(io::Error::other(format!("the server closes with code {code:?}: {reason}")));
            }
        });
        self.connections[number].frame_reader = frame_reader;
        read.map_err(|_| io::Error::other("the server does not speak WebSocket"))?;
        done
    }

    fn on_text(&mut self, number: usize, text: &[u8], received_us: u64) {
        if self.connections[number].slow.is_some() && self.on_slow_answer(text) {
            return;
        }
        let node = self.connections[number].node;
        let index = match self.nodes[node].frames.lookup(text) {
            Ok(index) => index,
            Err(error) => return self.note_error(format!("{}: {error}", String::from_utf8_lossy(text))),
        };
        // The handlers need the whole event loop, so the content leaves its frame meanwhile.
        let content = std::mem::replace(&mut self.nodes[node].frames.seen[index].content, FrameContent::Other);
        match &content {
            FrameContent::Delta { feed, from, to, changes } => {
                let delta = Delta { feed: *feed, from: *from, to: *to, changes };
                self.on_delta(number, index, &delta, received_us);
            }
            FrameContent::Snapshot { feed, entity, epoch, version, seats } => {
                let session = entity.strip_prefix("session/").and_then(|name| self.sessions.get(name));
                if let Some(session) = session.copied() {
                    self.nodes[node].feeds.insert(*feed, session);
                    let snapshot = Snapshot { session, epoch: *epoch, version: *version, seats };
                    self.on_snapshot(number, &snapshot, received_us);
                }
            }
            FrameContent::WatchGranted { request, feed } => {
                let connection = &self.connections[number];
                let session = connection.session(*request as usize - 1, self.spec.sessions.len());
                self.nodes[node].feeds.insert(*feed, session);
                // A resumed feed may receive nothing until its session changes.
                if connection.synced == self.spec.feeds {
                    self.finish_opening(number);
                }
            }
            FrameContent::CountsGranted { feeds, missing } => {
                for (session, feed) in feeds {
                    if let Some(session) = self.sessions.get(session) {
                        self.nodes[node].feeds.insert(*feed, *session);
                    }
                }
                if *missing > 0 {
                    self.note_error(format!("{missing} watched sessions do not exist"));
                }
            }
            FrameContent::WatchRefused { request: Some(request), is_temporary: true, .. } => {
                self.to_rewatch.push_back((received_us + RETRY_AFTER_US, number, *request as usize - 1));
            }
            FrameContent::WatchRefused { name, .. } => self.note_error(format!("a watch was refused: {name}")),
            FrameContent::Ended { .. } => self.stats.ended += 1,
            FrameContent::Other => {}
        }
        self.nodes[node].frames.seen[index].content = content;
    }

    fn on_delta(&mut self, number: usize, index: usize, delta: &Delta<'_>, received_us: u64) {
        let connection = &mut self.connections[number];
        let node = &mut self.nodes[connection.node];
        let Some(session) = node.feeds.get(&delta.feed).copied() else {
            self.stats.stale += 1;
            return;
        };
        let sessions = self.spec.sessions.len();
        let feed_index = (session + sessions - connection.session(0, sessions)) % sessions;
        let Some(feed) = connection.feeds.get_mut(feed_index) else { return };
        if !feed.is_synced || delta.to <= feed.version {
            self.stats.stale += 1;
        } else if delta.from > feed.version {
            self.stats.skipped += 1;
            self.to_rewatch.push_back((received_us, number, feed_index));
        } else {
            self.stats.versions += delta.to - feed.version;
            feed.version = delta.to;
            if self.spec.keep_maps && !change(&mut feed.map, delta.changes) {
                self.stats.wrong += 1;
            }
            self.stats.deltas += 1;
            if let Some(counting_since_us) = self.counting_since_us {
                let seen = &mut node.frames.seen[index];
                seen.session = session;
                seen.receipts.push(since(counting_since_us, received_us));
            }
        }
    }

    fn on_snapshot(&mut self, number: usize, snapshot: &Snapshot<'_>, received_us: u64) {
        let Snapshot { session, epoch, version, seats } = *snapshot;
        let connection = &mut self.connections[number];
        let Some(feed) = connection.feed(session, self.spec.sessions.len()) else { return };
        let before = feed.is_synced.then_some((feed.epoch, feed.version));
        if before.is_some_and(|(its, before)| its == epoch && before > version) {
            self.stats.wrong += 1;
            return;
        }
        feed.epoch = epoch;
        feed.version = version;
        feed.is_synced = true;
        if self.spec.keep_maps {
            seats.clone_into(&mut feed.map);
        }
        let Some((its, from)) = before else {
            self.status.synced += 1;
            connection.synced += 1;
            if connection.synced == self.spec.feeds {
                self.finish_opening(number);
            }
            return;
        };
        self.stats.snapshots += 1;
        self.stats.versions += version.saturating_sub(from);
        self.stats.stale += u64::from(its == epoch && version == from);
        let goes_on = its == epoch && version > from;
        if let (Some(counting_since_us), true) = (self.counting_since_us, goes_on) {
            let received = since(counting_since_us, received_us);
            self.jumps.push(SnapshotJump { session, from, to: version, received });
        }
        self.finish_opening(number);
    }
}

/// Microseconds since counting began. Counting never lasts for an hour.
fn since(counting_since_us: u64, now_us: u64) -> u32 {
    u32::try_from(now_us.saturating_sub(counting_since_us)).unwrap_or(u32::MAX)
}
