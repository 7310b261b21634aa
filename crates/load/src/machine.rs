//! The machine of a run: the cost of a disk flush, and who used the processors.

use std::{
    collections::BTreeMap,
    fs, io,
    io::{Seek, SeekFrom, Write},
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

/// Flushes of one measurement.
const FLUSHES: usize = 200;

/// Bytes written before each flush.
const FLUSH_BYTES: usize = 4_096;

/// Bytes of the file that the measurement overwrites. It is written once before, so that no flush makes it grow.
const FLOOR_FILE_BYTES: usize = 1 << 20;

/// Ticks per second in `/proc/*/stat`. This is the value of every Linux machine that we know of.
const TICKS_PER_SECOND: u64 = 100;

/// The cost of one raw `fdatasync` of 4 KiB in a directory, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DiskFloor {
    pub p50_us: f64,
    pub p99_us: f64,
}

impl DiskFloor {
    /// Measures the cost in `directory` with a file that is removed again. This takes some hundredths of a second.
    ///
    /// # Errors
    /// If the file cannot be created, written or removed.
    pub fn measure(directory: &Path) -> io::Result<DiskFloor> {
        // Several runs of one process may measure at the same time.
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = directory.join(format!("flush-floor-{}-{number}", std::process::id()));
        let measured = flush_times(&path);
        let removed = fs::remove_file(&path);
        let mut times = measured?;
        removed?;
        times.sort_unstable();
        let us = |place: usize| times[place].as_nanos() as f64 / 1_000.0;
        Ok(DiskFloor { p50_us: us(FLUSHES / 2), p99_us: us(FLUSHES * 99 / 100) })
    }
}

fn flush_times(path: &Path) -> io::Result<Vec<Duration>> {
    let mut file = fs::OpenOptions::new().create(true).truncate(true).write(true).open(path)?;
    file.write_all(&vec![1; FLOOR_FILE_BYTES])?;
    file.sync_all()?;
    let block = [2; FLUSH_BYTES];
    (0..FLUSHES)
        .map(|turn| {
            let offset = (turn * FLUSH_BYTES) % FLOOR_FILE_BYTES;
            file.seek(SeekFrom::Start(offset as u64))?;
            let start = Instant::now();
            file.write_all(&block)?;
            file.sync_data()?;
            Ok(start.elapsed())
        })
        .collect()
}

/// Processor time of the whole machine since its start, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    total: u64,
    idle: u64,
    steal: u64,
}

/// How the processors spent an interval, in percent of all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuShare {
    /// Not idle.
    pub busy_percent: f64,
    /// Used by other guests of the same host.
    pub steal_percent: f64,
}

impl CpuTimes {
    /// Reads `/proc/stat`. `None` if there is none.
    pub fn now() -> Option<CpuTimes> {
        CpuTimes::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    fn parse(stat: &str) -> Option<CpuTimes> {
        let line = stat.lines().find(|line| line.starts_with("cpu "))?;
        // The columns are user nice system idle iowait irq softirq steal. User includes guest time.
        let ticks: Vec<u64> = line.split_whitespace().skip(1).take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
        let [.., idle, iowait, _irq, _softirq, steal] = ticks.as_slice() else { return None };
        Some(CpuTimes { total: ticks.iter().sum(), idle: idle + iowait, steal: *steal })
    }

    /// The shares since an earlier reading.
    pub fn since(self, earlier: CpuTimes) -> CpuShare {
        let total = self.total.saturating_sub(earlier.total).max(1) as f64;
        let percent = |now: u64, then: u64| now.saturating_sub(then) as f64 * 100.0 / total;
        let steal_percent = percent(self.steal, earlier.steal);
        CpuShare { busy_percent: 100.0 - percent(self.idle, earlier.idle) - steal_percent, steal_percent }
    }
}

/// Processor time of a process, its current children and the children it has waited for.
///
/// # Errors
/// If `/proc` cannot be read or the process does not exist.
pub fn process_cpu(pid: u32) -> io::Result<Duration> {
    let mut used = BTreeMap::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(id) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // A process may end between the listing and the reading.
        let Ok(stat) = fs::read_to_string(format!("/proc/{id}/stat")) else { continue };
        if let Some((parent, ticks)) = parse_process(&stat)
            && (id == pid || parent == pid)
        {
            used.insert(id, ticks);
        }
    }
    if !used.contains_key(&pid) {
        return Err(io::Error::new(io::ErrorKind::NotFound, format!("process {pid} does not exist")));
    }
    Ok(Duration::from_millis(used.values().sum::<u64>() * 1_000 / TICKS_PER_SECOND))
}

