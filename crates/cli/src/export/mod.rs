//! `boxoffice export`: what was sold, as lines of JSON or as CSV, from a backup.
//!
//! The backup is restored into a temporary directory with one shard, whose store is sorted by id. So what is exported is consistent, costs
//! the cluster nothing but the backup, and comes in the same order every time.

mod house;
mod rows;
mod writer;

use std::{
    collections::BTreeMap,
    fs::OpenOptions,
    io::{self, BufWriter, ErrorKind, IsTerminal, Write},
    os::unix::fs::OpenOptionsExt,
    sync::Arc,
};

use boxoffice_core::{id::Entity, state_map::State};
use boxoffice_env::World;
use boxoffice_replication::inspect::{self, DirectoryContent};

use crate::{
    args::{Backup, Export, ExportKind},
    backup::{
        self,
        files::{Manifest, Reading},
        temporary::Temporary,
    },
    failure::{Failure, Outcome},
    progress::Progress,
};
use house::House;
use writer::ExportWriter;

/// The only shard of the restored directory besides its directory.
const SHARD: u16 = 1;

/// Writes one kind of facts.
pub fn run(args: &Export) -> Outcome {
    let temporary = Temporary::new("export")?;
    let dir = match &args.backup {
        Some(dir) => dir.clone(),
        None => {
            let dir = temporary.path().join("backup");
            backup::take(&Backup {
                dir: dir.clone(),
                members: args.members.clone(),
                wait: "60s".into(),
                full: true,
                node_args: args.node_args.clone(),
            })?;
            dir
        }
    };
    let manifest = Manifest::complete(&dir)?;
    let cut = backup::cut_of(&manifest, args.at.as_deref())?;
    let reading = Reading::at(&dir, &manifest, cut);
    reading.check()?;
    let data = temporary.path().join("data");
    backup::make(&reading, cut, &data, SHARD)?;
    let content =
        inspect::read(&World::standalone(), &data, |_| {}).map_err(|error| Failure::Node(error.to_string()))?;
    match &args.to {
        Some(path) => {
            // It has names and addresses of people.
            let file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(path)
                .map_err(|error| Failure::Usage(format!("cannot make {}: {error}", path.display())))?;
            let writer =
                ExportWriter::new(BufWriter::new(&file), args.csv, rows::columns(args.what)).map_err(failed)?;
            export(args, &content, writer).and_then(|()| file.sync_all().map_err(failed))
        }
        None => {
            let writer = ExportWriter::new(BufWriter::new(io::stdout().lock()), args.csv, rows::columns(args.what));
            export(args, &content, writer.map_err(failed)?)
        }
    }
}

fn failed(error: io::Error) -> Failure {
    Failure::Usage(format!("cannot write the export: {error}"))
}

/// Writes everything of the kind, by id.
fn export(args: &Export, content: &DirectoryContent, mut writer: ExportWriter<impl Write>) -> Outcome {
    let house = House::new(content);
    let is_of = |entity: &Entity| {
        matches!(
            (args.what, entity),
            (ExportKind::Orders, Entity::Cart(_))
                | (ExportKind::Sessions, Entity::Session(_))
                | (ExportKind::Bookings, Entity::Resource(_))
                | (ExportKind::Customers, Entity::Customer(_))
        )
    };
    let entities = content.shards.iter().flat_map(|shard| shard.kept.entities());
    let mut in_memory: BTreeMap<Entity, Arc<State>> = entities
        .filter(|(entity, _)| is_of(entity))
        .map(|(entity, state)| (entity.clone(), Arc::clone(state)))
        .collect();
    let mut outcome = Ok(());
    // Lines on the terminal show how far it is.
    let progress = (args.to.is_some() || !io::stdout().is_terminal()).then(|| Progress::of_items("exporting"));
    let mut write = |entity: &Entity, state: &State| {
        let id = id_of(entity);
        if outcome.is_ok() && args.after.as_ref().is_none_or(|after| id > *after) {
            outcome = rows::of(&id, state, &house).map_err(Ended::Failed).and_then(|document| {
                document.iter().try_for_each(|document| writer.write(document)).map_err(Ended::from)
            });
            progress.iter().for_each(|progress| progress.add(1));
        }
    };
    if let Some(store) = &content.history {
        let read = store.for_each_record(SHARD, |stored| {
            if !is_of(&stored.entity) || in_memory.contains_key(&stored.entity) {
                return;
            }
            while let Some(first) = in_memory.first_entry().filter(|first| *first.key() < stored.entity) {
                let (entity, state) = first.remove_entry();
                write(&entity, &state);
            }
            write(&stored.entity, &stored.state);
        });
        read.map_err(|error| Failure::Node(error.to_string()))?;
    }
    for (entity, state) in &in_memory {
        write(entity, state);
    }
    match outcome.and_then(|()| writer.end().map_err(Ended::from)) {
        Ok(()) | Err(Ended::NotRead) => Ok(()),
        Err(Ended::Failed(failure)) => Err(failure),
    }
}

/// Why no more is written.
enum Ended {
    /// The reader has closed the pipe, as `head` does.
    NotRead,
    Failed(Failure),
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Ended {
        match error.kind() {
            ErrorKind::BrokenPipe => Ended::NotRead,
            _ => Ended::Failed(failed(error)),
        }
    }
}

/// The first column of an entity's document.
fn id_of(entity: &Entity) -> String {
    let text = entity.to_string();
    text.split_once('/').map_or(text.clone(), |(_, id)| id.to_owned())
}
