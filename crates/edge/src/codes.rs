//! Codes that buyers show. Behind the port they are keyed hashes, so that no log, history or backup has one.

use std::{
    collections::{BTreeMap, VecDeque},
    net::IpAddr,
    time::Duration,
};

use boxoffice_core::{
    command::{CartCommand, CodeCommand, Command},
    id::Id,
    refusal::Refusal,
};
use boxoffice_env::secret::Secret;
use boxoffice_node::api;
use boxoffice_wire::Rejection;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use smol_str::SmolStr;
use tokio::time::Instant;
use tracing_mutex::parkinglot::Mutex;

use crate::{auth_failures::AuthFailures, network::ClientNetwork, planted};

/// How many bytes of a hash the id of a code has, so that two codes never share one.
const ID_BYTES: usize = 16;

/// Holds with a code that one network may have under way. Each could be a wrong one that is not counted yet.
const LOOKS_MAX: usize = 16;

/// For how long a hold counts as under way if its answer never comes, so that closing early saves nothing.
const LOOK_TIME: Duration = Duration::from_secs(10);

/// When a network that has too many holds under way may show the next code.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Networks with holds under way that are told apart. All others share one bound.
const NETWORKS_MAX: usize = 4_096;

/// Hides codes, and bounds how many a network may guess.
pub(crate) struct Codes {
    /// `None` if the node has no secret, and so takes no codes.
    mac: Option<Hmac<Sha256>>,
    failures: AuthFailures,
    /// When the holds under way of each network began.
    looks: Mutex<BTreeMap<Option<ClientNetwork>, VecDeque<Instant>>>,
    /// By how much a network waits longer for each further wrong code.
    step: Duration,
}

impl Codes {
    /// Hides codes with this secret, which all nodes of a cluster have for as long as there are codes.
    pub(crate) fn new(secret: Option<&Secret>, step: Duration) -> Codes {
        let mac =
            |Secret(secret): &Secret| Hmac::new_from_slice(secret.as_bytes()).expect("HMAC takes keys of any length");
        Codes { mac: secret.map(mac), failures: AuthFailures::default(), looks: Mutex::default(), step }
    }

    /// Puts the ids of their entities in place of the codes that a command shows. The desk does not guess, since it may read them.
    ///
    /// # Errors
    /// The node takes no codes, the command shows several, or the network has shown too many wrong ones.
    pub(crate) fn hide(
        &self,
        (address, now): (IpAddr, Instant),
        guesses: bool,
        command: &mut Command,
    ) -> Result<(), Rejection> {
        match command {
            Command::Code(code, CodeCommand::Put(_) | CodeCommand::Get) => {
                *code = self.id_of(code).ok_or_else(|| Rejection::bad_request(NO_SECRET))?;
            }
            Command::Cart(_, CartCommand::Hold { lines, .. })
                if lines.iter().any(|line| line.want.shown_code().is_some()) =>
            {
                let mut shown = lines.iter().filter_map(|line| line.want.shown_code());
                let first = shown.next();
                if shown.any(|other| Some(other) != first) {
                    return Err(Rejection::bad_request("one request shows one code"));
                }
                if self.mac.is_none() {
                    return Err(Refusal::CodeNotValid.into());
                }
                if guesses {
                    self.begin_look(address, now)?;
                }
                let id_of = |code: &Id| self.id_of(code).expect("looked at above");
                lines.iter_mut().for_each(|line| line.want.hide_code(&id_of));
            }
            _ => {}
        }
        Ok(())
    }