/// Processor time of this process. `None` if it cannot be read.
pub fn own_cpu() -> Option<Duration> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    Some(Duration::from_millis(own_ticks(&stat)? * 1_000 / TICKS_PER_SECOND))
}

/// Resident memory of a process, in bytes. `None` if the process does not exist.
pub fn process_memory(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1_024)
}

/// The processors that a process may run on. `None` if the process does not exist.
pub fn processors_of(pid: u32) -> Option<Vec<usize>> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let mut processors = Vec::new();
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        processors.extend(first.parse::<usize>().ok()?..=last.parse::<usize>().ok()?);
    }
    Some(processors)
}

/// The process on this machine that listens on an address (`host:port`). `None` if there is none, or if this user may
/// not see it.
pub fn listening_pid(address: &str) -> Option<u32> {
    let (host, port) = address.rsplit_once(':')?;
    if !matches!(host, "127.0.0.1" | "localhost" | "[::1]" | "0.0.0.0") {
        return None;
    }
    let port: u16 = port.parse().ok()?;
    let inode = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .find_map(|table| listening_inode(&fs::read_to_string(table).ok()?, port))?;
    let socket = format!("socket:[{inode}]");
    fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let open = fs::read_dir(entry.path().join("fd")).ok()?;
        let links = open.flatten().filter_map(|file| fs::read_link(file.path()).ok());
        links.into_iter().any(|link| link.to_str() == Some(socket.as_str())).then_some(pid)
    })
}

/// The inode of the socket that listens on a port, from `/proc/net/tcp`.
fn listening_inode(table: &str, port: u16) -> Option<u64> {
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let local = u16::from_str_radix(fields.get(1)?.rsplit_once(':')?.1, 16).ok()?;
        // 0A is the state of a listening socket.
        (local == port && *fields.get(3)? == "0A").then(|| fields.get(9)?.parse().ok())?
    })
}

/// The parent, and the ticks of the process and of the children it has waited for.
fn parse_process(stat: &str) -> Option<(u32, u64)> {
    // The name is in brackets and may contain any text, so the fields are counted after the last bracket.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let parent = fields.get(1)?.parse().ok()?;
    let ticks: Vec<u64> = fields.get(11..15)?.iter().map(|ticks| ticks.parse()).collect::<Result<_, _>>().ok()?;
    Some((parent, ticks.iter().sum()))
}

/// The ticks of the process without its children.
fn own_ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_differences_of_readings() {
        let before = CpuTimes::parse("cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 1 1 1").expect("a reading");
        let after = CpuTimes::parse("cpu  160 0 70 880 60 0 0 30 0 0\n").expect("a reading");
        assert_eq!(after.since(before), CpuShare { busy_percent: 40.0, steal_percent: 15.0 });
        assert_eq!(CpuTimes::parse("cpu 1 2 3"), None);
    }

    #[test]
    fn a_process_name_may_contain_brackets() {
        let stat = "42 (a ) b) S 7 42 42 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0";
        assert_eq!(parse_process(stat), Some((7, 100)));
        assert_eq!(own_ticks(stat), Some(30));
        assert!(process_cpu(std::process::id()).is_ok());
        assert!(process_cpu(u32::MAX).is_err());
    }

    #[test]
    fn a_process_is_found_by_the_port_it_listens_on() {
        let socket = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let address = socket.local_addr().expect("it is bound").to_string();
        assert_eq!(listening_pid(&address), Some(std::process::id()));
        assert_eq!(listening_pid("192.0.2.1:80"), None);
        assert!(process_memory(std::process::id()).is_some_and(|bytes| bytes > 100_000));
        let processors = processors_of(std::process::id()).expect("it runs somewhere");
        assert!(!processors.is_empty() && processors.is_sorted(), "{processors:?}");
    }

    #[test]
    fn measuring_the_floor_leaves_no_file_behind() {
        let directory = std::env::temp_dir().join(format!("boxoffice-floor-{}", std::process::id()));
        fs::create_dir(&directory).expect("a directory");
        let floor = DiskFloor::measure(&directory).expect("a floor");
        assert!(floor.p50_us > 0.0 && floor.p99_us >= floor.p50_us, "{floor:?}");
        fs::remove_dir(&directory).expect("it is empty again");
    }
}
