//! The watchers: galleries in processes of their own, as many as their number of open files asks for.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use boxoffice_load::gallery::{Answer, GallerySpec, Mark, Order, Standing, Tally};

use crate::Failed;

/// Watchers of one process.
const OF_ONE_PROCESS: u32 = 15_000;

/// How long all may take to come in.
const COME_IN: Duration = Duration::from_secs(180);

/// How often it is looked whether they have.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// All watchers of a sitting.
pub(crate) struct Watchers {
    galleries: Vec<GalleryProcess>,
}

struct GalleryProcess {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Watchers {
    /// Starts the processes and waits until everybody sees what they came for; how long that took.
    pub(crate) async fn come_in(spec: &GallerySpec) -> Result<(Watchers, Duration), Failed> {
        let start = Instant::now();
        let processes = spec.watchers.div_ceil(OF_ONE_PROCESS).max(1);
        let mut galleries = Vec::new();
        for process in 0..processes {
            let share = spec.watchers / processes + u32::from(process < spec.watchers % processes);
            galleries.push(GalleryProcess::start(&GallerySpec { watchers: share, ..spec.clone() })?);
        }
        let mut watchers = Watchers { galleries };
        loop {
            let standing = watchers.standing()?;
            if standing.is_complete() {
                return Ok((watchers, start.elapsed()));
            }
            if start.elapsed() > COME_IN {
                return Err(format!("the watchers did not come in: {standing:?}").into());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    pub(crate) fn standing(&mut self) -> Result<Standing, Failed> {
        let mut all = Standing::default();
        for answer in self.ask(&Order::Look)? {
            let Answer::Standing(Standing { connected, whole, wanted, trouble }) = answer else {
                return Err(other());
            };
            all.connected += connected;
            all.whole += whole;
            all.wanted += wanted;
            all.trouble = all.trouble.or(trouble);
        }
        Ok(all)
    }

    /// Begins to count anew.
    pub(crate) fn begin(&mut self) -> Result<(), Failed> {
        self.ask(&Order::Begin).map(drop)
    }

    /// Waits until everybody has these versions, or the time is over: how many are behind then, and when the last of the
    /// others came to it.
    pub(crate) async fn reached(&mut self, versions: &[(u32, u64)], limit: Duration) -> Result<(u64, u64), Failed> {
        let start = Instant::now();
        loop {
            let (mut all_behind, mut all_last_us) = (0, 0);
            for answer in self.ask(&Order::Reached(versions.to_vec()))? {
                let Answer::Reached { behind, last_us } = answer else { return Err(other()) };
                all_behind += behind;
                all_last_us = last_us.max(all_last_us);
            }
            if all_behind == 0 || start.elapsed() > limit {
                return Ok((all_behind, all_last_us));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// What they counted.
    pub(crate) fn tell(&mut self, marks: &[Mark]) -> Result<Tally, Failed> {
        let mut all = Tally::default();
        for answer in self.ask(&Order::Tell(marks.to_vec()))? {
            let Answer::Told(tally) = answer else { return Err(other()) };
            all.add(&tally);
        }
        Ok(all)
    }

    fn ask(&mut self, order: &Order) -> Result<Vec<Answer>, Failed> {
        let line = serde_json::to_string(order)?;
        for gallery in &mut self.galleries {
            let orders = gallery.orders.as_mut().ok_or("a gallery is closed")?;
            writeln!(orders, "{line}")?;
            orders.flush()?;
        }
        self.galleries.iter_mut().map(GalleryProcess::answer).collect()
    }
}

impl GalleryProcess {
    fn start(spec: &GallerySpec) -> Result<GalleryProcess, Failed> {
        let program = std::env::current_exe()?;
        let mut child = Command::new(program).arg("gallery").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut orders = child.stdin.take().ok_or("no way in")?;
        let answers = BufReader::new(child.stdout.take().ok_or("no way out")?);
        writeln!(orders, "{}", serde_json::to_string(spec)?)?;
        Ok(GalleryProcess { child, orders: Some(orders), answers })
    }

    fn answer(&mut self) -> Result<Answer, Failed> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err("a process of watchers has ended".into());
        }
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for GalleryProcess {
    fn drop(&mut self) {
        // It ends when nothing more comes in.
        drop(self.orders.take());
        let _ = self.child.wait();
    }
}

fn other() -> Failed {
    "a gallery answered something else".into()
}
