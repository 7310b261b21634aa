//! The disk and the processors of this machine before and after the traffic.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use crate::{
    LoadError, RunConfig,
    machine::{CpuTimes, DiskFloor, own_cpu},
    report::Machine,
};

/// A sample before the traffic.
pub(super) struct HostSample {
    disk: PathBuf,
    floor: DiskFloor,
    own_cpu: Option<Duration>,
    cpu: Option<CpuTimes>,
}

impl HostSample {
    pub(super) fn take(config: &RunConfig) -> Result<HostSample, LoadError> {
        let disk = config.disk_dir.clone().or_else(|| config.out_dir.clone()).unwrap_or_else(std::env::temp_dir);
        let floor = measure_floor(&disk)?;
        Ok(HostSample { disk, floor, own_cpu: own_cpu(), cpu: CpuTimes::now() })
    }

    /// The difference to now, after `elapsed_s` seconds of traffic.
    pub(super) fn finish(self, elapsed_s: f64) -> Result<Machine, LoadError> {
        let cpu = self.cpu.and_then(|before| Some(CpuTimes::now()?.since(before)));
        let own = self.own_cpu.and_then(|before| Some(own_cpu()?.saturating_sub(before)));
        Ok(Machine {
            processors: thread::available_parallelism().map_or(1, |count| count.get() as u32),
            floor_before: Some(self.floor),
            floor_after: Some(measure_floor(&self.disk)?),
            cpu,
            client_processors: own.map_or(0.0, |own| own.as_secs_f64() / elapsed_s),
        })
    }
}

fn measure_floor(directory: &Path) -> Result<DiskFloor, LoadError> {
    fs::create_dir_all(directory)
        .and_then(|()| DiskFloor::measure(directory))
        .map_err(|error| LoadError::File { path: directory.to_owned(), error })
}
