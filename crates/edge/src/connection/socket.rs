//! The TCP stream of a connection, encrypted or not, as a reader and writer that never waits. Idle connections have no
//! buffers.

use std::{
    cell::RefCell,
    io::{self, Read, Write},
    task::Poll,
};

use bytes::{Buf, Bytes};
use rustls::ServerConnection;
use socket2::SockRef;
use tokio::{io::Interest, net::TcpStream};

use super::{boundary::Boundary, encryption::Encryption, outgoing::Outgoing};

/// Bytes read from a socket with one call, enough for a burst of some hundred requests.
const READ_BYTES: usize = 32 * 1024;

thread_local! {
    /// The read buffer of all connections of the thread.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into());
}

/// A stream that reads what has arrived, buffers what is written, and returns `WouldBlock` instead of waiting.
pub(super) struct Socket {
    stream: TcpStream,
    /// The TLS session, if there is one. Decrypted bytes are taken out of it at once.
    encryption: Option<Encryption>,
    /// Plain bytes that the reader has not taken yet.
    rest: Bytes,
    /// Whether the last read emptied the stream, so that it must become readable before the next one.
    drained: bool,
    /// Frames to be written.
    out: Outgoing,
    pub(super) boundary: Boundary,
    /// All bytes read.
    pub(super) bytes_in: u64,
    /// All bytes written.
    pub(super) bytes_out: u64,
}

impl Socket {
    /// A socket over a stream from which `read` was read already.
    pub(super) fn new(stream: TcpStream, session: Option<Box<ServerConnection>>, read: Bytes) -> Socket {
        let mut encryption = session.map(Encryption::new);
        let mut boundary = Boundary::default();
        boundary.pass(&read);
        // A copy, because `read` keeps the whole buffer of the HTTP head alive, even if it is empty.
        let mut rest = if read.is_empty() { Bytes::new() } else { Bytes::copy_from_slice(&read) };
        if let Some(encryption) = &mut encryption {
            // The session may have decrypted more than was read. An error comes again with the next read.
            let _ = encryption.decrypt(&[], |decrypted| {
                boundary.pass(decrypted);
                rest = Bytes::from([&rest, decrypted].concat());
            });
        }
        Socket {
            stream,
            encryption,
            rest,
            drained: false,
            out: Outgoing::default(),
            boundary,
            bytes_in: 0,
            bytes_out: 0,
        }
    }

    /// Registers the stream with the current runtime instead of the one before, so that a watcher's traffic wakes no thread
    /// that sells.
    pub(super) fn move_here(&mut self) -> io::Result<()> {
        let same = SockRef::from(&self.stream).try_clone()?;
        self.stream = TcpStream::from_std(same.into())?;
        self.drained = false;
        Ok(())
    }

    /// Waits until there is something to read, or the end, if it `reads`, or until something can be written, if it `writes`. The
    /// registrations stay when the future is dropped, which costs less than new ones each time. So only one may wait.
    pub(super) async fn ready(&mut self, reads: bool, writes: bool) -> io::Result<()> {
        if reads && !self.rest.is_empty() {
            return Ok(());
        }
        std::future::poll_fn(|context| {
            if reads && let Poll::Ready(readable) = self.stream.poll_read_ready(context) {
                self.drained = false;
                return Poll::Ready(readable);
            }
            if writes { self.stream.poll_write_ready(context) } else { Poll::Pending }
        })
        .await
    }

    /// Whether a read may return something. It looks at what the runtime knows and makes no system call.
    pub(super) fn may_have(&mut self) -> bool {
        if self.drained {
            self.drained = self.stream.try_io(Interest::READABLE, || Ok(())).is_err();
        }
        !self.drained || !self.rest.is_empty()
    }

    /// The next read asks the stream again.
    pub(super) fn look_again(&mut self) {
        self.drained = false;
    }

    /// Waits until something can be written.
    pub(super) async fn writable(&self) -> io::Result<()> {
        self.stream.writable().await
    }

    /// What waits for the flush.
    pub(super) fn out(&mut self) -> &mut Outgoing {
        &mut self.out
    }

    /// Bytes that wait for the flush and go before the frames of feeds that have not begun.
    pub(super) fn unsent_answers(&self) -> usize {
        self.out.answers()
    }

    /// Those of them that no other connection shares.
    pub(super) fn own_unsent_answers(&self) -> usize {
        self.out.own_answers()
    }

    /// All bytes that were written or wait for it.
    pub(super) fn bytes_given(&self) -> u64 {
        self.bytes_out + self.out.len() as u64
    }

