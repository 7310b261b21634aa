//! Questions about keys that this node's copy of the directory does not have. The directory's leader answers them, so a key
//! works at every node as soon as it was made.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc, time::Duration};

use boxoffice_core::{
    access::AccessKey,
    answer::{Answer, Answered},
    command::{Command, DirectoryCommand},
    id::Id,
};
use boxoffice_node::api::{self, ReplySink, ReplyTo};
use tokio::{
    sync::{oneshot, watch},
    time::{Instant, timeout, timeout_at},
};
use tracing_mutex::parkinglot::Mutex;

use crate::{Backend, network::ClientNetwork, planted};

/// Questions that one network may cause in [`WINDOW`]. Further keys that this node does not know are refused.
const ASKED_MAX: u32 = 10;
const WINDOW: Duration = Duration::from_secs(1);

/// Networks whose questions are counted. No further network asks before one of them is forgotten.
const NETWORKS_MAX: usize = 4_096;

/// Questions of this node that wait for the directory at the same time.
const UNDER_WAY_MAX: usize = 64;

/// How long the directory's leader may take. A caller waits no longer for a key.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// What the directory's leader says about a key.
#[derive(Clone, Debug)]
pub(crate) enum KeyAnswer {
    /// The key, and the version of the directory that has it.
    Key { key: Arc<AccessKey>, directory: u64 },
    /// There is no such key.
    None,
    /// The network has asked too often, so nobody was asked.
    Limited,
    /// No answer came in time.
    Unknown,
}

/// The questions under way, and how many each network has caused.
#[derive(Debug, Default)]
pub(crate) struct KeyQuestions(Mutex<Asked>);

#[derive(Debug, Default)]
struct Asked {
    /// The beginning of each network's window, and the questions in it.
    networks: BTreeMap<ClientNetwork, (Instant, u32)>,
    /// Questions under way. All callers that show the same key wait for one answer.
    under_way: BTreeMap<Id, watch::Receiver<Option<KeyAnswer>>>,
}

enum Begun {
    /// Asked by another caller before.
    Shared(watch::Receiver<Option<KeyAnswer>>),
    Own(watch::Sender<Option<KeyAnswer>>, watch::Receiver<Option<KeyAnswer>>),
    Not(KeyAnswer),
}

/// Asks the directory's leader. The answer is as new as the question.
fn put_question(backend: &Arc<dyn Backend>, name: &Id) -> impl Future<Output = KeyAnswer> + Send + use<> {
    let (told, tell) = oneshot::channel();
    let timeout_ms = u64::try_from(ANSWER_TIMEOUT.as_millis()).unwrap_or(u64::MAX);
    let reply = ReplyTo::new(Arc::new(Once(Mutex::new(Some(told)))), 0).with_timeout(timeout_ms);
    backend.submit(Command::Directory(DirectoryCommand::Key { name: name.clone() }), None, reply);
    async move {
        let told = timeout(ANSWER_TIMEOUT, tell).await;
        let Ok(Ok(Ok(Ok(Answered { answer: Answer::Keys(keys), at })))) = told else { return KeyAnswer::Unknown };
        let directory = at.first().map_or(0, |at| at.version);
        let key = keys.into_iter().next();
        key.map_or(KeyAnswer::None, |(_, key)| KeyAnswer::Key { key: Arc::new(key), directory })
    }
}

async fn told(mut answer: watch::Receiver<Option<KeyAnswer>>) -> KeyAnswer {
    match answer.wait_for(Option::is_some).await {
        Ok(told) => told.clone().unwrap_or(KeyAnswer::Unknown),
        Err(_) => KeyAnswer::Unknown,
    }
}
impl KeyQuestions {
    /// Asks the directory's leader about a key for a caller of this network.
    pub(crate) async fn ask(
        self: &Arc<KeyQuestions>,
        backend: &Arc<dyn Backend>,
        address: IpAddr,
        name: &Id,
    ) -> KeyAnswer {
        if planted::is("nobody is asked about a key") {
            return KeyAnswer::None;
        }
        let until = Instant::now() + ANSWER_TIMEOUT;
        let mut may_be_older = true;
        loop {
            let (is_own, answer) = match self.begin(address, name, Instant::now()) {
                Begun::Not(answer) => return answer,
                Begun::Shared(answer) => (false, answer),
                Begun::Own(told, answer) => {
                    let (questions, name, asked) = (Arc::clone(self), name.clone(), put_question(backend, name));
                    // A task of its own, because others may wait for the answer when this caller is gone.
                    tokio::spawn(async move {
                        let answer = asked.await;
                        questions.0.lock().under_way.remove(&name);
                        // The callers may be gone.
                        let _ = told.send(Some(answer));
                    });
                    (true, answer)
                }
            };
            match timeout_at(until, told(answer)).await {
                // That question may be older than the key, or out of time already, so it says nothing for this caller.
                Ok(KeyAnswer::None | KeyAnswer::Unknown) if !is_own && may_be_older => may_be_older = false,
                Ok(answer) => return answer,
                Err(_) => return KeyAnswer::Unknown,
            }
        }
    }

