//! The encryption of a connection: what is read of the stream is opened, what is to be written is sealed. It does no I/O
//! of its own.

use std::{
    cell::RefCell,
    io::{self, Read, Write},
};

use rustls::ServerConnection;

/// Bytes that are sealed at a time: one record of TLS. More would only wait encrypted.
const RECORD_BYTES: usize = 16 * 1024;

/// The capacity that a thread keeps for opened bytes.
const KEPT_BYTES: usize = 128 * 1024;

thread_local! {
    /// What was opened for whichever connection has its turn.
    static OPENED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A TLS session whose handshake is over.
pub(super) struct Sealed {
    session: Box<ServerConnection>,
    /// The peer has said that nothing more will come.
    pub(super) is_over: bool,
}

impl Sealed {
    pub(super) fn new(session: Box<ServerConnection>) -> Sealed {
        Sealed { session, is_over: false }
    }

    /// Opens what was read of the stream, and what was left from before; `use_it` is handed the plain bytes.
    ///
    /// # Errors
    /// What came is no TLS, or was changed on its way.
    pub(super) fn open<T>(&mut self, mut sealed: &[u8], use_it: impl FnOnce(&[u8]) -> T) -> io::Result<T> {
        OPENED.with_borrow_mut(|opened| {
            opened.clear();
            self.take_opened(opened)?;
            // It takes nothing after the peer's farewell.
            while !sealed.is_empty() && self.session.read_tls(&mut sealed)? > 0 {
                let state = self.session.process_new_packets();
                let state = state.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                self.is_over |= state.peer_has_closed();
                self.take_opened(opened)?;
            }
            let used = use_it(opened);
            if opened.capacity() > KEPT_BYTES {
                *opened = Vec::new();
            }
            Ok(used)
        })
    }

    fn take_opened(&mut self, opened: &mut Vec<u8>) -> io::Result<()> {
        match self.session.reader().read_to_end(opened) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Seals the first of these bytes if nothing sealed waits; how many it took.
    pub(super) fn seal(&mut self, plain: &[u8]) -> io::Result<usize> {
        if self.session.wants_write() || plain.is_empty() {
            return Ok(0);
        }
        let taken = plain.len().min(RECORD_BYTES);
        self.session.writer().write_all(&plain[..taken])?;
        Ok(taken)
    }

    /// Whether sealed bytes wait to be written.
    pub(super) fn has_sealed(&self) -> bool {
        self.session.wants_write()
    }

    /// Writes sealed bytes; how many.
    pub(super) fn write_to(&mut self, stream: &mut impl Write) -> io::Result<usize> {
        self.session.write_tls(stream)
    }

    /// Says that nothing more will come.
    pub(super) fn say_goodbye(&mut self) {
        self.session.send_close_notify();
    }
}