    /// Counts a hold with a code as under way.
    fn begin_look(&self, address: IpAddr, now: Instant) -> Result<(), Rejection> {
        let too_many = |wait: Duration, why| {
            let retry_after_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1);
            Err(Rejection::RateLimited { why: SmolStr::new_static(why), retry_after_ms: Some(retry_after_ms) })
        };
        if let Some(wait) = self.failures.wait(address, now) {
            return too_many(wait, "too many wrong codes from this network");
        }
        let is_over = |begun: &Instant| now.saturating_duration_since(*begun) >= LOOK_TIME;
        let mut looks = self.looks.lock();
        if looks.len() >= NETWORKS_MAX {
            looks.retain(|_, begun| begun.back().is_some_and(|begun| !is_over(begun)));
        }
        let network = network_in(&looks, address);
        let begun = looks.entry(network).or_default();
        while begun.front().is_some_and(is_over) {
            begun.pop_front();
        }
        if begun.len() >= LOOKS_MAX && !planted::is("codes are guessed side by side") {
            return too_many(LOOK_AGAIN, "too many holds with codes from this network at once");
        }
        begun.push_back(now);
        Ok(())
    }

    /// Ends a hold with a code that a caller without the role desk has shown, and counts a wrong code.
    pub(crate) fn note(&self, address: IpAddr, now: Instant, result: &api::Result) {
        {
            let mut looks = self.looks.lock();
            let network = network_in(&looks, address);
            if let Some(begun) = looks.get_mut(&network) {
                begun.pop_front();
                if begun.is_empty() {
                    looks.remove(&network);
                }
            }
        }
        let Ok(Err(refusal)) = result else { return };
        let is_wrong = match refusal {
            Refusal::CodeNotValid => true,
            Refusal::Lines(lines) => lines.iter().any(|line| line.refusal == Refusal::CodeNotValid),
            _ => false,
        };
        if is_wrong && !planted::is("wrong codes are looked at for ever") {
            // Its time is when the next code is looked at. This answer does not wait.
            let _ = self.failures.take_turn(address, now, self.step);
        }
    }

    fn id_of(&self, code: &Id) -> Option<Id> {
        let mut mac = self.mac.clone()?;
        mac.update(b"boxoffice code 1\0");
        mac.update(code.as_str().as_bytes());
        let bytes = mac.finalize().into_bytes();
        let digits: String = bytes[..ID_BYTES].iter().map(|byte| format!("{byte:02x}")).collect();
        Id::new(&digits)
    }
}

/// Whether a command holds with a code.
pub(crate) fn shows(command: &Command) -> bool {
    match command {
        Command::Cart(_, CartCommand::Hold { lines, .. }) => lines.iter().any(|line| line.want.shown_code().is_some()),
        _ => false,
    }
}

/// The network of an address, or `None` if it is not among those that are told apart and there is no room for it.
fn network_in(looks: &BTreeMap<Option<ClientNetwork>, VecDeque<Instant>>, address: IpAddr) -> Option<ClientNetwork> {
    let network = ClientNetwork::of(address);
    (looks.contains_key(&Some(network)) || looks.len() < NETWORKS_MAX).then_some(network)
}

const NO_SECRET: &str =
    "this node has no secret for codes: set listen.code_secret, the same on all nodes of the cluster";

#[cfg(test)]
mod tests {
    use boxoffice_core::{
        command::{BuyAs, CodeDetails, Want, WantedLine},
        id::{CartId, Entity},
        seat::{Seat, SeatSet},
    };

    use super::*;

    const STEP: Duration = Duration::from_millis(500);

    fn id(text: &str) -> Id {
        Id::new(text).expect("an id")
    }

    fn codes() -> Codes {
        Codes::new(Some(&Secret("sixteen letters or more".into())), STEP)
    }

    fn address() -> IpAddr {
        "192.0.2.1".parse().expect("an address")
    }

    fn hold(code: Option<&str>) -> Command {
        let seats = SeatSet::new([Seat { row: 0, seat: 1 }]).expect("a seat");
        let want = Want::Seats { seats, best_effort: false, buy_as: BuyAs::with_code(vec![], None, code.map(id)) };
        let lines = vec![WantedLine::new(Entity::Session(id("s")), want)];
        Command::Cart(
            CartId(1),
            CartCommand::Hold { lines, customer: None, guest: true, holder: None, attributes: Vec::new() },
        )
    }

    fn shown(command: &Command) -> Option<Id> {
        let Command::Cart(_, CartCommand::Hold { lines, .. }) = command else { panic!("{command:?}") };
        lines[0].want.shown_code().cloned()
    }

    #[test]
    fn a_code_is_hidden_wherever_it_is_shown_and_has_one_id() {
        let now = Instant::now();
        let codes = codes();
        let mut held = hold(Some("GLOBE-7Q2M"));
        codes.hide((address(), now), true, &mut held).expect("it is taken");
        let details = CodeDetails { group: id("members"), uses: 1, ended: false, by_order: false };
        for command in [CodeCommand::Put(details), CodeCommand::Get] {
            let mut command = Command::Code(id("GLOBE-7Q2M"), command);
            codes.hide((address(), now), true, &mut command).expect("it is taken");
            assert!(!format!("{command:?}{held:?}").contains("GLOBE"), "{command:?}");
            assert_eq!(Some(command.entity()), shown(&held).map(Entity::Code));
        }
        // An audit names the entity already, and another secret makes other ids.
        let mut audit = Command::Code(id("c5ce"), CodeCommand::Audit);
        codes.hide((address(), now), true, &mut audit).expect("it is taken");
        assert_eq!(audit.entity(), Entity::Code(id("c5ce")));
        let mut other = hold(Some("GLOBE-7Q2M"));
        let others = Codes::new(Some(&Secret("another secret of a house".into())), STEP);
        others.hide((address(), now), true, &mut other).expect("it is taken");
        assert_ne!(shown(&other), shown(&held));
    }