    fn begin(&self, address: IpAddr, name: &Id, now: Instant) -> Begun {
        let mut asked = self.0.lock();
        if let Some(answer) = asked.under_way.get(name) {
            return Begun::Shared(answer.clone());
        }
        if asked.under_way.len() >= UNDER_WAY_MAX {
            return Begun::Not(KeyAnswer::Unknown);
        }
        if !asked.charge(ClientNetwork::of(address), now) {
            return Begun::Not(KeyAnswer::Limited);
        }
        let (told, answer) = watch::channel(None);
        asked.under_way.insert(name.clone(), answer.clone());
        Begun::Own(told, answer)
    }
}

impl Asked {
    /// Charges a question to a network. Returns whether it may be put.
    fn charge(&mut self, network: ClientNetwork, now: Instant) -> bool {
        let is_recent = |begun: Instant| now.saturating_duration_since(begun) < WINDOW;
        if self.networks.len() >= NETWORKS_MAX && !self.networks.contains_key(&network) {
            self.networks.retain(|_, (begun, _)| is_recent(*begun));
            if self.networks.len() >= NETWORKS_MAX {
                return false;
            }
        }
        let (begun, count) = self.networks.entry(network).or_insert((now, 0));
        if !is_recent(*begun) {
            (*begun, *count) = (now, 0);
        }
        *count += 1;
        *count <= ASKED_MAX
    }
}

/// Takes one answer.
struct Once(Mutex<Option<oneshot::Sender<api::Result>>>);

impl ReplySink for Once {
    fn answer(&self, _: u64, result: api::Result) {
        if let Some(told) = self.0.lock().take() {
            // The question may have timed out.
            let _ = told.send(result);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> Id {
        Id::new(name).expect("a good id")
    }

    fn address(number: u32) -> IpAddr {
        IpAddr::from(number.to_be_bytes())
    }

    #[test]
    fn questions_are_limited_by_network_and_in_memory() {
        let (questions, now) = (KeyQuestions::default(), Instant::now());
        let ask = |from: u32, name: &str, at: Instant| {
            let begun = questions.begin(address(from), &id(name), at);
            if matches!(begun, Begun::Own(..)) {
                questions.0.lock().under_way.clear();
            }
            begun
        };
        for number in 0..ASKED_MAX {
            assert!(matches!(ask(1, &format!("k{number}"), now), Begun::Own(..)));
        }
        assert!(matches!(ask(1, "one-more", now), Begun::Not(KeyAnswer::Limited)));
        assert!(matches!(ask(2, "one-more", now), Begun::Own(..)), "another network may ask");
        assert!(matches!(ask(1, "one-more", now + WINDOW), Begun::Own(..)));
        for network in 0..2 * NETWORKS_MAX as u32 {
            ask(network, "k", now);
        }
        assert_eq!(questions.0.lock().networks.len(), NETWORKS_MAX);
        assert!(matches!(ask(0xffff_ffff, "k", now), Begun::Not(KeyAnswer::Limited)));
        assert!(matches!(ask(0xffff_ffff, "k", now + 2 * WINDOW), Begun::Own(..)));
    }

    #[test]
    fn callers_with_the_same_key_share_a_question_and_a_node_asks_few_at_once() {
        let (questions, now) = (KeyQuestions::default(), Instant::now());
        let _own = questions.begin(address(1), &id("till"), now);
        for number in 0..100 {
            assert!(matches!(questions.begin(address(number), &id("till"), now), Begun::Shared(_)));
        }
        for number in 1..UNDER_WAY_MAX as u32 {
            assert!(matches!(questions.begin(address(number), &id(&format!("k{number}")), now), Begun::Own(..)));
        }
        assert!(matches!(questions.begin(address(999), &id("other"), now), Begun::Not(KeyAnswer::Unknown)));
    }
}
