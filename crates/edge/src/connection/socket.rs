//! The TCP stream of a connection as a reader and writer that never waits, encrypted or not. Neither side keeps a buffer that
//! is not in use.

use std::{
    cell::RefCell,
    io::{self, Read, Write},
};

use bytes::{Buf, Bytes};
use rustls::ServerConnection;
use socket2::SockRef;
use tokio::{io::Interest, net::TcpStream};

use super::{boundary::Boundary, sealed::Sealed};

/// Bytes read from a socket with one call: a burst of some hundred requests.
const READ_BYTES: usize = 32 * 1024;

/// Buffers for writing that a thread keeps for the next connection, and how large they may be. One is in use at a time, but for
/// peers that do not read.
const SPARE_BUFFERS: usize = 4;
const SPARE_BYTES_MAX: usize = 128 * 1024;

thread_local! {
    /// Read into by whichever connection has its turn, so that none needs a buffer of its own.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into());
    /// Written from by whichever connection has its turn.
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// A stream that gives what there is, takes everything, and says `WouldBlock` when it can neither give nor pass on.
pub(super) struct Socket {
    stream: TcpStream,
    /// The encryption, if there is one. Bytes that it holds opened are taken out of it at once.
    sealed: Option<Sealed>,
    /// Read from the stream, opened and not asked for yet.
    rest: Bytes,
    /// The stream had no more when it was last read: asking again before it is readable would be in vain.
    drained: bool,
    /// To be written: a buffer of the thread's, given back when it is empty.
    out: Vec<u8>,
    /// How much of it was written already.
    sent: usize,
    /// Where in a frame the bytes read so far end.
    pub(super) boundary: Boundary,
    /// All bytes read.
    pub(super) bytes_in: u64,
    /// All bytes written: what grows while the peer reads.
    pub(super) bytes_out: u64,
}

impl Socket {
    /// A socket over `stream`, encrypted by `session`, of which `read` was read already.
    pub(super) fn new(stream: TcpStream, session: Option<Box<ServerConnection>>, read: Bytes) -> Socket {
        let mut sealed = session.map(Sealed::new);
        let mut boundary = Boundary::default();
        boundary.pass(&read);
        // A copy: even when it is empty, it keeps the whole buffer alive in which the HTTP head came.
        let mut rest = if read.is_empty() { Bytes::new() } else { Bytes::copy_from_slice(&read) };
        if let Some(sealed) = &mut sealed {
            // The session may have opened more than was asked for. If it fails here, it fails again with the next read.
            let _ = sealed.open(&[], |opened| {
                boundary.pass(opened);
                rest = Bytes::from([&rest, opened].concat());
            });
        }
        Socket { stream, sealed, rest, drained: false, out: Vec::new(), sent: 0, boundary, bytes_in: 0, bytes_out: 0 }
    }

    /// Has the runtime that this is called on tell when the stream is ready, and no longer the one before: what watchers
    /// send and read then wakes nobody who sells.
    pub(super) fn move_here(&mut self) -> io::Result<()> {
        let same = SockRef::from(&self.stream).try_clone()?;
        self.stream = TcpStream::from_std(same.into())?;
        self.drained = false;
        Ok(())
    }

    /// Waits until there is something to read, or the end. Stays with the stream when it is given up, which costs less
    /// than coming and going turn after turn; so only one may wait.
    pub(super) async fn readable(&mut self) -> io::Result<()> {
        if !self.rest.is_empty() {
            return Ok(());
        }
        std::future::poll_fn(|context| self.stream.poll_read_ready(context)).await?;
        self.drained = false;
        Ok(())
    }

    /// Whether a read may give something.
    pub(super) fn may_have(&self) -> bool {
        !self.drained || !self.rest.is_empty()
    }

    /// Something may have come meanwhile: the next read asks the stream.
    pub(super) fn look_again(&mut self) {
        self.drained = false;
    }

    /// Waits until something can be written.
    pub(super) async fn writable(&self) -> io::Result<()> {
        self.stream.writable().await
    }

    /// How many bytes wait for the flush.
    pub(super) fn unsent(&self) -> usize {
        self.out.len() - self.sent
    }

    /// Reads and forgets until the peer has closed.
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
        if let Some(sealed) = &mut self.sealed {
            sealed.say_goodbye();
            let _ = self.write_sealed();
        }
        // It may have gone already.
        let _ = SockRef::from(&self.stream).shutdown(std::net::Shutdown::Write);
    }

    fn write_plain(&mut self) -> io::Result<()> {
        while self.sent < self.out.len() {
            let written = self.stream.try_write(&self.out[self.sent..])?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.sent += written;
            self.bytes_out += written as u64;
        }
        Ok(())
    }

    /// Record by record: what waits encrypted is one at most.
    fn seal_and_write(&mut self) -> io::Result<()> {
        loop {
            self.write_sealed()?;
            let Some(sealed) = &mut self.sealed else { return Ok(()) };
            match sealed.seal(&self.out[self.sent..])? {
                0 => return Ok(()),
                taken => self.sent += taken,
            }
        }
    }

    fn write_sealed(&mut self) -> io::Result<()> {
        let Some(sealed) = &mut self.sealed else { return Ok(()) };
        while sealed.has_sealed() {
            let written = sealed.write_to(&mut TryWrite(&self.stream))?;
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
                // A short read has emptied the stream; saying so here saves the call that would say it again.
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
            match &mut self.sealed {
                None => Ok(hand_out(bytes, buffer, boundary, rest)),
                Some(_) if bytes.is_empty() => Ok(0),
                Some(sealed) => {
                    let opened = sealed.open(bytes, |opened| hand_out(opened, buffer, boundary, rest))?;
                    // A part of a record opens nothing yet.
                    if opened > 0 || sealed.is_over { Ok(opened) } else { Err(io::ErrorKind::WouldBlock.into()) }
                }
            }
        })
    }
}

/// Hands plain bytes to the reader; what it has no room for is the rest.
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
        if self.out.capacity() == 0 {
            self.out = SPARE.with_borrow_mut(Vec::pop).unwrap_or_default();
        }
        self.out.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.sealed {
            None => self.write_plain()?,
            Some(_) => self.seal_and_write()?,
        }
        self.sent = 0;
        let mut out = std::mem::take(&mut self.out);
        if (1..=SPARE_BYTES_MAX).contains(&out.capacity()) {
            out.clear();
            SPARE.with_borrow_mut(|spare| {
                if spare.len() < SPARE_BUFFERS {
                    spare.push(out);
                }
            });
        }
        Ok(())
    }
}

/// A stream that is written to without waiting.
struct TryWrite<'a>(&'a TcpStream);

impl Write for TryWrite<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