    #[test]
    fn a_node_without_a_secret_takes_no_codes() {
        let now = Instant::now();
        let codes = Codes::new(None, STEP);
        codes.hide((address(), now), true, &mut hold(None)).expect("it shows none");
        let no = codes.hide((address(), now), true, &mut hold(Some("GLOBE-7Q2M"))).expect_err("it has no secret");
        assert!(no.to_string().contains("not valid"), "{no}");
        let put = CodeCommand::Put(CodeDetails { group: id("members"), uses: 1, ended: false, by_order: false });
        let no = codes
            .hide((address(), now), true, &mut Command::Code(id("GLOBE-7Q2M"), put))
            .expect_err("it has no secret");
        assert!(no.to_string().contains("listen.code_secret"), "{no}");
    }

    /// The bound also holds for guesses that are sent before the first one is answered, and for those whose client closes early.
    #[test]
    fn few_codes_of_a_network_are_looked_at_side_by_side() {
        let now = Instant::now();
        let codes = codes();
        for _ in 0..LOOKS_MAX {
            codes.hide((address(), now), true, &mut hold(Some("guess"))).expect("there is room");
        }
        let no = codes.hide((address(), now), true, &mut hold(Some("guess"))).expect_err("too many at once");
        assert!(matches!(no, Rejection::RateLimited { .. }), "{no:?}");
        codes.hide((address(), now), false, &mut hold(Some("right"))).expect("the desk does not guess");
        codes.note(address(), now, &Ok(Err(Refusal::CartExpired)));
        codes.hide((address(), now), true, &mut hold(Some("guess"))).expect("one has ended");
        let now = now + LOOK_TIME;
        codes.hide((address(), now), true, &mut hold(Some("guess"))).expect("the others are given up");
        // One request shows one code, so no list of lines is a list of guesses.
        let mut many = hold(Some("guess"));
        let Command::Cart(_, CartCommand::Hold { lines, .. }) = hold(Some("another")) else { panic!("no hold") };
        let Command::Cart(_, CartCommand::Hold { lines: all, .. }) = &mut many else { panic!("no hold") };
        all.extend(lines);
        let no = codes.hide((address(), now), false, &mut many).expect_err("two codes");
        assert!(no.to_string().contains("one code"), "{no}");
    }

    #[test]
    fn wrong_codes_make_the_next_one_wait() {
        let now = Instant::now();
        let codes = codes();
        let wrong: api::Result = Ok(Err(Refusal::CodeNotValid));
        for _ in 0..3 {
            codes.hide((address(), now), true, &mut hold(Some("guess"))).expect("people mistype");
            codes.note(address(), now, &wrong);
        }
        codes.hide((address(), now), true, &mut hold(Some("guess"))).expect("the last one without a wait");
        codes.note(address(), now, &wrong);
        codes.hide((address(), now), false, &mut hold(Some("right"))).expect("the desk does not guess");
        let no = codes.hide((address(), now), true, &mut hold(Some("right"))).expect_err("it has to wait");
        assert!(matches!(no, Rejection::RateLimited { retry_after_ms: Some(500), .. }), "{no:?}");
        // Who shows none is not affected, and neither is another network.
        codes.hide((address(), now), true, &mut hold(None)).expect("it shows none");
        codes
            .hide(("198.51.100.1".parse().expect("an address"), now), true, &mut hold(Some("right")))
            .expect("another network");
        let now = now + STEP;
        codes.hide((address(), now), true, &mut hold(Some("right"))).expect("the time is over");
        codes.note(address(), now, &Ok(Err(Refusal::CartExpired)));
        codes.hide((address(), now), true, &mut hold(Some("right"))).expect("another refusal does not count");
    }
    #[test]
    #[cfg(debug_assertions)]
    fn planted_faults_are_found() {
        for (fault, test) in [
            ("codes are guessed side by side", "few_codes_of_a_network_are_looked_at_side_by_side"),
            ("wrong codes are looked at for ever", "wrong_codes_make_the_next_one_wait"),
        ] {
            let mut command = std::process::Command::new(std::env::current_exe().expect("this program"));
            command.args(["--exact", &format!("codes::tests::{test}")]).env("BOXOFFICE_PLANTED_EDGE", fault);
            let output = command.output().expect("it runs");
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(text.contains("1 failed"), "{test} does not find that {fault}: {text}");
        }
    }
}