    /// Reads and drops bytes until the peer has closed.
    pub(super) async fn drain(&mut self) -> io::Result<()> {
        loop {
            self.stream.readable().await?;
            match SCRATCH.with_borrow_mut(|scratch| self.stream.try_read(scratch)) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Tells the peer that nothing more will be written.
    pub(super) fn shut_down(&mut self) {
        if let Some(encryption) = &mut self.encryption {
            encryption.send_close_notify();
            let _ = self.write_encrypted();
        }
        // The peer may be gone.
        let _ = SockRef::from(&self.stream).shutdown(std::net::Shutdown::Write);
    }

    /// The kernel drops what it has not sent, and resets the connection when it is closed.
    pub(super) fn cut(&self) {
        // The peer may be gone.
        let _ = SockRef::from(&self.stream).set_linger(Some(std::time::Duration::ZERO));
    }

    /// Writes as much as the stream takes.
    fn write_plain(&mut self) -> io::Result<()> {
        while !self.out.waiting().is_empty() {
            let written = self.stream.try_write(self.out.waiting())?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.out.advance(written);
            self.bytes_out += written as u64;
        }
        Ok(())
    }

    /// Encrypts and writes one record after the other, so that at most one waits encrypted.
    fn encrypt_and_write(&mut self) -> io::Result<()> {
        loop {
            self.write_encrypted()?;
            let Some(encryption) = &mut self.encryption else { return Ok(()) };
            match encryption.encrypt(self.out.waiting())? {
                0 => return Ok(()),
                taken => self.out.advance(taken),
            }
        }
    }

    fn write_encrypted(&mut self) -> io::Result<()> {
        let Some(encryption) = &mut self.encryption else { return Ok(()) };
        while encryption.has_encrypted() {
            let written = encryption.write_to(&mut TryWrite(&self.stream))?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.bytes_out += written as u64;
        }
        Ok(())
    }

    fn take_rest(&mut self, buffer: &mut [u8]) -> usize {
        let length = buffer.len().min(self.rest.len());
        self.rest.copy_to_slice(&mut buffer[..length]);
        if self.rest.is_empty() {
            self.rest = Bytes::new();
        }
        length
    }
}

/// Ends an encrypted connection as TLS wants it: after the peer's close, or any other end, with a close of this side, and after a
/// record that was not valid with the alert that the session has made. Neither waits.
impl Drop for Socket {
    fn drop(&mut self) {
        if let Some(encryption) = &mut self.encryption {
            // The session sends none after an alert, nor a second one.
            encryption.send_close_notify();
            let _ = self.write_encrypted();
        }
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.rest.is_empty() {
            return Ok(self.take_rest(buffer));
        }
        if self.drained {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        SCRATCH.with_borrow_mut(|scratch| {
            let mut length = None;
            let read = self.stream.try_io(Interest::READABLE, || {
                let read = (&*SockRef::from(&self.stream)).read(scratch)?;
                length = Some(read);
                // A short read has emptied the stream. Telling the runtime so saves another call.
                if read > 0 && read < scratch.len() { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
            });
            let Some(read_length) = length else {
                self.drained = true;
                return Err(read.err().unwrap_or_else(|| io::ErrorKind::WouldBlock.into()));
            };
            self.drained = read.is_err();
            let bytes = &scratch[..read_length];
            self.bytes_in += bytes.len() as u64;
            let (boundary, rest) = (&mut self.boundary, &mut self.rest);
            match &mut self.encryption {
                None => Ok(hand_out(bytes, buffer, boundary, rest)),
                Some(_) if bytes.is_empty() => Ok(0),
                Some(encryption) => {
                    let decrypted =
                        encryption.decrypt(bytes, |decrypted| hand_out(decrypted, buffer, boundary, rest))?;
                    // A part of a record decrypts to nothing yet.
                    if decrypted > 0 || encryption.is_closed_by_peer {
                        Ok(decrypted)
                    } else {
                        Err(io::ErrorKind::WouldBlock.into())
                    }
                }
            }
        })
    }
}

/// Copies plain bytes to the reader. `rest` keeps what the reader has no room for.
fn hand_out(bytes: &[u8], buffer: &mut [u8], boundary: &mut Boundary, rest: &mut Bytes) -> usize {
    boundary.pass(bytes);
    let (now, later) = bytes.split_at(bytes.len().min(buffer.len()));
    buffer[..now.len()].copy_from_slice(now);
    if !later.is_empty() {
        *rest = Bytes::copy_from_slice(later);
    }
    now.len()
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.push(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.encryption {
            None => self.write_plain()?,
            Some(_) => self.encrypt_and_write()?,
        }
        self.out.finish();
        Ok(())
    }
}

/// Writes to a stream without waiting.
struct TryWrite<'a>(&'a TcpStream);

impl Write for TryWrite<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
