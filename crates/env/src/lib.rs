//! The world as a node sees it: clock, random numbers, other nodes, disk, stores, payment gateway.
//!
//! A node reaches everything outside its own memory through these six traits, so that a simulation can replace all of it. This
//! crate implements the clock, random numbers, files and stores with the operating system. The crates `links` and `payment`
//! implement the net and the gateway. The feature `memory` adds a disk and stores in memory, which lose unsynced data at a
//! power cut.
//!
//! ```
//! # #[cfg(feature = "memory")] {
//! use std::path::Path;
//!
//! use boxoffice_env::{Disk, MemoryDisk, OpenMode};
//!
//! let (disk, dir) = (MemoryDisk::new(), Path::new("/data"));
//! disk.create_dir_all(dir)?;
//! let file = disk.open(&dir.join("log"), OpenMode::Create)?;
//! file.write_all_at(b"synced", 0)?;
//! file.sync_data()?;
//! // The name of the file is in its directory, which is synced by itself.
//! disk.sync_dir(dir)?;
//! file.write_all_at(b"gone", 512)?;
//!
//! disk.power_cut(&mut || false);
//! assert_eq!(disk.open(&dir.join("log"), OpenMode::Read)?.length()?, 6);
//! # }
//! # Ok::<(), std::io::Error>(())
//! ```

use std::sync::Arc;

pub mod background;
pub mod clock;
pub mod disk;
pub mod fjall_store;
pub mod gateway;
#[cfg(any(test, feature = "memory"))]
pub mod memory_disk;
#[cfg(any(test, feature = "memory"))]
pub mod memory_store;
pub mod net;
pub mod no_wait;
pub mod os_disk;
#[cfg(any(test, feature = "memory"))]
pub mod read_gate;
pub mod rng;
pub mod secret;
#[cfg(any(test, feature = "memory"))]
pub mod stalling_disk;
#[cfg(any(test, feature = "memory"))]
pub mod stalling_stores;
pub mod store;

pub use clock::{Clock, OsClock};
pub use disk::{Disk, DiskFile, DiskLock, FileIdentity, OpenMode};
pub use fjall_store::FjallStores;
pub use gateway::{Gateway, NoGateway};
#[cfg(any(test, feature = "memory"))]
pub use memory_disk::MemoryDisk;
#[cfg(any(test, feature = "memory"))]
pub use memory_store::MemoryStores;
pub use net::{
    DURABLE_POSITION_BYTES, DurablePosition, Lane, LinkStatus, Local, Net, NoPeers, NodeId, NotSent, PeerAddress,
    PeerAdmission, PeerHello, PeerInbox, PeerRejection,
};
pub use os_disk::OsDisk;
pub use rng::{OsRng, Rng};
#[cfg(any(test, feature = "memory"))]
pub use stalling_disk::StallingDisk;
#[cfg(any(test, feature = "memory"))]
pub use stalling_stores::StallingStores;
pub use store::{DamagedTable, KeyValue, Store, StoreError, StoreSettings, Stores};

/// One node's world. Cloning it shares it.
#[derive(Clone)]
pub struct World {
    pub clock: Arc<dyn Clock>,
    pub rng: Arc<dyn Rng>,
    pub net: Arc<dyn Net>,
    pub disk: Arc<dyn Disk>,
    pub stores: Arc<dyn Stores>,
    pub gateway: Arc<dyn Gateway>,
}

impl World {
    /// The operating system's clock, random numbers, files and stores, without other nodes and without a payment
    /// gateway.
    pub fn standalone() -> World {
        World {
            clock: Arc::new(OsClock::new()),
            rng: Arc::new(OsRng),
            net: Arc::new(NoPeers),
            disk: Arc::new(OsDisk),
            stores: Arc::new(FjallStores),
            gateway: Arc::new(NoGateway),
        }
    }
}
