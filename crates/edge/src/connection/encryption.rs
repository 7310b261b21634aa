//! The encryption of a connection. It does no I/O of its own.

use std::{
    cell::RefCell,
    io::{self, Read, Write},
};

use rustls::ServerConnection;

/// Bytes that are encrypted at a time: one record of TLS. More would only wait encrypted.
const RECORD_BYTES: usize = 16 * 1024;

/// The capacity that a thread keeps for decrypted bytes.
const KEPT_BYTES: usize = 128 * 1024;

thread_local! {
    /// Decrypted bytes. All connections of the thread share the buffer.
    static DECRYPTED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A TLS session after its handshake.
pub(super) struct Encryption {
    session: Box<ServerConnection>,
    /// Whether the peer has said that nothing more will come.
    pub(super) is_closed_by_peer: bool,
}

impl Encryption {
    pub(super) fn new(session: Box<ServerConnection>) -> Encryption {
        Encryption { session, is_closed_by_peer: false }
    }

    /// Decrypts bytes from the stream, and the rest from before. `use_it` gets the plain bytes.
    ///
    /// # Errors
    /// The bytes are not TLS, or were changed on their way.
    pub(super) fn decrypt<T>(&mut self, mut encryption: &[u8], use_it: impl FnOnce(&[u8]) -> T) -> io::Result<T> {
        DECRYPTED.with_borrow_mut(|decrypted| {
            decrypted.clear();
            self.take_decrypted(decrypted)?;
            // The session takes nothing after the peer's close.
            while !encryption.is_empty() && self.session.read_tls(&mut encryption)? > 0 {
                let state = self.session.process_new_packets();
                let state = state.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                self.is_closed_by_peer |= state.peer_has_closed();
                self.take_decrypted(decrypted)?;
            }
            let used = use_it(decrypted);
            if decrypted.capacity() > KEPT_BYTES {
                *decrypted = Vec::new();
            }
            Ok(used)
        })
    }

    fn take_decrypted(&mut self, decrypted: &mut Vec<u8>) -> io::Result<()> {
        match self.session.reader().read_to_end(decrypted) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Encrypts the first of these bytes, unless encrypted bytes wait. Returns how many.
    pub(super) fn encrypt(&mut self, plain: &[u8]) -> io::Result<usize> {
        if self.session.wants_write() || plain.is_empty() {
            return Ok(0);
        }
        let taken = plain.len().min(RECORD_BYTES);
        self.session.writer().write_all(&plain[..taken])?;
        Ok(taken)
    }

    /// Whether encrypted bytes wait to be written.
    pub(super) fn has_encrypted(&self) -> bool {
        self.session.wants_write()
    }

    /// Writes encrypted bytes. Returns how many.
    pub(super) fn write_to(&mut self, stream: &mut impl Write) -> io::Result<usize> {
        self.session.write_tls(stream)
    }

    /// Tells the peer that nothing more will come.
    pub(super) fn send_close_notify(&mut self) {
        self.session.send_close_notify();
    }
}
