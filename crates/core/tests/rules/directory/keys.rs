//! Keys: one by its name, and the version with the last change of any.

use boxoffice_core::{
    access::{NewKey, Role, Roles},
    answer::Answer,
    command::{Command, DirectoryCommand, Title},
    id::{Entity, Id},
    rules::Rules,
    state_map::State,
};

use crate::fixture::Fixture;

fn id(name: &str) -> Id {
    Id::new(name).expect("a good id")
}

/// Sends a command. Returns the answer, and the directory's version with it.
fn ask(fixture: &mut Fixture, request: Option<&str>, command: DirectoryCommand) -> (Answer, u64) {
    let ticket = fixture.send(request, Command::Directory(command));
    fixture.run();
    let answered = fixture.answers[&ticket].clone().expect("it is granted");
    (answered.answer, answered.at.first().expect("the directory has answered").version)
}

fn versions(fixture: &Fixture) -> (u64, u64) {
    match fixture.states.get(&Entity::Directory).as_deref() {
        Some(State::Directory(directory)) => (directory.keys_version(), directory.version()),
        _ => (0, 0),
    }
}

#[test]
pub(crate) fn a_key_is_found_by_its_name_at_a_version() {
    let mut fixture = Fixture::new(Rules::default());
    let terms = NewKey {
        hash: [7; 32],
        roles: Roles::of(Role::Desk),
        venues: Vec::new(),
        requests_per_second: None,
        held_max: None,
    };
    let till = DirectoryCommand::Key { name: id("till") };
    assert_eq!(ask(&mut fixture, None, till.clone()), (Answer::Keys(Vec::new()), 0));
    let create = DirectoryCommand::CreateKey { name: id("till"), terms: Box::new(terms.clone()) };
    let (_, made_at) = ask(&mut fixture, Some("create"), create);
    assert_eq!(versions(&fixture), (made_at, made_at));
    let title =
        Title { name: "Play".into(), director: "".into(), cast: Vec::new(), comments: "".into(), duration_ms: None };
    let (_, put_at) = ask(&mut fixture, Some("title"), DirectoryCommand::PutTitle(id("t"), title));
    assert_eq!(versions(&fixture), (made_at, put_at), "a title is no key");
    let (Answer::Keys(found), at) = ask(&mut fixture, None, till.clone()) else { panic!("keys are keys") };
    assert_eq!((found.len(), &found[0].0, &found[0].1.terms, at), (1, &id("till"), &terms, put_at));
    let (other, _) = ask(&mut fixture, None, DirectoryCommand::Key { name: id("till-2") });
    assert_eq!(other, Answer::Keys(Vec::new()));
    let (_, revoked_at) = ask(&mut fixture, Some("revoke"), DirectoryCommand::RevokeKey { name: id("till") });
    assert_eq!(ask(&mut fixture, None, till), (Answer::Keys(Vec::new()), revoked_at));
    assert_eq!(versions(&fixture), (revoked_at, revoked_at));
}
