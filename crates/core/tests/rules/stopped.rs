//! A leader that was stopped and goes on: it does not know that another one leads, and may be told anything that was said
//! since, or a part of it. Nothing it says then is heard, for none of it can be committed; but it must not fall over.

use std::sync::Arc;

use boxoffice_core::{
    host::{Host, Turn},
    id::Entity,
    keep::Kept,
    time::Timestamp,
};

use crate::{
    storm::{Dice, aftermath},
    town::{Message, Ticket, Town},
};

const SEEDS: u64 = 500;

/// The entity as it was when the log had so many events, led by somebody who then hears some of what was ever said to it.
fn stop(town: &Town, entity: &Entity, after: usize, dice: &mut Dice) {
    let mut kept = Kept::new();
    let events = town.log[..after].iter().filter(|(of, _)| of == entity);
    events.for_each(|(of, event)| kept.apply(of, vec![event.clone()]));
    let mut host: Host<Ticket> = Host::new(entity.clone(), kept.get(entity), Arc::new(town.rules().clone()));
    let mut turn = Turn::default();
    let mut at = Timestamp(0);
    for Message { input, .. } in town.posted.iter().filter(|message| message.to == *entity) {
        if dice.roll(100) < 30 {
            continue;
        }
        at = at.max(Timestamp(dice.roll(town.now.0 + 1)));
        turn.clear();
        host.handle(at, input.clone(), &mut turn);
    }
}

#[test]
fn inventories_that_were_stopped() {
    for seed in 0..SEEDS {
        let town = aftermath(seed);
        let mut dice = Dice(seed);
        let entities = town.kept.entities().map(|(entity, _)| entity.clone());
        let inventories: Vec<Entity> = entities
            .filter(|entity| match entity {
                Entity::Session(_) | Entity::Product(_) | Entity::Resource(_) | Entity::Customer(_) => true,
                Entity::Cart(_) | Entity::Venue(_) | Entity::Directory | Entity::Cluster => false,
            })
            .collect();
        for entity in inventories {
            for _ in 0..12 {
                let after = town.turns[dice.roll(town.turns.len() as u64) as usize];
                println!("seed {seed}: {entity} was stopped after event {after}");
                stop(&town, &entity, after, &mut dice);
            }
        }
    }
}
